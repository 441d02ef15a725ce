/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spill disk is full, or fails, while a program works. Failures are injected at a write or
 * at the making of room, once or from then on. The call that needed room returns an error, with
 * a line on standard error. No word is ever wrong. When the program has freed what it cannot
 * have, all its other data are there, and it goes on. A single failure is not seen at all.
 *
 * Each row is a process of its own. Threads: one, and those of the library.
 */
#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "away.h"
#include "spill.h"

#define BLOCKS_MAX  48
#define BLOCK_BYTES (2 * AWAY_MIB)
#define HOST_BUDGET "16M"
#define FITS_BLOCKS 8 /* of them device and host memory hold with ease */
#define WORD(i)     (0x51u + (unsigned)(i)*0x10003u)
#define EXIT_SPARED 40 /* nothing failed */
#define EXIT_TOLD   41 /* a call failed, as it should, and all else is right */

struct row {
	const char *name;
	const char *fault; /* SLUICE_FAULT */
	int ends;
};

static char spill[PATH_MAX];
static uint64_t blocks[BLOCKS_MAX];

/* What a program may be told when there is no room (disks that fail: unknown, as the driver says of what
 * it cannot name), and goes on. Any other error ends the test. */
static int
told(int result, const char *call)
{
	if (result && result != CU_ERROR_OUT_OF_MEMORY && result != CU_ERROR_UNKNOWN) {
		printf("%s: error %d\n", call, result);
		exit(1);
	}
	return result;
}

/* Block i with its words; or what was told, and no block. */
static int
block_make(unsigned i)
{
	int result = told(DRIVER(cuMemAlloc_v2)(&blocks[i], BLOCK_BYTES), "cuMemAlloc");

	if (result)
		return result;
	result = told(DRIVER(cuMemsetD32_v2)(blocks[i], WORD(i), BLOCK_BYTES / 4),
		      "cuMemsetD32");
	if (!result)
		result = told(DRIVER(cuCtxSynchronize)(), "cuCtxSynchronize");
	if (result)
		MUST(DRIVER(cuMemFree_v2)(blocks[i]));
	return result;
}

/* 0: the words are right; or what was told. Wrong words end the test. */
static int
block_look(unsigned i)
{
	static unsigned words[BLOCK_BYTES / 4];
	int result = told(DRIVER(cuMemcpyDtoH_v2)(words, blocks[i], BLOCK_BYTES),
			  "cuMemcpyDtoH");

	for (size_t k = 0; k < BLOCK_BYTES / 4 && !result; k++)
		if (words[k] != WORD(i)) {
			printf("block %u, word %zu: %x, not %x\n", i, k, words[k], WORD(i));
			exit(1);
		}
	return result;
}

/* All of the first n; or what was told first. */
static int
blocks_look(unsigned n)
{
	int result = 0;

	for (int round = 0; round < 2; round++)
		for (unsigned i = 0; i < n && !result; i++)
			result = block_look(i);
	return result;
}

static int
program(void)
{
	unsigned n = 0, errors = 0;

	(void)copy_test_open(AWAY_BUDGET);
	setenv("SLUICE_HOST_BUDGET", HOST_BUDGET, 1);
	setenv("SLUICE_SPILL_DIRS", spill, 1);
	while (n < BLOCKS_MAX && !block_make(n))
		n++;
	errors += n < BLOCKS_MAX;
	/* What it cannot have it gives back, one by one; then it goes on as ever. */
	while (n > FITS_BLOCKS && blocks_look(n)) {
		errors++;
		MUST(DRIVER(cuMemFree_v2)(blocks[--n]));
	}
	while (n > FITS_BLOCKS)
		MUST(DRIVER(cuMemFree_v2)(blocks[--n]));
	for (int round = 0; round < 3; round++) {
		MUST(block_make(n));
		MUST(blocks_look(n + 1));
		MUST(DRIVER(cuMemFree_v2)(blocks[n]));
	}
	return errors ? EXIT_TOLD : EXIT_SPARED;
}

static const struct row rows[] = {
	{"nothing fails", NULL, EXIT_SPARED},
	{"no room from the start", "spill.alloc:1:ENOSPC+", EXIT_TOLD},
	{"no more room", "spill.alloc:4:ENOSPC+", EXIT_TOLD},
	{"a write fails once", "store.write:3:ENOSPC", EXIT_SPARED},
	{"all writes fail, no space", "store.write:3:ENOSPC+", EXIT_TOLD},
	{"all writes fail", "store.write:1:EIO+", EXIT_TOLD},
};

/* Run it; 0, 77, or 1 and what was wrong. */
static int
row_run(size_t number)
{
	const struct row *row = &rows[number];
	char path[] = "/tmp/sluice-full-XXXXXX", text[8192];
	int fd = mkstemp(path), status, got;
	ssize_t n;
	pid_t child;

	CHECK(fd >= 0 && !unlink(path));
	fflush(stdout);
	child = fork();
	if (!child) {
		if (row->fault)
			setenv("SLUICE_FAULT", row->fault, 1);
		setenv("CUDA_STANDIN_QUIET", "1", 1);
		dup2(fd, STDERR_FILENO);
		execl("/proc/self/exe", "test_disk_full", "program", spill, (char *)NULL);
		_exit(126);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	n = pread(fd, text, sizeof(text) - 1, 0);
	close(fd);
	CHECK(n >= 0);
	text[n] = '\0';
	got = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (got == 77)
		return 77;
	if (got == row->ends && (got == EXIT_SPARED || strstr(text, "sluice: ")))
		return 0;
	printf("%s: ended with %d, not %d, and said: %s\n", row->name, got, row->ends, text);
	return 1;
}

int
main(int argc, char **argv)
{
	int rc;

	if (argc == 3) {
		snprintf(spill, sizeof(spill), "%s", argv[2]);
		return program();
	}
	rc = spill_folder_make(spill, sizeof(spill), "sluice-full");
	return rc ? rc : spill_rows_run(spill, row_run, sizeof(rows) / sizeof(rows[0]));
}
