/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sort that leaves equal elements where the published G10 program has them.
 *
 * That program sorts its candidates anew every round with std::sort of libstdc++, and many
 * candidates are equal; which of them goes first decides its plan. So this is an introsort
 * with the same published parameters: quicksort on the median of the second, the middle and
 * the last element down to pieces of 16, heapsort once the depth passes 2 log2 n, one
 * insertion sort over all at the end. Written from that definition.
 *
 * The published comparison is not a strict order (it treats near values as equal), so the
 * scans that rely on a sentinel are bounded here.
 *
 * Threads: pure. The recursion is at most 2 log2 n deep.
 */
#include "g10/replica.h"

#define PIECE 16u

struct sort {
	uint32_t *v;
	uint32_t n;
	sl_g10_before before;
	const void *context;
};

static inline int
goes_before(const struct sort *s, uint32_t a, uint32_t b)
{
	return s->before(s->context, a, b);
}

static inline void
swap(uint32_t *a, uint32_t *b)
{
	uint32_t t = *a;

	*a = *b;
	*b = t;
}

/* Put the middle one of three values where `to` is. */
static void
median_to(const struct sort *s, uint32_t *to, uint32_t *a, uint32_t *b, uint32_t *c)
{
	uint32_t *middle;

	if (goes_before(s, *a, *b)) {
		if (goes_before(s, *b, *c))
			middle = b;
		else
			middle = goes_before(s, *a, *c) ? c : a;
	} else if (goes_before(s, *a, *c)) {
		middle = a;
	} else {
		middle = goes_before(s, *b, *c) ? c : b;
	}
	swap(to, middle);
}

/* Split [first, last) by the pivot at first; returns where the upper part begins. */
static uint32_t *
split(const struct sort *s, uint32_t *first, uint32_t *last)
{
	uint32_t *low = first + 1, *high = last;
	uint32_t pivot;

	median_to(s, first, first + 1, first + (last - first) / 2, last - 1);
	pivot = *first;
	for (;;) {
		while (low < last && goes_before(s, *low, pivot))
			low++;
		high--;
		while (high > first && goes_before(s, pivot, *high))
			high--;
		if (low >= high)
			return low;
		swap(low, high);
		low++;
	}
}

/* Heap of n values at v with a hole: let the larger children rise to the leaf, then let
 * value rise from there. */
static void
heap_fill(const struct sort *s, uint32_t *v, uint32_t hole, uint32_t n, uint32_t value)
{
	uint32_t top = hole, child = hole;

	while (n > 1 && child < (n - 1) / 2) {
		child = 2 * child + 2;
		if (goes_before(s, v[child], v[child - 1]))
			child--;
		v[hole] = v[child];
		hole = child;
	}
	if (n % 2 == 0 && n >= 2 && child == (n - 2) / 2) {
		child = 2 * child + 1;
		v[hole] = v[child];
		hole = child;
	}
	while (hole > top && goes_before(s, v[(hole - 1) / 2], value)) {
		v[hole] = v[(hole - 1) / 2];
		hole = (hole - 1) / 2;
	}
	v[hole] = value;
}

static void
heap_sort(const struct sort *s, uint32_t *v, uint32_t n)
{
	for (uint32_t i = n / 2; i-- > 0;)
		heap_fill(s, v, i, n, v[i]);
	while (n > 1) {
		uint32_t value = v[--n];

		v[n] = v[0];
		heap_fill(s, v, 0, n, value);
	}
}

static void
quick_sort(const struct sort *s, uint32_t *first, uint32_t *last, unsigned depth)
{
	while (last - first > PIECE) {
		uint32_t *cut;

		if (depth == 0) {
			heap_sort(s, first, (uint32_t)(last - first));
			return;
		}
		depth--;
		cut = split(s, first, last);
		quick_sort(s, cut, last, depth);
		last = cut;
	}
}

/* Move *at down to its place among the sorted values before it. */
static void
insert_down(const struct sort *s, uint32_t *at)
{
	uint32_t value = *at;

	while (at > s->v && goes_before(s, value, at[-1])) {
		*at = at[-1];
		at--;
	}
	*at = value;
}

static void
insertion_sort(const struct sort *s, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		uint32_t value = s->v[i];

		if (goes_before(s, value, s->v[0])) {
			for (uint32_t j = i; j > 0; j--)
				s->v[j] = s->v[j - 1];
			s->v[0] = value;
		} else {
			insert_down(s, &s->v[i]);
		}
	}
}

void
g10_sort(uint32_t *index, uint32_t n, sl_g10_before before, const void *context)
{
	struct sort s = {.v = index, .n = n, .before = before, .context = context};
	unsigned log2n = 0;

	if (n < 2)
		return;
	while (n >> (log2n + 1))
		log2n++;
	quick_sort(&s, index, index + n, 2 * log2n);
	insertion_sort(&s, n < PIECE ? n : PIECE);
	for (uint32_t i = PIECE; i < n; i++)
		insert_down(&s, &index[i]);
}
