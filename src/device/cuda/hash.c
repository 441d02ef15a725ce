/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes of chunks; hash.h has the function. A hash is one kernel and one event. Each of the
 * kernel's few blocks writes its sums to pinned host memory, so no copy has to queue for an
 * engine. The completer of streams adds them up and calls back. A hash that is needed now runs
 * on a stream of its own, ahead of the program's kernels. A hash of data as they arrived runs on
 * the stream of copies in.
 *
 * The kernel is PTX text. The driver compiles and loads it before the first chunk is hashed. So
 * neither nvcc nor a binary for each GPU is needed. If the driver refuses (-ENOTSUP or its own
 * error), that is remembered and nothing is hashed. Hashes use no device memory beside the
 * budget.
 *
 * Threads: any. hash.lock is held to take and give back a hash's resources, and to enqueue on
 * the stream of hashes. That stream keeps the order of their numbers.
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

#define PART_BYTES 16u /* the two sums of a block */

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
 * bytes are under way at once. Sums of threads go to the warp's first, to the block's, and from there
 * to the block's place in the caller's.
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
	"	mul.wide.u32 %t, %block, 16;\n"
	"	add.u64 %to, %to, %t;\n"
	"	st.global.v2.u64 [%to], {%s0, %s1};\n"
	"$end:\n"
	"	ret;\n"
	"}\n";
/* clang-format on */

/* ---- kernel and jobs ------------------------------------------------------------------------ */

/* One hash under way. */
struct cuda_hash_job {
	struct cuda_pending pending; /* first */
	struct cuda_hash_job *next;  /* free ones */
	struct cuda *cuda;
	struct cu_event *event;
	uint64_t *parts;   /* pinned: two sums for each block */
	unsigned n_blocks; /* of its launch */
	uint64_t number;   /* on the stream of hashes; 0: on that of copies in */
	void (*done)(void *cookie, int rc, const uint64_t sums[2]);
	void *cookie;
};

void
sl_cuda_hash_init(struct cuda *cuda)
{
	sl_mutex_init(&cuda->hash.lock, SL_RANK_STREAM);
}

