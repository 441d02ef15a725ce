/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vitality: lives, idle times and memory of a period small enough to draw, of a random
 * one against counting launch by launch, and of a published network.
 */
#include "g10/import_g10.h"
#include "plan/vitality.h"

#include <errno.h>

#include "base/rng.h"
#include "unit/cmocka_all.h"
#include "unit/g10_data.h"

static void
assert_ok(int rc)
{
	if (rc)
		fail_msg("%d: %s", rc, sluice_last_error());
}

static struct sl_trace *
trace_make(uint32_t n_tensors, const enum sl_tensor_kind *kinds)
{
	struct sl_trace *trace;

	assert_ok(sl_trace_create(1000000, &trace)); /* a tick is a microsecond */
	for (uint32_t t = 0; t < n_tensors; t++)
		assert_ok(sl_trace_add_tensor(trace, 1ull << t * 4, kinds[t], NULL, NULL));
	return trace;
}

static void
launch_add(struct sl_trace *trace, uint64_t ticks, const char *uses)
{
	assert_ok(sl_trace_add_launch(trace, ticks, NULL, NULL));
	for (; *uses; uses++)
		assert_ok(sl_trace_add_use(trace, (uint32_t)(*uses - '0'), SLUICE_USE_READ));
}

#define G SL_TENSOR_GLOBAL
#define L SL_TENSOR_LOCAL

/* Launch      0    1    2    3    4      ticks 1, 10, 100, 1000, 10000
 * tensor 0 G       x         x           1 byte
 * tensor 1 L  x         x    x           16 bytes
 * tensor 2 L            x                256 bytes
 * tensor 3 G  x                   x      4096 bytes
 * tensor 4 G                             65536 bytes, not used
 * tensor 5 L                             1 MiB, not used */
static struct sl_trace *
drawn(void)
{
	static const enum sl_tensor_kind kinds[] = {G, L, L, G, G, L};
	struct sl_trace *trace = trace_make(6, kinds);

	launch_add(trace, 1, "13");
	launch_add(trace, 10, "0");
	launch_add(trace, 100, "12");
	launch_add(trace, 1000, "01");
	launch_add(trace, 10000, "3");
	return trace;
}

static void
assert_idle(const struct sl_idle *idle, uint32_t tensor, uint32_t begin, uint32_t end,
	    int wraps, uint64_t ticks)
{
	assert_int_equal(idle->tensor, tensor);
	assert_int_equal(idle->begin, begin);
	assert_int_equal(idle->end, end);
	assert_int_equal(idle->wraps, wraps);
	assert_int_equal(idle->ticks, ticks);
}

static void
lives_and_idle_times_are_as_drawn(void **state)
{
	static const uint64_t alive[] = {69633 + 16, 69633 + 16, 69633 + 16 + 256,
					 69633 + 16, 69633};
	static const uint64_t active[] = {16 + 4096, 1, 16 + 256, 17, 4096};
	static const uint64_t starts[] = {0, 1, 11, 111, 1111, 11111};
	struct sl_trace *trace = drawn();
	struct sl_vitality v;

	(void)state;
	assert_ok(sl_vitality_make(trace, 0, &v));
	assert_int_equal(v.n_launches, 5);
	assert_memory_equal(v.start_ticks, starts, sizeof(starts));
	assert_memory_equal(v.alive_bytes, alive, sizeof(alive));
	assert_memory_equal(v.active_bytes, active, sizeof(active));
	assert_int_equal(v.peak_alive_bytes, 69633 + 16 + 256);
	assert_int_equal(v.global_bytes, 69633);
	assert_int_equal(v.total_bytes, 69633 + 16 + 256 + (1 << 20));

	assert_int_equal(v.lives[1].birth, 0);
	assert_int_equal(v.lives[1].death, 4);
	assert_int_equal(v.lives[1].n_uses, 3);
	assert_int_equal(v.lives[0].birth, 0); /* global: all along */
	assert_int_equal(v.lives[0].death, 5);
	assert_int_equal(v.lives[0].first_use, 1);
	assert_int_equal(v.lives[0].last_use, 3);
	assert_int_equal(v.lives[5].first_use, SL_TRACE_NONE);
	assert_int_equal(v.lives[5].birth, v.lives[5].death);

	assert_int_equal(v.n_idles, 5);
	assert_idle(&v.idles[0], 0, 2, 3, 0, 100);
	assert_idle(&v.idles[1], 0, 4, 1, 1, 10000 + 1);
	assert_idle(&v.idles[2], 1, 1, 2, 0, 10);
	assert_idle(&v.idles[3], 3, 1, 4, 0, 1110);
	/* 3 is used first and last: nothing wraps. 4 is idle all along. */
	assert_idle(&v.idles[4], 4, 0, 5, 0, 11111);
	assert_int_equal(v.idle_first[6], 5);
	sl_vitality_fini(&v);
	sl_trace_destroy(trace);
}

