/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice stat --openmetrics`: counters and sizes of all spaces in the text format of OpenMetrics 1.0.
 * A metric stands once, with the samples of all spaces behind it. Names end in their unit, and those of
 * counters in _total. Prometheus' node_exporter takes such a file from its textfile directory.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "stat.h"

/* A label's value: quotes and backslashes are escaped; control characters are gone already. */
static void
label_put(FILE *to, const char *name, const char *value)
{
	fprintf(to, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fputc('\\', to);
		fputc(*value, to);
	}
	fputc('"', to);
}

/* Labels of the GPU are named as dcgm-exporter has them, so that both are seen side by side. */
static void
space_put(FILE *to, const struct stat_sample *s)
{
	fprintf(to, "pid=\"%" PRIu64 "\",space=\"%" PRIu64 "\"", s->pid, s->space);
	if (!s->command)
		return;
	fputc(',', to);
	label_put(to, "command", s->command);
	if (s->device && strcmp(s->device, "cuda")) {
		fputc(',', to);
		label_put(to, "device", s->device);
	} else if (s->device) {
		fprintf(to, ",gpu=\"%" PRIu64 "\"", s->device_number);
		if (s->device_uuid && *s->device_uuid) {
			fputc(',', to);
			label_put(to, "UUID", s->device_uuid);
		}
	}
}

static void
head_put(FILE *to, const char *name, const char *type, const char *unit, const char *help)
{
	fprintf(to, "# TYPE sluice_%s %s\n", name, type);
	if (unit)
		fprintf(to, "# UNIT sluice_%s %s\n", name, unit);
	fprintf(to, "# HELP sluice_%s %s\n", name, help);
}

static void
counters_put(FILE *to, const struct stat_sample *samples, size_t n)
{
	for (int k = 0; k < SLUICE_COUNTER_COUNT; k++) {
		enum sluice_counter counter = (enum sluice_counter)k;
		int bytes = !strcmp(sluice_counter_unit(counter), "bytes");
		char name[64];

		snprintf(name, sizeof(name), "%s%s", sluice_counter_name(counter),
			 bytes ? "_bytes" : "");
		head_put(to, name, "counter", bytes ? "bytes" : NULL,
			 sluice_counter_text(counter));
		for (size_t i = 0; i < n; i++) {
			if (!samples[i].command)
				continue;
			fprintf(to, "sluice_%s_total{", name);
			space_put(to, &samples[i]);
			fprintf(to, "} %" PRIu64 "\n", samples[i].stats.counter[k]);
		}
	}
}

/* bytes: the array of one value a tier within struct sluice_stats. */
static void
tiers_put(FILE *to, const struct stat_sample *samples, size_t n, const char *name,
	  const char *help, size_t bytes)
{
	head_put(to, name, "gauge", "bytes", help);
	for (size_t i = 0; i < n; i++) {
		const uint64_t *values = (const void *)((const char *)&samples[i].stats +
							bytes);

		for (int k = 0; samples[i].command && k < SLUICE_TIER_COUNT; k++) {
			fprintf(to, "sluice_%s{", name);
			space_put(to, &samples[i]);
			fprintf(to, ",tier=\"%s\"} ", stat_tiers[k]);
			if (values[k] == UINT64_MAX)
				fputs("+Inf\n", to); /* no limit */
			else
				fprintf(to, "%" PRIu64 "\n", values[k]);
		}
	}
}

static void
all_put(FILE *to, const struct stat_sample *samples, size_t n)
{
	head_put(to, "up", "gauge", NULL, "1: the process answered");
	for (size_t i = 0; i < n; i++) {
		fputs("sluice_up{", to);
		space_put(to, &samples[i]);
		fprintf(to, "} %d\n", samples[i].command != NULL);
	}
	tiers_put(to, samples, n, "resident_bytes", "bytes in the tier now; store: spilled",
		  offsetof(struct sluice_stats, resident_bytes));
	tiers_put(to, samples, n, "resident_peak_bytes", "the most of them so far",
		  offsetof(struct sluice_stats, resident_peak_bytes));
	tiers_put(to, samples, n, "budget_bytes", "limit of the tier",
		  offsetof(struct sluice_stats, budget_bytes));
	counters_put(to, samples, n);
	fputs("# EOF\n", to);
}

int
stat_openmetrics(const struct stat_sample *samples, size_t n, const char *path)
{
	char temporary[PATH_MAX];
	FILE *to;
	int rc;

	if (!path) {
		all_put(stdout, samples, n);
		return 0; /* main() says whether it could be written */
	}
	rc = snprintf(temporary, sizeof(temporary), "%s.%d.tmp", path, (int)getpid());
	if (rc < 0 || (size_t)rc >= sizeof(temporary))
		return sl_fail(-ENAMETOOLONG, "%s: the name is too long", path);
	to = fopen(temporary, "wxe");
	if (!to)
		return sl_fail(-errno, "%s: %s", temporary, strerror(errno));
	all_put(to, samples, n);
	rc = ferror(to) ? -EIO : 0;
	if (fclose(to))
		rc = -errno;
	if (!rc && rename(temporary, path))
		rc = -errno;
	if (!rc)
		return 0;
	(void)unlink(temporary);
	return sl_fail(rc, "%s: %s: the file is as it was", path, strerror(-rc));
}
