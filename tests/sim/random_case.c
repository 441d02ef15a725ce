/* SPDX-License-Identifier: Apache-2.0 */
/* See random_case.h. */
#include "random_case.h"

#include "sim_test.h"

/* Every intent, lives that overlap in every way, sizes that are no whole pages. */
static struct sl_trace *
mixed_make(struct sl_rng *rng)
{
	uint32_t tensors = 2 + (uint32_t)sl_rng_below(rng, 14), number;
	uint32_t launches = 1 + (uint32_t)sl_rng_below(rng, 24);
	uint64_t size = (uint64_t)64 << sl_rng_below(rng, 13);
	uint64_t ticks = (uint64_t)1 << sl_rng_below(rng, 18);
	struct sl_trace *trace;

	CHECK(!sl_trace_create(1000000000, &trace));
	for (uint32_t t = 0; t < tensors; t++)
		CHECK(!sl_trace_add_tensor(trace, 1 + sl_rng_below(rng, size),
					   sl_rng_below(rng, 3) ? SL_TENSOR_LOCAL
								: SL_TENSOR_GLOBAL,
					   NULL, &number));
	CHECK(!sl_trace_add_period(trace));
	for (uint32_t k = 0; k < launches; k++) {
		CHECK(!sl_trace_add_launch(trace, 1 + sl_rng_below(rng, ticks), NULL,
					   &number));
		for (uint64_t i = 1 + sl_rng_below(rng, 4); i > 0; i--) {
			uint32_t tensor = (uint32_t)sl_rng_below(rng, tensors);
			int rc = sl_trace_add_use(
				trace, tensor,
				(enum sluice_intent)sl_rng_below(rng, SLUICE_USE_COUNT));

			/* Scratch goes with no other intent of the same launch. */
			CHECK(!rc || rc == -EINVAL);
		}
	}
	return trace;
}

/* A training step: activations made forward and read backward, weights that are updated. */
static struct sl_trace *
training_make(struct sl_rng *rng)
{
	uint32_t layers = 3 + (uint32_t)sl_rng_below(rng, 14), number;
	uint64_t most = 1 + sl_rng_below(rng, 200);
	uint64_t ticks = (uint64_t)1000 << sl_rng_below(rng, 10);
	int partial = sl_rng_below(rng, 3) == 0;
	struct sl_trace *trace;

	CHECK(!sl_trace_create(1000000000, &trace));
	for (uint32_t i = 0; i < layers; i++) {
		CHECK(!sl_trace_add_tensor(trace, (1 + sl_rng_below(rng, most)) * 4 * KIB,
					   SL_TENSOR_LOCAL, NULL, &number));
		CHECK(!sl_trace_add_tensor(trace, 1 + sl_rng_below(rng, most * KIB),
					   SL_TENSOR_GLOBAL, NULL, &number));
	}
	CHECK(!sl_trace_add_period(trace));
	for (uint32_t k = 0; k < 2 * layers; k++) {
		uint32_t i = k < layers ? k : 2 * layers - 1 - k;

		CHECK(!sl_trace_add_launch(trace, 1 + sl_rng_below(rng, ticks), NULL,
					   &number));
		CHECK(!sl_trace_add_use(trace, 2 * i,
					k < layers ? SLUICE_USE_WRITE_ALL : SLUICE_USE_READ));
		CHECK(!sl_trace_add_use(trace, 2 * i + 1,
					k < layers ? SLUICE_USE_READ : SLUICE_USE_READ_WRITE));
		if (k && k < layers)
			CHECK(!sl_trace_add_use(trace, 2 * (i - 1), SLUICE_USE_READ));
		/* The gradient is written in place into what was read last. */
		if (partial && k > layers)
			CHECK(!sl_trace_add_use(trace, 2 * (i + 1), SLUICE_USE_WRITE));
	}
	return trace;
}

