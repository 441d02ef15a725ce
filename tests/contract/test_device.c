/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of device.h, run over the software device as it moves pages and as it
 * copies them, and over both behind the delay wrapper (the fault wrapper is always
 * there).
 *
 * Each test makes a device of its own with a small core: a table of spans whose states
 * change under one lock, as the real core's do, and which serves touches by presenting
 * the frame that it holds for a span. Tests that need something else replace the core's
 * serve function.
 *
 * A plain program: 0 pass, 1 fail, 77 when userfaultfd is refused, with the reason. With
 * an argument it runs only the tests whose names contain it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/rng.h"
#include "device/device.h"

#define SPANS         8
#define SPAN          ((size_t)SL_SPAN_BYTES)
#define PAGE          ((size_t)SL_PAGE_BYTES)
#define ADDRESS_BYTES (1ul << 30)
#define WORKERS       3u
#define RACE_NS       400000000u
#define RACERS        3

#if defined(__SANITIZE_THREAD__)
#define SANITIZES_THREADS 1
#elif defined(__has_feature)
#define SANITIZES_THREADS __has_feature(thread_sanitizer)
#else
#define SANITIZES_THREADS 0
#endif

static _Atomic int failures;
static const char *test_name, *variant_name;

#define CHECK(condition)                                                                 \
	do {                                                                             \
		if (!(condition)) {                                                      \
			failures++;                                                      \
			printf("FAIL %s [%s] line %d: %s (last error: %s)\n", test_name, \
			       variant_name, __LINE__, #condition, sluice_last_error()); \
		}                                                                        \
	} while (0)

/* ---- The test core ---- */

enum span_state { SPAN_ABSENT, SPAN_BUSY, SPAN_PRESENT };

struct span {
	enum span_state state;
	struct sl_frame *frame; /* contents while absent; kept while present with KEEP */
	int guarded;
	int dirty;
	uint64_t stored[RACERS]; /* the counters as of the last dirty eviction */
};

struct core {
	struct sl_device *dev;
	pthread_mutex_t lock; /* spans */
	pthread_cond_t changed;
	struct span span[SPANS];
	size_t span_bytes;
	unsigned present_flags;
	int closed; /* lock: touches come too late */
	int (*_Atomic serve)(struct core *core, const struct sl_touch *touch);
	_Atomic unsigned n_touches, n_writes_guarded, n_in_thread, n_launched;
	_Atomic(void *) last_addr, last_launch;
	_Atomic int last_access;
	_Atomic int armed; /* for serve functions */
};

static char *
span_addr(const struct core *core, int i)
{
	return (char *)core->dev->base + (size_t)i * core->span_bytes;
}

/* Serve as a pager does: present what is absent, unguard and note dirty what is guarded. */
static int
serve_span(struct core *core, const struct sl_touch *touch)
{
	size_t i = ((uintptr_t)touch->addr - (uintptr_t)core->dev->base) / core->span_bytes;
	struct span *span = &core->span[i];
	const struct sl_device_ops *ops = core->dev->ops;
	int rc = 0;

	if (i >= SPANS)
		return sl_fail(-EFAULT, "test core: %p", touch->addr);
	pthread_mutex_lock(&core->lock);
	while (span->state == SPAN_BUSY)
		pthread_cond_wait(&core->changed, &core->lock);
	if (core->closed) {
		pthread_mutex_unlock(&core->lock);
		return sl_fail(-ENOENT, "test core: closed");
	}
	if (span->state == SPAN_ABSENT) {
		span->state = SPAN_BUSY;
		pthread_mutex_unlock(&core->lock);
		rc = ops->present(core->dev, span_addr(core, (int)i), core->span_bytes,
				  span->frame, core->present_flags);
		pthread_mutex_lock(&core->lock);
		span->state = rc ? SPAN_ABSENT : SPAN_PRESENT;
		span->dirty = 0;
		span->guarded = core->present_flags & SL_PRESENT_GUARD_STRICT;
		if (!rc && !(core->present_flags & SL_PRESENT_KEEP))
			span->frame = NULL;
		pthread_cond_broadcast(&core->changed);
	} else if (touch->guarded && span->guarded) {
		span->state = SPAN_BUSY;
		pthread_mutex_unlock(&core->lock);
		rc = ops->unguard(core->dev, span_addr(core, (int)i), core->span_bytes);
		pthread_mutex_lock(&core->lock);
		span->guarded = 0;
		span->dirty = 1;
		span->state = SPAN_PRESENT;
		pthread_cond_broadcast(&core->changed);
	}
	pthread_mutex_unlock(&core->lock);
	return rc;
}

static int
core_touched(void *arg, const struct sl_touch *touch)
{
	struct core *core = arg;

	core->last_addr = touch->addr;
	core->last_access = touch->access;
	/* A touch that comes too late for its thread may come without its launch. */
	if (touch->launch) {
		core->last_launch = touch->launch;
		core->n_launched++;
	}
	if (touch->guarded)
		core->n_writes_guarded++;
	if (touch->in_thread)
		core->n_in_thread++;
	core->n_touches++;
	return atomic_load(&core->serve)(core, touch);
}

/* How the devices of the present run are made. */
static int variant_copies, variant_delays;

static int
device_create(struct core *core, struct sl_device **out)
{
	struct sl_device_config config = {
		.address_bytes = ADDRESS_BYTES,
		.workers = WORKERS,
		.frame_cache_bytes = 64ul << 20,
		.events = {.touched = core_touched, .core = core},
	};
	int rc;

	setenv("SLUICE_SOFT_MOVE", variant_copies ? "copy" : "move", 1);
	rc = sl_device_soft_create(&config, out);
	if (!rc && variant_delays)
		rc = sl_device_wrap_delay(*out, 20000, 40000000000u, out);
	return rc;
}

static void
core_init(struct core *core, size_t span_bytes, enum sl_delivery delivery)
{
	int rc;

	memset(core, 0, sizeof(*core));
	pthread_mutex_init(&core->lock, NULL);
	pthread_cond_init(&core->changed, NULL);
	core->span_bytes = span_bytes;
	core->serve = serve_span;
	rc = device_create(core, &core->dev);
	CHECK(rc == 0);
	if (rc)
		exit(1);
	rc = core->dev->ops->attach(core->dev, core->dev->base, SPANS * span_bytes, delivery);
	CHECK(rc == 0);
}

static void
core_fini(struct core *core)
{
	/* A handler thread may still serve a touch whose thread was woken by another one's. */
	pthread_mutex_lock(&core->lock);
	core->closed = 1;
	for (int i = 0; i < SPANS; i++) {
		while (core->span[i].state == SPAN_BUSY)
			pthread_cond_wait(&core->changed, &core->lock);
		if (core->span[i].frame)
			core->dev->ops->frame_put(core->dev, core->span[i].frame);
	}
	pthread_mutex_unlock(&core->lock);
	core->dev->ops->detach(core->dev, core->dev->base, SPANS * core->span_bytes);
	core->dev->ops->destroy(core->dev);
	pthread_cond_destroy(&core->changed);
	pthread_mutex_destroy(&core->lock);
}

static struct sl_frame *
frame_get(struct core *core)
{
	struct sl_frame *frame = NULL;

	CHECK(core->dev->ops->frame_get(core->dev, core->span_bytes, &frame) == 0);
	return frame;
}

/* The contents of an absent span: every byte is value. */
static void
span_hold(struct core *core, int i, int value)
{
	struct sl_frame *frame = frame_get(core);

	memset(frame->data, value, frame->bytes);
	pthread_mutex_lock(&core->lock);
	core->span[i].frame = frame;
	pthread_mutex_unlock(&core->lock);
}

static uint64_t
pattern(size_t word, uint64_t seed)
{
	return (word + 1) * 0x9e3779b97f4a7c15u ^ seed;
}

static void
pattern_write(void *data, size_t bytes, uint64_t seed)
{
	uint64_t *words = data;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		words[i] = pattern(i, seed);
}

static int
pattern_is(const void *data, size_t bytes, uint64_t seed)
{
	const uint64_t *words = data;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		if (words[i] != pattern(i, seed))
			return 0;
	return 1;
}

static int
all_zero(const char *data, size_t bytes)
{
	return !data[0] && !memcmp(data, data + 1, bytes - 1);
}

static const enum sl_delivery deliveries[] = {SL_DELIVER_THREAD, SL_DELIVER_SIGNAL};

/* ---- Spans and frames ---- */

static void
contents_survive_every_way_in_and_out(void)
{
	static const size_t sizes[] = {2ul << 20, 4ul << 20, 16ul << 20};
	static const unsigned guards[] = {0, SL_PRESENT_GUARD, SL_PRESENT_GUARD_STRICT};
	struct core core;

	for (int s = 0; s < 3; s++) {
		for (int d = 0; d < 2; d++) {
			const struct sl_device_ops *ops;

			core_init(&core, sizes[s], deliveries[d]);
			ops = core.dev->ops;
			for (int g = 0; g < 6; g++) {
				unsigned keep = g < 3 ? 0 : SL_PRESENT_KEEP;
				struct sl_frame *frame = frame_get(&core);
				char *addr = span_addr(&core, g % 2);
				uint64_t seed = (uint64_t)g * 77 + 5;

				pattern_write(frame->data, frame->bytes, seed);
				CHECK(ops->present(core.dev, addr, sizes[s], frame,
						   guards[g % 3] | keep) == 0);
				CHECK(pattern_is(addr, sizes[s], seed));
				if (!keep)
					frame = frame_get(&core);
				CHECK(ops->absent(core.dev, addr, sizes[s], frame,
						  keep ? SL_ABSENT_KEPT : SL_ABSENT_COPY) ==
				      0);
				CHECK(pattern_is(frame->data, frame->bytes, seed));
				ops->frame_put(core.dev, frame);
			}
			CHECK(core.n_touches == 0);
			core_fini(&core);
		}
	}
}

static void
a_kept_frame_is_overwritten_by_absent_copy(void)
{
	for (int g = 0; g < 2; g++) {
		struct core core;
		struct sl_frame *frame;
		char *addr;

		core_init(&core, SPAN, SL_DELIVER_SIGNAL);
		frame = frame_get(&core);
		pattern_write(frame->data, frame->bytes, 1);
		pthread_mutex_lock(&core.lock);
		core.present_flags = SL_PRESENT_KEEP | (g ? SL_PRESENT_GUARD_STRICT : 0u);
		core.span[3].frame = frame;
		pthread_mutex_unlock(&core.lock);
		addr = span_addr(&core, 3);
		pattern_write(addr, SPAN, 2); /* by faults */
		CHECK(core.n_touches == (g ? 2u : 1u));
		CHECK(core.dev->ops->absent(core.dev, addr, SPAN, frame, SL_ABSENT_COPY) == 0);
		CHECK(pattern_is(frame->data, SPAN, 2));
		core_fini(&core);
	}
}

static void
no_frame_gives_zeros_whatever_the_cache_holds(void)
{
	struct core core;
	const struct sl_device_ops *ops;

	core_init(&core, 2 * SPAN, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	for (int round = 0; round < 3; round++) {
		for (unsigned guard = 0; guard <= SL_PRESENT_GUARD_STRICT; guard += 2) {
			char *addr = span_addr(&core, 0);

			CHECK(ops->present(core.dev, addr, 2 * SPAN, NULL, guard) == 0);
			CHECK(all_zero(addr, 2 * SPAN));
			CHECK(ops->unguard(core.dev, addr, 2 * SPAN) == 0);
			pattern_write(addr, 2 * SPAN, 9);
			CHECK(ops->absent(core.dev, addr, 2 * SPAN, NULL,
					  SL_ABSENT_DISCARD) == 0);
		}
		CHECK(ops->present_any(core.dev, span_addr(&core, 1), 2 * SPAN) == 0);
		pattern_write(span_addr(&core, 1), 2 * SPAN, 3);
		CHECK(pattern_is(span_addr(&core, 1), 2 * SPAN, 3));
		CHECK(ops->absent(core.dev, span_addr(&core, 1), 2 * SPAN, NULL,
				  SL_ABSENT_DISCARD) == 0);
	}
	CHECK(core.n_touches == 0);
	core_fini(&core);
}

static void
discarded_span_is_absent(void)
{
	for (int d = 0; d < 2; d++) {
		struct core core;
		volatile char *addr;

		core_init(&core, SPAN, deliveries[d]);
		addr = span_addr(&core, 0);
		CHECK(core.dev->ops->present(core.dev, (void *)addr, SPAN, NULL, 0) == 0);
		addr[PAGE] = 5;
		CHECK(core.n_touches == 0);
		CHECK(core.dev->ops->absent(core.dev, (void *)addr, SPAN, NULL,
					    SL_ABSENT_DISCARD) == 0);
		CHECK(addr[PAGE] == 0); /* served with zeros */
		CHECK(core.n_touches == 1);
		core_fini(&core);
	}
}

static void
presenting_over_present_pages_is_refused_and_loses_nothing(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_frame *frame;
	char *addr;
	char page[PAGE];

	core_init(&core, 2 * SPAN, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	addr = span_addr(&core, 2);
	memset(page, 7, PAGE);
	CHECK(ops->page_fill(core.dev, addr + SPAN + 5 * PAGE, PAGE, page, 0) == 0);
	frame = frame_get(&core);
	pattern_write(frame->data, frame->bytes, 4);
	CHECK(ops->present(core.dev, addr, 2 * SPAN, frame, 0) == -EEXIST);
	CHECK(pattern_is(frame->data, frame->bytes, 4));
	CHECK(addr[SPAN + 5 * PAGE] == 7);
	CHECK(ops->page_drop(core.dev, addr + SPAN + 5 * PAGE, PAGE) == 0);
	CHECK(ops->present(core.dev, addr, 2 * SPAN, frame, 0) == 0);
	CHECK(pattern_is(addr, 2 * SPAN, 4));
	core_fini(&core);
}

static void
snapshot_copies_and_leaves_the_span_present(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_frame *frame;
	char *addr;

	core_init(&core, SPAN, SL_DELIVER_SIGNAL);
	ops = core.dev->ops;
	addr = span_addr(&core, 1);
	CHECK(ops->present(core.dev, addr, SPAN, NULL, 0) == 0);
	pattern_write(addr, SPAN, 6);
	frame = frame_get(&core);
	CHECK(ops->guard(core.dev, addr, SPAN) == 0);
	CHECK(ops->snapshot(core.dev, addr, SPAN, frame) == 0);
	CHECK(pattern_is(frame->data, SPAN, 6));
	CHECK(pattern_is(addr, SPAN, 6));
	CHECK(core.n_touches == 0);
	ops->frame_put(core.dev, frame);
	core_fini(&core);
}

static void
frames_are_reused(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	void *seen[4] = {NULL};
	int n_seen = 0;

	core_init(&core, SPAN, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	for (int i = 0; i < 200; i++) {
		struct sl_frame *in = frame_get(&core);
		struct sl_frame *out;
		int j = 0;

		while (j < n_seen && seen[j] != in->data)
			j++;
		if (j == n_seen && n_seen < 4)
			seen[n_seen++] = in->data;
		CHECK((uintptr_t)in->data % PAGE == 0);
		if (i > 2)
			CHECK(in->dirty_memory);
		memset(in->data, i, SPAN);
		CHECK(ops->present(core.dev, span_addr(&core, 0), SPAN, in, 0) == 0);
		out = frame_get(&core);
		CHECK(ops->absent(core.dev, span_addr(&core, 0), SPAN, out,
				  SL_ABSENT_COPY) == 0);
		CHECK(((char *)out->data)[12345] == (char)i);
		ops->frame_put(core.dev, out);
	}
	CHECK(n_seen < 4);
	core_fini(&core);
}

static void
frame_sizes_that_are_no_span_are_refused(void)
{
	struct core core;
	struct sl_frame *frame = NULL;

	core_init(&core, SPAN, SL_DELIVER_THREAD);
	CHECK(core.dev->ops->frame_get(core.dev, 3 * SPAN, &frame) == -EINVAL);
	CHECK(core.dev->ops->frame_get(core.dev, 4096, &frame) == -EINVAL);
	CHECK(frame == NULL);
	core_fini(&core);
}

/* ---- Guards and pages ---- */

static void
a_guard_reports_exactly_one_write(void)
{
	for (int d = 0; d < 2; d++) {
		for (int strict = 0; strict < 2; strict++) {
			struct core core;
			volatile char *addr;

			core_init(&core, SPAN, deliveries[d]);
			span_hold(&core, 0, 3);
			pthread_mutex_lock(&core.lock);
			core.span[0].state = SPAN_PRESENT;
			core.span[0].guarded = 1;
			pthread_mutex_unlock(&core.lock);
			addr = span_addr(&core, 0);
			CHECK(core.dev->ops->present(
				      core.dev, (void *)addr, SPAN, core.span[0].frame,
				      SL_PRESENT_KEEP | (strict ? SL_PRESENT_GUARD_STRICT
								: SL_PRESENT_GUARD)) == 0);
			CHECK(addr[17] == 3);
			CHECK(core.n_touches == 0);
			addr[PAGE + 17] = 4;
			CHECK(core.n_touches == 1);
			CHECK(core.n_writes_guarded == 1);
			CHECK(core.last_access == SL_ACCESS_WRITE);
			CHECK(((uintptr_t)core.last_addr & ~(PAGE - 1)) ==
			      (uintptr_t)addr + PAGE);
			CHECK(core.n_in_thread == (deliveries[d] == SL_DELIVER_SIGNAL));
			for (size_t i = 0; i < SPAN; i += PAGE)
				addr[i] = 5;
			CHECK(core.n_touches == 1);
			core_fini(&core);
		}
	}
}

static void
absent_touches_say_read_or_write(void)
{
	for (int d = 0; d < 2; d++) {
		struct core core;
		volatile char *addr;

		core_init(&core, SPAN, deliveries[d]);
		addr = span_addr(&core, 0);
		CHECK(addr[99] == 0);
		CHECK(core.last_access == SL_ACCESS_READ);
		addr = span_addr(&core, 1);
		addr[99] = 1;
		CHECK(core.last_access == SL_ACCESS_WRITE);
		CHECK(core.n_writes_guarded == 0);
		CHECK(core.n_touches == 2);
		CHECK(core.last_launch == NULL);
		core_fini(&core);
	}
}

/* Fill the page of the touch, guarded. */
static int
serve_page(struct core *core, const struct sl_touch *touch)
{
	char *page = (char *)((uintptr_t)touch->addr & ~(PAGE - 1));
	char data[PAGE];

	if (touch->guarded)
		return core->dev->ops->unguard(core->dev, page, PAGE);
	memset(data, 8, PAGE);
	return core->dev->ops->page_fill(core->dev, page, PAGE, data, 1);
}

static void
pages_are_filled_one_by_one_and_written_once(void)
{
	for (int d = 0; d < 2; d++) {
		struct core core;
		volatile char *addr;

		core_init(&core, SPAN, deliveries[d]);
		core.serve = serve_page;
		addr = span_addr(&core, 4);
		for (size_t i = 0; i < 16; i++)
			CHECK(addr[i * PAGE] == 8);
		CHECK(core.n_touches == 16);
		for (size_t i = 0; i < 16; i++)
			addr[i * PAGE] = 9;
		for (size_t i = 0; i < 16; i++)
			addr[i * PAGE + 1] = 9;
		CHECK(core.n_touches == 32);
		CHECK(core.n_writes_guarded == 16);
		core_fini(&core);
	}
}

static void
page_fill_skips_present_pages(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	char *src = malloc(SPAN);
	char *addr;

	core_init(&core, SPAN, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	addr = span_addr(&core, 0);
	memset(src, 1, SPAN);
	CHECK(ops->page_fill(core.dev, addr, PAGE, src, 0) == 0);
	CHECK(ops->page_fill(core.dev, addr + 7 * PAGE, 2 * PAGE, src, 0) == 0);
	CHECK(ops->page_fill(core.dev, addr + SPAN - PAGE, PAGE, src, 0) == 0);
	memset(src, 2, SPAN);
	CHECK(ops->page_fill(core.dev, addr, SPAN, src, 0) == 0);
	for (size_t i = 0; i < SPAN / PAGE; i++) {
		int early = i == 0 || i == 7 || i == 8 || i == SPAN / PAGE - 1;

		CHECK(addr[i * PAGE] == (early ? 1 : 2));
	}
	CHECK(ops->page_drop(core.dev, addr, SPAN) == 0);
	CHECK(ops->page_fill(core.dev, addr, SPAN, NULL, 0) == 0);
	CHECK(all_zero(addr, SPAN));
	CHECK(core.n_touches == 0);
	free(src);
	core_fini(&core);
}

static void
absent_pages_leave_their_part_of_the_frame(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_frame *frame;
	char page[3 * PAGE];
	char *addr;

	core_init(&core, 2 * SPAN, SL_DELIVER_SIGNAL);
	ops = core.dev->ops;
	addr = span_addr(&core, 0);
	memset(page, 1, sizeof(page));
	CHECK(ops->page_fill(core.dev, addr + 10 * PAGE, 3 * PAGE, page, 0) == 0);
	CHECK(ops->page_fill(core.dev, addr + SPAN, PAGE, page, 1) == 0);
	frame = frame_get(&core);
	memset(frame->data, 2, frame->bytes);
	CHECK(ops->absent(core.dev, addr, 2 * SPAN, frame, SL_ABSENT_COPY) == 0);
	for (size_t i = 0; i < 2 * SPAN / PAGE; i++) {
		int was = (i >= 10 && i < 13) || i == SPAN / PAGE;

		CHECK(((char *)frame->data)[i * PAGE + 5] == (was ? 1 : 2));
	}
	CHECK(ops->present(core.dev, addr, 2 * SPAN, frame, 0) == 0); /* all absent again */
	CHECK(addr[10 * PAGE] == 1 && addr[0] == 2);
	/* A whole span in small pages goes out as well, and its frame in again. */
	CHECK(ops->guard(core.dev, addr + PAGE, PAGE) == 0);
	frame = frame_get(&core);
	CHECK(ops->absent(core.dev, addr, 2 * SPAN, frame, SL_ABSENT_COPY) == 0);
	CHECK(((char *)frame->data)[10 * PAGE] == 1 && ((char *)frame->data)[0] == 2);
	CHECK(ops->present(core.dev, addr, 2 * SPAN, frame, 0) == 0);
	CHECK(addr[SPAN] == 1 && addr[SPAN + PAGE] == 2);
	CHECK(core.n_touches == 0);
	core_fini(&core);
}

/* ---- Races ---- */

struct racer {
	struct core *core;
	int number;
	uint64_t counted[SPANS]; /* increments this thread made, by span */
};

static _Atomic int race_over;

static volatile uint64_t *
race_counter(struct core *core, int span, int racer)
{
	/* A page for each racer, far apart. */
	return (volatile uint64_t *)(span_addr(core, span) + (size_t)(racer * 100 + 3) * PAGE);
}

static void *
race_run(void *arg)
{
	struct racer *racer = arg;
	struct sl_rng rng;

	sl_rng_init(&rng, (uint64_t)racer->number + 1);
	while (!race_over) {
		int span = (int)sl_rng_below(&rng, SPANS);
		volatile uint64_t *counter = race_counter(racer->core, span, racer->number);
		uint64_t n = 1 + sl_rng_below(&rng, 64);

		for (uint64_t i = 0; i < n; i++)
			++*counter;
		racer->counted[span] += n;
	}
	return NULL;
}

/* A dirty frame is "written to the store"; what a clean one holds is what was stored before. */
static void
race_store(struct core *core, int span, int clean)
{
	char *data = core->span[span].frame->data;

	for (int i = 0; i < RACERS; i++) {
		ptrdiff_t at = (char *)(uintptr_t)race_counter(core, span, i) -
			       span_addr(core, span);

		if (clean)
			memcpy(data + at, &core->span[span].stored[i], sizeof(uint64_t));
		else
			memcpy(&core->span[span].stored[i], data + at, sizeof(uint64_t));
	}
}

/* Make a span absent: a clean one is dropped, a dirty one copied. */
static void
race_evict(struct core *core, int i)
{
	struct span *span = &core->span[i];
	const struct sl_device_ops *ops = core->dev->ops;
	int strict = (core->present_flags & SL_PRESENT_GUARD_STRICT) != 0;
	int clean;
	int rc;

	pthread_mutex_lock(&core->lock);
	while (span->state == SPAN_BUSY)
		pthread_cond_wait(&core->changed, &core->lock);
	if (span->state != SPAN_PRESENT) {
		pthread_mutex_unlock(&core->lock);
		return;
	}
	span->state = SPAN_BUSY;
	clean = strict && !span->dirty;
	pthread_mutex_unlock(&core->lock);
	if (!span->frame) /* ours while busy */
		span->frame = frame_get(core);
	rc = ops->absent(core->dev, span_addr(core, i), core->span_bytes, span->frame,
			 clean ? SL_ABSENT_KEPT : SL_ABSENT_COPY);
	CHECK(rc == 0);
	race_store(core, i, clean);
	pthread_mutex_lock(&core->lock);
	span->state = SPAN_ABSENT;
	pthread_cond_broadcast(&core->changed);
	pthread_mutex_unlock(&core->lock);
}

static void
race(enum sl_delivery delivery, unsigned flags)
{
	struct racer racers[RACERS];
	pthread_t threads[RACERS];
	uint64_t end_ns;
	uint64_t total = 0;
	uint64_t lost = 0;
	unsigned rounds = 0;
	struct core core;

	core_init(&core, SPAN, delivery);
	core.present_flags = flags;
	memset(racers, 0, sizeof(racers));
	race_over = 0;
	for (int i = 0; i < SPANS; i++) {
		span_hold(&core, i, 0);
	}
	for (int i = 0; i < RACERS; i++) {
		racers[i].core = &core;
		racers[i].number = i;
		CHECK(pthread_create(&threads[i], NULL, race_run, &racers[i]) == 0);
	}
	end_ns = sl_now_ns() + RACE_NS;
	while (sl_now_ns() < end_ns) {
		race_evict(&core, (int)(rounds++ % SPANS));
		if (rounds % 16 == 0)
			usleep(200); /* let them get at something */
	}
	race_over = 1;
	for (int i = 0; i < RACERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < RACERS; i++) {
		for (int s = 0; s < SPANS; s++) {
			uint64_t have = *race_counter(&core, s, i);

			total += racers[i].counted[s];
			lost += racers[i].counted[s] - have;
		}
	}
	printf("  race: %s%s: %llu increments, %u touches (%u guarded), %llu lost\n",
	       delivery == SL_DELIVER_THREAD ? "thread" : "signal",
	       flags ? ", strict guard" : "", (unsigned long long)total, core.n_touches,
	       core.n_writes_guarded, (unsigned long long)lost);
	CHECK(lost == 0);
	CHECK(total > 0);
	CHECK(core.n_touches > 10);
	core_fini(&core);
}

static void
racing_writes_are_never_lost(void)
{
	for (int d = 0; d < 2; d++) {
		race(deliveries[d], 0);
		race(deliveries[d], SL_PRESENT_KEEP | SL_PRESENT_GUARD_STRICT);
	}
}

/* ---- Kernels ---- */

struct kernel_args {
	struct core *core;
	char *addr;
	_Atomic uint64_t sum;
	_Atomic unsigned blocks;
	_Atomic unsigned in_use[WORKERS];
	_Atomic unsigned overlaps;
	int fd;
};

static void
kernel_sum_pages(const struct sluice_block *block, void *args)
{
	struct kernel_args *a = args;
	uint64_t linear = ((uint64_t)block->index.z * block->grid.y + block->index.y) *
				  block->grid.x +
			  block->index.x;

	if (block->worker >= WORKERS || a->in_use[block->worker]++)
		a->overlaps++;
	a->sum += (uint64_t)(unsigned char)a->addr[linear * PAGE];
	a->blocks++;
	a->in_use[block->worker]--;
}

static void
a_grid_runs_every_block_once_and_serves_its_touches(void)
{
	static int cookie;

	for (int d = 0; d < 2; d++) {
		struct core core;
		struct kernel_args args = {0};
		struct sluice_grid grid = {8, 4, 64}; /* 2048 pages: 4 spans */

		core_init(&core, SPAN, deliveries[d]);
		for (int i = 0; i < 4; i++)
			span_hold(&core, i, i + 1);
		args.addr = span_addr(&core, 0);
		CHECK(core.dev->ops->grid_run(core.dev, kernel_sum_pages, grid, &args,
					      &cookie) == 0);
		CHECK(args.blocks == 2048);
		CHECK(args.sum == 512 * (1 + 2 + 3 + 4));
		CHECK(args.overlaps == 0);
		CHECK(core.n_touches >= 4);
		CHECK(core.n_launched >= 4 && core.last_launch == &cookie);
		grid.y = 0;
		CHECK(core.dev->ops->grid_run(core.dev, kernel_sum_pages, grid, &args,
					      NULL) == -EINVAL);
		core_fini(&core);
	}
}

static void
kernel_touch_addr(const struct sluice_block *block, void *args)
{
	struct kernel_args *a = args;

	a->blocks++;
	if (block->index.x == 2)
		*(volatile char *)a->addr += 1;
}

static void
kernels_that_touch_outside_regions_end_with_efault(void)
{
	struct sluice_grid grid = {4, 1, 1};
	struct core core;

	for (int d = 0; d < 2; d++) {
		struct kernel_args args = {0};
		char text[64];

		core_init(&core, SPAN, deliveries[d]);
		args.addr = span_addr(&core, SPANS) + 123;
		CHECK(core.dev->ops->grid_run(core.dev, kernel_touch_addr, grid, &args,
					      NULL) == -EFAULT);
		snprintf(text, sizeof(text), "%p", (void *)args.addr);
		CHECK(strstr(sluice_last_error(), text) != NULL);
		args.addr = (char *)64; /* not even near */
		CHECK(core.dev->ops->grid_run(core.dev, kernel_touch_addr, grid, &args,
					      NULL) == -EFAULT);
		args.addr = (char *)(1ul << 63); /* no address at all */
		CHECK(core.dev->ops->grid_run(core.dev, kernel_touch_addr, grid, &args,
					      NULL) == -EFAULT);
		CHECK(core.n_touches == 0);
		args.addr = span_addr(&core, 0);
		CHECK(core.dev->ops->grid_run(core.dev, kernel_touch_addr, grid, &args,
					      NULL) == 0);
		CHECK(core.n_touches == 1);
		core_fini(&core);
	}
}

static int
serve_refuse(struct core *core, const struct sl_touch *touch)
{
	if (!core->armed)
		return serve_span(core, touch);
	return sl_fail(-EIO, "test core: %p is on a broken disk", touch->addr);
}

static void
a_refused_touch_ends_the_kernel_and_nothing_else(void)
{
	struct sluice_grid grid = {5000, 1, 1};

	for (int d = 0; d < 2; d++) {
		for (int round = 0; round < 20; round++) {
			struct core core;
			struct kernel_args args = {0};

			core_init(&core, SPAN, deliveries[d]);
			core.serve = serve_refuse;
			core.armed = 1;
			args.addr = span_addr(&core, 1) + 5;
			CHECK(core.dev->ops->grid_run(core.dev, kernel_touch_addr, grid,
						      &args, NULL) == -EIO);
			CHECK(strstr(sluice_last_error(), "broken disk") != NULL);
			CHECK(args.blocks < 5000);
			CHECK(core.n_touches == 1);
			core.armed = 0;
			args.blocks = 0;
			CHECK(core.dev->ops->grid_run(core.dev, kernel_touch_addr, grid,
						      &args, NULL) == 0);
			CHECK(args.blocks == 5000);
			CHECK(core.n_touches == 2);
			CHECK(*args.addr == 1); /* the first one left no trace */
			core_fini(&core);
			if (round == 2 && variant_delays)
				break;
		}
	}
}

static void
kernel_read_file(const struct sluice_block *block, void *args)
{
	struct kernel_args *a = args;
	ssize_t got = pread(a->fd, a->addr + block->index.x * PAGE, PAGE, 0);

	a->blocks++;
	if (got == (ssize_t)PAGE)
		a->sum++;
	else if (got < 0 && errno == EFAULT)
		a->overlaps++;
}

static void
system_calls_may_touch_with_thread_delivery_only(void)
{
	struct sluice_grid grid = {3, 1, 1};
	char page[PAGE];
	int fd = memfd_create("page", MFD_CLOEXEC);

	memset(page, 6, PAGE);
	CHECK(pwrite(fd, page, PAGE, 0) == (ssize_t)PAGE);
	for (int d = 0; d < 2; d++) {
		struct core core;
		struct kernel_args args = {.fd = fd};
		int may;

		core_init(&core, SPAN, deliveries[d]);
		may = deliveries[d] == SL_DELIVER_THREAD && core.dev->kernel_touches;
		args.addr = span_addr(&core, 0);
		CHECK(core.dev->ops->grid_run(core.dev, kernel_read_file, grid, &args,
					      NULL) == 0);
		CHECK(args.sum == (may ? 3 : 0));
		CHECK(args.overlaps == (may ? 0 : 3));
		if (may)
			CHECK(args.addr[2 * PAGE + 9] == 6);
		/* A system call whose touch is refused: the kernel has failed. */
		core.serve = serve_refuse;
		core.armed = 1;
		args.addr = span_addr(&core, 1);
		CHECK(core.dev->ops->grid_run(core.dev, kernel_read_file, grid, &args,
					      NULL) == (may ? -EIO : 0));
		core_fini(&core);
	}
	close(fd);
}

/* ---- Host code: signals, forks, refused touches ---- */

static sigjmp_buf host_left;
static _Atomic int host_expects; /* signal that the next fault should raise */
static void *_Atomic host_fault_addr;

/* The program's own handler, installed before the first device. */
static void
on_host_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (host_expects != sig) {
		static const char text[] = "unexpected signal\n";

		(void)!write(2, text, sizeof(text) - 1);
		_exit(1);
	}
	host_expects = 0;
	host_fault_addr = info->si_addr;
	siglongjmp(host_left, 1);
}

static void
host_touch(volatile char *addr, int sig)
{
	host_expects = sig;
	if (!sigsetjmp(host_left, 1))
		*addr = 1;
	CHECK(host_expects == 0);
	host_expects = 0;
}

static void
refused_host_touches_are_the_programs_sigbus(void)
{
	for (int d = 0; d < 2; d++) {
		struct core core;
		char *addr;

		core_init(&core, SPAN, deliveries[d]);
		core.serve = serve_refuse;
		core.armed = 1;
		addr = span_addr(&core, 1) + 77;
		host_touch(addr, SIGBUS);
		CHECK(((uintptr_t)host_fault_addr & ~(PAGE - 1)) ==
		      ((uintptr_t)addr & ~(PAGE - 1)));
		core.armed = 0;
		*addr = 3; /* and nothing is broken */
		CHECK(*addr == 3);
		core_fini(&core);
	}
}

static void
foreign_faults_reach_the_programs_handler(void)
{
	struct core core;
	char *page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	core_init(&core, SPAN, SL_DELIVER_SIGNAL);
	host_touch(page + 5, SIGSEGV);
	CHECK(host_fault_addr == page + 5);
	host_touch(span_addr(&core, SPANS), SIGSEGV); /* outside regions: ordinary */
	CHECK(core.n_touches == 0);
	core_fini(&core);
	host_touch(page + 6, SIGSEGV);
	munmap(page, PAGE);
}

static struct core *alarm_core;
static _Atomic unsigned alarm_count;

static void
on_alarm(int sig)
{
	volatile char *addr = span_addr(alarm_core, (int)(alarm_count++ % SPANS));

	(void)sig;
	addr[200 * PAGE]++;
}

static void
signals_during_faults_may_touch_too(void)
{
	for (int d = 0; d < 2; d++) {
		struct sigaction action = {.sa_handler = on_alarm};
		struct itimerval often = {{0, 500}, {0, 500}};
		struct itimerval never = {{0, 0}, {0, 0}};
		struct sigaction before;
		struct core core;
		unsigned sum = 0;
		unsigned touches = 0;

		if (SANITIZES_THREADS && deliveries[d] == SL_DELIVER_SIGNAL) {
			printf("  skipped for signal delivery: ThreadSanitizer runs "
			       "handlers later, "
			       "with every signal blocked\n");
			continue;
		}
		core_init(&core, SPAN, deliveries[d]);
		alarm_core = &core;
		alarm_count = 0;
		for (int i = 0; i < SPANS; i++) {
			span_hold(&core, i, 0);
		}
		sigaction(SIGALRM, &action, &before);
		setitimer(ITIMER_REAL, &often, NULL);
		for (int i = 0; i < 600; i++) {
			volatile char *addr = span_addr(&core, i % SPANS);

			addr[PAGE * (size_t)(i % 100)]++;
			touches++;
			/* The evictor must not be interrupted while it holds the core's lock. */
			if (i % 3 == 0) {
				sigset_t alarm_only;

				sigemptyset(&alarm_only);
				sigaddset(&alarm_only, SIGALRM);
				pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
				race_evict(&core, i % SPANS);
				pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
			}
		}
		for (int i = 0; i < 100 && alarm_count < 3; i++)
			usleep(1000);
		setitimer(ITIMER_REAL, &never, NULL);
		sigaction(SIGALRM, &before, NULL);
		for (int i = 0; i < SPANS; i++)
			for (size_t p = 0; p < 100; p++)
				sum += (unsigned char)span_addr(&core, i)[p * PAGE];
		CHECK(sum == touches); /* at most 15 each: no wrap-around */
		CHECK(alarm_count >= 3);
		core_fini(&core);
	}
}

static void
a_forked_child_has_nothing_of_it(void)
{
	struct core core;
	volatile char *addr;
	int status = 0;
	pid_t pid;

	core_init(&core, SPAN, SL_DELIVER_THREAD);
	addr = span_addr(&core, 0);
	addr[0] = 11;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct sigaction fatal = {.sa_handler = SIG_DFL};
		unsigned char resident;

		/* Neither present nor absent spans are there, and no frame. */
		if (!mincore((void *)addr, PAGE, &resident) || errno != ENOMEM)
			_exit(1);
		host_expects = SIGSEGV;
		if (!sigsetjmp(host_left, 1)) {
			addr[0] = 12;
			_exit(2);
		}
		(void)fatal;
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(addr[0] == 11);
	addr[SPAN] = 5;
	CHECK(core.n_touches == 2);
	core_fini(&core);
}

/* ---- Streams and events ---- */

struct note {
	struct sl_task task; /* first */
	_Atomic int *order;
	int got;
	int rc; /* what run returns */
	int done_rc;
	_Atomic int *gate; /* run waits until it is not 0 */
};

static int
note_run(struct sl_task *task)
{
	struct note *note = (struct note *)task;

	while (note->gate && !*note->gate)
		usleep(100);
	note->got = ++*note->order;
	return note->rc ? sl_fail(note->rc, "task %d failed", note->got) : 0;
}

static void
note_done(struct sl_task *task, int rc)
{
	((struct note *)task)->done_rc = rc;
}

static void
note_submit(struct sl_device *dev, struct sl_stream *stream, struct note *note, int skippable)
{
	note->task.run = note_run;
	note->task.done = note_done;
	note->task.skippable = skippable;
	note->done_rc = 1;
	dev->ops->stream_submit(stream, &note->task);
}

static void
a_stream_runs_its_tasks_in_order(void)
{
	enum { N = 1000 }; /* more than the queue holds */
	struct note *notes = calloc(N, sizeof(*notes));
	struct sl_stream *stream;
	_Atomic int order = 0;
	struct core core;

	core_init(&core, SPAN, SL_DELIVER_THREAD);
	CHECK(core.dev->ops->stream_create(core.dev, &stream) == 0);
	for (int i = 0; i < N; i++) {
		notes[i].order = &order;
		note_submit(core.dev, stream, &notes[i], 1);
	}
	CHECK(core.dev->ops->stream_synchronize(stream) == 0);
	for (int i = 0; i < N; i++)
		CHECK(notes[i].got == i + 1 && notes[i].done_rc == 0);
	core.dev->ops->stream_destroy(stream);
	core_fini(&core);
	free(notes);
}

static void
an_error_sticks_until_synchronize_and_skips_what_may_be_skipped(void)
{
	struct note notes[6];
	struct sl_stream *stream;
	_Atomic int order = 0;
	struct core core;

	core_init(&core, SPAN, SL_DELIVER_THREAD);
	CHECK(core.dev->ops->stream_create(core.dev, &stream) == 0);
	memset(notes, 0, sizeof(notes));
	notes[1].rc = -EIO;
	notes[3].rc = -ENOSPC; /* not the first */
	for (int i = 0; i < 5; i++) {
		notes[i].order = &order;
		note_submit(core.dev, stream, &notes[i], i != 3);
	}
	CHECK(core.dev->ops->stream_synchronize(stream) == -EIO);
	CHECK(strstr(sluice_last_error(), "task 2 failed") != NULL);
	CHECK(notes[0].done_rc == 0 && notes[1].done_rc == -EIO);
	CHECK(notes[2].done_rc == -ECANCELED && notes[2].got == 0);
	CHECK(notes[3].done_rc == -ENOSPC && notes[3].got == 3);
	CHECK(notes[4].done_rc == -ECANCELED && notes[4].got == 0);
	notes[5].order = &order;
	note_submit(core.dev, stream, &notes[5], 1);
	CHECK(core.dev->ops->stream_synchronize(stream) == 0);
	CHECK(notes[5].done_rc == 0 && notes[5].got == 4);
	core.dev->ops->stream_destroy(stream);
	core_fini(&core);
}

static void
events_order_streams(void)
{
	const struct sl_device_ops *ops;
	struct note first = {0};
	struct note second = {0};
	struct note failing = {0};
	struct sl_stream *a;
	struct sl_stream *b;
	struct sl_event *event;
	_Atomic int order = 0;
	_Atomic int gate = 0;
	struct core core;

	core_init(&core, SPAN, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	CHECK(ops->stream_create(core.dev, &a) == 0);
	CHECK(ops->stream_create(core.dev, &b) == 0);
	CHECK(ops->event_create(core.dev, &event) == 0);
	CHECK(ops->event_query(event) == 0); /* never recorded */
	ops->event_synchronize(event);
	first.order = second.order = failing.order = &order;
	first.gate = &gate;
	failing.rc = -EIO;
	note_submit(core.dev, a, &first, 1);
	note_submit(core.dev, a, &failing, 1);
	CHECK(ops->event_record(a, event) == 0);
	CHECK(ops->event_wait(b, event) == 0);
	note_submit(core.dev, b, &second, 1);
	CHECK(ops->event_query(event) == -EAGAIN);
	usleep(2000);
	CHECK(second.done_rc == 1);
	gate = 1;
	CHECK(ops->stream_synchronize(b) == 0); /* recorded though a task before it failed */
	CHECK(first.got == 1 && failing.got == 2 && second.got == 3);
	CHECK(ops->event_query(event) == 0);
	CHECK(ops->stream_synchronize(a) == -EIO);
	/* Recorded again: complete again when that is done. */
	gate = 0;
	note_submit(core.dev, a, &first, 1);
	CHECK(ops->event_record(a, event) == 0);
	CHECK(ops->event_query(event) == -EAGAIN);
	gate = 1;
	ops->event_synchronize(event);
	CHECK(first.got == 4);
	CHECK(ops->stream_synchronize(a) == 0);
	ops->event_destroy(event);
	ops->stream_destroy(a);
	ops->stream_destroy(b);
	core_fini(&core);
}

struct grid_task {
	struct sl_task task; /* first */
	struct core *core;
	struct kernel_args *args;
	struct sluice_grid grid;
};

static int
grid_task_run(struct sl_task *task)
{
	struct grid_task *g = (struct grid_task *)task;

	return g->core->dev->ops->grid_run(g->core->dev, kernel_sum_pages, g->grid,
					   g->args, g);
}

static void
grid_task_done(struct sl_task *task, int rc)
{
	CHECK(rc == 0);
	free(task);
}

static void
streams_run_grids_at_once_on_the_same_workers(void)
{
	enum { STREAMS = 5, GRIDS = 40 };

	for (int d = 0; d < 2; d++) {
		struct sl_stream *streams[STREAMS];
		struct kernel_args args = {0};
		struct core core;

		core_init(&core, SPAN, deliveries[d]);
		for (int i = 0; i < SPANS; i++) {
			span_hold(&core, i, 1);
		}
		args.addr = span_addr(&core, 0);
		for (int i = 0; i < STREAMS; i++)
			CHECK(core.dev->ops->stream_create(core.dev, &streams[i]) == 0);
		for (int i = 0; i < STREAMS * GRIDS; i++) {
			struct grid_task *g = calloc(1, sizeof(*g));

			g->task.run = grid_task_run;
			g->task.done = grid_task_done;
			g->core = &core;
			g->args = &args;
			g->grid = (struct sluice_grid){1 + (uint32_t)i % 40, 2, 5};
			core.dev->ops->stream_submit(streams[i % STREAMS], &g->task);
			if (i % 7 == 0)
				race_evict(&core, 0);
		}
		for (int i = 0; i < STREAMS; i++) {
			CHECK(core.dev->ops->stream_synchronize(streams[i]) == 0);
			core.dev->ops->stream_destroy(streams[i]);
		}
		CHECK(args.blocks == STREAMS * GRIDS / 40 * (40 * 41 / 2) * 10);
		CHECK(args.sum == args.blocks);
		CHECK(args.overlaps == 0);
		core_fini(&core);
	}
}

/* ---- Regions, wrappers, odd worlds ---- */

static void
ranges_are_attached_and_detached(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	char *other;

	core_init(&core, SPAN, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	other = span_addr(&core, SPANS + 1);
	CHECK(ops->attach(core.dev, other + PAGE, SPAN, SL_DELIVER_SIGNAL) == -EINVAL);
	CHECK(ops->attach(core.dev, span_addr(&core, 2), SPAN, SL_DELIVER_SIGNAL) == -EINVAL);
	CHECK(ops->attach(core.dev, (char *)core.dev->base + ADDRESS_BYTES, SPAN,
			  SL_DELIVER_SIGNAL) == -EINVAL);
	CHECK(ops->present(core.dev, other, SPAN, NULL, 0) == -EINVAL);
	for (int i = 0; i < 20; i++) {
		CHECK(ops->attach(core.dev, other, SPAN, deliveries[i % 2]) == 0);
		CHECK(ops->present(core.dev, other, SPAN, NULL, 0) == 0);
		CHECK(all_zero(other, SPAN)); /* nothing left of the one before */
		memset(other, 1, SPAN);
		ops->detach(core.dev, other, SPAN);
	}
	host_touch(other, SIGSEGV);
	CHECK(core.n_touches == 0);
	core_fini(&core);
}

static void
two_devices_do_not_meet(void)
{
	struct core a;
	struct core b;
	volatile char *in_a;
	volatile char *in_b;

	core_init(&a, SPAN, SL_DELIVER_SIGNAL);
	core_init(&b, SPAN, SL_DELIVER_SIGNAL);
	in_a = span_addr(&a, 0);
	in_b = span_addr(&b, 0);
	*in_a = 1;
	*in_b = 2;
	CHECK(a.n_touches == 1 && b.n_touches == 1);
	CHECK(*in_a == 1 && *in_b == 2);
	core_fini(&a);
	in_b[SPAN] = 1;
	CHECK(b.n_touches == 2);
	core_fini(&b);
}

static void
injected_failures_change_nothing(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_frame *frame;
	struct sl_frame *none = NULL;
	char *addr;

	core_init(&core, SPAN, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	addr = span_addr(&core, 0);
	frame = frame_get(&core);
	pattern_write(frame->data, SPAN, 1);

	CHECK(sl_fault_point_set("device.present:1,device.absent:1,frame.get:1:ENOMEM,"
				 "device.page:1,device.guard:1,device.map:1:ENOMEM,"
				 "thread.create:1:EAGAIN") == 0);
	CHECK(ops->present(core.dev, addr, SPAN, frame, 0) == -EIO);
	CHECK(pattern_is(frame->data, SPAN, 1));
	CHECK(ops->present(core.dev, addr, SPAN, frame, SL_PRESENT_KEEP) == 0);
	CHECK(ops->absent(core.dev, addr, SPAN, frame, SL_ABSENT_KEPT) == -EIO);
	CHECK(pattern_is(addr, SPAN, 1));
	CHECK(ops->frame_get(core.dev, SPAN, &none) == -ENOMEM && !none);
	CHECK(ops->page_fill(core.dev, span_addr(&core, 1), PAGE, NULL, 0) == -EIO);
	CHECK(ops->guard(core.dev, addr, SPAN) == -EIO);
	CHECK(ops->attach(core.dev, span_addr(&core, SPANS), SPAN, SL_DELIVER_THREAD) ==
	      -ENOMEM);
	{
		struct sl_stream *stream = NULL;

		CHECK(ops->stream_create(core.dev, &stream) == -EAGAIN && !stream);
	}
	CHECK(sl_fault_point_fired() == 7);
	CHECK(sl_fault_point_set(NULL) == 0);
	CHECK(ops->absent(core.dev, addr, SPAN, frame, SL_ABSENT_KEPT) == 0);
	CHECK(pattern_is(frame->data, SPAN, 1));
	CHECK(core.n_touches == 0);
	ops->frame_put(core.dev, frame);
	core_fini(&core);
}

static void
creation_fails_cleanly_wherever_it_fails(void)
{
	static const char *const names[] = {"mem.alloc", "thread.create"};

	for (int p = 0; p < 2; p++) {
		for (int n = 1;; n++) {
			struct core core = {0};
			struct sl_device *dev = NULL;
			char spec[64];
			int rc;

			snprintf(spec, sizeof(spec), "%s:%d:ENOMEM", names[p], n);
			CHECK(sl_fault_point_set(spec) == 0);
			rc = device_create(&core, &dev);
			if (!sl_fault_point_fired()) {
				CHECK(rc == 0 && n > 2);
				CHECK(sl_fault_point_set(NULL) == 0);
				dev->ops->destroy(dev);
				break;
			}
			CHECK(rc == -ENOMEM);
			CHECK(sl_fault_point_set(NULL) == 0);
		}
	}
}

static void
the_delay_wrapper_is_never_faster_than_its_link(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_device *slow;
	struct sl_frame *frame;
	uint64_t start_ns;
	int rc;

	if (variant_delays)
		return;
	core_init(&core, SPAN, SL_DELIVER_THREAD);
	rc = sl_device_wrap_delay(core.dev, 1000000, SPAN * 500, &slow); /* 2 ms a span */
	CHECK(rc == 0);
	core.dev = slow;
	ops = slow->ops;
	frame = frame_get(&core);
	memset(frame->data, 1, SPAN);
	start_ns = sl_now_ns();
	CHECK(ops->present(core.dev, span_addr(&core, 0), SPAN, frame, SL_PRESENT_KEEP) == 0);
	CHECK(ops->absent(core.dev, span_addr(&core, 0), SPAN, frame, SL_ABSENT_COPY) == 0);
	CHECK(sl_now_ns() - start_ns >= 4000000);
	start_ns = sl_now_ns();
	CHECK(ops->page_fill(core.dev, span_addr(&core, 1), PAGE, frame->data, 0) == 0);
	CHECK(sl_now_ns() - start_ns >= 1000000);
	ops->frame_put(core.dev, frame);
	core_fini(&core);
}

/* Pin a page with a registered io_uring buffer, as a long direct I/O does. -1: refused. */
static int
page_pin(void *page)
{
	struct io_uring_params params;
	struct iovec buffer = {page, PAGE};
	int fd;

	memset(&params, 0, sizeof(params));
	fd = (int)syscall(SYS_io_uring_setup, 2, &params);
	if (fd < 0)
		return -1;
	if (syscall(SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS, &buffer, 1)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void
a_span_pinned_by_direct_io_stays_whole(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_frame *frame;
	char *addr;
	int fd;

	if (variant_copies)
		return; /* a copy cannot know: see soft.h */
	core_init(&core, 2 * SPAN, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	addr = span_addr(&core, 0);
	CHECK(ops->present(core.dev, addr, 2 * SPAN, NULL, 0) == 0);
	pattern_write(addr, 2 * SPAN, 8);
	fd = page_pin(addr + SPAN + 9 * PAGE); /* the first half moves, the second does not */
	if (fd < 0) {
		printf("  io_uring refused: pinned pages not tested\n");
		core_fini(&core);
		return;
	}
	CHECK(ops->guard(core.dev, addr, 2 * SPAN) == 0);
	frame = frame_get(&core);
	pattern_write(frame->data, 2 * SPAN, 3);
	CHECK(ops->absent(core.dev, addr, 2 * SPAN, frame, SL_ABSENT_COPY) == -EBUSY);
	CHECK(core.dev->move_retries > 0);
	CHECK(pattern_is(addr, 2 * SPAN, 8));
	CHECK(pattern_is(frame->data, 2 * SPAN, 3));
	CHECK(core.n_touches == 0);
	/* And it is guarded still, where it was moved and came back too. */
	pthread_mutex_lock(&core.lock);
	core.span[0].state = SPAN_PRESENT;
	core.span[0].guarded = 1;
	pthread_mutex_unlock(&core.lock);
	*(volatile char *)addr = *(volatile char *)addr;
	CHECK(core.n_writes_guarded == 1);
	CHECK(syscall(SYS_io_uring_register, fd, IORING_UNREGISTER_BUFFERS, NULL, 0) == 0);
	close(fd);
	CHECK(ops->absent(core.dev, addr, 2 * SPAN, frame, SL_ABSENT_COPY) == 0);
	CHECK(pattern_is(frame->data, 2 * SPAN, 8));
	ops->frame_put(core.dev, frame);
	core_fini(&core);
}

/* In a child without privilege: user-mode faults are enough for kernels and host code. */
static void
works_without_privilege_or_says_why_not(void)
{
	int status = 0;
	pid_t pid;

	if (geteuid())
		return; /* the whole run is without privilege */
	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct sluice_grid grid = {512, 1, 1};
		struct kernel_args args = {0};
		struct core core = {0};
		struct sl_device *dev;

		if (syscall(SYS_setresgid, 65534, 65534, 65534) ||
		    syscall(SYS_setresuid, 65534, 65534, 65534))
			_exit(3);
		prctl(PR_SET_DUMPABLE, 1); /* lost with the identity; pagemap needs it */
		switch (device_create(&core, &dev)) {
		case 0:
			break;
		case -EPERM:
			_exit(strstr(sluice_last_error(), "unprivileged_userfaultfd") ? 0
										      : 4);
		case -ENOTSUP:
			_exit(0); /* the parent will be told the same, and skip */
		default:
			_exit(5);
		}
		dev->ops->destroy(dev);
		core_init(&core, SPAN, SL_DELIVER_THREAD);
		args.addr = span_addr(&core, 0);
		CHECK(core.dev->ops->grid_run(core.dev, kernel_sum_pages, grid, &args,
					      NULL) == 0);
		CHECK(core.n_touches >= 1);
		core_fini(&core);
		fflush(stdout);
		_exit(failures ? 1 : 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#define TEST(function)              \
	{                           \
#function, function \
	}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	TEST(contents_survive_every_way_in_and_out),
	TEST(a_kept_frame_is_overwritten_by_absent_copy),
	TEST(no_frame_gives_zeros_whatever_the_cache_holds),
	TEST(discarded_span_is_absent),
	TEST(presenting_over_present_pages_is_refused_and_loses_nothing),
	TEST(snapshot_copies_and_leaves_the_span_present),
	TEST(frames_are_reused),
	TEST(frame_sizes_that_are_no_span_are_refused),
	TEST(a_guard_reports_exactly_one_write),
	TEST(absent_touches_say_read_or_write),
	TEST(pages_are_filled_one_by_one_and_written_once),
	TEST(page_fill_skips_present_pages),
	TEST(absent_pages_leave_their_part_of_the_frame),
	TEST(racing_writes_are_never_lost),
	TEST(a_grid_runs_every_block_once_and_serves_its_touches),
	TEST(kernels_that_touch_outside_regions_end_with_efault),
	TEST(a_refused_touch_ends_the_kernel_and_nothing_else),
	TEST(system_calls_may_touch_with_thread_delivery_only),
	TEST(refused_host_touches_are_the_programs_sigbus),
	TEST(foreign_faults_reach_the_programs_handler),
	TEST(signals_during_faults_may_touch_too),
	TEST(a_forked_child_has_nothing_of_it),
	TEST(a_stream_runs_its_tasks_in_order),
	TEST(an_error_sticks_until_synchronize_and_skips_what_may_be_skipped),
	TEST(events_order_streams),
	TEST(streams_run_grids_at_once_on_the_same_workers),
	TEST(ranges_are_attached_and_detached),
	TEST(two_devices_do_not_meet),
	TEST(injected_failures_change_nothing),
	TEST(creation_fails_cleanly_wherever_it_fails),
	TEST(the_delay_wrapper_is_never_faster_than_its_link),
	TEST(a_span_pinned_by_direct_io_stays_whole),
};

/* Whether there is a device at all here. */
static void
probe_or_skip(void)
{
	struct core core = {0};
	struct sl_device *dev;
	int rc = device_create(&core, &dev);

	if (rc == -EPERM || rc == -ENOTSUP) {
		printf("skipped: %s\n", sluice_last_error());
		exit(77);
	}
	if (rc) {
		printf("FAIL creating a device: %s\n", sluice_last_error());
		exit(1);
	}
	dev->ops->destroy(dev);
}

int
main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = on_host_fault, .sa_flags = SA_SIGINFO};
	static const char *const variants[] = {"move", "copy", "move, delayed",
					       "copy, delayed"};

	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	/* Before there are threads: a child of a threaded program may not start any. */
	test_name = "works_without_privilege_or_says_why_not";
	for (variant_copies = 0; variant_copies < 2; variant_copies++) {
		variant_name = variants[variant_copies];
		works_without_privilege_or_says_why_not();
	}
	test_name = "main";
	variant_name = variants[0];
	variant_copies = 0;
	probe_or_skip();
	for (int v = 0; v < 4; v++) {
		variant_name = variants[v];
		variant_copies = v & 1;
		variant_delays = v >> 1;
		printf("device: soft, %s\n", variant_name);
		for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
			test_name = tests[i].name;
			if (argc > 1 && !strstr(test_name, argv[1]))
				continue;
			printf(" %s\n", test_name);
			tests[i].run();
		}
	}
	printf("%s\n", failures ? "FAILED" : "passed");
	return failures ? 1 : 0;
}
