/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: the arena that I/O reads into and writes from.
 *
 * The arena grows in segments, each carved into slots of one chunk size. A slot is an address;
 * its memory comes and goes. It is moved to a chunk that is made present, and back, or to another
 * slot, later. Clearing a fresh huge page costs some 50 times more than moving a used one. So
 * free memory is kept on the full lists, up to a limit given by core.
 *
 * Zero fills need cleared memory. One thread clears it ahead, off the path of the fault: a few
 * frames of each requested size, within the same limit. It starts when a fill had to clear for
 * itself, and sleeps when its frames are not taken.
 *
 * Free lists are guesses where an error costs nothing. Memory may be missing in a "full" slot
 * (present() fills the holes), and a slot found not empty is emptied. Lists change under
 * frames.lock; madvise, mmap and moves are made outside it. Slot tables are mapped, not
 * allocated: a slot may be taken inside a signal handler.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fault_point.h"
#include "device/soft/soft.h"
#include "device/soft/uffd.h"

#define SEGMENT_BYTES     (256ul << 20)
#define SEGMENT_SLOTS_MIN 4u
#define CLEAR_MAX         4u           /* frames cleared ahead, of a size ... */
#define CLEAR_BYTES_MAX   (16ul << 20) /* ... and their bytes, but for one frame */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* 5.14 */
#endif

struct soft_segment {
	struct soft_segment *next;
	char *arena; /* aligned; inside mapping */
	void *mapping;
	size_t mapping_bytes;
	size_t table_bytes; /* of this struct with its slots */
	unsigned n_slots;
	struct soft_frame slot[];
};

void
sl_soft_frames_init(struct soft *soft, uint64_t limit_bytes)
{
	sl_mutex_init(&soft->frames.lock, SL_RANK_FRAMES);
	sl_cond_init(&soft->frames.wanted);
	soft->frames.limit_bytes = limit_bytes;
}

void
sl_soft_frames_fini(struct soft *soft)
{
	struct soft_segment *segment = soft->frames.segments;

	while (segment) {
		struct soft_segment *next = segment->next;

		munmap(segment->mapping, segment->mapping_bytes);
		munmap(segment, segment->table_bytes);
		segment = next;
	}
	sl_cond_fini(&soft->frames.wanted);
	sl_mutex_fini(&soft->frames.lock);
}

static int
class_of(uint64_t bytes)
{
	for (int class = 0; class < SL_SOFT_CLASSES; class ++)
		if (bytes == (uint64_t)SL_GRANULE_BYTES << class)
			return class;
	return -1;
}

static void
list_push(struct soft_frame **list, struct soft_frame *frame)
{
	frame->next = *list;
	*list = frame;
}

static struct soft_frame *
list_pop(struct soft_frame **list)
{
	struct soft_frame *frame = *list;

	if (frame)
		*list = frame->next;
	return frame;
}

static int
segment_fail(const char *what, uint64_t bytes)
{
	return sl_fail(-ENOMEM, "device: frames: %s for %llu bytes: %s", what,
		       (unsigned long long)bytes, sl_errno_name(errno));
}

