/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the workloads: the state of one run (struct workload_env), what a workload's functions
 * may call during it, the description of its kernels, and the contract of the kinds of memory a run
 * can work on.
 *
 * A workload sees its arrays as plain pointers in env->base[], launches kernels with
 * workload_launch(), and never knows which memory is behind them, nor which device. The order of
 * a run is in run.c; files.c makes and removes the files; memory_sluice.c, memory_mmap.c and
 * cuda/memory_*.c are the kinds of memory.
 *
 * Threads: all functions on the thread of workload_run().
 */
#ifndef WORKLOADS_ENV_H
#define WORKLOADS_ENV_H

#include "workload.h"

#define WORKLOAD_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Elements that one block of a kernel works on: large enough that starting a block (well under
 * a microsecond) does not matter, small enough that a few workers share a chunk evenly. */
#define WORKLOAD_BLOCK_ELEMENTS (16u << 10)

#define WORKLOAD_KERNEL_ARGS_MAX 512u
#define WORKLOAD_POINTERS_MAX    40u
#define WORKLOAD_HOST_COPY_MAX   (4u << 20)

struct workload_env;

/* What one piece of a kernel touches through one of its pointers: elements of 4 bytes, counted
 * from where the pointer points. n 0: nothing. */
struct workload_touch {
	uint64_t first, n;
	int read, write;
};

/*
 * A kernel: works on n elements (its arguments say how many) in pieces, in any order, any number at
 * once.
 * Its arguments are one structure, at most WORKLOAD_KERNEL_ARGS_MAX bytes, whose pointers into
 * the arrays are known, so that a memory may give it other ones.
 */
struct workload_kernel {
	const char *name;       /* of its twin in cuda/kernels.cu */
	uint32_t soft_elements; /* of one piece on the software device */
	uint32_t cuda_elements; /* on a GPU: as in cuda/kernels.cu */
	size_t args_bytes;
	unsigned n_pointers;
	size_t pointer[WORKLOAD_POINTERS_MAX];  /* where in the arguments */
	uint64_t (*elements)(const void *args); /* n */
	/* Elements [begin, end): begin is a multiple of the piece's size. */
	void (*piece)(const void *args, uint64_t begin, uint64_t end);
	/* What a GPU does in place of a kernel of ours; NULL: nothing does. */
	const struct workload_library *library;
	/* What that touches, at most: n_pointers entries, all zero on entry. */
	void (*touch)(const void *args, uint64_t begin, uint64_t end,
		      struct workload_touch *touch);
};

struct sl_cuda_driver;

/* A library that is opened at run time. All: 0 or -errno with env's error text set. */
struct workload_library {
	/* For the stand-in driver, where the kernel's piece() runs. */
	int (*open_soft)(struct workload_env *env);
	/* *out: for close(), which takes NULL; before the context goes. */
	int (*open)(struct workload_env *env, const struct sl_cuda_driver *driver,
		    void **out);
	void (*close)(void *library);
	/* Enqueue; args: with addresses as the GPU is to use them. Does not wait. */
	int (*launch)(struct workload_env *env, void *library, const void *args,
		      void *stream);
};

/* What a kind of memory does. All: 0 or -errno with env's error text set. */
struct workload_memory_ops {
	int (*open)(struct workload_env *env);
	void (*close)(struct workload_env *env); /* fine after a failed open */
	int (*map)(struct workload_env *env, unsigned array, const char *path);
	int (*sync)(struct workload_env *env, unsigned array);
	int (*unmap)(struct workload_env *env, unsigned array);
	int (*launch)(struct workload_env *env, const struct workload_kernel *kernel,
		      uint64_t n, const void *args, const struct sluice_use *uses,
		      size_t n_uses);
	int (*wait)(struct workload_env *env); /* until all launches are done */
	int (*pace)(struct workload_env *env); /* until few launches are not done */
	int (*discard)(struct workload_env *env, void *addr, size_t bytes,
		       enum sluice_discard_mode mode);
	int (*pin)(struct workload_env *env, void *addr, size_t bytes);
	int (*unpin)(struct workload_env *env, void *addr, size_t bytes);
	void (*stats)(struct workload_env *env, struct sluice_stats *out);
	/* Start bringing elements of an array to the device, by index; and whether the ranges of
	 * uses are there now. NULL: there is no such thing, what launches use is brought in by
	 * them. */
	int (*prefetch_index)(struct workload_env *env, unsigned array,
			      uint64_t element_bytes, const uint64_t *index, size_t n);
	int (*is_resident)(struct workload_env *env, const struct sluice_use *uses,
			   size_t n_uses, int *out);
	/* As workload_host_copy(), after a wait. NULL: host code reads the array itself. */
	int (*host_copy)(struct workload_env *env, unsigned array, uint64_t first,
			 uint64_t cols, uint64_t stride, uint64_t rows, void *out);
	/*
	 * Rounds (workload.h), where there are any: begin, with everything of the last one done and
	 * the arrays as their files or workload_run() left them; 1: not this round. end, after a
	 * wait: bring the results of the measured round to host memory. NULL: a run is one round.
	 */
	int (*round_begin)(struct workload_env *env, enum workload_round round);
	int (*round_end)(struct workload_env *env, enum workload_round round);
};

