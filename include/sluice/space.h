/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space: one reserved range of addresses, its device, and the budgets of its three tiers. A
 * process usually has one. Several are independent of each other.
 *
 * Signals: a handler may touch managed memory, unless it interrupted a call of this library on the
 * same thread. It would then wait for a lock of its own thread. Block such signals around calls.
 */
#ifndef SLUICE_SPACE_H
#define SLUICE_SPACE_H

#include <stddef.h>
#include <stdint.h>

#include "sluice/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_space;

enum sluice_tier {
	SLUICE_TIER_DEVICE,
	SLUICE_TIER_HOST,
	SLUICE_TIER_STORE,
	SLUICE_TIER_COUNT
};

/* Which device runs kernels. */
enum sluice_device_kind {
	SLUICE_DEVICE_AUTO, /* the software device: runs C kernels on any machine */
	SLUICE_DEVICE_SOFT, /* CPU threads and userfaultfd */
	SLUICE_DEVICE_CUDA,
	SLUICE_DEVICE_COUNT
};

/* Replacement policy, and the hints that it may use (docs/design/policy.md). */
enum sluice_policy {
	SLUICE_POLICY_LRU,    /* least recently launched; launch intents and map flags
			       * honoured */
	SLUICE_POLICY_DRAGON, /* least recently launched; only map-time flags honoured */
	SLUICE_POLICY_UVM,    /* least recently migrated; no intents, everything written
			       * back */
	SLUICE_POLICY_PLAN,   /* as LRU until launches repeat; then evicts the data used
			       * farthest in the future, and prefetches */
	SLUICE_POLICY_COUNT
};

/* The size that one fault brings in. */
enum sluice_population {
	SLUICE_POPULATE_CHUNK, /* the whole chunk, moved */
	SLUICE_POPULATE_GROW,  /* 64 KiB, grown by the 51 % density tree */
	SLUICE_POPULATE_PAGE,  /* one 4 KiB page, copied; writes are tracked per page */
	SLUICE_POPULATE_COUNT
};

/* The result when a kernel touches an address that its launch did not declare. */
enum sluice_miss {
	SLUICE_MISS_SERVE, /* counted as a miss and served */
	SLUICE_MISS_FAIL,  /* served as well, but the launch ends in -EFAULT naming the
			    * address */
	SLUICE_MISS_COUNT
};

/*
 * Addresses that a kernel may touch if its launch declares uses (CUDA device). A launch that
 * declares nothing may always touch any address.
 */
enum sluice_reach {
	SLUICE_REACH_DECLARED, /* declared ranges; others are errors, as any wild pointer */
	SLUICE_REACH_ANY, /* any: undeclared data stay readable in host memory. Slow: nothing
			   * moves while such a kernel runs */
	SLUICE_REACH_COUNT
};

/* The thread that serves a fault (software device). */
enum sluice_fault_delivery {
	SLUICE_FAULTS_AUTO,   /* per region: THREAD where allowed, SIGNAL for random
			       * access */
	SLUICE_FAULTS_THREAD, /* handler threads; system calls accept managed addresses */
	SLUICE_FAULTS_SIGNAL, /* the faulting thread itself (SIGBUS): fewest switches; a
			       * system call given an absent managed address fails with
			       * EFAULT */
	SLUICE_FAULTS_COUNT
};

/* The way to read and write store files. */
enum sluice_store_io {
	SLUICE_STORE_IO_AUTO,  /* io_uring with O_DIRECT, else threads */
	SLUICE_STORE_IO_URING, /* fail where io_uring is missing */
	SLUICE_STORE_IO_FILE,  /* pread and pwrite threads */
	SLUICE_STORE_IO_COUNT
};

/*
 * Dirty detection by hashes (CUDA device; no effect elsewhere). It covers chunks that a launch may
 * have written: declared READ_WRITE, or not declared. They are hashed on the device before a copy
 * out. Chunks equal to their host or store copy are not copied. Host copies are kept for that
 * while there is room.
 */
