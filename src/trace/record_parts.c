/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools in a recording. A program with an allocator of its own has few large blocks, and a launch
 * uses parts of them. A plan needs these parts as tensors. They are found when all is recorded:
 * more is known then than at any launch.
 *
 * - A tensor with an open use is a pool.
 * - It is cut where open uses of two launches begin. Programs that pass another address at each
 *   launch are not cut there.
 * - It is cut where copies, and uses that are not open, begin and end, if they have COPY_BYTES.
 *   Smaller ones are parts of tensors.
 * - An open use reaches to the next cut. Other uses are those of all parts that they touch.
 */
#include <errno.h>
#include <stdlib.h>

#include "trace/record_internal.h"

/* Both as while the program runs: args/parts.c, report/tracing.h. A part has so many bytes at least, and begins
 * no closer to the end. */
#define COPY_BYTES ((uint64_t)1 << 20)
#define PART_BYTES ((uint64_t)64 << 10)

/* A place in a pool where something begins or ends, and how often. */
struct place {
	uint64_t serial, offset_bytes;
	uint64_t seen; /* by so many launches; a large copy counts for two */
};

/* A pool's parts: from the first on, serials in a row. */
struct pool {
	uint64_t serial, size_bytes;
	uint64_t first_part;
	size_t first_cut, n_parts; /* of cuts: where parts begin; the first at 0 */
};

struct cutter {
	struct sl_record *record;
	struct pool *pools; /* sorted by serial */
	size_t n_pools;
	struct list places, cuts; /* struct place; uint64_t */
};

static int
number_compare(uint64_t x, uint64_t y)
{
	return (x > y) - (x < y);
}

static int
place_compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int order = number_compare(x->serial, y->serial);

	return order ? order : number_compare(x->offset_bytes, y->offset_bytes);
}

static int
pool_compare(const void *a, const void *b)
{
	const struct pool *x = a, *y = b;

	return number_compare(x->serial, y->serial);
}

/* ---- pools ---- */

static struct pool *
cutter_pool(const struct cutter *c, uint64_t serial)
{
	const struct pool key = {.serial = serial};

	return c->n_pools ? bsearch(&key, c->pools, c->n_pools, sizeof(key), pool_compare)
			  : NULL;
}

/* The serials of pools, each once; sizes come from their tensors. 0 or -ENOMEM. */
static int
pools_find(struct cutter *c)
{
	const struct tensor_event *tensors = c->record->tensors.data;
	const struct use_event *uses = c->record->uses.data;
	struct list found = {0};
	struct pool *pool;
	size_t n = 0;

	for (size_t i = 0; i < c->record->uses.n; i++) {
		if (!uses[i].open)
			continue;
		pool = found.data;
		if (found.n && pool[found.n - 1].serial == uses[i].serial)
			continue;
		pool = sl_record_room(&found, 1, sizeof(*pool));
		if (!pool) {
			free(found.data);
			return -ENOMEM;
		}
		*pool = (struct pool){.serial = uses[i].serial};
		found.n++;
	}
	c->pools = found.data;
	if (found.n)
		qsort(c->pools, found.n, sizeof(*c->pools), pool_compare);
	for (size_t i = 0; i < found.n; i++)
		if (!n || c->pools[n - 1].serial != c->pools[i].serial)
			c->pools[n++] = c->pools[i];
	c->n_pools = n;
	for (size_t i = 0; i < c->record->tensors.n; i++) {
		pool = cutter_pool(c, tensors[i].serial);
		if (pool)
			pool->size_bytes = tensors[i].size_bytes;
	}
	return 0;
}

/* ---- where they are cut ---- */

static int
place_add(struct cutter *c, uint64_t serial, uint64_t offset_bytes, uint64_t seen)
{
	struct place *place = sl_record_room(&c->places, 1, sizeof(*place));

	if (!place)
		return -ENOMEM;
	*place = (struct place){serial, offset_bytes, seen};
	c->places.n++;
	return 0;
}

/* Both ends of a copy, or of a use with a size. */
static int
range_add(struct cutter *c, uint64_t serial, uint64_t offset_bytes, uint64_t bytes)
{
	int rc;

	if (bytes < COPY_BYTES || !cutter_pool(c, serial))
		return 0;
	rc = place_add(c, serial, offset_bytes, 2);
	return rc ? rc : place_add(c, serial, offset_bytes + bytes, 2);
}

