/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every example needs and no example is about: stopping on an error, a space with small
 * budgets, an input file that is removed at exit. Read map_file.c first; it does without
 * example_space() to show the calls.
 */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "sluice/sluice.h"

#define MIB ((size_t)1 << 20)

/* Every call returns 0 or a negative errno; the words are in sluice_last_error(). */
#define CHECK(call)  example_check((call), #call)
/* What the example promises to compute. */
#define EXPECT(what) example_expect((what), #what)

static inline void
example_check(int rc, const char *call)
{
	if (!rc)
		return;
	fprintf(stderr, "%s: %s\n", call, sluice_last_error());
	/* 77: this machine refuses what Sluice needs; not a fault of the example. */
	exit(rc == -EPERM || rc == -ENOTSUP ? 77 : 1);
}

static inline void
example_expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "not as expected: %s\n", what);
	exit(1);
}

static inline void
example_remove_files(void)
{
	remove("input.bin");
	remove("output.bin");
}

/* input.bin: the 32-bit numbers 0, 1, 2, ... up to size_bytes; output.bin: not there. */
static inline void
example_input(size_t size_bytes)
{
	FILE *file = fopen("input.bin", "wb");
	uint32_t number[1024], next = 0;
	size_t i, done;

	EXPECT(file && !atexit(example_remove_files));
	remove("output.bin");
	for (done = 0; done < size_bytes; done += sizeof(number)) {
		for (i = 0; i < 1024; i++)
			number[i] = next++;
		EXPECT(fwrite(number, sizeof(number), 1, file) == 1);
	}
	EXPECT(fclose(file) == 0);
}

/* The 32-bit number at index of a file, read without Sluice: what is really on disk. */
static inline uint32_t
example_read(const char *path, size_t index)
{
	FILE *file = fopen(path, "rb");
	uint32_t number;

	EXPECT(file && !fseek(file, (long)(index * sizeof(number)), SEEK_SET));
	EXPECT(fread(&number, sizeof(number), 1, file) == 1);
	fclose(file);
	return number;
}

/* A space with these settings on top of the defaults and the environment. */
static inline struct sluice_space *
example_space(const char *settings)
{
	struct sluice_config config;
	struct sluice_space *space = NULL;

	CHECK(sluice_config_init(&config));
	CHECK(sluice_config_parse(&config, settings));
	CHECK(sluice_space_create(&config, &space));
	return space;
}

/*
 * What dragon_space() or uvm_space() gave. They have no error number, so when it is NULL, asking
 * for a space of one's own tells whether the machine refuses or something is wrong.
 */
static inline struct sluice_space *
example_default_space(struct sluice_space *space)
{
	if (!space) {
		fprintf(stderr, "no default space: %s\n", sluice_last_error());
		example_space("device_budget=16M,host_budget=16M");
		exit(1);
	}
	return space;
}

#endif
