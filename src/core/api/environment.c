/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of SLUICE_ variables (environment.h): those of the configuration's keys (config.c),
 * and here all others. tests/cli/test_environment.sh compares this list with the variables in
 * the tree.
 */
#include "core/environment.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/nearest.h"
#include "core/api/api.h"

#define PREFIX     "SLUICE_"
#define BUDGET_ANY ((uint64_t)1 << 46) /* every chunk fits */

/* Without a key; sluice(7) explains each. */
static const char *const others[] = {
	"SLUICE_CUBLAS_LIBRARY",  "SLUICE_CUDA_LIBRARY",    "SLUICE_CUFILE_LIBRARY",
	"SLUICE_FAULT",           "SLUICE_KERNELS",         "SLUICE_LOG",
	"SLUICE_PRELOAD_LIBRARY", "SLUICE_PRELOAD_LOOKUPS", "SLUICE_RUN",
	"SLUICE_SHARE_DIR",       "SLUICE_SOFT_LINK",       "SLUICE_SOFT_MOVE",
	"SLUICE_STORE_DELAY",
};

/* Of the tests. Known, and never suggested. */
static const char *const tests[] = {
	"SLUICE_BIN",
	"SLUICE_BUILD_DIR",
	"SLUICE_CUDA_INCLUDE",
	"SLUICE_EXAMPLES",
	"SLUICE_LIB",
	"SLUICE_PAPERS_BIN",
	"SLUICE_PRELOAD_LIBRARIES",
	"SLUICE_PRELOAD_PROGRAMS",
	"SLUICE_RANDOM_STEPS",
	"SLUICE_SANITIZE",
	"SLUICE_SOURCE_DIR",
	"SLUICE_STANDIN_LIBRARY",
	"SLUICE_STANDIN_PLAIN",
	"SLUICE_TEST_DIR",
	"SLUICE_TEST_LOG",
	"SLUICE_TEST_PTX",
};

static int
list_has(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return 1;
	return 0;
}

static int
is_known(const char *name)
{
	char key[SL_CONFIG_VARIABLE_BYTES];

	for (size_t i = 0; sl_config_variable(i, key); i++)
		if (strcmp(key, name) == 0)
			return 1;
	return list_has(others, sizeof(others) / sizeof(others[0]), name) ||
	       list_has(tests, sizeof(tests) / sizeof(tests[0]), name);
}

/* Offer all but those of the tests, without the prefix, which would make all of them alike. */
static void
names_offer(struct sl_nearest *nearest)
{
	char key[SL_CONFIG_VARIABLE_BYTES];

	for (size_t i = 0; sl_config_variable(i, key); i++)
		sl_nearest_offer(nearest, key + strlen(PREFIX));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		sl_nearest_offer(nearest, others[i] + strlen(PREFIX));
}

void
sl_environment_unknown(void (*fn)(const char *name, const char *meant, void *arg), void *arg)
{
	for (char **variable = environ; variable && *variable; variable++) {
		char name[SL_CONFIG_VARIABLE_BYTES], meant[SL_CONFIG_VARIABLE_BYTES];
		struct sl_nearest nearest = {.word = name + strlen(PREFIX)};
		size_t chars = strcspn(*variable, "=");

		/* A longer name than any of ours is somebody else's. */
		if (strncmp(*variable, PREFIX, strlen(PREFIX)) || chars >= sizeof(name))
			continue;
		memcpy(name, *variable, chars);
		name[chars] = '\0';
		if (is_known(name))
			continue;
		names_offer(&nearest);
		if (sl_nearest_name(&nearest))
			snprintf(meant, sizeof(meant), PREFIX "%s", nearest.name);
		fn(name, sl_nearest_name(&nearest) ? meant : NULL, arg);
	}
}

static void
unknown_log(const char *name, const char *meant, void *arg)
{
	(void)arg;
	sl_log(SL_WARN, "config", "%s is no variable of Sluice and changes nothing%s%s%s",
	       name, meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

static void
unknown_log_all(void)
{
	if (!getenv("SLUICE_RUN"))
		sl_environment_unknown(unknown_log, NULL);
}

static pthread_once_t warned = PTHREAD_ONCE_INIT;

void
sl_environment_warn(void)
{
	pthread_once(&warned, unknown_log_all);
}

static void
warn_not(void)
{
}

int
sl_environment_check(void)
{
	struct sluice_config config;
	int rc;

	pthread_once(&warned, warn_not);
	rc = sluice_config_init(&config);
	if (rc)
		return rc;
	config.device_budget_bytes = config.host_budget_bytes = BUDGET_ANY;
	return sl_config_round(&config);
}
