/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of each policy, and the intent that counts under it. */
#include "unit/cmocka_all.h"

#include "core/policy.h"
#include "sluice/region.h"

static void
rows_say_what_each_policy_knows(void **state)
{
	const struct sl_policy *lru = sl_policy_find(SLUICE_POLICY_LRU);
	const struct sl_policy *dragon = sl_policy_find(SLUICE_POLICY_DRAGON);
	const struct sl_policy *uvm = sl_policy_find(SLUICE_POLICY_UVM);

	(void)state;
	assert_string_equal(lru->name, "lru");
	assert_true(lru->stamp_on_hit && lru->honour_intents && lru->honour_flags);
	assert_string_equal(dragon->name, "dragon");
	assert_true(dragon->stamp_on_hit && !dragon->honour_intents && dragon->honour_flags);
	assert_string_equal(uvm->name, "uvm");
	assert_true(!uvm->stamp_on_hit && !uvm->honour_intents && !uvm->honour_flags);
}

static void
unknown_policy_has_no_row(void **state)
{
	(void)state;
	assert_null(sl_policy_find(SLUICE_POLICY_COUNT));
	assert_null(sl_policy_find((enum sluice_policy) - 1));
}

static void
lru_takes_every_intent_as_declared(void **state)
{
	const struct sl_policy *p = sl_policy_find(SLUICE_POLICY_LRU);

	(void)state;
	for (int i = 0; i < SLUICE_USE_COUNT; i++) {
		enum sluice_intent intent = (enum sluice_intent)i;

		assert_int_equal(sl_policy_intent(p, SLUICE_READ, intent), intent);
		assert_int_equal(sl_policy_intent(p, SLUICE_READ | SLUICE_WRITE, intent),
				 intent);
	}
}

static void
dragon_goes_by_the_map_flags_alone(void **state)
{
	const struct sl_policy *p = sl_policy_find(SLUICE_POLICY_DRAGON);

	(void)state;
	for (int i = 0; i < SLUICE_USE_COUNT; i++) {
		enum sluice_intent intent = (enum sluice_intent)i;

		assert_int_equal(sl_policy_intent(p, SLUICE_READ, intent), SLUICE_USE_READ);
		assert_int_equal(sl_policy_intent(p, SLUICE_WRITE, intent),
				 SLUICE_USE_READ_WRITE);
		assert_int_equal(sl_policy_intent(p, SLUICE_READ | SLUICE_WRITE | SLUICE_VOLATILE,
						  intent),
				 SLUICE_USE_READ_WRITE);
	}
}

static void
uvm_knows_neither_intents_nor_flags(void **state)
{
	const struct sl_policy *p = sl_policy_find(SLUICE_POLICY_UVM);

	(void)state;
	for (int i = 0; i < SLUICE_USE_COUNT; i++) {
		enum sluice_intent intent = (enum sluice_intent)i;

		assert_int_equal(sl_policy_intent(p, SLUICE_READ, intent),
				 SLUICE_USE_READ_WRITE);
		assert_int_equal(sl_policy_intent(p, SLUICE_WRITE, intent),
				 SLUICE_USE_READ_WRITE);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(rows_say_what_each_policy_knows),
		T(unknown_policy_has_no_row),
		T(lru_takes_every_intent_as_declared),
		T(dragon_goes_by_the_map_flags_alone),
		T(uvm_knows_neither_intents_nor_flags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
