/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random allocations, fills and frees on several streams, with data that fit the device and with
 * several times as many. Queued work is late. Memory may be freed while work on it is queued.
 * That work must not show in a later allocation. The seed is printed, or taken from the command
 * line.
 */
#include "copy_test.h"

#include <string.h>

#include "base/rng.h"
#include "preload/api/api_alloc.h"
#include "preload/api/api_query.h"
#include "preload/api/api_stream.h"

#define MIB     ((size_t)1 << 20)
#define SLOTS   48u
#define STREAMS 3u

int cuStreamSynchronize(struct cu_stream *stream);

struct slot {
	uint64_t addr;
	size_t bytes, half;
	unsigned home; /* the stream that works on it */
	int is_async;
	int filled;
	unsigned char low, high; /* what its halves hold */
};

static struct slot slots[SLOTS];
static struct cu_stream *streams[STREAMS];
static struct sl_rng rng;
static unsigned char *data;

static uint64_t
below(uint64_t n)
{
	return sl_rng_below(&rng, n);
}

static void
slot_alloc(struct slot *slot, size_t most)
{
	*slot = (struct slot){.bytes = 1 + below(below(4) ? most / 64 : most),
			      .home = (unsigned)below(STREAMS),
			      .is_async = (int)below(2)};
	slot->half = slot->bytes / 2;
	if (slot->is_async)
		MUST(DRIVER(cuMemAllocAsync)(&slot->addr, slot->bytes, streams[slot->home]));
	else
		MUST(DRIVER(cuMemAlloc_v2)(&slot->addr, slot->bytes));
}

static void
slot_fill(struct slot *slot)
{
	slot->low = (unsigned char)below(256);
	slot->high = (unsigned char)below(256);
	if (slot->half)
		MUST(DRIVER(cuMemsetD8Async)(slot->addr, slot->low, slot->half,
					     streams[slot->home]));
	MUST(DRIVER(cuMemsetD8Async)(slot->addr + slot->half, slot->high,
				     slot->bytes - slot->half, streams[slot->home]));
	slot->filled = 1;
}

static void
slot_look(const struct slot *slot)
{
	if (!slot->filled)
		return;
	MUST(DRIVER(cuMemcpyDtoHAsync_v2)(data, slot->addr, slot->bytes, streams[slot->home]));
	MUST(DRIVER(cuStreamSynchronize)(streams[slot->home]));
	for (size_t i = 0; i < slot->bytes; i++)
		CHECK(data[i] == (i < slot->half ? slot->low : slot->high));
}

static void
slot_free(struct slot *slot)
{
	if (slot->is_async && below(3))
		MUST(DRIVER(cuMemFreeAsync)(slot->addr, streams[slot->home]));
	else if (slot->is_async) { /* a plain free of it is not ordered: the program waits */
		MUST(DRIVER(cuStreamSynchronize)(streams[slot->home]));
		MUST(DRIVER(cuMemFree_v2)(slot->addr));
	} else {
		MUST(DRIVER(cuMemFree_v2)(slot->addr));
	}
	slot->addr = 0;
}

static void
run(unsigned n_steps, size_t most)
{
	for (unsigned i = 0; i < n_steps; i++) {
		struct slot *slot = &slots[below(SLOTS)];

		if (!slot->addr) {
			slot_alloc(slot, most);
			slot_fill(slot);
		} else if (below(3) == 0) {
			slot_look(slot);
		} else if (below(2)) {
			slot_fill(slot);
		} else {
			slot_free(slot);
		}
	}
	for (unsigned k = 0; k < SLOTS; k++)
		if (slots[k].addr) {
			slot_look(&slots[k]);
			slot_free(&slots[k]);
		}
}

int
main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 2;
	const struct sl_standin *standin;
	size_t before, after;

	setenv("CUDA_STANDIN_LATE_US", "300", 0);
	standin = copy_test_open("32M");
	printf("seed %llu\n", (unsigned long long)seed);
	sl_rng_init(&rng, seed);
	data = malloc(4 * MIB);
	CHECK(data);
	for (unsigned i = 0; i < STREAMS; i++)
		streams[i] = copy_test_stream();
	MUST(DRIVER(cuMemGetInfo_v2)(&before, NULL));
	run(300, MIB / 8); /* fits */
	run(900, 4 * MIB); /* does not */
	MUST(DRIVER(cuMemGetInfo_v2)(&after, NULL));
	CHECK(before == after);
	CHECK(!standin->violations());
	free(data);
	return 0;
}
