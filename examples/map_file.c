/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start here. Sum a file of 64 MiB through a plain pointer while at most 16 MiB of it are
 * resident: pieces come in when they are touched, are read ahead because the walk is sequential,
 * and go when room is needed. The loop knows nothing of it.
 */
#include "example.h"

#define FILE_BYTES (64 * MIB)
#define COUNT      (FILE_BYTES / sizeof(uint32_t))

int
main(void)
{
	struct sluice_config config;
	struct sluice_space *space;
	uint64_t sum = 0;
	uint32_t *number;
	void *addr;

	example_input(FILE_BYTES);

	/* First the defaults and the environment, then what this program asks for. */
	CHECK(sluice_config_init(&config));
	CHECK(sluice_config_parse(&config, "device_budget=16M,host_budget=16M"));
	CHECK(sluice_space_create(&config, &space));

	/* Offset 0, size 0: the whole file. Reading is all we want, so nothing is written back. */
	CHECK(sluice_map(space, "input.bin", 0, 0, SLUICE_READ, &addr));
	number = addr;
	for (size_t i = 0; i < COUNT; i++)
		sum += number[i];

	CHECK(sluice_unmap(space, addr));
	CHECK(sluice_space_destroy(space));
	EXPECT(sum == (uint64_t)COUNT * (COUNT - 1) / 2);
	return 0;
}
