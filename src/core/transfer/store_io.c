/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks to and from the store: a chunk's place (mapped file or spill extent), reading it into a
 * frame, writing a frame, and the effect of completions on the chunk. Completions run on a
 * thread of the store engine.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "core/transfer/transfer.h"

/* READING was ended by the end of the file: kept beside the errno for the text. */
#define READ_ERROR_PAST_END 0x8000u

/* Where the store has, or is to have, c: its place in the file, or its spill extent. */
static struct sl_store *
chunk_place(const struct sl_chunk *c, uint64_t *offset)
{
	if (c->region->store) {
		*offset = c->region->file_offset + sl_chunk_index(c) * c->region->chunk_bytes;
		return c->region->store;
	}
	assert(c->spill);
	*offset = c->spill->offset;
	return c->spill->store;
}

/* The bytes of c that the store has, or is to have: nothing behind the region's end. */
static uint64_t
chunk_store_bytes(const struct sl_chunk *c)
{
	uint64_t bytes = sl_chunk_valid_bytes(c);

	if (!c->region->store) /* an extent consists of whole blocks */
		bytes = sl_round_up(bytes, SL_STORE_ALIGN);
	return bytes;
}

/* Threads encode what goes to the disk as it is. A device that could encode is faster by far: what it left as it
 * is, it left for a reason. */
static int
host_encodes(const struct sluice_space *s)
{
	return s->config.compress == SLUICE_COMPRESS_ALWAYS ||
	       (s->config.compress == SLUICE_COMPRESS_AUTO && !s->device->codec);
}

/*
 * io moves all of c, to or from its place. Compressed, if the configuration asks for it and the place is
 * an extent: files are the user's. Not where pages are wanted one by one.
 */
SL_HELD static void
io_whole(struct sl_io *io, const struct sl_chunk *c)
{
	io->bytes = chunk_store_bytes(c);
	io->is_encoded = 0;
	io->encode = c->spill && !c->pages &&
		     c->region->population == SLUICE_POPULATE_CHUNK &&
		     host_encodes(c->region->space);
	io->encoded_bytes = 0;
	io->stays_encoded = c->region->space->device->codec != NULL;
}

/* A write of all of c is over: what its extent has now. */
SL_HELD static void
extent_written(struct sl_chunk *c, const struct sl_io *io)
{
	if (!c->spill)
		return;
	c->spill->encoded_bytes = io->encoded_bytes;
	c->spill->encoded_sum = io->encoded_sum;
	if (io->encoded_bytes)
		sl_count(c->region->space, SLUICE_COUNTER_COMPRESS_WRITE_SAVED,
			 io->bytes - io->encoded_bytes);
}

void
sl_spill_drop(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	if (!c->spill)
		return;
	s->spilled_bytes -= c->spill->bytes;
	sl_spill_put(s->spill, c->spill);
	free(c->spill);
	c->spill = NULL;
	c->flags &= (uint16_t)~SL_STORE_VALID;
}

int
sl_read_failed(const struct sl_chunk *c)
{
	unsigned error = c->read_error & ~READ_ERROR_PAST_END;
	struct sl_store *store;
	uint64_t offset;

	if (!error)
		return 0;
	store = chunk_place(c, &offset);
	if (c->read_error & READ_ERROR_PAST_END)
		return sl_fail(-(int)error,
			       "read: %s: chunk %llu at offset %llu: the file has become "
			       "shorter than its mapping",
			       c->region->name, (unsigned long long)sl_chunk_index(c),
			       (unsigned long long)offset);
	return sl_fail(-(int)error, "read: %s: chunk %llu at offset %llu of %s: %s",
		       c->region->name, (unsigned long long)sl_chunk_index(c),
		       (unsigned long long)offset, store->name, strerror((int)error));
}

