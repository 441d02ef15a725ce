/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes between people and bytes, in integer arithmetic. So "0.1T" is the same number of bytes
 * everywhere, and UINT64_MAX can be written and read. Refused are signs, spaces, an exponent, a
 * fraction without a suffix ("1.5"), and text after the suffix. Lower case suffixes are
 * accepted. "4096B" is 4096.
 *
 * Threads: any; nothing is shared.
 */
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits of a fraction that count; 10^18 times 1 PiB still fits in 128 bits. */
#define FRACTION_DIGITS 18

/* log2 of a suffix's unit; -1: not a suffix. */
static int
suffix_shift(char c)
{
	static const char suffixes[] = "KMGTP";
	const char *at = c ? strchr(suffixes, toupper((unsigned char)c)) : NULL;

	return at ? 10 * (int)(at - suffixes + 1) : -1;
}

static int
not_a_size(const char *text)
{
	return sl_fail(-EINVAL,
		       "size: \"%.64s\" cannot be read; write it like 4096, 512M or 1.5G",
		       text);
}

static int
size_too_large(const char *text)
{
	return sl_fail(-ERANGE,
		       "size: \"%.64s\" is beyond 2^64 - 1 bytes; write a smaller one",
		       text);
}

int
sl_size_parse(const char *text, uint64_t *out)
{
	unsigned __int128 whole = 0, fraction = 0, scale = 1, bytes;
	const char *at = text;
	int has_fraction = 0;
	int too_large = 0;
	int shift;

	if (!isdigit((unsigned char)*at))
		return not_a_size(text);
	for (; isdigit((unsigned char)*at); at++) {
		whole = whole * 10 + (unsigned)(*at - '0');
		if (whole > UINT64_MAX) {
			whole = UINT64_MAX;
			too_large = 1; /* said only once the rest reads like a size */
		}
	}
	if (*at == '.') {
		has_fraction = 1;
		at++;
		if (!isdigit((unsigned char)*at))
			return not_a_size(text);
		for (int i = 0; isdigit((unsigned char)*at); at++, i++) {
			if (i >= FRACTION_DIGITS)
				continue;
			fraction = fraction * 10 + (unsigned)(*at - '0');
			scale *= 10;
		}
	}
	shift = suffix_shift(*at);
	if (shift > 0)
		at++;
	if (shift > 0 && at[0] == 'i' && at[1] == 'B')
		at += 2;
	else if (at[0] == 'B')
		at++;
	if (*at != '\0' || (has_fraction && shift < 0))
		return not_a_size(text);
	if (shift < 0)
		shift = 0;

	bytes = (whole << shift) + (fraction << shift) / scale;
	if (too_large || bytes > UINT64_MAX)
		return size_too_large(text);
	*out = (uint64_t)bytes;
	return 0;
}

char *
sl_size_format(uint64_t bytes, char *buf, size_t buf_bytes)
{
	static const char units[][4] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	const size_t n_units = sizeof(units) / sizeof(units[0]);
	unsigned __int128 tenths = (unsigned __int128)bytes * 10;
	size_t unit = 0;

	/* Rounded to a tenth of the unit; what would be "1024 KiB" by rounding is "1
	 * MiB". */
	while (unit + 1 < n_units && tenths >= 10240) {
		unsigned __int128 one;

		unit++;
		one = (unsigned __int128)1 << 10 * unit;
		tenths = ((unsigned __int128)bytes * 10 + one / 2) / one;
	}
	if (tenths % 10)
		snprintf(buf, buf_bytes, "%u.%u %s", (unsigned)(tenths / 10),
			 (unsigned)(tenths % 10), units[unit]);
	else
		snprintf(buf, buf_bytes, "%u %s", (unsigned)(tenths / 10), units[unit]);
	return buf;
}

int
sl_delay_parse(const char *text, uint64_t *delay_ns, uint64_t *bytes_per_s)
{
	char *end;

	errno = 0;
	*delay_ns = strtoull(text, &end, 10);
	*bytes_per_s = 0;
	if (!errno && end != text && *text != '-') {
		if (!*end)
			return 0;
		if (*end == ':' && !sl_size_parse(end + 1, bytes_per_s))
			return 0;
	}
	return -EINVAL;
}
