/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions for the preload library (src/preload). It serves programs that do not know
 * Sluice: their context, allocations whose first contents are undefined, launches that may touch
 * more than is known. All other callers use the public API.
 */
#ifndef SL_CORE_INTERPOSE_H
#define SL_CORE_INTERPOSE_H

#include "base/error.h"
#include "sluice/sluice.h"

/* What a space of a program is made in, and who is told of its work. */
struct sl_space_in {
	void *context; /* a CUcontext; NULL: the GPU's primary one */
	/* So many more bytes of host memory have been pinned, which took ns. On any thread, without
	 * a lock of the space; must not call it. NULL: nobody wants to know. */
	void (*pinned)(void *arg, uint64_t bytes, uint64_t ns);
	void *pinned_arg;
};

/*
 * As sluice_space_create() for a CUDA device, but in this context, and where the system refuses host code
 * a mapping of its own (userfaultfd), without one: *has_hostmap then is 0, and host code must not touch
 * what it gets.
 */
int sl_space_create_in(const struct sluice_config *config, const struct sl_space_in *in,
		       struct sluice_space **out, int *has_hostmap) SL_MUST_CHECK;

/*
 * Have contents seen as they are moved out of the device: moved_out(arg, addr, data, bytes) when
 * the bytes from addr on, a chunk or what is valid of it, have arrived in host memory at data. It
 * may read them there until it returns; whoever needs the chunk waits for it so long. Called on
 * any thread, without a lock of the space, and must not call the space. What is dropped instead
 * of copied is not told of, nor are single pages. Before the first region is made; once.
 */
void sl_space_watch(struct sluice_space *space,
		    void (*moved_out)(void *arg, const void *addr, const void *data,
				      uint64_t bytes),
		    void *arg);

/*
 * From here on the budget of the host tier follows what all programs of this user want of the machine's
 * memory (docs/design/share.md). limit_bytes: it is never more; UINT64_MAX: no bound. want(arg): bytes that
 * the program may need there, called on any thread without a lock of the space; NULL: its regions. Where that
 * cannot be, the budget stays, and a warning says why. Nobody else has the space yet. Does not block.
 */
void sl_space_share_host(struct sluice_space *space, uint64_t limit_bytes,
			 uint64_t (*want)(void *arg), void *arg);
/* The most that the host tier may become now; 0: it is not shared. Wait-free. */
uint64_t sl_space_host_most(const struct sluice_space *space);
/* The budget does not change any more. Blocks on a step to the disk. */
void sl_space_share_host_stop(struct sluice_space *space);

/* Addresses of the space, from first to behind the last. */
void sl_space_addresses(const struct sluice_space *space, uint64_t *base, uint64_t *end);

/*
 * As sluice_alloc(), with chunks of chunk_bytes (2 MiB times a power of two, at most 64 MiB). What
 * was never written, or was discarded, has undefined contents: nothing is cleared for it.
 */
int sl_region_alloc(struct sluice_space *space, size_t bytes, uint64_t chunk_bytes,
		    void **addr) SL_MUST_CHECK;

/*
 * As sluice_launch_begin(), and what lies in beside (n_beside ranges, intents as in uses) may be
 * touched as well: it need not be on the device, only mapped. The caller knows that the stream is not
 * being captured.
 */
int sl_launch_begin_optional(struct sluice_space *space, struct sluice_stream *stream,
			     const struct sluice_use *uses, size_t n_uses,
			     const struct sluice_use *beside, size_t n_beside,
			     struct sluice_launch **out) SL_MUST_CHECK;

/*
 * As sluice_stream_wrap(). per_thread: native stands for another stream in each thread (CUDA's handle
 * of the per-thread default stream), so whoever ends a scope tells the device at once.
 */
int sl_stream_wrap_in(struct sluice_space *space, void *native, int per_thread,
		      struct sluice_stream **out) SL_MUST_CHECK;

