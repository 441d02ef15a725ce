/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One space a GPU. The program's first allocation on a GPU makes it, in the current context (the
 * primary one of every program that uses the runtime). Its budgets come from the environment;
 * else they are most of the free device memory and most of this process's memory. Also pressure:
 * when launches are tracked, and when the core takes over (preload.h).
 *
 * The program's own device memory is only counted. If the driver runs out of memory, a part of
 * the budget is given up for good (rule O).
 *
 * Threads: any. create_lock is held while a space is made, a GPU's books.budget while its budget
 * is changed. Both call the core under them, and no other lock of gpu.c does. books.opening and
 * books.lock are scope.c's.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/limits.h"
#include "base/size.h"
#include "core/interpose.h"
#include "preload/alloc/arena.h"
#include "preload/gpu.h"
#include "preload/gpu_internal.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/report/pinning.h"
#include "preload/report/report.h"
#include "preload/report/timeline.h"
#include "preload/report/tracing.h"
#include "preload/scope.h"
#include "preload/share.h"
#include "preload/streams/capture.h"
#include "preload/streams/fence.h"
#include "preload/streams/stream.h"
#include "share/member.h"
#include "sluice/sluice.h"

#define ADDRESS_BYTES     ((uint64_t)8 << 40)
#define ADDRESS_BYTES_MIN ((uint64_t)64 << 30)
#define CHUNK_MAX         ((uint64_t)32 << 20)
#define CHUNK_MIN         ((uint64_t)2 << 20)
#define CHUNKS_WANTED     64u /* the budget holds at least so many */
#define PROCESSES_MAX     4096u
#define ROOM_TRIES        2
#define ROOM_PART         16u
/* gpt with 10 GiB of host memory, seconds of the second step: 22.3 without, 21.5 with 256 MiB, 20.3 with 512. What the
 * GPU had encoded: 24.6, 21.5 and 20.4 (H100). */
#define RESERVE_MAX       ((uint64_t)512 << 20)
#define RESERVE_PART      16u
#define SETTLE_US         1000u
#define SETTLE_MAX_NS     2000000000u

_Atomic uint64_t pl_low = UINT64_MAX, pl_high = UINT64_MAX;
_Atomic int pl_watch;

static _Atomic(struct pl_gpu *) gpus[PL_GPUS_MAX];
static _Atomic int refused[PL_GPUS_MAX]; /* that GPU has no space, and has been told why */
static struct sl_mutex create_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_GPUS);

/* Driver calls that nobody wraps. */
static int
real_ctx_device(int *device)
{
	return ((int (*)(int *))pl_real[SL_API_cuCtxGetDevice])(device);
}

static int
real_ctx_current(void **context)
{
	return ((int (*)(void **))pl_real[SL_API_cuCtxGetCurrent])(context);
}

static int
real_mem_info(size_t *free_bytes, size_t *total_bytes)
{
	return ((int (*)(size_t *, size_t *))pl_real[SL_API_cuMemGetInfo_v2])(free_bytes,
									      total_bytes);
}

static int
real_ctx_synchronize(void)
{
	return ((int (*)(void))pl_real[SL_API_cuCtxSynchronize])();
}

/* ---- making ---- */

static uint64_t
chunk_for(uint64_t device_budget)
{
	uint64_t chunk = CHUNK_MAX;

	while (chunk > CHUNK_MIN && chunk * CHUNKS_WANTED > device_budget)
		chunk /= 2;
	return chunk;
}

static bool
is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

/* Processes of this program on this machine that share its memory and disks, as torchrun says it; 1 where
 * nobody does. Each has as much of them by default. */
static uint64_t
processes_here(void)
{
	const char *text = getenv("LOCAL_WORLD_SIZE");
	char *end;
	unsigned long n;

	if (!text || *text < '0' || *text > '9')
		return 1;
	n = strtoul(text, &end, 10);
	return *end || !n || n > PROCESSES_MAX ? 1 : n;
}