static void
read_done(struct sl_io *io)
{
	struct sl_host *h = io->arg;
	struct sl_chunk *c = h->chunk;
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	uint64_t bytes = io->bytes;
	int result = io->result;

	/* What lies behind the region's end reads as zeros, whatever the file has there. */
	if (!result && bytes < r->chunk_bytes)
		memset((char *)h->frame->data + bytes, 0, r->chunk_bytes - bytes);
	sl_space_lock(s);
	sl_event_end(s, h->event, result);
	if (r->store) /* others may have written the file; nobody writes to what was spilled */
		sl_dirty_hash_forget(c);
	if (!result) {
		if (io->encoded_bytes)
			sl_count(s, SLUICE_COUNTER_COMPRESS_READ_SAVED,
				 io->bytes - io->encoded_bytes);
		if (io->is_encoded)
			h->frame->encoded_bytes = io->encoded_bytes;
		sl_chunk_set_state(c, SL_CHUNK_HOST);
	} else {
		sl_count(s, SLUICE_COUNTER_IO_ERRORS, 1);
		c->read_error = (uint16_t)(-result) |
				(io->past_end ? READ_ERROR_PAST_END : 0);
		sl_read_ahead_release(c);
		c->host = NULL;
		sl_chunk_set_state(c, SL_CHUNK_STORE);
		sl_host_put(h);
	}
	sl_region_leave(r);
	sl_space_unlock(s);
}

int
sl_read_begin(struct sl_chunk *c, enum sl_io_class cls, enum sluice_counter counter,
	      enum sl_staging_use use, int as_is)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	struct sl_store *store;
	struct sl_host *h;
	struct sl_io *io;
	uint64_t offset;
	int rc;

	assert(c->state == SL_CHUNK_STORE && !c->host);
	r->busy++;
	c->read_error = 0;
	sl_chunk_set_state(c, SL_CHUNK_READING);
	rc = sl_host_get(c, use, &h);
	if (rc) {
		sl_chunk_set_state(c, SL_CHUNK_STORE);
		sl_region_leave(r);
		return rc;
	}
	c->host = h;
	sl_chunk_update(c);
	store = chunk_place(c, &offset);
	sl_count(s, counter, chunk_store_bytes(c));
	h->event = sl_event_begin(c, counter, chunk_store_bytes(c), 0, NULL);
	if (counter == SLUICE_COUNTER_STORE_READ_AHEAD) {
		c->flags |= SL_READ_AHEAD;
		s->host.read_ahead_bytes += r->chunk_bytes;
	}
	io = &h->io;
	io->op = SL_IO_READ;
	io->class = cls;
	io->buf = h->frame->data;
	io->offset = offset;
	io_whole(io, c);
	if (c->spill) {
		io->encoded_bytes = c->spill->encoded_bytes;
		io->encoded_sum = c->spill->encoded_sum;
	}
	/* The device decodes whole chunks. */
	io->stays_encoded = !as_is && io->bytes == r->chunk_bytes && sl_encode_runs(s);
	io->done = read_done;
	io->arg = h;
	sl_space_unlock(s);
	sl_store_submit(store, &io, 1);
	sl_space_lock(s);
	return 0;
}

/* Text of a failed write, kept with the region until somebody asks. */
SL_HELD static void
write_error_note(struct sl_chunk *c, const struct sl_io *io)
{
	sl_fail(io->result,
		"write: %s: chunk %llu at offset %llu of %s: %s; the data stay in "
		"memory: free "
		"space or repair the disk, then sync again",
		c->region->name, (unsigned long long)sl_chunk_index(c),
		(unsigned long long)io->offset, io->store->name, strerror(-io->result));
	sl_region_write_error(c->region, io->result, sluice_last_error());
	sl_count(c->region->space, SLUICE_COUNTER_IO_ERRORS, 1);
}

/* The next run of dirty pages of a partial write, into io. 0: there is none. */
static int
write_run_next(struct sl_chunk *c, struct sl_host *h, struct sl_io *io)
{
	uint32_t n_pages = (uint32_t)(c->region->chunk_bytes / SL_PAGE_BYTES);
	size_t first = sl_bitmap_next_set(c->pages->dirty, h->run_next, n_pages);
	size_t end;
	uint64_t offset, valid = chunk_store_bytes(c);

	if (first >= n_pages || first * SL_PAGE_BYTES >= valid)
		return 0;
	end = sl_bitmap_next_clear(c->pages->dirty, first, n_pages);
	h->run_next = (uint32_t)end;
	(void)chunk_place(c, &offset);
	io->buf = (char *)h->frame->data + first * SL_PAGE_BYTES;
	io->offset = offset + first * SL_PAGE_BYTES;
	io->bytes = end * SL_PAGE_BYTES < valid ? (end - first) * SL_PAGE_BYTES
						: valid - first * SL_PAGE_BYTES;
	return 1;
}

