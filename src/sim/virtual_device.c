/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU in virtual time, as far as the pager sees it. Copies are enqueued and not waited for, as on
 * the CUDA device: present() returns at once, and a kernel starts when what it uses has arrived;
 * a copy out ends by a call from the completer thread. The link takes one copy at a time each way,
 * in the order of the calls; a copy in also waits until the memory that it goes to has been left.
 * At most AHEAD_BYTES wait for the link; present() then blocks. Clearing memory is a line of its own.
 *
 * Chunks are SL_GRANULE_BYTES, moved whole. There are no touches: kernels use what their launches
 * declare, and what they find absent, or write behind a guard, is a failure of the machine's.
 *
 * Threads: the completer; calls come from all others. They take turns: only the queue of the
 * completer is waited for, and has a lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/virtual.h"

#define AHEAD_BYTES (64ull << 20)
#define ALIGN_BYTES ((uint64_t)1 << 30)

struct chunk {
	uint64_t version;
	uint64_t arrives; /* tick */
	uint32_t ratio;   /* of its contents, as in a trace */
	uint8_t attached, present, guarded;
};

/* Memory that was left, or will have been at tick. */
struct left {
	uint64_t tick, bytes;
};

/* A copy out under way. */
struct copy {
	struct copy *next;
	uint64_t tick, version;
	struct sl_token *token;
	void (*done)(void *cookie, int rc);
	void *cookie;
};

struct vdev {
	struct sl_device dev;               /* first */
	struct sl_device_progress progress; /* not counted: kernels know what arrives when */
	struct sl_virtual *v;               /* set once */
	void *mapping;                      /* set once */
	size_t mapping_bytes;               /* set once */
	struct chunk *chunks;
	struct left *left; /* ascending, n_left from first_left; room for each chunk of memory */
	size_t first_left, n_left;
	uint64_t memory_bytes; /* set once */
	uint64_t used_bytes;   /* not in left */

	pthread_t completer;  /* set once */
	struct sl_mutex lock; /* all below */
	struct sl_cond work;
	struct copy *first, *last;
	int stopping;
};

static struct vdev *
vdev_of(struct sl_device *dev)
{
	return (struct vdev *)dev;
}

static struct chunk *
chunk_at(struct vdev *d, const void *addr)
{
	return &d->chunks[((const char *)addr - (const char *)d->dev.base) / SL_GRANULE_BYTES];
}

/* One attached chunk, present or not as wanted. */
static int
chunk_check(struct vdev *d, const char *call, const void *addr, uint64_t bytes, int present)
{
	const struct chunk *s = chunk_at(d, addr);

	if (bytes == SL_GRANULE_BYTES && s->attached && s->present == present)
		return 0;
	sl_virtual_fail(d->v, "device: %s: %llu bytes of a chunk that is %s", call,
			(unsigned long long)bytes,
			!s->attached ? "not attached"
			: s->present ? "present"
				     : "absent");
	return sl_fail(-EINVAL, "%s", d->v->why);
}

/* ---- memory ---- */

/* What can be used now is one. */
static void
left_merge(struct vdev *d)
{
	struct left *left = d->left + d->first_left;
	uint64_t now = sl_turns_now();

	while (d->n_left > 1 && left[1].tick <= now) {
		left[1].bytes += left[0].bytes;
		left++;
		d->first_left++;
		d->n_left--;
	}
}

static void
memory_leave(struct vdev *d, uint64_t tick, uint64_t bytes)
{
	struct left *left;
	size_t at;

	d->used_bytes -= bytes;
	if (d->v->failed) /* more may have been taken than there is */
		return;
	left_merge(d);
	left = d->left + d->first_left;
	at = d->n_left;
	while (at && left[at - 1].tick > tick)
		at--;
	if (at && left[at - 1].tick == tick) {
		left[at - 1].bytes += bytes;
		return;
	}
	memmove(d->left, left, at * sizeof(*left));
	memmove(d->left + at + 1, left + at, (d->n_left - at) * sizeof(*left));
	d->left[at] = (struct left){tick, bytes};
	d->first_left = 0;
	d->n_left++;
}

