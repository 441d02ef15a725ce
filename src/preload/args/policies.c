/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's rules for kernels: a file of lines "HOW PATTERN". HOW is `names` (its arguments
 * name all its data: no peeks) or `all` (it uses everything). PATTERN is a shell pattern for the
 * kernel's name as the driver has it (mangled, for C++). The first line that matches counts; #
 * begins a comment. Read once, at the first function.
 *
 * Threads: any; functions.c asks under its lock.
 */
#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault_point.h"
#include "preload/args/functions.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"

#define POLICIES_MAX 1024u

struct policy {
	char *pattern;
	enum pl_knowledge how;
};

static struct policy policies[POLICIES_MAX];
static unsigned n_policies;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* One line; 0 when it says nothing or was taken. */
static int
line_take(char *line)
{
	char *rest = line, *how, *pattern;

	line[strcspn(line, "#\n")] = '\0';
	how = strtok_r(rest, " \t", &rest);
	if (!how)
		return 0;
	pattern = strtok_r(rest, " \t", &rest);
	if (!pattern || strtok_r(rest, " \t", &rest) || n_policies == POLICIES_MAX)
		return -EINVAL;
	if (!strcmp(how, "names"))
		policies[n_policies].how = PL_DIRECT;
	else if (!strcmp(how, "all"))
		policies[n_policies].how = PL_INDIRECT;
	else
		return -EINVAL;
	policies[n_policies].pattern = sl_strdup(pattern);
	if (!policies[n_policies].pattern)
		return -ENOMEM;
	n_policies++;
	return 0;
}

static void
policies_read(void)
{
	const char *path = pl_settings()->policies;
	char line[1024];
	unsigned number = 0;
	FILE *file;

	if (!*path)
		return;
	file = fopen(path, "re");
	if (!file) {
		pl_error("policies %s: %s: nothing of it counts", path, strerror(errno));
		return;
	}
	while (fgets(line, sizeof(line), file)) {
		number++;
		if (line_take(line))
			pl_error("policies %s: line %u is not \"names PATTERN\" or \"all "
				 "PATTERN\": "
				 "it does not count",
				 path, number);
	}
	fclose(file);
}

enum pl_knowledge
pl_policy_of(const char *name)
{
	pthread_once(&once, policies_read);
	for (unsigned i = 0; i < n_policies; i++) {
		if (!fnmatch(policies[i].pattern, name, 0))
			return policies[i].how;
	}
	return PL_UNKNOWN;
}
