/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for anonymous data in unlinked files, one in each directory. A file is an array of steps
 * of 64 MiB. A step gets and loses its blocks as a whole. If budget or disk have less than 64
 * MiB, a step gets what is needed. `taken` has a set bit for every page that is handed out or
 * has no blocks. So an extent is a run of clear bits, wherever steps begin and end.
 *
 * sl_spill_alloc() asks the directories in turn, after the last that gave. In each it takes a
 * free run, else new blocks by fallocate(2). Only one thread allocates blocks at a time, outside
 * the lock. The blocks held never exceed the budget, except after the budget was lowered. Later
 * allocations punch the steps that became free as a whole, one each. If the budget's blocks are
 * in free runs that are too short, those are punched, too. So only the disks can refuse an
 * extent within the budget.
 *
 * The owner of an extent has its contents. No threads of its own. The lock has rank SPILL, and
 * no system call is made under it.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/bitmap.h"
#include "base/fault_point.h"
#include "base/lock.h"
#include "base/size.h"
#include "store/engine.h"

#define STEP_BYTES (64ull << 20)
#define STEP_PAGES ((size_t)(STEP_BYTES / SL_STORE_ALIGN))
#define DIRS_MAX   64u
#define STEPS_MAX  (1u << 18) /* 16 TiB in a directory: what ext4 gives a file */

struct spill_step {
	uint32_t held_pages; /* with blocks, or about to get or lose them */
	uint32_t free_pages; /* clear bits */
	int ragged; /* some pages were punched: the held ones are no longer the first; until all
		     * are gone */
};

struct spill_dir {
	char *path;             /* set once */
	struct sl_store *store; /* set by the first that grows; then fixed */
	int growing;            /* a thread allocates blocks here, outside the lock */
	size_t n_steps;
	struct spill_step *steps;
	uint64_t *taken; /* [n_steps * STEP_PAGES] bits */
	size_t low_step; /* no step before it has a clear bit */
	int last_rc;     /* why the last growth failed; for texts */
};

struct sl_spill {
	struct sl_engine *engine; /* set once */
	size_t n_dirs;            /* set once */
	int compress;             /* set before the first extent */
	enum sl_store_codec codec;
	struct sl_mutex lock; /* all below, and the directories' fields */
	struct sl_cond grown; /* some directory's growing became 0 */
	uint64_t budget_bytes;
	uint64_t used_bytes; /* handed out, or being handed out */
	uint64_t held_bytes; /* with blocks */
	size_t next_dir;
	size_t n_whole_free; /* steps that hold blocks, all of them free */
	struct spill_dir dirs[DIRS_MAX];
};

/* ---- Pages and steps --------------------------------------------------- */

static int
step_is_whole_free(const struct spill_step *step)
{
	return step->held_pages > 0 && step->free_pages == step->held_pages;
}

struct growth;

/* Here, since the attribute needs the parameter. */
static void pages_mark_locked(struct sl_spill *spill, struct spill_dir *dir, size_t first,
			      size_t n, int take) SL_REQUIRES(spill->lock);
static int growth_choose_locked(struct sl_spill *spill, struct spill_dir *dir,
				size_t want_pages, struct growth *out)
	SL_REQUIRES(spill->lock);
static void pages_hold_locked(struct sl_spill *spill, struct spill_dir *dir, size_t first,
			      size_t n, int held) SL_REQUIRES(spill->lock);
static int dir_grow_locked(struct sl_spill *spill, struct spill_dir *dir,
			   size_t want_pages, size_t *out) SL_REQUIRES(spill->lock);
static int dir_take_locked(struct sl_spill *spill, struct spill_dir *dir, size_t n,
			   size_t *out) SL_REQUIRES(spill->lock);
static void pages_punch_locked(struct sl_spill *spill, struct spill_dir *dir,
			       size_t first, size_t n) SL_REQUIRES(spill->lock);
static void step_punch_locked(struct sl_spill *spill) SL_REQUIRES(spill->lock);
static void spill_room_make_locked(struct sl_spill *spill, size_t n)
	SL_REQUIRES(spill->lock);
static int dirs_take_locked(struct sl_spill *spill, uint64_t bytes, struct sl_extent *out)
	SL_REQUIRES(spill->lock);

