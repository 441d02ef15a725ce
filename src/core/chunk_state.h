/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of a chunk and the only table of moves between them. The enum, the names, the
 * legality check, the diagram in docs/design/states.md and the test of all pairs come from here.
 * Only sl_chunk_set_state() writes the field.
 *
 * What is true in each state:
 *   EMPTY     no copy anywhere: never written, or discarded. Reads as zeros.
 *   STORE     the store has the contents; nothing in memory.
 *   READING   store to host frame, in I/O. chunk->host is set; nobody else touches the frame.
 *   HOST      a host frame has the newest contents; not on the device.
 *   WRITING   as HOST, and the frame is being written to the store: it may not move.
 *   FILLING   on its way to the device; device bytes are reserved or being made free. The source
 *             (frame, or none) may not go.
 *   DEVICE    present on the device, whole (pages == NULL) or some pages of it. A host frame that
 *             was kept is an equal copy unless DIRTY_DEVICE is set. Unwritten (overwrite.c): only
 *             room; the contents are in the frame or the store, or they are zeros.
 *   SYNCING   as DEVICE; a snapshot of it is being taken or written to the store.
 *   EVICTING  leaving the device; touches wait.
 *   MAPPING   as HOST, and its mapping changes: granules are on their way between the frame and the
 *             host map (devices with hostmap), kernels are to reach it, or its frame is decoded: touches
 *             wait.
 *   POISONED  a write to the store failed: what the store has is unknown; the frame has the
 *             contents and is kept until a later write succeeds.
 * In every state that is in flight one thread or one request owns the chunk; the others wait on it.
 */
#ifndef SL_CORE_CHUNK_STATE_H
#define SL_CORE_CHUNK_STATE_H

/* clang-format off */
/*         state     in flight  on the device: with contents that kernels can use */
#define SL_CHUNK_STATES(S) \
	S(EMPTY,    0,         0) \
	S(STORE,    0,         0) \
	S(READING,  1,         0) \
	S(HOST,     0,         0) \
	S(WRITING,  1,         0) \
	S(FILLING,  1,         0) \
	S(DEVICE,   0,         1) \
	S(SYNCING,  1,         1) \
	S(EVICTING, 1,         0) \
	S(MAPPING,  1,         0) \
	S(POISONED, 0,         0)

/*
 *        from      to        made by (functions of core, by |)   why
 * A function that restores the state it found makes an arrow to each of its callers' states.
 */
