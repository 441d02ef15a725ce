/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes of spans (the function: hash.h). measure() enqueues one on the stream of copies in, behind
 * the copy that fills the span; its sums stay in device memory, in the span's slot. unchanged()
 * enqueues another one on a stream of its own, and brings both home in one small copy.
 *
 * The kernel is PTX text that the driver compiles when the first span is measured, so that neither
 * nvcc nor a binary for each GPU is needed; where the driver will not compile (-ENOTSUP or its own
 * error), that is remembered and nothing is measured. Device memory beside the budget: 64 KiB for
 * each 4096 spans that were ever measured at once or one after the other, at different addresses.
 *
 * Threads: any. hash.lock is held for looking at the lists and for making them longer, not while a
 * hash runs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/rng.h"
#include "device/cuda/cuda.h"
#include "device/cuda/hash.h"

#define SLOT_BYTES  16u
#define BLOCK_SLOTS 4096u

/* clang-format off */
/* r: mix(r), as in hash.h; %t is overwritten. */
#define MIX(r)                                  \
	"	shr.u64 %t, " r ", 30;\n"       \
	"	xor.b64 " r ", " r ", %t;\n"    \
	"	mul.lo.u64 " r ", " r ", %c0;\n" \
	"	shr.u64 %t, " r ", 27;\n"       \
	"	xor.b64 " r ", " r ", %t;\n"    \
	"	mul.lo.u64 " r ", " r ", %c1;\n" \
	"	shr.u64 %t, " r ", 31;\n"       \
	"	xor.b64 " r ", " r ", %t;\n"

/* One unit, whose words are x and y, to the sums; %q0 and %q1 are k0 + i * m0 and k1 + i * m1, and
 * become those of the unit one step on. */
#define UNIT(x, y)                              \
	"	add.u64 %a, " x ", %q0;\n"      \
	MIX("%a")                               \
	"	xor.b64 %b, " y ", %a;\n"       \
	"	add.u64 %b, %b, %q1;\n"         \
	MIX("%b")                               \
	"	add.u64 %s1, %s1, %b;\n"        \
	"	add.u64 %b, %b, %a;\n"          \
	MIX("%b")                               \
	"	add.u64 %s0, %s0, %b;\n"        \
	"	add.u64 %q0, %q0, %d0;\n"       \
	"	add.u64 %q1, %q1, %d1;\n"

/* s: s of the whole warp, in its lane 0, step by step. */
#define HALVE(s, lanes)                                              \
	"	mov.b64 {%lo, %hi}, " s ";\n"                        \
	"	shfl.sync.down.b32 %lo, %lo, " lanes ", 31, 0xffffffff;\n" \
	"	shfl.sync.down.b32 %hi, %hi, " lanes ", 31, 0xffffffff;\n" \
	"	mov.b64 %t, {%lo, %hi};\n"                           \
	"	add.u64 " s ", " s ", %t;\n"
#define WARP_SUM(s) \
	HALVE(s, "16") HALVE(s, "8") HALVE(s, "4") HALVE(s, "2") HALVE(s, "1")

/*
 * A thread takes units i, i + step, i + 2 step, i + 3 step, where step is how many threads there are,
 * and so on: the caller sees to it that the number of units is a multiple of 4 steps. Four loads of 16
 * bytes are under way at once. Sums of threads go to the warp's first, to the block's, to the caller's.
 */