static void
each_period_stands_for_itself(void **state)
{
	static const enum sl_tensor_kind kinds[] = {G, L, L};
	struct sl_trace *trace = trace_make(3, kinds);
	struct sl_vitality v;

	(void)state;
	launch_add(trace, 5, "01");
	launch_add(trace, 5, "1");
	assert_ok(sl_trace_add_period(trace));
	launch_add(trace, 7, "2");
	launch_add(trace, 7, "0");
	launch_add(trace, 7, "2");
	assert_ok(sl_vitality_make(trace, 1, &v));
	assert_int_equal(v.n_launches, 3);
	assert_int_equal(v.total_bytes, 1 + 256); /* tensor 1 is not of this period */
	assert_int_equal(v.n_idles, 2);
	assert_idle(&v.idles[0], 0, 2, 1, 1, 14);
	assert_idle(&v.idles[1], 2, 1, 2, 0, 7);
	sl_vitality_fini(&v);
	assert_int_equal(sl_vitality_make(trace, 2, &v), -EINVAL);
	sl_trace_destroy(trace);
}

static void
copies_by_the_program_keep_contents_alive(void **state)
{
	static const enum sl_tensor_kind kinds[] = {L, L};
	struct sl_trace *trace = trace_make(2, kinds);
	struct sl_vitality v;

	(void)state;
	assert_ok(sl_trace_add_copy(trace, 0, 1, 1)); /* in, before launch 0 */
	launch_add(trace, 1, "1");
	launch_add(trace, 1, "0");
	launch_add(trace, 1, "");
	assert_ok(sl_trace_add_copy(trace, 1, 0, 16)); /* out, before launch 3 */
	launch_add(trace, 1, "");
	assert_ok(sl_vitality_make(trace, 0, &v));
	assert_int_equal(v.lives[0].birth, 0);
	assert_int_equal(v.lives[0].death, 2);
	assert_int_equal(v.lives[1].birth, 0);
	assert_int_equal(v.lives[1].death, 3);
	assert_int_equal(v.alive_bytes[2], 16);
	assert_int_equal(v.alive_bytes[3], 0);
	sl_vitality_fini(&v);
	sl_trace_destroy(trace);
}

/* Is the tensor used by launch k? */
static int
is_used(const struct sl_trace *trace, uint32_t t, uint32_t k)
{
	const struct sl_trace_launch *launch = &trace->launches[k];

	for (uint32_t i = 0; i < launch->n_uses; i++)
		if (trace->uses[launch->first_use + i].tensor == t)
			return 1;
	return 0;
}

/* Every launch is a use of the tensor or in exactly one of its idle times, or outside its
 * life; idle times are as long as they can be; memory sums up. */
static void
counted_check(const struct sl_trace *trace, const struct sl_vitality *v)
{
	uint32_t n = trace->n_launches;

	for (uint32_t k = 0; k < n; k++) {
		uint64_t alive = 0, active = 0;

		for (uint32_t t = 0; t < trace->n_tensors; t++) {
			const struct sl_life *life = &v->lives[t];
			uint32_t covered = 0;
			int is_alive = life->birth <= k && k < life->death;

			for (uint32_t i = v->idle_first[t]; i < v->idle_first[t + 1]; i++) {
				const struct sl_idle *idle = &v->idles[i];

				assert_int_equal(idle->tensor, t);
				if (idle->wraps)
					covered += k >= idle->begin || k < idle->end;
				else
					covered += k >= idle->begin && k < idle->end;
			}
			assert_int_equal(covered + (uint32_t)is_used(trace, t, k), is_alive);
			alive += is_alive ? trace->tensors[t].size_bytes : 0;
			active += is_used(trace, t, k) ? trace->tensors[t].size_bytes : 0;
		}
		assert_int_equal(v->alive_bytes[k], alive);
		assert_int_equal(v->active_bytes[k], active);
	}
	for (uint32_t i = 0; i < v->n_idles; i++) {
		const struct sl_idle *idle = &v->idles[i];
		uint64_t ticks = 0;

		for (uint32_t k = 0; k < n; k++)
			if (idle->wraps ? k >= idle->begin || k < idle->end
					: k >= idle->begin && k < idle->end)
				ticks += trace->launches[k].ticks;
		assert_int_equal(idle->ticks, ticks);
		assert_true(ticks > 0);
	}
}

