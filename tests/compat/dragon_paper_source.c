/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source as someone would write it who has only the DRAGON paper: one header, five arguments,
 * results ignored where the paper ignores them. Compiled as C99, C17 and C++ and run by
 * tests/cli/test_compat_sources.sh; valid in all of them. Its argument is an existing file of two
 * chunks of zeros. Exit status 0 when the file then holds what was written, 77 when the machine
 * refuses.
 */
#include <stdio.h>

#include "sluice/dragon.h"

int
main(int argc, char **argv)
{
	const size_t size = (size_t)2 << 20;
	unsigned char *first, *second;
	FILE *file;
	void *addr;
	int byte;

	if (argc != 2)
		return 1;
	if (dragon_map(argv[1], size, 0, D_READ | D_WRITE, &addr) == D_ERR_UVM) {
		printf("skipped: %s\n", sluice_last_error());
		return 77;
	}
	first = (unsigned char *)addr;
	if (dragon_map(argv[1], size, size, D_WRITE, &addr))
		return 2;
	second = (unsigned char *)addr;
	if (dragon_map(argv[1], size, 0, D_READ | D_WRITE | D_VOLATILE, &addr) != D_OK)
		return 3;
	*(unsigned char *)addr = 99; /* volatile: must not be seen below */
	first[1] = 1;
	second[1] = 2;
	dragon_sync(first, size);
	dragon_unmap(second);
	dragon_unmap(addr);

	file = fopen(argv[1], "rb");
	if (!file || fgetc(file) != 0 || fgetc(file) != 1)
		return 4;
	if (fseek(file, (long)size + 1, SEEK_SET))
		return 5;
	byte = fgetc(file);
	fclose(file);
	dragon_unmap(first);
	return byte == 2 ? 0 : 6;
}
