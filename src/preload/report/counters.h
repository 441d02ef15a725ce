/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the run (report.c), for the line at exit and --stats.
 *
 * Threads: any.
 */
#ifndef SL_PRELOAD_COUNTERS_H
#define SL_PRELOAD_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

/* C(name, what it counts) */
#define PL_COUNTERS(C)                                                            \
	C(launches, "kernels launched")                                           \
	C(launches_seen, "of these, with arguments looked at")                    \
	C(launches_all, "of these, taken to touch everything")                    \
	C(launches_opaque, "of these, whose arguments could not be read")         \
	C(graph_launches, "graphs launched")                                      \
	C(graphs_cut, "of these, in pieces")                                      \
	C(graph_pieces, "pieces of graphs launched")                              \
	C(copies, "copies and fills that name our memory")                        \
	C(copies_split, "of these, done piece by piece: refused across places")   \
	C(allocations, "allocations served")                                      \
	C(suballocations, "given out by PyTorch's allocator inside of them")      \
	C(frees, "allocations freed")                                             \
	C(mapped, "of these, by cuMemCreate()")                                   \
	C(mapped_native, "of these, made the driver's: what was asked of them")   \
	C(foreign_bytes, "bytes of device memory allocated past us")              \
	C(rooms_given, "times the driver was out of memory and was given some")   \
	C(budgets_raised, "times the device budget grew, beside other programs")  \
	C(budgets_lowered, "times it shrank")                                     \
	C(turns, "turns on a GPU, where programs take turns")                     \
	C(turn_wait_ms, "waited for turns")                                       \
	C(turn_wait_longest_ms, "the longest of these waits")                     \
	C(parts_grown, "times the parts of slow launches were made longer")       \
	C(tables, "copies found to hold addresses")                               \
	C(follows_hit, "launches that followed as predicted")                     \
	C(follows_miss, "launches that did not")                                  \
	C(follows_idle, "predicted, and nothing moved ahead: slower")             \
	C(follows_patient, "predicted, waiting for room rather than making it")   \
	C(follows_encoding, "predicted, what shrinks by little being compressed") \
	C(unknown_names, "driver functions asked for that are not in the table")

enum pl_counter {
#define PL_COUNTER_ENUM(name, text) PL_COUNT_##name,
	PL_COUNTERS(PL_COUNTER_ENUM)
#undef PL_COUNTER_ENUM
		PL_COUNT_COUNT
};

/* atomic: relaxed: each is a sum, and nothing is read after it. */
extern _Atomic uint64_t pl_counters[PL_COUNT_COUNT];

#define PL_COUNT(name, n)                                                    \
	((void)atomic_fetch_add_explicit(&pl_counters[PL_COUNT_##name], (n), \
					 memory_order_relaxed))

#endif
