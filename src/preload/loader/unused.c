/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A person at a terminal is told when `sluice run` had nothing to do: a broken driver looks like
 * that, too. The command has become the program and cannot say it. So the library says it when
 * that process exits.
 *
 * It speaks only if it is sure. It does not know what children did. So a process that has or had
 * some is silent. It speaks only at a regular exit.
 *
 * Threads: the one that calls exit(). Does not block.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/loader/entry.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"

/* Has this process started others? Whoever ignores the end of its children leaves no trace of them. */
static bool
has_had_children(void)
{
	struct sigaction action;
	struct rusage usage;
	siginfo_t info;

	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD)
		return true;
	if (sigaction(SIGCHLD, NULL, &action) || (action.sa_flags & SA_NOCLDWAIT) ||
	    (!(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_IGN))
		return true;
	return getrusage(RUSAGE_CHILDREN, &usage) || usage.ru_maxrss;
}

static void __attribute__((destructor)) unused_say(void)
{
	int saved = errno;
	const char *text;

	if (pl_driver_was_used() || !isatty(STDERR_FILENO))
		goto out;
	/* Only `sluice run` on a terminal writes the key; elsewhere the settings are left unread. */
	text = getenv("SLUICE_RUN");
	if (text && strstr(text, "first=") &&
	    pl_settings()->first == (unsigned)getpid() && !has_had_children())
		pl_note("no process used CUDA; `sluice doctor -- PROGRAM` says what of a "
			"program "
			"is covered, and what this machine's driver says");
out:
	errno = saved;
}
