/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time: threads that take turns. Between sl_turns_begin() and sl_turns_end() the calling
 * thread and the threads it starts by sl_thread_start() run one at a time, on a clock of their
 * own. That clock stands still while a thread can run. Then it jumps to the next awaited moment.
 * So a program with threads is a function of its input, and years pass in seconds.
 *
 * A turn ends where a thread waits: in sl_cond_wait(), sl_cond_wait_until(), sl_thread_join(),
 * sl_turns_sleep_until(), or at its end. Mutexes need no code: no wait holds one, so no thread
 * ever meets a locked mutex. sl_now_ns() is the virtual clock. Threads get their turns in the
 * order in which they became able to run. A condition wakes its longest waiter first.
 *
 * If all threads wait and no moment is awaited, they are printed and the process aborts, because
 * threads cannot be unwound. It is a bug of the program under the clock.
 *
 * For simulations and tests (src/sim/core_run.c). Elsewhere the cost is one relaxed load at each
 * wait, wake and reading of the clock. Threads of a clock must not wait for others, nor be woken
 * by them.
 */
#ifndef SL_BASE_TURNS_H
#define SL_BASE_TURNS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"
#include "base/lock.h"

#define SL_TURNS_NEVER UINT64_MAX

/* Threads in use of turns, in the whole process. lock.c and clock.c look at it first.
 * atomic: relaxed: a thread that takes turns counted itself. */
extern _Atomic uint32_t sl_turns_threads;

int sl_turns_mine(void); /* 1: the calling thread takes turns */

static inline int
sl_turns_on(void)
{
	return atomic_load_explicit(&sl_turns_threads, memory_order_relaxed) &&
	       sl_turns_mine();
}

/*
 * The calling thread takes turns from here, on a new clock at 0 with ticks_hz (> 0) ticks a second.
 * Several threads may each have a clock of their own. Errors: -ENOMEM. end: threads started since
 * have been joined.
 */
int sl_turns_begin(uint64_t ticks_hz) SL_MUST_CHECK;
void sl_turns_end(void);

/* Of a thread that takes turns. now_ns: rounded down. */
uint64_t sl_turns_now(void);
uint64_t sl_turns_now_ns(void);
void sl_turns_sleep_until(uint64_t tick); /* at once if it has passed: the turn goes on */

/* sl_cond_wait_until() with a deadline in ticks. 0 or -ETIMEDOUT. */
int sl_turns_wait(struct sl_cond *c, struct sl_mutex *m, uint64_t deadline_tick)
	SL_REQUIRES(m);

/* What lock.c calls. */
int sl_turns_wait_ns(struct sl_cond *c, struct sl_mutex *m, uint64_t deadline_ns);
void sl_turns_wake(struct sl_cond *c, int all);

/* As pthread_create() and pthread_join(), which they are where nobody takes turns. */
int sl_thread_start(pthread_t *thread, void *(*main)(void *), void *arg) SL_MUST_CHECK;
void sl_thread_join(pthread_t thread);

#endif
