/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts for failed requests. done() brings a result without a text: the text belongs to the
 * thread that reports the failure, not to the engine's thread. The reporter calls sl_io_fail().
 * It is safe wherever sl_fail() is, also in a fault handler. No locks.
 */
#ifndef SL_STORE_IO_ERROR_H
#define SL_STORE_IO_ERROR_H

#include "store/store.h"

/* Set the text of a finished request ("read: /data/x: offset 4194304, 2097152 bytes: EIO
 * (Input/output error)") and return its result. A request that succeeded: 0, no text. The
 * store must still be open. */
int sl_io_fail(const struct sl_io *io);

/* The same from single values; rc is returned. past_end: the file ended before the
 * range. */
int sl_io_fail_at(enum sl_io_op op, const char *name, uint64_t offset, uint64_t bytes,
		  int rc, int past_end);

#endif