/* What is free on the disks of the spill directories. */
static uint64_t
disk_bytes(const struct sluice_config *config)
{
	char dirs[sizeof(config->spill_dirs)], *at = dirs, *dir;
	uint64_t bytes = 0;

	memcpy(dirs, config->spill_dirs, sizeof(dirs));
	while ((dir = strsep(&at, ":"))) {
		struct statvfs fs;

		if (*dir && !statvfs(dir, &fs))
			bytes += (uint64_t)fs.f_bavail * fs.f_frsize;
	}
	return bytes;
}

/*
 * What the environment says, as far as the GPU has so much; else most of what is free. With other programs
 * on the GPU that is a bound, and the budget what they leave for a beginning; *share says so. 0 or -EIO.
 */
static int
device_budget_choose(int device, struct sluice_config *config, struct pl_share **share)
{
	size_t free_bytes = 0, total_bytes = 0;
	int is_given = is_set("SLUICE_DEVICE_BUDGET");
	int rc = real_mem_info(&free_bytes, &total_bytes);
	char given[32], total[32], taken[32];
	uint64_t budget;
	int fits = is_given && (rc || config->device_budget_bytes <= total_bytes);

	*share = pl_share_join(device, fits ? config->device_budget_bytes : UINT64_MAX,
			       &budget);
	if (!*share && fits)
		return 0;
	if (!*share && rc)
		return sl_fail(-EIO,
			       "the driver does not say how much device memory is free "
			       "(error %d): pass --device-memory",
			       rc);
	if (!*share)
		budget = sl_gpu_usable_bytes(free_bytes);
	if (is_given && !fits)
		pl_note("GPU %d has %s of memory, not %s (--device-memory): %s are used, "
			"most of what is free",
			device, sl_size_format(total_bytes, total, sizeof(total)),
			sl_size_format(config->device_budget_bytes, given, sizeof(given)),
			sl_size_format(budget, taken, sizeof(taken)));
	config->device_budget_bytes = budget;
	return 0;
}

/* Data are spilled before host memory is full, so that the disk writes several chunks at a time. If nothing is to be
 * spilled in the end, so much is written for nothing. */
static uint64_t
reserve_for(uint64_t host_budget_bytes)
{
	uint64_t part = host_budget_bytes / RESERVE_PART;

	return part < RESERVE_MAX ? part : RESERVE_MAX;
}

/* The configuration: the environment's, and ours where it says nothing. 0 or -errno. */
static int
config_make(int device, struct sluice_config *config, struct pl_share **share)
{
	uint64_t processes = processes_here();
	int rc = sluice_config_init(config);

	if (rc)
		return rc;
	config->device = SLUICE_DEVICE_CUDA;
	config->device_number = (uint32_t)device;
	if (!is_set("SLUICE_ADDRESS"))
		config->address_bytes = ADDRESS_BYTES;
	rc = device_budget_choose(device, config, share);
	if (rc)
		return rc;
	if (!is_set("SLUICE_LARGE_CHUNK"))
		config->large_chunk_bytes = chunk_for(config->device_budget_bytes);
	if (*share)
		config->device_budget_bytes = pl_share_first(*share,
							     config->large_chunk_bytes);
	if (!is_set("SLUICE_HOST_BUDGET"))
		config->host_budget_bytes = sl_host_usable_bytes(sl_memory_available()) /
					    (*share ? 1 : processes); /* which share it */
	if (!is_set("SLUICE_HOST_RESERVE"))
		config->host_reserve_bytes = reserve_for(config->host_budget_bytes);
	if (!is_set("SLUICE_MEASURE"))
		config->measure = SLUICE_MEASURE_AUTO; /* of what kernels get, all may be written */
	if (!is_set("SLUICE_STORE_BUDGET") && processes > 1)
		config->store_budget_bytes = disk_bytes(config) / processes;
	return 0;
}