enum sluice_measure {
	SLUICE_MEASURE_OFF,
	SLUICE_MEASURE_ALWAYS, /* each time, and on the way in if the hash is not known */
	SLUICE_MEASURE_AUTO, /* not on the way in, so a chunk is copied out once; a chunk found
			      * changed is not hashed the next 1, 2, 4 .. 64 times */
	SLUICE_MEASURE_COUNT
};

/* When to pin host memory (CUDA only). Pinning is about ten times slower than copying. */
enum sluice_host_pin {
	SLUICE_HOST_PIN_LATE, /* as data are evicted, in proportion to earlier evictions */
	SLUICE_HOST_PIN_EARLY, /* when a region is made, which blocks for that long: for its
				* part beyond the device, within the host budget. Device
				* memory for the rest is taken, too, within its budget */
	SLUICE_HOST_PIN_COUNT
};

/* Whether what leaves a GPU, and what is spilled to the disk, is compressed, losslessly. */
enum sluice_compress {
	SLUICE_COMPRESS_NEVER,
	SLUICE_COMPRESS_AUTO, /* chunks that become smaller, by a sample or by what was seen */
	SLUICE_COMPRESS_ALWAYS, /* every chunk that becomes smaller */
	SLUICE_COMPRESS_COUNT
};

/* Whether the device and host memory are shared with spaces of other processes, and with programs
 * under `sluice run`. */
enum sluice_share {
	SLUICE_SHARE_OFF, /* the space has its budget, whatever others have */
	SLUICE_SHARE_AUTO, /* the budget follows what all of them want (docs/design/share.md): it
			    * grows into free room, and idle spaces give way. If not all that launch
			    * fit, they take turns, and launches wait for theirs. For host memory
			    * there are no turns: the rest goes to the disk. A program that cannot
			    * join says so once, and is alone */
	SLUICE_SHARE_COUNT
};

/*
 * The settings of a space. Fill it with sluice_config_init(), change it, create the space. Sizes
 * are bytes. Budgets are rounded down to whole chunks.
 *
 * Basic, for most programs: device, device_number, device_budget_bytes, host_budget_bytes,
 * store_budget_bytes, spill_dirs, publish, share.
 * Tuning: policy, readahead_chunks, population, measure, host_pin, chunk_bytes, large_chunk_bytes,
 * writeback_bytes, host_reserve_bytes, staging_bytes, workers.
 * Finding faults: checking, miss, reach.
 * Rarely changed: address_bytes, faults, store_io, soft_memory_bytes,
 * host_room_bytes.
 */
struct sluice_config {
	uint32_t struct_bytes; /* set by sluice_config_init(): lets the struct grow */
	enum sluice_device_kind device;
	uint64_t device_budget_bytes; /* limit of resident bytes; software device: default
				       * 1/4 of free memory. With share: the most that it
				       * ever is; UINT64_MAX: all of the device */
	uint64_t host_budget_bytes;   /* limit of the host tier (cache and volatile data);
				       * 0: off */
	uint64_t host_reserve_bytes;  /* part of the host budget that volatile data must
				       * leave free */
	uint64_t store_budget_bytes; /* limit of spilled bytes; UINT64_MAX: all of the disk */
	uint64_t staging_bytes;      /* host frames for I/O in flight, beside the host
				       * budget */
	uint64_t address_bytes;      /* addresses reserved for the space */
	uint64_t chunk_bytes;        /* 2 MiB times a power of two */
	uint64_t large_chunk_bytes; /* for regions that have at least 16 of them; 0: best for
				     * the device (CUDA: 32 MiB if the budget holds 32 of
				     * them; software: chunk_bytes) */
	uint32_t device_number;     /* the GPU, from 0 */
	uint32_t workers; /* kernel threads of the software device; 0: one per CPU */
	uint32_t readahead_chunks; /* limit of chunks read ahead of a pattern; 0: off */
	uint64_t writeback_bytes;  /* dirty file data in the host tier before background
				    * write-back starts; UINT64_MAX: a quarter of the
				    * tier */
	enum sluice_policy policy;
	enum sluice_population population;
	enum sluice_miss miss;
	enum sluice_reach reach;
	enum sluice_fault_delivery faults;
	enum sluice_store_io store_io;
	int checking; /* 1: checking mode: wrong intents and touches of discarded data are
		       * reported with their address; slow */
	enum sluice_measure measure;
	enum sluice_host_pin host_pin;
	int publish;           /* 1: `sluice stat` may read this process's counters */
	char spill_dirs[1024]; /* directories for spill files, separated by ':' */
	enum sluice_compress compress;
	enum sluice_share share;
	uint64_t soft_memory_bytes; /* with share: what the software device has for all spaces
				     * that say the same; 0: half of this process's memory */
	uint64_t host_room_bytes; /* with share: host memory of all spaces that say the same, of
				   * all programs; 0: three quarters of what the machine, or the
				   * control group, has */
};

