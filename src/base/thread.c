/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library (thread.h). Their signals are blocked before they begin. */
#include "base/thread.h"

#include <signal.h>

#include "base/fault_point.h"

int
sl_thread_begin(pthread_t *thread, const char *name, void *(*main)(void *arg), void *arg)
{
	sigset_t all, before;
	int rc = sl_fault_point("thread.create");

	if (rc)
		return rc;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = -pthread_create(thread, NULL, main, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!rc)
		(void)pthread_setname_np(*thread, name);
	return rc;
}
