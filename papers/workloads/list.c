/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of workloads of sluice-papers: those of `sluice bench` and those of this folder. A new
 * one is a file that defines a struct workload (see fir.c), and a line in each of the two lists here.
 *
 * Threads: constant data.
 */
#include "list.h"

const struct workload *const workloads_list[] = {
	&workload_vectoradd,
	&workload_hotspot,
	&workload_pathfinder,
	&workload_srad,
	&workload_fir,
	&workload_train,
	&workload_backprop,
	&workload_binomial_options,
	&workload_black_scholes,
	&workload_lavamd,
	&workload_radix_sort,
	&workload_hash_join,
	&workload_minibatch_sgd,
	&workload_network,
	NULL,
};
