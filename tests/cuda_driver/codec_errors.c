/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the host's codec, which the stand-in driver has sources of (codec_twin.h): errors without a text. That of
 * the library lies in static thread-local memory, which a library that is loaded late may not find.
 */
#include "base/error.h"

int
sl_fail(int rc, const char *fmt, ...)
{
	(void)fmt;
	return rc;
}

int
sl_fail_in(int rc, const char *fmt, ...)
{
	(void)fmt;
	return rc;
}