/* Map a segment for the class and put all its slots on the hollow list. */
static int
segment_try(struct soft *soft, int class)
{
	uint64_t frame_bytes = (uint64_t)SL_GRANULE_BYTES << class;
	unsigned n = SEGMENT_BYTES / frame_bytes > SEGMENT_SLOTS_MIN
			     ? (unsigned)(SEGMENT_BYTES / frame_bytes)
			     : SEGMENT_SLOTS_MIN;
	size_t table_bytes = sizeof(struct soft_segment) + n * sizeof(struct soft_frame);
	size_t bytes = n * frame_bytes + SL_GRANULE_BYTES;
	struct soft_segment *segment;
	void *arena;

	arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED)
		return segment_fail("no addresses", bytes);
	segment = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (segment == MAP_FAILED) {
		munmap(arena, bytes);
		return segment_fail("no memory for the table", table_bytes);
	}
	segment->mapping = arena;
	segment->mapping_bytes = bytes;
	segment->table_bytes = table_bytes;
	segment->n_slots = n;
	segment->arena = (char *)(((uintptr_t)arena + SL_GRANULE_BYTES - 1) &
				  ~(uintptr_t)(SL_GRANULE_BYTES - 1));
	(void)madvise(arena, bytes, MADV_HUGEPAGE); /* small pages work too, slower */
	(void)madvise(arena, bytes, MADV_UNMERGEABLE);
	if (madvise(arena, bytes, MADV_DONTFORK) ||
	    (soft->can_move &&
	     sl_uffd_register(soft->arena_fd, segment->arena, n * frame_bytes, 0))) {
		munmap(arena, bytes);
		munmap(segment, table_bytes);
		return segment_fail("not registered with userfaultfd", bytes);
	}
	for (unsigned i = 0; i < n; i++) {
		struct soft_frame *frame = &segment->slot[i];

		frame->frame.data = segment->arena + i * frame_bytes;
		frame->frame.bytes = frame_bytes;
		frame->frame.private = frame;
		frame->class = (uint8_t) class;
		frame->memory = SOFT_MEMORY_NONE;
	}
	sl_mutex_lock(&soft->frames.lock);
	segment->next = soft->frames.segments;
	soft->frames.segments = segment;
	for (unsigned i = n; i-- > 0;)
		list_push(&soft->frames.hollow[class], &segment->slot[i]);
	sl_mutex_unlock(&soft->frames.lock);
	return 0;
}

/* Memory that is attached already goes on being served at the process's limit of mappings. */
static int
segment_add(struct soft *soft, int class)
{
	int rc = segment_try(soft, class);

	if (rc == -ENOMEM && sl_soft_spare_maps_give(soft))
		rc = segment_try(soft, class);
	return rc;
}

/* Here, since the attribute needs the parameter. */
static struct soft_frame *slot_pop_locked(struct soft_frames *frames, int class,
					  enum soft_take what) SL_REQUIRES(frames->lock);
static int room_make_locked(struct soft_frames *frames, int class, uint64_t bytes,
			    struct soft_frame **dropped) SL_REQUIRES(frames->lock);

static struct soft_frame *
full_pop_locked(struct soft_frames *frames, int class)
{
	struct soft_frame *frame = list_pop(&frames->full[class]);

	if (frame)
		frames->full_bytes -= frame->frame.bytes;
	return frame;
}

static struct soft_frame *
clear_pop_locked(struct soft_frames *frames, int class)
{
	struct soft_frame *frame = list_pop(&frames->clear[class]);

	if (!frame)
		return NULL;
	frames->full_bytes -= frame->frame.bytes;
	frames->n_clear[class]--;
	return frame;
}

/* A zero fill of the class: have more ready for the next one if there was none for this. */
static void
clear_ask_locked(struct soft_frames *frames, int class, int had)
{
	unsigned *target = &frames->target[class];
	uint64_t next = *target ? *target * 2 : 1;

	if (!had && next <= CLEAR_MAX && (next << class) * SL_GRANULE_BYTES <= CLEAR_BYTES_MAX)
		*target = (unsigned)next;
	else if (!*target)
		*target = 1;
	if (frames->started && !frames->clearing && frames->n_clear[class] < *target)
		sl_cond_signal(&frames->wanted);
}

/* A slot with memory, for contents or for zeros; NULL: there is none. */
static struct soft_frame *
memory_pop_locked(struct soft_frames *frames, int class, enum soft_take what)
{
	struct soft_frame *frame;

	if (what == SOFT_TAKE_CLEAR) {
		frame = clear_pop_locked(frames, class);
		clear_ask_locked(frames, class, frame != NULL);
		return frame ? frame : full_pop_locked(frames, class);
	}
	frame = full_pop_locked(frames, class);
	if (frame)
		return frame;
	frame = clear_pop_locked(frames, class);
	if (frame) /* others need the memory more */
		frames->target[class] /= 2;
	return frame;
}

/* A slot from the lists; NULL: a segment must be added. */
static struct soft_frame *
slot_pop_locked(struct soft_frames *frames, int class, enum soft_take what)
{
	struct soft_frame *frame = NULL;

	if (what == SOFT_TAKE_FULL || what == SOFT_TAKE_CLEAR) {
		frame = memory_pop_locked(frames, class, what);
		if (frame)
			return frame;
	}
	if (what == SOFT_TAKE_SCRATCH)
		frame = list_pop(&frames->scratch[class]);
	if (!frame)
		frame = list_pop(&frames->hollow[class]);
	if (!frame)
		frame = list_pop(&frames->scratch[class]);
	return frame;
}

