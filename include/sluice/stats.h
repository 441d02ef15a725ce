/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact counters of a space.
 *
 * Bytes moved are a deterministic function of the launch sequence and the policy. With fault-driven
 * kernels they depend on the order of faults. Time matters in two cases:
 *  - A launch waits for room that is held by launches behind host callbacks or events.
 *  - Data are still being written, or would share the staging memory with many writes. Then time
 *    decides whether they are read ahead or on demand.
 *
 * One list makes the enum, the names, the units and the manual's table.
 */
#ifndef SLUICE_STATS_H
#define SLUICE_STATS_H

#include "sluice/space.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
/*      ENUM                 name                    unit      what it counts */
#define SLUICE_COUNTERS(M) \
	M(H2D_LAUNCH,        "h2d_launch",           "bytes",  "host to device, needed by a launch") \
	M(H2D_FAULT,         "h2d_fault",            "bytes",  "host to device, fault of a kernel") \
	M(H2D_CPU,           "h2d_cpu",              "bytes",  "host to device, touch by host code") \
	M(H2D_PREFETCH,      "h2d_prefetch",         "bytes",  "host to device, prefetch or pin") \
	M(D2H_EVICT,         "d2h_evict",            "bytes",  "device to host, to make room") \
	M(D2H_REQUEST,       "d2h_request",          "bytes",  "device to host, evict call or new budget") \
	M(D2H_SYNC,          "d2h_sync",             "bytes",  "device to host, sync or unmap") \
	M(CLEAN_DROP,        "clean_drop",           "bytes",  "dropped from the device without copy: another copy was valid") \
	M(DISCARD_SAVED,     "discard_saved",        "bytes",  "dropped from the device without copy: contents were discarded") \
	M(MEASURED_CLEAN,    "measured_clean",       "bytes",  "not copied out though it may have been written: measured to be unchanged") \
	M(ZERO_FILL,         "zero_fill",            "bytes",  "presented as zeros or for write-all, nothing moved") \
	M(STORE_READ_DEMAND, "store_read_demand",    "bytes",  "store to host, waited for") \
	M(STORE_READ_AHEAD,  "store_read_ahead",     "bytes",  "store to host, read ahead of a pattern") \
	M(STORE_READ_PREFETCH,"store_read_prefetch", "bytes",  "store to host, prefetch") \
	M(STORE_WRITE_BACK,  "store_write_back",     "bytes",  "host to store, background write-back of files") \
	M(STORE_WRITE_SYNC,  "store_write_sync",     "bytes",  "host to store, sync or unmap") \
	M(STORE_WRITE_SPILL, "store_write_spill",    "bytes",  "host to store, anonymous or volatile data without room") \
	M(COMPRESS_OUT_SAVED, "compress_out_saved",  "bytes",  "of d2h_*: not copied, since the device has compressed them") \
	M(COMPRESS_IN_SAVED, "compress_in_saved",    "bytes",  "of h2d_*: not copied, since host memory has them compressed") \
	M(COMPRESS_READ_SAVED, "compress_read_saved", "bytes", "of store_read_*: not read, since the store has them compressed") \
	M(COMPRESS_WRITE_SAVED,"compress_write_saved","bytes", "of store_write_*: not written, since the store has them compressed") \
	M(READAHEAD_WASTED,  "readahead_wasted",     "bytes",  "read ahead and dropped unused") \
	M(REFETCH,           "refetch",              "bytes",  "brought to the device again after an eviction") \
	M(FAULTS,            "faults",               "count",  "faults served for kernels") \
	M(CPU_FAULTS,        "cpu_faults",           "count",  "faults served for host code") \
	M(WRITE_FAULTS,      "write_faults",         "count",  "first writes seen on guarded data") \
	M(MISSES,            "misses",               "count",  "kernel touches of what its launch did not declare") \
	M(LAUNCHES,          "launches",             "count",  "launches begun") \
	M(LAUNCHES_RESIDENT, "launches_resident",    "count",  "launches whose uses were all resident") \
	M(HASHES,            "hashes",               "count",  "hashes of chunks made by the device, to measure them") \
	M(HASHES_LATE,       "hashes_late",          "count",  "chunks copied out without a hash: the device was too late with one") \
	M(EVICTIONS,         "evictions",            "count",  "chunks removed from the device to make room") \
	M(DISCARDS,          "discards",             "bytes",  "declared dead") \
	M(INTENT_ERRORS,     "intent_errors",        "count",  "wrong intents found by checking mode") \
	M(IO_ERRORS,         "io_errors",            "count",  "failed reads and writes of the store") \
	M(MOVE_RETRIES,      "move_retries",         "count",  "moves that the system refused at first") \
	M(PLANS,             "plans",                "count",  "plans made for launches that repeat (policy plan)") \
	M(PLAN_LAUNCHES,     "plan_launches",        "count",  "launches that went as a plan expected") \
	M(PLAN_DIVERGENCES,  "plan_divergences",     "count",  "plans given up: a launch was another than expected") \
	M(PLAN_PREFETCHED,   "plan_prefetched",      "bytes",  "of h2d_prefetch: brought in by a plan") \
	M(PLAN_PREFETCH_USED,"plan_prefetch_used",   "bytes",  "of plan_prefetched: used by a launch of the plan") \
	M(PLAN_PREFETCH_WASTED,"plan_prefetch_wasted","bytes", "of plan_prefetched: gone, or its plan ended, before that") \
	M(WAITS_IN_FLIGHT,   "waits_in_flight",      "count",  "times a move waited for a running launch") \
	M(BUDGETS_RAISED,    "budgets_raised",       "count",  "larger device budgets, where programs share it") \
	M(BUDGETS_LOWERED,   "budgets_lowered",      "count",  "smaller device budgets, where programs share it") \
	M(TURNS,             "turns",                "count",  "turns on a device whose programs do not fit together") \
	M(TURN_WAITS,        "turn_waits",           "count",  "launches that waited for a turn")

