/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings in SLUICE_RUN: "key=value,key=value", as `sluice run` writes it, or a person
 * beside LD_PRELOAD (sluice-run(1) lists the keys). A comma or backslash inside a value has a
 * backslash before it. Budgets, spill directories and the like are settings of the spaces and
 * have variables of their own (sluice(7)); gpu.c reads those.
 *
 * Read once, at the first call of the driver. An unreadable setting is reported in one line, and
 * cuInit() then fails with CU_ERROR_INVALID_VALUE. A program with half of its settings would be
 * worse than one that does not start.
 *
 * Threads: any. Does not block.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/loader/settings.h"
#include "preload/preload.h"

#define KEY_BYTES   64
#define VALUE_BYTES 1024
#define COUNT_MAX   16777216u
#define RECORD_LAUNCHES \
	262144u           /* where nobody says; some 50 MB with a handful of uses each */
#define TIMELINE_MIB 256u /* where nobody says; a million events */

enum field_type { FIELD_CHOICE, FIELD_FLAG, FIELD_COUNT, FIELD_TEXT };

struct field {
	const char *key;
	enum field_type type;
	size_t offset;
	const char *choices; /* separated by '|', in the order of the enum */
};

#define AT(name) offsetof(struct pl_settings, name)
static const struct field fields[] = {
	{"mode", FIELD_CHOICE, AT(mode), "paged|naive|opt|off"},
	{"arguments", FIELD_CHOICE, AT(arguments), "learn|all|trust"},
	{"managed", FIELD_CHOICE, AT(own_managed), "driver|ours"},
	{"mapped", FIELD_CHOICE, AT(mapped), "ours|all|driver|auto"},
	{"follow", FIELD_CHOICE, AT(follow), "never|always|auto"},
	{"explain", FIELD_FLAG, AT(explain), NULL},
	{"verbose", FIELD_FLAG, AT(verbose), NULL},
	{"quiet", FIELD_FLAG, AT(quiet), NULL},
	{"doctor", FIELD_FLAG, AT(doctor), NULL},
	{"share", FIELD_FLAG, AT(share), NULL},
	{"weight", FIELD_COUNT, AT(weight), NULL},
	{"turn_s", FIELD_COUNT, AT(turn_s), NULL},
	{"leave_mib", FIELD_COUNT, AT(leave_mib), NULL},
	{"suspended", FIELD_FLAG, AT(suspended), NULL},
	{"first", FIELD_COUNT, AT(first), NULL},
	{"stats", FIELD_TEXT, AT(stats_path), NULL},
	{"record", FIELD_TEXT, AT(record_path), NULL},
	{"record_launches", FIELD_COUNT, AT(record_launches), NULL},
	{"timeline", FIELD_TEXT, AT(timeline_path), NULL},
	{"timeline_mib", FIELD_COUNT, AT(timeline_mib), NULL},
	{"policies", FIELD_TEXT, AT(policies), NULL},
	{"frameworks", FIELD_TEXT, AT(frameworks), NULL},
};
#undef AT

static struct pl_settings settings;
static int settings_result;
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

/* Number of value among choices, -1: none of them. */
static int
choice_find(const char *choices, const char *value)
{
	size_t n = strlen(value);

	for (int i = 0;; i++) {
		size_t chars = strcspn(choices, "|");

		if (chars == n && !strncmp(choices, value, n))
			return i;
		if (!choices[chars])
			return -1;
		choices += chars + 1;
	}
}

/* A number from 1 to COUNT_MAX, in digits. 0, or -EINVAL after it was said. */
static int
count_set(unsigned *to, const char *key, const char *value)
{
	unsigned count = 0;

	for (const char *c = value; *c >= '0' && *c <= '9' && count <= COUNT_MAX; c++)
		count = count * 10 + (unsigned)(*c - '0');
	if (!count || count > COUNT_MAX || value[strspn(value, "0123456789")]) {
		pl_error("SLUICE_RUN: %s=%s: a number from 1 to %u wanted", key, value,
			 COUNT_MAX);
		return -EINVAL;
	}
	*to = count;
	return 0;
}

