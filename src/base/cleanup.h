/* SPDX-License-Identifier: Apache-2.0 */
/* Temporaries that clean up after themselves: `SL_CLEANUP(free) char *text = ...`. */
#ifndef SL_BASE_CLEANUP_H
#define SL_BASE_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

static inline void
sl_cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void
sl_cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define SL_CLEANUP(how) __attribute__((cleanup(sl_cleanup_##how)))

#endif
