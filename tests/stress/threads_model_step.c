/* SPDX-License-Identifier: Apache-2.0 */
/* Host code, system calls, and the calls that move, discard, pin and look: see threads_model.h. */
#include "stress/threads_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Host code ---- */

static size_t
stride_pick(struct tm_thread *t)
{
	return tm_below(t, 3) ? 1 : 1 + tm_below(t, 700);
}

static int
host_range_pick(struct tm_thread *t, struct tm_region *r, struct tm_range *x)
{
	tm_settle(t, r);
	return tm_range_pick(t, r, tm_below(t, 20) ? 4000 : 600000, 0, x);
}

void
tm_step_read(struct tm_thread *t, struct tm_region *r)
{
	size_t stride = stride_pick(t);
	struct tm_range x;

	if (!host_range_pick(t, r, &x))
		return;
	tm_note(t, "read", x, stride);
	for (size_t i = x.from; i < x.from + x.count; i += stride)
		if (tm_owns(t, r, i))
			tm_check(r, i, r->base[i], r->shadow[i], r->state[i], "host code");
	atomic_fetch_add(&tm.words, x.count / stride);
}

void
tm_step_write(struct tm_thread *t, struct tm_region *r)
{
	uint64_t version = tm_version_next();
	size_t stride = stride_pick(t);
	struct tm_range x;

	if (r->kind == TM_FILE_READ || !host_range_pick(t, r, &x))
		return;
	tm_note(t, "write", x, version << 8);
	for (size_t i = x.from; i < x.from + x.count; i += stride) {
		if (!tm_owns(t, r, i))
			continue;
		r->base[i] = tm_word(r, i, version);
		tm_wrote(r, i, tm_word(r, i, version));
	}
	atomic_fetch_add(&tm.words, x.count / stride);
}

/* ---- System calls with managed addresses ---- */

static void
system_call_into(struct tm_thread *t, struct tm_range x, int fd, uint64_t *words)
{
	struct tm_region *r = x.region;
	uint64_t version = tm_version_next();
	ssize_t bytes = (ssize_t)tm_bytes(x), done;

	for (size_t i = 0; i < x.count; i++)
		words[i] = tm_word(r, x.from + i, version);
	if (pwrite(fd, words, tm_bytes(x), 0) != bytes)
		exit(1);
	tm_note(t, "pread into", x, version << 8);
	done = pread(fd, tm_address(x), tm_bytes(x), 0);
	if (done != bytes)
		FAIL("pread into a region: %zd, errno %d", done, errno);
	for (size_t i = 0; i < x.count; i++)
		tm_wrote(r, x.from + i, words[i]);
}

static void
system_call_from(struct tm_thread *t, struct tm_range x, int fd, uint64_t *words)
{
	struct tm_region *r = x.region;
	ssize_t bytes = (ssize_t)tm_bytes(x), done;

	tm_note(t, "pwrite from", x, 0);
	/* Not pwrite(), which the thread sanitizer checks: other threads write their words of x,
	 * and only own words are compared. */
	done = syscall(SYS_pwrite64, fd, tm_address(x), tm_bytes(x), (off_t)0);
	if (done != bytes)
		FAIL("pwrite from a region: %zd, errno %d", done, errno);
	if (pread(fd, words, tm_bytes(x), 0) != done)
		exit(1);
	for (size_t i = 0; i < x.count; i++) {
		size_t w = x.from + i;

		if (tm_owns(t, r, w))
			tm_check(r, w, words[i], r->shadow[w], r->state[w], "a system call");
	}
}

void
tm_step_system_call(struct tm_thread *t, struct tm_region *r)
{
	int writes = r->kind != TM_FILE_READ && tm_below(t, 2);
	struct tm_range x;
	uint64_t *words;
	int fd;

	if (tm.signal_faults || r->signal_faults)
		return;
	tm_settle(t, r);
	/* It writes every word, so all must be the thread's. */
	if (!tm_range_pick(t, r, 8000, writes, &x))
		return;
	fd = memfd_create("threads_model", MFD_CLOEXEC);
	words = calloc(x.count, sizeof(uint64_t));
	if (fd < 0 || !words)
		exit(1);
	if (writes)
		system_call_into(t, x, fd, words);
	else
		system_call_from(t, x, fd, words);
	free(words);
	close(fd);
}