/* Weights that are only read, one layer after the other. */
static struct sl_trace *
inference_make(struct sl_rng *rng)
{
	uint32_t layers = 2 + (uint32_t)sl_rng_below(rng, 20), number;
	uint64_t most = 1 + sl_rng_below(rng, 200);
	uint64_t ticks = (uint64_t)100 << sl_rng_below(rng, 12);
	struct sl_trace *trace;

	CHECK(!sl_trace_create(1000000000, &trace));
	for (uint32_t i = 0; i < layers; i++) {
		CHECK(!sl_trace_add_tensor(trace, 1 + sl_rng_below(rng, most * 4 * KIB),
					   SL_TENSOR_GLOBAL, NULL, &number));
		CHECK(!sl_trace_add_tensor(trace, 1 + sl_rng_below(rng, most * KIB),
					   SL_TENSOR_LOCAL, NULL, &number));
	}
	CHECK(!sl_trace_add_period(trace));
	for (uint32_t i = 0; i < layers; i++) {
		CHECK(!sl_trace_add_launch(trace, 1 + sl_rng_below(rng, ticks), NULL,
					   &number));
		CHECK(!sl_trace_add_use(trace, 2 * i, SLUICE_USE_READ));
		CHECK(!sl_trace_add_use(trace, 2 * i + 1, SLUICE_USE_WRITE_ALL));
		if (i)
			CHECK(!sl_trace_add_use(trace, 2 * i - 1, SLUICE_USE_READ));
	}
	return trace;
}

/* What the largest launch uses, in pages. */
static uint64_t
pages_least(const struct sl_trace *trace)
{
	uint64_t most = 0;

	for (uint32_t k = 0; k < trace->n_launches; k++) {
		const struct sl_trace_launch *launch = &trace->launches[k];
		uint64_t pages = 0;

		for (uint32_t i = 0; i < launch->n_uses; i++) {
			uint32_t t = trace->uses[launch->first_use + i].tensor;

			pages += (trace->tensors[t].size_bytes + 4 * KIB - 1) / (4 * KIB);
		}
		most = pages > most ? pages : most;
	}
	return most;
}

static double
rate_draw(struct sl_rng *rng, double most)
{
	return most / (double)(1 + sl_rng_below(rng, 20)) /
	       (double)(1 + sl_rng_below(rng, 4));
}

static void
machine_draw(struct sl_rng *rng, const struct sl_trace *trace, struct sl_machine *machine)
{
	uint64_t least = pages_least(trace), odd = sl_rng_below(rng, 3) ? 0 : 4095;

	sl_machine_g10(machine);
	machine->device_bytes = (least + sl_rng_below(rng, 2 * least)) * 4 * KIB +
				(odd ? sl_rng_below(rng, odd) : 0);
	machine->host_bytes = sl_rng_below(rng, 3) * sl_rng_below(rng, 4 * least + 1) *
				      2 * KIB +
			      (odd ? sl_rng_below(rng, odd) : 0);
	machine->link_in_bps = rate_draw(rng, 40e9);
	machine->link_out_bps = sl_rng_below(rng, 2) ? machine->link_in_bps
						     : rate_draw(rng, 40e9);
	machine->store_read_bps = rate_draw(rng, machine->link_in_bps);
	machine->store_write_bps = rate_draw(rng, machine->link_out_bps);
	if (sl_rng_below(rng, 2))
		machine->alloc_bps = 4.096e12;
	machine->link_batch_pages = 1 + (uint32_t)sl_rng_below(rng, 50);
	if (sl_rng_below(rng, 8) == 0)
		machine->n_gpus = 2 + (uint32_t)sl_rng_below(rng, 2);
}

struct sl_trace *
random_case(uint64_t seed, struct sl_machine *machine)
{
	struct sl_trace *trace;
	struct sl_rng rng;

	sl_rng_init(&rng, seed);
	switch (sl_rng_below(&rng, 4)) {
	case 0:
		trace = training_make(&rng);
		break;
	case 1:
		trace = inference_make(&rng);
		break;
	default:
		trace = mixed_make(&rng);
		break;
	}
	CHECK(!sl_trace_check(trace));
	machine_draw(&rng, trace, machine);
	return trace;
}
