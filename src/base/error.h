/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling thread's last error text, behind sluice_last_error(). A failure is reported once,
 * where it is known. Callers pass the code on, or put their own object in front of the text.
 * Safe in a fault handler: fixed per-thread buffers, no allocation, no lock.
 */
#ifndef SL_BASE_ERROR_H
#define SL_BASE_ERROR_H

#include "sluice/error.h"

#define SL_MUST_CHECK        SLUICE_MUST_CHECK
#define SL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* The result does not matter here, and the comment beside the call says why. */
static inline void
sl_ignore(int rc)
{
	(void)rc;
}

/* Set the text, return rc (negative errno), so that `return sl_fail(-EIO, ...)` reads
 * well. */
int sl_fail(int rc, const char *fmt, ...) SL_PRINTF(2, 3);

/* Put "prefix: " in front of the present text, return rc. */
int sl_fail_in(int rc, const char *fmt, ...) SL_PRINTF(2, 3);

/* Set the whole text from one that another thread kept (at most SL_ERROR_TEXT_BYTES). */
int sl_fail_text(int rc, const char *text);

/* Name of an errno, "EIO"; "E?" for an unknown one. Takes either sign. Static storage. */
const char *sl_errno_name(int rc);

#define SL_ERROR_TEXT_BYTES 512

#endif
