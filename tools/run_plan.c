/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of `sluice run`: from the command line to the program's environment. LD_PRELOAD loads
 * the library, SLUICE_RUN has its settings, the SLUICE_ variables of sluice(7) those of its
 * spaces. Frameworks have their own variables. Paths become absolute: the program may change its
 * directory before it uses a GPU.
 *
 * A run inside a run is the inner one's: its library and its SLUICE_RUN replace the outer ones.
 *
 * Threads: one.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "commands.h"
#include "core/environment.h"
#include "run.h"
#include "sluice/sluice.h"

int
run_set(struct run_plan *plan, const char *name, const char *value, const char *why, ...)
{
	size_t at = 0;
	va_list args;
	char *copy;

	while (at < plan->variable_n && strcmp(plan->variables[at].name, name) != 0)
		at++;
	if (at == RUN_VARS_MAX)
		return sl_fail(-ENOBUFS, "%s: more than %d variables to set", name,
			       RUN_VARS_MAX);
	copy = strdup(value);
	if (!copy)
		return sl_fail(-ENOMEM, "out of memory");
	if (at == plan->variable_n) {
		plan->variable_n++;
		snprintf(plan->variables[at].name, sizeof(plan->variables[at].name), "%s",
			 name);
	}
	free(plan->variables[at].value);
	plan->variables[at].value = copy;
	va_start(args, why);
	vsnprintf(plan->variables[at].why, sizeof(plan->variables[at].why), why, args);
	va_end(args);
	return 0;
}

int
run_setting(struct run_plan *plan, const char *key, const char *value)
{
	size_t used = strlen(plan->settings), room = sizeof(plan->settings);
	size_t need = strlen(key) + 2 * strlen(value) + 3;

	if (used + need > room)
		return sl_fail(-ENOBUFS, "%s: the settings are longer than %zu bytes",
			       key, room);
	used += (size_t)snprintf(plan->settings + used, room - used,
				 "%s%s=", used ? "," : "", key);
	for (; *value; value++) {
		if (*value == ',' || *value == '\\')
			plan->settings[used++] = '\\';
		plan->settings[used++] = *value;
	}
	plan->settings[used] = '\0';
	return 0;
}

void
run_note(struct run_plan *plan, const char *fmt, ...)
{
	va_list args;

	if (plan->note_n == RUN_NOTES_MAX)
		return;
	va_start(args, fmt);
	vsnprintf(plan->notes[plan->note_n++], sizeof(plan->notes[0]), fmt, args);
	va_end(args);
}

void
run_plan_fini(struct run_plan *plan)
{
	for (size_t i = 0; i < plan->variable_n; i++)
		free(plan->variables[i].value);
	plan->variable_n = 0;
}

int
run_plan_apply(const struct run_plan *plan)
{
	for (size_t i = 0; i < plan->variable_n; i++)
		if (setenv(plan->variables[i].name, plan->variables[i].value, 1))
			return sl_fail(-errno, "%s: %s", plan->variables[i].name,
				       strerror(errno));
	return 0;
}

/* ---- parts ---- */

/* Ours first, then what there was, without an outer run's library. */
static int
preload_plan(struct run_plan *plan)
{
	const char *was = getenv("LD_PRELOAD");
	char value[RUN_VALUE_ROOM];
	size_t used = strlen(plan->library);
	SL_CLEANUP(free) char *copy = strdup(was ? was : "");
	char *save = NULL;
	int others = 0;

	if (!copy)
		return sl_fail(-ENOMEM, "out of memory");
	memcpy(value, plan->library, used + 1);
	for (char *word = strtok_r(copy, ": ", &save); word;
	     word = strtok_r(NULL, ": ", &save)) {
		const char *slash = strrchr(word, '/');

		if (strcmp(slash ? slash + 1 : word, RUN_LIBRARY) == 0)
			continue;
		if (used + strlen(word) + 2 > sizeof(value))
			return sl_fail(-ENOBUFS, "LD_PRELOAD is longer than %d bytes",
				       RUN_VALUE_ROOM);
		used += (size_t)snprintf(value + used, sizeof(value) - used, ":%s", word);
		others = 1;
	}
	return run_set(plan, "LD_PRELOAD", value, "%s",
		       others ? "loads the library, and what was there before"
			      : "loads the library");
}