static void
write_done(struct sl_io *io)
{
	struct sl_host *h = io->arg;
	struct sl_chunk *c = h->chunk;
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;

	sl_space_lock(s);
	sl_event_end(s, h->event, io->result);
	if (!io->result && c->pages && write_run_next(c, h, io)) {
		uint64_t offset;
		struct sl_store *store = chunk_place(c, &offset); /* io->store is an inner one */

		sl_count(s, (enum sluice_counter)h->write_counter, io->bytes);
		h->event = sl_event_begin(c, (enum sluice_counter)h->write_counter,
					  io->bytes, 0, NULL);
		sl_space_unlock(s);
		sl_store_submit(store, &io, 1);
		return;
	}
	if (io->result) {
		write_error_note(c, io);
		sl_chunk_set_state(c, SL_CHUNK_POISONED);
	} else {
		int partial = c->pages != NULL;

		free(c->pages);
		c->pages = NULL;
		if (!partial)
			extent_written(c, io);
		c->flags &= (uint16_t)~SL_DIRTY_HOST;
		c->flags |= SL_STORE_VALID;
		if (h->let_go || partial) {
			sl_host_list_remove(h);
			c->host = NULL;
			sl_chunk_set_state(c, SL_CHUNK_STORE);
			sl_host_put(h);
		} else {
			sl_chunk_set_state(c, SL_CHUNK_HOST);
		}
	}
	sl_region_leave(r);
	sl_space_unlock(s);
}

/* What a chunk's place in the spill files is worth to it. */
enum worth {
	WORTH_NOTHING, /* what lies there is older than what is in memory */
	WORTH_A_COPY,  /* the same is in memory, and would have to be written again */
	WORTH_ALL      /* nobody else has it, or it is being read or written */
};

SL_HELD static enum worth
spill_worth(const struct sl_chunk *c)
{
	if (c->state == SL_CHUNK_DEVICE && !c->pages &&
	    !(c->flags & (SL_SNAPSHOT | SL_DISCARDED)))
		return c->flags & (SL_DIRTY_DEVICE | SL_DIRTY_HOST) ? WORTH_NOTHING
								    : WORTH_A_COPY;
	if (c->state == SL_CHUNK_HOST && !c->pages && !c->hostmap && c->host->settled &&
	    !(c->flags & SL_ZEROCOPY))
		return c->flags & SL_DIRTY_HOST ? WORTH_NOTHING : WORTH_A_COPY;
	return WORTH_ALL;
}

/* No room is left: the extent, of at least bytes, of the chunk that needs it least, or NULL. That chunk's
 * copy in memory is the only one from then on. */
SL_HELD static struct sl_extent *
spill_take(struct sluice_space *s, uint64_t bytes)
{
	struct sl_chunk *best = NULL;
	enum worth least = WORTH_ALL;
	struct sl_extent *extent;

	for (size_t i = 0; i < s->n_regions && least != WORTH_NOTHING; i++) {
		struct sl_region *r = s->regions[i];

		for (uint64_t k = 0; k < r->n_chunks && least != WORTH_NOTHING; k++) {
			struct sl_chunk *c = &r->chunks[k];

			if (!c->spill || c->spill->bytes < bytes || spill_worth(c) >= least)
				continue;
			best = c;
			least = spill_worth(c);
		}
	}
	if (!best)
		return NULL;
	extent = best->spill;
	extent->encoded_bytes = 0;
	best->spill = NULL;
	sl_dirty_hash_forget(best); /* it may have been measured against that */
	best->flags &= (uint16_t)~SL_STORE_VALID;
	best->flags |= best->state == SL_CHUNK_DEVICE && !best->host ? SL_DIRTY_DEVICE
								     : SL_DIRTY_HOST;
	sl_chunk_update(best);
	return extent;
}