/* What was left first. Returns when it can be used. */
static uint64_t
memory_take(struct vdev *d, uint64_t bytes)
{
	uint64_t tick = 0;

	d->used_bytes += bytes;
	if (d->used_bytes > d->memory_bytes)
		sl_virtual_fail(d->v, "device: %llu bytes are to be present in a memory of %llu",
				(unsigned long long)d->used_bytes,
				(unsigned long long)d->memory_bytes);
	else if (d->used_bytes > d->v->memory_peak_bytes)
		d->v->memory_peak_bytes = d->used_bytes;
	while (d->n_left && bytes) {
		struct left *l = &d->left[d->first_left];
		uint64_t part = l->bytes < bytes ? l->bytes : bytes;

		tick = l->tick;
		bytes -= part;
		l->bytes -= part;
		if (!l->bytes) {
			d->first_left++;
			d->n_left--;
		}
	}
	return tick;
}

/* ---- chunks and frames ---- */

static int
vdev_attach(struct sl_device *dev, void *addr, size_t bytes, enum sl_delivery delivery)
{
	struct chunk *s = chunk_at(vdev_of(dev), addr);

	(void)delivery; /* nothing touches */
	for (size_t i = 0; i < bytes / SL_GRANULE_BYTES; i++)
		s[i] = (struct chunk){.attached = 1};
	return 0;
}

static void
vdev_detach(struct sl_device *dev, void *addr, size_t bytes)
{
	struct vdev *d = vdev_of(dev);
	struct chunk *s = chunk_at(d, addr);

	for (size_t i = 0; i < bytes / SL_GRANULE_BYTES; i++) {
		if (s[i].present)
			sl_virtual_fail(d->v,
					"device: a region ends with chunks present");
		s[i] = (struct chunk){0};
	}
}

struct vframe {
	struct sl_frame frame; /* first */
	struct sl_token token;
};

static int
vdev_frame_get(struct sl_device *dev, uint64_t bytes, struct sl_frame **out)
{
	struct vframe *f = calloc(1, sizeof(*f));

	(void)dev;
	if (!f)
		return sl_fail(-ENOMEM, "frame: out of memory");
	f->frame.bytes = bytes;
	f->frame.data = &f->token;
	*out = (struct sl_frame *)f;
	return 0;
}

static void
vdev_frame_put(struct sl_device *dev, struct sl_frame *frame)
{
	(void)dev;
	free(frame);
}

static struct sl_token *
frame_token(const struct sl_frame *frame)
{
	return frame->data;
}

/* ---- moves ---- */

static uint64_t
later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What the chunk takes of the link. */
static uint64_t
link_ticks(struct vdev *d, const struct chunk *s, enum sl_way way, uint64_t bytes)
{
	const struct sl_machine *machine = d->v->machine;
	struct sl_move_cost cost = sl_machine_move(machine, way, s->ratio);

	d->v->saved_bytes[way] += bytes * (SL_TRACE_RATIO_ONE - cost.bytes) /
				  SL_TRACE_RATIO_ONE;
	/* As so many raw bytes. */
	bytes = (bytes * cost.time + SL_TRACE_RATIO_ONE - 1) / SL_TRACE_RATIO_ONE;
	return sl_virtual_ticks(d->v, bytes,
				way == SL_WAY_IN ? machine->link_in_bps
						 : machine->link_out_bps);
}

/* No more waits for the link than may. */
static void
link_in_wait(struct vdev *d)
{
	uint64_t ahead = sl_virtual_ticks(d->v, AHEAD_BYTES, d->v->machine->link_in_bps);
	uint64_t free_tick = d->v->line[SL_BOUND_LINK_IN].free_tick;

	if (free_tick > ahead)
		sl_turns_sleep_until(free_tick - ahead);
}

static int
vdev_present(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	     unsigned flags)
{
	struct vdev *d = vdev_of(dev);
	const struct sl_machine *machine = d->v->machine;
	struct chunk *s = chunk_at(d, addr);
	int rc = chunk_check(d, "present", addr, bytes, 0);
	uint64_t from;

	if (rc)
		return rc;
	if (frame)
		link_in_wait(d);
	from = later(memory_take(d, bytes), sl_turns_now());
	s->present = 1;
	s->guarded = (flags & (SL_PRESENT_GUARD | SL_PRESENT_GUARD_STRICT)) != 0;
	if (!frame) {
		s->version = flags & SL_PRESENT_UNDEFINED ? SL_VERSION_ANY : 0;
		s->arrives = sl_line_add(&d->v->line[SL_BOUND_COMPUTE], from,
					 sl_virtual_ticks(d->v, bytes, machine->alloc_bps));
		return 0;
	}
	s->version = frame_token(frame)->version;
	frame_token(frame)->busy_until = sl_line_add(&d->v->line[SL_BOUND_LINK_IN], from,
						     link_ticks(d, s, SL_WAY_IN, bytes));
	s->arrives = frame_token(frame)->busy_until +
		     sl_virtual_latency(d->v, machine->link_ns);
	if (!(flags & SL_PRESENT_KEEP))
		vdev_frame_put(dev, frame);
	return 0;
}

