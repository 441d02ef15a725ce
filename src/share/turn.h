/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on a GPU whose memory is too small for all that launch: who takes turns, who has the turn, how long,
 * and who is next. Pure functions of what all programs say of themselves (book.h), like the shares, which
 * call them (shares.h). Every program takes the turn for itself, and gives it up for itself.
 *
 * A row has spans and no times of day or of the machine. So no clock is compared with another one.
 *
 * Threads: any. Nothing blocks, nothing is kept.
 */
#ifndef SL_SHARE_TURN_H
#define SL_SHARE_TURN_H

#include <stddef.h>
#include <stdint.h>

#define SL_SHARES_MAX 256u /* programs on one GPU */

struct sl_share_claim;

/* What a program says of its turns. */
struct sl_turn_claim {
	uint64_t number;   /* of its newest turn, of all programs'; 0: it had none */
	uint64_t had_ns;   /* how long it has the turn; else 0 */
	uint64_t waits_ns; /* how long it waits for the turn; 0: it does not */
	uint64_t swap_ns; /* what it takes to move in what it lacks when its turn begins */
	uint64_t patience_ns; /* the longest that it is to wait; 0: no bound */
	uint8_t has;          /* it has the turn, unless another one has a newer one */
	uint8_t is_short; /* it waits for short work: it was idle, and has had little since */
	uint8_t was_short; /* its newest turn was for such work */
	uint8_t never;     /* it takes none */
	uint8_t padding[4];
};

/* Who takes turns with whom. */
struct sl_turns {
	size_t n;           /* how many; 0: nobody, else 2 or more */
	size_t holder;      /* whose turn it is; SIZE_MAX: nobody's */
	size_t next;        /* who is to take the turn now; SIZE_MAX: nobody */
	uint64_t length_ns; /* of the holder's turn */
	int is_over;        /* the holder is to give it up now */
	int is_ripe; /* others wait, and it may give it up where that costs least */
	uint8_t takes[SL_SHARES_MAX];
};

/*
 * shares: what each would have without turns. Those take turns that launch and whose share is less than
 * they can use, and those that the largest of these has no room beside. Who wants little never does.
 */
void sl_turns_find(const struct sl_share_claim *claims, const uint64_t *shares, size_t n,
		   uint64_t room_bytes, struct sl_turns *turns);

/* What a program keeps of its own turns. Zeroed: it had none. */
struct sl_turn_own {
	uint64_t began_ns;       /* of the turn that it has */
	uint64_t waits_since_ns; /* 0: it does not wait */
	int was_idle;            /* since its newest turn */
};

/* At a look: the spans of its row. waiting: work of it waits. now_ns: of its own clock, never 0. */
void sl_turn_look(struct sl_turn_own *own, struct sl_share_claim *claim, int waiting,
		  uint64_t now_ns);
/* It takes the turn, as it is turns.next; newest: the number of the newest of all programs. */
void sl_turn_take(struct sl_turn_own *own, struct sl_share_claim *claim, uint64_t newest,
		  uint64_t now_ns);
void sl_turn_give_up(struct sl_turn_own *own, struct sl_share_claim *claim);
uint64_t sl_turn_newest(const struct sl_share_claim *claims, size_t n);

#endif
