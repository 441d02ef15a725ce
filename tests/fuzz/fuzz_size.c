/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text for sl_size_parse(). The result is one of the documented three, and *out is untouched
 * on failure. An accepted text is the same size with a zero in front, and no size with a letter
 * behind. sl_size_format() prints a text that reads back to within the rounding of its one
 * decimal.
 */
#include "base/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The printed form up to TiB, spaces taken out, reads back within 1/20 of its unit. */
static void
check_format(uint64_t bytes)
{
	uint64_t read_back, unit = 1, difference;
	char text[32], *space;

	sl_size_format(bytes, text, sizeof(text));
	space = strchr(text, ' ');
	if (!space || space[1] == 'P' || space[1] == 'E')
		return;
	for (const char *letter = "KMGTP"; *letter && space[1] != 'B'; letter++) {
		unit <<= 10;
		if (*letter == space[1])
			break;
	}
	memmove(space, space + 1, strlen(space));
	if (sl_size_parse(text, &read_back))
		abort();
	difference = read_back > bytes ? read_back - bytes : bytes - read_back;
	if (difference > unit / 20 + 1)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 3);
	uint64_t bytes = 42, again = 42;
	int rc;

	if (!text)
		return 0;
	text[0] = '0';
	memcpy(text + 1, data, size);
	text[size + 1] = '\0';

	rc = sl_size_parse(text + 1, &bytes);
	if (rc) {
		if ((rc != -EINVAL && rc != -ERANGE) || bytes != 42)
			abort();
	} else {
		if (sl_size_parse(text, &again) || again != bytes)
			abort();
		memcpy(text + strlen(text), "x", 2);
		if (sl_size_parse(text + 1, &again) != -EINVAL)
			abort();
		check_format(bytes);
	}
	free(text);
	return 0;
}
