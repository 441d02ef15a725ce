/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two streams ordered by an event. Work on one stream runs in order; between streams only events
 * order it. The default stream (NULL) takes the second step after stream a has taken the first.
 */
#include "example.h"

#define COUNT MIB

static void
step(const struct sluice_block *block, void *args)
{
	uint32_t *number = *(uint32_t **)args;

	for (size_t i = block->index.x; i < COUNT; i += block->grid.x)
		number[i] = 2 * number[i] + 1;
}

int
main(void)
{
	struct sluice_space *space = example_space("device_budget=16M,host_budget=16M");
	struct sluice_grid grid = {8, 1, 1};
	struct sluice_stream *a;
	struct sluice_event *first;
	void *data;

	CHECK(sluice_alloc(space, COUNT * sizeof(uint32_t), 0, &data)); /* zeros */
	CHECK(sluice_stream_create(space, &a));
	CHECK(sluice_event_create(space, &first));
	CHECK(sluice_launch(space, a, step, grid, &data, sizeof(data), NULL, 0));
	CHECK(sluice_event_record(space, a, first));  /* complete when the launch is */
	CHECK(sluice_event_wait(space, NULL, first)); /* the host does not wait */
	CHECK(sluice_launch(space, NULL, step, grid, &data, sizeof(data), NULL, 0));
	CHECK(sluice_stream_synchronize(space, NULL)); /* now the host waits */
	EXPECT(((uint32_t *)data)[0] == 3 && ((uint32_t *)data)[COUNT - 1] == 3);
	sluice_stream_destroy(a);
	sluice_event_destroy(first);
	return sluice_space_destroy(space) != 0;
}