static const char hash_ptx[] =
	".version 6.4\n"
	".target sm_70\n"
	".address_size 64\n"
	"\n"
	".visible .entry " SL_CUDA_HASH_KERNEL " (\n"
	"	.param .u64 p_from,\n"
	"	.param .u64 p_units,\n"
	"	.param .u64 p_to,\n"
	"	.param .u64 p_k0,\n"
	"	.param .u64 p_k1,\n"
	"	.param .u64 p_m0,\n"
	"	.param .u64 p_m1\n"
	")\n"
	".maxntid 256, 1, 1\n"
	"{\n"
	"	.reg .pred %more, %first, %leader;\n"
	"	.reg .b32 %lo, %hi, %block, %threads, %thread, %blocks, %lane;\n"
	"	.reg .b64 %from, %units, %to, %k, %m0, %m1, %i, %step, %hop, %round, %at;\n"
	"	.reg .b64 %q0, %q1, %d0, %d1, %c0, %c1, %s0, %s1, %a, %b, %t;\n"
	"	.reg .b64 %x0, %y0, %x1, %y1, %x2, %y2, %x3, %y3;\n"
	"	.shared .align 8 .b64 total[2];\n"
	"\n"
	"	ld.param.u64 %from, [p_from];\n"
	"	ld.param.u64 %units, [p_units];\n"
	"	ld.param.u64 %to, [p_to];\n"
	"	ld.param.u64 %m0, [p_m0];\n"
	"	ld.param.u64 %m1, [p_m1];\n"
	"	cvta.to.global.u64 %from, %from;\n"
	"	cvta.to.global.u64 %to, %to;\n"
	"	mov.u32 %block, %ctaid.x;\n"
	"	mov.u32 %blocks, %nctaid.x;\n"
	"	mov.u32 %threads, %ntid.x;\n"
	"	mov.u32 %thread, %tid.x;\n"
	"	mov.u64 %c0, 0xbf58476d1ce4e5b9;\n"
	"	mov.u64 %c1, 0x94d049bb133111eb;\n"
	"	mov.u64 %s0, 0;\n"
	"	mov.u64 %s1, 0;\n"
	"\n"
	/* i and how far it goes: step units in all threads, hop bytes, round bytes in four hops. */
	"	mul.wide.u32 %i, %block, %threads;\n"
	"	cvt.u64.u32 %t, %thread;\n"
	"	add.u64 %i, %i, %t;\n"
	"	mul.wide.u32 %step, %blocks, %threads;\n"
	"	shl.b64 %hop, %step, 4;\n"
	"	shl.b64 %round, %step, 2;\n"
	"	shl.b64 %at, %i, 4;\n"
	"	add.u64 %at, %at, %from;\n"
	"	ld.param.u64 %k, [p_k0];\n"
	"	mul.lo.u64 %q0, %i, %m0;\n"
	"	add.u64 %q0, %q0, %k;\n"
	"	ld.param.u64 %k, [p_k1];\n"
	"	mul.lo.u64 %q1, %i, %m1;\n"
	"	add.u64 %q1, %q1, %k;\n"
	"	mul.lo.u64 %d0, %step, %m0;\n"
	"	mul.lo.u64 %d1, %step, %m1;\n"
	"	setp.eq.u32 %first, %thread, 0;\n"
	"	@%first st.shared.u64 [total], %s0;\n"
	"	@%first st.shared.u64 [total + 8], %s0;\n"
	"	bar.sync 0;\n"
	"	setp.lt.u64 %more, %i, %units;\n"
	"	@!%more bra $sum;\n"
	"$next:\n"
	"	ld.global.v2.u64 {%x0, %y0}, [%at];\n"
	"	add.u64 %at, %at, %hop;\n"
	"	ld.global.v2.u64 {%x1, %y1}, [%at];\n"
	"	add.u64 %at, %at, %hop;\n"
	"	ld.global.v2.u64 {%x2, %y2}, [%at];\n"
	"	add.u64 %at, %at, %hop;\n"
	"	ld.global.v2.u64 {%x3, %y3}, [%at];\n"
	"	add.u64 %at, %at, %hop;\n"
	UNIT("%x0", "%y0")
	UNIT("%x1", "%y1")
	UNIT("%x2", "%y2")
	UNIT("%x3", "%y3")
	"	add.u64 %i, %i, %round;\n"
	"	setp.lt.u64 %more, %i, %units;\n"
	"	@%more bra $next;\n"
	"$sum:\n"
	"	bar.warp.sync 0xffffffff;\n"
	WARP_SUM("%s0")
	WARP_SUM("%s1")
	"	and.b32 %lane, %thread, 31;\n"
	"	setp.eq.u32 %leader, %lane, 0;\n"
	"	@%leader red.shared.add.u64 [total], %s0;\n"
	"	@%leader red.shared.add.u64 [total + 8], %s1;\n"
	"	bar.sync 0;\n"
	"	@!%first bra $end;\n"
	"	ld.shared.u64 %s0, [total];\n"
	"	ld.shared.u64 %s1, [total + 8];\n"
	"	red.global.add.u64 [%to], %s0;\n"
	"	red.global.add.u64 [%to + 8], %s1;\n"
	"$end:\n"
	"	ret;\n"
	"}\n";
