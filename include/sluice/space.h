/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space: one reserved range of addresses, the device that runs kernels on it, and the
 * budgets of its three tiers. A process usually has one; several are independent of each
 * other.
 *
 * Signals: a handler may touch managed memory, unless it interrupted a call of this library on the
 * same thread (it would wait for a lock that its own thread holds): block such signals around calls.
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
	SLUICE_DEVICE_AUTO, /* the software device: it runs C kernels anywhere */
	SLUICE_DEVICE_SOFT, /* CPU threads and userfaultfd */
	SLUICE_DEVICE_CUDA,
	SLUICE_DEVICE_COUNT
};

/* Who chooses victims and which knowledge counts (see docs/design/policy.md). */
enum sluice_policy {
	SLUICE_POLICY_LRU,    /* least recently launched; launch intents and map flags
			       * honoured */
	SLUICE_POLICY_DRAGON, /* least recently launched; only map-time flags honoured */
	SLUICE_POLICY_UVM,    /* least recently migrated; no intents, everything written
			       * back */
	SLUICE_POLICY_PLAN,   /* as LRU; launches that repeat are planned: what is used
			       * farthest in the future goes first, the rest comes early */
	SLUICE_POLICY_COUNT
};

/* How much of a chunk one fault brings in. */
enum sluice_population {
	SLUICE_POPULATE_CHUNK, /* the whole chunk, moved */
	SLUICE_POPULATE_GROW,  /* 64 KiB, grown by the 51 % density tree */
	SLUICE_POPULATE_PAGE,  /* one 4 KiB page, copied; writes are tracked per page */
	SLUICE_POPULATE_COUNT
};

/* What becomes of a kernel's touch of an address that its launch did not declare. */
enum sluice_miss {
	SLUICE_MISS_SERVE, /* counted as a miss and served */
	SLUICE_MISS_FAIL,  /* served as well, but the launch ends in -EFAULT naming the
			    * address */
	SLUICE_MISS_COUNT
};

/*
 * What a kernel of a launch with declared uses may touch (CUDA device). Where nothing is declared, any
 * address may be touched, whatever this says.
 */
enum sluice_reach {
	SLUICE_REACH_DECLARED, /* what it declares; another address is an error, as any wild pointer */
	SLUICE_REACH_ANY, /* anything: what is not declared stays readable in host memory. Slow:
			   * nothing moves while such a kernel runs */
	SLUICE_REACH_COUNT
};

/* Which thread serves a fault (software device). */
enum sluice_fault_delivery {
	SLUICE_FAULTS_AUTO,   /* per region: THREAD where allowed, SIGNAL for random
			       * access */
	SLUICE_FAULTS_THREAD, /* handler threads; system calls may be given managed
			       * addresses */
	SLUICE_FAULTS_SIGNAL, /* the faulting thread itself (SIGBUS): fewest switches; a
			       * system call given an absent managed address fails with
			       * EFAULT */
	SLUICE_FAULTS_COUNT
};

/* How store files are read and written. */
enum sluice_store_io {
	SLUICE_STORE_IO_AUTO,  /* io_uring with O_DIRECT, else threads */
	SLUICE_STORE_IO_URING, /* fail where io_uring is missing */
	SLUICE_STORE_IO_FILE,  /* pread and pwrite threads */
	SLUICE_STORE_IO_COUNT
};

/*
 * Measured dirtiness (CUDA device; nothing elsewhere): what a launch may have written, by READ_WRITE or
 * by declaring nothing, is hashed on the device before it would be copied out, and is not where it is as
 * the host or the store has it. The host copy stays for that while there is room.
 */
enum sluice_measure {
	SLUICE_MEASURE_OFF,
	SLUICE_MEASURE_ALWAYS, /* each time, and as it comes in where it is not known */
	SLUICE_MEASURE_AUTO, /* not as it comes in, so that it goes out once; what was found changed
			      * is spared the next 1, 2, 4 .. 64 times */
	SLUICE_MEASURE_COUNT
};

/* When host memory is pinned, which takes ten times as long as to copy to it (CUDA device; elsewhere host
 * memory costs nothing). */
enum sluice_host_pin {
	SLUICE_HOST_PIN_LATE, /* as data leave the device: by what has left it so far */
	SLUICE_HOST_PIN_EARLY, /* for all of a region that cannot be on the device when the region is made,
				* which blocks for that long; within the host budget. Device memory for the
				* rest is taken then, too, within the device budget */
	SLUICE_HOST_PIN_COUNT
};

