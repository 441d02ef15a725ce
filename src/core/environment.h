/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of SLUICE_ variables. A mistyped one is reported; it would change nothing, unseen.
 *
 * Threads: any. Reads the environment, which no thread may change meanwhile.
 */
#ifndef SL_CORE_ENVIRONMENT_H
#define SL_CORE_ENVIRONMENT_H

#include "base/error.h"

/*
 * Call fn for each SLUICE_ variable of the environment that nothing reads. meant: the known one
 * with the nearest name, or NULL; both texts are gone after the call.
 */
void sl_environment_unknown(void (*fn)(const char *name, const char *meant, void *arg),
			    void *arg);

/*
 * The values of the others: 0, or -EINVAL with a text that names the first that no space can have.
 * Budgets are not looked at: a program may have others. sl_environment_warn() says nothing any more:
 * who checks tells of unknown variables in its own way.
 */
int sl_environment_check(void) SL_MUST_CHECK;

/*
 * Log a warning for each of them, once in this process. Says nothing where SLUICE_RUN is set:
 * `sluice run` has said it, before it became the program.
 */
void sl_environment_warn(void);

#endif