/* clang-format on */

/* ---- kernel, memory, lanes ------------------------------------------------------------------ */

void
sl_cuda_hash_init(struct cuda *cuda)
{
	sl_mutex_init(&cuda->hash.lock, SL_RANK_STREAM);
	sl_cond_init(&cuda->hash.idle);
}

void
sl_cuda_hash_fini(struct cuda *cuda)
{
	struct cuda_hash *hash = &cuda->hash;
	const struct sl_cuda_driver *driver = cuda->driver;

	for (unsigned i = 0; i < SL_CUDA_HASH_LANES; i++) {
		if (!hash->lane[i].stream)
			continue;
		(void)driver->cuStreamSynchronize(hash->lane[i].stream);
		(void)driver->cuStreamDestroy(hash->lane[i].stream);
		hash->lane[i].stream = NULL;
	}
	if (hash->lanes_memory)
		(void)driver->cuMemFree(hash->lanes_memory);
	if (hash->lanes_sums)
		(void)driver->cuMemFreeHost(hash->lanes_sums);
	for (uint32_t i = 0; i < hash->n_blocks; i++)
		(void)driver->cuMemFree(hash->block[i]);
	if (hash->module)
		(void)driver->cuModuleUnload(hash->module);
	free(hash->block);
	hash->block = NULL;
	hash->module = NULL;
	hash->lanes_memory = 0;
	hash->lanes_sums = NULL;
	hash->n_blocks = hash->n_slots = 0;
}

static void
key_make(uint64_t key[4])
{
	struct sl_rng rng;

	if (getrandom(key, 4 * sizeof(*key), GRND_NONBLOCK) != 4 * sizeof(*key)) {
		sl_rng_init(&rng, sl_now_ns() ^ (uintptr_t)key);
		for (int i = 0; i < 4; i++)
			key[i] = sl_rng_next(&rng);
	}
	key[2] |= 1;
	key[3] |= 1;
}

static int
lanes_make(struct cuda *cuda)
{
	struct cuda_hash *hash = &cuda->hash;
	int least = 0, greatest = 0;
	void *sums = NULL;
	int rc = CUDA_TRY(cuda, cuMemAlloc, &hash->lanes_memory,
			  SL_CUDA_HASH_LANES * SLOT_BYTES);

	if (!rc)
		rc = CUDA_TRY(cuda, cuMemHostAlloc, &sums,
			      (size_t)SL_CUDA_HASH_LANES * 2 * SLOT_BYTES,
			      CU_HOST_ALLOC_PORTABLE);
	hash->lanes_sums = sums;
	if (!rc)
		rc = CUDA_TRY(cuda, cuCtxGetStreamPriorityRange, &least, &greatest);
	for (unsigned i = 0; i < SL_CUDA_HASH_LANES && !rc; i++) {
		struct cuda_hash_lane *lane = &hash->lane[i];

		rc = CUDA_TRY(cuda, cuStreamCreateWithPriority, &lane->stream,
			      CU_STREAM_NONBLOCKING, greatest);
		lane->scratch = hash->lanes_memory + i * SLOT_BYTES;
		lane->sums = hash->lanes_sums + (size_t)i * 4;
	}
	return rc;
}

/* The kernel and what it needs, made at the first call. Context entered. */
static int
hash_ready(struct cuda *cuda)
{
	struct cuda_hash *hash = &cuda->hash;
	int rc;

	sl_mutex_lock(&hash->lock);
	rc = hash->ready;
	if (!rc) {
		key_make(hash->key);
		rc = CUDA_TRY(cuda, cuModuleLoadData, &hash->module, hash_ptx);
		if (!rc)
			rc = CUDA_TRY(cuda, cuModuleGetFunction, &hash->function,
				      hash->module, SL_CUDA_HASH_KERNEL);
		if (!rc)
			rc = lanes_make(cuda);
		if (rc) {
			sl_fail_in(rc, "device: hashing");
			sl_cuda_hash_fini(cuda);
		}
		hash->ready = rc ? rc : 1;
	} else if (rc < 0) {
		sl_fail(rc, "device: hashing could not be set up before");
	}
	sl_mutex_unlock(&hash->lock);
	return rc < 0 ? rc : 0;
}

