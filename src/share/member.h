/* SPDX-License-Identifier: Apache-2.0 */
/*
 * START HERE. A program's part in the book of a GPU (book.h): its row, what there is for all, its share
 * (shares.h), its budget and its turns (turn.h). `sluice run` has one for each GPU (src/preload/share.c),
 * and so has each space of the library that joins (src/core/api/share.c). They differ in what they ask of
 * their program, the calls of struct sl_member_ops.
 *
 * member.c: joining, a look, asking for room. member_book.c: the row, and what there is. member_budget.c:
 * the budget. member_turn.c: turns, and room that comes.
 *
 * Who has a member calls sl_member_look() as often as that says. It writes the row, reads all others, and
 * changes the budget by a step.
 *
 * Threads: one at a time for each member: its owner has a lock for it, or a thread. What blocks says so.
 */
#ifndef SL_SHARE_MEMBER_H
#define SL_SHARE_MEMBER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "share/book.h"

#define SL_MEMBER_MEASURES     4u /* of the memory that others have taken: member_book.c */
/* The longest wait for a turn (--turn). Three programs of two thirds of an 80 GB GPU each then swap for 8 %.
 * Shorter: they swap more. Longer: who waits for its first result gives up. */
#define SL_MEMBER_PATIENCE_NS  UINT64_C(20000000000)
#define SL_MEMBER_LEAST_CHUNKS 4u /* of a budget: below that a program cannot work */
/* A step waits so long for launches that use what is to go. Longer: others look, and see nobody write the
 * row. Shorter: a step is broken off for a long kernel, and begun again. */
#define SL_MEMBER_STEP_NS      UINT64_C(200000000)

/* Why launches wait. */
enum sl_member_gate {
	SL_GATE_SUSPENDED = 1, /* until `sluice resume` */
	SL_GATE_TURN = 2,      /* until the program has the turn */
	SL_GATE_ROOM = 4       /* for its room, which others are giving up */
};

/* What is counted. */
enum sl_member_event {
	SL_MEMBER_RAISED,  /* a larger budget */
	SL_MEMBER_LOWERED, /* a smaller one */
	SL_MEMBER_TURN,    /* it has got the turn */
	SL_MEMBER_RIPE, /* its turn ends soon; n: bytes that it has left then, if it ends at a low */
	SL_MEMBER_WAITED, /* it does not wait for one any more; n: ns that it has */
	SL_MEMBER_STUCK,  /* it can give up no more, said once; why is the last error */
	SL_MEMBER_LOST /* it is not in the book any more, said once; why is the last error */
};

/* What a member asks of its program. arg: its own. No call may come back to the member. */
struct sl_member_ops {
	/* Free and total memory of the GPU, all programs counted. 0 or -errno. */
	int (*memory)(void *arg, uint64_t *free_bytes, uint64_t *total_bytes);
	uint64_t (*held)(void *arg);     /* taken of the GPU's memory */
	uint64_t (*want)(void *arg);     /* all that the program has allocated now */
	uint64_t (*least)(void *arg);    /* below that it cannot work now */
	uint64_t (*launches)(void *arg); /* so far: another number, and it is not idle */
	int (*is_busy)(void *arg); /* work is being launched just now, or waits to be */
	int (*is_done)(void *arg); /* nothing runs that was launched. Asked while it launches nothing */
	void (*is_back)(void *arg); /* it launches again: what is_done() keeps is old. May be NULL */
	int (*waits)(void *arg); /* some of its work waits for the turn */
	/* Whether the gate may be shut for the turn: nothing runs that no launch has pinned. These two, and
	 * waits(), are NULL for a member that takes no turns. */
	int (*is_settled)(void *arg);
	void (*gate)(void *arg, enum sl_member_gate why, int shut);
	/* A larger budget. 0 or -errno. */
	int (*grow)(void *arg, uint64_t budget);
	/* A smaller one; launches are waited for until until_ns at most. *got: what it is now, after 0 and
	 * -EAGAIN (launches use more). -EBUSY: not yet. Another error: it cannot be given up. Blocks on
	 * copies. */
	int (*shrink)(void *arg, uint64_t budget, uint64_t until_ns, uint64_t *got);
	void (*count)(void *arg, enum sl_member_event event, uint64_t n);
};

/* How a program joins. */
struct sl_member_settings {
	const char *name; /* of the book */
	uint64_t limit_bytes; /* what the user allows; UINT64_MAX: no bound. The owner may change it */
	uint64_t leave_bytes; /* room to be left to others than programs in books */
	uint64_t patience_ns; /* the longest wait for a turn; 0: the usual */
	uint64_t total_bytes; /* of a device that only programs in the book use; 0: ask memory() */
	uint32_t weight; /* 0: 1 */
	/* Of so many bytes that those in the book could have, what they may take. NULL: all. */
	uint64_t (*usable)(uint64_t bytes);
	uint64_t idle_ns; /* who has launched nothing for so long is idle; 0: as on a GPU */
	uint32_t steps;   /* the memory is given up in so many steps; 0: as a GPU's */
	uint8_t is_suspended; /* from the beginning */
	uint8_t takes_no_turns; /* who lacks memory works all the same, and has no gates. So do all in the book */
};