/* Operations that do nothing, for memory without them. stats: all zeros. */
int workload_no_wait(struct workload_env *env);
int workload_no_discard(struct workload_env *env, void *addr, size_t bytes,
			enum sluice_discard_mode mode);
int workload_no_pin(struct workload_env *env, void *addr, size_t bytes);
void workload_no_stats(struct workload_env *env, struct sluice_stats *out);

extern const struct workload_memory_ops workload_memory_sluice;
extern const struct workload_memory_ops workload_memory_sluice_cuda;
extern const struct workload_memory_ops workload_memory_mmap;
extern const struct workload_memory_ops workload_memory_copies;
extern const struct workload_memory_ops workload_memory_streaming;
extern const struct workload_memory_ops workload_memory_mapped;

struct workload_env {
	const struct workload *workload;
	const struct workload_params *params;
	struct workload_result *result;
	struct workload_plan plan;
	struct sluice_config config; /* in force */
	char dir[PATH_MAX];          /* "DIR/sluice-NAME" */
	int lock_fd;
	const struct workload_memory_ops *memory;
	void *memory_state;              /* of memory */
	void *base[WORKLOAD_ARRAYS_MAX]; /* NULL: not mapped */
	/* Rounds: what arrays changed in place were before the first one; else NULL. */
	void *pristine[WORKLOAD_ARRAYS_MAX];
};

/* Set the run's error text, return rc. */
int workload_fail(struct workload_env *env, int rc, const char *fmt, ...)
	WORKLOAD_PRINTF(3, 4);

/* -ENOMEM: "what" takes more than a budget has, in bytes. */
int workload_fail_budget(struct workload_env *env, const char *what, uint64_t need,
			 uint64_t have);

/* "what: <the library's last error>", return rc. */
int workload_fail_library(struct workload_env *env, int rc, const char *what);

/* Tell the caller how far a phase is; -ECANCELED when it wants the run to end. */
int workload_progress(struct workload_env *env, const char *phase,
		      double fraction) SLUICE_MUST_CHECK;

uint64_t workload_now_ns(void);

/* ---- running ---- */

/*
 * Launch kernel. With presence "fault" the uses are dropped. Returns once enqueued; errors of
 * earlier launches may come from any later call.
 */
int workload_launch(struct workload_env *env, const struct workload_kernel *kernel,
		    const void *args, const struct sluice_use *uses,
		    unsigned n_uses) SLUICE_MUST_CHECK;

/*
 * Wait for everything launched, then copy rows of cols elements, each stride after the one before,
 * from element first of an array to out, one row behind the other: what host code needs of a large
 * array between launches. At most WORKLOAD_HOST_COPY_MAX bytes.
 */
int workload_host_copy(struct workload_env *env, unsigned array, uint64_t first,
		       uint64_t cols, uint64_t stride, uint64_t rows,
		       void *out) SLUICE_MUST_CHECK;

/* A launch on threads of this machine: what workload_soft_block(), a kernel of the software
 * device, is given. */
struct workload_soft_args {
	const struct workload_kernel *kernel;
	uint64_t n;
	_Alignas(16) unsigned char args[WORKLOAD_KERNEL_ARGS_MAX];
};