int
sl_soft_frame_take(struct soft *soft, uint64_t bytes, enum soft_take what,
		   struct soft_frame **out)
{
	int class = class_of(bytes);
	struct soft_frame *frame;

	if (class < 0)
		return sl_fail(-EINVAL, "device: frame of %llu bytes: must be %u times a power of two",
			       (unsigned long long)bytes, SL_GRANULE_BYTES);
	for (;;) {
		int rc;

		sl_mutex_lock(&soft->frames.lock);
		frame = slot_pop_locked(&soft->frames, class, what);
		sl_mutex_unlock(&soft->frames.lock);
		if (frame)
			break;
		/* Other threads may take all its slots first: then the next one, until memory
		 * or addresses end. */
		rc = segment_add(soft, class);
		if (rc)
			return rc;
	}
	frame->next = NULL;
	*out = frame;
	return 0;
}

static void
memory_drop(struct soft_frame *frame)
{
	/* Fails only for an address that is not mapped. */
	int rc = madvise(frame->frame.data, frame->frame.bytes, MADV_DONTNEED);

	assert(!rc);
	(void)rc;
	frame->memory = SOFT_MEMORY_NONE;
	frame->small = 0;
}

int
sl_soft_frames_have_room(struct soft *soft, uint64_t bytes)
{
	int room;

	sl_mutex_lock(&soft->frames.lock);
	room = soft->frames.full_bytes + bytes <= soft->frames.limit_bytes;
	sl_mutex_unlock(&soft->frames.lock);
	return room;
}

/* Room for bytes on the full lists, at the cost of other sizes; their slots go to *dropped. */
static int
room_make_locked(struct soft_frames *frames, int class, uint64_t bytes,
		 struct soft_frame **dropped)
{
	for (int other = 0; other < SL_SOFT_CLASSES; other++) {
		while (frames->full_bytes + bytes > frames->limit_bytes && other != class) {
			struct soft_frame *frame = full_pop_locked(frames, other);

			if (!frame)
				frame = clear_pop_locked(frames, other);
			if (!frame)
				break;
			list_push(dropped, frame);
		}
	}
	return frames->full_bytes + bytes <= frames->limit_bytes;
}

void
sl_soft_frame_give(struct soft *soft, struct soft_frame *frame)
{
	struct soft_frames *frames = &soft->frames;
	struct soft_frame *dropped = NULL;

	if (frame->memory == SOFT_MEMORY_LENT)
		frame->memory = SOFT_MEMORY_NONE; /* it is the chunk's now */
	if (frame->small) {
		memory_drop(frame); /* also lets the kernel drop the page table */
		sl_soft_frame_give_scratch(soft, frame);
		return;
	}

	sl_mutex_lock(&frames->lock);
	if (frame->memory == SOFT_MEMORY_NONE) {
		list_push(&frames->hollow[frame->class], frame);
	} else if (room_make_locked(frames, frame->class, frame->frame.bytes, &dropped)) {
		frames->full_bytes += frame->frame.bytes;
		frame->frame.dirty_memory = 1;
		list_push(&frames->full[frame->class], frame);
	} else {
		list_push(&dropped, frame);
	}
	sl_mutex_unlock(&frames->lock);

	while (dropped) {
		frame = list_pop(&dropped);
		memory_drop(frame);
		sl_mutex_lock(&frames->lock);
		list_push(&frames->hollow[frame->class], frame);
		sl_mutex_unlock(&frames->lock);
	}
}

void
sl_soft_frame_give_scratch(struct soft *soft, struct soft_frame *frame)
{
	assert(frame->memory == SOFT_MEMORY_NONE);
	sl_mutex_lock(&soft->frames.lock);
	list_push(&soft->frames.scratch[frame->class], frame);
	sl_mutex_unlock(&soft->frames.lock);
}

