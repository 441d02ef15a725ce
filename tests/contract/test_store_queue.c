/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: many requests of many threads, completions that submit, the order of classes, and a ring that
 * breaks with requests in it. See store_suite.h.
 */
#include "store_suite.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/rng.h"

struct submitter {
	const struct config *c;
	struct sl_store *store;
	unsigned number;
	pthread_t thread;
};

#define SUBMITTERS      4
#define SUBMITTER_IOS   48
#define SUBMITTER_BYTES 32768

static void *
submitter_main(void *arg)
{
	struct submitter *s = arg;
	struct request *r = calloc(SUBMITTER_IOS, sizeof(*r));
	struct sl_io *ios[SUBMITTER_IOS];
	char *out = buffer_new(SUBMITTER_IOS * SUBMITTER_BYTES);
	char *in = buffer_new(SUBMITTER_IOS * SUBMITTER_BYTES);
	sem_t over;

	CHECK(r);
	sem_init(&over, 0, 0);
	pattern_fill(out, SUBMITTER_IOS * SUBMITTER_BYTES, s->number + 50);
	for (int pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < SUBMITTER_IOS; i++) {
			uint64_t place = (uint64_t)i * SUBMITTERS + s->number;

			request_set(&r[i], &over, pass ? SL_IO_READ : SL_IO_WRITE,
				    (enum sl_io_class)(i % SL_IO_CLASS_COUNT),
				    (pass ? in : out) + i * SUBMITTER_BYTES,
				    place * SUBMITTER_BYTES, SUBMITTER_BYTES);
			ios[i] = &r[i].io;
		}
		/* Singly and in lots. */
		for (unsigned i = 0; i < SUBMITTER_IOS / 2; i++)
			sl_store_submit(s->store, &ios[i], 1);
		sl_store_submit(s->store, ios + SUBMITTER_IOS / 2, SUBMITTER_IOS / 2);
		for (unsigned i = 0; i < SUBMITTER_IOS; i++)
			sem_take(&over);
		for (unsigned i = 0; i < SUBMITTER_IOS; i++)
			CHECK(r[i].io.result == 0 && r[i].calls == 1);
	}
	CHECK(!memcmp(in, out, SUBMITTER_IOS * SUBMITTER_BYTES));
	sem_destroy(&over);
	free(r);
	free(out);
	free(in);
	return NULL;
}

static void
many_requests_of_many_threads_all_complete_once(const struct config *c)
{
	struct submitter s[SUBMITTERS];
	char path[512];
	struct sl_store *store;

	path_make(path, sizeof(path), c, "many");
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	for (unsigned i = 0; i < SUBMITTERS; i++) {
		s[i] = (struct submitter){.c = c, .store = store, .number = i};
		CHECK(!pthread_create(&s[i].thread, NULL, submitter_main, &s[i]));
	}
	for (unsigned i = 0; i < SUBMITTERS; i++)
		pthread_join(s[i].thread, NULL);
	store->ops->close(store);
	unlink(path);
}

struct chain {
	struct sl_io io;
	struct sl_store *store;
	unsigned left;
	int failed;
	sem_t over;
};

static void
chain_done(struct sl_io *io)
{
	struct chain *chain = io->arg;

	chain->failed |= io->result != 0;
	if (--chain->left == 0) {
		sem_post(&chain->over);
		return;
	}
	io->op = io->op == SL_IO_READ ? SL_IO_WRITE : SL_IO_READ;
	sl_store_submit(chain->store, &io, 1);
}

static void
a_completion_may_submit_more(const struct config *c)
{
	struct chain chain = {.left = 200};
	struct sl_io *io = &chain.io;
	char path[512];

	path_make(path, sizeof(path), c, "chain");
	chain.store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	sem_init(&chain.over, 0, 0);
	chain.io = (struct sl_io){.op = SL_IO_WRITE,
				  .class = SL_IO_PREFETCH,
				  .buf = buffer_new(4096),
				  .bytes = 4096,
				  .done = chain_done,
				  .arg = &chain};
	sl_store_submit(chain.store, &io, 1);
	sem_take(&chain.over);
	CHECK(!chain.failed && chain.left == 0);
	chain.store->ops->close(chain.store);
	sem_destroy(&chain.over);
	free(chain.io.buf);
	unlink(path);
}

