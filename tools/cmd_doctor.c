/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice doctor`: does this machine work, and if not, why, and what helps?
 *
 * Each check tries the thing itself if it can, instead of guessing from versions. It opens a
 * userfaultfd and moves a page, reads a file through a ring, writes a file with O_DIRECT, runs a
 * kernel on the software device. A check ends in one finding: ok, limited or missing, with a
 * text, and with advice unless it is ok. Findings are gathered in a fixed table, and printed at
 * the end as lines or as one JSON object.
 *
 * Here are the command line, the table of findings, the try of the whole software device, and
 * the printing. doctor_probe_*.c have the single checks; doctor.h lists them. doctor_measure.c has
 * the rates. With a program behind "--" it is only about that program: doctor_program.c.
 *
 * The verdict is about the software device. It needs a userfaultfd that reports missing and
 * write-protected pages, and the memory for its budgets. All other findings are about speed.
 *
 * Threads: one, and those that the library starts for the last check.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "doctor.h"
#include "json.h"
#include "sluice/sluice.h"

static const char doctor_help[] =
	"Usage: sluice doctor [--measure] [--dir DIR]... [--json]\n"
	"       sluice doctor [--json] -- PROGRAM [ARGUMENTS]\n"
	"\n"
	"Try what Sluice needs on this machine; say of each thing whether it is ok, "
	"limited\n"
	"or missing, why, and what to do. Exit code 0 when the software device works, "
	"else 1.\n"
	"\n"
	"With a program: run it as 'sluice run' does and say whether it is covered, and\n"
	"what of it is not. Exit code 0 when it is, else 1.\n"
	"\n"
	"Options:\n"
	"      --dir DIR  directory to try for files (repeatable; default: the spill\n"
	"                 directories and the current directory)\n"
	"      --measure  measure for some seconds the link of each GPU, and the "
	"disk of\n"
	"                 the first directory that is on one\n"
	"      --json     print one JSON object\n"
	"  -h, --help     print this and exit\n";

static const char *
level_name(enum level level)
{
	switch (level) {
	case LEVEL_OK:
		return "ok";
	case LEVEL_LIMITED:
		return "limited";
	case LEVEL_MISSING:
		return "missing";
	case LEVEL_COUNT:
		break;
	}
	return "?";
}

void
finding_add(struct doctor *doctor, enum level level, const char *name, const char *advice,
	    const char *fmt, ...)
{
	struct finding *finding;
	va_list args;

	/* The number of checks is fixed and the number of directories bounded. */
	if (doctor->finding_n == FINDING_MAX)
		doctor->finding_n--;
	finding = &doctor->findings[doctor->finding_n++];
	finding->level = level;
	snprintf(finding->advice, sizeof(finding->advice), "%s", advice ? advice : "");
	snprintf(finding->name, sizeof(finding->name), "%s", name);
	va_start(args, fmt);
	vsnprintf(finding->text, sizeof(finding->text), fmt, args);
	va_end(args);
}

enum level
finding_level(const struct doctor *doctor, const char *name)
{
	for (size_t i = 0; i < doctor->finding_n; i++)
		if (!strcmp(doctor->findings[i].name, name))
			return doctor->findings[i].level;
	return LEVEL_COUNT;
}

int
doctor_line_read(const char *path, char *buf, size_t buf_bytes)
{
	FILE *file = fopen(path, "re");

	if (!file)
		return -errno;
	if (!fgets(buf, (int)buf_bytes, file))
		buf[0] = '\0';
	fclose(file);
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

/* ---- the software device itself ---- */

#define TRY_CHUNKS 8

static void
try_kernel(const struct sluice_block *block, void *args)
{
	uint64_t *words = *(uint64_t **)args;

	for (size_t i = 0; i < 2 * MIB / sizeof(*words); i++)
		words[block->index.x * (2 * MIB / sizeof(*words)) + i] += block->index.x + i;
}

/* Run a kernel over twice the memory it is given; 0, or an error with its text in place. */
static int
device_try(struct sluice_space *space, void **addr)
{
	struct sluice_grid grid = {TRY_CHUNKS, 1, 1};
	const uint64_t *words;
	int rc = sluice_alloc(space, TRY_CHUNKS * 2 * MIB, 0, addr);

	if (rc)
		return rc;
	rc = sluice_launch(space, NULL, try_kernel, grid, addr, sizeof(*addr), NULL, 0);
	if (rc)
		return rc;
	rc = sluice_stream_synchronize(space, NULL);
	if (rc)
		return rc;
	words = *addr;
	for (size_t i = 0; i < TRY_CHUNKS; i++)
		if (words[(i + 1) * (2 * MIB / sizeof(*words)) - 1] !=
		    i + 2 * MIB / sizeof(*words) - 1)
			return sl_fail(-EIO, "chunk %zu holds wrong data: report this", i);
	return 0;
}

static void
check_device(struct doctor *doctor)
{
	struct sluice_config config = doctor->config;
	struct sluice_space *space;
	void *addr = NULL;
	int rc;

	if (!doctor->config_ok)
		return; /* said by check_config() */
	rc = sluice_config_parse(&config,
				 "device=soft,device_budget=8M,host_budget=16M,chunk=2M,"
				 "staging=8M,host_reserve=0,publish=0");
	if (!rc)
		rc = sluice_space_create(&config, &space);
	if (!rc) {
		rc = device_try(space, &addr);
		if (rc)
			(void)sluice_space_destroy(space);
		else
			rc = sluice_space_destroy(space);
	}
	if (!rc) {
		finding_add(doctor, LEVEL_OK, "software device", NULL,
			    "a kernel ran over 16 MiB with 8 MiB of device memory");
		return;
	}
	doctor->usable = 0;
	finding_add(doctor, LEVEL_MISSING, "software device", "see the findings above",
		    "%s", sluice_last_error());
}

static void
check_config(struct doctor *doctor)
{
	doctor->config_ok = sluice_config_init(&doctor->config) == 0;
	if (doctor->config_ok)
		return;
	doctor->usable = 0;
	finding_add(doctor, LEVEL_MISSING, "configuration",
		    "correct or unset the variable: see sluice(7)", "%s",
		    sluice_last_error());
}

/* ---- output ---- */

static void
json_findings(struct json *json, const struct doctor *doctor)
{
	json_array(json, "checks");
	for (size_t i = 0; i < doctor->finding_n; i++) {
		const struct finding *finding = &doctor->findings[i];

		json_object(json, NULL);
		json_string(json, "name", finding->name);
		json_string(json, "status", level_name(finding->level));
		json_string(json, "text", finding->text);
		if (finding->advice[0])
			json_string(json, "advice", finding->advice);
		json_close(json);
	}
	json_close(json);
}

/* What to type next. */
static const char *
next_line(const struct doctor *doctor)
{
	enum level gpu = finding_level(doctor, "gpu");

	if (gpu == LEVEL_OK || gpu == LEVEL_LIMITED)
		return "sluice run -- PROGRAM";
	return doctor->usable ? "sluice demo" : NULL;
}

/* What can be held, and the rates that were measured. */
static void
json_machine(struct json *json, const struct doctor *doctor)
{
	uint64_t device_bytes = 0;

	json_array(json, "gpus");
	for (size_t i = 0; i < doctor->gpu_n; i++) {
		const struct doctor_gpu *gpu = &doctor->gpus[i];

		device_bytes += gpu->memory_bytes;
		json_object(json, NULL);
		json_u64(json, "memory_bytes", gpu->memory_bytes);
		json_bool(json, "mig", gpu->is_mig);
		if (gpu->in_bytes_per_s > 0) {
			json_double(json, "in_bytes_per_second", gpu->in_bytes_per_s);
			json_double(json, "out_bytes_per_second", gpu->out_bytes_per_s);
		}
		json_close(json);
	}
	json_close(json);
	json_object(json, "capacity");
	json_u64(json, "device_bytes", device_bytes);
	json_u64(json, "host_bytes", doctor_host_bytes(doctor));
	json_u64(json, "store_bytes", doctor->store_bytes);
	json_string(json, "store_dir", doctor->store_dir);
	json_close(json);
	if (doctor->disk.read_bytes_per_s > 0) {
		json_object(json, "disk");
		json_string(json, "dir", doctor->store_dir);
		json_double(json, "read_bytes_per_second", doctor->disk.read_bytes_per_s);
		json_double(json, "write_bytes_per_second", doctor->disk.write_bytes_per_s);
		json_bool(json, "direct", doctor->disk.direct);
		json_close(json);
	}
}

static void
print_json(const struct doctor *doctor)
{
	struct json json;

	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "version", sluice_version());
	json_bool(&json, "software_device", doctor->usable);
	json_u64(&json, "available_bytes", doctor->available_bytes);
	json_string(&json, "next", next_line(doctor));
	json_machine(&json, doctor);
	json_findings(&json, doctor);
	json_end(&json);
}

/* The findings; how many there are of each level. */
static void
lines_findings(const struct doctor *doctor, size_t counts[LEVEL_COUNT])
{
	int width = 0;

	for (size_t i = 0; i < doctor->finding_n; i++)
		if ((int)strlen(doctor->findings[i].name) > width)
			width = (int)strlen(doctor->findings[i].name);
	for (size_t i = 0; i < doctor->finding_n; i++) {
		const struct finding *finding = &doctor->findings[i];

		counts[finding->level]++;
		printf("%-8s %-*s  %s\n", level_name(finding->level), width,
		       finding->name, finding->text);
		if (finding->advice[0])
			printf("%-8s %-*s  -> %s\n", "", width, "", finding->advice);
	}
}

static void
print_lines(const struct doctor *doctor)
{
	size_t counts[LEVEL_COUNT] = {0};
	const char *next = next_line(doctor);

	lines_findings(doctor, counts);
	printf("\n%zu ok, %zu limited, %zu missing: the software device %s\n",
	       counts[LEVEL_OK], counts[LEVEL_LIMITED], counts[LEVEL_MISSING],
	       doctor->usable ? "works here" : "cannot work here");
	if (next)
		printf("next: %s\n", next);
}

/* ---- a program ---- */

static const char *
cover_name(enum program_cover cover)
{
	switch (cover) {
	case PROGRAM_COVERED:
		return "covered";
	case PROGRAM_LIMITED:
		return "covered with limits";
	case PROGRAM_NOT_COVERED:
		return "not covered";
	case PROGRAM_UNKNOWN:
		return "unknown";
	case PROGRAM_COVER_COUNT:
		break;
	}
	return "?";
}

static int
program_check(struct doctor *doctor, char **argv)
{
	size_t counts[LEVEL_COUNT] = {0};
	enum program_cover cover;
	struct json json;

	if (doctor_program(doctor, argv, &cover))
		return command_fail("doctor", "%s", sluice_last_error());
	if (doctor->as_json) {
		json_begin(&json, stdout);
		json_object(&json, NULL);
		json_string(&json, "version", sluice_version());
		json_string(&json, "program", argv[0]);
		json_string(&json, "verdict", cover_name(cover));
		json_findings(&json, doctor);
		json_end(&json);
	} else {
		lines_findings(doctor, counts);
		printf("\n%s: %s\n", argv[0], cover_name(cover));
	}
	return cover == PROGRAM_COVERED || cover == PROGRAM_LIMITED ? SL_EXIT_OK
								    : SL_EXIT_FAILED;
}

/* Default directories: where spill files go, and where the user is. */
static void
dirs_default(struct doctor *doctor, char *spill_dirs)
{
	char *save = NULL;

	for (char *dir = strtok_r(spill_dirs, ":", &save);
	     dir && doctor->dir_n < DIR_MAX - 1; dir = strtok_r(NULL, ":", &save))
		doctor->dirs[doctor->dir_n++] = dir;
	doctor->dirs[doctor->dir_n++] = ".";
}

/* In the order of the report: what there is, what it can hold and how fast, then what else is needed. */
static void
machine_check(struct doctor *doctor)
{
	doctor_check_gpu(doctor);
	doctor_check_memory(doctor);
	doctor_check_cgroup(doctor);
	doctor_check_directories(doctor);
	doctor_check_capacity(doctor);
	if (doctor->measure)
		doctor_measure(doctor);
	doctor_check_kernel(doctor);
	doctor_check_cpus(doctor);
	doctor_check_huge_pages(doctor);
	doctor_check_memlock(doctor);
	doctor_check_map_count(doctor);
	doctor_check_userfaultfd(doctor);
	doctor_check_uring(doctor);
	doctor_check_direct(doctor);
	doctor_check_place(doctor);
	check_device(doctor);
}

static int
dir_take(const struct option *option, void *into)
{
	struct doctor *doctor = into;

	(void)option; /* --dir */
	if (doctor->dir_n == DIR_MAX)
		return command_usage("doctor", "more than %d directories", DIR_MAX);
	doctor->dirs[doctor->dir_n++] = optarg;
	return 0;
}

int
cmd_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{"dir", required_argument, NULL, 'd'},
		{"measure", no_argument, NULL, COMMAND_MEMBER(struct doctor, measure)},
		{"json", no_argument, NULL, COMMAND_MEMBER(struct doctor, as_json)},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static const struct command_syntax syntax = {"doctor", "+:h", doctor_help,
						     options, dir_take};
	struct doctor doctor = {.usable = 1, .limit_bytes = UINT64_MAX};
	char spill_dirs[sizeof(doctor.config.spill_dirs)];
	int rc = command_options_read(&syntax, argc, argv, &doctor);

	if (rc)
		return rc < 0 ? SL_EXIT_OK : rc;
	if (optind < argc && strcmp(argv[optind - 1], "--") == 0) {
		if (doctor.dir_n || doctor.measure)
			return command_usage("doctor", "%s does not go with a program",
					     doctor.dir_n ? "--dir" : "--measure");
		return program_check(&doctor, argv + optind);
	}
	if (optind < argc)
		return command_usage("doctor",
				     "'%s' is one argument too many (a program comes "
				     "after --)",
				     argv[optind]);

	check_config(&doctor);
	snprintf(spill_dirs, sizeof(spill_dirs), "%s",
		 doctor.config_ok ? doctor.config.spill_dirs : "");
	if (!doctor.dir_n)
		dirs_default(&doctor, spill_dirs);
	machine_check(&doctor);
	if (doctor.as_json)
		print_json(&doctor);
	else
		print_lines(&doctor);
	return doctor.usable ? SL_EXIT_OK : SL_EXIT_FAILED;
}
