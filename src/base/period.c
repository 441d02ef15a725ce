/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a training step may repeat as well: equal layers follow each other with a period of
 * their own, as long as they last. The step's period is the one that holds over the longest
 * stretch. A multiple of a period covers no more than the period.
 *
 * The Z function gives the agreement of the sequence with itself, moved by p, for all p at once
 * (Gusfield, Algorithms on Strings, Trees and Sequences, 1997, 1.3). It is the length of the
 * longest common prefix of the sequence and its part from p on. Smaller p give it in linear
 * time.
 */
#include "base/period.h"

static void
matches_make(const uint64_t *latest, uint32_t n, uint32_t *match)
{
	uint32_t left = 0,
		 right = 0; /* latest[left..right) equals a prefix; right: the furthest of all */

	for (uint32_t i = 1; i < n; i++) {
		uint32_t z = 0;

		if (i < right)
			z = match[i - left] < right - i ? match[i - left] : right - i;
		while (i + z < n && latest[z] == latest[i + z])
			z++;
		match[i] = z;
		if (i + z > right) {
			left = i;
			right = i + z;
		}
	}
}

uint32_t
sl_period_find(const uint64_t *latest, uint32_t n, uint32_t least, uint32_t *match)
{
	uint32_t best = 0, best_covered = 0;

	matches_make(latest, n, match);
	for (uint32_t period = 1; period <= n / 2; period++) {
		uint32_t whole = (period + match[period]) / period;

		if (whole < 2 || whole * period < least || whole * period <= best_covered)
			continue;
		best = period;
		best_covered = whole * period;
	}
	return best;
}