/* Sync, and compare the file. */
void
tm_step_file(struct tm_thread *t, struct tm_region *r)
{
	struct tm_range x;
	uint64_t *words;
	size_t bytes;

	if (r->kind != TM_FILE && r->kind != TM_FILE_WRITE)
		return;
	tm_settle(t, r);
	if (!tm_range_pick(t, r, 20000, 0, &x))
		return;
	tm_note(t, "sync", x, 0);
	bytes = tm_bytes(x);
	words = calloc(x.count, sizeof(uint64_t));
	if (!words)
		exit(1);
	OK(sluice_sync(tm.space, tm_address(x), bytes));
	if (pread(r->fd, words, bytes,
		  (off_t)((r->first_index + x.from) * sizeof(uint64_t))) != (ssize_t)bytes)
		FAIL("%s: short read", r->path);
	for (size_t i = 0; i < x.count; i++) {
		size_t w = x.from + i;

		if (tm_owns(t, r, w))
			tm_check(r, w, words[i], r->shadow[w], r->state[w],
				 "file after sync");
	}
	free(words);
}

/* ---- Moving ---- */

void
tm_step_discard(struct tm_thread *t, struct tm_region *r)
{
	int lazy = tm_below(t, 2) != 0;
	struct sluice_stream *stream;
	struct tm_range x;
	int rc;

	/* Pages of a region with smaller stripes are nobody's own. */
	if (r->kind == TM_FILE_READ || (r->shared && r->stripe_shift < 9))
		return;
	if (!tm_range_pick(t, r, TM_RANGE_WORDS_MAX, 1, &x))
		return;
	stream = tm_stream_pick(t, r);
	if (!stream)
		tm_settle(t, r);
	rc = sluice_discard(tm.space, tm_address(x), tm_bytes(x),
			    lazy ? SLUICE_DISCARD_LAZY : SLUICE_DISCARD_EAGER, stream);
	tm_note(t, lazy ? "discard lazily" : "discard", x, stream != NULL);
	if (tm_done(rc, "discard", TM_BUSY))
		tm_discarded(x, lazy ? TM_DEAD_LAZY : TM_DEAD);
}

#define ELEMENT_BYTES 128
#define INDICES_MAX   20

void
tm_step_prefetch(struct tm_thread *t, struct tm_region *r)
{
	enum sluice_tier tier = tm_below(t, 2) ? SLUICE_TIER_DEVICE : SLUICE_TIER_HOST;
	struct sluice_stream *stream = tm_stream_pick(t, r);
	size_t elements = r->words * sizeof(uint64_t) / ELEMENT_BYTES;
	uint64_t index[INDICES_MAX];
	struct tm_range x;

	if (elements && tm_below(t, 5) == 0) {
		size_t n = tm_below(t, INDICES_MAX);

		for (size_t i = 0; i < n; i++)
			index[i] = tm_below(t, elements);
		tm_note(t, "prefetch_index", (struct tm_range){r, 0, r->words}, tier);
		OK(sluice_prefetch_index(tm.space, (void *)r->base, ELEMENT_BYTES, index,
					 n, tier, stream));
		return;
	}
	if (!tm_range_pick(t, r, TM_RANGE_WORDS_MAX, 0, &x))
		return;
	tm_note(t, "prefetch", x, tier);
	OK(sluice_prefetch(tm.space, tm_address(x), tm_bytes(x), tier, stream));
}

void
tm_step_evict(struct tm_thread *t, struct tm_region *r)
{
	enum sluice_tier tier = tm_below(t, 2) ? SLUICE_TIER_STORE : SLUICE_TIER_HOST;
	struct sluice_stream *stream = tm_stream_pick(t, r);
	struct tm_range x;

	if (!tm_range_pick(t, r, TM_RANGE_WORDS_MAX, 0, &x))
		return;
	tm_note(t, "evict", x, tier);
	tm_done(sluice_evict(tm.space, tm_address(x), tm_bytes(x), tier, stream), "evict",
		TM_NOBUFS);
}

/* Unpin the newest, or pin some more. */
void
tm_step_pin(struct tm_thread *t, struct tm_region *r)
{
	struct tm_range x;

	if (!tm.launches_fail)
		return;
	if (t->pins && (t->pins == TM_PINS_MAX || tm_below(t, 2))) {
		x = t->pin[--t->pins];
		tm_note(t, "unpin", x, 0);
		OK(sluice_unpin(tm.space, tm_address(x), tm_bytes(x)));
		return;
	}
	if (!tm_range_pick(t, r, tm_below(t, 3) ? 2000 : 300000, 0, &x))
		return;
	tm_settle(t, r);
	tm_note(t, "pin", x, 0);
	if (!tm_done(sluice_pin(tm.space, tm_address(x), tm_bytes(x)), "pin",
		     TM_NOBUFS | TM_IO))
		return;
	t->pin[t->pins++] = x;
	tm_revive(t, x);
}

