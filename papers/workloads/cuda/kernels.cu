/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of all workloads of sluice-papers, as one image: those of `sluice bench`
 * (workloads/cuda/kernels.cu, which says how they are made) and those of this folder.
 */
#include "../../../workloads/cuda/kernels.cu"

#include "backprop.cuh"
#include "binomial_options.cuh"
#include "black_scholes.cuh"
#include "fir.cuh"
#include "lavamd.cuh"
#include "partition.cuh"
#include "hash_join.cuh"
#include "minibatch_sgd.cuh"
#include "network.cuh"
