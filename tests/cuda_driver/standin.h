/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the CUDA driver: a libcuda.so.1 that keeps the driver's rules in host memory.
 * Code for a GPU runs, and is checked, on a machine without one. Tests and their "kernels" see
 * this file beside the driver's own calls.
 *
 * Two views. The CPU and the GPU see different things at the same address, as on the real
 * machine. cuMemAddressReserve() takes the range for the CPU (inaccessible; the program may map
 * over it). Elsewhere it takes a shadow of the same size that only the stand-in knows.
 * cuMemMap() maps into the shadow. A kernel is a C function called once for each block of the
 * grid. It gets addresses as a GPU would, and turns each into a pointer with ptr(). ptr() checks
 * that every byte is mapped and accessible for this device. If not, the kernel ends there and
 * the context is lost with CUDA_ERROR_ILLEGAL_ADDRESS.
 *
 * Rules and codes are those of a driver for CUDA 13.0 on an H200. The real driver crashes or
 * corrupts memory on some errors (a destroyed handle, say). There the stand-in returns an error.
 * Each broken rule is also a line of the violations' list.
 *
 * Captures: work given to a captured stream becomes a node of a graph. While a capture in GLOBAL
 * mode is on, calls that may wait are refused to other threads, too, unless they have exchanged
 * their mode. A refused call spoils the capture. One stream is captured; for more see graph.c.
 *
 * Stricter: queued or running work may still name memory that is unmapped, or pinned memory that
 * is freed. That is a violation even if the work would have succeeded.
 *
 * Environment, read when the library is loaded, sizes as "64M":
 *   CUDA_STANDIN_DEVICES         number of devices (1; 0: cuInit returns NO_DEVICE)
 *   CUDA_STANDIN_DEVICE_BYTES    memory of each (256M)
 *   CUDA_STANDIN_SHARED          a file: processes that name the same one share the memory of the
 *                                devices (shared.c)
 *   CUDA_STANDIN_HOST_BYTES      bytes that may be pinned or host-located in all (1G)
 *   CUDA_STANDIN_VERSION         result of cuDriverGetVersion() (13000)
 *   CUDA_STANDIN_MIG             set: a device is this part of a GPU, as its name says ("1g.10gb")
 *   CUDA_STANDIN_INIT            code that cuInit() returns (0)
 *   CUDA_STANDIN_NO_VMM, CUDA_STANDIN_NO_HOST_VMM   set: the attribute is 0, the calls refuse
 *   CUDA_STANDIN_NO_MIXED        set: copies and fills of a range partly in device and partly in
 *                                host memory are refused (INVALID_VALUE)
 *   CUDA_STANDIN_NO_NAMES        set: cuFuncGetName() is not supported
 *   CUDA_STANDIN_HIDE_MAPS       set: tensor maps do not show their address as a word
 *   CUDA_STANDIN_FAIL            failures to inject, as for fail_set()
 *   CUDA_STANDIN_FILL            byte with which new device memory is filled (0)
 *   CUDA_STANDIN_BLOCKS          blocks of one launch that run at once (1)
 *   CUDA_STANDIN_LATE_US         queued work runs late: when it is awaited, at most so late (0)
 *   CUDA_STANDIN_COPY_BYTES_PER_S   rate of copies at most (unlimited)
 *   CUDA_STANDIN_LINK_BYTES_PER_S   rate at which kernels reach host memory: the times of events tell
 *                                it, nobody waits for it, and all else takes no time. So they are
 *                                the same however busy the machine is (unset: the real times)
 *   CUDA_STANDIN_PIN_BYTES_PER_S    rate at which host memory is pinned at most (unlimited)
 *   CUDA_STANDIN_STRICT          set: violations or leaks end the process with 97 at exit
 *   CUDA_STANDIN_QUIET           set: leaks at exit are not printed
 *   CUDA_STANDIN_VERBOSE         set: violations are printed as they happen
 *
 * Threads: everything from any thread. One stream is one thread.
 */
#ifndef SL_TESTS_STANDIN_H
#define SL_TESTS_STANDIN_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

/* One block of a launch; what a kernel knows of where it is. */
struct sl_standin_block {
	unsigned grid[3], index[3], threads[3]; /* threads: the block's, for the C function
						 * to loop over */
	unsigned shared_bytes;
	const char *kernel;
	int device;
	void *private; /* the stand-in's */
};

/* What copies_hold() holds: copies to the GPU's memory and from it; 0 holds none. */
#define SL_STANDIN_COPIES_IN  1
#define SL_STANDIN_COPIES_OUT 2

/* For kernels: what they touch is no memory that sanitizers know. ptr() has checked it. */
#define SL_STANDIN_KERNEL __attribute__((no_sanitize("address", "undefined")))

/* params[i] points to a copy of the i-th argument. */
typedef void (*sl_standin_function)(const struct sl_standin_block *block,
				    void *const *params);

struct sl_standin_kernel {
	const char *name; /* static storage */
	sl_standin_function function;
	size_t n_params;
	size_t param_bytes[16];
};

enum sl_standin_access { SL_STANDIN_READ = 1, SL_STANDIN_WRITE = 2 };