void
tm_unpin(struct tm_thread *t, const struct tm_region *r)
{
	unsigned kept = 0;

	for (unsigned k = 0; k < t->pins; k++) {
		if (r && t->pin[k].region != r) {
			t->pin[kept++] = t->pin[k];
			continue;
		}
		tm_note(t, "unpin", t->pin[k], 0);
		OK(sluice_unpin(tm.space, tm_address(t->pin[k]), tm_bytes(t->pin[k])));
	}
	t->pins = kept;
}

/* ---- Looking ---- */

/* A child has no space; every call says so, and it ends without harm to its parent. */
void
tm_step_fork(struct tm_thread *t, struct tm_region *r)
{
	int destroys = tm_below(t, 2) != 0, status;
	void *addr;
	pid_t child;

	if (tm_below(t, 30)) /* copying a large process under sanitizers takes long */
		return;
	tm_note(t, "fork", (struct tm_range){r, 0, r->words}, 0);
	child = fork();
	if (child < 0)
		return;
	if (!child) {
		if (sluice_alloc(tm.space, PAGE, 0, &addr) != -ECHILD)
			_exit(1);
		if (sluice_sync(tm.space, (void *)r->base, 0) != -ECHILD)
			_exit(2);
		if (destroys && sluice_space_destroy(tm.space) != -ECHILD)
			_exit(3);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		FAIL("a forked child ended with status %#x", (unsigned)status);
}

static void
look_at_budgets(struct tm_thread *t)
{
	struct sluice_stats stats;

	sluice_stats_get(tm.space, &stats);
	/* A shrinking budget is in force once set_budget returned; thread 1 calls it. */
	if (tm.launches_fail && t->id != 1)
		return;
	for (int tier = SLUICE_TIER_DEVICE; tier <= SLUICE_TIER_HOST; tier++)
		if (stats.resident_bytes[tier] > stats.budget_bytes[tier])
			FAIL("tier %d holds %llu bytes of %llu", tier,
			     (unsigned long long)stats.resident_bytes[tier],
			     (unsigned long long)stats.budget_bytes[tier]);
}

static void
look_at_residency(struct tm_range x)
{
	struct sluice_residency res;
	uint64_t sum;

	OK(sluice_residency(tm.space, tm_address(x), tm_bytes(x), &res));
	sum = res.empty_bytes;
	for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++)
		sum += res.tier_bytes[tier];
	CHECK(sum == tm_bytes(x));
}

static void
advise(struct tm_thread *t, struct tm_range x)
{
	enum sluice_advice advice = (enum sluice_advice)tm_below(t, SLUICE_ADVISE_COUNT);

	/* They move all of the region out: rarely. */
	if (advice <= SLUICE_ADVISE_RANDOM && tm_below(t, 4))
		advice = SLUICE_ADVISE_DONT_NEED;
	if (advice == SLUICE_ADVISE_RANDOM) {
		if (x.region->shared) /* another thread may be in a system call on it */
			return;
		x.region->signal_faults = 1;
	}
	tm_note(t, "advise", x, advice);
	tm_done(sluice_advise(tm.space, tm_address(x), tm_bytes(x), advice), "advise",
		TM_NOBUFS);
}

static void
budget_set(struct tm_thread *t)
{
	enum sluice_tier tier = tm_below(t, 2) ? SLUICE_TIER_HOST : SLUICE_TIER_DEVICE;
	uint64_t chunks = tier == SLUICE_TIER_HOST ? tm_below(t, 6) : 2 + tm_below(t, 8);

	if (!tm.launches_fail || t->id != 1 || tm_below(t, 4))
		return;
	tm_done(sluice_space_set_budget(tm.space, tier, chunks * tm.config.chunk_bytes),
		"set_budget", TM_NOBUFS);
}

void
tm_step_look(struct tm_thread *t, struct tm_region *r)
{
	struct sluice_region_info infos[TM_SHARED + TM_THREADS * TM_PRIVATE];
	struct tm_range x;
	size_t n;

	if (!tm_range_pick(t, r, TM_RANGE_WORDS_MAX, 0, &x))
		return;
	switch (tm_below(t, 9)) {
	case 0:
		look_at_budgets(t);
		break;
	case 1:
		OK(sluice_regions(tm.space, infos, sizeof(infos) / sizeof(infos[0]), &n));
		break;
	case 2:
		look_at_residency(x);
		break;
	case 3:
	case 4:
		advise(t, x);
		break;
	case 5:
		if (t->id == 0 && !tm_below(t, 10)) /* it holds the space's lock for long */
			OK(sluice_space_check(tm.space));
		break;
	case 6:
		budget_set(t);
		break;
	case 7:
		tm_synchronize(t, (unsigned)tm_below(t, TM_STREAMS));
		break;
	case 8:
		tm_note(t, "sync", x, 0);
		OK(sluice_sync(tm.space, tm_address(x), tm_below(t, 4) ? tm_bytes(x) : 0));
		break;
	}
}
