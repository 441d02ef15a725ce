/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bins: see bins.h. A hash table of sizes; the rooms of a size are a binary heap by address. Bins are
 * never given back: programs use few sizes.
 */
#include "preload/bins.h"

#include <errno.h>
#include <stdlib.h>

struct pl_bin {
	struct pl_bin *next;
	uint64_t room;
	struct pl_binned *heap; /* lowest base first */
	size_t n, max;
};

static struct pl_bin **
bucket_of(struct pl_bins *bins, uint64_t room)
{
	return &bins->buckets[room * 0x9e3779b97f4a7c15u >> 56];
}

static struct pl_bin *
bin_find(struct pl_bins *bins, uint64_t room)
{
	struct pl_bin *bin = *bucket_of(bins, room);

	while (bin && bin->room != room)
		bin = bin->next;
	return bin;
}

static struct pl_bin *
bin_make(struct pl_bins *bins, uint64_t room)
{
	struct pl_bin **bucket = bucket_of(bins, room);
	struct pl_bin *bin = calloc(1, sizeof(*bin));

	if (!bin)
		return NULL;
	bin->room = room;
	bin->next = *bucket;
	*bucket = bin;
	return bin;
}

void
pl_bins_fini(struct pl_bins *bins)
{
	for (unsigned i = 0; i < PL_BIN_BUCKETS; i++) {
		while (bins->buckets[i]) {
			struct pl_bin *bin = bins->buckets[i];

			bins->buckets[i] = bin->next;
			free(bin->heap);
			free(bin);
		}
	}
}

int
pl_bins_put(struct pl_bins *bins, const struct pl_binned *room)
{
	struct pl_bin *bin = bin_find(bins, room->room);
	size_t at;

	if (!bin)
		bin = bin_make(bins, room->room);
	if (!bin)
		return -ENOMEM;
	if (bin->n == bin->max) {
		size_t max = bin->max ? 2 * bin->max : 16;
		struct pl_binned *more = realloc(bin->heap, max * sizeof(*more));

		if (!more)
			return -ENOMEM;
		bin->heap = more;
		bin->max = max;
	}
	at = bin->n++;
	while (at && bin->heap[(at - 1) / 2].base > room->base) {
		bin->heap[at] = bin->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	bin->heap[at] = *room;
	bins->bytes += room->room + room->gap_bytes;
	return 0;
}

static void
bin_pop(struct pl_bins *bins, struct pl_bin *bin, struct pl_binned *out)
{
	struct pl_binned last = bin->heap[--bin->n];
	size_t at = 0;

	*out = bin->heap[0];
	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < bin->n && bin->heap[child + 1].base < bin->heap[child].base)
			child++;
		if (child >= bin->n || bin->heap[child].base > last.base)
			break;
		bin->heap[at] = bin->heap[child];
		at = child;
	}
	bin->heap[at] = last;
	bins->bytes -= out->room + out->gap_bytes;
}

int
pl_bins_take(struct pl_bins *bins, uint64_t room, struct pl_binned *out)
{
	struct pl_bin *bin = bin_find(bins, room);

	if (!bin || !bin->n)
		return 0;
	bin_pop(bins, bin, out);
	return 1;
}

int
pl_bins_take_any(struct pl_bins *bins, struct pl_binned *out)
{
	for (unsigned i = 0; i < PL_BIN_BUCKETS; i++) {
		for (struct pl_bin *bin = bins->buckets[i]; bin; bin = bin->next) {
			if (!bin->n)
				continue;
			bin_pop(bins, bin, out);
			return 1;
		}
	}
	return 0;
}