/* Set (take != 0) or clear bits, keeping the steps' counts. */
static void
pages_mark_locked(struct sl_spill *spill, struct spill_dir *dir, size_t first, size_t n,
		  int take)
{
	assert(sl_bitmap_count(dir->taken, first, n) == (take ? 0 : n));
	if (take)
		sl_bitmap_set(dir->taken, first, n);
	else
		sl_bitmap_clear(dir->taken, first, n);
	if (!take && first / STEP_PAGES < dir->low_step)
		dir->low_step = first / STEP_PAGES;
	while (n > 0) {
		struct spill_step *step = &dir->steps[first / STEP_PAGES];
		size_t here = STEP_PAGES - first % STEP_PAGES;

		if (here > n)
			here = n;
		spill->n_whole_free -= (size_t)step_is_whole_free(step);
		if (take)
			step->free_pages -= (uint32_t)here;
		else
			step->free_pages += (uint32_t)here;
		spill->n_whole_free += (size_t)step_is_whole_free(step);
		first += here;
		n -= here;
	}
}

/* First run of n clear bits, first fit; 0 or -ENOSPC. */
static int
run_find_locked(struct spill_dir *dir, size_t n, size_t *out)
{
	size_t end = dir->n_steps * STEP_PAGES;
	size_t at;

	while (dir->low_step < dir->n_steps && dir->steps[dir->low_step].free_pages == 0)
		dir->low_step++;
	at = dir->low_step * STEP_PAGES;
	while (at < end) {
		size_t run, stop;

		/* Full steps are passed without looking at their bits. */
		if (at % STEP_PAGES == 0 && dir->steps[at / STEP_PAGES].free_pages == 0) {
			at += STEP_PAGES;
			continue;
		}
		stop = (at / STEP_PAGES + 1) * STEP_PAGES;
		run = sl_bitmap_next_clear(dir->taken, at, stop);
		if (run == stop) {
			at = stop;
			continue;
		}
		at = sl_bitmap_next_set(dir->taken, run, run + n < end ? run + n : end);
		if (at - run == n) {
			*out = run;
			return 0;
		}
	}
	return -ENOSPC;
}

/* Make room for n_steps in the arrays; new steps hold nothing. */
static int
steps_add_locked(struct spill_dir *dir, size_t n_steps)
{
	struct spill_step *steps;
	uint64_t *taken;
	size_t words = SL_BITMAP_WORDS(n_steps * STEP_PAGES);
	size_t old_words = SL_BITMAP_WORDS(dir->n_steps * STEP_PAGES);

	if (n_steps > STEPS_MAX)
		return -ENOSPC;
	if (sl_fault_point("mem.alloc"))
		return -ENOMEM;
	steps = realloc(dir->steps, n_steps * sizeof(*steps));
	if (!steps)
		return -ENOMEM;
	dir->steps = steps;
	taken = realloc(dir->taken, words * sizeof(*taken));
	if (!taken)
		return -ENOMEM;
	dir->taken = taken;
	memset(taken + old_words, 0xff, (words - old_words) * sizeof(*taken));
	memset(steps + dir->n_steps, 0, (n_steps - dir->n_steps) * sizeof(*steps));
	dir->n_steps = n_steps;
	return 0;
}

/* ---- Growing ----------------------------------------------------------- */

/* Pages of one directory about to get blocks. The first want_pages are for who grows. */
struct growth {
	size_t first, n_pages;
};

/* How many more bytes of blocks the budget allows. Needs spill->lock. */
static uint64_t
held_room_bytes(const struct sl_spill *spill)
{
	return spill->budget_bytes > spill->held_bytes
		       ? spill->budget_bytes - spill->held_bytes
		       : 0;
}

/* Choose pages without blocks: a step that holds none, or new ones at the end. */
static int
growth_choose_locked(struct sl_spill *spill, struct spill_dir *dir, size_t want_pages,
		     struct growth *out)
{
	size_t room_pages = (size_t)(held_room_bytes(spill) / SL_STORE_ALIGN);
	size_t n_steps = (want_pages + STEP_PAGES - 1) / STEP_PAGES;
	size_t step = dir->n_steps;
	size_t begin;
	int rc;