/* Device address of slot number slot (from 1). Lock held. */
static uint64_t
slot_address(const struct cuda_hash *hash, uint32_t slot)
{
	return hash->block[(slot - 1) / BLOCK_SLOTS] +
	       (uint64_t)((slot - 1) % BLOCK_SLOTS) * SLOT_BYTES;
}

/* Room for one more slot. Lock held. */
static int
slots_grow(struct cuda *cuda)
{
	struct cuda_hash *hash = &cuda->hash;
	uint64_t *block;
	int rc;

	if (hash->n_blocks == hash->max_blocks) {
		uint32_t max = hash->max_blocks ? hash->max_blocks * 2 : 16;

		block = sl_calloc(max, sizeof(*block));
		if (!block)
			return sl_fail(-ENOMEM, "device: out of memory");
		if (hash->n_blocks)
			memcpy(block, hash->block, hash->n_blocks * sizeof(*block));
		free(hash->block);
		hash->block = block;
		hash->max_blocks = max;
	}
	rc = CUDA_TRY(cuda, cuMemAlloc, &hash->block[hash->n_blocks],
		      (size_t)BLOCK_SLOTS * SLOT_BYTES);
	if (!rc)
		hash->n_blocks++;
	return rc;
}

/* Where the sums of span lie; its slot is its own for ever. */
static int
span_slot(struct cuda *cuda, struct cuda_span *span, uint64_t *sums)
{
	struct cuda_hash *hash = &cuda->hash;
	int rc = 0;

	sl_mutex_lock(&hash->lock);
	if (!span->hash_slot) {
		if (hash->n_slots == hash->n_blocks * BLOCK_SLOTS)
			rc = slots_grow(cuda);
		if (!rc)
			span->hash_slot = ++hash->n_slots;
	}
	if (!rc)
		*sums = slot_address(hash, span->hash_slot);
	sl_mutex_unlock(&hash->lock);
	return rc;
}

static struct cuda_hash_lane *
lane_take(struct cuda_hash *hash)
{
	struct cuda_hash_lane *lane = NULL;

	sl_mutex_lock(&hash->lock);
	while (!lane) {
		for (unsigned i = 0; i < SL_CUDA_HASH_LANES && !lane; i++)
			lane = hash->lane[i].busy ? NULL : &hash->lane[i];
		if (!lane)
			sl_cond_wait(&hash->idle, &hash->lock);
	}
	lane->busy = 1;
	sl_mutex_unlock(&hash->lock);
	return lane;
}

static void
lane_give(struct cuda_hash *hash, struct cuda_hash_lane *lane)
{
	sl_mutex_lock(&hash->lock);
	lane->busy = 0;
	sl_cond_signal(&hash->idle);
	sl_mutex_unlock(&hash->lock);
}

/* ---- hashing -------------------------------------------------------------------------------- */

/* Clear sums and add the slab's hash to them, on stream. */
static int
hash_enqueue(struct cuda *cuda, struct cu_stream *stream, const struct cuda_slab *slab,
	     uint64_t bytes, uint64_t sums)
{
	const uint64_t *key = cuda->hash.key;
	uint64_t from = slab->alias, units = bytes / SL_CUDA_HASH_UNIT, to = sums;
	uint64_t k0 = key[0], k1 = key[1], m0 = key[2], m1 = key[3];
	void *params[SL_CUDA_HASH_PARAMS] = {&from, &units, &to, &k0, &k1, &m0, &m1};
	/* A span has 2^17 units times a power of two: every thread has as many rounds. */
	uint64_t blocks = units / (SL_CUDA_HASH_THREADS * SL_CUDA_HASH_UNROLL);
	int rc = CUDA_TRY(cuda, cuMemsetD8Async, sums, 0, SLOT_BYTES, stream);

	if (blocks > SL_CUDA_HASH_BLOCKS)
		blocks = SL_CUDA_HASH_BLOCKS;
	if (!rc)
		rc = CUDA_TRY(cuda, cuLaunchKernel, cuda->hash.function, (unsigned)blocks,
			      1, 1, SL_CUDA_HASH_THREADS, 1, 1, 0, stream, params, NULL);
	return rc;
}

