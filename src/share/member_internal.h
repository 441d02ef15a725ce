/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a member (member.h) have in common. */
#ifndef SL_SHARE_MEMBER_INTERNAL_H
#define SL_SHARE_MEMBER_INTERNAL_H

#include "share/member.h"

#define MS      UINT64_C(1000000)
/* Others have given nothing for so long: they are not waited for. Longer than a program needs to move a
 * thirty-second of a GPU. Longer: an allocation that finds no room takes so much longer. */
#define ASK_NS  (2000 * MS)
#define GIVE_NS (10000 * MS) /* a launch that holds up a cut may run so long */
/* The memory of a GPU is given up in so many steps: 2.5 GiB, some 60 ms each. */
#define STEPS   32u

/* member_book.c */
int sl_member_book_join(struct sl_member *m) SL_MUST_CHECK;
/* 0, or -errno: the book is lost, which the owner was told. */
int sl_member_row_write(struct sl_member *m) SL_MUST_CHECK;
/* All rows; the own one as it is here. Errors as above. */
int sl_member_rows_read(struct sl_member *m) SL_MUST_CHECK;
/* What programs that are not in the book have taken now. */
void sl_member_taken_measure(struct sl_member *m);
/* The shares of all and who has the turn, from the rows as they were read. */
void sl_member_shares_find(struct sl_member *m);

/* member_budget.c */
/* The next budget, in whole chunks. */
uint64_t sl_member_budget_next(const struct sl_member *m);
/* Into room that nobody has, if the rows still say so under the book's lock. */
void sl_member_budget_raise(struct sl_member *m);
/* One step towards next. */
void sl_member_budget_lower(struct sl_member *m, uint64_t next);
/* 0, or as ops->shrink(). */
int sl_member_budget_set(struct sl_member *m, uint64_t budget, uint64_t until_ns) SL_MUST_CHECK;

/* member_turn.c */
/* The turn is taken or given up, and the gate follows. The shares are found. */
void sl_member_turn_follow(struct sl_member *m);
void sl_member_gate_set(struct sl_member *m, enum sl_member_gate why, int shut);

#endif