/* Put a copy out on the link; returns when it is over. The number-th may be one to lose. */
static uint64_t
copy_out(struct vdev *d, const struct chunk *s, const struct sl_token *token,
	 uint64_t bytes, uint64_t *version)
{
	uint64_t from = later(later(sl_turns_now(), s->arrives), token->busy_until);

	*version = ++d->v->copies_out == d->v->lose_copy ? token->version : s->version;
	return sl_line_add(&d->v->line[SL_BOUND_LINK_OUT], from,
			   link_ticks(d, s, SL_WAY_OUT, bytes));
}

static int
vdev_absent(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	    enum sl_absent_how how)
{
	struct vdev *d = vdev_of(dev);
	struct chunk *s = chunk_at(d, addr);
	uint64_t left_tick, version;
	int rc = chunk_check(d, "absent", addr, bytes, 1);

	if (rc)
		return rc;
	left_tick = later(s->arrives, sl_turns_now());
	switch (how) {
	case SL_ABSENT_COPY:
		left_tick = copy_out(d, s, frame_token(frame), bytes, &version);
		sl_turns_sleep_until(left_tick +
				     sl_virtual_latency(d->v, d->v->machine->link_ns));
		frame_token(frame)->version = version;
		break;
	case SL_ABSENT_KEPT:
		if (frame_token(frame)->version != s->version)
			sl_virtual_fail(
				d->v,
				"device: a frame was kept as launch %llu left it; it is "
				"taken for clean, but launch %llu wrote the chunk",
				(unsigned long long)frame_token(frame)->version,
				(unsigned long long)s->version);
		break;
	case SL_ABSENT_DISCARD:
		break;
	}
	s->present = s->guarded = 0;
	memory_leave(d, left_tick, bytes);
	return 0;
}

static int
vdev_absent_start(struct sl_device *dev, void *addr, uint64_t bytes,
		  struct sl_frame *frame, void (*done)(void *cookie, int rc), void *cookie)
{
	struct vdev *d = vdev_of(dev);
	struct chunk *s = chunk_at(d, addr);
	struct copy *copy;
	uint64_t end;
	int rc = chunk_check(d, "absent", addr, bytes, 1);

	if (rc)
		return rc;
	copy = calloc(1, sizeof(*copy));
	if (!copy)
		return sl_fail(-ENOMEM, "device: out of memory");
	end = copy_out(d, s, frame_token(frame), bytes, &copy->version);
	s->present = s->guarded = 0;
	memory_leave(d, end, bytes);
	copy->tick = end + sl_virtual_latency(d->v, d->v->machine->link_ns);
	copy->token = frame_token(frame);
	copy->done = done;
	copy->cookie = cookie;
	sl_mutex_lock(&d->lock);
	if (d->first)
		d->last->next = copy;
	else
		d->first = copy;
	d->last = copy;
	sl_cond_signal(&d->work);
	sl_mutex_unlock(&d->lock);
	return 0;
}

/* Kernels wait for what they use by themselves: sl_virtual_arrival(). */
static struct sl_fence
vdev_ready_at(struct sl_device *dev, const void *addr)
{
	(void)dev;
	(void)addr;
	return sl_fence_make(SL_COPIES_IN, 0);
}

static int
vdev_query(struct sl_device *dev, struct sl_fence fence)
{
	(void)dev;
	(void)fence;
	return 0;
}

