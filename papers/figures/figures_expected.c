/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published values that the figures are compared with: tables of commas in DIR/expected,
 * one for times and one each for the figures that show something else. Lines that begin with '#'
 * are comments, the first other line names the columns.
 *
 * Only rows are kept, as text split into fields; a lookup is a scan, since there are some
 * hundreds. Threads: read-only once read.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "figures.h"

#define FIELDS_MAX 16
#define LINE_BYTES 512
#define ROWS_MAX   4096

struct row {
	char text[LINE_BYTES];
	const char *fields[FIELDS_MAX];
	unsigned n;
};

struct table {
	struct row *rows;
	size_t n;
};

enum file {
	FILE_CYCLES,
	FILE_BREAKDOWN,
	FILE_SLOWDOWN,
	FILE_TRAFFIC,
	FILE_NOISE,
	FILE_LOADER,
	FILE_COUNT
};

static const struct {
	const char *name;
	unsigned n_fields;
} files[FILE_COUNT] = {
	[FILE_CYCLES] = {"cycles.csv", 8},      [FILE_BREAKDOWN] = {"breakdown.csv", 7},
	[FILE_SLOWDOWN] = {"slowdown.csv", 14}, [FILE_TRAFFIC] = {"traffic.csv", 8},
	[FILE_NOISE] = {"variation.csv", 5},    [FILE_LOADER] = {"loader.csv", 7},
};

struct figure_expected {
	struct table tables[FILE_COUNT];
};

static void
row_split(struct row *row)
{
	char *at = row->text;

	row->text[strcspn(row->text, "\r\n")] = '\0';
	while (row->n < FIELDS_MAX) {
		row->fields[row->n++] = at;
		at = strchr(at, ',');
		if (!at)
			return;
		*at++ = '\0';
	}
}

static int
table_read(struct table *table, const char *data, enum file which)
{
	char path[4096], line[LINE_BYTES];
	unsigned number = 0, header = 0;
	FILE *in;
	int rc = 0;

	snprintf(path, sizeof(path), "%s/expected/%s", data, files[which].name);
	in = fopen(path, "re");
	if (!in)
		return sl_fail(-errno, "%s: %s: the published values are read from there",
			       path, strerror(errno));
	table->rows = malloc(ROWS_MAX * sizeof(*table->rows));
	if (!table->rows)
		rc = sl_fail(-ENOMEM, "%s: out of memory", path);
	while (!rc && fgets(line, sizeof(line), in)) {
		struct row *row = &table->rows[table->n];

		number++;
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (!header) {
			header = number;
			continue;
		}
		if (table->n == ROWS_MAX) {
			rc = sl_fail(-E2BIG, "%s: more than %u rows", path, ROWS_MAX);
			break;
		}
		memset(row, 0, sizeof(*row));
		memcpy(row->text, line, sizeof(line));
		row_split(row);
		if (row->n != files[which].n_fields)
			rc = sl_fail(-EINVAL, "%s: line %u: %u fields, must be %u", path,
				     number, row->n, files[which].n_fields);
		table->n++;
	}
	if (!rc && ferror(in))
		rc = sl_fail(-EIO, "%s: reading failed", path);
	fclose(in);
	return rc;
}

/* Fields point into their own row: only now that rows do not move any more. */
int
figures_expected_read(const char *data, struct figure_expected **out)
{
	struct figure_expected *expected = calloc(1, sizeof(*expected));
	int rc = 0;

	if (!expected)
		return sl_fail(-ENOMEM, "published values: out of memory");
	for (int which = 0; !rc && which < FILE_COUNT; which++)
		rc = table_read(&expected->tables[which], data, (enum file)which);
	if (rc) {
		figures_expected_destroy(expected);
		return rc;
	}
	*out = expected;
	return 0;
}

void
figures_expected_destroy(struct figure_expected *expected)
{
	if (!expected)
		return;
	for (int which = 0; which < FILE_COUNT; which++)
		free(expected->tables[which].rows);
	free(expected);
}

static double
number(const char *text)
{
	return strcmp(text, "inf") == 0 ? (double)INFINITY : strtod(text, NULL);
}

/* "figure,model,batch" and, in most tables, the policy fit the key? */
static int
row_fits(const struct row *row, const struct figure_key *key, unsigned policy_field)
{
	if (strcmp(row->fields[1], figure_models[key->model].name) != 0 ||
	    strtoul(row->fields[2], NULL, 10) != key->batch)
		return 0;
	return !policy_field ||
	       strcmp(row->fields[policy_field], figure_policy_names[key->policy]) == 0;
}

double
figures_published(const struct figures *figures, unsigned figure, const struct figure_key *key)
{
	const struct table *table = &figures->expected->tables[FILE_CYCLES];

	for (size_t i = 0; i < table->n; i++) {
		const struct row *row = &table->rows[i];

		if (strtoul(row->fields[0], NULL, 10) == figure && row_fits(row, key, 6) &&
		    strtoul(row->fields[3], NULL, 10) == key->host_gib &&
		    lround(strtod(row->fields[4], NULL) * 1000) == (long)key->store_mbps)
			return number(row->fields[7]);
	}
	return (double)NAN;
}

int
figures_published_row(const struct figures *figures, enum figure_table which,
		      const struct figure_key *key, double values[FIGURE_COLUMNS_MAX])
{
	static const enum file tables[FIGURE_TABLE_COUNT] = {
		[FIGURE_BREAKDOWN] = FILE_BREAKDOWN,
		[FIGURE_SLOWDOWN] = FILE_SLOWDOWN,
		[FIGURE_TRAFFIC] = FILE_TRAFFIC,
	};
	const struct table *table = &figures->expected->tables[tables[which]];

	for (size_t i = 0; i < table->n; i++) {
		const struct row *row = &table->rows[i];

		if (!row_fits(row, key, 3))
			continue;
		for (unsigned f = 4; f < row->n; f++)
			values[f - 4] = number(row->fields[f]);
		return 0;
	}
	return 1;
}

double
figures_published_noise(const struct figures *figures, const struct figure_key *key)
{
	const struct table *table = &figures->expected->tables[FILE_NOISE];

	for (size_t i = 0; i < table->n; i++) {
		const struct row *row = &table->rows[i];

		if (row_fits(row, key, 0) && lround(strtod(row->fields[3], NULL) * 100) ==
						     (long)key->noise_percent)
			return number(row->fields[4]);
	}
	return (double)NAN;
}

int
figures_published_loader(const struct figures *figures, unsigned i, struct figure_loader *out)
{
	const struct table *table = &figures->expected->tables[FILE_LOADER];
	const struct row *row = &table->rows[i];

	if (i >= table->n)
		return 1;
	out->model = FIGURE_MODEL_COUNT;
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++)
		if (strcmp(row->fields[0], figure_models[m].name) == 0)
			out->model = m;
	out->batch = (uint32_t)strtoul(row->fields[1], NULL, 10);
	out->n_tensors = strtoull(row->fields[2], NULL, 10);
	out->n_workspaces = strtoull(row->fields[3], NULL, 10);
	out->global_bytes = strtoull(row->fields[4], NULL, 10);
	out->total_bytes = strtoull(row->fields[5], NULL, 10);
	out->ideal_cycles = strtoull(row->fields[6], NULL, 10);
	return 0;
}
