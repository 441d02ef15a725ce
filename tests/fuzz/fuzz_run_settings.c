/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text for SLUICE_RUN. A refused text is reported once and switches the library off. An
 * accepted one is silent. Every choice is one of its enum, every text ends inside its room, and
 * the same text gives the same settings again.
 *
 * The parser is a part of the preload library that is not linked here, and reads the environment
 * once a process. It is included, with the two functions that report.
 */
#include <stdarg.h>

#include "preload/loader/settings.c" /* NOLINT(bugprone-suspicious-include): see above */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int said;

void
pl_error(const char *format, ...)
{
	char line[8192];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (n <= 0 || !strstr(line, "SLUICE_RUN: "))
		abort();
	said++;
}

static void
text_check(const char text[VALUE_BYTES])
{
	if (!memchr(text, '\0', VALUE_BYTES))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct pl_settings first;
	int rc;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	said = 0;
	rc = settings_parse(text);
	if (rc) {
		if (rc != -EINVAL || said != 1 || settings.mode != PL_MODE_OFF)
			abort();
	} else if (said) {
		abort();
	}
	if ((unsigned)settings.mode > PL_MODE_OFF ||
	    (unsigned)settings.arguments > PL_ARGUMENTS_TRUST ||
	    (unsigned)settings.own_managed > 1 || (unsigned)settings.follow > PL_FOLLOW_AUTO ||
	    (unsigned)settings.meminfo_auto > 1 ||
	    (settings.meminfo_auto && settings.meminfo_physical))
		abort();
	text_check(settings.stats_path);
	text_check(settings.policies);
	text_check(settings.frameworks);
	first = settings;
	if (settings_parse(text) != rc || memcmp(&first, &settings, sizeof(first)))
		abort();
	free(text);
	return 0;
}
