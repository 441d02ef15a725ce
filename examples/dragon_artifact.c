/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls as DRAGON's library shipped them: four arguments, D_F_* flags, remap and flush. An
 * array is written, then remapped for reading: making room copies nothing out any more.
 */
#include "example.h"
#include "sluice/dragon.h"

#define SIZE  (24 * MIB)
#define COUNT (SIZE / sizeof(uint32_t))

int
main(void)
{
	uint64_t sum = 0;
	uint32_t *number;
	void *addr;

	setenv("SLUICE_DEVICE_BUDGET", "16M", 0);
	setenv("DRAGON_READAHEAD_TYPE", "aggressive", 1); /* the whole file, at map */
	EXPECT(!atexit(example_remove_files));
	example_default_space(dragon_space());

	EXPECT(dragon_map("output.bin", SIZE, D_F_WRITE | D_F_CREATE, &addr) == D_OK);
	number = addr;
	for (size_t i = 0; i < COUNT; i++)
		number[i] = (uint32_t)i;
	EXPECT(dragon_flush(addr) == D_OK); /* DRAGON's own answered "not implemented" */
	EXPECT(example_read("output.bin", COUNT - 1) == COUNT - 1);

	EXPECT(dragon_remap(addr, D_F_READ) == D_OK);
	for (size_t i = 0; i < COUNT; i++)
		sum += number[i];
	EXPECT(sum == (uint64_t)COUNT * (COUNT - 1) / 2);

	EXPECT(dragon_unmap(addr) == D_OK && dragon_unmap(addr) == D_ERR_INTVAL);
	printf("unmapped twice: %s\n", sluice_last_error()); /* errors have words */
	return 0;
}
