/* SPDX-License-Identifier: Apache-2.0 */
/* The Mersenne twister against its published check value, and the effect of noise on a trace. */
#include "g10/replica.h"
#include "sim_test.h"

/* The C++ standard names the 10000th number of the default seed. */
static void
twister_gives_the_published_number(void)
{
	struct g10_twister twister;
	uint32_t i, last = 0;

	g10_twister_init(&twister, 5489);
	for (i = 0; i < 10000; i++)
		last = g10_twister_next(&twister);
	CHECK_EQ(last, 4123659995u);
}

static void
noise_keeps_each_launch_within_its_bounds(void)
{
	struct sl_sim_options options = {.periods = 2};
	struct sl_machine machine;
	struct sl_sim_result a, b, other;
	struct sl_trace *trace, noisy, again, seeded;
	struct sl_rng rng;
	uint64_t sum = 0;
	uint32_t k;

	sl_rng_init(&rng, 7);
	trace = random_trace(&rng, 200, 20, 4);
	small_machine(&machine, 4096, 4096);
	CHECK(!g10_noise_make(trace, 0.2, 15, &noisy));
	CHECK(!g10_noise_make(trace, 0.2, 15, &again));
	CHECK(!g10_noise_make(trace, 0.2, 16, &seeded));
	policy_run("ideal", &noisy, &machine, NULL, &options, &a);
	policy_run("ideal", &again, &machine, NULL, &options, &b);
	results_check_equal(&a, &b);
	for (k = 0; k < trace->n_launches; k++) {
		uint64_t plain = trace->launches[k].ticks, taken = a.launches[k].ideal_ticks;

		CHECK(taken >= plain * 8 / 10 && taken <= plain * 12 / 10 + 1);
		CHECK_EQ(taken, a.launches[k + trace->n_launches].ideal_ticks);
		sum += taken;
	}
	CHECK_EQ(sum, a.ideal_ticks);
	policy_run("ideal", &seeded, &machine, NULL, &options, &other);
	CHECK(other.ideal_ticks != a.ideal_ticks);

	g10_noise_fini(&noisy);
	g10_noise_fini(&again);
	g10_noise_fini(&seeded);
	CHECK_FAILS(g10_noise_make(trace, 1, 15, &noisy), -EINVAL, "noise");
	sl_sim_result_fini(&a);
	sl_sim_result_fini(&b);
	sl_sim_result_fini(&other);
	sl_trace_destroy(trace);
}

int
main(void)
{
	twister_gives_the_published_number();
	noise_keeps_each_launch_within_its_bounds();
	return 0;
}
