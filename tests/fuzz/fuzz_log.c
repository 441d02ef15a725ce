/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text for SLUICE_LOG. The setting is read once per process, and no function sets it. So
 * this file includes log.c to call its parser, and resets the table each time. The parser's
 * complaints go to /dev/null. Afterwards the table must be within its bounds, its names ended,
 * its levels known.
 */
#include "base/log.c" /* NOLINT(bugprone-suspicious-include): see above */

#include <fcntl.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
parse_quietly(const char *text)
{
	int saved = dup(STDERR_FILENO);
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (saved < 0 || null < 0)
		abort();
	dup2(null, STDERR_FILENO);
	levels_parse(text);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(null);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';

	(void)sl_log_enabled(SL_ERROR, "x"); /* the environment is not read later */
	n_areas = 0;
	default_level = SL_WARN;
	parse_quietly(text);
	if (n_areas > AREAS_MAX || default_level < LEVEL_OFF || default_level > SL_DEBUG)
		abort();
	for (unsigned i = 0; i < n_areas; i++) {
		size_t length = strnlen(areas[i].name, AREA_BYTES);

		if (length == 0 || length == AREA_BYTES || areas[i].level < LEVEL_OFF ||
		    areas[i].level > SL_DEBUG)
			abort();
	}
	free(text);
	return 0;
}
