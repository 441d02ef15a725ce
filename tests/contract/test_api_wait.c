/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting ends: a call that waits for launches waits for those submitted before it, whatever goes on
 * being submitted meanwhile; and calls that change a budget take turns.
 *
 * A *chain* is work without end on two streams in turn: each kernel (or callback) waits until the next
 * one is submitted, so that at no moment nothing is in flight. A call that waited for such a
 * moment would never return; the case is then ended as a hang (api.h).
 */
#include "api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define CHAIN_LEAST \
	4 /* links under way before the call under test, and to come after it */

enum chain_kind { CHAIN_UNDECLARED, CHAIN_DECLARED, CHAIN_CALLBACKS };

struct chain {
	struct sluice_space *space;
	void *addr; /* what declared kernels use */
	enum chain_kind kind;
	struct sluice_stream *streams[2];
	pthread_t thread;
	_Atomic uint64_t submitted, done;
	_Atomic int stop;
};

struct link {
	struct chain *chain;
	uint64_t number;
};

static void
link_run(struct chain *chain, uint64_t number)
{
	while (atomic_load(&chain->submitted) <= number + 1 && !atomic_load(&chain->stop))
		usleep(100);
	atomic_fetch_add(&chain->done, 1);
}

static void
link_kernel(const struct sluice_block *block, void *args)
{
	const struct link *link = args;

	(void)block;
	link_run(link->chain, link->number);
}

static void
link_callback(void *arg)
{
	struct link *link = arg;

	link_run(link->chain, link->number);
	free(link);
}

static void
link_submit(struct chain *chain, uint64_t number)
{
	struct sluice_stream *stream = chain->streams[number % 2];
	struct link link = {chain, number};
	struct sluice_use use_all = {chain->addr, CHUNK, SLUICE_USE_READ};
	struct sluice_grid one = {1, 1, 1};

	if (chain->kind == CHAIN_CALLBACKS) {
		struct link *copy = malloc(sizeof(*copy));

		CHECK(copy != NULL);
		*copy = link;
		CHECK(sluice_stream_callback(chain->space, stream, link_callback, copy) == 0);
	} else {
		CHECK(sluice_launch(chain->space, stream, link_kernel, one, &link,
				    sizeof(link), &use_all,
				    chain->kind == CHAIN_DECLARED) == 0);
	}
	atomic_store(&chain->submitted, number + 1);
}

/* Two links at most: the one in flight ends when the next is submitted. */
static void *
chain_main(void *arg)
{
	struct chain *chain = arg;

	for (uint64_t number = 0; !atomic_load(&chain->stop); number++) {
		link_submit(chain, number);
		while (atomic_load(&chain->done) < number && !atomic_load(&chain->stop))
			usleep(50);
	}
	return NULL;
}

static void
chain_reach(struct chain *chain, uint64_t done)
{
	while (atomic_load(&chain->done) < done)
		usleep(1000);
}

static void
chain_start(struct chain *chain, struct sluice_space *space, void *addr, enum chain_kind kind)
{
	*chain = (struct chain){.space = space, .addr = addr, .kind = kind};
	for (int i = 0; i < 2; i++)
		CHECK(sluice_stream_create(space, &chain->streams[i]) == 0);
	CHECK(pthread_create(&chain->thread, NULL, chain_main, chain) == 0);
	chain_reach(chain, CHAIN_LEAST);
}

/* It went on all the time; now it ends. */
static void
chain_stop(struct chain *chain)
{
	chain_reach(chain, atomic_load(&chain->done) + CHAIN_LEAST);
	atomic_store(&chain->stop, 1);
	pthread_join(chain->thread, NULL);
	for (int i = 0; i < 2; i++) {
		CHECK(sluice_stream_synchronize(chain->space, chain->streams[i]) == 0);
		sluice_stream_destroy(chain->streams[i]);
	}
}

/* ---- Waits -------------------------------------------------------------------------------- */