/* Things that must be given back; leaks() counts them. */
struct sl_standin_live {
	size_t handles, mappings, reservations, plain, pinned, registered;
	size_t streams, events, modules, contexts;
	size_t graphs;       /* and what was instantiated of them */
	uint64_t host_bytes; /* pinned, registered or host-located */
};

struct sl_standin {
	/* For kernels, on the thread that runs the block only. */

	/* Pointer to [addr, addr + bytes) in the GPU's view; does not return when a byte of it
	 * is not mapped, or not with this access. The mapping counts as in use until the
	 * block ends or drops it. */
	void *(*ptr)(const struct sl_standin_block *block, uint64_t addr, size_t bytes,
		     int access);
	/* This block will not touch the range any more: it may be unmapped while the kernel
	 * runs on. */
	void (*drop)(const struct sl_standin_block *block, uint64_t addr, size_t bytes);

	/* For loops that wait for the host or another block: lets others run, and does not
	 * return once the context is lost. */
	void (*pause)(const struct sl_standin_block *block);

	/* Make a kernel known to cuModuleGetFunction(), in all modules, for ever. A later one of
	 * the same name takes its place for functions got later. */
	void (*kernel_register)(const struct sl_standin_kernel *kernel);

	/*
	 * Broken rules so far, and the text of the last ("" when none). buf is filled and
	 * returned. reset: forget them.
	 */
	uint64_t (*violations)(void);
	char *(*last_violation)(char *buf, size_t buf_bytes);
	void (*violations_reset)(void);

	/*
	 * Calls of a driver function by exported name ("cuMemMap"), or of all ("*"), since
	 * the last reset; also of "pageable" (asynchronous copies from or to memory that is
	 * not pinned). UINT64_MAX: no such name.
	 */
	uint64_t (*calls)(const char *name);
	void (*calls_reset)(void);

	/*
	 * Inject failures: "cuMemMap:3:CODE" lets the third call from now return CODE (a number;
	 * default 304, CUDA_ERROR_OPERATING_SYSTEM) without doing anything, "cuMemMap:3+:2" this and all
	 * later ones. "*" counts all calls together but cuEventQuery() and cuStreamQuery(), which are
	 * asked as often as time allows. "exec.copy", "exec.memset" and
	 * "exec.kernel" fail when the work is run: the context is lost with that code. A code
	 * that leaves no usable context loses it anyway. Several, comma-separated. Replaces what was
	 * set; NULL or "": none. -1: cannot be read. fail_fired: how many have been injected.
	 */
	int (*fail_set)(const char *spec);
	uint64_t (*fail_fired)(void);

	/* The device's context fails from now on with code. */
	void (*lose_context)(int device, int code);

	/* Begin a capture of the stream that no call but those on it spoils (RELAXED), by nobody;
	 * 0: end it without a graph. -1: no such stream. */
	int (*stream_capture)(void *stream, int on);

	/* Memory that another process has taken on a device: less is free. */
	void (*memory_taken_set)(int device, uint64_t bytes);

	/* No copy of these directions begins from now on, in any stream, until a call says otherwise.
	 * One that is under way ends. A test then sees copies queued, however busy the machine is. */
	void (*copies_hold)(int which);

	/* Is [addr, addr + bytes) mapped, with this access, in the GPU's view of a device? And
	 * its contents there, copied out (0, or -1 when not). For tests; counts no call. */
	int (*mapped)(int device, uint64_t addr, size_t bytes, int access);
	int (*peek)(int device, uint64_t addr, void *to, size_t bytes);

	/* Bytes of host-located memory that kernels have reached: of each range that they asked
	 * for, as often as they did. */
	uint64_t (*reached)(void);

	/* What exists and was not given back. Contexts and what lives in them are gone with the
	 * last release of the primary context. */
	void (*live)(struct sl_standin_live *out);
};

/* The table, by dlsym(library, "sl_standin_table"). */
const struct sl_standin *sl_standin_table(void);

/* What the calling thread's last call of a name was that the stand-in only exports, and of which it
 * returns CUDA_ERROR_NOT_SUPPORTED. */
struct sl_standin_filled {
	const char *name; /* NULL: there was none */
	uint64_t words[8]; /* arguments as if all were integers; six of them in registers */
	double real; /* and as if the first one in a vector register were a double */
};

/* By dlsym(library, "sl_standin_filled"). */
const struct sl_standin_filled *sl_standin_filled(void);

/* The table of the library at path; NULL when it cannot be loaded or is a real driver. */
static inline const struct sl_standin *
sl_standin_open(const char *path)
{
	const struct sl_standin *(*table)(void) = NULL;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (library)
		*(void **)&table = dlsym(library, "sl_standin_table");
	return table ? table() : NULL;
}

/*
 * What cuModuleLoadData() takes: text that begins with SL_STANDIN_IMAGE, followed by lines
 * "global NAME BYTES" (a zeroed variable in device memory); or PTX, or an ELF image, of which only
 * the names count: a function's C twin must have been registered under the same name.
 */
#define SL_STANDIN_IMAGE "sl-standin-module\n"

#endif
