/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensor-level simulation of the paper G10's comparison (FlashNeuron, G10-GDS,
 * G10-Host): whole tensors move over FIFO channels while kernels run one after the other.
 * No pages, no faults, no latency; a transfer takes its bytes over the channel's rate. What
 * leaves and comes back when is a list of steps (a plan); what the policies do differently
 * is in struct tensor_run_rules.
 *
 * tensor_run.c is the engine, tensor_room.c the device memory; flashneuron.c and
 * g10_tensor.c are the policies. Threads: one per run, nothing shared.
 */
#ifndef SL_PAPERS_G10_TENSOR_RUN_H
#define SL_PAPERS_G10_TENSOR_RUN_H

#include "g10/replica.h"

struct tensor_run_rules {
	uint64_t array_bytes;      /* of device memory */
	double bps[SL_PATH_COUNT]; /* of the channels */
	uint64_t store_bytes;      /* what the store holds; 0: everything */
	/* Kernels behind this one (backward) start when no write-out is left, and after each
	 * of them what the next ones need is fetched as far as there is room.
	 * SL_TRACE_NONE: prefetches are steps of the plan. */
	uint32_t loss_kernel;
	const unsigned char *from_high; /* by tensor: placed from the high end; NULL: none */
	/* The published program meets the tensors of a kernel in the order of a hash table,
	 * which places what is new mostly last first. Known results agree with: two in order,
	 * more in reverse. Only where memory is short does it matter. */
	int many_last_first;
	/* Memory is paged rather than an array, and a kernel that finds no room with nothing on
	 * its way out makes some: what is used last goes to the store. */
	int evicts;
	int waits_for_own_write; /* a kernel does not run while a tensor of its own is
					 * being written out */
};

/* -EINVAL with a text where the machine has several GPUs: these policies are for one. */
int sl_tensor_one_gpu(const char *policy, const struct sl_machine *machine) SL_MUST_CHECK;

/*
 * Run one iteration; steps of the plan other than prefetches and evictions are ignored.
 * out: freshly zeroed; released by sl_sim_result_fini(). A run that gets stuck for want of
 * room sets out->failed and out->why and returns 0. Errors: -ENOMEM.
 */
int sl_tensor_run(const struct sl_g10_view *view, const struct tensor_run_rules *rules,
		  const struct sl_plan *plan, const struct sl_sim_options *options,
		  struct sl_sim_result *out) SL_MUST_CHECK;

#endif
