/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads: whole programs over real files, used by `sluice bench` and `sluice demo` to show
 * and to measure what a space does. Each one knows its sizes, generates its input files, runs
 * its kernels through the public API only, and checks its output against a plain reference that
 * shares no code with the kernels.
 *
 * workload_run() does one run: plan, generate (skipped where valid inputs are there), make a
 * space, map, run, sync, unmap, and verify if asked. The same job can run over mmap()ed files
 * and threads instead of a space (WORKLOAD_MEMORY_MMAP): same kernels, same tiles, same files.
 *
 * With config.device SLUICE_DEVICE_CUDA the kernels are those for a GPU, on a space or on what one
 * would write without it (enum workload_memory). SLUICE_KERNELS in the environment names their PTX;
 * else it is looked for beside the program and in the share directory next to it.
 *
 * What it leaves to the caller: parsing options, memory limits of the process, what to print.
 *
 * Threads: one run per call and thread; runs of the same workload in the same directory exclude
 * each other by a lock file. Callbacks come on the calling thread.
 */
#ifndef WORKLOADS_WORKLOAD_H
#define WORKLOADS_WORKLOAD_H

#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/sluice.h"

#define WORKLOAD_ARRAYS_MAX  12
#define WORKLOAD_OPTIONS_MAX 6
#define WORKLOAD_TEXT_BYTES  512

/* How a kernel's data become present. */
enum workload_presence {
	WORKLOAD_PRESENCE_LAUNCH, /* every launch declares its uses, with the right intents */
	WORKLOAD_PRESENCE_FAULT, /* nothing is declared: kernels run by faults */
	WORKLOAD_PRESENCE_COUNT
};

/* What the arrays live in. The last three need a GPU (or its stand-in) and keep the arrays in
 * pinned host memory; they are what one writes without a space. */
enum workload_memory {
	WORKLOAD_MEMORY_SLUICE, /* a space made from params->config, with its device */
	WORKLOAD_MEMORY_MMAP, /* shared file mappings and config.workers threads; no limit of its
				 * own: the caller may limit the process */
	WORKLOAD_MEMORY_COPIES, /* all arrays on the device, copied in before and out after the
				 * kernels; heeds no budget: the ideal */
	WORKLOAD_MEMORY_STREAMING, /* what a launch uses is copied to and from one of three buffers
				    * within the device budget, on streams of their own */
	WORKLOAD_MEMORY_MAPPED, /* kernels read and write host memory over the link */
	WORKLOAD_MEMORY_COUNT
};

/*
 * On a GPU the kernels are run several times over the same mapped arrays. What counts begins with
 * the data in host memory, so that neither the disk nor the first pinning of memory is in it.
 */
enum workload_round {
	WORKLOAD_ROUND_WARM,     /* reads files, pins host memory, loads kernels */
	WORKLOAD_ROUND_RESIDENT, /* everything is on the device already, if it fits there */
	WORKLOAD_ROUND_MEASURED, /* all in host memory at first: result->run_ns and the counters */
	WORKLOAD_ROUND_COUNT
};

enum workload_verdict {
	WORKLOAD_NOT_VERIFIED,
	WORKLOAD_VERIFIED, /* every output byte equals the reference's */
	WORKLOAD_WRONG,    /* result->mismatch says where first */
	WORKLOAD_VERDICT_COUNT
};

/* A parameter that only one workload has. */
struct workload_option {
	const char *name; /* as on the command line, without "--" */
	const char *text; /* one line for people */
	const char *const *choices; /* NULL-terminated names of the values 0, 1, ...; NULL: number */
	uint64_t initial;
	uint64_t min, max;     /* of a number */
	uint64_t cuda_initial; /* on a GPU; 0: as initial */
};

struct workload_env;
struct workload_params;
struct workload_kernel;

/* What an array is for the run. */
enum workload_role {
	WORKLOAD_INPUT, /* generated before the run, read by it */
	WORKLOAD_IN_PLACE, /* generated before every run, changed by it; its end state is output */
	WORKLOAD_OUTPUT,   /* a file made by the run */
	WORKLOAD_VOLATILE, /* intermediate data: a file made by the run, lost at its end */
	WORKLOAD_ANONYMOUS, /* memory without a file */
	WORKLOAD_ROLE_COUNT
};

