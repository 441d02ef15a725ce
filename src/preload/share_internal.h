/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a shared GPU (share.h) have in common. */
#ifndef SL_PRELOAD_SHARE_INTERNAL_H
#define SL_PRELOAD_SHARE_INTERNAL_H

#include <stdint.h>

#include "preload/gpu.h"
#include "preload/share.h"
#include "share/member.h"

#define MS UINT64_C(1000000)

struct pl_fence;

/* A GPU's books.budget protects all but what is atomic. */
struct pl_share {
	struct sl_member member;
	struct pl_gpu *gpu;
	struct pl_fence *fence; /* behind the work that may still run: NULL: none was made */
	int settled;            /* nothing runs that was launched at ease */
	int pressed;            /* the thread that shrinks has seen to that itself */
	int wants_pressure;     /* before anything can be moved out */
	/* atomic: a hint for the thread: a scope that counts itself late is seen at the next look. */
	_Atomic unsigned waiting; /* scopes at the gate */
};

/* share_thread.c */
/* The thread looks at this GPU's book from here on. 0 or -errno: there is no thread. Under create_lock. */
int pl_share_thread_add(struct pl_share *share) SL_MUST_CHECK;
/* A gate has opened. Called by the thread. */
void pl_share_wake(void);
/* Until none of these gates (enum sl_member_gate) is shut, or the program ends: 1. */
int pl_share_gates_await(struct pl_gpu *gpu, unsigned gates);

#endif