static int
vdev_snapshot(struct sl_device *dev, const void *addr, uint64_t bytes, struct sl_frame *frame)
{
	struct vdev *d = vdev_of(dev);
	int rc = chunk_check(d, "snapshot", addr, bytes, 1);
	uint64_t version, end;

	if (rc)
		return rc;
	end = copy_out(d, chunk_at(d, addr), frame_token(frame), bytes, &version);
	sl_turns_sleep_until(end + sl_virtual_latency(d->v, d->v->machine->link_ns));
	frame_token(frame)->version = version;
	return 0;
}

static void
chunks_guard(struct vdev *d, const void *addr, uint64_t bytes, int guarded)
{
	struct chunk *s = chunk_at(d, addr);

	for (uint64_t i = 0; i < bytes / SL_GRANULE_BYTES; i++)
		s[i].guarded = (uint8_t)(guarded && s[i].present);
}

static int
vdev_guard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	chunks_guard(vdev_of(dev), addr, bytes, 1);
	return 0;
}

static int
vdev_unguard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	chunks_guard(vdev_of(dev), addr, bytes, 0);
	return 0;
}

/* Tells those who wait for a copy that it is over; they may wait in turn, as for host memory. */
static void *
vdev_completer_main(void *arg)
{
	struct vdev *d = arg;

	sl_mutex_lock(&d->lock);
	while (d->first || !d->stopping) {
		struct copy *copy = d->first;

		if (!copy) {
			sl_cond_wait(&d->work, &d->lock);
			continue;
		}
		d->first = copy->next;
		sl_mutex_unlock(&d->lock);
		sl_turns_sleep_until(copy->tick);
		copy->token->version = copy->version;
		copy->done(copy->cookie, 0);
		free(copy);
		sl_mutex_lock(&d->lock);
	}
	sl_mutex_unlock(&d->lock);
	return NULL;
}

/* ---- kernels ---- */

/* Blocks one after the other: the time that a kernel takes is the kernel's affair. */
static int
vdev_grid_run(struct sl_device *dev, sluice_kernel kernel, struct sluice_grid grid,
	      void *args, void *launch)
{
	struct sluice_block block = {.grid = grid};

	(void)dev;
	(void)launch;
	for (block.index.z = 0; block.index.z < grid.z; block.index.z++)
		for (block.index.y = 0; block.index.y < grid.y; block.index.y++)
			for (block.index.x = 0; block.index.x < grid.x; block.index.x++)
				kernel(&block, args);
	return 0;
}

static uint64_t
chunk_count(uint64_t bytes)
{
	return (bytes + SL_GRANULE_BYTES - 1) / SL_GRANULE_BYTES;
}

void
sl_virtual_ratio(struct sl_device *dev, const void *addr, uint64_t bytes, uint32_t ratio)
{
	struct chunk *s = chunk_at(vdev_of(dev), addr);

	for (uint64_t i = 0; i < bytes / SL_GRANULE_BYTES; i++)
		s[i].ratio = ratio;
}

uint64_t
sl_virtual_arrival(struct sl_device *dev, const void *addr, uint64_t bytes, const char *who)
{
	struct vdev *d = vdev_of(dev);
	const struct chunk *s = chunk_at(d, addr);
	uint64_t arrival = 0;

	for (uint64_t i = 0; i < chunk_count(bytes); i++) {
		if (!s[i].present)
			sl_virtual_fail(d->v, "%s: chunk %llu is absent", who,
					(unsigned long long)i);
		arrival = later(arrival, s[i].arrives);
	}
	return arrival;
}

void
sl_virtual_read(struct sl_device *dev, const void *addr, uint64_t bytes, uint64_t version,
		const char *who)
{
	struct vdev *d = vdev_of(dev);
	const struct chunk *s = chunk_at(d, addr);

	for (uint64_t i = 0; i < chunk_count(bytes); i++)
		if (s[i].version != version)
			sl_virtual_fail(d->v, "%s: chunk %llu is as launch %lld left it, not launch %llu",
					who, (unsigned long long)i, (long long)s[i].version,
					(unsigned long long)version);
}

void
sl_virtual_write(struct sl_device *dev, void *addr, uint64_t bytes, uint64_t version,
		 const char *who)
{
	struct vdev *d = vdev_of(dev);
	struct chunk *s = chunk_at(d, addr);

	for (uint64_t i = 0; i < chunk_count(bytes); i++) {
		if (s[i].guarded)
			sl_virtual_fail(d->v, "%s: chunk %llu is guarded against writes",
					who, (unsigned long long)i);
		s[i].version = version;
	}
}

