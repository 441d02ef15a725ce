/* SPDX-License-Identifier: Apache-2.0 */
/* Flash translation against a plain set of written units, its amplification where theory says
 * what it must be, and the life of drives. */
#include "sim_test.h"

#include <math.h>

#include "sim/flash.h"

#define UNIT 4096

static struct sl_flash *
drive(uint32_t units, double spare)
{
	struct sl_flash_config config = {
		.capacity_bytes = (uint64_t)units * UNIT,
		.spare = spare,
		.unit_bytes = UNIT,
		.block_units = 16,
	};
	struct sl_flash *flash;

	CHECK(!sl_flash_create(&config, &flash));
	return flash;
}

static void
map_agrees_with_a_set_of_units(uint64_t seed)
{
	struct sl_flash *flash = drive(500, 0.1);
	static unsigned char written[500];
	struct sl_flash_stats stats;
	uint64_t host = 0, trimmed = 0, valid = 0;
	struct sl_rng rng;
	uint32_t i, k, n;

	sl_rng_init(&rng, seed);
	memset(written, 0, sizeof(written));
	for (i = 0; i < 5000; i++) {
		uint32_t first = (uint32_t)sl_rng_below(&rng, 500);
		int trims = !sl_rng_below(&rng, 4);

		n = 1 + (uint32_t)sl_rng_below(&rng, 40);
		if (n > 500 - first)
			n = 500 - first;
		for (k = first; k < first + n; k++) {
			trimmed += trims && written[k];
			written[k] = !trims;
		}
		host += trims ? 0 : n;
		CHECK(!(trims ? sl_flash_trim : sl_flash_write)(flash, (uint64_t)first * UNIT,
								(uint64_t)n * UNIT));
		if (i % 50 == 0)
			CHECK(!sl_flash_check(flash));
	}
	for (k = 0; k < 500; k++)
		valid += written[k];
	CHECK(!sl_flash_check(flash));
	sl_flash_stats(flash, &stats);
	CHECK_EQ(stats.host_units, host);
	CHECK_EQ(stats.trimmed_units, trimmed);
	CHECK_EQ(stats.valid_units, valid);
	CHECK(stats.flash_units >= host);
	sl_flash_destroy(flash);
}

static void
sequential_writing_is_not_amplified(void)
{
	struct sl_flash *flash = drive(1600, 0.07);
	struct sl_flash_stats stats;
	int round;

	for (round = 0; round < 10; round++)
		CHECK(!sl_flash_write(flash, 0, 1600ull * UNIT));
	sl_flash_stats(flash, &stats);
	CHECK_EQ(stats.flash_units, stats.host_units);
	CHECK_EQ(stats.host_units, 16000);
	CHECK(stats.block_erases_max - stats.block_erases_min <= 1);
	sl_flash_destroy(flash);
}

/* Short ranges that follow each other write each unit once. */
static void
stream_of_short_ranges_writes_each_unit_once(void)
{
	struct sl_flash *flash = drive(100, 0.1);
	struct sl_flash_stats stats;
	uint64_t at, step = 1500;

	for (at = 0; at + step <= 100ull * UNIT; at += step)
		CHECK(!sl_flash_write(flash, at, step));
	sl_flash_stats(flash, &stats);
	CHECK_EQ(stats.host_units, at / UNIT);
	CHECK_FAILS(sl_flash_write(flash, 99ull * UNIT, 2 * UNIT), -ENOSPC, "exceed");
	CHECK_FAILS(sl_flash_trim(flash, UINT64_MAX, 2), -ENOSPC, "exceed");
	sl_flash_destroy(flash);
}

static double
random_amplification(double spare)
{
	struct sl_flash *flash = drive(8000, spare);
	struct sl_rng rng;
	double amplification;
	uint32_t i;

	sl_rng_init(&rng, 3);
	CHECK(!sl_flash_write(flash, 0, 8000ull * UNIT));
	for (i = 0; i < 200000; i++)
		CHECK(!sl_flash_write(flash, sl_rng_below(&rng, 8000) * UNIT, UNIT));
	CHECK(!sl_flash_check(flash));
	amplification = sl_flash_amplification(flash);
	sl_flash_destroy(flash);
	return amplification;
}

