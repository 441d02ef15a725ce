/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left unused of reserved addresses that begin too low: eight bytes of a mask of booleans must
 * not be an address.
 */
#include "unit/cmocka_all.h"

#include "device/cuda/cuda.h"

#define TIB ((uint64_t)1 << 40)

/* Words whose bytes are all 0 or 1: how many are addresses in the range? */
static unsigned
masks_inside(uint64_t base, uint64_t bytes)
{
	unsigned n = 0;

	for (unsigned bits = 0; bits < 256; bits++) {
		uint64_t word = 0;

		for (unsigned k = 0; k < 8; k++)
			word |= (uint64_t)(bits >> k & 1) << 8 * k;
		n += word - base < bytes;
	}
	return n;
}

static void
no_mask_is_an_address_where_the_driver_chose(void **state)
{
	uint64_t base = TIB, bytes = 8 * TIB; /* as a driver gave it */
	uint64_t unused = sl_cuda_addresses_unused(base, bytes);

	(void)state;
	assert_true(masks_inside(base, bytes) > 0);
	assert_int_equal(masks_inside(base + unused, bytes - unused), 0);
	assert_true(unused < bytes / 2);
	assert_int_equal(unused % SL_GRANULE_BYTES, 0);
}

static void
a_high_range_is_used_from_its_begin(void **state)
{
	(void)state;
	assert_int_equal(sl_cuda_addresses_unused(UINT64_C(0x5db300000000), TIB), 0);
	assert_int_equal(sl_cuda_addresses_unused(UINT64_C(0x7f0000000000), TIB), 0);
}

static void
a_low_range_is_not_made_useless(void **state)
{
	(void)state;
	assert_int_equal(sl_cuda_addresses_unused(TIB, TIB), 0);
	assert_int_equal(sl_cuda_addresses_unused(TIB, 3 * TIB), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(no_mask_is_an_address_where_the_driver_chose),
		T(a_high_range_is_used_from_its_begin),
		T(a_low_range_is_not_made_useless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
