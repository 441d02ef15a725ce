/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines on stderr. A line is composed in a buffer on the stack and written with one write(2), so
 * lines of threads and processes do not mix. stdio is the program's and is left alone. Longer
 * lines are cut. errno is kept: wrappers may print between a call of the driver and the return
 * to the program.
 *
 * The caller decides whether a line is due (--quiet, --verbose, once or each time); only
 * pl_note() checks --quiet itself.
 *
 * Threads: any. Blocks on stderr alone.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "preload/loader/settings.h"
#include "preload/preload.h"

#define LINE_BYTES 1024

static void __attribute__((format(printf, 1, 0))) line_write(const char *format, va_list args)
{
	static const char prefix[] = "sluice: ";
	char line[LINE_BYTES];
	size_t n = sizeof(prefix) - 1;
	int saved = errno, chars;
	ssize_t written;

	memcpy(line, prefix, n);
	chars = vsnprintf(line + n, sizeof(line) - n - 1, format, args);
	if (chars < 0)
		chars = 0;
	n += (size_t)chars;
	if (n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	do
		written = write(STDERR_FILENO, line, n);
	while (written < 0 && errno == EINTR);
	errno = saved;
}

void
pl_note(const char *format, ...)
{
	va_list args;

	if (pl_settings()->quiet)
		return;
	va_start(args, format);
	line_write(format, args);
	va_end(args);
}

void
pl_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line_write(format, args);
	va_end(args);
}