struct order {
	struct request block;
	sem_t holds;  /* the engine's thread is in the block's completion */
	sem_t queued; /* it may leave it */
	atomic_uint next;
	struct request r[12];
	unsigned place[12];
};

static struct order *order_now;

static void
order_done(struct sl_io *io)
{
	struct request *r = io->arg;

	order_now->place[r - order_now->r] = atomic_fetch_add(&order_now->next, 1);
	request_done(io);
}

static void
block_done(struct sl_io *io)
{
	sem_post(&order_now->holds);
	sem_take(&order_now->queued);
	request_done(io);
}

/*
 * Four requests of each class, lowest first. They start in order of class and, within one, first
 * come first served. With hold_engine they come in two lots while the engine's thread is held.
 * Without, they come in one lot, which a store queues as a whole.
 */
static void
order_check(struct sl_store *store, int hold_engine)
{
	struct order order = {0};
	struct sl_io *ios[12], *block = &order.block.io;
	char *buf = buffer_new(13 * 4096);
	sem_t over;

	order_now = &order;
	sem_init(&over, 0, 0);
	sem_init(&order.holds, 0, 0);
	sem_init(&order.queued, 0, 0);
	if (hold_engine) {
		request_set(&order.block, &over, SL_IO_READ, SL_IO_WRITEBACK,
			    buf + 12 * 4096, 0, 4096);
		block->done = block_done;
		sl_store_submit(store, &block, 1);
		sem_take(&order.holds);
	}
	for (unsigned i = 0; i < 12; i++) {
		request_set(&order.r[i], &over, SL_IO_READ,
			    (enum sl_io_class)(SL_IO_WRITEBACK - i / 4), buf + i * 4096,
			    0, 4096);
		order.r[i].io.done = order_done;
		ios[i] = &order.r[i].io;
	}
	if (hold_engine) {
		sl_store_submit(store, ios, 6);
		sl_store_submit(store, ios + 6, 6);
		sem_post(&order.queued);
		sem_take(&over);
	} else {
		sl_store_submit(store, ios, 12);
	}
	for (unsigned i = 0; i < 12; i++)
		sem_take(&over);
	for (unsigned i = 0; i < 12; i++) {
		unsigned class = SL_IO_WRITEBACK - i / 4;

		CHECK(order.r[i].io.result == 0);
		CHECK(order.place[i] == class * 4 + i % 4);
	}
	sem_destroy(&over);
	sem_destroy(&order.holds);
	sem_destroy(&order.queued);
	free(buf);
}

static void
a_higher_class_starts_first(const struct config *c)
{
	struct config one = *c;
	struct sl_store *store;
	char path[512], page[4096] = {0};

	path_make(path, sizeof(path), c, "order");
	plain_file_make(path, page, 4096);
	CHECK(!sl_engine_create(c->kind, 1, &one.engine));
	CHECK(!sl_store_open(one.engine, path, SL_STORE_READ, &store));
	order_check(store, 1);
	/* The link of the delay wrapper: 10 ms for each, so that all others wait for the first. */
	CHECK(!sl_store_wrap_delay(store, 0, 409600, &store));
	order_check(store, 0);
	store->ops->close(store);
	sl_engine_destroy(one.engine);
	unlink(path);
}

enum { LOW_REQUESTS = 64 };

struct crowd {
	struct request low[LOW_REQUESTS];
	struct request demand;
	sem_t held; /* posted for each low request that may complete */
	unsigned low_over_at_demand;
};

static struct crowd *crowd_now;

static void
crowd_low_done(struct sl_io *io)
{
	sem_take(&crowd_now->held);
	request_done(io);
}

static void
crowd_demand_done(struct sl_io *io)
{
	for (unsigned i = 0; i < LOW_REQUESTS; i++)
		crowd_now->low_over_at_demand += (unsigned)atomic_load(
			&crowd_now->low[i].calls);
	request_done(io);
}

/*
 * A demand starts while low requests hold all the places they may have. The threads of
 * the file engine are held in the completions of low requests: without a place of its
 * own the demand would never complete. The one thread of the ring cannot be held; there
 * the demand, last in the line, must not be the last to complete.
 */
