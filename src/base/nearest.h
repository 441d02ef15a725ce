/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The known name that is nearest to a mistyped word, for "did you mean". The caller offers its
 * names one by one, from any table:
 *
 *	struct sl_nearest nearest = {.word = word};
 *
 *	for (...)
 *		sl_nearest_offer(&nearest, table[i].name);
 *	name = sl_nearest_name(&nearest);
 *
 * Threads: any; nothing is shared.
 */
#ifndef SL_BASE_NEAREST_H
#define SL_BASE_NEAREST_H

#include <stddef.h>

/* The longest name known has 27 letters; longer words are not compared. Rows of the comparison are
 * on the stack. */
#define SL_NEAREST_CHARS_MAX 47

/* All zero but for word. */
struct sl_nearest {
	const char *word;
	char name[SL_NEAREST_CHARS_MAX + 1]; /* the nearest offered so far; "": none */
	size_t distance; /* letters to insert, drop, change or swap with a neighbour */
};

/* Compare one more known name, which is copied. Of equally near names the first offered stays. */
void sl_nearest_offer(struct sl_nearest *nearest, const char *name);

/* The nearest name, or NULL where half of its letters or more are wrong: that is no slip.
 * Lives as long as *nearest. */
const char *sl_nearest_name(const struct sl_nearest *nearest);

#endif
