/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a training step does, a part of it may do as well: layers that are alike follow each other with a period of
 * their own, for as long as they last. The step's is the one that holds over the longest stretch. A
 * multiple of a period holds as long as the period does, so the smallest of those that hold longest is taken.
 *
 * How far what was seen agrees with itself moved by p is known for all p at once from the Z function (Gusfield,
 * Algorithms on Strings, Trees and Sequences, 1997, 1.3): z[p] is the length of the longest common prefix of the
 * sequence and its part from p on, and is found from those of smaller p in linear time.
 */
#include "preload/period.h"

static void
z_function(const uint64_t *s, size_t n, uint32_t *z)
{
	size_t left = 0,
	       right = 0; /* s[left..right) equals a prefix, and right is the furthest of all */

	z[0] = (uint32_t)n;
	for (size_t i = 1; i < n; i++) {
		size_t same = 0;

		if (i < right)
			same = z[i - left] < right - i ? z[i - left] : right - i;
		while (i + same < n && s[same] == s[i + same])
			same++;
		z[i] = (uint32_t)same;
		if (i + same > right) {
			left = i;
			right = i + same;
		}
	}
}

size_t
pl_period_find(const uint64_t *latest, size_t n, uint32_t *work)
{
	size_t period = 0, longest = 0;

	if (n < 2)
		return 0;
	z_function(latest, n, work);
	for (size_t p = 1; p <= n / 2; p++)
		if (work[p] >= p && p + work[p] > longest) {
			longest = p + work[p];
			period = p;
		}
	return longest >= n - n / 2 ? period : 0;
}
