/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the contract of device.h share (test_device_*.c): the table of devices, a small
 * core, and the runner.
 *
 * The core is a table of chunks whose states change under one lock, as the real core's do; it serves
 * touches by presenting the frame that it holds for a chunk. Tests that need something else replace
 * its serve function. Each test makes a device of its own and runs over every row of the table that
 * has what the test needs: a new back end is a row in device_suite.c. What a test needs beyond the
 * contract of every device it names as roles (enum device_role); a device that lacks one
 * leaves the test out and says so.
 *
 * Where host code sees no present chunk (hostmap), contents are read and written by copies
 * (device_peek(), device_poke()), and the core serves touches by what the host map is shown.
 *
 * A test is a function named as the sentence it shows. Programs are plain: 0 pass, 1 fail, 77 when
 * the system refuses every device, with the reason. With an argument they run only the tests whose
 * names contain it.
 *
 * Threads: those of the devices, and what a test starts.
 */
#ifndef TESTS_CONTRACT_DEVICE_SUITE_H
#define TESTS_CONTRACT_DEVICE_SUITE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device_async.h"
#include "device/device_fault.h"
#include "device/device_hostmap.h"

#define CHUNKS        8
#define CHUNK         ((size_t)SL_GRANULE_BYTES)
#define PAGE          ((size_t)SL_PAGE_BYTES)
#define ADDRESS_BYTES (1ul << 30)
#define WORKERS       3u
#define COUNTERS      3 /* words of a chunk that chunk_evict() carries over */

#if defined(__SANITIZE_THREAD__)
#define SANITIZES_THREADS 1
#elif defined(__has_feature)
#define SANITIZES_THREADS __has_feature(thread_sanitizer)
#else
#define SANITIZES_THREADS 0
#endif

/* ---- Devices ---- */

/* What a device is like, where tests must know. */
enum device_trait {
	DEVICE_USERFAULT = 1 << 0, /* stands on userfaultfd: what allows it is in its errors */
	DEVICE_SEES_PINS = 1 << 1, /* a page pinned by I/O makes a move fail; copies cannot know */
	DEVICE_PROMPT = 1 << 2, /* nothing slows it down on purpose */
	DEVICE_CUDA = 1 << 3    /* present contents are reached through the driver */
};

/* The roles of device.h that tests ask for. */
enum device_role {
	ROLE_KERNELS = 1 << 0,
	ROLE_EVENTS = 1 << 1,
	ROLE_ASYNC = 1 << 2,
	ROLE_NATIVE = 1 << 3,
	ROLE_FAULTS = 1 << 4,
	ROLE_GUARDS = 1 << 5,
	ROLE_HOSTMAP = 1 << 6,
	ROLE_ZEROCOPY = 1 << 7,
	ROLE_TOUCHES = 1 << 8 /* faults or hostmap: touches of host code are served */
};

struct device_row {
	const char *name;
	unsigned traits; /* enum device_trait */
	int (*create)(const struct sl_device_config *config,
		      struct sl_device **out); /* as sl_device_soft_create() */
};

/* Of the running test. */
extern const struct device_row *device_row;

/* ---- The runner ---- */

struct device_test {
	const char *name;
	void (*run)(void);
	unsigned needs; /* enum device_trait: left out on rows that lack one of them */
	unsigned roles; /* enum device_role: the same */
	int before; /* run before this process has had a thread: a child of it will have some */
};
/* clang-format off */
#define TEST(function)               {#function, function, 0, 0, 0}
#define TEST_NEEDS(function, needs)  {#function, function, needs, 0, 0}
#define TEST_ROLES(function, roles)  {#function, function, 0, roles, 0}
#define TEST_BEFORE(function, needs) {#function, function, needs, 0, 1}
#define DEVICE_MAIN(tests)                                                               \
	int                                                                              \
	main(int argc, char **argv)                                                      \
	{                                                                                \
		return device_main(tests, sizeof(tests) / sizeof((tests)[0]), argc, argv); \
	}
/* clang-format on */

int device_main(const struct device_test *tests, size_t n, int argc, char **argv);
/* 1 once any check of this process failed. */
int device_failed(void);
void device_check_failed(int line, const char *what);