static int
places_find(struct cutter *c)
{
	const struct use_event *uses = c->record->uses.data;
	const struct mark_event *marks = c->record->marks.data;
	int rc = 0;

	for (size_t i = 0; i < c->record->uses.n && !rc; i++)
		rc = uses[i].open ? place_add(c, uses[i].serial, uses[i].offset_bytes, 1)
				  : range_add(c, uses[i].serial, uses[i].offset_bytes,
					      uses[i].size_bytes);
	for (size_t i = 0; i < c->record->marks.n && !rc; i++)
		if (marks[i].what != MARK_FREE)
			rc = range_add(c, marks[i].serial, marks[i].offset_bytes,
				       marks[i].bytes);
	if (c->places.n)
		qsort(c->places.data, c->places.n, sizeof(struct place), place_compare);
	return rc;
}

static int
pool_cut_add(struct cutter *c, struct pool *pool, uint64_t offset_bytes)
{
	uint64_t *cut = sl_record_room(&c->cuts, 1, sizeof(*cut));

	if (!cut)
		return -ENOMEM;
	*cut = offset_bytes;
	c->cuts.n++;
	pool->n_parts++;
	return 0;
}

/* Places that count, far enough from each other. places: sorted; those of the pool begin at *at. */
static int
pool_cut(struct cutter *c, struct pool *pool, size_t *at)
{
	const struct place *places = c->places.data;
	uint64_t last = 0, seen;
	int rc;

	pool->first_cut = c->cuts.n;
	rc = pool_cut_add(c, pool, 0);
	while (!rc && *at < c->places.n && places[*at].serial == pool->serial) {
		uint64_t offset = places[*at].offset_bytes;

		for (seen = 0; *at < c->places.n && places[*at].serial == pool->serial &&
			       places[*at].offset_bytes == offset;
		     ++*at)
			seen += places[*at].seen;
		if (seen < 2 || offset - last < PART_BYTES ||
		    offset + PART_BYTES > pool->size_bytes)
			continue;
		last = offset;
		rc = pool_cut_add(c, pool, offset);
	}
	return rc;
}

/* ---- everything in terms of parts ---- */

static uint64_t
part_end(const struct cutter *c, const struct pool *pool, size_t part)
{
	const uint64_t *cuts = c->cuts.data;

	return part + 1 < pool->n_parts ? cuts[pool->first_cut + part + 1] : pool->size_bytes;
}

