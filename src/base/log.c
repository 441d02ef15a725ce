/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on standard error: "sluice: warning: store: text". SLUICE_LOG chooses them. It is
 * read once, at the first line. A part that cannot be read is reported and ignored. An exact
 * area wins over "*", a later entry over an earlier one; "off" silences.
 *
 * A line is composed on the stack and written by one write(2), so lines of several threads do
 * not mix. Longer lines are cut. There is no lock and no allocation. A table of ONCE_KEYS keys
 * remembers messages that are printed once. If it is full, further messages are printed every
 * time. errno and the thread's last error are left as they were.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 1024
#define AREA_BYTES 24
#define AREAS_MAX  16
#define ONCE_KEYS  256

#define LEVEL_OFF (-1)

struct area_level {
	char name[AREA_BYTES];
	int level; /* enum sl_log_level or LEVEL_OFF */
};

/* Set once, by levels_read(). */
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;
static struct area_level areas[AREAS_MAX];
static unsigned n_areas;
static int default_level = SL_WARN;

/* atomic: a place goes from NULL to a key once; several threads may race for it */
static _Atomic(const char *) once_keys[ONCE_KEYS];

static const char *const level_words[SL_LOG_LEVEL_COUNT] = {"error", "warn", "info", "debug"};
static const char *const level_titles[SL_LOG_LEVEL_COUNT] = {"error", "warning", "info",
							     "debug"};

/* Writes all or gives up: there is nobody to tell that telling failed. */
static void
line_write(const char *line, size_t length)
{
	while (length) {
		ssize_t n = write(STDERR_FILENO, line, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		line += n;
		length -= (size_t)n;
	}
}

SL_PRINTF(3, 0)
static void
line_print(enum sl_log_level level, const char *area, const char *fmt, va_list args)
{
	char line[LINE_BYTES];
	size_t at;
	int n;

	n = snprintf(line, sizeof(line), "sluice: %s: %.64s: ", level_titles[level], area);
	at = n < 0 ? 0 : (size_t)n;
	n = vsnprintf(line + at, sizeof(line) - at, fmt, args);
	if (n < 0)
		return;
	at += (size_t)n;
	if (at > sizeof(line) - 1) {
		at = sizeof(line) - 1;
		memset(line + at - 3, '.', 3);
	}
	line[at++] = '\n';
	line_write(line, at);
}

SL_PRINTF(3, 4)
static void
line_say(enum sl_log_level level, const char *area, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	line_print(level, area, fmt, args);
	va_end(args);
}

/* Level named by length bytes of text; -2: none. */
static int
level_find(const char *text, size_t length)
{
	if (length == 3 && !memcmp(text, "off", 3))
		return LEVEL_OFF;
	for (int i = 0; i < SL_LOG_LEVEL_COUNT; i++)
		if (strlen(level_words[i]) == length && !memcmp(text, level_words[i], length))
			return i;
	return -2;
}

/* One "area=level" of length bytes. */
static void
entry_read(const char *entry, size_t length)
{
	const char *equals = memchr(entry, '=', length);
	size_t name_length = equals ? (size_t)(equals - entry) : 0;
	int level = equals ? level_find(equals + 1, length - name_length - 1) : -2;

	if (level == -2 || name_length == 0 || name_length >= AREA_BYTES) {
		line_say(SL_WARN, "log",
			 "SLUICE_LOG: \"%.*s\" is left out; write area=level, with level "
			 "one of "
			 "error, warn, info, debug, off",
			 (int)(length < 64 ? length : 64), entry);
		return;
	}
	if (name_length == 1 && entry[0] == '*') {
		default_level = level;
		return;
	}
	if (n_areas == AREAS_MAX) {
		line_say(SL_WARN, "log",
			 "SLUICE_LOG: only %d areas are kept; \"%.*s\" is left out",
			 AREAS_MAX, (int)length, entry);
		return;
	}
	memcpy(areas[n_areas].name, entry, name_length);
	areas[n_areas].name[name_length] = '\0';
	areas[n_areas].level = level;
	n_areas++;
}

static void
levels_parse(const char *text)
{
	const char *at = text;

	while (*at) {
		size_t length = strcspn(at, ",");

		entry_read(at, length);
		at += length;
		if (*at == ',')
			at++;
	}
}

static void
levels_read(void)
{
	const char *text = getenv("SLUICE_LOG");

	if (text)
		levels_parse(text);
}

int
sl_log_enabled(enum sl_log_level level, const char *area)
{
	pthread_once(&settings_once, levels_read);
	for (unsigned i = n_areas; i-- > 0;)
		if (!strcmp(areas[i].name, area))
			return (int)level <= areas[i].level;
	return (int)level <= default_level;
}

void
sl_log(enum sl_log_level level, const char *area, const char *fmt, ...)
{
	int saved_errno = errno;
	va_list args;

	if (sl_log_enabled(level, area)) {
		va_start(args, fmt);
		line_print(level, area, fmt, args);
		va_end(args);
	}
	errno = saved_errno;
}

/* True for the one caller that is the first with this key. */
static int
once_claim(const char *key)
{
	for (unsigned i = 0; i < ONCE_KEYS; i++) {
		const char *there = atomic_load(&once_keys[i]);

		if (!there && atomic_compare_exchange_strong(&once_keys[i], &there, key))
			return 1;
		if (!strcmp(there, key))
			return 0;
	}
	return 1;
}

void
sl_log_once(const char *key, enum sl_log_level level, const char *area, const char *fmt, ...)
{
	int saved_errno = errno;
	va_list args;

	if (sl_log_enabled(level, area) && once_claim(key)) {
		va_start(args, fmt);
		line_print(level, area, fmt, args);
		va_end(args);
	}
	errno = saved_errno;
}
