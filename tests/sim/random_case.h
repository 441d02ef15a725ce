/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random traces with a random machine that can run them: small, and of every kind. The same
 * seed gives the same case.
 */
#ifndef TESTS_SIM_RANDOM_CASE_H
#define TESTS_SIM_RANDOM_CASE_H

#include <stdint.h>

#include "plan/machine.h"
#include "trace/trace.h"

struct sl_trace *random_case(uint64_t seed, struct sl_machine *machine);

#endif