uint32_t workload_soft_blocks(const struct workload_kernel *kernel, uint64_t n);
size_t workload_soft_make(struct workload_soft_args *soft,
			  const struct workload_kernel *kernel, uint64_t n,
			  const void *args);
void workload_soft_block(const struct sluice_block *block, void *args);

/* Wait for everything launched. */
int workload_wait(struct workload_env *env) SLUICE_MUST_CHECK;

/* Say that tile done of total has been enqueued: bounds how far launches run ahead (so that
 * progress means something and a cancelled run ends soon) and reports progress. */
int workload_tile_done(struct workload_env *env, uint64_t done,
		       uint64_t total) SLUICE_MUST_CHECK;

/* A use of elements [first, first + n) of a 4-byte array. */
struct sluice_use workload_use(struct workload_env *env, unsigned array, uint64_t first,
			       uint64_t n, enum sluice_intent intent);

/*
 * Elements of 4 bytes per tile, when a launch works on the same range of n_arrays arrays, one of
 * them with halo_bytes more on either side: whole chunks, at least one. Tiles that start at
 * multiples of it start at chunk boundaries, so that write-all covers whole chunks.
 */
uint64_t workload_tile_elements(struct workload_env *env, unsigned n_arrays,
				uint64_t halo_bytes);

/* The unit of residency of the largest arrays. */
uint64_t workload_chunk_bytes(const struct workload_env *env);

/* Note the size of a launch's declared set, for the result. */
void workload_note_tile(struct workload_env *env, const struct sluice_use *uses,
			unsigned n_uses);

static inline uint64_t
workload_blocks(uint64_t elements, uint64_t per_block)
{
	return (elements + per_block - 1) / per_block;
}

/* ---- planning ---- */

/* Reason of a refused plan into error, returns -EINVAL. */
int workload_plan_refuse(char *error, const char *fmt, ...) WORKLOAD_PRINTF(2, 3);

/* Largest r with r * r <= n. */
uint64_t workload_isqrt(uint64_t n);

/* ---- expecting ---- */

static inline uint64_t
workload_chunks_up(const struct workload_env *env, uint64_t bytes)
{
	uint64_t chunk = env->config.chunk_bytes;

	return (bytes + chunk - 1) / chunk * chunk;
}

static inline uint64_t
workload_less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* ---- verifying ---- */

/*
 * Elements [first, first + n) of a generated array as they were before the run: from its file
 * if the run cannot have changed it, else generated again.
 */
int workload_input_read(struct workload_env *env, unsigned array, uint64_t first,
			size_t n, void *out) SLUICE_MUST_CHECK;

enum workload_element { WORKLOAD_F32, WORKLOAD_I32 };

/*
 * Compare elements [first, first + n) of an array's file with what they should be. 0: equal so
 * far; 1: different (result->mismatch names the first element); negative: cannot be read.
 */
int workload_output_compare(struct workload_env *env, unsigned array,
			    enum workload_element kind, uint64_t first, size_t n,
			    const void *expected) SLUICE_MUST_CHECK;

/*
 * Run a reference in memory of its own: bytes of zeros, freed afterwards. What it returns, or
 * -ENOMEM where that is more than the machine can spare.
 */
int workload_reference_run(struct workload_env *env, uint64_t bytes,
			   int (*reference)(struct workload_env *env,
					    void *memory)) SLUICE_MUST_CHECK;

/* ---- files (files.c) ---- */

int workload_files_open(struct workload_env *env) SLUICE_MUST_CHECK; /* directory and lock */
int workload_files_room(struct workload_env *env) SLUICE_MUST_CHECK; /* enough space on disk? */
int workload_files_generate(struct workload_env *env) SLUICE_MUST_CHECK;
void workload_files_drop_cache(struct workload_env *env);
void workload_files_spoil(struct workload_env *env); /* before a run: what it will change */
void workload_files_close(struct workload_env *env); /* removes unless params->keep */
int workload_file_path(struct workload_env *env, unsigned array, char *path,
		       size_t bytes) SLUICE_MUST_CHECK;
/* Elements [first, first + n) of an array's file, as it is. */
int workload_file_read(struct workload_env *env, unsigned array, uint64_t first, size_t n,
		       void *out) SLUICE_MUST_CHECK;

#endif
