/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/preload/api.tbl is in order, and has every function type of an installed toolkit. Each
 * (name, version, flavour) that the headers declare is a row, and no row lacks a declaration.
 * Types of later CUDA versions than the table's are counted and ignored. SLUICE_CUDA_INCLUDE
 * names another folder than /usr/local/cuda/include. Without a toolkit the comparison is
 * skipped.
 */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/api/api_index.h"

struct row {
	const char *exported, *base;
	int version;
	enum pl_api_flavour flavour;
	const char *flavour_name;
};

static const struct row rows[] = {
#define PL_API(exported, base, version, flavour, class, group) \
	{#exported, #base, (version), PL_API_##flavour, #flavour},
#include "preload/api.tbl"
#undef PL_API
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static const char *const headers[] = {"cudaTypedefs.h", "cudaGLTypedefs.h",
				      "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h",
				      "cudaProfilerTypedefs.h"};

static int failed;
static int declared[N_ROWS];

static int
rows_in_order(const struct row *a, const struct row *b)
{
	int order = strcmp(a->base, b->base);

	if (order)
		return order < 0;
	if ((a->flavour == PL_API_LEGACY) != (b->flavour == PL_API_LEGACY))
		return a->flavour == PL_API_LEGACY;
	return a->version < b->version;
}

static void
rows_are_sorted_and_named_by_the_rule(void)
{
	char name[256];

	for (size_t i = 0; i < N_ROWS; i++) {
		int number = 0;

		if (i && !rows_in_order(&rows[i - 1], &rows[i])) {
			printf("%s stands behind %s\n", rows[i].exported,
			       rows[i - 1].exported);
			failed = 1;
		}
		for (size_t k = 0; k < N_ROWS; k++)
			number += !strcmp(rows[k].base, rows[i].base) &&
				  rows[k].flavour == PL_API_LEGACY &&
				  rows[k].version <= rows[i].version;
		snprintf(name, sizeof(name), "%s", rows[i].base);
		if (number > 1)
			snprintf(name + strlen(name), sizeof(name) - strlen(name), "_v%d",
				 number);
		if (rows[i].flavour != PL_API_LEGACY)
			snprintf(name + strlen(name), sizeof(name) - strlen(name), "_%s",
				 rows[i].flavour == PL_API_PTDS ? "ptds" : "ptsz");
		if (strcmp(name, rows[i].exported) != 0) {
			printf("%s: by the rule %s\n", rows[i].exported, name);
			failed = 1;
		}
		if (strcmp(pl_api_name((enum sl_api)i), rows[i].exported) != 0 ||
		    pl_api_base_compare((enum sl_api)i, rows[i].base) != 0 ||
		    (int)pl_api_facts((enum sl_api)i)->version != rows[i].version) {
			printf("%s: api_index.c has something else\n", rows[i].exported);
			failed = 1;
		}
	}
}

/* One type: "cuMemcpy_v7000_ptds". */
static void
type_compare(const char *type, int *n_later)
{
	enum pl_api_flavour flavour = PL_API_LEGACY;
	char base[256];
	char *end;
	int version;

	snprintf(base, sizeof(base), "%s", type);
	end = base + strlen(base);
	if (end - base > 5 && (!strcmp(end - 5, "_ptds") || !strcmp(end - 5, "_ptsz"))) {
		flavour = end[-1] == 's' ? PL_API_PTDS : PL_API_PTSZ;
		end[-5] = '\0';
	}
	end = strrchr(base, '_');
	if (!end || end[1] != 'v' || !strncmp(base, "cuWGL", 5)) /* Windows */
		return;
	version = atoi(end + 2);
	*end = '\0';
	for (size_t i = 0; i < N_ROWS; i++)
		if (!strcmp(rows[i].base, base) && rows[i].version == version &&
		    rows[i].flavour == flavour) {
			declared[i]++;
			return;
		}
	if (version > PL_API_VERSION) {
		(*n_later)++;
		return;
	}
	printf("%s is not in api.tbl\n", type);
	failed = 1;
}

/* Types declared in a header; -1: it is not there. */
static int
header_compare(const char *path, int *n_later)
{
	static const char mark[] = "PFN_";
	FILE *header = fopen(path, "r");
	char line[8192], type[256];
	int n = 0;

	if (!header)
		return -1;
	while (fgets(line, sizeof(line), header)) {
		const char *at = strstr(line, "typedef");
		size_t chars = 0;

		at = at ? strstr(at, mark) : NULL;
		if (!at)
			continue;
		for (at += sizeof(mark) - 1;
		     isalnum((unsigned char)at[chars]) || at[chars] == '_';)
			chars++;
		/* A function's: ")(" behind the name. */
		if (at[chars] != ')' || chars >= sizeof(type))
			continue;
		memcpy(type, at, chars);
		type[chars] = '\0';
		type_compare(type, n_later);
		n++;
	}
	fclose(header);
	return n;
}

int
main(void)
{
	const char *dir = getenv("SLUICE_CUDA_INCLUDE");
	char path[PATH_MAX];
	int n, n_later = 0, n_types = 0;

	rows_are_sorted_and_named_by_the_rule();
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s",
			 dir && *dir ? dir : "/usr/local/cuda/include", headers[i]);
		n = header_compare(path, &n_later);
		if (n < 0 && i == 0) {
			printf("%s is not there: the table is not compared with it\n", path);
			return failed ? 1 : 77;
		}
		n_types += n > 0 ? n : 0;
	}
	if (n_types < 600) {
		printf("only %d types were read\n", n_types);
		failed = 1;
	}
	/* A toolkit older than the table's does not declare all of it, a newer one may have dropped some. */
	for (size_t i = 0; i < N_ROWS; i++)
		if (declared[i] != 1) {
			printf("%s is declared %d times\n", rows[i].exported, declared[i]);
			failed |= declared[i] > 1;
		}
	printf("%d types, %d of later versions\n", n_types, n_later);
	return failed;
}
