/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces on the software device that share, for tests with workers (share_workers.h). */
#ifndef SL_TESTS_SHARE_SOFT_H
#define SL_TESTS_SHARE_SOFT_H

#include "share_workers.h"

struct soft_add_args {
	uint64_t *p, words;
};

static inline void
soft_add_kernel(const struct sluice_block *block, void *args)
{
	const struct soft_add_args *a = args;
	uint64_t part = a->words / block->grid.x, first = part * block->index.x;

	for (uint64_t i = first; i < first + part; i++)
		a->p[i]++;
}

/* One launch that adds 1 to each word, and declares them. 0 or -errno. */
static inline int
soft_add(struct sluice_space *space, uint64_t *p, uint64_t words)
{
	const struct sluice_use use = {p, words * 8, SLUICE_USE_READ_WRITE};
	const struct soft_add_args args = {p, words};

	return sluice_launch(space, NULL, soft_add_kernel, (struct sluice_grid){16, 1, 1},
			     &args, sizeof(args), &use, 1);
}

/* A space with these settings, and more. Where userfaultfd is refused the test is skipped. */
static inline struct sluice_space *
soft_space_with(const char *settings, const char *more)
{
	struct sluice_config config;
	struct sluice_space *space;
	int rc;

	EXPECT(!sluice_config_init(&config));
	EXPECT(!sluice_config_parse(&config, settings));
	EXPECT(!sluice_config_parse(&config, more));
	rc = sluice_space_create(&config, &space);
	if (rc == -EPERM || rc == -ENOTSUP) {
		printf("SKIP: %s\n", sluice_last_error());
		exit(77);
	}
	EXPECT(!rc);
	return space;
}

#endif
