/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest: a space that a program under `sluice run` makes by the library, for a GPU. The preload
 * library sees the program's launches and copies, and tells the guest which of its addresses they name.
 * The two are copies of the same code in one process: they meet in this struct, and by the names below.
 *
 * The library is told by core/api/guest.c, and the preload library's side is preload/guest.c.
 */
#ifndef SL_BASE_GUEST_H
#define SL_BASE_GUEST_H

#include <stddef.h>
#include <stdint.h>

struct sl_guest_use {
	uint64_t addr;
	uint64_t bytes; /* 0: all of the region with this address */
	int intent;     /* enum sluice_intent */
};

struct sl_guest {
	uint64_t base, end; /* its addresses */
	void *arg;
	/*
	 * Before work that touches these addresses is enqueued on native (a CUstream; NULL: the legacy
	 * default one). n 0: it may touch any. What an open sluice_launch_begin() declares is left out.
	 * *scope: for end_scope(); NULL: nothing is to be ended. 0 or -errno. Blocks as
	 * sluice_launch_begin().
	 */
	int (*begin_scope)(void *arg, void *native, int per_thread,
			   const struct sl_guest_use *uses, size_t n, void **scope);
	void (*end_scope)(void *arg, void *scope);
	/* The stream is about to be destroyed. Waits for nothing but threads that end scopes on it. */
	void (*stream_destroyed)(void *arg, void *native);
	/* The text of the calling thread's last error. */
	const char *(*error)(void);
};

/* What the preload library exports. Another number: another struct, which nobody finds. */
#define SL_GUEST_JOIN  "sluice_preload_join_1"
#define SL_GUEST_LEAVE "sluice_preload_leave_1"

/* 0, or -1: there are as many as there may be. The struct is copied. Any thread. */
typedef int (*sl_guest_join)(const struct sl_guest *guest);
/* No work names its addresses any more. Any thread. */
typedef void (*sl_guest_leave)(const void *arg);

#endif