int
sl_soft_frame_get(struct sl_device *dev, uint64_t bytes, struct sl_frame **out)
{
	struct soft_frame *frame;
	int rc = sl_soft_frame_take(sl_soft_of(dev), bytes, SOFT_TAKE_FULL, &frame);

	if (rc)
		return rc;
	frame->frame.dirty_memory = frame->frame.dirty_memory &&
				    frame->memory == SOFT_MEMORY_OWN;
	/* Core may fill it at any time from here on: what was hollow counts as full. */
	*out = &frame->frame;
	return 0;
}

void
sl_soft_frame_put(struct sl_device *dev, struct sl_frame *frame)
{
	struct soft_frame *slot;

	if (!frame)
		return;
	slot = frame->private;
	/* Taken hollow, it may have been filled since: the memory, if any, is its own. */
	if (slot->memory == SOFT_MEMORY_NONE)
		slot->memory = SOFT_MEMORY_OWN;
	sl_soft_frame_give(sl_soft_of(dev), slot);
}

/* The class whose clear list is below its target; -1: none. */
static int
clear_class_locked(const struct soft_frames *frames)
{
	for (int class = 0; class < SL_SOFT_CLASSES; class ++)
		if (frames->n_clear[class] < frames->target[class])
			return class;
	return -1;
}

/*
 * A slot to clear: used memory, or an empty slot if the cache has room for what it will
 * hold. NULL: neither; the class waits until it is asked for again.
 */
static struct soft_frame *
clear_pick_locked(struct soft_frames *frames, int class)
{
	uint64_t bytes = (uint64_t)SL_GRANULE_BYTES << class;
	struct soft_frame *frame = full_pop_locked(frames, class);

	if (!frame && frames->full_bytes + bytes <= frames->limit_bytes)
		frame = list_pop(&frames->hollow[class]);
	return frame;
}

/* All zeros afterwards. 0, or -1: no memory. */
static int
frame_clear(struct soft_frame *frame)
{
	if (frame->memory == SOFT_MEMORY_OWN) {
		memset(frame->frame.data, 0, frame->frame.bytes);
		return 0;
	}
	if (madvise(frame->frame.data, frame->frame.bytes, MADV_POPULATE_WRITE))
		return -1;
	frame->memory = SOFT_MEMORY_OWN;
	return 0;
}

static void *
clear_main(void *arg)
{
	struct soft *soft = arg;
	struct soft_frames *frames = &soft->frames;

	sl_mutex_lock(&frames->lock);
	while (!frames->stopping) {
		int class = clear_class_locked(frames);
		struct soft_frame *frame = class < 0 ? NULL
						     : clear_pick_locked(frames, class);
		int failed;

		if (!frame) {
			frames->clearing = 0;
			sl_cond_wait(&frames->wanted, &frames->lock);
			frames->clearing = 1;
			continue;
		}
		sl_mutex_unlock(&frames->lock);
		failed = frame_clear(frame);
		sl_mutex_lock(&frames->lock);
		if (!failed &&
		    frames->full_bytes + frame->frame.bytes <= frames->limit_bytes) {
			frames->full_bytes += frame->frame.bytes;
			frames->n_clear[class]++;
			frame->frame.dirty_memory = 0;
			list_push(&frames->clear[class], frame);
			continue;
		}
		frames->target[class] = 0;
		sl_mutex_unlock(&frames->lock);
		sl_soft_frame_give(soft, frame);
		sl_mutex_lock(&frames->lock);
	}
	sl_mutex_unlock(&frames->lock);
	return NULL;
}

int
sl_soft_frames_start(struct soft *soft)
{
	struct soft_frames *frames = &soft->frames;
	int rc;

	if (!soft->can_move)
		return 0;
	frames->clearing = 1;
	rc = sl_soft_thread_start(&frames->thread, clear_main, soft, "sl-clear");
	if (rc)
		return rc;
	sl_mutex_lock(&frames->lock);
	frames->started = 1;
	sl_mutex_unlock(&frames->lock);
	return 0;
}

void
sl_soft_frames_stop(struct soft *soft)
{
	struct soft_frames *frames = &soft->frames;

	if (!frames->started)
		return;
	sl_mutex_lock(&frames->lock);
	frames->stopping = 1;
	sl_cond_signal(&frames->wanted);
	sl_mutex_unlock(&frames->lock);
	pthread_join(frames->thread, NULL);
}