/* As sl_cuda_move_in(), with a hash for a copy. */
static int
measure_enqueue(struct cuda *cuda, const struct cuda_slab *slab, uint64_t bytes,
		uint64_t sums, uint64_t *move)
{
	struct cuda_moves *moves = &cuda->moves;
	uint64_t number;
	int rc = 0;

	sl_mutex_lock(&moves->lock);
	number = atomic_load_explicit(&cuda->dev.moves_issued, memory_order_relaxed) + 1;
	if (number > SL_CUDA_MOVES)
		rc = sl_cuda_move_wait(cuda, number - SL_CUDA_MOVES);
	if (!rc)
		rc = hash_enqueue(cuda, moves->in, slab, bytes, sums);
	if (!rc) {
		rc = CUDA_TRY(cuda, cuEventRecord,
			      moves->in_event[number % SL_CUDA_MOVES], moves->in);
		if (rc)
			(void)cuda->driver->cuStreamSynchronize(moves->in);
	}
	if (!rc) {
		atomic_store_explicit(&cuda->dev.moves_issued, number, memory_order_release);
		*move = number;
	}
	sl_mutex_unlock(&moves->lock);
	return rc;
}

int
sl_cuda_measure(struct sl_device *dev, const void *addr, uint64_t bytes)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct cuda_span *span = sl_cuda_span(cuda, addr);
	uint64_t sums = 0;
	int rc;

	if (!span->slab)
		return sl_fail(-EINVAL, "device: %p is not present", addr);
	span->hash_move = 0;
	rc = sl_cuda_enter(cuda);
	if (rc)
		return rc;
	rc = hash_ready(cuda);
	if (!rc)
		rc = span_slot(cuda, span, &sums);
	if (!rc)
		rc = measure_enqueue(cuda, span->slab, bytes, sums, &span->hash_move);
	sl_cuda_leave(cuda);
	return rc ? sl_fail_in(rc, "device: measuring %p", addr) : 0;
}

/* Hash the span now and fetch both sums to the lane. */
static int
lane_compare(struct cuda *cuda, struct cuda_hash_lane *lane, const struct cuda_span *span,
	     uint64_t bytes, uint64_t sums)
{
	int rc = sl_cuda_move_gate(cuda, lane->stream, span->hash_move);
	int end;

	if (!rc)
		rc = hash_enqueue(cuda, lane->stream, span->slab, bytes, lane->scratch);
	if (!rc)
		rc = CUDA_TRY(cuda, cuMemcpyDtoHAsync, lane->sums, lane->scratch,
			      SLOT_BYTES, lane->stream);
	if (!rc)
		rc = CUDA_TRY(cuda, cuMemcpyDtoHAsync, lane->sums + 2, sums, SLOT_BYTES,
			      lane->stream);
	/* Also after a failure: nothing reads the span when the caller goes on. */
	end = CUDA_TRY(cuda, cuStreamSynchronize, lane->stream);
	if (rc || end)
		return rc ? rc : end;
	return lane->sums[0] == lane->sums[2] && lane->sums[1] == lane->sums[3];
}

int
sl_cuda_unchanged(struct sl_device *dev, const void *addr, uint64_t bytes)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct cuda_span *span = sl_cuda_span(cuda, addr);
	struct cuda_hash_lane *lane;
	uint64_t sums = 0;
	int rc;

	if (!span->slab || !span->hash_move)
		return sl_fail(-EINVAL, "device: %p was not measured", addr);
	rc = sl_cuda_enter(cuda);
	if (rc)
		return rc;
	rc = span_slot(cuda, span, &sums);
	if (!rc) {
		lane = lane_take(&cuda->hash);
		rc = lane_compare(cuda, lane, span, bytes, sums);
		lane_give(&cuda->hash, lane);
	}
	sl_cuda_leave(cuda);
	return rc < 0 ? sl_fail_in(rc, "device: comparing %p", addr) : rc;
}
