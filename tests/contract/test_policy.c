/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy is an object (core/policy.h). Here is one of our own, most recently used first, and the
 * bytes that it must move on launches that one can follow by hand. HACKING.md explains it, under
 * "change the replacement rule". A second policy only notes which of its functions are called.
 */
#include "api.h"

#include <errno.h>
#include <string.h>

#include "core/launch/launch.h"
#include "core/space_on.h"

/* ---- most recently used first ------------------------------------------------------------- */

#define MRU_CLOCK ((uint64_t)1 << 32) /* more uses than a space sees */

/* Stamps of a policy lie below the clock of uses. */
static int
mru_create(struct sluice_space *s)
{
	s->clock = MRU_CLOCK;
	return 0;
}

/* The later a chunk is used, the smaller is its stamp: it leaves first. */
SL_HELD static int
mru_stamp(struct sluice_launch *l)
{
	uint64_t uses = l->space->clock - MRU_CLOCK; /* so far */

	for (size_t k = 0; k < l->n_uses; k++) {
		const struct sl_launch_use *u = &l->uses[k];

		for (uint64_t i = u->first; i <= u->last; i++)
			sl_chunk_restamp(&u->region->chunks[i], MRU_CLOCK - uses - k);
	}
	return 1;
}

static const struct sl_policy mru = {
	.name = "mru",
	.stamp_on_hit = 1,
	.honour_intents = 1,
	.honour_flags = 1,
	.create = mru_create,
	.stamp = mru_stamp,
};

/* ---- what it moves ------------------------------------------------------------------------ */

/* Each character is a launch that reads the chunk of that number. */
static void
launches(struct sluice_space *s, char *base, const char *numbers)
{
	for (const char *n = numbers; *n; n++)
		use(s, at_chunk(base, (uint64_t)(*n - '0')), CHUNK, SLUICE_USE_READ);
}

/* Four chunks in turn, room for three: lru has always evicted the one that comes next. */
static void
least_recently_used_misses_every_launch_of_a_sweep(void)
{
	struct sluice_space *s = space_make("device_budget=6M");
	char *base = region_map(s, file_make("data", 4 * CHUNK, 1), 0, 0, SLUICE_READ);

	launches(s, base, "012301230123");
	space_sync(s);
	CHECK_EQ(h2d(s), 12 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_EVICTIONS), 9);
	space_end(s);
}

/*
 * The same under most recently used first. A miss evicts the chunk of the launch before it:
 *
 *	launch    0   1   2   3   0   1   2   3   0   1   2   3
 *	evicts    -   -   -   2   .   .   1   .   .   0   .   .
 *	present   0   01  012 013 013 013 023 023 023 123 123 123
 */
static void
most_recently_used_keeps_the_chunks_that_come_next(void)
{
	struct sluice_space *s = space_make_with("device_budget=6M", &mru);
	char *base = region_map(s, file_make("data", 4 * CHUNK, 1), 0, 0, SLUICE_READ);

	launches(s, base, "012301230123");
	space_sync(s);
	CHECK_EQ(h2d(s), 6 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_EVICTIONS), 3);
	CHECK_EQ(counter(s, SLUICE_COUNTER_CLEAN_DROP), 3 * CHUNK);
	CHECK_EQ(residency(s, base, CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 0);
	CHECK_EQ(residency(s, at_chunk(base, 1), 3 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE],
		 3 * CHUNK);
	space_end(s);
}

/* Whatever the order of victims, the contents are right. Three sweeps add one each. */
static void
results_do_not_depend_on_the_policy(void)
{
	struct sluice_space *s = space_make_with("device_budget=6M,host_budget=4M", &mru);
	char *base = region_alloc(s, 6 * CHUNK);

	for (uint64_t i = 0; i < 6; i++)
		launch(s, KERNEL_FILL, at_chunk(base, i), CHUNK, SLUICE_USE_WRITE_ALL, i);
	for (int round = 0; round < 3; round++)
		for (uint64_t i = 0; i < 6; i++)
			launch(s, KERNEL_ADD, at_chunk(base, i), CHUNK,
			       SLUICE_USE_READ_WRITE, 1);
	space_sync(s);
	for (uint64_t i = 0; i < 6; i++)
		for (uint64_t k = 0; k < CHUNK / 8; k++)
			CHECK(((uint64_t *)at_chunk(base, i))[k] == pattern(i, k) + 3);
	space_end(s);
}

