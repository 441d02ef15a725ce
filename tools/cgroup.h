/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control group with a memory limit, for a child that works in little memory.
 *
 * A group made here is a directory below this process's group. In version 2 it is below the
 * nearest parent that hands the memory controller down. Making it needs root or a delegated
 * tree. If it cannot be made, the caller gets the reason and goes on without.
 *
 * Threads: any; nothing is shared.
 */
#ifndef SL_TOOLS_CGROUP_H
#define SL_TOOLS_CGROUP_H

#include <limits.h>
#include <stdint.h>

#include "base/cgroup.h"
#include "base/error.h"

struct cgroup_limit {
	char dir[PATH_MAX];
};

/*
 * Make an empty group called name with a memory limit. Errors: -EACCES, -EROFS and whatever
 * mkdir(2) and the controller return (text set), -ENOTSUP: no controller to be had.
 */
int cgroup_limit_create(const char *name, uint64_t bytes,
			struct cgroup_limit *out) SL_MUST_CHECK;

/* Put the calling process into the group. Errors: of write(2). */
int cgroup_limit_enter(const struct cgroup_limit *limit) SL_MUST_CHECK;

/* Remove the group once its processes have ended; waits for that at most five seconds. A group
 * that is not there is fine. Errors: -EBUSY, and others of rmdir(2), with a text. */
int cgroup_limit_destroy(const struct cgroup_limit *limit) SL_MUST_CHECK;

#endif
