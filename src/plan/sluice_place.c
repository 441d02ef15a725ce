/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory or store, for every gap that is spent outside the device.
 *
 * Host memory is faster and comes first. If all tensors together do not fit there, some go to
 * the store instead. Then the store's time is scarce, in both directions, and not its room. A
 * tensor in its queue is still on the device, and one read too early takes room before its time.
 * So the store's two directions are kept as calendars. The gaps are visited in order of time. A
 * gap goes to the store on two conditions: host memory is over-full somewhere in it, and its
 * write and its read are both done within a certain delay. The write takes the first free time
 * after the last use. The read takes the last free time before the next use. The delay is the
 * smallest with which enough gaps go. This spreads the store's work evenly over writing and over
 * reading time.
 *
 * The calendars are those of a store just fast enough, and then a little faster (`ease`). If the
 * real store is too slow, launches have to wait for it, but its work is still spread evenly over
 * the longer period. If it is faster than needed, it does not crowd out the link.
 *
 * sluice_schedule.c handles a host memory that is full all the same. Threads: one.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plan/sluice.h"

#define SLOTS      2048 /* of a calendar: parts of the period */
#define DELAYS     7    /* delays tried, each DELAY_STEP times the one before */
#define DELAY_MIN  (1.0 / 4096)
#define DELAY_STEP 4
#define SPEEDS     40 /* speeds a store may be taken for: SPEED_MIN x SPEED_STEP^i */
#define SPEED_MIN  (1.0 / 16)
#define SPEED_STEP 1.2

struct calendar {
	double free[SLOTS]; /* pages that can still be moved in this part of the period */
};

struct place {
	const struct sl_problem *p;
	const double *times;
	double slot; /* ticks */
	struct calendar write, read;
	double *hosted;    /* by launch: pages in host memory */
	const double *all; /* the same with nothing in the store */
	uint32_t full_at;  /* a launch that was over-full when last looked at */
};

struct booking {
	uint32_t first, count; /* slots, cyclic, in the direction of filling */
	double last;           /* pages taken of the last of them; all of the others */
};

/*
 * The slots that moving `pages` from the time `from` on takes (backwards in time if
 * direction < 0). Returns the ticks from `from` to its end, INFINITY if `limit` ticks or a
 * period are not enough.
 */
static double
calendar_find(const struct place *place, const struct calendar *calendar, double from,
	      int direction, double pages, double limit, struct booking *out)
{
	double period = place->times[place->p->n];
	double at = fmod(from, period);
	uint32_t slot = (uint32_t)sl_min(SLOTS - 1, at / place->slot);

	out->first = slot;
	for (out->count = 1; out->count <= SLOTS; out->count++) {
		if ((out->count - 2.0) * place->slot > limit)
			break;
		if (calendar->free[slot] >= pages) {
			out->last = pages;
			return (out->count - 1) * place->slot +
			       place->slot * pages / sl_max(calendar->free[slot], 1e-9);
		}
		pages -= calendar->free[slot];
		slot = (slot + (direction > 0 ? 1 : SLOTS - 1)) % SLOTS;
	}
	return INFINITY;
}

static void
calendar_book(struct calendar *calendar, const struct booking *booking, int direction)
{
	uint32_t slot = booking->first;

	for (uint32_t i = 1; i < booking->count; i++) {
		calendar->free[slot] = 0;
		slot = (slot + (direction > 0 ? 1 : SLOTS - 1)) % SLOTS;
	}
	calendar->free[slot] -= booking->last;
}

static void
gap_host_add(const struct place *place, const struct sl_gap *gap, double pages)
{
	for (uint32_t i = 0, k = gap->begin; i < gap->length; i++) {
		place->hosted[k] += pages;
		if (++k == place->p->n)
			k = 0;
	}
}

/* Is host memory over-full at some launch of the gap? */
static int
gap_is_over(struct place *place, const struct sl_gap *gap)
{
	uint32_t n = place->p->n, ahead = (place->full_at + n - gap->begin) % n;

	if (ahead < gap->length && place->hosted[place->full_at] > place->p->host)
		return 1;
	for (uint32_t i = 0, k = gap->begin; i < gap->length; i++) {
		if (place->hosted[k] > place->p->host) {
			place->full_at = k;
			return 1;
		}
		if (++k == n)
			k = 0;
	}
	return 0;
}

/* Is it over-full anywhere? */
static int
host_is_over(struct place *place)
{
	for (uint32_t k = 0; k < place->p->n; k++) {
		if (place->hosted[k] > place->p->host) {
			place->full_at = k;
			return 1;
		}
	}
	return 0;
}

/* What the store is taken for, in multiples of its speed, and the delay allowed. */
struct place_terms {
	double write, read, delay;
};