static void
bounds_widen(const struct pl_gpu *gpu)
{
	uint64_t low = atomic_load(&pl_low);

	if (low == UINT64_MAX || gpu->base < low)
		atomic_store(&pl_low, gpu->base);
	if (atomic_load(&pl_high) == UINT64_MAX || gpu->end > atomic_load(&pl_high))
		atomic_store(&pl_high, gpu->end);
}

/* The space; with fewer addresses where the driver does not have so many (a limit of the process, another
 * library that has taken them). They are addresses only, but of more than is allocated. 0 or -errno. */
static int
space_make(struct sluice_config *config, struct pl_gpu *gpu)
{
	const struct sl_space_in in = {gpu->context, pl_pinning_add, gpu};
	int rc;

	for (;;) {
		rc = sl_space_create_in(config, &in, &gpu->space, &gpu->has_hostmap);
		if (rc != -ENOMEM || is_set("SLUICE_ADDRESS") ||
		    config->address_bytes / 2 < ADDRESS_BYTES_MIN)
			return rc;
		config->address_bytes /= 2;
	}
}

/* Of host memory: all that is allocated, if the GPU had to be given up. */
static uint64_t
host_bytes_wanted(void *arg)
{
	return atomic_load(&((struct pl_gpu *)arg)->allocated_bytes);
}

static struct pl_gpu *
gpu_make(int device)
{
	struct pl_gpu *gpu = sl_calloc(1, sizeof(*gpu));
	struct pl_gpu_internal *books = sl_calloc(1, sizeof(*books));
	struct pl_share *share = NULL;
	struct sluice_config config;
	int rc = gpu && books ? 0 : sl_fail(-ENOMEM, "out of memory");

	if (!rc && real_ctx_current(&gpu->context))
		rc = sl_fail(-EIO, "no context is current");
	if (!rc)
		rc = config_make(device, &config, &share);
	if (!rc) {
		gpu->device = gpu->ordinal = device;
		rc = space_make(&config, gpu);
	}
	if (rc) {
		pl_error("GPU %d is not served: %s; its allocations go to the driver",
			 device, sluice_last_error());
		if (share)
			pl_share_start(share, NULL);
		free(gpu);
		free(books);
		return NULL;
	}
	sluice_space_config(gpu->space, &config);
	sl_rwlock_init(&books->opening, SL_RANK_PL_OPENING);
	sl_mutex_init(&books->budget, SL_RANK_PL_BUDGET);
	sl_mutex_init(&books->lock, SL_RANK_PL_SCOPES);
	books->chunk_bytes = config.large_chunk_bytes;
	gpu->books = books;
	gpu->device_budget = config.device_budget_bytes;
	gpu->host_budget = config.host_budget_bytes;
	gpu->store_budget = config.store_budget_bytes == UINT64_MAX
				    ? disk_bytes(&config)
				    : config.store_budget_bytes;
	sl_space_addresses(gpu->space, &gpu->base, &gpu->end);
	bounds_widen(gpu);
	if (share) {
		pl_share_start(share, gpu);
		sl_space_share_host(gpu->space,
				    is_set("SLUICE_HOST_BUDGET") ? gpu->host_budget
								 : UINT64_MAX,
				    host_bytes_wanted, gpu);
	}
	if (pl_settings()->explain)
		atomic_store(&pl_watch, 1);
	pl_tracing_open(gpu);
	pl_timeline_open(gpu);
	return gpu;
}

static struct pl_gpu *
gpu_get(int device)
{
	struct pl_gpu *gpu = atomic_load(&gpus[device]);

	if (gpu || atomic_load(&refused[device]))
		return gpu;
	pl_enter();
	sl_mutex_lock(&create_lock);
	gpu = atomic_load(&gpus[device]);
	if (!gpu && !atomic_load(&refused[device])) {
		gpu = gpu_make(device);
		if (gpu) {
			atomic_store(&gpus[device], gpu);
			pl_report_start(gpu);
		} else {
			atomic_store(&refused[device], 1);
		}
	}
	sl_mutex_unlock(&create_lock);
	pl_leave();
	return gpu;
}