/*
 * Everything a space is made from. Fill with sluice_config_init(), change, create. Sizes
 * are bytes; budgets are rounded down to whole chunks.
 */
struct sluice_config {
	uint32_t struct_bytes; /* set by sluice_config_init(): lets the struct grow */
	enum sluice_device_kind device;
	uint64_t device_budget_bytes; /* resident at most; soft default 1/4 of free
				       * memory */
	uint64_t host_budget_bytes;   /* host tier at most (cache and volatile data); 0:
				       * off */
	uint64_t host_reserve_bytes;  /* part of the host budget that volatile data must
				       * leave free */
	uint64_t store_budget_bytes;  /* spilled at most; UINT64_MAX: what the disk has */
	uint64_t staging_bytes;       /* host frames for I/O in flight, beside the host
				       * budget */
	uint64_t address_bytes;       /* addresses reserved for the space */
	uint64_t chunk_bytes;         /* 2 MiB times a power of two */
	uint64_t large_chunk_bytes; /* of regions that have at least 16 of them; 0: what the
				     * device is best with (CUDA: 32 MiB, as far as the budget
				     * holds 32 of them; software: chunk_bytes) */
	uint32_t device_number;     /* which of several GPUs, from 0 */
	uint32_t workers; /* kernel threads of the software device; 0: one per CPU */
	uint32_t readahead_chunks; /* most chunks read ahead of a recognised pattern; 0:
				    * off */
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
};

/*
 * Fill *config with defaults, then with what the environment says
 * (SLUICE_DEVICE_BUDGET=512M and so on: sluice(7) lists all). Errors: -EINVAL when a
 * variable cannot be read; the text names it. Any thread. Does not block beyond reading
 * /proc.
 */
SLUICE_API int sluice_config_init(struct sluice_config *config) SLUICE_MUST_CHECK;

/*
 * Change *config by a text of "key=value" pairs separated by commas, keys named as the
 * fields above without "_bytes": "device_budget=512M,policy=uvm,checking=1". Sizes take K
 * M G T (powers of 1024). Errors: -EINVAL naming the pair; *config is then unchanged.
 * Does not block.
 */
SLUICE_API int sluice_config_parse(struct sluice_config *config,
				   const char *text) SLUICE_MUST_CHECK;

/*
 * Make a space. config: NULL for the defaults. *out: owned by the caller, destroyed with
 * sluice_space_destroy(). Errors: -EINVAL, -ENOBUFS (a budget below one chunk, or budgets
 * beyond the cgroup's limit), -EPERM (userfaultfd refused), -ENOTSUP, -ENOMEM, and what
 * opening a spill directory returns. Any thread. Blocks on starting threads.
 */
SLUICE_API int sluice_space_create(const struct sluice_config *config,
				   struct sluice_space **out) SLUICE_MUST_CHECK;

/*
 * Wait for all launches, write back and unmap every region, free everything. NULL is
 * fine. Returns the first write-back error (the space is gone all the same). Not while
 * another thread uses the space. Blocks on launches and I/O. The space stays, and is to be
 * destroyed again: -EBUSY (this thread has a sluice_launch_begin() without its
 * sluice_launch_end()), -EDEADLK (called from a host callback). In a forked child: frees
 * nothing, returns -ECHILD.
 */
SLUICE_API int sluice_space_destroy(struct sluice_space *space);

/*
 * Change the budget of a tier at run time. Shrinking moves data out first. Errors:
 * -ENOBUFS (below two chunks beside what is pinned: nothing changed), -ENOSPC, -EIO. Any
 * thread. Blocks on I/O.
 */
SLUICE_API int sluice_space_set_budget(struct sluice_space *space, enum sluice_tier tier,
				       uint64_t budget_bytes) SLUICE_MUST_CHECK;

/* The configuration in force, with every default resolved. Any thread. Does not block. */
SLUICE_API void sluice_space_config(struct sluice_space *space, struct sluice_config *out);

/*
 * Walk every invariant of the space (states, budgets, lists, frames, counters). 0, or
 * -EINVAL with a text naming the first one broken. For tests and debugging; takes the
 * space lock for long.
 */
SLUICE_API int sluice_space_check(struct sluice_space *space) SLUICE_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