/* An extent for c in the spill files' free room. Drops the lock. */
SL_HELD static int
spill_extent_get(struct sl_chunk *c, struct sl_extent **out)
{
	struct sluice_space *s = c->region->space;
	struct sl_extent *extent;
	int rc;

	sl_space_unlock(s);
	extent = sl_calloc(1, sizeof(*extent));
	rc = extent ? sl_spill_alloc(s->spill, chunk_store_bytes(c), extent)
		    : sl_fail(-ENOMEM, "spill: out of memory");
	if (rc) {
		free(extent);
		extent = NULL;
		sl_fail_in(rc, "%s: chunk %llu", c->region->name,
			   (unsigned long long)sl_chunk_index(c));
	}
	sl_space_lock(s);
	*out = extent;
	return rc;
}

SL_HELD static void
spill_extent_set(struct sl_chunk *c, struct sl_extent *extent)
{
	struct sluice_space *s = c->region->space;

	c->spill = extent;
	s->spilled_bytes += extent->bytes;
	if (s->spilled_bytes > s->spilled_peak_bytes)
		s->spilled_peak_bytes = s->spilled_bytes;
}

/* A spill extent for an anonymous chunk that has none. Drops the lock. */
SL_HELD static int
spill_place(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	struct sl_extent *extent;
	int rc;

	if (c->region->store || c->spill)
		return 0;
	rc = spill_extent_get(c, &extent);
	if (rc == -ENOSPC) {
		c->spill = spill_take(s, chunk_store_bytes(c));
		return c->spill ? 0 : rc;
	}
	if (!rc)
		spill_extent_set(c, extent);
	return rc;
}

/* A chunk on its way to the device has an extent, which others can take as soon as it is there. */
SL_HELD static int
spill_is_due(const struct sluice_space *s)
{
	for (size_t i = 0; i < s->n_regions; i++) {
		const struct sl_region *r = s->regions[i];

		for (uint64_t k = 0; k < r->n_chunks; k++) {
			const struct sl_chunk *c = &r->chunks[k];

			if (c->spill && (c->state == SL_CHUNK_READING ||
					 c->state == SL_CHUNK_FILLING ||
					 (c->state == SL_CHUNK_HOST && !c->host->settled)))
				return 1;
		}
	}
	return 0;
}

/* There is no place for c, which is WRITING. A frame of the host tier just stays there. */
SL_HELD static void
write_unplaced(struct sl_chunk *c, enum sl_io_class cls, int rc)
{
	struct sl_region *r = c->region;
	int is_full = rc == -ENOSPC && cls == SL_IO_WRITEBACK;

	if (!is_full || !spill_is_due(r->space))
		sl_region_write_error(r, rc, sluice_last_error());
	sl_chunk_set_state(c, is_full && c->host->settled ? SL_CHUNK_HOST
							  : SL_CHUNK_POISONED);
	sl_region_leave(r);
}

int
sl_spill_place_free(struct sl_chunk *c)
{
	struct sl_region *r = c->region;
	const struct sl_host *h = c->host;
	struct sl_extent *extent;
	int rc;

	if (r->store || c->spill)
		return 0;
	r->busy++;
	rc = spill_extent_get(c, &extent);
	if (!rc && c->state == SL_CHUNK_HOST && c->host == h && !c->spill) {
		spill_extent_set(c, extent);
	} else if (!rc) {
		sl_spill_put(r->space->spill, extent);
		free(extent);
		rc = -EAGAIN;
	}
	sl_region_leave(r);
	return rc;
}

