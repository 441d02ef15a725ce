/* SPDX-License-Identifier: Apache-2.0 */
/* The nearest of several names: nearest.h. The distance is that of Damerau and Levenshtein, with
 * three rows kept. */
#include "base/nearest.h"

#include <string.h>

static size_t
word_distance(const char *a, const char *b)
{
	size_t row[3][SL_NEAREST_CHARS_MAX + 1];
	size_t a_chars = strlen(a), b_chars = strlen(b);

	if (a_chars > SL_NEAREST_CHARS_MAX || b_chars > SL_NEAREST_CHARS_MAX)
		return SL_NEAREST_CHARS_MAX + 1;
	for (size_t j = 0; j <= b_chars; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= a_chars; i++) {
		size_t *now = row[i % 3], *above = row[(i + 2) % 3],
		       *above2 = row[(i + 1) % 3];

		now[0] = i;
		for (size_t j = 1; j <= b_chars; j++) {
			size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);

			if (above[j] + 1 < best)
				best = above[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best)
				best = above2[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[a_chars % 3][b_chars];
}

void
sl_nearest_offer(struct sl_nearest *nearest, const char *name)
{
	size_t distance = word_distance(nearest->word, name);

	if (distance > SL_NEAREST_CHARS_MAX ||
	    (nearest->name[0] && distance >= nearest->distance))
		return;
	strcpy(nearest->name, name);
	nearest->distance = distance;
}

const char *
sl_nearest_name(const struct sl_nearest *nearest)
{
	size_t chars = strlen(nearest->name);

	return chars && nearest->distance * 2 <= chars ? nearest->name : NULL;
}
