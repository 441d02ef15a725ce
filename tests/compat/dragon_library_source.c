/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source as someone would write it against the library that DRAGON shipped: four arguments, its
 * type, flags and error names, remap, flush and the settings. Compiled as C99, C17 and C++ and
 * run by tests/cli/test_compat_sources.sh; valid in all of them. Its argument is the name of a
 * file to make. Exit status 0 when all calls answer as they should, 77 when the machine refuses.
 */
#include <stdio.h>

#include "sluice/dragon.h"

static const char *
error_name(dragonError_t error)
{
	switch (error) {
	case D_OK:
		return "ok";
	case D_ERR_FILE:
		return "file";
	case D_ERR_IOCTL:
		return "ioctl";
	case D_ERR_UVM:
		return "uvm";
	case D_ERR_INTVAL:
		return "value";
	case D_ERR_MEM:
		return "memory";
	case D_ERR_NOT_IMPLEMENTED:
		return "not implemented";
	}
	return "unknown";
}

int
main(int argc, char **argv)
{
	const size_t size = (size_t)4 << 20;
	const unsigned short flags = D_F_READ | D_F_WRITE | D_F_CREATE | D_F_DONTTRASH |
				     D_F_USEHOSTBUF;
	dragonError_t error;
	float *data;
	size_t i;

	if (argc != 2)
		return 1;
	/* The numbers are part of the interface: logs and scripts compare them. */
	if (D_F_READ != 1 || D_F_WRITE != 2 || D_F_CREATE != 4 || D_F_DONTTRASH != 8 ||
	    D_F_VOLATILE != 16 || D_F_USEHOSTBUF != 32 || D_OK != 0 || D_ERR_FILE != 1 ||
	    D_ERR_IOCTL != 2 || D_ERR_UVM != 3 || D_ERR_INTVAL != 4 || D_ERR_MEM != 5 ||
	    D_ERR_NOT_IMPLEMENTED != 6)
		return 2;
	if (dragon_trash_set_num_blocks(16) != D_OK ||
	    dragon_trash_set_num_reserved_sys_cache_pages(256) != D_OK)
		return 3;
	error = dragon_map(argv[1], size, flags, (void **)&data);
	if (error == D_ERR_UVM) {
		printf("skipped: %s\n", sluice_last_error());
		return 77;
	}
	if (error != D_OK) {
		fprintf(stderr, "map: %s: %s\n", error_name(error), sluice_last_error());
		return 4;
	}
	for (i = 0; i < size / sizeof(*data); i++)
		data[i] = (float)i;
	if (dragon_flush(data) != D_OK || dragon_remap(data, D_F_READ) != D_OK)
		return 5;
	for (i = 0; i < size / sizeof(*data); i++)
		if (data[i] != (float)i)
			return 6;
	if (dragon_unmap(data) != D_OK)
		return 7;
	error = dragon_unmap(data);
	return error == D_ERR_INTVAL && error_name(error)[0] == 'v' ? 0 : 8;
}