static int
is_one_of(const char *value, const char *choices)
{
	size_t n = strlen(value);

	for (const char *at = choices;; at++) {
		size_t chars = strcspn(at, "|");

		if (chars == n && n && strncmp(at, value, n) == 0)
			return 1;
		at += chars;
		if (!*at)
			return 0;
	}
}

/*
 * A word of choices, "a|b|c". words: NULL, or pairs, ended by NULL, of a word and what the preload
 * library calls it; that is accepted as well, since it was the option's word before.
 */
static int
choice_plan(struct run_plan *plan, const char *option, const char *key, const char *value,
	    const char *choices, const char *const *words)
{
	if (!value)
		return 0;
	for (; words && *words; words += 2)
		if (!strcmp(value, words[0]) || !strcmp(value, words[1]))
			return run_setting(plan, key, words[1]);
	if (is_one_of(value, choices))
		return run_setting(plan, key, value);
	return sl_fail(-EINVAL, "%s '%s': not one of %s", option, value, choices);
}

/* Where a file of the run goes, absolute; an old one is not there any more when the program runs. */
static int
file_plan(struct run_plan *plan, const char *option, const char *key, const char *path)
{
	char dir[PATH_MAX], real[PATH_MAX], value[PATH_MAX + NAME_MAX + 2];
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct stat st;

	if (strlen(path) >= sizeof(dir))
		return sl_fail(-ENAMETOOLONG, "%s: the name is too long", option);
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) + 1 : 1,
		 slash ? path : ".");
	if (!*name)
		return sl_fail(-EISDIR, "%s %s: a directory; name a file", option, path);
	if (!realpath(dir, real))
		return sl_fail(-errno, "%s %s: %s: %s", option, path, dir, strerror(errno));
	snprintf(value, sizeof(value), "%s/%s", strcmp(real, "/") ? real : "", name);
	if (!lstat(value, &st) && !S_ISREG(st.st_mode))
		return sl_fail(-EINVAL, "%s %s: is there, and not a plain file", option,
			       path);
	if (access(real, W_OK | X_OK))
		return sl_fail(-errno, "%s %s: no file can be made in %s: %s", option,
			       path, real, strerror(errno));
	if (strlen(value) > 1000) /* the library has room for 1,023 */
		return sl_fail(-ENAMETOOLONG, "%s: the name is too long", option);
	return run_setting(plan, key, value);
}

static int
record_plan(struct run_plan *plan, const struct run_options *options)
{
	const char *launches = options->record_launches;
	uint64_t number;
	int rc;

	if (launches && !options->record)
		return sl_fail(-EINVAL, "--record-launches goes with --record");
	if (launches && command_number(launches, 1, 1u << 24, &number))
		return sl_fail(-EINVAL, "--record-launches %s is not a number of 1 to %u",
			       launches, 1u << 24);
	rc = options->record ? file_plan(plan, "--record", "record", options->record) : 0;
	if (!rc && launches)
		rc = run_setting(plan, "record_launches", launches);
	return rc;
}

static int
timeline_plan(struct run_plan *plan, const struct run_options *options)
{
	const char *size = options->timeline_size;
	uint64_t bytes = 0;
	char mib[32];
	int rc;

	if (size && !options->timeline)
		return sl_fail(-EINVAL, "--timeline-size goes with --timeline");
	if (size &&
	    (sl_size_parse(size, &bytes) || bytes < (1u << 20) || bytes > (1ull << 40)))
		return sl_fail(-EINVAL, "--timeline-size %s is not a size of 1M to 1T", size);
	rc = options->timeline
		     ? file_plan(plan, "--timeline", "timeline", options->timeline)
		     : 0;
	if (rc || !size)
		return rc;
	snprintf(mib, sizeof(mib), "%" PRIu64, bytes >> 20);
	return run_setting(plan, "timeline_mib", mib);
}

