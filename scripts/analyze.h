/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included in front of every file by the analyzing steps of scripts/check, never by a build. The
 * analyzers look at one file at a time and do not see that sl_fail() and its kin return the code
 * they are given: they would follow a failure on as if it were a success, into variables that were
 * never set.
 */
#include "../src/base/error.h"

#define sl_fail(rc, ...)      ((void)(sl_fail)(rc, __VA_ARGS__), (rc))
#define sl_fail_in(rc, ...)   ((void)(sl_fail_in)(rc, __VA_ARGS__), (rc))
#define sl_fail_text(rc, ...) ((void)(sl_fail_text)(rc, __VA_ARGS__), (rc))