struct pl_gpu *
pl_gpu_current(void)
{
	int device;

	if (real_ctx_device(&device) || (unsigned)device >= PL_GPUS_MAX ||
	    pl_settings()->mode == PL_MODE_OFF)
		return NULL;
	return gpu_get(device);
}

struct pl_gpu *
pl_gpu_here(void)
{
	int device;

	if (atomic_load(&pl_low) == UINT64_MAX || real_ctx_device(&device))
		return NULL;
	return pl_gpu_of_device(device);
}

struct pl_gpu *
pl_gpu_of(uint64_t addr)
{
	for (unsigned i = 0; i < PL_GPUS_MAX; i++) {
		struct pl_gpu *gpu = atomic_load(&gpus[i]);

		if (gpu && addr >= gpu->base && addr < gpu->end)
			return gpu;
	}
	return NULL;
}

struct pl_gpu *
pl_gpu_of_device(int device)
{
	if ((unsigned)device >= PL_GPUS_MAX)
		return NULL;
	return atomic_load(&gpus[device]);
}

void
pl_gpus_walk(void (*fn)(struct pl_gpu *, void *), void *arg)
{
	for (unsigned i = 0; i < PL_GPUS_MAX; i++) {
		struct pl_gpu *gpu = atomic_load(&gpus[i]);

		if (gpu)
			fn(gpu, arg);
	}
}

static uint64_t
tiers_sum(const struct pl_gpu *gpu, uint64_t device_bytes)
{
	uint64_t host_bytes = sl_space_host_most(gpu->space), bytes;

	if (!host_bytes)
		host_bytes = gpu->host_budget;
	/* A store budget of any size is taken: the disk is the limit. */
	if (__builtin_add_overflow(device_bytes + host_bytes, gpu->store_budget, &bytes))
		return UINT64_MAX;
	return bytes;
}

uint64_t
pl_gpu_virtual_bytes(const struct pl_gpu *gpu)
{
	return tiers_sum(gpu, gpu->device_budget);
}

uint64_t
pl_gpu_reported_bytes(const struct pl_gpu *gpu)
{
	return tiers_sum(gpu, pl_share_most(gpu));
}

uint64_t
pl_gpu_chunk_bytes(const struct pl_gpu *gpu)
{
	return gpu->books->chunk_bytes;
}

/* ---- budget ---- */

void
pl_gpu_foreign(struct pl_gpu *gpu, int64_t bytes)
{
	(void)gpu;
	if (bytes > 0)
		PL_COUNT(foreign_bytes, (uint64_t)bytes);
}

bool
pl_gpu_shrink_budget(int *tries, uint64_t bytes)
{
	struct pl_gpu *gpu;
	uint64_t part, wanted;
	int device, rc;

	if (!pl_active() || real_ctx_device(&device))
		return false;
	gpu = pl_gpu_of_device(device);
	if (!gpu || ++*tries > ROOM_TRIES)
		return false;
	pl_enter();
	pl_gpu_press(gpu, PL_OVERSUBSCRIBED);
	part = gpu->device_budget / ROOM_PART;
	if (bytes > part)
		part = bytes;
	if (gpu->share) {
		rc = pl_share_give(gpu, part);
		PL_COUNT(rooms_given, rc);
		pl_leave();
		return rc;
	}
	/* Not under the lock that a scope of another thread may want, which holds what is waited for. */
	sl_mutex_lock(&gpu->books->budget);
	wanted = gpu->device_budget > part ? gpu->device_budget - part : 0;
	if (wanted < 4 * gpu->books->chunk_bytes)
		wanted = 4 * gpu->books->chunk_bytes;
	wanted = wanted / gpu->books->chunk_bytes * gpu->books->chunk_bytes;
	rc = sluice_space_set_budget(gpu->space, SLUICE_TIER_DEVICE, wanted);
	if (!rc)
		gpu->device_budget = wanted;
	sl_mutex_unlock(&gpu->books->budget);
	PL_COUNT(rooms_given, 1);
	if (rc)
		pl_error("the driver is out of device memory, and none can be given up: "
			 "%s",
			 sluice_last_error());
	pl_leave();
	return !rc;
}

