/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by `sluice run` and `sluice doctor -- PROGRAM`: finding the preload library and the
 * program, and the program's environment. Every variable that is set comes with its reason, so
 * --dry-run and the documentation agree.
 *
 * run_library.c finds and checks files. run_budget.c chooses budgets and spill directories.
 * run_frameworks.c has the variables of frameworks. run_plan.c puts it together. Nothing here
 * prints, starts anything, or asks the GPU. The library asks it, at the program's first use of
 * it.
 *
 * Threads: one.
 */
#ifndef SL_TOOLS_RUN_H
#define SL_TOOLS_RUN_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define RUN_LIBRARY    "libsluice-preload.so"
#define RUN_DIRS_MAX   16
#define RUN_SETS_MAX   32
#define RUN_VARS_MAX   64
#define RUN_NOTES_MAX  16
#define RUN_VALUE_ROOM 4096

/* Exit codes of a command that runs another program; else it is the program's own. */
enum { RUN_EXIT_FAILED = 125, RUN_EXIT_REFUSED = 126, RUN_EXIT_NOT_FOUND = 127 };

/* What the command line says. NULL and 0: nothing. */
struct run_options {
	const char *library;
	const char *device_memory, *host_memory, *store_memory;
	const char *compress;
	const char *spill_dirs[RUN_DIRS_MAX];
	size_t spill_dir_n;
	const char *sets[RUN_SETS_MAX]; /* key=value, of the spaces */
	size_t set_n;
	const char *refused[RUN_SETS_MAX]; /* frameworks */
	size_t refused_n;
	int keep_frameworks; /* 1: none is told anything */
	const char *baseline, *kernel_args, *report_memory, *managed, *vmm_memory, *prefetch;
	const char *kernel_rules, *stats, *record, *record_launches;
	const char *timeline, *timeline_size;
	const char *leave, *share, *turn;
	int alone, suspended;
	int explain, quiet, verbose, doctor;
};

/* One variable of the program's environment, with the reason. */
struct run_variable {
	char name[64];
	char *value; /* owned */
	char why[200];
};

struct run_plan {
	char library[PATH_MAX];
	struct run_variable variables[RUN_VARS_MAX];
	size_t variable_n;
	/* For people, one line each: a default that was passed over, a setting that was changed. */
	char notes[RUN_NOTES_MAX][320];
	size_t note_n;
	char settings[RUN_VALUE_ROOM]; /* becomes SLUICE_RUN */
	char frameworks[128]; /* those that are told something, separated by '+' */
};

/* How a file behaves when it is started with LD_PRELOAD. */
enum run_loads {
	RUN_LOADS,         /* the loader of this machine's programs loads it */
	RUN_LOADS_STATIC,  /* no loader: LD_PRELOAD is not looked at */
	RUN_LOADS_SECURE,  /* set-uid, set-gid or capabilities: LD_PRELOAD is dropped */
	RUN_LOADS_FOREIGN, /* another architecture or word size */
	RUN_LOADS_UNKNOWN, /* no ELF file, no script */
	RUN_LOADS_COUNT
};

/*
 * Make the plan: *plan is zeroed by the caller and released with run_plan_fini() whatever this
 * returns. Errors: -EINVAL (an option's value), -ENOENT (no library), -ENOEXEC (library of another
 * architecture), -ENOTSUP (a spill directory in memory), -ENOSPC (host memory), those of the
 * file system; each with a text. Touches a file in each spill directory.
 */
int run_plan_make(struct run_plan *plan, const struct run_options *options) SL_MUST_CHECK;
void run_plan_fini(struct run_plan *plan);

/* Put it into this process's environment. -ENOMEM. */
int run_plan_apply(const struct run_plan *plan) SL_MUST_CHECK;

/* ---- for the parts ---- */

/* Add a variable; value is copied. -ENOMEM, -ENOBUFS. */
int run_set(struct run_plan *plan, const char *name, const char *value, const char *why,
	    ...) SL_PRINTF(4, 5) SL_MUST_CHECK;
/* Add a pair to SLUICE_RUN; commas in value are escaped. -ENOBUFS. */
int run_setting(struct run_plan *plan, const char *key, const char *value) SL_MUST_CHECK;
/* Add a line for people; beyond the bound it is left out. */
void run_note(struct run_plan *plan, const char *fmt, ...) SL_PRINTF(2, 3);

/* run_library.c: the path of the library: wanted, else (NULL) what SLUICE_PRELOAD_LIBRARY names, else
 * searched for. -ENOENT, -ENOEXEC. */
int run_library_find(const char *wanted, char path[PATH_MAX]) SL_MUST_CHECK;
/* What would be executed for name, as execvp(3) looks for it. -ENOENT, -EACCES with a text. */
int run_program_find(const char *name, char path[PATH_MAX]) SL_MUST_CHECK;
/* How path, or the interpreter of a script, takes LD_PRELOAD; *file is what decided. */
enum run_loads run_program_look(const char *path, char file[PATH_MAX]);
/* A sentence about it, with the file's name put in; "" for RUN_LOADS. Returns buf. */
char *run_loads_text(enum run_loads loads, const char *file, char *buf, size_t buf_bytes);

/* run_budget.c, run_frameworks.c: their part of the plan. */
int run_budget_plan(struct run_plan *plan, const struct run_options *options) SL_MUST_CHECK;
int run_frameworks_plan(struct run_plan *plan, const struct run_options *options) SL_MUST_CHECK;
/* Whether the library may page memory that could be shared where it meets a framework that maps all it has. */
int run_frameworks_mapped_auto(const struct run_options *options);

#endif
