/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress() and dlsym() answer by name, version and flags. Tried are the look-ups that
 * NVIDIA's libraries were seen to make (tests/data/preload), every name at every version that
 * matters, and drivers other than those of the table. Forwarded calls pass all their arguments
 * on. programs/caller.c compares.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "preload/api/api_index.h"

#define OURS   "libsluice-preload.so"
#define THEIRS "libcuda.so.1"

static char driver[PATH_MAX + 32]; /* SLUICE_CUDA_LIBRARY=... */
static int failed;

static void
recorded_look_ups_are_answered_as_recorded(void)
{
	struct child child = {.environment = {driver, "SLUICE_RUN=quiet=1"}};
	char dir[PATH_MAX], path[2 * PATH_MAX];
	struct dirent *entry;
	int n = 0;
	DIR *lists;

	snprintf(dir, sizeof(dir), "%s/tests/data/preload",
		 child_setting("SLUICE_SOURCE_DIR"));
	lists = opendir(dir);
	while (lists && (entry = readdir(lists))) {
		const char *end = strrchr(entry->d_name, '.');

		if (!end || strcmp(end, ".txt") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		child_run(&child, "preload_caller",
			  (const char *const[]){"replay", path, NULL});
		failed |= child_expect(&child, entry->d_name, "replayed, 0 wrong\n");
		n++;
	}
	if (lists)
		closedir(lists);
	if (n < 4) {
		printf("%s: only %d lists\n", dir, n);
		failed = 1;
	}
}

static void
every_name_is_answered_by_the_rule(void)
{
	struct child child = {.environment = {driver, "SLUICE_RUN=quiet=1"}};

	child_run(&child, "preload_caller", (const char *const[]){"rules", NULL});
	failed |= child_expect(&child, "rules", "0 wrong\n");
}

static void
calls_that_pass_pass_whole(void)
{
	static const char *const names[] = {"cuCoredumpGetAttribute", "cuTexRefSetFlags",
					    "cuUserObjectRetain"};
	struct child child = {.environment = {driver, "SLUICE_RUN=quiet=1"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		child_run(&child, "preload_caller",
			  (const char *const[]){"first", names[i], NULL});
		failed |= child_expect(&child, names[i], "0 wrong\n");
	}
	child_run(&child, "preload_caller", (const char *const[]){"forward", NULL});
	failed |= child_expect(&child, "forward", "forwarded, 0 wrong\n");
}

static void
resolve_expect(const char *mode, const char *version, const char *name, const char *asked,
	       const char *file)
{
	char mode_text[64], version_text[64], text[256];
	struct child child = {
		.environment = {driver, "SLUICE_RUN=quiet=1", mode_text, version_text}};

	snprintf(mode_text, sizeof(mode_text), "CUDA_STANDIN_RESOLVE=%s", mode);
	snprintf(version_text, sizeof(version_text), "CUDA_STANDIN_VERSION=%s", version);
	snprintf(text, sizeof(text), "%s at %s: 0, of %s\n", name, asked, file);
	child_run(&child, "preload_caller",
		  (const char *const[]){"resolve", name, asked, NULL});
	failed |= child_expect(&child, mode, text);
}

static void
drivers_that_are_not_the_tables_are_understood(void)
{
	int wraps_alloc = pl_api_facts(SL_API_cuMemAlloc_v2)->class == PL_API_WRAP;

	/* Answers that are no exports: by name and version. */
	resolve_expect("private", "13000", "cuInit", "13000", OURS);
	resolve_expect("private", "13000", "cuMemAlloc", "13000",
		       wraps_alloc ? OURS : THEIRS);
	/* A version beyond the table: the same function as at the table's, so the same ABI. */
	resolve_expect("private", "13020", "cuInit", "13020", OURS);
	resolve_expect("private", "13020", "cuMemAlloc", "13020",
		       wraps_alloc ? OURS : THEIRS);
	/* Another function there: an ABI that is not known. */
	resolve_expect("newer", "13020", "cuMemAlloc", "13000", wraps_alloc ? OURS : THEIRS);
	resolve_expect("newer", "13020", "cuMemAlloc", "13010", THEIRS);
}

static void
unknown_names_pass_and_are_said_once(void)
{
	struct child child = {.environment = {driver, "SLUICE_RUN=verbose=1"}};

	child_run(&child, "preload_caller",
		  (const char *const[]){"resolve", "cuStandinFuture", "13000", NULL});
	failed |= child_expect(
		&child, "unknown name",
		"sluice: cuStandinFuture (CUDA 13000) is not in the table of this "
		"library: it goes to the driver untouched\n"
		"cuStandinFuture at 13000: 0, of " THEIRS "\n");
}

static void
look_ups_are_recorded(void)
{
	char path[] = "/tmp/sluice-lookups-XXXXXX", setting[64], text[512];
	struct child child = {.environment = {driver, "SLUICE_RUN=quiet=1", setting}};
	int fd = mkstemp(path);
	ssize_t got;

	snprintf(setting, sizeof(setting), "SLUICE_PRELOAD_LOOKUPS=%s", path);
	child_run(&child, "preload_caller",
		  (const char *const[]){"resolve", "cuMemAlloc", "3020", NULL});
	got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[got < 0 ? 0 : got] = '\0';
	if (strcmp(text, "dlsym \"cuGetProcAddress_v2\" - - 0 cuGetProcAddress_v2\n"
			 "proc5 \"cuMemAlloc\" 3020 0 0 cuMemAlloc_v2\n"
			 "proc5 \"cuMemAlloc\" 3020 0 0 cuMemAlloc_v2\n")) {
		printf("recorded:\n%s", text);
		failed = 1;
	}
	if (fd >= 0)
		close(fd);
	unlink(path);
}

int
main(void)
{
	snprintf(driver, sizeof(driver), "SLUICE_CUDA_LIBRARY=%s",
		 child_setting("SLUICE_STANDIN_LIBRARY"));
	recorded_look_ups_are_answered_as_recorded();
	every_name_is_answered_by_the_rule();
	calls_that_pass_pass_whole();
	drivers_that_are_not_the_tables_are_understood();
	unknown_names_pass_and_are_said_once();
	look_ups_are_recorded();
	return failed;
}