/* ---- making ---- */

static void
vdev_free(struct vdev *d)
{
	free(d->left);
	if (d->mapping)
		munmap(d->mapping, d->mapping_bytes);
	free(d->chunks);
	sl_cond_fini(&d->work);
	sl_mutex_fini(&d->lock);
	free(d);
}

static void
vdev_destroy(struct sl_device *dev)
{
	struct vdev *d = vdev_of(dev);

	if (!d)
		return;
	sl_mutex_lock(&d->lock);
	d->stopping = 1;
	sl_cond_signal(&d->work);
	sl_mutex_unlock(&d->lock);
	sl_thread_join(d->completer);
	vdev_free(d);
}

static int
vdev_watch(struct sl_device *dev, struct sl_fence fence,
	   void (*done)(void *cookie, int rc, struct sl_copy_time at), void *cookie)
{
	(void)dev, (void)fence, (void)done, (void)cookie;
	return -ENOTSUP;
}

static const struct sl_device_ops vdev_ops = {
	.name = "virtual",
	.destroy = vdev_destroy,
	.attach = vdev_attach,
	.detach = vdev_detach,
	.frame_get = vdev_frame_get,
	.frame_put = vdev_frame_put,
	.present = vdev_present,
	.absent = vdev_absent,
	.snapshot = vdev_snapshot,
	.stream_create = sl_virtual_stream_create,
	.stream_destroy = sl_virtual_stream_destroy,
	.stream_submit = sl_virtual_stream_submit,
	.stream_synchronize = sl_virtual_stream_synchronize,
};

static const struct sl_device_kernels vdev_kernels = {
	.run = vdev_grid_run,
};

static const struct sl_device_async vdev_async = {
	.absent_start = vdev_absent_start,
	.ready_at = vdev_ready_at,
	.query = vdev_query,
	.watch = vdev_watch,
};

static const struct sl_device_guards vdev_guards = {
	.guard = vdev_guard,
	.unguard = vdev_unguard,
};

/* Addresses that nobody else has; nothing is ever there. */
static int
vdev_reserve(struct vdev *d, uint64_t bytes)
{
	d->mapping_bytes = bytes + ALIGN_BYTES;
	d->mapping = mmap(NULL, d->mapping_bytes, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (d->mapping == MAP_FAILED) {
		d->mapping = NULL;
		return sl_fail(-ENOMEM, "device: no %llu addresses: %s",
			       (unsigned long long)bytes, strerror(errno));
	}
	d->dev.base = (char *)d->mapping +
		      (ALIGN_BYTES - (uintptr_t)d->mapping % ALIGN_BYTES) % ALIGN_BYTES;
	d->dev.bytes = bytes;
	return 0;
}

int
sl_virtual_device_create(struct sl_virtual *v, uint64_t address_bytes,
			 uint64_t memory_bytes, struct sl_device **out)
{
	struct vdev *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return sl_fail(-ENOMEM, "device: out of memory");
	d->v = v;
	d->memory_bytes = memory_bytes;
	d->used_bytes = memory_bytes;
	d->dev.ops = &vdev_ops;
	d->dev.kernels = &vdev_kernels;
	d->dev.async = &vdev_async;
	d->dev.guards = &vdev_guards;
	d->dev.progress = &d->progress;
	d->dev.workers = 1;
	sl_mutex_init(&d->lock, SL_RANK_STREAM);
	sl_cond_init(&d->work);
	d->chunks = calloc(address_bytes / SL_GRANULE_BYTES, sizeof(*d->chunks));
	d->left = calloc(memory_bytes / SL_GRANULE_BYTES + 1, sizeof(*d->left));
	if (d->chunks && d->left)
		rc = vdev_reserve(d, address_bytes);
	else
		rc = sl_fail(-ENOMEM, "device: out of memory for %llu chunks",
			     (unsigned long long)(address_bytes / SL_GRANULE_BYTES));
	if (!rc) {
		memory_leave(d, 0, memory_bytes);
		rc = sl_thread_start(&d->completer, vdev_completer_main, d);
		if (rc)
			rc = sl_fail(-rc, "device: cannot start a thread: %s", strerror(rc));
	}
	if (rc) {
		vdev_free(d);
		return rc;
	}
	*out = &d->dev;
	return 0;
}