int
sl_write_begin(struct sl_chunk *c, enum sl_io_class cls, enum sluice_counter counter,
	       int let_go)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	struct sl_host *h;
	struct sl_store *store;
	struct sl_io *io;
	uint64_t offset;
	int rc = 0;

	while (!rc && (c->flags & SL_ZEROCOPY) && c->state != SL_CHUNK_MAPPING)
		rc = sl_zerocopy_unmap(c);
	if (!rc)
		rc = sl_hostmap_hide(c);

	if (rc || (c->state != SL_CHUNK_HOST && c->state != SL_CHUNK_POISONED))
		return rc; /* hiding dropped the lock, and somebody was faster */
	h = c->host;
	io = &h->io;
	r->busy++;
	sl_chunk_set_state(c, SL_CHUNK_WRITING);
	rc = spill_place(c);
	if (rc) {
		write_unplaced(c, cls, rc);
		return rc;
	}
	store = chunk_place(c, &offset);
	h->let_go = let_go;
	h->write_counter = (int)counter;
	h->run_next = 0;
	io->op = SL_IO_WRITE;
	io->class = cls;
	io->buf = h->frame->data;
	io->offset = offset;
	io_whole(io, c);
	io->encoded_bytes = h->frame->encoded_bytes;
	io->is_encoded = io->encoded_bytes != 0;
	io->pieces = h->frame->pieces;
	io->piece_bytes = SL_GRANULE_BYTES;
	io->done = write_done;
	io->arg = h;
	if (c->pages) {
		assert(!sl_chunk_is_encoded(c)); /* sl_page_fault() */
		rc = write_run_next(c, h, io);
		assert(rc);
	}
	sl_count(s, counter, io->bytes);
	h->event = sl_event_begin(c, counter, io->bytes, 0, NULL);
	sl_space_unlock(s);
	sl_store_submit(store, &io, 1);
	sl_space_lock(s);
	return 0;
}

static void
snapshot_done(struct sl_io *io)
{
	struct sl_host *h = io->arg;
	struct sl_chunk *c = h->chunk;
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;

	sl_space_lock(s);
	sl_event_end(s, h->event, io->result);
	if (io->result) {
		write_error_note(c, io);
	} else {
		extent_written(c, io);
		c->flags |= SL_STORE_VALID;
		c->flags &= (uint16_t)~SL_DIRTY_HOST;
		if (!(c->flags & SL_WRITTEN))
			c->flags &= (uint16_t)~SL_DIRTY_DEVICE;
	}
	if (c->flags & SL_WRITTEN)
		sl_host_drop(c); /* a kept copy, older than the device's now */
	c->flags &= (uint16_t)~SL_WRITTEN;
	sl_chunk_set_state(c, SL_CHUNK_DEVICE);
	sl_host_put(h);
	sl_region_leave(r);
	sl_space_unlock(s);
}

void
sl_snapshot_write(struct sl_chunk *c, struct sl_host *h)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	struct sl_io *io = &h->io;
	struct sl_store *store;
	uint64_t offset;

	store = chunk_place(c, &offset);
	r->busy++;
	io->op = SL_IO_WRITE;
	io->class = SL_IO_DEMAND;
	io->buf = h->frame->data;
	io->offset = offset;
	io_whole(io, c);
	io->done = snapshot_done;
	io->arg = h;
	sl_count(s, SLUICE_COUNTER_STORE_WRITE_SYNC, io->bytes);
	h->event = sl_event_begin(c, SLUICE_COUNTER_STORE_WRITE_SYNC, io->bytes, 0, NULL);
	sl_space_unlock(s);
	sl_store_submit(store, &io, 1);
	sl_space_lock(s);
}

int
sl_page_read(struct sl_chunk *c, uint64_t offset, size_t bytes, void *buf)
{
	uint64_t valid = chunk_store_bytes(c);
	struct sl_store *store;
	uint64_t base;
	size_t wanted = bytes;
	int past_end = 0;
	int rc;

	store = chunk_place(c, &base);
	if (offset >= valid) {
		memset(buf, 0, bytes);
		return 0;
	}
	if (offset + bytes > valid)
		wanted = valid - offset;
	rc = store->ops->read_now(store, buf, base + offset, wanted, &past_end);
	if (rc)
		return sl_fail(rc, "read: %s: offset %llu of %s: %s", c->region->name,
			       (unsigned long long)(base + offset), store->name,
			       past_end ? "the file has become shorter than its mapping"
					: strerror(-rc));
	if (wanted < bytes)
		memset((char *)buf + wanted, 0, bytes - wanted);
	return 0;
}