/* 0, or -EINVAL after it was said. */
static int
field_set(const struct field *field, const char *value)
{
	char *at = (char *)&settings + field->offset;
	int choice;

	switch (field->type) {
	case FIELD_CHOICE:
		choice = choice_find(field->choices, value);
		if (choice < 0) {
			pl_error("SLUICE_RUN: %s=%s: not one of %s", field->key, value,
				 field->choices);
			return -EINVAL;
		}
		*(int *)(void *)at = choice;
		return 0;
	case FIELD_FLAG:
		if (strcmp(value, "0") && strcmp(value, "1")) {
			pl_error("SLUICE_RUN: %s=%s: 0 or 1 wanted", field->key, value);
			return -EINVAL;
		}
		*(int *)(void *)at = value[0] == '1';
		return 0;
	case FIELD_COUNT:
		return count_set((unsigned *)(void *)at, field->key, value);
	case FIELD_TEXT: /* each has that much room */
		memcpy(at, value, strlen(value) + 1);
		return 0;
	}
	return -EINVAL;
}

static int
meminfo_set(const char *value)
{
	int choice = choice_find("virtual|physical|auto", value);

	if (choice < 0) {
		pl_error("SLUICE_RUN: meminfo=%s: not one of virtual|physical|auto", value);
		return -EINVAL;
	}
	settings.meminfo_physical = choice == 1;
	settings.meminfo_auto = choice == 2;
	return 0;
}

static int
pair_set(const char *key, const char *value)
{
	if (!strcmp(key, "meminfo"))
		return meminfo_set(value);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(key, fields[i].key))
			return field_set(&fields[i], value);
	pl_error("SLUICE_RUN: unknown key \"%s\": sluice-run(1) lists them", key);
	return -EINVAL;
}

/* Cut one pair off *text. 1, 0 at the end, -EINVAL after it was said. */
static int
pair_cut(const char **text, char key[KEY_BYTES], char value[VALUE_BYTES])
{
	const char *at = *text;
	size_t chars = strcspn(at, "=,"), n = 0;

	if (!*at)
		return 0;
	if (at[chars] != '=' || !chars || chars >= KEY_BYTES) {
		pl_error("SLUICE_RUN: \"%.*s\" is not key=value",
			 chars > 64 ? 64 : (int)chars, at);
		return -EINVAL;
	}
	memcpy(key, at, chars);
	key[chars] = '\0';
	for (at += chars + 1; *at && *at != ','; at++) {
		if (*at == '\\' && at[1])
			at++;
		if (n + 1 >= VALUE_BYTES) {
			pl_error("SLUICE_RUN: %s: value longer than %d bytes", key,
				 VALUE_BYTES - 1);
			return -EINVAL;
		}
		value[n++] = *at;
	}
	value[n] = '\0';
	*text = *at == ',' ? at + 1 : at;
	return 1;
}

/* All of text, over the defaults. 0, or -EINVAL after it was said: then the library is off. */
static int
settings_parse(const char *text)
{
	char key[KEY_BYTES], value[VALUE_BYTES];
	int rc = 0;

	_Static_assert(sizeof(settings.stats_path) == VALUE_BYTES &&
			       sizeof(settings.record_path) == VALUE_BYTES &&
			       sizeof(settings.timeline_path) == VALUE_BYTES &&
			       sizeof(settings.policies) == VALUE_BYTES &&
			       sizeof(settings.frameworks) == VALUE_BYTES,
		       "room of texts");
	memset(&settings, 0, sizeof(settings));
	settings.follow = PL_FOLLOW_AUTO;
	settings.record_launches = RECORD_LAUNCHES;
	settings.timeline_mib = TIMELINE_MIB;
	settings.meminfo_auto = 1;
	while ((rc = pair_cut(&text, key, value)) > 0) {
		rc = pair_set(key, value);
		if (rc)
			break;
	}
	if (rc)
		settings.mode = PL_MODE_OFF;
	return rc;
}

static void
settings_read(void)
{
	const char *text = getenv("SLUICE_RUN");

	if (settings_parse(text ? text : ""))
		settings_result = CU_ERROR_INVALID_VALUE;
}

const struct pl_settings *
pl_settings(void)
{
	pthread_once(&settings_once, settings_read);
	return &settings;
}

int
pl_settings_result(void)
{
	(void)pl_settings();
	return settings_result;
}