/* Uniform random writes: known to be near (1 + spare) / (2 spare), less with greedy choice;
 * more spare flash must mean less. */
static void
random_writing_is_amplified_as_theory_says(void)
{
	double small = random_amplification(0.07), large = random_amplification(0.28);

	printf("amplification: %.2f with 7 %% spare, %.2f with 28 %%\n", small, large);
	CHECK(small > 4 && small < 9);
	CHECK(large > 1.5 && large < 2.6);
}

static void
life_of_a_drive_is_endurance_over_rate(void)
{
	struct sl_sim_result result = {.best_ticks = 2000};
	struct sl_machine machine;
	struct sl_wear wear;

	sl_machine_g10(&machine);
	machine.drive_endurance_bytes = 365.0 * 24 * 3600 * 500;
	result.bytes[SL_PATH_STORE_OUT] = 1000;
	sl_sim_wear(&result, &machine, 1000, 1, &wear); /* 500 bytes a second */
	CHECK(fabs(wear.years - 1) < 1e-9);
	sl_sim_wear(&result, &machine, 1000, 2, &wear);
	CHECK(fabs(wear.years - 0.5) < 1e-9);
	machine.n_drives = 4;
	sl_sim_wear(&result, &machine, 1000, 2, &wear);
	CHECK(fabs(wear.years - 2) < 1e-9);
	machine.n_gpus = 2;
	sl_sim_wear(&result, &machine, 1000, 2, &wear);
	CHECK(fabs(wear.years - 1) < 1e-9);
	result.bytes[SL_PATH_STORE_OUT] = 0;
	sl_sim_wear(&result, &machine, 1000, 1, &wear);
	CHECK(isinf(wear.years));
}

static void
impossible_drives_are_refused(void)
{
	struct sl_flash_config config;
	struct sl_flash *flash;

	sl_flash_config_default(&config);
	config.unit_bytes = 0;
	CHECK_FAILS(sl_flash_create(&config, &flash), -EINVAL, "unit_bytes");
	sl_flash_config_default(&config);
	config.spare = -1;
	CHECK_FAILS(sl_flash_create(&config, &flash), -EINVAL, "spare");
	sl_flash_config_default(&config);
	config.unit_bytes = 512;
	CHECK_FAILS(sl_flash_create(&config, &flash), -EINVAL, "unit_bytes");
}

/* The pages that a policy sends to the store reach the drive, all of them. */
static void
policy_writes_what_it_counts(void)
{
	struct sl_sim_options options = {.periods = 4, .as_published = 1};
	struct sl_flash *flash = drive(4000, 0.1);
	struct sl_flash_stats stats;
	struct sl_sim_result result;
	struct sl_machine machine;
	struct sl_trace *trace;
	uint64_t written = 0;
	struct sl_rng rng;
	uint32_t k;

	sl_rng_init(&rng, 11);
	trace = random_trace(&rng, 80, 30, 60);
	small_machine(&machine, 250, 50);
	options.flash = flash;
	policy_run("uvm", trace, &machine, NULL, &options, &result);
	CHECK(!sl_flash_check(flash));
	sl_flash_stats(flash, &stats);
	for (k = 0; k < result.n_periods; k++)
		written += result.period_bytes[k][SL_PATH_STORE_OUT];
	CHECK(written > 0);
	CHECK_EQ(stats.host_units * UNIT, written);
	sl_sim_result_fini(&result);
	sl_flash_destroy(flash);

	/* A drive too small for the trace. */
	flash = drive(100, 0.1);
	options.flash = flash;
	CHECK_FAILS(sl_sim_uvm.run(trace, &machine, NULL, &options, &result), -ENOSPC,
		    "flash");
	sl_flash_destroy(flash);
	sl_trace_destroy(trace);
}

int
main(void)
{
	uint64_t seed;

	for (seed = 1; seed <= 5; seed++) {
		printf("seed %" PRIu64 "\n", seed);
		map_agrees_with_a_set_of_units(seed);
	}
	sequential_writing_is_not_amplified();
	stream_of_short_ranges_writes_each_unit_once();
	random_writing_is_amplified_as_theory_says();
	life_of_a_drive_is_endurance_over_rate();
	impossible_drives_are_refused();
	policy_writes_what_it_counts();
	return 0;
}