/* Two files of the run must not be one. */
static int
files_differ(const struct run_options *o)
{
	const struct {
		const char *option, *path;
	} files[] = {{"--stats", o->stats},
		     {"--record", o->record},
		     {"--timeline", o->timeline}};

	for (size_t i = 0; i < 3; i++)
		for (size_t k = i + 1; k < 3; k++)
			if (files[i].path && files[k].path &&
			    !strcmp(files[i].path, files[k].path))
				return sl_fail(-EINVAL, "%s and %s name the same file, '%s'",
					       files[i].option, files[k].option,
					       files[i].path);
	return 0;
}

/* With whom the memory of a GPU is shared. */
static int
share_plan(struct run_plan *plan, const struct run_options *options)
{
	static const char on[] = "1";
	uint64_t bytes, parts, seconds;
	char mib[32];
	int rc;

	if (options->leave && (sl_size_parse(options->leave, &bytes) ||
			       bytes < (1u << 20) || bytes > (1ull << 40)))
		return sl_fail(-EINVAL, "--leave %s is not a size of 1M to 1T",
			       options->leave);
	if (options->share && command_number(options->share, 1, 1000, &parts))
		return sl_fail(-EINVAL, "--share %s is not a number of 1 to 1000",
			       options->share);
	if (options->turn && command_number(options->turn, 1, 3600, &seconds))
		return sl_fail(-EINVAL, "--turn %s is not a number of seconds, 1 to 3600",
			       options->turn);
	if (options->alone || (options->baseline && strcmp(options->baseline, "paged")))
		return 0;
	rc = run_setting(plan, "share", on);
	if (!rc && options->share)
		rc = run_setting(plan, "weight", options->share);
	if (!rc && options->turn)
		rc = run_setting(plan, "turn_s", options->turn);
	if (!rc && options->leave) {
		snprintf(mib, sizeof(mib), "%" PRIu64, bytes >> 20);
		rc = run_setting(plan, "leave_mib", mib);
	}
	if (!rc && options->suspended)
		rc = run_setting(plan, "suspended", on);
	return rc;
}

static int
kernel_rules_plan(struct run_plan *plan, const char *path)
{
	char real[PATH_MAX];

	if (!realpath(path, real) || access(real, R_OK))
		return sl_fail(-errno, "--kernel-rules %s: %s", path, strerror(errno));
	if (strlen(real) > 1000)
		return sl_fail(-ENAMETOOLONG, "--kernel-rules: the name is too long");
	return run_setting(plan, "policies", real);
}

/* Settings of the spaces, each by its variable. */
static int
sets_plan(struct run_plan *plan, const struct run_options *options)
{
	/* Those with an option of their own, or none. */
	static const char *const taken[][2] = {
		{"device_budget", "--device-memory"},
		{"host_budget", "--host-memory"},
		{"store_budget", "--store-memory"},
		{"spill_dirs", "--spill-dir"},
		{"compress", "--compress"},
		{"device", "a GPU in any case"},
		{"share", "--alone"},
		{"device_number", "CUDA_VISIBLE_DEVICES"},
	};
	struct sluice_config config = {0};
	int rc = 0;

	if (options->compress) {
		char pair[64];

		snprintf(pair, sizeof(pair), "compress=%.32s", options->compress);
		if (strchr(pair, ',') || sluice_config_parse(&config, pair))
			return sl_fail(-EINVAL, "--compress '%s': auto|always|never",
				       options->compress);
		rc = run_set(plan, "SLUICE_COMPRESS", options->compress, "--compress");
	} else if (!getenv("SLUICE_COMPRESS")) {
		rc = run_set(plan, "SLUICE_COMPRESS", "auto", "fewer bytes to move");
	}
	/* Only root and the same user are answered. */
	if (!rc && !getenv("SLUICE_PUBLISH"))
		rc = run_set(plan, "SLUICE_PUBLISH", "1", "`sluice stat` may look");
	for (size_t i = 0; !rc && i < options->set_n; i++) {
		const char *pair = options->sets[i], *equals = strchr(pair, '=');
		size_t chars = equals ? (size_t)(equals - pair) : strlen(pair);
		char name[64] = "SLUICE_";
		size_t n = strlen(name);

		for (size_t k = 0; k < sizeof(taken) / sizeof(taken[0]); k++)
			if (strlen(taken[k][0]) == chars && !strncmp(pair, taken[k][0], chars))
				return sl_fail(-EINVAL, "--set %s: it is %s", pair,
					       taken[k][1]);
		if (strchr(pair, ','))
			return sl_fail(-EINVAL, "--set %s: one setting each", pair);
		rc = sluice_config_parse(&config, pair);
		if (rc)
			return sl_fail_in(rc, "--set");
		for (size_t k = 0; k < chars && n + 1 < sizeof(name); k++)
			name[n++] = (char)toupper((unsigned char)pair[k]);
		name[n] = '\0';
		rc = run_set(plan, name, equals + 1, "--set");
	}
	return rc;
}