/* ---- pressure ---- */

/* While something is captured the context cannot be waited for: its streams are, one by one. What one that
 * is captured had before is known if its capture was begun on it. */
static int
streams_wait(struct pl_gpu *gpu)
{
	uint64_t mask;
	int first = 0;

	pl_streams_active(gpu, &mask);
	for (; mask; mask &= mask - 1) {
		struct pl_fence *fence = NULL;
		int rc = pl_fence_make(gpu, mask & -mask, &fence);

		if (!rc)
			rc = pl_fence_wait(fence);
		if (rc)
			pl_fence_put(fence);
		first = first ? first : rc;
	}
	return first;
}

int
pl_gpu_drain(struct pl_gpu *gpu)
{
	if (pl_captures_running())
		return streams_wait(gpu) ? CU_ERROR_STREAM_CAPTURE_UNSUPPORTED : CU_SUCCESS;
	return real_ctx_synchronize();
}

/*
 * What was launched at ease has no pins: wait for it. A thread that has looked at the pressure is waited for
 * until it has called the driver, or, lest it wait for something that this thread has, for some time; one that opens no
 * scope is given a moment. A stream that is captured and cannot be waited for: the
 * capture's thread is the one that allocates, and what it launched before is behind what it waits for next.
 */
static void
launched_wait(struct pl_gpu *gpu)
{
	uint64_t until = sl_now_ns() + SETTLE_MAX_NS;
	int result;

	do
		usleep(SETTLE_US);
	while (pl_scopes_unpinned(gpu) && sl_now_ns() < until);
	result = pl_gpu_drain(gpu);
	if (result && result != CU_ERROR_STREAM_CAPTURE_UNSUPPORTED)
		pl_error("the device cannot be waited for: an earlier kernel has failed");
}

/* A scope that begins while the GPU settles waits for that. */
void
pl_gpu_settled_wait(struct pl_gpu *gpu)
{
	if (!atomic_load(&gpu->settling))
		return;
	sl_mutex_lock(&create_lock);
	sl_mutex_unlock(&create_lock);
}

void
pl_gpu_press(struct pl_gpu *gpu, enum pl_pressure pressure)
{
	int now = atomic_load(&gpu->pressure);

	if (now >= (int)pressure)
		return;
	pl_enter();
	sl_mutex_lock(&create_lock); /* seldom: two threads must not both do it */
	now = atomic_load(&gpu->pressure);
	if (now < (int)pressure) {
		atomic_store(&gpu->settling, pressure == PL_OVERSUBSCRIBED);
		atomic_store(&gpu->pressure, pressure);
		atomic_store(&pl_watch, 1);
		if (pressure == PL_OVERSUBSCRIBED) {
			launched_wait(gpu);
			pl_arena_pressed(gpu);
			atomic_store(&gpu->settling, 0);
		}
	}
	sl_mutex_unlock(&create_lock);
	pl_leave();
}

void
pl_gpu_expect(struct pl_gpu *gpu, uint64_t bytes)
{
	pl_enter();
	sl_space_expect(gpu->space, bytes);
	pl_leave();
}

int
pl_gpu_populate(struct pl_gpu *gpu, uint64_t addr, uint64_t bytes)
{
	int rc;

	pl_enter();
	rc = sl_populate(gpu->space, (void *)(uintptr_t)addr, bytes);
	pl_leave();
	return rc;
}