/* Room that others are giving up, until all is there. Of member_turn.c. */
struct sl_member_growth {
	uint64_t since_ns, from_bytes; /* 0: none is coming */
	uint64_t has_bytes, grew_ns;   /* at the last look, and when that changed */
	uint64_t stuck_until_ns;       /* others gave nothing, and are not waited for */
	uint64_t rate;                 /* bytes a second, as last seen */
};

/* The most that the program has wanted lately. Of member.c. */
struct sl_member_peak {
	uint64_t now_bytes, before_bytes; /* in this span, and in the one before it */
	uint64_t last_bytes;              /* at the last look */
	uint64_t least_bytes;             /* at any look since the turn began */
	uint64_t span_ns, looked_ns; /* how long this span has lasted; when that was counted */
};

/* Its owner may read row, n and turns, and what is atomic; all else is the member's. */
struct sl_member {
	const struct sl_member_ops *ops;
	void *arg;
	struct sl_member_settings settings;
	/* atomic: sequentially consistent: set by who has the member, read by a handler of fork(). NULL: it
	 * was lost. */
	struct sl_book *_Atomic book;
	struct sl_book_row row;
	struct sl_book_row rows[SL_BOOK_ROWS];
	struct sl_share_claim claims[SL_BOOK_ROWS];
	uint64_t shares[SL_BOOK_ROWS];
	struct sl_turns turns;
	struct sl_turn_own turn;
	size_t n, me;
	char name[SL_BOOK_NAME_BYTES];
	uint64_t total_bytes, chunk_bytes, room_bytes;
	uint64_t taken[SL_MEMBER_MEASURES]; /* by others than those in the book */
	unsigned n_taken;
	uint64_t measured_ns, written_ns, launched_ns, rejoined_ns, given_ns, stuck_ns;
	unsigned gates; /* enum sl_member_gate: shut ones */
	int lost_told;  /* that the book was lost */
	int stuck_told; /* that nothing can be given up */
	uint64_t slack_bytes; /* the budget that it may have nevertheless; 0: it has given something since */
	int gives; /* a step was taken in this look, and there is more to give */
	struct sl_member_growth grows;
	struct sl_member_peak wants;
	struct sl_book_order order; /* the last one; number 0: none was given */
	unsigned order_misses;      /* looks in a row that did not find it in the book */
	int ripe_told;              /* that its turn ends soon */
	/* atomic: relaxed would do: looked at again and again by who waits for room. */
	_Atomic uint64_t grow_to;
	_Atomic uint64_t most_bytes; /* that the budget may become now. As grow_to */
};

/* Room that is waited for. Filled by sl_member_ask_begin(). */
struct sl_member_ask {
	uint64_t bytes, until_ns, least_bytes;
};

/*
 * Join the book. *most: what the budget may ever become now, from which chunks are chosen. Then
 * sl_member_first() gives the first budget for such chunks. Errors as sl_book_open() and sl_book_join(), and
 * -EIO: the GPU does not say how much memory it has. Nothing is open then. Does not block.
 */
int sl_member_join(struct sl_member *m, const struct sl_member_settings *settings,
		   const struct sl_member_ops *ops, void *arg, uint64_t *most) SL_MUST_CHECK;
uint64_t sl_member_first(struct sl_member *m, uint64_t chunk_bytes);
/* The program has the first budget: what ops say counts from here on. */
void sl_member_start(struct sl_member *m);
/* How many programs there are, if not even the least of each has room, as was seen last; else 0. */
size_t sl_member_crowd(const struct sl_member *m);
/* Leaves the book. One that has not joined is fine. */
void sl_member_leave(struct sl_member *m);
/* In a child of fork(): the row is its parent's. Safe in a handler. */
void sl_member_forked(struct sl_member *m);

/* One look; returns in how many ns the next one is due. Blocks as ops->shrink(). */
uint64_t sl_member_look(struct sl_member *m);

/*
 * The program is to have so many bytes, and others give way as far as they must. Each sl_member_ask() is one
 * look: 0: there is nothing to wait for, because it has them, or will not soon. That is when nobody has given
 * something for 2 s. Does not block.
 */
void sl_member_ask_begin(struct sl_member_ask *ask, uint64_t bytes);
int sl_member_ask(struct sl_member *m, struct sl_member_ask *ask);

/*
 * What had to be moved out found no place: host memory and disk are full. For a second the program keeps what
 * it has, and gets two chunks more than it holds: with them data can change places.
 */
void sl_member_stuck(struct sl_member *m);

/*
 * A budget of at most bytes, and at least of the least chunks, if it is less than now: because the driver is
 * out of memory. giving: how much of it is for the driver, and is not taken again for a second. 1: it has
 * become less. Blocks as ops->shrink(), for 10 s at most.
 */
int sl_member_cut(struct sl_member *m, uint64_t bytes, uint64_t giving);

/* Of so much free memory: without what is left to the driver for contexts, code, local memory and libraries,
 * 1 GiB or a twentieth. */
static inline uint64_t
sl_gpu_usable_bytes(uint64_t free_bytes)
{
	const uint64_t least = (uint64_t)1 << 30, part = free_bytes / 20;
	uint64_t reserve = part > least ? part : least;

	return free_bytes > 2 * reserve ? free_bytes - reserve : free_bytes / 2;
}

#endif
