/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the simulator: checks that end the program with status 1, small traces,
 * and the published inputs. A test is a plain program. Each case is a function named as the
 * sentence it shows.
 */
#ifndef TESTS_SIM_SIM_TEST_H
#define TESTS_SIM_SIM_TEST_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>

#include "base/rng.h"
#include "sim/sim.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

#define CHECK(what)                                                                \
	do {                                                                       \
		if (!(what)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, \
				__LINE__, #what, sluice_last_error());             \
			exit(1);                                                   \
		}                                                                  \
	} while (0)

#define CHECK_EQ(a, b)                                                                   \
	do {                                                                             \
		uint64_t a_ = (uint64_t)(a), b_ = (uint64_t)(b);                         \
		if (a_ != b_) {                                                          \
			fprintf(stderr, "%s:%d: %s is %" PRIu64 ", %s is %" PRIu64 "\n", \
				__FILE__, __LINE__, #a, a_, #b, b_);                     \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

/* The call returns rc with a text that has the words. */
#define CHECK_FAILS(call, rc, words)                               \
	do {                                                       \
		CHECK((call) == (rc));                             \
		CHECK(strstr(sluice_last_error(), words) != NULL); \
	} while (0)

/* A machine small enough to follow by hand: 1 GHz clock expected, pages of 4 KiB, one page
 * crosses the link in 1000 ticks (steps of 10 pages), the store has a fifth of that. */
void small_machine(struct sl_machine *machine, uint32_t device_pages, uint32_t host_pages);

/* A random trace of `launches` launches over `tensors` tensors of up to `pages` pages. */
struct sl_trace *random_trace(struct sl_rng *rng, uint32_t launches, uint32_t tensors,
			      uint32_t pages);

/* Give the trace ratios, and the machine a codec: mostly a fast one, sometimes one that is
 * slower than the link. Every other time all tensors have the same ratio; else each has its
 * own, or none. */
void codec_draw(struct sl_rng *rng, struct sl_trace *trace, struct sl_machine *machine);

/* The published inputs, or NULL with a reason printed when they are not there. */
struct sl_trace *published_trace(const char *model, uint32_t batch);

/* Run a policy by name; the result must not be an error. */
void policy_run(const char *policy, const struct sl_trace *trace,
		const struct sl_machine *machine, const struct sl_plan *plan,
		const struct sl_sim_options *options, struct sl_sim_result *result);

/* Both results the same, launch by launch. */
void results_check_equal(const struct sl_sim_result *a, const struct sl_sim_result *b);

#endif
