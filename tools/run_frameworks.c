/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of frameworks, by their own variables: allocate exactly, take no memory ahead. A
 * program's framework is not known before it runs, and other programs ignore the variables. So
 * all are set. At the first use of a GPU the library reports the frameworks in that process
 * (src/preload/report/announce.c has the words; sluice-run(1) and docs/run.md the table).
 *
 * A variable that the user has set stays. --no-framework NAME leaves one framework alone,
 * --keep-frameworks all of them. --baseline off sets none: that mode is for comparison with the
 * program as it is.
 *
 * Threads: one.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

struct framework {
	const char *name; /* as it is refused */
	const char *told; /* as the library announces it */
	const char *variable, *value;
	const char *why;
	const char *one_gpu; /* the value for a program that sees one GPU; NULL: the same */
};

static const struct framework frameworks[] = {
	{"pytorch", "pytorch", "PYTORCH_NO_CUDA_MEMORY_CACHING", "1",
	 "each tensor is an allocation of its own; CUDA graphs of PyTorch need its "
	 "caching: "
	 "--no-framework pytorch",
	 NULL},
	{"jax", "jax", "XLA_PYTHON_CLIENT_PREALLOCATE", "false",
	 "no arena of three quarters of the memory at the start", NULL},
	/* What cuda_async allocates is packed, and moves in fewer chunks. "platform" maps memory for all GPUs
	 * that the program sees: with several that has to be the driver's. */
	{"jax", "jax-allocator", "XLA_PYTHON_CLIENT_ALLOCATOR", "platform",
	 "each array is an allocation of its own", "cuda_async"},
	{"tensorflow", "tensorflow", "TF_FORCE_GPU_ALLOW_GROWTH", "true",
	 "no arena of all of the memory at the start", NULL},
};

/* Its own name, for it changes what the user has set. */
#define SEGMENTS     "expandable-segments"
#define SEGMENTS_KEY "expandable_segments"
#define CONF_BYTES   2048

static int
is_told_nothing(const struct run_options *options)
{
	return options->keep_frameworks ||
	       (options->baseline && strcmp(options->baseline, "off") == 0);
}

static int
is_refused(const struct run_options *options, const char *name)
{
	for (size_t i = 0; i < options->refused_n; i++)
		if (strcmp(options->refused[i], name) == 0)
			return 1;
	return 0;
}

static int
refused_check(const struct run_options *options)
{
	for (size_t i = 0; i < options->refused_n; i++) {
		int known = strcmp(options->refused[i], SEGMENTS) == 0;

		for (size_t k = 0; k < sizeof(frameworks) / sizeof(frameworks[0]); k++)
			known |= strcmp(options->refused[i], frameworks[k].name) == 0;
		if (!known)
			return sl_fail(
				-EINVAL,
				"--no-framework '%s': not one of pytorch, " SEGMENTS
				", jax, tensorflow",
				options->refused[i]);
	}
	return 0;
}

/* The user has asked JAX for its arena: then it is to have it. */
static int
arena_is_wanted(const struct framework *f)
{
	const char *text = getenv("XLA_PYTHON_CLIENT_PREALLOCATE");

	return !strcmp(f->told, "jax-allocator") && text && strcmp(text, "false") &&
	       strcmp(text, "0");
}

/* The GPUs that the program will see, as far as that can be told without the driver. */
static size_t
visible_gpus(void)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	const struct dirent *entry;
	size_t n = 0;
	DIR *dev;

	if (visible) {
		n = *visible != '\0';
		while ((visible = strchr(visible, ',')) != NULL) {
			visible++;
			n++;
		}
		return n;
	}
	dev = opendir("/dev");
	while (dev && (entry = readdir(dev)) != NULL)
		n += strncmp(entry->d_name, "nvidia", 6) == 0 &&
		     entry->d_name[6] >= '0' && entry->d_name[6] <= '9';
	if (dev)
		(void)closedir(dev);
	return n;
}

int
run_frameworks_mapped_auto(const struct run_options *options)
{
	return !is_told_nothing(options) && !is_refused(options, "jax");
}

/* Where "True" of "expandable_segments : True" begins in the text, NULL: it is not on. */
static const char *
segments_on(const char *text)
{
	for (const char *at = strstr(text, SEGMENTS_KEY); at;
	     at = strstr(at + 1, SEGMENTS_KEY)) {
		const char *value = at + strlen(SEGMENTS_KEY);

		value += strspn(value, " ");
		if (*value != ':')
			continue;
		value++;
		value += strspn(value, " ");
		if (strncmp(value, "True", 4) == 0)
			return value;
	}
	return NULL;
}

/* PyTorch would map memory by itself, past us: off. */
static int
segments_plan(struct run_plan *plan, const char *variable)
{
	const char *text = getenv(variable), *on = text ? segments_on(text) : NULL;
	char value[CONF_BYTES];
	int rc;

	if (!on)
		return 0;
	if ((size_t)snprintf(value, sizeof(value), "%.*sFalse%s", (int)(on - text), text,
			     on + 4) >= sizeof(value))
		return sl_fail(-EINVAL, "%s: longer than %d bytes", variable, CONF_BYTES - 6);
	rc = run_set(plan, variable, value, "expandable segments are mapped past us: off");
	if (!rc)
		run_note(plan,
			 "%s: " SEGMENTS_KEY
			 " set to False, such memory could not be moved "
			 "(--no-framework " SEGMENTS " leaves it on)",
			 variable);
	return rc;
}

int
run_frameworks_plan(struct run_plan *plan, const struct run_options *options)
{
	int rc = refused_check(options);
	size_t used = 0;

	if (rc || is_told_nothing(options))
		return rc;
	for (size_t i = 0; i < sizeof(frameworks) / sizeof(frameworks[0]) && !rc; i++) {
		const struct framework *f = &frameworks[i];

		if (getenv(f->variable) || is_refused(options, f->name) || arena_is_wanted(f))
			continue;
		rc = run_set(plan, f->variable,
			     f->one_gpu && visible_gpus() == 1 ? f->one_gpu : f->value,
			     "%s: %s", f->name, f->why);
		used += (size_t)snprintf(plan->frameworks + used,
					 sizeof(plan->frameworks) - used, "%s%s",
					 used ? "+" : "", f->told);
	}
	if (!rc && !is_refused(options, SEGMENTS)) {
		rc = segments_plan(plan, "PYTORCH_CUDA_ALLOC_CONF");
		if (!rc)
			rc = segments_plan(plan, "PYTORCH_ALLOC_CONF");
	}
	return rc;
}