	if (room_pages < want_pages)
		return -ENOBUFS; /* the budget's blocks are held, in pieces too small */
	if (n_steps == 1) {
		for (step = 0; step < dir->n_steps; step++)
			if (dir->steps[step].held_pages == 0)
				break;
		/* A last step that was cut to the budget goes on where it ended. */
		if (step == dir->n_steps && step > 0) {
			struct spill_step *last = &dir->steps[step - 1];

			begin = last->held_pages;
			if (!last->ragged && begin + want_pages <= STEP_PAGES) {
				out->first = (step - 1) * STEP_PAGES + begin;
				out->n_pages = STEP_PAGES - begin <= room_pages / spill->n_dirs
						       ? STEP_PAGES - begin
						       : want_pages;
				return 0;
			}
		}
	}
	if (step + n_steps > dir->n_steps) {
		rc = steps_add_locked(dir, step + n_steps);
		if (rc)
			return rc;
	}
	/* Whole steps while every directory could get as much; the rest of a budget in
	 * pieces as they are needed, so that each has its turn to the end. */
	out->first = step * STEP_PAGES;
	out->n_pages = n_steps * STEP_PAGES <= room_pages / spill->n_dirs
			       ? n_steps * STEP_PAGES
			       : want_pages;
	return 0;
}

/* Count pages as holding blocks (held != 0), or not any more. Their bits are and stay
 * set. */
static void
pages_hold_locked(struct sl_spill *spill, struct spill_dir *dir, size_t first, size_t n,
		  int held)
{
	if (held)
		spill->held_bytes += (uint64_t)n * SL_STORE_ALIGN;
	else
		spill->held_bytes -= (uint64_t)n * SL_STORE_ALIGN;
	while (n > 0) {
		struct spill_step *step = &dir->steps[first / STEP_PAGES];
		size_t here = STEP_PAGES - first % STEP_PAGES;

		if (here > n)
			here = n;
		spill->n_whole_free -= (size_t)step_is_whole_free(step);
		if (held)
			step->held_pages += (uint32_t)here;
		else
			step->held_pages -= (uint32_t)here;
		if (step->held_pages == 0)
			step->ragged = 0;
		spill->n_whole_free += (size_t)step_is_whole_free(step);
		first += here;
		n -= here;
	}
}

static int
growth_allocate(struct sl_store *store, const struct growth *growth, size_t pages)
{
	return sl_store_allocate(store, (uint64_t)growth->first * SL_STORE_ALIGN,
				 (uint64_t)pages * SL_STORE_ALIGN);
}

/* The directory's file, in the wrapper that the spill is to have. */
static int
dir_store_open(const struct sl_spill *spill, const struct spill_dir *dir,
	       struct sl_store **out)
{
	struct sl_store *store = NULL;
	int rc = sl_store_open_temporary(spill->engine, dir->path, &store);

	if (!rc && spill->compress)
		rc = sl_store_wrap_codec(store, spill->codec, &store);
	if (!rc)
		*out = store;
	return rc;
}

/*
 * Get blocks for want_pages (and the rest of a step) in a directory, and take the first
 * want_pages of them. LOCKING: needs spill->lock; drops and retakes it. dir->growing is
 * set by the caller.
 */
static int
dir_grow_locked(struct sl_spill *spill, struct spill_dir *dir, size_t want_pages, size_t *out)
{
	struct sl_store *store = dir->store;
	struct growth growth;
	size_t got_pages;
	int rc = growth_choose_locked(spill, dir, want_pages, &growth);

	if (rc)
		return rc;
	/* Counted before the blocks exist, so that others cannot go beyond the budget. */
	pages_hold_locked(spill, dir, growth.first, growth.n_pages, 1);
	sl_mutex_unlock(&spill->lock);

	got_pages = growth.n_pages;
	rc = store ? 0 : dir_store_open(spill, dir, &store);
	if (!rc)
		rc = growth_allocate(store, &growth, got_pages);
	if (rc == -ENOSPC && store && got_pages > want_pages) {
		got_pages = want_pages; /* the last of the disk */
		rc = growth_allocate(store, &growth, got_pages);
	}
	if (rc)
		got_pages = 0;

	sl_mutex_lock(&spill->lock);
	if (!dir->store)
		dir->store = store;
	pages_hold_locked(spill, dir, growth.first + got_pages,
			  growth.n_pages - got_pages, 0);
	if (rc)
		return rc;
	pages_mark_locked(spill, dir, growth.first, got_pages, 0);
	pages_mark_locked(spill, dir, growth.first, want_pages, 1);
	*out = growth.first;
	return 0;
}

