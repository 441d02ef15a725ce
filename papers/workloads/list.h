/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workloads of sluice-papers, each defined in its own file. Only list.c and those files need
 * this; everybody else goes through workloads_list[] and workload_find().
 *
 * Threads: constant data.
 */
#ifndef PAPERS_WORKLOADS_LIST_H
#define PAPERS_WORKLOADS_LIST_H

#include "small_list.h"

extern const struct workload workload_fir;
extern const struct workload workload_train;
extern const struct workload workload_radix_sort;
extern const struct workload workload_hash_join;
extern const struct workload workload_minibatch_sgd;
extern const struct workload workload_network;
extern const struct workload workload_backprop;
extern const struct workload workload_binomial_options;
extern const struct workload workload_black_scholes;
extern const struct workload workload_lavamd;

#endif
