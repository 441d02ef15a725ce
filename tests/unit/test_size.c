/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes: accepted and refused texts, no rounding through floating point, and printed sizes as
 * people expect them.
 */
#include "base/size.h"

#include <errno.h>

#include "base/rng.h"
#include "unit/cmocka_all.h"

static void
assert_size(const char *text, uint64_t expected)
{
	uint64_t bytes = ~expected;

	if (sl_size_parse(text, &bytes))
		fail_msg("\"%s\": %s", text, sluice_last_error());
	if (bytes != expected)
		fail_msg("\"%s\": %llu", text, (unsigned long long)bytes);
}

static void
assert_refused(const char *text, int expected)
{
	uint64_t bytes = 42;
	int rc = sl_size_parse(text, &bytes);

	if (rc != expected)
		fail_msg("\"%s\": %d", text, rc);
	assert_true(bytes == 42);
	assert_non_null(strstr(sluice_last_error(), text));
}

static void
plain_numbers_are_bytes(void **state)
{
	(void)state;
	assert_size("0", 0);
	assert_size("4096", 4096);
	assert_size("007", 7);
	assert_size("4096B", 4096);
	assert_size("18446744073709551615", UINT64_MAX);
}

static void
suffixes_are_powers_of_1024(void **state)
{
	(void)state;
	assert_size("1K", 1024);
	assert_size("512M", (uint64_t)512 << 20);
	assert_size("6G", (uint64_t)6 << 30);
	assert_size("3T", (uint64_t)3 << 40);
	assert_size("2k", 2048);
	assert_size("2KB", 2048);
	assert_size("2MiB", 2 << 20);
	assert_size("0T", 0);
}

static void
fractions_are_exact(void **state)
{
	(void)state;
	assert_size("1.5G", (uint64_t)3 << 29);
	assert_size("0.5K", 512);
	assert_size("0.0009765625K", 1);
	assert_size("1.000000000000000000000000000001T", (uint64_t)1 << 40);
	assert_size("16777215.9999999T", 18446744073709441664u);
	assert_size("0.1T", 109951162777); /* rounded down */
}

static void
what_is_not_a_size_is_refused(void **state)
{
	static const char *const texts[] = {
		"",       "M",     "-1",   "+1",   " 1",  "1 ",  "1.",  ".5G",
		"1.5",    "1e3",   "0x10", "1MM",  "1Mi", "1iB", "1E",  "1,5G",
		"1.5.5G", "512M,", "1BB",  "1.5B", "ten", "1Gx", "1\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_refused(texts[i], -EINVAL);
}

static void
what_does_not_fit_is_out_of_range(void **state)
{
	(void)state;
	assert_refused("18446744073709551616", -ERANGE);
	assert_refused("16777216T", -ERANGE);
	assert_refused("16384P", -ERANGE);
	assert_refused("99999999999999999999999999999999999999999999999999T", -ERANGE);
	assert_refused("99999999999999999999999999999999999999999999999999X", -EINVAL);
}

static void
assert_format(uint64_t bytes, const char *expected)
{
	char text[32];

	assert_ptr_equal(sl_size_format(bytes, text, sizeof(text)), text);
	assert_string_equal(text, expected);
}

static void
sizes_are_printed_with_one_decimal_at_most(void **state)
{
	(void)state;
	assert_format(0, "0 B");
	assert_format(1023, "1023 B");
	assert_format(1024, "1 KiB");
	assert_format((uint64_t)3 << 29, "1.5 GiB");
	assert_format((uint64_t)512 << 20, "512 MiB");
	assert_format((uint64_t)1 << 40, "1 TiB");
	assert_format(UINT64_MAX, "16 EiB");
}

static void
rounding_up_to_1024_takes_the_next_unit(void **state)
{
	(void)state;
	assert_format((1 << 20) - 1, "1 MiB");
	assert_format(1023 * 1024, "1023 KiB");
	assert_format(1024 * 1024 - 60, "1023.9 KiB");
}

static void
a_small_buffer_is_not_overrun(void **state)
{
	char text[8] = "1234567";

	(void)state;
	sl_size_format((uint64_t)3 << 29, text, 4);
	assert_string_equal(text, "1.5");
	assert_string_equal(text + 4, "567");
}

static void
whole_numbers_of_units_survive_printing_and_reading(void **state)
{
	static const char units[] = "KMGTP";
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, 11);
	for (int i = 0; i < 2000; i++) {
		uint64_t n = sl_rng_below(&rng, 1024);
		unsigned unit = (unsigned)sl_rng_below(&rng, 5);
		char text[32];

		snprintf(text, sizeof(text), "%llu%c", (unsigned long long)n, units[unit]);
		assert_size(text, n << (10 * (unit + 1)));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(plain_numbers_are_bytes),
		T(suffixes_are_powers_of_1024),
		T(fractions_are_exact),
		T(what_is_not_a_size_is_refused),
		T(what_does_not_fit_is_out_of_range),
		T(sizes_are_printed_with_one_decimal_at_most),
		T(rounding_up_to_1024_takes_the_next_unit),
		T(a_small_buffer_is_not_overrun),
		T(whole_numbers_of_units_survive_printing_and_reading),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