/* ---- when its functions are called -------------------------------------------------------- */

static struct {
	int created, destroyed, noted, stamped, discarded, evicted, forgotten;
	uint64_t discarded_bytes;
} calls;

static int
watch_create(struct sluice_space *s)
{
	s->policy_state = malloc(1);
	calls.created++;
	return 0;
}

static void
watch_destroy(struct sluice_space *s)
{
	free(s->policy_state);
	calls.destroyed++;
}

static void
watch_note(struct sluice_launch *l)
{
	(void)l;
	calls.noted++;
}

static int
watch_stamp(struct sluice_launch *l)
{
	(void)l;
	calls.stamped++;
	return 0;
}

static void
watch_discarded(struct sl_region *r, uint64_t begin, uint64_t end)
{
	(void)r;
	calls.discarded++;
	calls.discarded_bytes += end - begin;
}

static void
watch_evicted(struct sl_chunk *c)
{
	(void)c;
	calls.evicted++;
}

static void
watch_forget(struct sl_region *r)
{
	(void)r;
	calls.forgotten++;
}

static const struct sl_policy watch = {
	.name = "watch",
	.stamp_on_hit = 1,
	.honour_intents = 1,
	.honour_flags = 1,
	.create = watch_create,
	.destroy = watch_destroy,
	.note = watch_note,
	.stamp = watch_stamp,
	.discarded = watch_discarded,
	.evicted = watch_evicted,
	.forget = watch_forget,
};

/* It gives no stamps, so its bytes are those of lru. */
static void
functions_of_a_policy_are_called_once_for_what_they_tell(void)
{
	struct sluice_space *s = space_make_with("device_budget=6M", &watch);
	char *base = region_map(s, file_make("data", 4 * CHUNK, 1), 0, 0, SLUICE_READ);
	char *dead = region_alloc(s, CHUNK);

	CHECK_EQ(calls.created, 1);
	launches(s, base, "012301230123");
	space_sync(s);
	CHECK_EQ(h2d(s), 12 * CHUNK);
	CHECK_EQ(calls.noted, 12);
	CHECK_EQ(calls.stamped, 12);
	CHECK_EQ(calls.evicted, 9);
	CHECK(sluice_discard(s, dead, CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	space_sync(s);
	CHECK_EQ(calls.discarded, 1);
	CHECK_EQ(calls.discarded_bytes, CHUNK);
	CHECK(sluice_unmap(s, dead) == 0);
	CHECK_EQ(calls.forgotten, 1);
	CHECK_EQ(calls.destroyed, 0);
	space_end(s);
	CHECK_EQ(calls.forgotten, 2);
	CHECK_EQ(calls.destroyed, 1);
}

/* ---- a policy that cannot be made --------------------------------------------------------- */

static int
none_create(struct sluice_space *s)
{
	(void)s;
	return sl_fail(-ENOMEM, "none: out of memory");
}

static const struct sl_policy none = {.name = "none", .create = none_create};

static void
space_is_refused_when_its_policy_cannot_be_made(void)
{
	struct sluice_config config;
	struct sluice_space *s = NULL;

	CHECK(sluice_config_init(&config) == 0);
	CHECK(sluice_config_parse(&config, "device=soft,address=16G") == 0);
	if (sluice_space_create(&config, &s))
		api_skip(sluice_last_error());
	space_end(s);
	CHECK_FAILS(sl_space_create_with(&config, &none, &s), -ENOMEM, "none: out of memory");
}

static const struct api_case cases[] = {
	CASE(least_recently_used_misses_every_launch_of_a_sweep),
	CASE(most_recently_used_keeps_the_chunks_that_come_next),
	CASE(results_do_not_depend_on_the_policy),
	CASE(functions_of_a_policy_are_called_once_for_what_they_tell),
	CASE(space_is_refused_when_its_policy_cannot_be_made),
};

API_MAIN(cases)
