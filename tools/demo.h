/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of `sluice demo`: the options, facts about the machine, and the two
 * programs with their results.
 *
 * cmd_demo.c reads the command line, and is the first process, which waits and cleans up.
 * demo_work.c is the working process. demo_mmap.c is the run over mmap in a third one.
 * demo_print.c makes table and JSON object of the results.
 *
 * Threads: one in each process, except for struct sampler, which two of them share.
 */
#ifndef SL_TOOLS_DEMO_H
#define SL_TOOLS_DEMO_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "cgroup.h"
#include "disk_rate.h"
#include "picture.h"
#include "progress.h"
#include "sluice/sluice.h"
#include "workload.h"

#define MIB             (UINT64_C(1) << 20)
#define FOOTPRINT_LEAST (192 * MIB)
#define SAMPLE_MAX      4096
#define PROGRAM_N       2 /* hotspot and srad */

struct options {
	const char *dir;
	int quick;
	uint64_t size_bytes; /* 0: chosen */
	const char *picture; /* NULL: a new file in the current directory */
	int as_json;
};

/* Written by the working process, read by the first one once that has ended. */
struct shared {
	struct cgroup_limit limit; /* dir "": none was tried */
};

/*
 * Samples of one program's run. Taken by a thread of its own, which sees the waits for the disk,
 * and with each step of the program, which the scheduler cannot leave out on a busy machine.
 */
struct sampler {
	pthread_t thread;
	int runs;   /* the thread */
	int active; /* under lock: there is a space */
	atomic_int stop;
	pthread_mutex_t lock; /* of the samples; the space's own lock is taken under it */
	struct sluice_space *space;
	uint64_t begin_ns, period_ns;
	uint64_t due_ns; /* no sample before */
	struct picture_sample samples[SAMPLE_MAX];
	size_t sample_n;
};

/* One program, both ways. */
struct program {
	const struct workload *workload;
	struct workload_params params;
	struct workload_plan plan;
	struct workload_result ours, mmap;
	struct sampler sampler;
	struct progress progress;
	char progress_name[32];
	int mmap_rc;          /* 0: it ran */
	char mmap_error[512]; /* why not */
	int compared;         /* 1: both outputs were read */
	int same;             /* 1: and they are equal */
	double disk_s;        /* what our bytes take at the disk's measured rates */
	uint64_t compare_ns;  /* reading both outputs */
};

struct demo {
	const struct options *options;
	const char *dir; /* of this run */
	struct shared *shared;
	struct disk_rate disk;
	uint64_t footprint_bytes; /* of each program, before rounding */
	uint64_t device_bytes, host_bytes, staging_bytes;
	uint64_t limit_bytes;    /* of the mmap runs */
	int limited;             /* 1: a memory group holds them to it */
	char limit_error[512];   /* why not */
	uint64_t begin_ns;       /* of the working process */
	uint64_t disk_ns;        /* measuring the disk */
	char picture[4096];      /* the file it was written to */
	int picture_rc;          /* 0: it was written */
	char picture_error[512]; /* why not */
	struct program programs[PROGRAM_N];
};

/*
 * All that the working process does, up to the table or JSON object on stdout. dir: of this run,
 * not removed here. shared: what is left to the first process to remove. An exit code; errors are
 * on stderr.
 */
int demo_work(const struct options *options, const char *dir, struct shared *shared);

/* A memory group for the mmap runs, where one can be made; else demo->limit_error says why not. */
void demo_limit_make(struct demo *demo);

/*
 * The same program over mmap()ed files, in a child and in the memory group if there is one. Blocks
 * until it has ended. What goes wrong is in program->mmap_rc and program->mmap_error.
 */
void demo_mmap_run(struct demo *demo, struct program *program);

/* The results on stdout, for people and for programs. */
void demo_print_table(const struct demo *demo);
void demo_print_json(const struct demo *demo);

#endif
