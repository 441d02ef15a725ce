/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `sluice run` and the environment say (settings.c), read once at the first cuInit().
 *
 * Threads: any. The settings never change after they were read.
 */
#ifndef SL_PRELOAD_SETTINGS_H
#define SL_PRELOAD_SETTINGS_H

#include "base/error.h"

enum pl_mode {
	PL_MODE_PAGED, /* ours */
	PL_MODE_NAIVE, /* OC-DNN's: what does not fit when it is allocated is used where it is, in host
			* memory */
	PL_MODE_OPT, /* OC-DNN's: what a copy or a kernel uses is brought in before it, and what was
		      * used longest ago goes; nothing is learnt from what came before */
	PL_MODE_OFF /* load, and forward everything: nothing is counted */
};

enum pl_arguments { /* what a launch is taken to touch */
		    PL_ARGUMENTS_LEARN, /* what its arguments name; and all, until its function is known to say so */
		    PL_ARGUMENTS_ALL,  /* always all there is */
		    PL_ARGUMENTS_TRUST /* what its arguments name */
};

enum pl_mapped { /* of what the program makes by cuMemCreate() and maps itself, who serves */
		 PL_MAPPED_OURS, /* we, but for what may be shared with other processes */
		 PL_MAPPED_ALL,  /* we; what is shared becomes the driver's then */
		 PL_MAPPED_DRIVER,
		 PL_MAPPED_AUTO /* all for programs that take all of their memory so; else ours: ask pl_mapped() */
};

/* Whether moves are made ahead, of what followed last time. */
enum pl_history_when {
	PL_FOLLOW_NEVER,
	PL_FOLLOW_ALWAYS,
	PL_FOLLOW_AUTO /* as long as it is not found to be slower (predict/autotune.h) */
};

struct pl_settings {
	enum pl_mode mode;
	enum pl_arguments arguments;
	int meminfo_physical; /* 1: memory queries tell what the GPU has; 0 also where the program
			       * decides: ask pl_meminfo_physical() */
	int own_managed; /* 1: cuMemAllocManaged() is served by us */
	enum pl_mapped mapped;
	enum pl_history_when follow;
	int explain; /* 1: tell at exit which kernels missed, and how often */
	int verbose; /* 1: say on stderr which road caught the first call, unknown names.. */
	int quiet; /* 1: no line at start and exit */
	int share; /* 1: the GPU's memory is shared with other programs that do so (share.h) */
	unsigned weight;    /* parts of memory that is short; 0: one */
	unsigned turn_s;    /* the longest wait for a turn on a GPU; 0: the default */
	unsigned leave_mib; /* of each GPU is left to programs that do not share */
	int suspended;      /* 1: nothing runs on a GPU until `sluice resume` says so */
	unsigned first; /* process that the command became, on a terminal: it tells at its end that
			 * CUDA was not used (unused.c); 0: none */
	int doctor; /* 1: statistics are written from cuInit() on, not at exit alone */
	int meminfo_auto; /* 1: meminfo_physical by what the process has loaded */
	char stats_path[1024]; /* "": none; at exit counters go there as JSON. %p is the process */
	char record_path[1024]; /* "": none; a trace of the run goes there (tracing.h) */
	unsigned record_launches; /* so many of them at most */
	char timeline_path[1024]; /* "": none; trace events of the run go there (timeline.h) */
	unsigned timeline_mib; /* size of that file at most */
	char policies[1024];   /* file of kernel-name patterns, "": none */
	char frameworks[1024]; /* those that the launcher told something, separated by '+' */
};

/* Never changes after the first call, which reads the environment. Wait-free after it. */
const struct pl_settings *pl_settings(void);
/* 0, or CU_ERROR_INVALID_VALUE: SLUICE_RUN cannot be read; said on stderr the first time. cuInit()
 * returns it. */
int pl_settings_result(void) SL_MUST_CHECK;

#endif
