/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces of several processes that share the software device (share_test.h). It has 256 MiB for all that
 * say so.
 */
#include "share_test.h"

#define ROOM (256 * SHARE_MIB)

struct add_args {
	uint64_t *p, words;
};

static void
add_kernel(const struct sluice_block *block, void *args)
{
	const struct add_args *a = args;
	uint64_t part = a->words / block->grid.x, first = part * block->index.x;

	for (uint64_t i = first; i < first + part; i++)
		a->p[i]++;
}

static void
soft_open(void)
{
}

static struct sluice_space *
soft_space(const char *more)
{
	struct sluice_config config;
	struct sluice_space *space;
	int rc;

	EXPECT(!sluice_config_init(&config));
	EXPECT(!sluice_config_parse(&config,
				    "share=auto,soft_memory=256M,device_budget=-1,"
				    "host_budget=256M,staging=16M,address=8G,workers=1"));
	EXPECT(!sluice_config_parse(&config, more));
	rc = sluice_space_create(&config, &space);
	if (rc == -EPERM || rc == -ENOTSUP) {
		printf("SKIP: %s\n", sluice_last_error());
		exit(77);
	}
	EXPECT(!rc);
	return space;
}

static int
soft_add(struct sluice_space *space, uint64_t *p, uint64_t words)
{
	const struct sluice_use use = {p, words * 8, SLUICE_USE_READ_WRITE};
	const struct add_args args = {p, words};

	return sluice_launch(space, NULL, add_kernel, (struct sluice_grid){16, 1, 1},
			     &args, sizeof(args), &use, 1);
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