/*
 * Fill *config with defaults, then with the values of the environment (SLUICE_DEVICE_BUDGET=512M
 * and so on: sluice(7) lists all).
 * Errors: -EINVAL (a variable cannot be read; the text names it).
 * Threads: any.
 * Blocks: on reading /proc.
 */
SLUICE_API int sluice_config_init(struct sluice_config *config) SLUICE_MUST_CHECK;

/*
 * Change *config by "key=value" pairs separated by commas. Keys are the fields above without
 * "_bytes": "device_budget=512M,policy=uvm,checking=1". Sizes take K M G T (powers of 1024).
 * Errors: -EINVAL (the text names the pair; *config is unchanged).
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API int sluice_config_parse(struct sluice_config *config,
				   const char *text) SLUICE_MUST_CHECK;

/*
 * Make a space. config: NULL for the defaults. The caller owns *out and ends it with
 * sluice_space_destroy().
 * Errors: -EINVAL, -ENOBUFS (a budget below one chunk, or budgets beyond the cgroup's limit),
 *     -EPERM (userfaultfd refused), -ENOTSUP, -ENOMEM, and errors of opening a spill directory.
 * Threads: any.
 * Blocks: on starting threads.
 */
SLUICE_API int sluice_space_create(const struct sluice_config *config,
				   struct sluice_space **out) SLUICE_MUST_CHECK;

/*
 * Wait for all launches, write back and unmap every region, free everything. NULL is fine. In a
 * forked child nothing is freed.
 * Errors: the first write-back error (the space is gone all the same), -ECHILD (a forked child).
 *     The space stays, and must be destroyed again, with two errors: -EBUSY (this thread has a
 *     sluice_launch_begin() without its sluice_launch_end()), -EDEADLK (called from a host
 *     callback).
 * Threads: any, while no other thread uses the space.
 * Blocks: on launches and I/O.
 */
SLUICE_API int sluice_space_destroy(struct sluice_space *space);

/*
 * Change the budget of a tier at run time. Shrinking moves data out first. With share, a budget of
 * device or host memory is the most that the space may have from now on. What it has follows within
 * 0.1 s.
 * Errors: -ENOBUFS (less than two chunks beside pinned data; nothing changed), -ENOSPC, -EIO.
 * Threads: any.
 * Blocks: on I/O.
 */
SLUICE_API int sluice_space_set_budget(struct sluice_space *space, enum sluice_tier tier,
				       uint64_t budget_bytes) SLUICE_MUST_CHECK;

/*
 * The configuration in force, with every default resolved.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API void sluice_space_config(struct sluice_space *space, struct sluice_config *out);

/*
 * Check every invariant of the space: states, budgets, lists, frames, counters. For tests and
 * debugging.
 * Errors: -EINVAL (the text names the first one broken).
 * Threads: any.
 * Blocks: on the space lock, which it then holds for long.
 */
SLUICE_API int sluice_space_check(struct sluice_space *space) SLUICE_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