/* A run in one directory, grown if need be. LOCKING: needs spill->lock; may drop and
 * retake it. */
static int
dir_take_locked(struct sl_spill *spill, struct spill_dir *dir, size_t n, size_t *out)
{
	int rc;

	for (;;) {
		if (!run_find_locked(dir, n, out)) {
			pages_mark_locked(spill, dir, *out, n, 1);
			return 0;
		}
		if (!dir->growing)
			break;
		/* Ends: each growth that we wait for is one allocation of blocks. */
		sl_cond_wait(&spill->grown, &spill->lock);
	}
	dir->growing = 1;
	rc = dir_grow_locked(spill, dir, n, out);
	dir->growing = 0;
	dir->last_rc = rc;
	sl_cond_broadcast(&spill->grown);
	return rc;
}

/* ---- Punching ---------------------------------------------------------- */

/*
 * Give the blocks of n free pages within one step back to the disk.
 * LOCKING: needs spill->lock; drops and retakes it.
 */
static void
pages_punch_locked(struct sl_spill *spill, struct spill_dir *dir, size_t first, size_t n)
{
	struct sl_store *store = dir->store;

	/* Taken by us, and held until they are gone: nobody else touches them. */
	pages_mark_locked(spill, dir, first, n, 1);
	dir->steps[first / STEP_PAGES].ragged = 1;
	sl_mutex_unlock(&spill->lock);
	store->ops->trim(store, (uint64_t)first * SL_STORE_ALIGN,
			 (uint64_t)n * SL_STORE_ALIGN);
	sl_mutex_lock(&spill->lock);
	pages_hold_locked(spill, dir, first, n, 0);
}

/* Punch one step that is free as a whole, if there is one. LOCKING: as
 * pages_punch_locked(). */
static void
step_punch_locked(struct sl_spill *spill)
{
	for (size_t d = 0; spill->n_whole_free > 0 && d < spill->n_dirs; d++) {
		struct spill_dir *dir = &spill->dirs[d];

		for (size_t s = dir->low_step; s < dir->n_steps; s++) {
			size_t first = s * STEP_PAGES;
			size_t end = first + STEP_PAGES;

			if (!step_is_whole_free(&dir->steps[s]))
				continue;
			while (first < end) {
				size_t stop;

				first = sl_bitmap_next_clear(dir->taken, first, end);
				stop = sl_bitmap_next_set(dir->taken, first, end);
				if (first < stop)
					pages_punch_locked(spill, dir, first, stop - first);
				first = stop;
			}
			return;
		}
	}
}

/*
 * Punch free runs, as they are found, until the budget leaves room for n more
 * pages of blocks or no free page is left. LOCKING: as pages_punch_locked().
 */
static void
spill_room_make_locked(struct sl_spill *spill, size_t n)
{
	for (size_t d = 0; d < spill->n_dirs; d++) {
		struct spill_dir *dir = &spill->dirs[d];
		size_t at = dir->low_step * STEP_PAGES;

		/* Bounded: forwards only. */
		while (at < dir->n_steps * STEP_PAGES) {
			size_t end = (at / STEP_PAGES + 1) * STEP_PAGES;
			size_t stop;

			if (held_room_bytes(spill) / SL_STORE_ALIGN >= n)
				return;
			at = sl_bitmap_next_clear(dir->taken, at, end);
			stop = sl_bitmap_next_set(dir->taken, at, end);
			if (at < stop)
				pages_punch_locked(spill, dir, at, stop - at);
			at = stop;
		}
	}
}

/* ---- Allocation -------------------------------------------------------- */

/* The text when no directory had room. LOCKING: takes spill->lock. */
static int
alloc_fail(struct sl_spill *spill, uint64_t bytes, int rc)
{
	char list[SL_ERROR_TEXT_BYTES / 2];
	char size[32];
	size_t at = 0;

	list[0] = '\0';
	sl_mutex_lock(&spill->lock);
	for (size_t d = 0; d < spill->n_dirs && at < sizeof(list); d++) {
		const struct spill_dir *dir = &spill->dirs[d];
		const char *why = "full";
		int n;

		if (dir->last_rc && dir->last_rc != -ENOBUFS)
			why = sl_errno_name(dir->last_rc);
		n = snprintf(list + at, sizeof(list) - at, "%s%s (%s)", d ? ", " : "",
			     dir->path, why);
		at += n > 0 ? (size_t)n : 0;
	}
	sl_mutex_unlock(&spill->lock);
	return sl_fail(rc,
		       "spill: no extent of %s in %s; free space on these disks, add a "
		       "directory, or "
		       "raise the store budget",
		       sl_size_format(bytes, size, sizeof(size)), list);
}