enum sluice_counter {
#define SLUICE_COUNTER_ENUM_(E, name, unit, text) SLUICE_COUNTER_##E,
	SLUICE_COUNTERS(SLUICE_COUNTER_ENUM_)
#undef SLUICE_COUNTER_ENUM_
	SLUICE_COUNTER_COUNT
};
/* clang-format on */

struct sluice_stats {
	uint64_t counter[SLUICE_COUNTER_COUNT];
	uint64_t resident_bytes[SLUICE_TIER_COUNT]; /* now; STORE: spilled bytes */
	uint64_t resident_peak_bytes[SLUICE_TIER_COUNT];
	uint64_t budget_bytes[SLUICE_TIER_COUNT];
	uint64_t staging_bytes; /* host frames held by I/O now; part of neither tier */
};

/*
 * Name, unit ("bytes" or "count") and meaning of a counter. NULL beyond the last.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API const char *sluice_counter_name(enum sluice_counter counter);
SLUICE_API const char *sluice_counter_unit(enum sluice_counter counter);
SLUICE_API const char *sluice_counter_text(enum sluice_counter counter);

/*
 * Counters since the space was made, or since the last reset.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API void sluice_stats_get(struct sluice_space *space, struct sluice_stats *out);

/*
 * Set the counters to zero, but not the resident bytes. Peaks restart from now.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API void sluice_stats_reset(struct sluice_space *space);

/*
 * Sums of all causes of one direction, for benchmarks. Of the store: what the disk saw, without the
 * bytes that compression saved.
 */
SLUICE_API uint64_t sluice_stats_h2d_bytes(const struct sluice_stats *stats);
SLUICE_API uint64_t sluice_stats_d2h_bytes(const struct sluice_stats *stats);
SLUICE_API uint64_t sluice_stats_store_read_bytes(const struct sluice_stats *stats);
SLUICE_API uint64_t sluice_stats_store_write_bytes(const struct sluice_stats *stats);

/* One region as `sluice stat` shows it. */
struct sluice_region_info {
	void *addr;
	uint64_t size_bytes;
	uint64_t chunk_bytes;
	unsigned flags;
	struct sluice_residency_bytes {
		uint64_t device, host, store, empty, dirty;
	} bytes;
	char name[256]; /* path, or "anonymous" */
};

/*
 * Fill up to max entries of infos in address order. *n_out is the number of regions.
 * Errors: -ECHILD.
 * Threads: any.
 * Blocks: on the space lock, which it holds meanwhile.
 */
SLUICE_API int sluice_regions(struct sluice_space *space, struct sluice_region_info *infos,
			      size_t max, size_t *n_out) SLUICE_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