static int
settings_plan(struct run_plan *plan, const struct run_options *options)
{
	static const char on[] = "1";
	char first[16];
	static const char *const paged[] = {"paged", "paged", NULL};
	static const char *const served[] = {"sluice", "ours", NULL};
	static const char *const prefetch[] = {"on", "always", "off", "never", NULL};
	int rc = choice_plan(plan, "--baseline", "mode", options->baseline,
			     "naive|opt|off", paged);

	if (!rc)
		rc = choice_plan(plan, "--kernel-args", "arguments", options->kernel_args,
				 "learn|all|trust", NULL);
	if (!rc)
		rc = choice_plan(plan, "--report-memory", "meminfo",
				 options->report_memory, "virtual|physical|auto", NULL);
	if (!rc)
		rc = choice_plan(plan, "--managed", "managed", options->managed,
				 "sluice|driver", served);
	if (!rc)
		rc = choice_plan(plan, "--vmm-memory", "mapped",
				 options->vmm_memory || !run_frameworks_mapped_auto(options)
					 ? options->vmm_memory
					 : "auto",
				 "auto|sluice|all|driver", served);
	if (!rc)
		rc = choice_plan(plan, "--prefetch", "follow", options->prefetch,
				 "auto|on|off", prefetch);
	if (!rc)
		rc = files_differ(options);
	if (!rc && options->explain)
		rc = run_setting(plan, "explain", on);
	if (!rc && options->quiet)
		rc = run_setting(plan, "quiet", on);
	if (!rc && options->verbose)
		rc = run_setting(plan, "verbose", on);
	if (!rc && options->doctor)
		rc = run_setting(plan, "doctor", on);
	/* A log has no use for it: only a person can look what is wrong. */
	if (!rc && !options->doctor && !options->quiet && isatty(STDERR_FILENO)) {
		snprintf(first, sizeof(first), "%d", (int)getpid());
		rc = run_setting(plan, "first", first);
	}
	if (!rc && options->stats)
		rc = file_plan(plan, "--stats", "stats", options->stats);
	if (!rc)
		rc = record_plan(plan, options);
	if (!rc)
		rc = timeline_plan(plan, options);
	if (!rc && options->kernel_rules)
		rc = kernel_rules_plan(plan, options->kernel_rules);
	if (!rc && plan->frameworks[0])
		rc = run_setting(plan, "frameworks", plan->frameworks);
	if (!rc)
		rc = share_plan(plan, options);
	return rc;
}

static void
unknown_note(const char *name, const char *meant, void *plan)
{
	run_note(plan, "%s is no variable of Sluice and changes nothing%s%s%s", name,
		 meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

int
run_plan_make(struct run_plan *plan, const struct run_options *options)
{
	int rc = run_library_find(options->library, plan->library);

	sl_environment_unknown(unknown_note, plan);
	if (!rc)
		rc = sl_environment_check();
	if (!rc)
		rc = preload_plan(plan);
	if (!rc)
		rc = run_budget_plan(plan, options);
	if (!rc)
		rc = sets_plan(plan, options);
	if (!rc)
		rc = run_frameworks_plan(plan, options);
	if (!rc)
		rc = settings_plan(plan, options);
	/* Also when there is nothing to say: an outer run's settings must not be taken. */
	if (!rc)
		rc = run_set(plan, "SLUICE_RUN", plan->settings, "settings of the library");
	return rc;
}