#define SL_CHUNK_MOVES(M) \
	M(STORE,    READING,  sl_read_begin, "contents are needed or expected") \
	M(READING,  HOST,     read_done, "the read completed") \
	M(READING,  STORE,    read_done | sl_read_begin, "the read failed, or there is no frame; the store still has it") \
	M(EMPTY,    FILLING,  fill_move | pages_begin, "first touch: zeros") \
	M(STORE,    FILLING,  fill_move | pages_begin, "the old contents are not needed (write-all), or pages come one by one") \
	M(HOST,     FILLING,  fill_move | pages_begin, "fault, launch, pin or prefetch") \
	M(POISONED, FILLING,  fill_move | pages_begin, "needed again; the frame is still good") \
	M(FILLING,  DEVICE,   fill_move | pages_begin, "present") \
	M(FILLING,  EMPTY,    fill_move | pages_begin, "no room or device error: as before") \
	M(FILLING,  STORE,    fill_move | pages_begin, "no room or device error: as before") \
	M(FILLING,  HOST,     fill_move | pages_begin, "no room or device error: as before") \
	M(FILLING,  POISONED, fill_move | pages_begin, "no room or device error: as before") \
	M(DEVICE,   EVICTING, chunk_evict, "victim, evict call, discard or unmap") \
	M(EVICTING, DEVICE,   chunk_evict, "no frame or device error: still present") \
	M(EVICTING, HOST,     evict_place | evict_pages_copy | evict_drop | evict_pages_drop | evict_unwritten, "contents are in the frame") \
	M(EVICTING, STORE,    evict_place | evict_arrived | evict_drop | evict_pages_drop | evict_unwritten, "clean: the store has it") \
	M(EVICTING, EMPTY,    evict_place | evict_arrived | evict_drop | evict_pages_drop | evict_unwritten, "zeros or discarded") \
	M(DEVICE,   SYNCING,  chunk_snapshot | chunk_guard | book_measure, "sync, a new guard, or a hash of present data") \
	M(SYNCING,  DEVICE,   chunk_snapshot | snapshot_done | chunk_guard | book_measure, "done, or failed and still dirty") \
	M(HOST,     WRITING,  sl_write_begin, "write-back, spill, sync") \
	M(POISONED, WRITING,  sl_write_begin, "another attempt") \
	M(WRITING,  HOST,     write_done | write_unplaced, "the store is up to date, or has no place: the frame stays in its tier") \
	M(WRITING,  STORE,    write_done, "the store is up to date and the frame was let go") \
	M(WRITING,  POISONED, write_done | write_unplaced, "the effect is unknown, or there is no place: the frame is kept") \
	M(EMPTY,    MAPPING,  sl_host_zero, "host code's first touch: zeros in a frame") \
	M(HOST,     MAPPING,  granule_show | granule_written | granules_hide | reach_change | sl_host_exchange, "host code or the store needs its bytes, a kernel is to reach it, or that ends") \
	M(POISONED, MAPPING,  granule_show | granule_written | granules_hide | reach_change | sl_host_exchange, "host code or the store needs its bytes, a kernel is to reach it, or that ends") \
	M(MAPPING,  EMPTY,    sl_host_zero, "no frame: as before") \
	M(MAPPING,  HOST,     sl_host_zero | granule_show | granule_written | granules_hide | reach_change | sl_host_exchange, "zeros, shown, reachable by kernels, or back in the frame") \
	M(MAPPING,  POISONED, granule_show | granule_written | granules_hide | reach_change | sl_host_exchange, "shown, reachable by kernels, or back in the frame") \
	M(HOST,     STORE,    sl_host_let_go, "clean frame let go") \
	M(HOST,     EMPTY,    copies_discard, "contents declared dead") \
	M(POISONED, EMPTY,    copies_discard, "contents declared dead") \
	M(STORE,    EMPTY,    copies_discard, "contents declared dead")
/* clang-format on */

enum sl_chunk_state {
#define SL_CHUNK_STATE_ENUM_(s, in_flight, on_device) SL_CHUNK_##s,
	SL_CHUNK_STATES(SL_CHUNK_STATE_ENUM_)
#undef SL_CHUNK_STATE_ENUM_
		SL_CHUNK_STATE_COUNT
};

/* Sets of states: bit 1 << state. */
enum {
#define SL_CHUNK_IN_FLIGHT_(s, in_flight, on_device) | (in_flight) << SL_CHUNK_##s
#define SL_CHUNK_ON_DEVICE_(s, in_flight, on_device) | (on_device) << SL_CHUNK_##s
	SL_CHUNKS_IN_FLIGHT = 0 SL_CHUNK_STATES(SL_CHUNK_IN_FLIGHT_),
	SL_CHUNKS_ON_DEVICE = 0 SL_CHUNK_STATES(SL_CHUNK_ON_DEVICE_)
#undef SL_CHUNK_IN_FLIGHT_
#undef SL_CHUNK_ON_DEVICE_
};

const char *sl_chunk_state_name(enum sl_chunk_state state);

/* 1 when the table has the move. */
int sl_chunk_move_legal(enum sl_chunk_state from, enum sl_chunk_state to);

/* The functions that make the move; NULL when illegal. */
const char *sl_chunk_move_by(enum sl_chunk_state from, enum sl_chunk_state to);

#endif