void
sl_cuda_hash_fini(struct cuda *cuda)
{
	struct cuda_hash *hash = &cuda->hash;
	const struct sl_cuda_driver *driver = cuda->driver;

	if (hash->stream) {
		(void)driver->cuStreamSynchronize(hash->stream);
		(void)driver->cuStreamDestroy(hash->stream);
	}
	for (unsigned i = 0; hash->jobs && i < SL_CUDA_HASH_JOBS; i++) {
		if (hash->jobs[i].event)
			(void)driver->cuEventDestroy(hash->jobs[i].event);
	}
	if (hash->parts)
		(void)driver->cuMemFreeHost(hash->parts);
	if (hash->module)
		(void)driver->cuModuleUnload(hash->module);
	free(hash->jobs);
	hash->jobs = hash->free = NULL;
	hash->module = NULL;
	hash->stream = NULL;
	hash->parts = NULL;
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
jobs_make(struct cuda *cuda)
{
	const size_t part_words = SL_CUDA_HASH_BLOCKS * PART_BYTES / sizeof(uint64_t);
	struct cuda_hash *hash = &cuda->hash;
	int rc;

	hash->jobs = sl_calloc(SL_CUDA_HASH_JOBS, sizeof(*hash->jobs));
	if (!hash->jobs)
		return sl_fail(-ENOMEM, "device: out of memory");
	rc = CUDA_TRY(cuda, cuMemHostAlloc, &hash->parts,
		      SL_CUDA_HASH_JOBS * part_words * sizeof(uint64_t),
		      CU_HOST_ALLOC_PORTABLE);
	for (unsigned i = 0; i < SL_CUDA_HASH_JOBS && !rc; i++) {
		struct cuda_hash_job *job = &hash->jobs[i];

		rc = CUDA_TRY(cuda, cuEventCreate, &job->event, CU_EVENT_UNTIMED);
		job->cuda = cuda;
		job->parts = (uint64_t *)hash->parts + i * part_words;
		job->next = hash->free;
		hash->free = job;
	}
	return rc;
}

static int
stream_make(struct cuda *cuda)
{
	int least = 0, greatest = 0;
	int rc = CUDA_TRY(cuda, cuCtxGetStreamPriorityRange, &least, &greatest);

	(void)least;
	return rc ? rc
		  : CUDA_TRY(cuda, cuStreamCreateWithPriority, &cuda->hash.stream,
			     CU_STREAM_NONBLOCKING, greatest);
}

/* Sums of units (16 bytes each) at from, by block, to parts. */
static int
kernel_launch(struct cuda *cuda, struct cu_stream *stream, uint64_t from, uint64_t units,
	      unsigned n_blocks, uint64_t *parts)
{
	const uint64_t *key = cuda->hash.key;
	uint64_t to = (uintptr_t)parts;
	uint64_t k0 = key[0], k1 = key[1], m0 = key[2], m1 = key[3];
	void *params[SL_CUDA_HASH_PARAMS] = {&from, &units, &to, &k0, &k1, &m0, &m1};

	return CUDA_TRY(cuda, cuLaunchKernel, cuda->hash.function, n_blocks, 1, 1,
			SL_CUDA_HASH_THREADS, 1, 1, 0, stream, params, NULL);
}

/* Also runs it once, over nothing: its first launch loads it, which may wait for kernels that run. */
static int
hash_make(struct cuda *cuda)
{
	struct cuda_hash *hash = &cuda->hash;
	int rc;

	key_make(hash->key);
	rc = CUDA_TRY(cuda, cuModuleLoadData, &hash->module, hash_ptx);
	if (!rc)
		rc = CUDA_TRY(cuda, cuModuleGetFunction, &hash->function, hash->module,
			      SL_CUDA_HASH_KERNEL);
	if (!rc)
		rc = stream_make(cuda);
	if (!rc)
		rc = jobs_make(cuda);
	if (!rc)
		rc = kernel_launch(cuda, hash->stream, (uintptr_t)hash->parts, 0, 1,
				   hash->parts);
	if (!rc)
		rc = CUDA_TRY(cuda, cuStreamSynchronize, hash->stream);
	return rc;
}

/* Make what hashing needs, at the first call. Context entered. */
static int
hash_ready(struct cuda *cuda)
{
	struct cuda_hash *hash = &cuda->hash;
	int rc;

	sl_mutex_lock(&hash->lock);
	rc = hash->ready;
	if (!rc) {
		rc = hash_make(cuda);
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

int
sl_cuda_hash_prepare(struct sl_device *dev)
{
	struct cuda *cuda = sl_cuda_of(dev);
	int rc = sl_cuda_enter(cuda);

	if (rc)
		return rc;
	rc = hash_ready(cuda);
	sl_cuda_leave(cuda);
	return rc;
}

static struct cuda_hash_job *
job_take(struct cuda_hash *hash)
{
	struct cuda_hash_job *job;

	sl_mutex_lock(&hash->lock);
	job = hash->free;
	if (job)
		hash->free = job->next;
	sl_mutex_unlock(&hash->lock);
	return job;
}

static void
job_give(struct cuda_hash *hash, struct cuda_hash_job *job)
{
	sl_mutex_lock(&hash->lock);
	job->next = hash->free;
	hash->free = job;
	sl_mutex_unlock(&hash->lock);
}

/* Its event has come, or never will. On a thread of the completer. */
static void
job_done(struct cuda_pending *pending, int rc)
{
	struct cuda_hash_job *job = (struct cuda_hash_job *)pending;
	struct cuda_hash *hash = &job->cuda->hash;
	void (*done)(void *cookie, int rc, const uint64_t sums[2]) = job->done;
	void *cookie = job->cookie;
	uint64_t sums[2] = {0, 0};

	for (unsigned i = 0; i < job->n_blocks && !rc; i++) {
		sums[0] += job->parts[2 * i];
		sums[1] += job->parts[2 * i + 1];
	}
	/* One thread of one queue: numbers rise. */
	if (job->number > atomic_load_explicit(&hash->done, memory_order_relaxed))
		atomic_store_explicit(&hash->done, job->number, memory_order_release);
	if (rc)
		sl_fail_in(rc, "device: hash");
	job_give(hash, job);
	done(cookie, rc, sums);
}

/* ---- hashing -------------------------------------------------------------------------------- */

/* The kernel and the event behind it; what cannot be told the end of has ended. */
static int
job_enqueue(struct cuda *cuda, struct cuda_hash_job *job, struct cu_stream *stream,
	    const struct cuda_slab *slab, uint64_t bytes)
{
	uint64_t units = bytes / SL_CUDA_HASH_UNIT;
	/* A chunk has 2^17 units times a power of two: every thread has as many rounds. */
	uint64_t blocks = units / (SL_CUDA_HASH_THREADS * SL_CUDA_HASH_UNROLL);
	int rc;

	job->n_blocks = blocks < SL_CUDA_HASH_BLOCKS ? (unsigned)blocks : SL_CUDA_HASH_BLOCKS;
	rc = kernel_launch(cuda, stream, slab->alias, units, job->n_blocks, job->parts);
	if (rc)
		return rc;
	rc = CUDA_TRY(cuda, cuEventRecord, job->event, stream);
	if (rc)
		(void)cuda->driver->cuStreamSynchronize(stream);
	return rc;
}

/* What the chunk holds once the copy in that fills it is done. */
static int
now_enqueue(struct cuda *cuda, struct cuda_hash_job *job, struct cuda_chunk *chunk,
	    uint64_t bytes)
{
	struct cuda_hash *hash = &cuda->hash;
	int rc;

	sl_mutex_lock(&hash->lock);
	rc = sl_cuda_fence_gate(cuda, hash->stream, chunk->after);
	if (!rc)
		rc = job_enqueue(cuda, job, hash->stream, chunk->slab, bytes);
	job->number = rc ? 0 : ++hash->issued;
	if (!rc)
		chunk->slab->hash_number = job->number;
	sl_mutex_unlock(&hash->lock);
	return rc;
}

/* As sl_cuda_move_in(), with a hash for a copy. */
static int
arrival_enqueue(struct cuda *cuda, struct cuda_hash_job *job, struct cuda_chunk *chunk,
		uint64_t bytes)
{
	struct cuda_moves *moves = &cuda->moves;
	uint64_t number;
	int rc;

	job->number = 0;
	sl_mutex_lock(&moves->lock);
	rc = sl_cuda_move_next(cuda, SL_COPIES_IN, &number);
	if (!rc && chunk->after.queue == SL_DECODES) /* copies in alone are not enough */
		rc = sl_cuda_fence_gate(cuda, moves->in, chunk->after);
	if (!rc)
		rc = job_enqueue(cuda, job, moves->in, chunk->slab, bytes);
	if (!rc)
		rc = sl_cuda_move_number(cuda, SL_COPIES_IN, number, moves->in, chunk->slab);
	sl_mutex_unlock(&moves->lock);
	return rc;
}

int
sl_cuda_hash(struct sl_device *dev, const void *addr, uint64_t bytes, enum sl_hash_of what,
	     void (*done)(void *cookie, int rc, const uint64_t sums[2]), void *cookie)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct cuda_chunk *chunk = sl_cuda_chunk(cuda, addr);
	struct cuda_hash *hash = &cuda->hash;
	struct cuda_hash_job *job = NULL;
	int rc;

	if (!chunk->slab)
		return sl_fail(-EINVAL, "device: %p is not present", addr);
	rc = sl_cuda_enter(cuda);
	if (rc)
		return rc;
	rc = hash_ready(cuda);
	if (!rc)
		job = job_take(hash);
	if (!rc && !job)
		rc = sl_fail(-EBUSY, "device: %u hashes are under way", SL_CUDA_HASH_JOBS);
	if (!rc) {
		job->pending = (struct cuda_pending){.event = job->event, .done = job_done};
		job->done = done;
		job->cookie = cookie;
		rc = what == SL_HASH_ARRIVED ? arrival_enqueue(cuda, job, chunk, bytes)
					     : now_enqueue(cuda, job, chunk, bytes);
	}
	sl_cuda_leave(cuda);
	if (rc) {
		if (job)
			job_give(hash, job);
		return sl_fail_in(rc, "device: hashing %p", addr);
	}
	sl_cuda_complete(&cuda->streams,
			 what == SL_HASH_ARRIVED ? &hash->arrivals : &hash->queue,
			 &job->pending);
	return 0;
}

void
sl_cuda_hash_wait(struct cuda *cuda, const struct cuda_slab *slab)
{
	struct cuda_hash *hash = &cuda->hash;

	if (slab->hash_number > atomic_load_explicit(&hash->done, memory_order_acquire) &&
	    hash->stream)
		(void)cuda->driver->cuStreamSynchronize(hash->stream);
}
