/* SPDX-License-Identifier: Apache-2.0 */
/* See sim_test.h. The published inputs are beside this folder, in tests/data/g10. */
#include "sim_test.h"

#include "g10/import_g10.h"
#include "g10/replica.h"
#include <unistd.h>

void
small_machine(struct sl_machine *machine, uint32_t device_pages, uint32_t host_pages)
{
	sl_machine_g10(machine);
	machine->device_bytes = device_pages * 4 * KIB;
	machine->host_bytes = host_pages * 4 * KIB;
	machine->link_in_bps = machine->link_out_bps = 4.096e9;
	machine->store_read_bps = machine->store_write_bps = 0.8192e9;
	machine->alloc_bps = 4.096e12; /* a page takes one tick */
	machine->link_batch_pages = 10;
}

struct sl_trace *
random_trace(struct sl_rng *rng, uint32_t launches, uint32_t tensors, uint32_t pages)
{
	struct sl_trace *trace;
	uint32_t i, k, number;

	CHECK(tensors > 0);
	CHECK(!sl_trace_create(1000000000, &trace));
	for (i = 0; i < tensors; i++)
		CHECK(!sl_trace_add_tensor(trace, (1 + sl_rng_below(rng, pages)) * 4 * KIB,
					   sl_rng_below(rng, 4) ? SL_TENSOR_LOCAL
								: SL_TENSOR_GLOBAL,
					   NULL, &number));
	for (k = 0; k < launches; k++) {
		CHECK(!sl_trace_add_launch(trace, 1 + sl_rng_below(rng, 100000), NULL,
					   &number));
		/* Output k, so that most tensors are made before they are read. */
		CHECK(!sl_trace_add_use(trace, k % tensors, SLUICE_USE_WRITE_ALL));
		for (i = (uint32_t)sl_rng_below(rng, 3); i > 0; i--)
			CHECK(!sl_trace_add_use(trace, (uint32_t)sl_rng_below(rng, tensors),
						SLUICE_USE_READ));
	}
	return trace;
}

void
codec_draw(struct sl_rng *rng, struct sl_trace *trace, struct sl_machine *machine)
{
	double fast = 1 + 20 * sl_rng_unit(rng);
	uint32_t common = sl_rng_below(rng, 2) ? 1 + (uint32_t)sl_rng_below(rng, 8000) : 0;

	for (uint32_t t = 0; t < trace->n_tensors; t++) {
		struct sl_tensor *tensor = &trace->tensors[t];

		tensor->ratio = 1 + (uint32_t)sl_rng_below(rng, SL_TRACE_RATIO_ONE);
		if (sl_rng_below(rng, 4) == 0)
			tensor->ratio = sl_rng_below(rng, 2) ? 0 : 1;
		if (common)
			tensor->ratio = common;
	}
	machine->encode_bps = machine->link_out_bps * fast / 1.5;
	machine->decode_bps = machine->link_in_bps * fast;
}

struct sl_trace *
published_trace(const char *model, uint32_t batch)
{
	struct sl_import_g10 import = {.model = model, .batch = batch};
	const char *below = strstr(__FILE__, "sim/sim_test.c");
	struct sl_trace *trace;
	char directory[4096];

	CHECK(below != NULL);
	snprintf(directory, sizeof(directory), "%.*sdata/g10", (int)(below - __FILE__),
		 __FILE__);
	if (access(directory, R_OK)) {
		printf("%s is not there\n", directory);
		return NULL;
	}
	import.directory = directory;
	CHECK(!sl_trace_import_g10(&import, &trace));
	return trace;
}

void
policy_run(const char *policy, const struct sl_trace *trace,
	   const struct sl_machine *machine, const struct sl_plan *plan,
	   const struct sl_sim_options *options, struct sl_sim_result *result)
{
	const struct sl_sim_policy *found = g10_policy_find(policy);

	CHECK(found != NULL);
	CHECK(!found->run(trace, machine, plan, options, result));
}

void
results_check_equal(const struct sl_sim_result *a, const struct sl_sim_result *b)
{
	uint32_t i;

	CHECK_EQ(a->n_periods, b->n_periods);
	CHECK_EQ(a->n_launches, b->n_launches);
	CHECK_EQ(a->best_ticks, b->best_ticks);
	CHECK_EQ(a->failed, b->failed);
	CHECK(!memcmp(a->period_bytes, b->period_bytes,
		      a->n_periods * sizeof(*a->period_bytes)));
	for (i = 0; i < a->n_periods * a->n_launches; i++)
		CHECK(!memcmp(&a->launches[i], &b->launches[i], sizeof(a->launches[i])));
}
