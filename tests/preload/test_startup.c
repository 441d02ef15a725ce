/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of the preload library for a program that never touches CUDA: no thread, no open
 * file, no output, no file written. The library's file shows that it needs the C library only,
 * binds late, runs nothing at its start, and exports only the driver's names.
 */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "preload/api/api_index.h"

static int failed;

static void
check(int holds, const char *what)
{
	if (holds)
		return;
	printf("%s\n", what);
	failed = 1;
}

/* ---- programs ---- */

static void
a_program_without_cuda_is_as_it_was(void)
{
	struct child without = {.environment = {"LD_PRELOAD"}};
	struct child with = {.environment = {"SLUICE_PRELOAD_LOOKUPS=/nowhere/lookups",
					     "SLUICE_RUN=verbose=1,explain=1"}};

	child_run(&without, "preload_caller", (const char *const[]){"nothing", NULL});
	child_run(&with, "preload_caller", (const char *const[]){"nothing", NULL});
	check(!strncmp(without.output, "threads 1, ", 11),
	      "the program itself has threads");
	failed |= child_expect(&with, "nothing", without.output);
}

static void
other_programs_say_nothing(void)
{
	struct child child = {.environment = {"SLUICE_RUN=verbose=1,explain=1"}};

	child_run(&child, "/bin/true", NULL);
	failed |= child_expect(&child, "true", "");
	child_run(&child, "/bin/sh", (const char *const[]){"-c", "(:) | : && echo sh", NULL});
	failed |= child_expect(&child, "sh", "sh\n");
	if (!access("/usr/bin/python3", X_OK)) {
		child_run(&child, "/usr/bin/python3",
			  (const char *const[]){"-c", "import ctypes; ctypes.CDLL('libm.so.6')",
						NULL});
		failed |= child_expect(&child, "python3", "");
	}
}

/* ---- the file ---- */

struct image {
	const char *file;
	size_t bytes;
	const Elf64_Shdr *dynamic, *symbols;
	const char *names; /* of both */
};

static int
image_open(struct image *image)
{
	int fd = open(child_setting("SLUICE_PRELOAD_LIBRARY"), O_RDONLY);
	const Elf64_Shdr *sections;
	const Elf64_Ehdr *head;
	struct stat st;
	void *file;

	memset(image, 0, sizeof(*image));
	if (fd < 0 || fstat(fd, &st))
		return -1;
	image->bytes = (size_t)st.st_size;
	file = mmap(NULL, image->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return -1;
	image->file = file;
	head = file;
	sections = (const void *)(image->file + head->e_shoff);
	for (unsigned i = 0; i < head->e_shnum; i++) {
		if (sections[i].sh_type == SHT_DYNAMIC)
			image->dynamic = &sections[i];
		if (sections[i].sh_type == SHT_DYNSYM)
			image->symbols = &sections[i];
	}
	if (!image->dynamic || !image->symbols)
		return -1;
	image->names = image->file + sections[image->symbols->sh_link].sh_offset;
	return 0;
}

/* liburing only where CMake found no archive of it, and said so. */
static int
is_of_the_c_library(const char *name)
{
	if (!strncmp(name, "liburing.so", 11))
		printf("this build needs %s in every program: install liburing.a\n", name);
	return !strncmp(name, "liburing.so", 11) || !strcmp(name, "libc.so.6") ||
	       !strcmp(name, "libm.so.6") || !strncmp(name, "ld-linux", 8);
}

static void
the_library_starts_cheaply(const struct image *image)
{
	const Elf64_Dyn *entry = (const void *)(image->file + image->dynamic->sh_offset);
	size_t n = image->dynamic->sh_size / sizeof(*entry);
	int has_soname = 0, has_hash = 0;

	for (size_t i = 0; i < n; i++)
		switch (entry[i].d_tag) {
		case DT_NEEDED:
			if (!is_of_the_c_library(image->names + entry[i].d_un.d_val)) {
				printf("it needs %s\n", image->names + entry[i].d_un.d_val);
				failed = 1;
			}
			break;
		case DT_SONAME:
			has_soname = !strcmp(image->names + entry[i].d_un.d_val,
					     "libcuda.so.1");
			break;
		case DT_GNU_HASH:
			has_hash = 1;
			break;
		case DT_INIT_ARRAYSZ:
			/* The compiler's own, and the reading of SLUICE_FAULT. */
			check(entry[i].d_un.d_val <= 2 * sizeof(void *),
			      "it has constructors");
			break;
		case DT_FLAGS:
			check(!(entry[i].d_un.d_val & DF_BIND_NOW),
			      "it binds at its start");
			check(!(entry[i].d_un.d_val & DF_TEXTREL),
			      "its code is relocated");
			break;
		case DT_FLAGS_1:
			check(!(entry[i].d_un.d_val & DF_1_NOW), "it binds at its start");
			check(entry[i].d_un.d_val & DF_1_NODELETE, "it can be unloaded");
			break;
		}
	check(has_soname, "its SONAME is not the driver's");
	check(has_hash, "it has no GNU hash");
}

static void
the_library_exports_the_drivers_names_and_no_more(const struct image *image)
{
	static const char *const own[] = {
		"_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE",
		"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
		"dlopen",
		"dlmopen",
		"dlsym",
		"sluice_preload",
		"sluice_preload_join_1",
		"sluice_preload_leave_1"};
	const Elf64_Sym *symbol = (const void *)(image->file + image->symbols->sh_offset);
	size_t n = image->symbols->sh_size / sizeof(*symbol), found = 0, extra = 0;

	for (size_t i = 1; i < n; i++) {
		const char *name = image->names + symbol[i].st_name;
		int known = 0;

		if (symbol[i].st_shndx == SHN_UNDEF)
			continue;
		for (unsigned k = 0; k < SL_API_COUNT && !known; k++)
			known = !strcmp(name, pl_api_name((enum sl_api)k));
		found += (size_t)known;
		for (size_t k = 0; k < sizeof(own) / sizeof(own[0]) && !known; k++)
			if (!strcmp(name, own[k])) {
				known = 1;
				extra++;
			}
		if (!known) {
			printf("it exports %s\n", name);
			failed = 1;
		}
	}
	check(found == SL_API_COUNT, "names of the table are not exported");
	check(extra == sizeof(own) / sizeof(own[0]), "names of its own are not exported");
}

int
main(void)
{
	struct image image;

	a_program_without_cuda_is_as_it_was();
	other_programs_say_nothing();
	if (image_open(&image)) {
		printf("the library's file cannot be read\n");
		return 1;
	}
	the_library_starts_cheaply(&image);
	the_library_exports_the_drivers_names_and_no_more(&image);
	return failed;
}
