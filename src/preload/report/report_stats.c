/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics of a run as one JSON object: docs/run.md has the schema. output.h names the
 * file, from the --stats option.
 *
 * Threads: at exit, one; at the start under `sluice doctor` the thread that called cuInit().
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/args/functions.h"
#include "preload/gpu.h"
#include "preload/loader/entry.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/report/json_char.h"
#include "preload/report/output.h"
#include "preload/report/report.h"
#include "sluice/sluice.h"

#define SCHEMA_VERSION 1

static const char *const counter_names[PL_COUNT_COUNT] = {
#define COUNTER_NAME(name, text) #name,
	PL_COUNTERS(COUNTER_NAME)
#undef COUNTER_NAME
};

static const char *const tier_names[SLUICE_TIER_COUNT] = {"device", "host", "store"};

/* A string of JSON. */
static void
text_print(FILE *f, const char *text)
{
	char one[PL_JSON_CHAR_BYTES];

	fputc('"', f);
	for (; *text; text++)
		fputs(pl_json_char(one, (unsigned char)*text), f);
	fputc('"', f);
}

/* Thousandths of a second; printf's %f would use the decimal point of the program's locale. */
static void
seconds_print(FILE *f, double seconds)
{
	uint64_t ms = seconds > 0 ? (uint64_t)(seconds * 1000 + 0.5) : 0;

	fprintf(f, "%" PRIu64 ".%03" PRIu64, ms / 1000, ms % 1000);
}

static void
gpu_print(FILE *f, const struct pl_gpu *gpu)
{
	struct sluice_stats stats;

	sluice_stats_get(gpu->space, &stats);
	fprintf(f, "    {\n      \"gpu\": %d,\n", gpu->ordinal);
	for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++) {
		fprintf(f, "      \"%s\": {\"budget_bytes\": ", tier_names[tier]);
		if (stats.budget_bytes[tier] == UINT64_MAX)
			fputs("null", f);
		else
			fprintf(f, "%" PRIu64, stats.budget_bytes[tier]);
		fprintf(f, ", \"resident_bytes\": %" PRIu64 ", \"peak_bytes\": %" PRIu64 "},\n",
			stats.resident_bytes[tier], stats.resident_peak_bytes[tier]);
	}
	fprintf(f, "      \"counters\": {");
	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++)
		fprintf(f, "%s\n        \"%s\": %" PRIu64, i ? "," : "",
			sluice_counter_name((enum sluice_counter)i), stats.counter[i]);
	fprintf(f, "\n      }\n    }");
}

static void
functions_print(FILE *f)
{
	struct pl_functions list;

	pl_functions_get(&list);
	fprintf(f, "  \"functions_left_out\": %zu,\n  \"functions\": [", list.left_out);
	for (size_t i = 0; i < list.n; i++) {
		const struct pl_function_stats *s = &list.all[i];

		fprintf(f, "%s\n    {\"name\": ", i ? "," : "");
		text_print(f, s->name);
		fprintf(f,
			", \"launches\": %" PRIu64 ", \"all\": %" PRIu64
			", \"opaque\": %" PRIu64 ", \"missed_bytes\": %" PRIu64
			", \"waited_ns\": %" PRIu64 ", \"indirect\": %s}",
			s->launches, s->all, s->opaque, s->missed_bytes, s->waited_ns,
			s->indirect ? "true" : "false");
	}
	fprintf(f, "%s],\n", list.n ? "\n  " : "");
	pl_functions_put(&list);
}

static void
stats_print(FILE *f, int ended, int init_result, double seconds)
{
	const char *driver = pl_driver_path();
	const char *first = "";
	unsigned roads = pl_roads();
	int device = -1;
	struct pl_gpu *gpu;

	fprintf(f, "{\n  \"schema\": %d,\n  \"version\": ", SCHEMA_VERSION);
	text_print(f, sluice_version());
	fprintf(f, ",\n  \"pid\": %d,\n  \"parent\": %d,\n  \"program\": ", (int)getpid(),
		(int)getppid());
	text_print(f, program_invocation_short_name);
	fprintf(f, ",\n  \"ended\": %s,\n  \"seconds\": ", ended ? "true" : "false");
	seconds_print(f, seconds);
	fprintf(f, ",\n  \"cuinit\": %d,\n  \"driver\": ", init_result);
	if (driver)
		text_print(f, driver);
	else
		fputs("null", f);
	fprintf(f, ",\n  \"driver_version\": %d,\n  \"table_version\": %d,\n  \"road\": \"%s\"",
		pl_report_driver_version(), PL_API_VERSION,
		roads & PL_ROAD_RESOLVE  ? "cuGetProcAddress"
		: roads & PL_ROAD_SYMBOL ? "dlsym"
		: roads & PL_ROAD_OPEN   ? "dlopen"
					 : "linking");
	fputs(",\n  \"counters\": {", f);
	for (int i = 0; i < PL_COUNT_COUNT; i++)
		fprintf(f, "%s\n    \"%s\": %" PRIu64, i ? "," : "", counter_names[i],
			pl_counter((enum pl_counter)i));
	fputs("\n  },\n", f);
	if (ended)
		functions_print(f);
	fputs("  \"gpus\": [", f);
	while ((gpu = pl_report_gpu_next(&device))) {
		fprintf(f, "%s\n", first);
		gpu_print(f, gpu);
		first = ",";
	}
	fprintf(f, "%s]\n}\n", *first ? "\n  " : "");
}

void
pl_stats_write(int ended, int init_result, double seconds)
{
	static struct pl_output output; /* keeps the name for the next time */
	int rc = pl_output_begin(&output, pl_settings()->stats_path, ""), fd;
	FILE *f = NULL;

	if (!rc) {
		fd = open(output.temporary, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
		f = fd >= 0 ? fdopen(fd, "w") : NULL;
		if (!f)
			rc = -errno;
	}
	if (f) {
		stats_print(f, ended, init_result, seconds);
		if (ferror(f))
			rc = -EIO;
		if (fclose(f) && !rc)
			rc = -errno;
		rc = pl_output_end(&output, rc, "statistics are");
	}
	if (rc)
		pl_error("statistics cannot be written to %s: %s",
			 pl_settings()->stats_path, strerror(-rc));
}