/*
 * An extent in the directory whose turn it is, or the next with room. The codes:
 * -ENOSPC, -ENOBUFS when some directory was only short of budget for blocks, others as
 * they came. LOCKING: needs spill->lock; may drop and retake it.
 */
static int
dirs_take_locked(struct sl_spill *spill, uint64_t bytes, struct sl_extent *out)
{
	size_t start = spill->next_dir;
	int worst = -ENOSPC;

	for (size_t try = 0; try < spill->n_dirs; try++) {
		size_t d = (start + try) % spill->n_dirs;
		struct spill_dir *dir = &spill->dirs[d];
		size_t first = 0;
		int rc = dir_take_locked(spill, dir, (size_t)(bytes / SL_STORE_ALIGN),
					 &first);

		if (!rc) {
			spill->next_dir = (d + 1) % spill->n_dirs;
			out->store = dir->store;
			out->offset = (uint64_t)first * SL_STORE_ALIGN;
			out->bytes = bytes;
			out->encoded_bytes = 0;
			return 0;
		}
		if (rc != -ENOSPC && rc != -EFBIG && worst != -ENOBUFS)
			worst = rc;
	}
	return worst;
}

int
sl_spill_alloc(struct sl_spill *spill, uint64_t bytes, struct sl_extent *out)
{
	int rc = sl_fault_point("spill.alloc");
	uint64_t used, budget;

	if (rc)
		return sl_fail_in(rc, "spill: %llu bytes", (unsigned long long)bytes);
	if (bytes == 0 || bytes % SL_STORE_ALIGN)
		return sl_fail(-EINVAL, "spill: %llu bytes; give a multiple of %u",
			       (unsigned long long)bytes, SL_STORE_ALIGN);

	sl_mutex_lock(&spill->lock);
	used = spill->used_bytes;
	budget = spill->budget_bytes;
	if (bytes > budget || used > budget - bytes) {
		sl_mutex_unlock(&spill->lock);
		return sl_fail(-ENOSPC,
			       "spill: %llu bytes: the store budget of %llu bytes has "
			       "%llu in use; "
			       "raise it or free memory",
			       (unsigned long long)bytes, (unsigned long long)budget,
			       (unsigned long long)used);
	}
	spill->used_bytes += bytes;
	rc = dirs_take_locked(spill, bytes, out);
	if (rc == -ENOBUFS) {
		spill_room_make_locked(spill, (size_t)(bytes / SL_STORE_ALIGN));
		rc = dirs_take_locked(spill, bytes, out);
	}
	if (rc)
		spill->used_bytes -= bytes;
	else
		step_punch_locked(spill);
	sl_mutex_unlock(&spill->lock);
	return rc ? alloc_fail(spill, bytes, rc == -ENOBUFS ? -ENOSPC : rc) : 0;
}

void
sl_spill_put(struct sl_spill *spill, const struct sl_extent *extent)
{
	sl_mutex_lock(&spill->lock);
	for (size_t d = 0; d < spill->n_dirs; d++) {
		if (spill->dirs[d].store != extent->store)
			continue;
		pages_mark_locked(spill, &spill->dirs[d],
				  (size_t)(extent->offset / SL_STORE_ALIGN),
				  (size_t)(extent->bytes / SL_STORE_ALIGN), 0);
		spill->used_bytes -= extent->bytes;
		sl_mutex_unlock(&spill->lock);
		return;
	}
	sl_mutex_unlock(&spill->lock);
	assert(!"an extent of another spill");
}

uint64_t
sl_spill_used_bytes(const struct sl_spill *spill)
{
	struct sl_spill *s = (struct sl_spill *)(uintptr_t)spill;
	uint64_t used;

	sl_mutex_lock(&s->lock);
	used = s->used_bytes;
	sl_mutex_unlock(&s->lock);
	return used;
}