#define CHECK(condition)                                           \
	do {                                                       \
		if (!(condition))                                  \
			device_check_failed(__LINE__, #condition); \
	} while (0)

/* ---- The test core ---- */

enum chunk_state { CHUNK_ABSENT, CHUNK_BUSY, CHUNK_PRESENT };

struct chunk {
	enum chunk_state state;
	struct sl_frame *frame; /* contents while absent; kept while present with KEEP */
	int guarded;
	int dirty;
	uint64_t stored[COUNTERS]; /* the counters as of the last dirty eviction */
};

struct core {
	struct sl_device *dev;
	pthread_mutex_t lock; /* chunks */
	pthread_cond_t changed;
	struct chunk chunk[CHUNKS];
	size_t chunk_bytes;
	unsigned present_flags;
	int closed; /* lock: touches come too late */
	int (*_Atomic serve)(struct core *core, const struct sl_touch *touch);
	_Atomic unsigned n_touches, n_writes_guarded, n_in_thread, n_launched;
	_Atomic(void *) last_addr, last_launch;
	_Atomic int last_access;
	_Atomic int armed; /* for serve functions */
};

extern const enum sl_delivery deliveries[2];

char *chunk_addr(const struct core *core, int i);
/* A device of the running test's row with this core; 0 or what create() returned. */
int device_create(struct core *core, struct sl_device **out);
/* The same with CHUNKS chunks attached; ends the program where that fails. */
void core_init(struct core *core, size_t chunk_bytes, enum sl_delivery delivery);
void core_fini(struct core *core);
struct sl_frame *frame_get(struct core *core);
/* The contents of an absent chunk: every byte is value. */
void chunk_hold(struct core *core, int i, int value);
/*
 * Make an absent chunk usable by host code with the contents of frame (NULL: zeros): presented, or
 * shown in the host map, if there is one; and take it away again, its contents into frame (NULL:
 * they are lost). flags as present()'s; kept: nobody wrote to it since.
 */
int host_show(struct core *core, char *addr, struct sl_frame *frame, unsigned flags);
int host_hide(struct core *core, char *addr, struct sl_frame *frame, int kept);
/* Read and write what is present, whoever can: host code, or copies of the driver. */
void device_peek(struct core *core, const void *addr, void *to, size_t bytes);
void device_poke(struct core *core, void *addr, const void *from, size_t bytes);
/* pattern_write(), pattern_is() and all_zero() of present contents. */
void device_pattern_write(struct core *core, void *addr, size_t bytes, uint64_t seed);
int device_pattern_is(struct core *core, const void *addr, size_t bytes, uint64_t seed);
int device_all_zero(struct core *core, const void *addr, size_t bytes);
/* The address of a chunk's counter: each in a page of its own, far apart. */
volatile uint64_t *chunk_counter(struct core *core, int chunk, int i);
/* Make a present chunk absent: a clean one is dropped, a dirty one copied, its counters kept in stored. */
void chunk_evict(struct core *core, int i);

/* Serve functions. As a pager does: present what is absent, unguard and note dirty what is guarded. */
int serve_chunk(struct core *core, const struct sl_touch *touch);
/* The same unless armed: then the touch is refused. */
int serve_refuse(struct core *core, const struct sl_touch *touch);

/* Contents that no two seeds share. */
void pattern_write(void *data, size_t bytes, uint64_t seed);
int pattern_is(const void *data, size_t bytes, uint64_t seed);
int all_zero(const char *data, size_t bytes);

/* ---- Kernels, host code ---- */

struct kernel_args {
	struct core *core;
	char *addr;
	_Atomic uint64_t sum;
	_Atomic unsigned blocks;
	_Atomic unsigned in_use[WORKERS];
	_Atomic unsigned overlaps;
	int fd;
};

/* Block i reads the first byte of page i behind addr: touches, sums, and notices workers shared. */
void kernel_sum_pages(const struct sluice_block *block, void *args);
/* Block 2 writes to addr. */
void kernel_touch_addr(const struct sluice_block *block, void *args);

/* Write a byte as host code: the signal must come, and says the address. */
void host_touch(volatile char *addr, int sig);
extern void *_Atomic host_fault_addr;

#endif
