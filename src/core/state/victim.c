/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of victim.h: a row for each requester, a function for each step. To change who leaves
 * for whom, change a row. To change the order among chunks in use, write a policy (policy.h).
 * docs/design/eviction.md shows the same table, and says why.
 */
#include "core/state/victim.h"

#include "core/timeouts.h"

#define SPARE_LOOK_MAX 64 /* dead chunks that are looked at */
#define EARLY_LOOK_MAX 32 /* chunks of the queue of early evictions */

/* clang-format off */
const struct sl_victim_rule sl_victim_rules[SL_ROOM_MODE_COUNT] = {
	[SL_ROOM_LAUNCH] = {"launch", SL_IN_USE_WAIT, SL_WAIT_ROOM,
		{SL_STEP_DISCARDED, SL_STEP_COLDEST}},
	[SL_ROOM_INTERPOSED] = {"interposed launch", SL_IN_USE_WAIT, SL_LEAVE_WAIT_NS,
		{SL_STEP_EARLY, SL_STEP_DISCARDED, SL_STEP_COLDEST}},
	[SL_ROOM_FETCH] = {"fetch", SL_IN_USE_PASS, SL_FETCH_ROOM_NS,
		{SL_STEP_DISCARDED_UNUSED, SL_STEP_COLDEST_UNUSED}},
	[SL_ROOM_PIN] = {"pin", SL_IN_USE_WAIT, SL_WAIT_ROOM,
		{SL_STEP_DISCARDED, SL_STEP_COLDEST}},
	[SL_ROOM_FAULT] = {"fault", SL_IN_USE_TAKE, SL_WAIT_ROOM,
		{SL_STEP_DISCARDED_UNUSED, SL_STEP_COLDEST_UNUSED, SL_STEP_COLDEST_PINNED,
		 SL_STEP_COLDEST_ANY, SL_STEP_DISCARDED_ANY}},
	[SL_ROOM_PREFETCH] = {"prefetch", SL_IN_USE_PASS, 0,
		{SL_STEP_DISCARDED_UNUSED, SL_STEP_COLDEST_UNASKED, SL_STEP_COLDEST_UNUSED}},
	[SL_ROOM_SPARE] = {"spare prefetch", SL_IN_USE_PASS, 0,
		{SL_STEP_DISCARDED_UNUSED}},
	[SL_ROOM_PLAN] = {"plan", SL_IN_USE_WAIT, SL_WAIT_ROOM,
		{SL_STEP_DISCARDED, SL_STEP_COLDEST_ANY}},
	[SL_ROOM_EARLY] = {"early eviction", SL_IN_USE_PASS, 0,
		{SL_STEP_EARLY_UNUSED}},
	[SL_ROOM_WRITE_BEHIND] = {"write-behind", SL_IN_USE_PASS, 0,
		{SL_STEP_COLDEST_UNUSED}},
	[SL_ROOM_THRASH] = {"thrash", SL_IN_USE_WAIT, SL_LEAVE_WAIT_NS,
		{SL_STEP_DISCARDED, SL_STEP_COLDEST}},
	[SL_ROOM_SHRINK] = {"smaller budget", SL_IN_USE_WAIT, SL_WAIT_ROOM,
		{SL_STEP_DISCARDED, SL_STEP_COLDEST}},
};
/* clang-format on */

static const char *const step_texts[SL_STEP_COUNT] = {
	[SL_STEP_END] = "none",
	[SL_STEP_EARLY_UNUSED] = "told to leave early, unused",
	[SL_STEP_EARLY] = "told to leave early",
	[SL_STEP_DISCARDED_UNUSED] = "discarded first, unused",
	[SL_STEP_DISCARDED] = "discarded first",
	[SL_STEP_DISCARDED_ANY] = "discarded first, in use",
	[SL_STEP_COLDEST_UNASKED] = "coldest unused, not asked for",
	[SL_STEP_COLDEST_UNUSED] = "coldest unused",
	[SL_STEP_COLDEST] = "coldest",
	[SL_STEP_COLDEST_PINNED] = "coldest in use",
	[SL_STEP_COLDEST_ANY] = "coldest of all",
};

const char *
sl_victim_step_text(enum sl_victim_step step)
{
	return step_texts[step];
}

/* A launch in flight may have pinned it; the launch being prepared does not need it, and no
 * sluice_launch_begin() holds it. */
SL_HELD static int
may_be_waited_for(const struct sl_chunk *c)
{
	return !sl_chunk_pins(c) || (!(c->flags & SL_PREPARING) && !sl_scope_holds(c));
}

/* Told to leave: the first that no launch uses; or else, if in_use, the first that one uses. */
SL_HELD static struct sl_chunk *
early_first(struct sluice_space *s, const struct sl_victim_request *request, int in_use)
{
	struct sl_chunk *used = NULL;
	unsigned looked = 0;

	for (uint32_t i = s->early_evict.tail;
	     i != s->early_evict.head && looked < EARLY_LOOK_MAX; i++) {
		struct sl_chunk *c = sl_early_queue_at(s, i);

		if (!c || (c->flags & SL_PREPARING) || sl_chunk_is_held(c))
			continue;
		looked++;
		if (!sl_chunk_pins(c) && !(request->not_now && request->not_now(c)))
			return c;
		if (in_use && !used && may_be_waited_for(c))
			used = c;
	}
	return used;
}

