/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory is pinned as data leave the GPU for the first time. It is the slowest part of a run, and a
 * user may think that the program hangs. So on a terminal lines tell how far it is: after 3 seconds that
 * were spent on it, then after 6, 12, 24 and so on.
 *
 * They are lines of their own, since the program writes to the terminal, too. --quiet omits them.
 *
 * Threads: any. One of those that come at the same time tells.
 */
#include "preload/report/pinning.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/size.h"
#include "preload/gpu.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"

#define FIRST_NS UINT64_C(3000000000)

static struct {
	_Atomic uint64_t limit_bytes; /* 0: nobody is told */
	_Atomic uint64_t pinned_bytes;
	_Atomic uint64_t spent_ns, next_ns; /* next: spent when the next line is due */
} gpus[PL_GPUS_MAX];

void
pl_pinning_start(const struct pl_gpu *gpu)
{
	if (pl_settings()->quiet || !isatty(STDERR_FILENO))
		return;
	atomic_store(&gpus[gpu->device].next_ns, FIRST_NS);
	atomic_store(&gpus[gpu->device].limit_bytes, gpu->host_budget);
}

/* What the data that are allocated will need, as far as it is allowed. */
static uint64_t
wanted_bytes(const struct pl_gpu *gpu, uint64_t limit)
{
	uint64_t allocated = atomic_load(&gpu->allocated_bytes);
	uint64_t device = atomic_load(&gpu->device_budget);
	uint64_t more = allocated > device ? allocated - device : 0;

	return more < limit ? more : limit;
}

void
pl_pinning_add(void *arg, uint64_t bytes, uint64_t ns)
{
	const struct pl_gpu *gpu = arg;
	uint64_t pinned = atomic_fetch_add(&gpus[gpu->device].pinned_bytes, bytes) + bytes;
	uint64_t limit = atomic_load(&gpus[gpu->device].limit_bytes);
	uint64_t spent, next, wanted;
	char have[32], want[32];

	if (!limit)
		return;
	spent = atomic_fetch_add(&gpus[gpu->device].spent_ns, ns) + ns;
	next = atomic_load(&gpus[gpu->device].next_ns);
	wanted = wanted_bytes(gpu, limit);
	/* Ahead of the program there is nothing to tell: it may allocate more, then it is told. */
	if (spent < next || pinned >= wanted ||
	    !atomic_compare_exchange_strong(&gpus[gpu->device].next_ns, &next, 2 * spent))
		return;
	pl_note("GPU %d: pins host memory, %s of about %s so far: later passes over the "
		"data are faster",
		gpu->ordinal, sl_size_format(pinned, have, sizeof(have)),
		sl_size_format(wanted, want, sizeof(want)));
}