static void
a_demand_does_not_wait_for_queued_prefetches(const struct config *c)
{
	int hold = !strcmp(c->kind, "file");
	struct config e = *c;
	struct crowd crowd = {0};
	struct sl_io *ios[LOW_REQUESTS + 1], *demand = &crowd.demand.io;
	char *buf = buffer_new((LOW_REQUESTS + 1) * 65536);
	struct sl_store *store;
	sem_t over, demand_over;
	char path[512];

	crowd_now = &crowd;
	path_make(path, sizeof(path), c, "demand");
	CHECK(!sl_engine_create(c->kind, 8, &e.engine));
	store = store_open(&e, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	CHECK(!store->ops->extend(store, LOW_REQUESTS * 65536));
	sem_init(&over, 0, 0);
	sem_init(&demand_over, 0, 0);
	sem_init(&crowd.held, 0, hold ? 0 : LOW_REQUESTS);
	for (unsigned i = 0; i < LOW_REQUESTS; i++) {
		request_set(&crowd.low[i], &over, SL_IO_READ,
			    i % 2 ? SL_IO_PREFETCH : SL_IO_WRITEBACK, buf + i * 65536,
			    (uint64_t)i * 65536, 65536);
		crowd.low[i].io.done = crowd_low_done;
		ios[i] = &crowd.low[i].io;
	}
	request_set(&crowd.demand, &demand_over, SL_IO_READ, SL_IO_DEMAND,
		    buf + LOW_REQUESTS * 65536, 0, 4096);
	demand->done = crowd_demand_done;
	ios[LOW_REQUESTS] = demand;

	sl_store_submit(store, ios, LOW_REQUESTS + 1);
	sem_take(&demand_over);
	CHECK(crowd.demand.io.result == 0);
	CHECK(crowd.low_over_at_demand < (hold ? 1 : LOW_REQUESTS));
	for (unsigned i = 0; hold && i < LOW_REQUESTS; i++)
		sem_post(&crowd.held);
	for (unsigned i = 0; i < LOW_REQUESTS; i++)
		sem_take(&over);
	for (unsigned i = 0; i < LOW_REQUESTS; i++)
		CHECK(crowd.low[i].io.result == 0);
	store->ops->close(store);
	sl_engine_destroy(e.engine);
	sem_destroy(&over);
	sem_destroy(&demand_over);
	sem_destroy(&crowd.held);
	unlink(path);
	free(buf);
}

/* The descriptors of this process that are rings. Replaces them by /dev/null; how
 * many. */
static unsigned
rings_break(void)
{
	unsigned n = 0;

	for (int fd = 3; fd < 256; fd++) {
		char link[64], target[64] = "";
		int null_fd;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, target, sizeof(target) - 1) < 0 ||
		    !strstr(target, "[io_uring]"))
			continue;
		null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		CHECK(null_fd >= 0 && dup2(null_fd, fd) == fd);
		close(null_fd);
		n++;
	}
	return n;
}

static void
a_broken_ring_still_serves_requests(const struct config *given)
{
	struct config c = *given;
	char *data = buffer_new(3u << 20), *in = buffer_new(3u << 20);
	struct sl_store *store;
	char path[512];

	path_make(path, sizeof(path), &c, "broken");
	CHECK(!sl_engine_create("uring", 8, &c.engine));
	store = store_open(&c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	pattern_fill(data, 3u << 20, 8);
	CHECK(!io_run(store, SL_IO_WRITE, data, 0, 2u << 20, NULL));
	CHECK(rings_break() == 1);
	CHECK(!io_run(store, SL_IO_WRITE, data, 0, 3u << 20, NULL));
	CHECK(!io_run(store, SL_IO_READ, in, 0, 3u << 20, NULL));
	CHECK(!memcmp(data, in, 3u << 20));
	many_requests_of_many_threads_all_complete_once(&c);
	store->ops->close(store);
	sl_engine_destroy(c.engine);
	unlink(path);
	free(data);
	free(in);
}

static const struct store_test tests[] = {
	TEST(many_requests_of_many_threads_all_complete_once, STORE_EVERYWHERE),
	TEST(a_completion_may_submit_more, STORE_EVERYWHERE),
	TEST(a_higher_class_starts_first, STORE_ENGINE),
	TEST(a_demand_does_not_wait_for_queued_prefetches, STORE_ENGINE),
	TEST(a_broken_ring_still_serves_requests, STORE_URING),
};

STORE_MAIN(tests)
