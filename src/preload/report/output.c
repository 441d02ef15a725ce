/* SPDX-License-Identifier: Apache-2.0 */
/* Names of a run's output files: output.h. Threads: an object is one thread's. */
#include "preload/report/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "preload/preload.h"

/* The path with %p replaced. 1: there was one, 0: none, -ENAMETOOLONG. */
static int
path_expand(const char *pattern, const char *suffix, char path[PL_OUTPUT_ROOM])
{
	const char *mark = strstr(pattern, "%p");
	int n;

	n = mark ? snprintf(path, PL_OUTPUT_ROOM, "%.*s%d%s%s", (int)(mark - pattern),
			    pattern, (int)getpid(), mark + 2, suffix)
		 : snprintf(path, PL_OUTPUT_ROOM, "%s%s", pattern, suffix);
	if (n < 0 || n >= PL_OUTPUT_ROOM)
		return -ENAMETOOLONG;
	return mark != NULL;
}

int
pl_output_begin(struct pl_output *output, const char *pattern, const char *suffix)
{
	int is_own = path_expand(pattern, suffix, output->path);

	if (is_own < 0)
		return is_own;
	output->is_own = is_own;
	snprintf(output->temporary, sizeof(output->temporary), "%s.%d.new", output->path,
		 (int)getpid());
	return 0;
}

/* 0 or -errno. */
static int
name_give(struct pl_output *output, const char *what)
{
	if (output->final[0])
		return rename(output->temporary, output->final) ? -errno : 0;
	snprintf(output->final, sizeof(output->final), "%s", output->path);
	if (output->is_own)
		return rename(output->temporary, output->path) ? -errno : 0;
	if (!link(output->temporary, output->path)) {
		(void)unlink(output->temporary);
		return 0;
	}
	if (errno != EEXIST) /* no hard links there */
		return rename(output->temporary, output->path) ? -errno : 0;
	snprintf(output->final, sizeof(output->final), "%s.%d", output->path, (int)getpid());
	if (rename(output->temporary, output->final))
		return -errno;
	pl_note("%s in %s: %s is another process's", what, output->final, output->path);
	return 0;
}

int
pl_output_end(struct pl_output *output, int rc, const char *what)
{
	if (!rc)
		rc = name_give(output, what);
	if (rc)
		(void)unlink(output->temporary);
	return rc;
}
