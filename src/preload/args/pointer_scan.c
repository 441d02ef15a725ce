/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peeking. Before the first launches of a function, the memory at each address in its arguments
 * is copied to host memory in stream order, and searched for addresses. If there are some, the
 * function follows addresses in memory: it goes on counting as using everything, and the findings
 * are kept as a table. If PL_PEEKS launches have none, its arguments name all its data, until a
 * later peek finds otherwise (PL_PEEK_AGAIN).
 *
 * Where data may move, the launch waits for its copies, since it is to be known at once whether
 * all data have to be mapped for it. The work before it may itself wait for something that comes
 * later: a value that host code writes, a lock that the launching thread holds. So there is a
 * limit. Once it was reached no launch waits any more, and all data are mapped for each that is
 * peeked into. Then, and while all data fit, copies are searched some launches later.
 *
 * Large blocks are peeked into, too: pools allocate their tables as parts of such. But most of a
 * large block is data, which may look like an address once. There the test needs an address at
 * the very place that the argument names, or two.
 *
 * Bounded: SLOTS copies under way; a launch without a free slot is peeked into another time.
 * Threads: any; one lock, held across driver calls that wait for nothing.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "preload/alloc/block.h"
#include "preload/alloc/suballoc.h"
#include "preload/args/functions.h"
#include "preload/args/pointer_table.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/streams/capture.h"
#include "preload/streams/fence.h"
#include "preload/streams/stream.h"

#define SLOTS        512u
#define SLOT_BYTES   4096u
#define GROUPS       128u                /* launches being peeked into; a power of two */
#define BORDER_BYTES ((uint64_t)2 << 20) /* of chunks: a copy across may be refused */
/* Longer than the queues of programs that lack memory: theirs are some 0.1 s. Shorter than a person takes for
 * standing still. */
#define PEEK_WAIT_NS UINT64_C(1000000000)
#define PEEK_LOOK_NS 20000 /* between two looks: as long as a small copy takes */

struct slot {
	uint64_t addr;
	uint32_t bytes;
	int is_pool; /* a part of a large block */
};

/* The copies of one launch. */
struct group {
	struct pl_function *function;
	struct pl_fence *fence;
	unsigned first, n; /* slots */
};

static struct sl_mutex lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_KERNELS);
static char *memory; /* pinned, SLOTS of SLOT_BYTES */
static struct slot slots[SLOTS];
static struct group groups[GROUPS];
static unsigned group_head, group_tail; /* count up */
static unsigned slot_head, slot_tail;   /* count up; used as a ring */
static _Atomic unsigned waiting;        /* groups */

static int
scan_copy_out(void *to, uint64_t from, size_t bytes, struct cu_stream *stream,
	      enum pl_default_stream flavour)
{
	int (*copy)(void *, uint64_t, size_t,
		    struct cu_stream *) = flavour == PL_PER_THREAD
						  ? pl_real[SL_API_cuMemcpyDtoHAsync_v2_ptsz]
						  : pl_real[SL_API_cuMemcpyDtoHAsync_v2];

	return copy(to, from, bytes, stream);
}

SL_REQUIRES(lock) static int memory_make(void)
{
	int (*make)(void **, size_t, unsigned) = pl_real[SL_API_cuMemHostAlloc];
	void *got;
	int token;

	if (memory)
		return 1;
	token = pl_capture_relax();
	if (!make(&got, (size_t)SLOTS * SLOT_BYTES, CU_HOST_ALLOC_PORTABLE))
		memory = got;
	pl_capture_restore(token);
	return memory != NULL;
}

/* Enough launches, all looked at, and nothing found. */
static void
function_judge(struct pl_function *f)
{
	int unknown = PL_UNKNOWN;

	if (atomic_load(&f->peeked) >= PL_PEEKS && !atomic_load(&f->pending))
		atomic_compare_exchange_strong(&f->knowledge, &unknown, PL_DIRECT);
}

bool
pl_pointer_scan(struct pl_function *f, struct cu_stream *stream,
		enum pl_default_stream flavour, const uint64_t *at, size_t n)
{
	struct pl_gpu *gpu = NULL;
	struct group *group;
	unsigned first, used = 0, named = 0;
	bool whole = false;

