/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work larger than the device, in tiles: the number of elements at a time, and the launches over
 * them. It uses sluice_launch_begin() and the space's configuration. It does not know where data
 * are, and leaves order and moves to the launches.
 *
 * Threads: any; holds no lock.
 */
#include <errno.h>

#include "base/error.h"
#include "base/size.h"
#include "sluice/launch.h"

#define TILE_USES_MAX 16u
#define BUDGET_SHARE  16u /* tiles that the device budget has room for */

static int
tile_uses_check(const struct sluice_tile_use *uses, size_t n_uses)
{
	int elements = 0;

	if (n_uses == 0 || n_uses > TILE_USES_MAX)
		return sl_fail(-EINVAL, "tiles: %zu uses: give 1 to %u", n_uses,
			       TILE_USES_MAX);
	for (size_t i = 0; i < n_uses; i++) {
		if (!uses[i].addr || !uses[i].size_bytes || uses[i].intent >= SLUICE_USE_COUNT)
			return sl_fail(-EINVAL, "tiles: use %zu has no range, or an unknown intent",
				       i);
		elements |= uses[i].element_bytes != 0;
	}
	return elements ? 0
			: sl_fail(-EINVAL,
				  "tiles: no use has elements: give element_bytes of "
				  "one at least");
}

/* Whole chunks that bytes from anywhere in a chunk may lie in. */
static uint64_t
chunks_bytes(uint64_t bytes, uint64_t chunk, int aligned)
{
	return sl_round_up(bytes, chunk) + (aligned ? 0 : chunk);
}

/* The device bytes that a tile of n elements takes at most. */
static uint64_t
tile_bytes(const struct sluice_tile_use *uses, size_t n_uses, uint64_t n, uint64_t chunk)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n_uses; i++) {
		const struct sluice_tile_use *u = &uses[i];
		uint64_t own = n * u->element_bytes;

		if (!own || own > u->size_bytes)
			bytes += chunks_bytes(u->size_bytes, chunk, 1);
		else
			bytes += chunks_bytes(own, chunk, own % chunk == 0) +
				 (u->before_bytes ? chunks_bytes(u->before_bytes, chunk, 1)
						  : 0) +
				 (u->behind_bytes ? chunks_bytes(u->behind_bytes, chunk, 1)
						  : 0);
	}
	return bytes;
}

/* Elements whose bytes are whole chunks of every array. Chunks are powers of two. */
static uint64_t
elements_step(const struct sluice_tile_use *uses, size_t n_uses, uint64_t chunk)
{
	uint64_t step = 1;

	for (size_t i = 0; i < n_uses; i++) {
		uint64_t power = uses[i].element_bytes & -(uint64_t)uses[i].element_bytes;

		if (power && power < chunk && chunk / power > step)
			step = chunk / power;
	}
	return step;
}

int
sluice_tile_elements(struct sluice_space *space, const struct sluice_tile_use *uses,
		     size_t n_uses, uint64_t *out)
{
	struct sluice_config config;
	uint64_t chunk, step, n;
	int rc = tile_uses_check(uses, n_uses);

	if (rc)
		return rc;
	sluice_space_config(space, &config);
	chunk = config.large_chunk_bytes;
	step = elements_step(uses, n_uses, chunk);
	n = step;
	while (tile_bytes(uses, n_uses, n, chunk) > config.device_budget_bytes && n > 1)
		n /= 2;
	if (tile_bytes(uses, n_uses, n, chunk) > config.device_budget_bytes)
		return sl_fail(-ENOBUFS,
			       "tiles: one element takes %llu bytes in chunks, the "
			       "device budget "
			       "has %llu: use smaller chunks or a larger budget",
			       (unsigned long long)tile_bytes(uses, n_uses, n, chunk),
			       (unsigned long long)config.device_budget_bytes);
	while (n >= step &&
	       tile_bytes(uses, n_uses, n + step, chunk) <=
		       config.device_budget_bytes / BUDGET_SHARE &&
	       tile_bytes(uses, n_uses, n + step, chunk) > tile_bytes(uses, n_uses, n, chunk))
		n += step;
	*out = n;
	return 0;
}

/* What the tile [first, first + n) uses of an array; size_bytes 0: nothing of it is left. */
static struct sluice_use
tile_use(const struct sluice_tile_use *u, uint64_t first, uint64_t n)
{
	uint64_t begin = first * u->element_bytes, end = begin + n * u->element_bytes;

	if (!u->element_bytes)
		return (struct sluice_use){u->addr, u->size_bytes, u->intent};
	begin = begin > u->before_bytes ? begin - u->before_bytes : 0;
	end += u->behind_bytes;
	if (end > u->size_bytes)
		end = u->size_bytes;
	return (struct sluice_use){(const char *)u->addr + begin,
				   end > begin ? end - begin : 0, u->intent};
}

int
sluice_launch_tiles(struct sluice_space *space, struct sluice_stream *stream,
		    const struct sluice_tile_use *uses, size_t n_uses, uint64_t n,
		    sluice_tile_fn fn, void *arg)
{
	uint64_t tile, first;
	int rc = sluice_tile_elements(space, uses, n_uses, &tile);

	for (first = 0; !rc && first < n; first += tile) {
		uint64_t count = n - first < tile ? n - first : tile;
		struct sluice_use of[TILE_USES_MAX];
		struct sluice_launch *launch;
		size_t n_of = 0;

		for (size_t i = 0; i < n_uses; i++) {
			of[n_of] = tile_use(&uses[i], first, count);
			n_of += of[n_of].size_bytes != 0;
		}
		rc = sluice_launch_begin(space, stream, of, n_of, &launch);
		if (rc)
			return rc;
		rc = fn(arg, first, count);
		sluice_launch_end(launch);
	}
	return rc;
}