/* One try: which gaps go to the store on these terms. Returns 1 if the rest fits. */
static int
place_try(struct place *place, const struct place_terms *terms, uint8_t *fate)
{
	const struct sl_problem *p = place->p;
	double out_rate = p->store_out * terms->write, in_rate = p->store_in * terms->read;
	double stored = 0;

	for (uint32_t g = 0; g < p->n_gaps; g++)
		if (fate[g] == SL_FATE_STORE)
			fate[g] = SL_FATE_HOST;
	memcpy(place->hosted, place->all, p->n * sizeof(double));
	for (uint32_t i = 0; i < SLOTS; i++) {
		place->write.free[i] = out_rate * place->slot;
		place->read.free[i] = in_rate * place->slot;
	}
	for (uint32_t k = 0; k < p->n; k++) {
		for (uint32_t i = p->begin_first[k]; i < p->begin_first[k + 1]; i++) {
			uint32_t g = p->begin_gap[i], last;
			const struct sl_gap *gap = &p->gaps[g];
			double pages = p->pages[gap->tensor], length, write, read, begin, end;
			struct booking out, back;

			if (fate[g] != SL_FATE_HOST || stored + pages > p->store)
				continue;
			last = gap->begin + gap->length;
			begin = place->times[gap->begin];
			end = place->times[last % p->n] +
			      (last >= p->n ? place->times[p->n] : 0);
			length = end - begin;
			write = pages / out_rate + terms->delay;
			read = pages / in_rate + terms->delay;
			if (write + read - 2 * terms->delay > length ||
			    !gap_is_over(place, gap))
				continue;
			if (calendar_find(place, &place->write, begin, 1, pages, write,
					  &out) > write ||
			    calendar_find(place, &place->read, end, -1, pages, read,
					  &back) > read)
				continue;
			calendar_book(&place->write, &out, 1);
			calendar_book(&place->read, &back, -1);
			gap_host_add(place, gap, -pages);
			stored += pages;
			fate[g] = SL_FATE_STORE;
			if (place->hosted[place->full_at] <= p->host && !host_is_over(place))
				return 1;
		}
	}
	return 0;
}

/*
 * The least speeds with which it can be done: each way with the other one out of the way;
 * then both together, in the proportion found.
 */
static void
place_speeds(struct place *place, struct place_terms *terms, uint8_t *fate)
{
	double least[3]; /* write, read, both */

	for (int way = 0; way < 3; way++) {
		int low = 0, high = SPEEDS;

		while (low < high) {
			int middle = (low + high) / 2;
			double speed = SPEED_MIN * pow(SPEED_STEP, middle);

			terms->write = way == 0 ? speed : INFINITY;
			terms->read = way == 1 ? speed : INFINITY;
			if (way == 2) {
				/* Relative to what each needs alone: never less. */
				terms->write = speed / SPEED_MIN * least[0];
				terms->read = speed / SPEED_MIN * least[1];
			}
			if (place_try(place, terms, fate))
				high = middle;
			else
				low = middle + 1;
		}
		least[way] = SPEED_MIN * pow(SPEED_STEP, low);
	}
	terms->write = least[2] / SPEED_MIN * least[0];
	terms->read = least[2] / SPEED_MIN * least[1];
}

int
sl_place(const struct sl_problem *problem, double ease, const double *times,
	 struct sl_speeds *speeds, uint8_t *fate)
{
	SL_CLEANUP(free) struct place *place = malloc(sizeof(*place));
	SL_CLEANUP(free) double *hosted = malloc(problem->n * sizeof(*hosted));
	SL_CLEANUP(free) double *all = calloc(problem->n, sizeof(*all));
	struct place_terms terms = {1, 1, times[problem->n]};

	if (!place || !hosted || !all)
		return sl_fail(-ENOMEM, "plan: out of memory");
	*place = (struct place){.p = problem,
				.times = times,
				.slot = times[problem->n] / SLOTS,
				.hosted = all,
				.all = all};
	for (uint32_t g = 0; g < problem->n_gaps; g++) {
		if (fate[g] == SL_FATE_KEEP)
			continue;
		fate[g] = SL_FATE_HOST;
		gap_host_add(place, &problem->gaps[g],
			     problem->pages[problem->gaps[g].tensor]);
	}
	if (!host_is_over(place) || problem->store_in <= 0 || problem->store_out <= 0)
		return 0;
	place->hosted = hosted;
	if (!speeds->known) {
		place_speeds(place, &terms, fate);
		speeds->write = terms.write;
		speeds->read = terms.read;
		speeds->known = 1;
	}
	/* A negative ease: of the store as it is, or the least if that is not enough. */
	terms.write = ease < 0 ? -ease * sl_max(1, speeds->write) : ease * speeds->write;
	terms.read = ease < 0 ? -ease * sl_max(1, speeds->read) : ease * speeds->read;
	terms.delay = times[problem->n] * DELAY_MIN;
	for (int i = 0; i < DELAYS; i++, terms.delay *= DELAY_STEP)
		if (place_try(place, &terms, fate))
			break;
	return 0;
}