/*
 * What stands behind the launches that have ended is recorded on their streams now, not when somebody waits for
 * it: a stream that is captured afterwards, or that would order with one, takes no event. Waits for threads that
 * are recording some at this moment, not for the launches.
 */
void sl_ends_record(struct sluice_space *space);

/*
 * [addr, addr + bytes) would be taken out by what comes: have it leave as soon as the launches that use
 * it now have ended, unless it is used again before. Does not block.
 */
void sl_evict_later(struct sluice_space *space, void *addr, size_t bytes);

/*
 * Where a launch lacks room: whether what is to leave is waited for, if there is any, before what was not used for
 * longest is taken out (at first it is not). Does not block.
 */
void sl_early_evict_await(struct sluice_space *space, int await);

/*
 * Whether data that shrink by an eighth only are encoded when they leave, with SLUICE_COMPRESS_AUTO (at first those
 * that shrink by a quarter are). It makes a difference where sl_encode_may_more(), wait-free: such data have left.
 */
void sl_encode_more(struct sluice_space *space, int more);
int sl_encode_may_more(const struct sluice_space *space);

/* Of all chunks that have contents, on the device or not. Wait-free. */
uint64_t sl_space_alive_bytes(const struct sluice_space *space);

/*
 * As sluice_space_set_budget() of the device. But for launches in flight a smaller budget waits until until_ns
 * (sl_now_ns()) and little longer. -EAGAIN: they use more. Then the budget is what is used. *budget says how
 * much it is, after -EAGAIN and 0.
 */
int sl_space_shrink_until(struct sluice_space *space, uint64_t budget_bytes,
			  uint64_t until_ns, uint64_t *budget) SL_MUST_CHECK;

/* Device memory that the space has taken from the driver, for chunks and to have at hand. Wait-free. */
uint64_t sl_space_device_taken(const struct sluice_space *space);

/* Chunks of the use (its number in uses) that the launch did not find on the device. 0 for a use that it
 * does not have. */
uint64_t sl_launch_fetched(const struct sluice_launch *launch, size_t use);
/* The size of the chunks of that use; 0 for a use that it does not have. */
uint64_t sl_launch_chunk_bytes(const struct sluice_launch *launch, size_t use);

/*
 * What is on the device of [addr, addr + bytes) counts as just used; the rest is brought in, in the
 * background, as by sluice_prefetch(). What is just leaving is part of that rest. 1: there is such a
 * rest. Nothing, where that is not in a region. Does not block. spare: nothing alive has to go for it,
 * and nothing is touched. There has to be room beside what was asked for so before, and beside so many
 * bytes to leave; -EAGAIN: there is for a part of it, which is brought in; -ENOBUFS: for none.
 */
int sl_ahead(struct sluice_space *space, void *addr, size_t bytes, int spare, uint64_t leave);

/*
 * As a lazy sluice_discard() in the order of calls, of a range that no launch will use any more before
 * it is written anew; those that were begun before keep what they have pinned. Does not wait for them.
 */
int sl_discard_freed(struct sluice_space *space, void *addr, size_t bytes);

/* How much of [addr, addr + bytes) a kernel would not reach now: neither on the device nor mapped in host
 * memory. -ENOENT: not in a region. Any thread; does not block. */
int sl_unmapped(struct sluice_space *space, const void *addr, size_t bytes,
		uint64_t *out) SL_MUST_CHECK;

/* The program holds so many bytes more than the device budget, or soon will: host memory for them is pinned in the
 * background, as far as the host budget goes, and no more than is used so far. Only more than before has an effect.
 * Any thread; does not block. */
void sl_space_expect(struct sluice_space *space, uint64_t bytes);

/* Have [addr, addr + bytes) on the device, contents undefined, without regard to any stream:
 * whole chunks. Blocks on copies that are still under way in that room. -ENOBUFS: no room. */
int sl_populate(struct sluice_space *space, void *addr, size_t bytes) SL_MUST_CHECK;

#endif