static void
sync_and_evict_end_during(enum chain_kind kind)
{
	const char *path = file_make("data", 2 * CHUNK, 1);
	struct sluice_space *s = space_make("");
	char *p = region_map(s, path, 0, 2 * CHUNK, SLUICE_READ | SLUICE_WRITE);
	struct chain chain;

	memory_fill(p, 2 * CHUNK, 2);
	chain_start(&chain, s, p, kind);
	CHECK(sluice_sync(s, p, 2 * CHUNK) == 0);
	file_expect(path, 0, 2 * CHUNK, 2, 0);
	CHECK(sluice_evict(s, at_chunk(p, 1), CHUNK, SLUICE_TIER_STORE, NULL) == 0);
	CHECK_EQ(residency(s, at_chunk(p, 1), CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 0);
	CHECK(sluice_evict(s, p, CHUNK, SLUICE_TIER_STORE, NULL) == 0);
	CHECK(sluice_discard(s, at_chunk(p, 1), CHUNK, SLUICE_DISCARD_EAGER, NULL) == 0);
	chain_stop(&chain);
	memory_expect(p, CHUNK, 2);
	CHECK(sluice_unmap(s, p) == 0);
	space_end(s);
}

static void
waits_end_though_kernels_without_uses_never_do(void)
{
	sync_and_evict_end_during(CHAIN_UNDECLARED);
}

static void
waits_end_though_kernels_on_the_same_data_never_do(void)
{
	sync_and_evict_end_during(CHAIN_DECLARED);
}

static void
waits_end_though_callbacks_never_do(void)
{
	sync_and_evict_end_during(CHAIN_CALLBACKS);
}

static void
unmap_ends_though_kernels_without_uses_never_do(void)
{
	struct sluice_space *s = space_make("");
	void *p = region_alloc(s, 2 * CHUNK);
	struct chain chain;

	memory_fill(p, 2 * CHUNK, 3);
	chain_start(&chain, s, NULL, CHAIN_UNDECLARED);
	CHECK(sluice_unmap(s, p) == 0);
	chain_stop(&chain);
	space_end(s);
}

static void
a_discard_leaves_alone_what_a_later_launch_has_pinned(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, CHUNK);
	struct chain chain;

	/* Its links read the chunk, and one is always there that came after the call. */
	memory_fill(p, CHUNK, 4);
	chain_start(&chain, s, p, CHAIN_DECLARED);
	CHECK(sluice_discard(s, p, CHUNK, SLUICE_DISCARD_EAGER, NULL) == 0);
	CHECK_EQ(residency(s, p, CHUNK).tier_bytes[SLUICE_TIER_DEVICE], CHUNK);
	chain_stop(&chain);
	memory_expect(p, CHUNK, 4);
	space_end(s);
}

/* ---- Budgets ------------------------------------------------------------------------------ */

#define RESIZE_ROUNDS 20

struct shrink {
	struct sluice_space *space;
	enum sluice_tier tier;
	_Atomic int over;
};

static void *
shrink_main(void *arg)
{
	struct shrink *shrink = arg;

	CHECK(sluice_space_set_budget(shrink->space, shrink->tier, 2 * CHUNK) == 0);
	atomic_store(&shrink->over, 1);
	return NULL;
}

static uint64_t
budget_in_force(struct sluice_space *s, enum sluice_tier tier)
{
	struct sluice_stats stats;

	sluice_stats_get(s, &stats);
	return stats.budget_bytes[tier];
}

/* Thread one shrinks the budget, for which it moves data; as soon as that shows, two raises it. */
static void
budget_round(struct sluice_space *s, enum sluice_tier tier)
{
	struct shrink shrink = {.space = s, .tier = tier};
	struct sluice_config config;
	uint64_t budget, in_force;
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, shrink_main, &shrink) == 0);
	while (budget_in_force(s, tier) != 2 * CHUNK && !atomic_load(&shrink.over))
		;
	CHECK(sluice_space_set_budget(s, tier, 6 * CHUNK) == 0);
	pthread_join(thread, NULL);
	sluice_space_config(s, &config);
	budget = tier == SLUICE_TIER_DEVICE ? config.device_budget_bytes
					    : config.host_budget_bytes;
	in_force = budget_in_force(s, tier);
	CHECK_EQ(budget, in_force);
	CHECK_EQ(budget, 6 * CHUNK); /* the call that came last */
	CHECK(resident(s, tier) <= budget);
}

static void
budgets_set_at_once_take_turns(void)
{
	struct sluice_space *s = space_make("device_budget=16M,host_budget=16M");
	char *p = region_alloc(s, 16 * CHUNK);

	for (int round = 0; round < RESIZE_ROUNDS; round++) {
		enum sluice_tier tier = round % 2 ? SLUICE_TIER_HOST : SLUICE_TIER_DEVICE;

		CHECK(sluice_space_set_budget(s, tier, 8 * CHUNK) == 0);
		memory_fill(p, 16 * CHUNK, (uint64_t)round);
		budget_round(s, tier);
		memory_expect(p, 16 * CHUNK, (uint64_t)round);
	}
	space_end(s);
}

static const struct api_case cases[] = {
	CASE(waits_end_though_kernels_without_uses_never_do),
	CASE(waits_end_though_kernels_on_the_same_data_never_do),
	CASE(waits_end_though_callbacks_never_do),
	CASE(unmap_ends_though_kernels_without_uses_never_do),
	CASE(a_discard_leaves_alone_what_a_later_launch_has_pinned),
	CASE(budgets_set_at_once_take_turns),
};
API_MAIN(cases)