	pl_enter();
	sl_mutex_lock(&lock);
	if (group_head - group_tail == GROUPS || slot_head - slot_tail + n > SLOTS ||
	    !memory_make())
		goto out;
	first = slot_head;
	whole = true;
	for (size_t i = 0; i < n; i++) {
		struct pl_block *block = pl_data_find(at[i]);
		uint64_t left;
		struct slot *slot;

		if (!block)
			continue;
		named++;
		left = block->base + block->bytes - at[i];
		if (left > BORDER_BYTES - at[i] % BORDER_BYTES)
			left = BORDER_BYTES - at[i] % BORDER_BYTES;
		slot = &slots[slot_head % SLOTS];
		slot->addr = at[i];
		slot->is_pool = block->bytes > PL_POOL_BYTES;
		slot->bytes = (uint32_t)(left < SLOT_BYTES ? left : SLOT_BYTES);
		if (slot->bytes < sizeof(uint64_t))
			continue; /* it has no room for an address */
		if (scan_copy_out(memory + (size_t)(slot_head % SLOTS) * SLOT_BYTES,
				  slot->addr, slot->bytes, stream, flavour)) {
			whole = false;
			continue;
		}
		gpu = block->gpu;
		slot_head++;
		used++;
	}
	if (used) {
		group = &groups[group_head % GROUPS];
		*group = (struct group){f, NULL, first, used};
		/* Without a fence nothing tells when the copies have come: the slots are free again
		 * when a later group has passed. */
		if (pl_fence_make(gpu, pl_stream_bit(gpu, stream, flavour), &group->fence)) {
			whole = false;
			goto out;
		}
		group_head++;
		atomic_fetch_add(&waiting, 1);
		atomic_fetch_add(&f->pending, 1);
	}
	atomic_fetch_add(&f->peeked, 1);
	function_judge(f);
out:
	sl_mutex_unlock(&lock);
	pl_leave();
	return whole && named;
}

/* Whether what was copied holds addresses. */
static bool
slot_is_table(const struct slot *slot, const char *bytes)
{
	uint32_t first = (uint32_t)(-slot->addr & 7);
	unsigned n = 0;

	for (uint32_t k = first; k + 8 <= slot->bytes; k += 8) {
		uint64_t word;

		memcpy(&word, bytes + k, sizeof(word));
		if (!pl_maybe_ours(word) || !pl_block_find(word))
			continue;
		if (!slot->is_pool || k == first || ++n == 2)
			return true;
	}
	return false;
}

SL_REQUIRES(lock) static void group_look(struct group *group)
{
	struct pl_function *f = group->function;

	for (unsigned i = 0; i < group->n; i++) {
		unsigned at = (group->first + i) % SLOTS;
		const char *bytes = memory + (size_t)at * SLOT_BYTES;

		if (!slot_is_table(&slots[at], bytes))
			continue;
		atomic_store(&f->knowledge, PL_INDIRECT);
		pl_pointer_table_note(slots[at].addr, bytes, slots[at].bytes);
	}
	atomic_fetch_sub(&f->pending, 1);
	function_judge(f);
}

void
pl_pointer_scans_look(void)
{
	if (!atomic_load(&waiting) || sl_mutex_trylock(&lock))
		return;
	pl_enter();
	while (group_tail != group_head) {
		struct group *group = &groups[group_tail % GROUPS];

		if (!pl_fence_passed(group->fence))
			break;
		group_look(group);
		slot_tail = group->first + group->n;
		group_tail++;
		atomic_fetch_sub(&waiting, 1);
	}
	pl_leave();
	sl_mutex_unlock(&lock);
}

bool
pl_pointer_scan_finds_none(struct pl_function *f, struct cu_stream *stream,
			   enum pl_default_stream flavour, const uint64_t *at, size_t n)
{
	static _Atomic int given_up; /* atomic: relaxed: one wait more does no harm */
	const struct timespec pause = {0, PEEK_LOOK_NS};
	uint64_t until;

	if (!pl_pointer_scan(f, stream, flavour, at, n) ||
	    atomic_load_explicit(&given_up, memory_order_relaxed))
		return false;
	until = sl_now_ns() + PEEK_WAIT_NS;
	for (;;) {
		pl_pointer_scans_look();
		if (!atomic_load(&f->pending))
			return atomic_load(&f->knowledge) != PL_INDIRECT;
		if (sl_now_ns() >= until)
			break;
		nanosleep(&pause, NULL);
	}
	atomic_store_explicit(&given_up, 1, memory_order_relaxed);
	sl_log(SL_INFO, "peek",
	       "%s: work before it has not ended within a second: launches do not "
	       "wait for peeks any more",
	       f->name);
	return false;
}
