/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library in a program that does not know of them. turns.h has those that take turns. */
#ifndef SL_BASE_THREAD_H
#define SL_BASE_THREAD_H

#include <pthread.h>

#include "base/error.h"

/*
 * Start a thread that takes no signals: they are the program's. name: at most 15 characters. *thread: to be
 * joined or detached. Errors: those of pthread_create(3), without a text; the fault point "thread.create".
 * Does not block.
 */
int sl_thread_begin(pthread_t *thread, const char *name, void *(*main)(void *arg),
		    void *arg) SL_MUST_CHECK;

#endif