SL_HELD static struct sl_chunk *
discarded_first(struct sluice_space *s, const struct sl_victim_request *request, int in_use)
{
	int takes = sl_victim_rules[request->mode].in_use == SL_IN_USE_TAKE;

	for (struct sl_chunk *c = s->dev.discarded_head; c; c = c->next) {
		if ((c->flags & SL_PREPARING) && !takes)
			continue;
		if (!sl_chunk_pins(c) || (in_use && may_be_waited_for(c)))
			return c;
	}
	return NULL;
}

/* What a host scope holds is in use now: it is refreshed and passed over, each once. */
SL_HELD static struct sl_chunk *
coldest(struct sluice_space *s, uint64_t chunk_bytes)
{
	uint64_t start = s->clock;
	struct sl_chunk *c = sl_lru_coldest_for(s, SL_SKIP_PREPARING, chunk_bytes);

	while (c && sl_chunk_pins(c) && sl_chunk_stamp(c) <= start && sl_scope_holds(c)) {
		sl_chunk_touch(c);
		c = sl_lru_coldest_for(s, SL_SKIP_PREPARING, chunk_bytes);
	}
	return c;
}

SL_HELD static struct sl_chunk *
step_find(struct sluice_space *s, const struct sl_victim_request *request,
	  enum sl_victim_step step)
{
	uint64_t bytes = request->chunk_bytes;

	switch (step) {
	case SL_STEP_EARLY_UNUSED:
		return early_first(s, request, 0);
	case SL_STEP_EARLY:
		return early_first(s, request, 1);
	case SL_STEP_DISCARDED_UNUSED:
		return discarded_first(s, request, 0);
	case SL_STEP_DISCARDED:
		return discarded_first(s, request, 1);
	case SL_STEP_DISCARDED_ANY:
		return s->dev.discarded_head;
	case SL_STEP_COLDEST_UNASKED:
		return sl_lru_coldest_for(s, SL_SKIP_AWAITED, bytes);
	case SL_STEP_COLDEST_UNUSED:
		return sl_lru_coldest_for(s, SL_SKIP_PINNED, bytes);
	case SL_STEP_COLDEST:
		return coldest(s, bytes);
	case SL_STEP_COLDEST_PINNED:
		return sl_lru_coldest(s, SL_SKIP_PREPARING);
	case SL_STEP_COLDEST_ANY:
		return sl_lru_coldest(s, SL_SKIP_NOTHING);
	case SL_STEP_END:
	case SL_STEP_COUNT:
		break;
	}
	return NULL;
}

/* Pin rule 2, and the stamp that the requester has set as its limit. */
SL_HELD static int
may_go(const struct sl_chunk *c, const struct sl_victim_request *request)
{
	int takes = sl_victim_rules[request->mode].in_use == SL_IN_USE_TAKE;

	if ((c->flags & SL_PREPARING) && !takes)
		return 0;
	return !request->before || (c->flags & (SL_DISCARDED | SL_COLD)) ||
	       sl_chunk_stamp(c) < request->before;
}

struct sl_victim
sl_victim_pick(struct sluice_space *s, const struct sl_victim_request *request)
{
	const struct sl_victim_rule *rule = &sl_victim_rules[request->mode];
	struct sl_victim v = {.mode = request->mode};

	for (int i = 0; !v.chunk && rule->steps[i] != SL_STEP_END; i++) {
		v.step = rule->steps[i];
		v.chunk = step_find(s, request, v.step);
	}
	if (v.chunk && !may_go(v.chunk, request))
		v.chunk = NULL;
	v.wait = v.chunk && sl_chunk_pins(v.chunk) && rule->in_use == SL_IN_USE_WAIT;
	return v;
}

int
sl_victim_is_colder(struct sluice_space *s, uint64_t chunk_bytes, uint64_t before)
{
	const struct sl_chunk *c = sl_lru_coldest_for(s, SL_SKIP_PREPARING, chunk_bytes);

	return c && sl_chunk_stamp(c) < before;
}

uint64_t
sl_room_alive(const struct sluice_space *s, uint64_t least)
{
	uint64_t alive = s->dev.used_bytes + s->dev.wanted_bytes;
	const struct sl_chunk *c = s->dev.discarded_head;

	for (int i = 0; alive > least && c && i < SPARE_LOOK_MAX; i++) {
		if (!sl_chunk_pins(c))
			alive -= c->device_bytes;
		c = c->next;
	}
	return alive;
}

int
sl_room_spare(const struct sluice_space *s, uint64_t bytes)
{
	uint64_t budget = s->dev.budget_bytes;

	return bytes <= budget && sl_room_alive(s, budget - bytes) <= budget - bytes;
}
