/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, legality and makers of the moves between chunk states, generated from the one table
 * in chunk_state.h. Pure functions; any thread.
 */
#include "core/chunk_state.h"

#include <stddef.h>

static const char *const makers[SL_CHUNK_STATE_COUNT][SL_CHUNK_STATE_COUNT] = {
#define MOVE_ENTRY_(from, to, by, why) [SL_CHUNK_##from][SL_CHUNK_##to] = #by,
	SL_CHUNK_MOVES(MOVE_ENTRY_)
#undef MOVE_ENTRY_
};

const char *
sl_chunk_state_name(enum sl_chunk_state state)
{
	static const char *const names[] = {
#define STATE_NAME_(s, in_flight, on_device) #s,
		SL_CHUNK_STATES(STATE_NAME_)
#undef STATE_NAME_
	};

	return (unsigned)state < SL_CHUNK_STATE_COUNT ? names[state] : "?";
}

int
sl_chunk_move_legal(enum sl_chunk_state from, enum sl_chunk_state to)
{
	return sl_chunk_move_by(from, to) != NULL;
}

const char *
sl_chunk_move_by(enum sl_chunk_state from, enum sl_chunk_state to)
{
	if ((unsigned)from >= SL_CHUNK_STATE_COUNT || (unsigned)to >= SL_CHUNK_STATE_COUNT)
		return NULL;
	return makers[from][to];
}
