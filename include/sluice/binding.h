/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For bindings of other languages: the calls that take or fill a struct, by texts instead. So a
 * binding knows no layout, and goes on working when a struct grows.
 */
#ifndef SLUICE_BINDING_H
#define SLUICE_BINDING_H

#include "sluice/launch.h"
#include "sluice/space.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Make a space: sluice_config_init(), sluice_config_parse() of settings (NULL: none) and
 * sluice_space_create(). The caller owns *out and ends it with sluice_space_destroy().
 * Errors: as those three.
 * Threads: any.
 * Blocks: as those three.
 */
SLUICE_API int sluice_space_open(const char *settings,
				 struct sluice_space **out) SLUICE_MUST_CHECK;

/*
 * Counters and bytes of a space, as one JSON object: "counters" by name, and by tier ("device",
 * "host", "store") "resident_bytes", "resident_peak_bytes" and "budget_bytes". At most size bytes
 * of text are written, with a NUL at the end.
 * Errors: -ENOBUFS (size is too small: 8192 is enough for long), -ECHILD (a forked child).
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API int sluice_stats_json(struct sluice_space *space, char *text,
				 size_t size) SLUICE_MUST_CHECK;

/*
 * The place of [addr, addr + size_bytes) as sluice_residency() says it, as one JSON object: bytes
 * by "device", "host", "store", "empty", "dirty", "pinned" and "in_flight".
 * Errors: -ENOENT, -ENOBUFS (size: 512 is enough), -ECHILD.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API int sluice_residency_json(struct sluice_space *space, const void *addr,
				     size_t size_bytes, char *text,
				     size_t size) SLUICE_MUST_CHECK;

/*
 * What a space was made with, as one JSON object: "device" ("soft" or "cuda"), "device_number" (of
 * the GPU, as cudaSetDevice() counts) and "chunk_bytes".
 * Errors: -ENOBUFS (size: 256 is enough), -ECHILD.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API int sluice_space_json(struct sluice_space *space, char *text,
				 size_t size) SLUICE_MUST_CHECK;

/*
 * sluice_launch_begin() with the n uses in three arrays: addresses, bytes and enum sluice_intent.
 * The arrays are copied. The caller ends *out with sluice_launch_end().
 * Errors: as sluice_launch_begin(), and -EINVAL (an unknown intent).
 * Threads: any.
 * Blocks: as sluice_launch_begin().
 */
SLUICE_API int sluice_launch_begin_ranges(struct sluice_space *space,
					  struct sluice_stream *stream,
					  const void *const *addrs, const size_t *sizes_bytes,
					  const int *intents, size_t n,
					  struct sluice_launch **out) SLUICE_MUST_CHECK;

/*
 * 1: this process runs under `sluice run`, which sees its launches. 0: it does not.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API int sluice_is_preloaded(void);

#ifdef __cplusplus
}
#endif
#endif
