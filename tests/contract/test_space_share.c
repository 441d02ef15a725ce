/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces of several processes that share the software device (share_test.h). It has 256 MiB for all that
 * say so.
 */
#include "share_soft.h"
#include "share_test.h"

#define ROOM (256 * SHARE_MIB)

static void
soft_open(void)
{
}

static struct sluice_space *
soft_space(const char *more)
{
	return soft_space_with(
		"share=auto,soft_memory=256M,device_budget=-1,host_budget=256M,"
		"staging=16M,address=8G,workers=1",
		more);
}

/* What no space can have is the program's own error, and is so at once. */
static void
a_launch_that_never_fits_is_refused(void)
{
	struct sluice_space *space;
	void *p;

	if (fork()) {
		int status;

		EXPECT(wait(&status) > 0 && WIFEXITED(status));
		if (WEXITSTATUS(status))
			exit(WEXITSTATUS(status));
		return;
	}
	space = soft_space("");
	EXPECT(!sluice_alloc(space, ROOM + SHARE_MIB, 0, &p));
	EXPECT(soft_add(space, p, (ROOM + SHARE_MIB) / 8) == -ENOBUFS);
	EXPECT(!sluice_space_destroy(space));
	exit(0);
}

int
main(void)
{
	static const struct share_device soft = {ROOM, 0, soft_open, soft_space, soft_add};
	char dir[] = "/tmp/sluice-alone-XXXXXX";

	EXPECT(mkdtemp(dir));
	EXPECT(!setenv("SLUICE_SHARE_DIR", dir, 1));
	a_launch_that_never_fits_is_refused();
	share_dir_remove(dir);
	return share_tests_run(&soft);
}