struct workload_array {
	const char *name;
	enum workload_role role;
	unsigned flags; /* of sluice_map() */
	uint64_t size_bytes;
	int spoiled; /* 1: an input whose file is undefined after the run (discarded) */
	int discarded; /* 1: the run discards it: what a second one needs has to be read again */
	int kept; /* 1: small, and used whole by every launch: who copies by hand leaves it there */
};

/* The sizes that follow from a footprint. */
struct workload_plan {
	uint64_t footprint_bytes; /* sum of all arrays */
	uint64_t rows, cols; /* of the main array; fir: windows, samples; vectorAdd: 1, n */
	uint64_t window_bytes; /* fir: the most bytes of input per launch; else 0 */
	uint64_t shape[6];     /* network: what it is made from; else 0 */
	unsigned n_arrays;
	struct workload_array array[WORKLOAD_ARRAYS_MAX];
};

/* Bytes over the link that theory expects, before the final sync. */
struct workload_expectation {
	int known; /* 0: no closed form for these parameters */
	uint64_t h2d_bytes;
	uint64_t d2h_bytes;
	uint64_t tolerance_bytes; /* rounding to chunks and to tiles */
	char h2d_formula[64];     /* F footprint, G device budget, a array, ... */
	char d2h_formula[64];
};

/* Private to the workloads, listed so that the table can be a constant. */
struct workload_ops {
	int (*plan)(const struct workload_params *params, struct workload_plan *plan,
		    char *error);
	void (*fill)(const struct workload_plan *plan, unsigned array, uint64_t seed,
		     uint64_t first, size_t n, void *out);
	int (*run)(struct workload_env *env);
	void (*expect)(const struct workload_env *env, struct workload_expectation *out);
	int (*reference)(struct workload_env *env);
};

struct workload {
	const char *name;
	const char *text; /* one line for people */
	int tiled;        /* params->tile_bytes applies */
	const struct workload_option *options;
	unsigned n_options;
	const struct workload_ops *ops;
	const struct workload_kernel *const *kernels; /* for a GPU, ended by NULL; NULL: none */
};

/* All workloads, ended by NULL. */
extern const struct workload *const workloads_list[];

/* By name or unambiguous beginning of it, in any case; NULL when there is none. */
const struct workload *workload_find(const char *name);

/* Fill with workload_params_init(), change, run. */
struct workload_params {
	uint64_t footprint_bytes; /* asked for; the plan rounds it down to what the workload can do */
	uint64_t tile_bytes; /* declared set of one launch; 0: a third of the device budget */
	uint64_t seed;       /* of the inputs */
	enum workload_presence presence;
	enum workload_memory memory;
	/* COPIES, STREAMING: files are read and written through the page cache and host memory is not
	 * pinned, nor more of it used than the host budget; else past the cache, and pinned. */
	int cached;
	int verify; /* 1: compare the output with the reference */
	int keep;   /* 1: leave the files for the next run */
	const char *dir; /* existing directory; files go to a sub-directory "sluice-NAME" of it */
	uint64_t option[WORKLOAD_OPTIONS_MAX]; /* in the order of workload->options */
	struct sluice_config config;           /* of the space */

	/* Set to non-zero (by a signal handler, say) to end the run with -ECANCELED; files are
	 * cleaned up as always. May be NULL. */
	const volatile sig_atomic_t *cancelled;

	/* Callbacks, each may be NULL; arg goes to all of them. */
	void *arg;
	/* phase: "generate", "run", "write back" or "verify"; fraction: 0 to 1 of that phase. Often. */
	void (*on_progress)(void *arg, const char *phase, double fraction);
	/* The space has just been made (nothing is mapped yet); and: everything is unmapped, the
	 * space is destroyed on return. In between, sluice_stats_get() and sluice_regions() may be
	 * called on it from any thread. Not called with WORKLOAD_MEMORY_MMAP. */
	void (*on_space_made)(void *arg, struct sluice_space *space);
	void (*on_space_ending)(void *arg, struct sluice_space *space);
};