/* The part that a byte is in. */
static size_t
pool_part(const struct cutter *c, const struct pool *pool, uint64_t offset)
{
	const uint64_t *cuts = (const uint64_t *)c->cuts.data + pool->first_cut;
	size_t low = 0, high = pool->n_parts;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (cuts[middle] <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The pools' own tensors go. */
static void
wholes_remove(const struct cutter *c)
{
	struct list *list = &c->record->tensors;
	struct tensor_event *tensors = list->data;
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++)
		if (!cutter_pool(c, tensors[i].serial))
			tensors[kept++] = tensors[i];
	list->n = kept;
}

/* Tensors: the pool's become as many. Parts have serials behind all others. */
static int
pool_tensors_cut(struct cutter *c)
{
	struct list *list = &c->record->tensors;
	const uint64_t *cuts = c->cuts.data;
	uint64_t serial = 0;
	size_t n = list->n;

	for (size_t i = 0; i < n; i++)
		if (((struct tensor_event *)list->data)[i].serial >= serial)
			serial = ((struct tensor_event *)list->data)[i].serial + 1;
	for (size_t i = 0; i < n; i++) {
		struct tensor_event whole = ((struct tensor_event *)list->data)[i], *to;
		struct pool *pool = cutter_pool(c, whole.serial);

		if (!pool || pool->first_part)
			continue;
		pool->first_part = serial;
		serial += pool->n_parts;
		to = sl_record_room(list, pool->n_parts, sizeof(*to));
		if (!to)
			return -ENOMEM;
		for (size_t part = 0; part < pool->n_parts; part++) {
			to[part] = whole;
			to[part].serial = pool->first_part + part;
			to[part].size_bytes = part_end(c, pool, part) -
					      cuts[pool->first_cut + part];
		}
		list->n += pool->n_parts;
	}
	wholes_remove(c);
	return 0;
}

/* What lies behind the pool's end counts as its last byte. */
static uint64_t
within(const struct pool *pool, uint64_t offset)
{
	return offset < pool->size_bytes ? offset : pool->size_bytes - 1;
}

/* One use of a pool as uses of the parts that it touches. */
static int
use_cut(const struct cutter *c, const struct pool *pool, const struct use_event *use,
	struct list *to)
{
	const uint64_t *cuts = (const uint64_t *)c->cuts.data + pool->first_cut;
	uint64_t begin = within(pool, use->offset_bytes), end = begin + use->size_bytes;
	size_t first, last;
	struct use_event *at;

	if (!use->open && !use->size_bytes) {
		begin = 0;
		end = pool->size_bytes;
	}
	first = pool_part(c, pool, begin);
	last = use->open ? first : pool_part(c, pool, end - 1);
	at = sl_record_room(to, last - first + 1, sizeof(*at));
	if (!at)
		return -ENOMEM;
	for (size_t part = first; part <= last; part++) {
		uint64_t from = cuts[part], behind = part_end(c, pool, part);

		*at = *use;
		at->open = 0;
		at->serial = pool->first_part + part;
		at->offset_bytes = use->open || begin < from ? 0 : begin - from;
		at->size_bytes = (use->open || end > behind ? behind : end) - from -
				 at->offset_bytes;
		at++;
	}
	to->n += last - first + 1;
	return 0;
}

static int
uses_cut(struct cutter *c)
{
	struct sl_record *record = c->record;
	struct launch_event *launches = record->launches.data;
	const struct use_event *uses = record->uses.data;
	struct list cut = {0};
	int rc = 0;

	for (size_t k = 0; k < record->launches.n && !rc; k++) {
		size_t first = launches[k].first_use, n = launches[k].n_uses;

		launches[k].first_use = cut.n;
		for (size_t i = first; i < first + n && !rc; i++) {
			const struct pool *pool = cutter_pool(c, uses[i].serial);
			struct use_event *to;

			if (pool && pool->first_part) {
				rc = use_cut(c, pool, &uses[i], &cut);
				continue;
			}
			to = sl_record_room(&cut, 1, sizeof(*to));
			rc = to ? 0 : -ENOMEM;
			if (to) {
				*to = uses[i];
				cut.n++;
			}
		}
		launches[k].n_uses = (uint32_t)(cut.n - launches[k].first_use);
	}
	free(record->uses.data);
	record->uses = cut;
	return rc;
}

/* A copy is one of each part that it touches; a pool that is freed takes its parts along. */
static int
mark_cut(const struct cutter *c, const struct pool *pool, const struct mark_event *mark,
	 struct list *to)
{
	const uint64_t *cuts = (const uint64_t *)c->cuts.data + pool->first_cut;
	uint64_t begin = within(pool, mark->offset_bytes), end = begin + mark->bytes;
	int frees = mark->what == MARK_FREE;
	size_t first = frees ? 0 : pool_part(c, pool, begin);
	size_t last = frees ? pool->n_parts - 1
			    : pool_part(c, pool, end - (mark->bytes > 0));
	struct mark_event *at = sl_record_room(to, last - first + 1, sizeof(*at));

	if (!at)
		return -ENOMEM;
	for (size_t part = first; part <= last; part++) {
		uint64_t from = cuts[part], behind = part_end(c, pool, part);

		*at = *mark;
		at->serial = pool->first_part + part;
		at->offset_bytes = begin < from ? 0 : begin - from;
		if (!frees)
			at->bytes = (end > behind ? behind : end) - from - at->offset_bytes;
		at++;
	}
	to->n += last - first + 1;
	return 0;
}

static int
marks_cut(struct cutter *c)
{
	struct list cut = {0}, *list = &c->record->marks;
	int rc = 0;

	for (size_t i = 0; i < list->n && !rc; i++) {
		const struct mark_event *mark = (const struct mark_event *)list->data + i;
		const struct pool *pool = cutter_pool(c, mark->serial);
		struct mark_event *to;

		if (pool && pool->first_part) {
			rc = mark_cut(c, pool, mark, &cut);
			continue;
		}
		to = sl_record_room(&cut, 1, sizeof(*to));
		rc = to ? 0 : -ENOMEM;
		if (to) {
			*to = *mark;
			cut.n++;
		}
	}
	free(list->data);
	*list = cut;
	return rc;
}

/* A sample is of the part that its first byte is in: samples are far smaller than parts. */
static void
samples_cut(const struct cutter *c)
{
	struct sample_event *samples = c->record->samples.data;

	for (size_t i = 0; i < c->record->samples.n; i++) {
		const struct pool *pool = cutter_pool(c, samples[i].serial);

		if (pool && pool->first_part)
			samples[i].serial = pool->first_part +
					    pool_part(c, pool,
						      within(pool, samples[i].offset_bytes));
	}
}

int
sl_record_cut(struct sl_record *record)
{
	struct cutter c = {.record = record};
	size_t at = 0;
	int rc = pools_find(&c);

	if (!rc && c.n_pools)
		rc = places_find(&c);
	for (size_t i = 0; i < c.n_pools && !rc; i++)
		rc = pool_cut(&c, &c.pools[i], &at);
	if (!rc && c.n_pools)
		rc = pool_tensors_cut(&c);
	if (!rc && c.n_pools)
		rc = uses_cut(&c);
	if (!rc && c.n_pools)
		rc = marks_cut(&c);
	if (!rc && c.n_pools)
		samples_cut(&c);
	free(c.pools);
	free(c.places.data);
	free(c.cuts.data);
	return rc ? sl_fail(rc, "record: no memory for the parts of %zu pools", c.n_pools)
		  : 0;
}
