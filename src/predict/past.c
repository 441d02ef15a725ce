/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of launches: two rings, of launches and of their uses, and the period at its end.
 *
 * Threads: those of predict.h.
 */
#include "predict/past.h"

#include "base/hash.h"
#include "base/period.h"

struct sl_past_launch *
sl_past_add(struct sl_past *past, uint64_t what)
{
	struct sl_past_launch *launch = sl_past_launch(past, past->head++);

	*launch = (struct sl_past_launch){.what = what, .first = past->uses_head};
	return launch;
}

struct sl_past_use *
sl_past_add_use(struct sl_past *past, const struct sl_predict_use *use)
{
	struct sl_past_launch *launch = sl_past_launch(past, past->head - 1);
	struct sl_past_use *u = &past->uses[past->uses_head++ % SL_PAST_USES];

	*u = (struct sl_past_use){.block = use->block,
				  .addr = use->addr,
				  .bytes = use->bytes,
				  .launch = past->head - 1,
				  .grain = (uint32_t)use->grain,
				  .intent = (unsigned char)use->intent,
				  .part_first = use->part_first != 0,
				  .part_last = use->part_last != 0,
				  .pinned = use->pinned != 0,
				  .outlives = use->outlives != 0};
	launch->bytes += use->bytes;
	launch->n++;
	return u;
}

uint32_t
sl_past_period(struct sl_past *past)
{
	uint64_t notes = past->head - past->since;
	uint32_t n = notes < SL_PAST_LAUNCHES ? (uint32_t)notes : SL_PAST_LAUNCHES - 1;

	for (uint32_t i = 0; i < n; i++)
		past->latest[i] = sl_past_launch(past, past->head - 1 - i)->hash;
	return sl_period_find(past->latest, n, n / 2 + 1, past->work);
}

int
sl_past_repeats(struct sl_past *past, uint64_t launches, uint64_t period)
{
	if (launches + period >= SL_PAST_LAUNCHES)
		return 0;
	for (uint64_t at = past->head - launches; at < past->head; at++)
		if (sl_past_launch(past, at)->hash != sl_past_launch(past, at - period)->hash)
			return 0;
	return 1;
}

int
sl_past_nearly_repeats(struct sl_past *past, uint64_t launches, uint64_t period)
{
	uint64_t others = 0;

	if (launches + period >= SL_PAST_LAUNCHES || launches + period > past->head)
		return 0;
	for (uint64_t at = past->head - launches; at < past->head; at++)
		others += sl_past_launch(past, at)->what !=
			  sl_past_launch(past, at - period)->what;
	return others <= launches / SL_TENTH;
}

/* ---- the door, for who names launches exactly ---- */

uint64_t
sl_predict_note(struct sl_predict *p, uint64_t hash)
{
	struct sl_past *past = sl_predict_past(p);
	size_t place = hash % SL_PAST_TABLE, oldest = place;

	sl_past_add(past, 0)->hash = hash;
	for (unsigned i = 0; i < SL_FEW; i++, place = (place + 1) % SL_PAST_TABLE) {
		if (past->seen[place].hash == hash) {
			oldest = place;
			break;
		}
		if (past->seen[place].number < past->seen[oldest].number)
			oldest = place;
	}
	past->repeats = past->seen[oldest].hash == hash &&
					past->seen[oldest].number >= past->since
				? past->repeats + 1
				: 0;
	past->seen[oldest].hash = hash;
	past->seen[oldest].number = past->head - 1;
	return past->repeats;
}

void
sl_predict_note_use(struct sl_predict *p, const struct sl_predict_use *use)
{
	(void)sl_past_add_use(sl_predict_past(p), use);
}

uint64_t
sl_predict_notes(struct sl_predict *p)
{
	return sl_predict_past(p)->head - sl_predict_past(p)->since;
}

void
sl_predict_forget(struct sl_predict *p)
{
	struct sl_past *past = sl_predict_past(p);

	past->since = past->head;
	past->repeats = 0;
}