/* Holds no pointers: may be sent through a pipe by a child process. */
struct workload_result {
	struct workload_plan_sizes {
		uint64_t footprint_bytes, rows, cols, window_bytes;
	} plan;
	uint64_t tile_bytes; /* declared set of the largest launch */
	uint64_t launches;
	uint64_t input_bytes, output_bytes; /* of files, each once: what has to move at least */

	uint64_t generate_ns; /* making inputs; 0 when they were there */
	uint64_t map_ns;      /* making the space and mapping; not part of running */
	uint64_t open_ns; /* of that: what is there before any file: on a GPU driver, context, kernels */
	uint64_t run_ns;   /* first launch to last launch done: kernels and moves */
	uint64_t unmap_ns; /* final sync and unmap: outputs are on the medium */
	uint64_t total_ns; /* map + run + unmap */
	uint64_t verify_ns;
	uint64_t round_ns[WORKLOAD_ROUND_COUNT]; /* on a GPU; 0: there was no such round */
	uint64_t kernel_ns; /* WORKLOAD_MEMORY_COPIES: the resident round by the GPU's own clock */
	uint64_t h2d_bytes, d2h_bytes; /* copied over the link within run_ns, by whomever */
	uint64_t collect_ns, collect_bytes; /* on a GPU, after run_ns: results to host memory */
	uint64_t batches;                   /* minibatch: steps of training; else 0 */
	uint64_t batches_resident; /* of them, whole on the device when they were needed */
	uint64_t hand_bytes;       /* read from files by the workload itself */
	uint64_t steps; /* network: steps of training, with the mean loss of two of them; else 0 */
	double loss_first, loss_last;

	struct sluice_config config;     /* in force, defaults resolved */
	struct sluice_stats before_sync; /* zeros without a space, like after */
	struct sluice_stats after;       /* after the unmapping */
	struct workload_expectation expected;

	enum workload_verdict verdict;
	char mismatch[WORKLOAD_TEXT_BYTES];
	char error[WORKLOAD_TEXT_BYTES];
};

/*
 * Defaults for a workload: footprint 512 MiB, seed 1, the library's own configuration with the
 * environment applied, dir from TMPDIR or /var/tmp. Errors: as sluice_config_init(), text in
 * sluice_last_error(). Any thread. Does not block.
 */
int workload_params_init(const struct workload *workload,
			 struct workload_params *params) SLUICE_MUST_CHECK;

/*
 * The sizes that params give. error: WORKLOAD_TEXT_BYTES for the reason of a failure. Errors:
 * -EINVAL (footprint too small or too large, contradicting options). Any thread. No I/O.
 */
int workload_plan_make(const struct workload *workload, const struct workload_params *params,
		       struct workload_plan *plan, char *error) SLUICE_MUST_CHECK;

/*
 * One run. 0: it ran to its end and, if asked, was verified: see result->verdict, a wrong result
 * is not an error here. Negative errno: it did not; result->error says why, result's other fields
 * hold what was known by then. Errors: -EINVAL, -ENOSPC (checked before anything is written),
 * -EBUSY (another run in the directory), -ENOMEM (no memory for the reference), -ECANCELED, and
 * what the library returns. Any thread. Blocks for the whole run.
 */
int workload_run(const struct workload *workload, const struct workload_params *params,
		 struct workload_result *result) SLUICE_MUST_CHECK;

/* What the link of a GPU does, copying from and to pinned memory in pieces of 16 MiB. */
struct workload_link {
	double in_bytes_per_s, out_bytes_per_s;
	double both_bytes_per_s; /* sum of both ways, copied at once */
};

/*
 * Measure the link of GPU number ordinal. error: WORKLOAD_TEXT_BYTES for the reason of a failure.
 * Errors: -ENOTSUP (no driver, no GPU), -ENOMEM, what the driver says. Any thread. Blocks for a
 * fraction of a second.
 */
int workload_link_measure(unsigned ordinal, struct workload_link *link,
			  char *error) SLUICE_MUST_CHECK;

/*
 * Remove what runs of this workload left in dir (after keep). Nothing there is fine.
 * Errors: -errno of the file system. Any thread.
 */
int workload_remove_files(const struct workload *workload, const char *dir) SLUICE_MUST_CHECK;

#endif