int
sl_spill_set_budget(struct sl_spill *spill, uint64_t budget_bytes)
{
	uint64_t used;

	sl_mutex_lock(&spill->lock);
	used = spill->used_bytes;
	if (used <= budget_bytes)
		spill->budget_bytes = budget_bytes;
	sl_mutex_unlock(&spill->lock);
	if (used > budget_bytes)
		return sl_fail(-ENOSPC,
			       "spill: a budget of %llu bytes is below the %llu in use; "
			       "free memory "
			       "first",
			       (unsigned long long)budget_bytes, (unsigned long long)used);
	return 0;
}

/* ---- Creation ---------------------------------------------------------- */

static int
dir_check(const char *path, int allow_memory)
{
	struct stat st;
	struct statfs fs;

	if (stat(path, &st))
		return sl_fail(errno == ENOENT    ? -ENOENT
			       : errno == ENOTDIR ? -EINVAL
						  : -errno,
			       "spill: %s: %s (%s); give a directory that exists", path,
			       strerrordesc_np(errno), sl_errno_name(errno));
	if (!S_ISDIR(st.st_mode))
		return sl_fail(-EINVAL, "spill: %s: not a directory; give one", path);
	if (faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS))
		return sl_fail(-EACCES, "spill: %s: %s (%s); give a directory you can write to (spill_dirs)",
			       path, strerrordesc_np(errno), sl_errno_name(errno));
	if (statfs(path, &fs))
		return sl_fail(-errno, "spill: %s: statfs: %s (%s)", path,
			       strerrordesc_np(errno), sl_errno_name(errno));
	if (!allow_memory && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC))
		return sl_fail(-EINVAL,
			       "spill: %s: is memory (%s): spilling there frees none; "
			       "give a directory "
			       "on a disk",
			       path, fs.f_type == TMPFS_MAGIC ? "tmpfs" : "ramfs");
	return 0;
}

/* The directories of a list; texts set. */
static int
dirs_parse(struct sl_spill *spill, const char *dirs, int allow_memory)
{
	const char *at = dirs;

	for (;;) {
		size_t length = strcspn(at, ":");
		char path[PATH_MAX];
		int rc;

		if (length == 0 || length >= sizeof(path))
			return sl_fail(-EINVAL,
				       "spill: \"%.128s\": a directory in it is empty or "
				       "too long; "
				       "separate directories by ':'",
				       dirs);
		if (spill->n_dirs == DIRS_MAX)
			return sl_fail(-EINVAL, "spill: more than %u directories", DIRS_MAX);
		memcpy(path, at, length);
		path[length] = '\0';
		rc = spill->engine->ops->open_temporary ? 0 : dir_check(path, allow_memory);
		if (rc)
			return rc;
		spill->dirs[spill->n_dirs].path = sl_strdup(path);
		if (!spill->dirs[spill->n_dirs].path)
			return sl_fail(-ENOMEM, "spill: out of memory");
		spill->n_dirs++;
		if (!at[length])
			return 0;
		at += length + 1;
	}
}

void
sl_spill_destroy(struct sl_spill *spill)
{
	if (!spill)
		return;
	assert(spill->used_bytes == 0);
	for (size_t d = 0; d < spill->n_dirs; d++) {
		struct spill_dir *dir = &spill->dirs[d];

		/* The file has no name: its blocks go with the last descriptor. */
		if (dir->store)
			dir->store->ops->close(dir->store);
		free(dir->path);
		free(dir->steps);
		free(dir->taken);
	}
	sl_cond_fini(&spill->grown);
	sl_mutex_fini(&spill->lock);
	free(spill);
}

void
sl_spill_compress(struct sl_spill *spill, enum sl_store_codec mode)
{
	spill->compress = 1;
	spill->codec = mode;
}

int
sl_spill_create(struct sl_engine *engine, const char *dirs, uint64_t budget_bytes,
		int allow_memory, struct sl_spill **out)
{
	struct sl_spill *spill = sl_calloc(1, sizeof(*spill));
	int rc;

	if (!spill)
		return sl_fail(-ENOMEM, "spill: out of memory");
	spill->engine = engine;
	spill->budget_bytes = budget_bytes;
	sl_mutex_init(&spill->lock, SL_RANK_SPILL);
	sl_cond_init(&spill->grown);
	rc = dirs_parse(spill, dirs, allow_memory);
	if (rc) {
		sl_spill_destroy(spill);
		return rc;
	}
	*out = spill;
	return 0;
}
