/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a thread's last failure, and the library's version.
 *
 * Each thread has one fixed buffer in static thread-local storage (initial-exec). An access
 * never allocates, so a first failure inside a signal handler is safe. A new text is composed on
 * the stack and then copied, since its arguments may point into the old one. A handler that
 * interrupts the copy can mix two texts, but the text always has an end. errno is left as it
 * was.
 *
 * include/sluice/error.h lists the errors and their remedies. Threads: any; nothing is shared.
 */
#include "base/error.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifndef SLUICE_VERSION
#error "SLUICE_VERSION comes from the build (CMakeLists.txt): \"MAJOR.MINOR.PATCH\""
#endif

/* scripts/analyze.h has macros of these names. */
#undef sl_fail
#undef sl_fail_in
#undef sl_fail_text

static _Thread_local char error_text[SL_ERROR_TEXT_BYTES]
	__attribute__((tls_model("initial-exec")));

/* Cuts at the end; cut texts end in "..." so that nobody takes them for whole. */
static void
text_keep(const char *text, size_t length)
{
	if (length >= sizeof(error_text)) {
		memcpy(error_text, text, sizeof(error_text) - 4);
		memcpy(error_text + sizeof(error_text) - 4, "...", 4);
		return;
	}
	memcpy(error_text, text, length);
	error_text[length] = '\0';
}

int
sl_fail(int rc, const char *fmt, ...)
{
	char text[SL_ERROR_TEXT_BYTES + 1];
	int saved_errno = errno;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (n < 0)
		text_keep(fmt, strlen(fmt)); /* a broken format still says something */
	else
		text_keep(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
	errno = saved_errno;
	return rc;
}

int
sl_fail_in(int rc, const char *fmt, ...)
{
	char text[2 * SL_ERROR_TEXT_BYTES + 2];
	int saved_errno = errno;
	size_t prefix_length, length;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, SL_ERROR_TEXT_BYTES, fmt, args);
	va_end(args);
	if (n < 0)
		text[0] = '\0';
	prefix_length = strlen(text);
	length = strlen(error_text);
	memcpy(text + prefix_length, ": ", 2);
	memcpy(text + prefix_length + 2, error_text, length);
	text_keep(text, prefix_length + 2 + length);
	errno = saved_errno;
	return rc;
}

int
sl_fail_text(int rc, const char *text)
{
	char copy[SL_ERROR_TEXT_BYTES + 1];
	size_t length = strnlen(text, SL_ERROR_TEXT_BYTES);

	memcpy(copy, text, length); /* text may be this thread's own */
	copy[length] = '\0';
	text_keep(copy, length);
	return rc;
}

const char *
sl_errno_name(int rc)
{
	const char *name;

	if (rc == 0 || rc == INT_MIN)
		return "E?";
	if (rc == -ENOTSUP || rc == ENOTSUP)
		return "ENOTSUP"; /* as in sluice/error.h; Linux has a second name for it */
	name = strerrorname_np(rc < 0 ? -rc : rc);
	return name ? name : "E?";
}

const char *
sluice_last_error(void)
{
	return error_text;
}

const char *
sluice_version(void)
{
	return SLUICE_VERSION;
}