static void
random_traces_agree_with_counting_launch_by_launch(void **state)
{
	uint64_t seed = 4711;
	struct sl_rng rng;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	sl_rng_init(&rng, seed);
	for (int round = 0; round < 60; round++) {
		enum sl_tensor_kind kinds[12];
		struct sl_trace *trace;
		struct sl_vitality v;
		uint32_t n_launches = 1 + (uint32_t)sl_rng_below(&rng, 30);

		for (int t = 0; t < 12; t++)
			kinds[t] = sl_rng_below(&rng, 2) ? G : L;
		trace = trace_make(12, kinds);
		for (uint32_t k = 0; k < n_launches; k++) {
			char uses[16] = "";
			size_t n = 0;

			for (int t = 0; t < 12; t++)
				if (sl_rng_below(&rng, 4) == 0)
					uses[n++] = (char)('0' + t);
			uses[n] = '\0';
			launch_add(trace, 1 + sl_rng_below(&rng, 1000), uses);
		}
		assert_ok(sl_vitality_make(trace, 0, &v));
		counted_check(trace, &v);
		sl_vitality_fini(&v);
		sl_trace_destroy(trace);
	}
}

static void
bins_have_their_edges(void **state)
{
	(void)state;
	assert_int_equal(sl_idle_bin(0), 0);
	assert_int_equal(sl_idle_bin(0.999), 0);
	assert_int_equal(sl_idle_bin(1), 1);
	assert_int_equal(sl_idle_bin(9.99), 1);
	assert_int_equal(sl_idle_bin(1e7), 8);
	assert_int_equal(sl_idle_bin(1e8), 9);
	assert_int_equal(sl_idle_bin(1e30), 9);
	assert_int_equal(sl_size_bin(1), 0);
	assert_int_equal(sl_size_bin(4096), 0);
	assert_int_equal(sl_size_bin(4097), 1);
	assert_int_equal(sl_size_bin(65536), 1);
	assert_int_equal(sl_size_bin((uint64_t)1 << 32), 5);
	assert_int_equal(sl_size_bin(UINT64_MAX), 6);
}

static void
stats_add_up(void **state)
{
	struct sl_trace *trace = drawn();
	struct sl_vitality_stats s;
	struct sl_vitality v;

	(void)state;
	assert_ok(sl_vitality_make(trace, 0, &v));
	assert_ok(sl_vitality_stats(trace, &v, &s));
	assert_int_equal(s.n_tensors, 6);
	assert_int_equal(s.n_idle_tensors, 4);
	/* 10, 100, 1110, 10001 and 11111 microseconds. */
	assert_int_equal(s.idles[2], 1);
	assert_int_equal(s.idles[3], 1);
	assert_int_equal(s.idles[4], 1);
	assert_int_equal(s.idles[5], 2);
	assert_int_equal(s.idle_bytes[5], 1 + 65536);
	assert_int_equal(s.tensors[0], 4);
	assert_int_equal(s.tensors[1], 1);
	assert_int_equal(s.tensors[2], 1);
	assert_int_equal(s.idles_by_size[1][5], 1);
	assert_true(s.idle_median_us == 1110);
	assert_true(s.idle_p90_us == 11111);
	assert_true(s.active_max == 4112.0 / (double)v.total_bytes);
	assert_true(s.active_median == 272.0 / (double)v.total_bytes);
	sl_vitality_fini(&v);
	sl_trace_destroy(trace);
}

static void
published_network_has_little_active_memory(void **state)
{
	struct sl_import_g10 request = {.directory = g10_directory(),
					.model = "BERT_Base",
					.batch = 256};
	struct sl_vitality_stats s;
	struct sl_vitality v;
	struct sl_trace *trace;
	uint64_t idles = 0;

	(void)state;
	assert_ok(sl_trace_import_g10(&request, &trace));
	assert_ok(sl_vitality_make(trace, 0, &v));
	assert_ok(sl_vitality_stats(trace, &v, &s));
	assert_int_equal(v.start_ticks[v.n_launches], 8742558777);
	assert_int_equal(v.total_bytes, 158958346240);
	assert_int_equal(v.global_bytes, 17823494144);
	for (unsigned i = 0; i < SL_IDLE_BINS; i++)
		idles += s.idles[i];
	assert_int_equal(idles, v.n_idles);
	/* The paper's point: about 1 % in the mean, never much more. */
	assert_true(s.active_mean < 0.01 && s.active_max < 0.1);
	counted_check(trace, &v);
	sl_vitality_fini(&v);
	sl_trace_destroy(trace);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(lives_and_idle_times_are_as_drawn),
		T(each_period_stands_for_itself),
		T(copies_by_the_program_keep_contents_alive),
		T(random_traces_agree_with_counting_launch_by_launch),
		T(bins_have_their_edges),
		T(stats_add_up),
		T(published_network_has_little_active_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
