/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of `sluice doctor`: the findings, facts about the machine, and one
 * function for each group of checks.
 *
 * A check tries one thing and adds one finding, or one for each part of it. It may note facts
 * for later checks in struct doctor. It clears usable if the software device cannot work without
 * a missing thing. It prints nothing and leaves nothing behind.
 *
 * cmd_doctor.c has the command, the findings, and the try of the whole software device.
 * doctor_probe_uffd.c, doctor_probe_files.c, doctor_probe_machine.c, doctor_probe_place.c and
 * doctor_probe_direct.c have the other checks. doctor_measure.c is `sluice doctor --measure`,
 * doctor_program.c is `sluice doctor -- PROGRAM`.
 *
 * Threads: one.
 */
#ifndef SL_TOOLS_DOCTOR_H
#define SL_TOOLS_DOCTOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "disk_rate.h"
#include "sluice/sluice.h"

#define FINDING_MAX 64
#define DIR_MAX     16
#define GPU_MAX     8 /* GPUs that are described and measured */
#define MIB         (UINT64_C(1) << 20)

enum level { LEVEL_OK, LEVEL_LIMITED, LEVEL_MISSING, LEVEL_COUNT };

struct finding {
	char name[48];
	enum level level;
	char text[320];
	char advice[320]; /* "": there is nothing to do */
};

/* One GPU, as far as it was looked at. */
struct doctor_gpu {
	uint64_t memory_bytes;
	int is_mig;                             /* a part of a GPU */
	double in_bytes_per_s, out_bytes_per_s; /* of its link; 0: not measured */
};

struct doctor {
	struct finding findings[FINDING_MAX];
	size_t finding_n;
	const char *dirs[DIR_MAX];
	size_t dir_n;
	int as_json, measure;
	struct doctor_gpu gpus[GPU_MAX];
	size_t gpu_n;
	const char *store_dir;       /* the first of dirs that is on a disk; NULL: none */
	uint64_t store_bytes;        /* free there */
	char store_type[64];         /* its file system */
	struct disk_rate disk;       /* of store_dir; rates of 0: not measured */
	struct sluice_config config; /* what a program would get */
	int config_ok;
	uint64_t available_bytes; /* memory that can be had; 0: unknown */
	uint64_t limit_bytes;     /* what the cgroups leave; UINT64_MAX: no limit */
	int usable;               /* 0: the software device cannot work */
};

/* Add a finding; name is cut to fit. advice: what to do about it, or NULL. */
void finding_add(struct doctor *doctor, enum level level, const char *name,
		 const char *advice, const char *fmt, ...) SL_PRINTF(5, 6);

/* The level of a finding by its name; LEVEL_COUNT: there is none. */
enum level finding_level(const struct doctor *doctor, const char *name);

/* First line of a file, without its newline. 0 or -errno. */
int doctor_line_read(const char *path, char *buf, size_t buf_bytes);

/* doctor_probe_uffd.c: the door, then each feature. Clears usable if one that must be is not. */
void doctor_check_userfaultfd(struct doctor *doctor);

/* doctor_probe_files.c: in the directories of doctor->dirs; notes the first disk. */
void doctor_check_uring(struct doctor *doctor);
void doctor_check_directories(struct doctor *doctor);

/*
 * doctor_probe_machine.c: memory and cgroup look at doctor->config and set what they found; gpu notes the
 * GPUs. capacity comes after these and the directories: it adds up what they noted.
 */
void doctor_check_kernel(struct doctor *doctor);
void doctor_check_cpus(struct doctor *doctor);
void doctor_check_memory(struct doctor *doctor);
void doctor_check_cgroup(struct doctor *doctor);
void doctor_check_huge_pages(struct doctor *doctor);
void doctor_check_memlock(struct doctor *doctor);
void doctor_check_map_count(struct doctor *doctor);
void doctor_check_gpu(struct doctor *doctor);
void doctor_check_capacity(struct doctor *doctor);

/* Bytes of memory that this process can have; 0: unknown. */
uint64_t doctor_host_bytes(const struct doctor *doctor);

/*
 * doctor_probe_place.c: container, WSL, Slurm job, part of a GPU; no finding for what is not there. After
 * the checks of the machine: a container's advice is about what they did not find.
 */
void doctor_check_place(struct doctor *doctor);

/* doctor_measure.c: the link of each GPU, and the disk of store_dir. Blocks for some seconds, and shows
 * them on a terminal. */
void doctor_measure(struct doctor *doctor);

/* doctor_probe_direct.c: whether cuFile works in the first of doctor->dirs. */
void doctor_check_direct(struct doctor *doctor);

/* Whether `sluice run` covers a program. */
enum program_cover {
	PROGRAM_COVERED,
	PROGRAM_LIMITED,
	PROGRAM_NOT_COVERED,
	PROGRAM_UNKNOWN, /* it did not use CUDA, or there is no GPU */
	PROGRAM_COVER_COUNT
};

/*
 * doctor_program.c: run argv as `sluice run` does and add what was found. 0, or -errno with a text: the
 * program was not run (-ENOENT: it was not found). Blocks until it ends.
 */
int doctor_program(struct doctor *doctor, char **argv, enum program_cover *out) SL_MUST_CHECK;

#endif
