/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzzer without libFuzzer: LLVMFuzzerTestOneInput() on the empty input and on
 * every file of the directories given as arguments (tests/fuzz/corpus/NAME), in the order
 * of their names. A finding is whatever the sanitizers and asserts of the build make of
 * it.
 *
 * A missing directory is an empty corpus; a file that cannot be read is a failure. One
 * thread.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define INPUT_BYTES_MAX \
	(1u << 20) /* libFuzzer's own limit is lower; larger files are refused */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input is a heap block of its exact size, so that ASan sees a read past it. */
static int
file_replay(const char *path)
{
	SL_CLEANUP(free) uint8_t *all = malloc(INPUT_BYTES_MAX + 1);
	SL_CLEANUP(free) uint8_t *exact = NULL;
	FILE *file = fopen(path, "rb");
	size_t size;
	int failed;

	if (!file || !all) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		if (file)
			fclose(file);
		return 1;
	}
	size = fread(all, 1, INPUT_BYTES_MAX + 1, file);
	failed = ferror(file);
	fclose(file);
	if (failed || size > INPUT_BYTES_MAX) {
		fprintf(stderr, "%s: cannot be read, or is larger than %u bytes\n", path,
			INPUT_BYTES_MAX);
		return 1;
	}
	exact = malloc(size ? size : 1);
	if (!exact) {
		fprintf(stderr, "%s: out of memory\n", path);
		return 1;
	}
	memcpy(exact, all, size);
	LLVMFuzzerTestOneInput(exact, size);
	return 0;
}

/* Returns the number of files replayed, or -1. */
static int
directory_replay(const char *dir)
{
	struct dirent **entries;
	int n = scandir(dir, &entries, NULL, alphasort);
	int replayed = 0;

	if (n < 0 && errno == ENOENT)
		return 0;
	if (n < 0) {
		fprintf(stderr, "%s: %s\n", dir, strerror(errno));
		return -1;
	}
	for (int i = 0; i < n; i++) {
		char path[4096];

		if (replayed >= 0 && entries[i]->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", dir, entries[i]->d_name);
			replayed = file_replay(path) ? -1 : replayed + 1;
		}
		free(entries[i]);
	}
	free(entries);
	return replayed;
}

int
main(int argc, char **argv)
{
	static const uint8_t nothing[1];
	int replayed = 0;

	LLVMFuzzerTestOneInput(nothing, 0);
	for (int i = 1; i < argc; i++) {
		int n = directory_replay(argv[i]);

		if (n < 0)
			return 1;
		replayed += n;
	}
	printf("the empty input and %d files replayed\n", replayed);
	return 0;
}
