/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two GPUs in one process: a space on each, used at once from two threads, each within its own
 * budget. Data go from one to the other through host code. Each thread keeps its context.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "cuda/cuda_test.h"

#define K 0x9e3779b97f4a7c15ull

static struct cuda_test t[2];

static struct sluice_space *
space_on(int device, uint64_t device_mib, uint64_t host_mib)
{
	struct sluice_config config;
	struct sluice_space *s;
	char more[32];

	snprintf(more, sizeof(more), "device_number=%d", device);
	s = cuda_test_space(device_mib, host_mib, more);
	sluice_space_config(s, &config);
	CHECK(config.device_number == (uint32_t)device);
	return s;
}

static struct cu_context *
current(void)
{
	struct cu_context *context;

	CHECK_OK(SL_CUDA(t[0].driver, cuCtxGetCurrent, &context));
	return context;
}

static void
current_set(struct cu_context *context)
{
	CHECK_OK(SL_CUDA(t[0].driver, cuCtxSetCurrent, context));
}

/* ---- at once ------------------------------------------------------------------------------- */

struct worker {
	int device;
	uint64_t budget_mib;
	uint64_t peak_bytes, moved_bytes;
};

static void *
worker_main(void *arg)
{
	struct worker *w = arg;
	struct cuda_test *me = &t[w->device];
	uint64_t bytes = 48 * MIB, n = bytes / 8, tile = 4 * MIB / 8;
	struct sluice_space *s;
	struct sluice_stats stats;
	uint64_t *p;

	current_set(me->context);
	s = space_on(w->device, w->budget_mib, 96);
	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	for (uint64_t at = 0; at < n; at += tile)
		cuda_test_run(me, s, NULL, TEST_FILL, p + at, tile,
			      at + (uint64_t)w->device, SLUICE_USE_WRITE_ALL);
	for (int round = 0; round < 2; round++)
		for (uint64_t at = 0; at < n; at += tile)
			cuda_test_run(me, s, NULL, TEST_ADD, p + at, tile, 5,
				      SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	sluice_stats_get(s, &stats);
	w->peak_bytes = stats.resident_peak_bytes[SLUICE_TIER_DEVICE];
	w->moved_bytes = sluice_stats_h2d_bytes(&stats);
	for (uint64_t at = 0; at < n; at += tile)
		for (uint64_t i = 0; i < tile; i += 17)
			CHECK(p[at + i] == i * K + at + (uint64_t)w->device + 10);
	CHECK(current() == me->context);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
	return NULL;
}

static void
spaces_on_two_devices_work_at_once_within_their_budgets(void)
{
	struct worker w[2] = {{.device = 0, .budget_mib = 8},
			      {.device = 1, .budget_mib = 24}};
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&thread[i], NULL, worker_main, &w[i]) == 0);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 2; i++) {
		CHECK(w[i].peak_bytes == w[i].budget_mib * MIB); /* all of its own, no more */
		/* Each pass in order over more than fits brings all of it in again. */
		CHECK(w[i].moved_bytes == 2 * 48 * MIB);
	}
}

/* ---- through host code --------------------------------------------------------------------- */

static void
run_on(int device, struct sluice_space *s, enum test_kernel kernel, uint64_t *p,
       uint64_t n, uint64_t third, enum sluice_intent intent)
{
	struct cu_context *before = current();

	current_set(t[device].context);
	cuda_test_run(&t[device], s, NULL, kernel, p, n, third, intent);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	current_set(before);
}

static void
data_go_from_one_device_to_the_other_through_host_code(void)
{
	struct sluice_space *s[2] = {space_on(0, 8, 64), space_on(1, 8, 64)};
	uint64_t bytes = 16 * MIB, n = bytes / 8, tile = MIB / 2, *p[2];

	for (int i = 0; i < 2; i++)
		CHECK_OK(sluice_alloc(s[i], bytes, 0, (void **)&p[i]));
	CHECK((char *)p[0] + bytes <= (char *)p[1] || (char *)p[1] + bytes <= (char *)p[0]);
	for (uint64_t at = 0; at < n; at += tile)
		run_on(0, s[0], TEST_FILL, p[0] + at, tile, at, SLUICE_USE_WRITE_ALL);
	memcpy(p[1], p[0], bytes);
	for (uint64_t at = 0; at < n; at += tile)
		run_on(1, s[1], TEST_ADD, p[1] + at, tile, 3, SLUICE_USE_READ_WRITE);
	memcpy(p[0], p[1], bytes);
	for (uint64_t at = 0; at < n; at += tile)
		run_on(0, s[0], TEST_ADD, p[0] + at, tile, 4, SLUICE_USE_READ_WRITE);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t filled = i % tile * K + i / tile * tile;

		CHECK(p[1][i] == filled + 3 && p[0][i] == filled + 7);
	}
	for (int i = 0; i < 2; i++) {
		CHECK_OK(sluice_unmap(s[i], p[i]));
		CHECK_OK(sluice_space_check(s[i]));
		CHECK_OK(sluice_space_destroy(s[i]));
	}
}

/* ---- contexts ------------------------------------------------------------------------------ */

#define KEEPS(context, call)                   \
	do {                                   \
		CHECK_OK(call);                \
		CHECK(current() == (context)); \
	} while (0)

/* Every kind of call on a space of device 1, on a thread whose context is another one, or none. */
static void
caller_keeps_its_context(struct cu_context *context)
{
	uint64_t bytes = 8 * MIB, *p;
	struct sluice_stream *stream;
	struct sluice_event *event;
	struct sluice_launch *l;
	struct sluice_space *s;
	struct sluice_use use;

	current_set(context);
	s = space_on(1, 8, 64);
	CHECK(current() == context);
	KEEPS(context, sluice_alloc(s, bytes, 0, (void **)&p));
	p[0] = 1;
	CHECK(current() == context);
	use = (struct sluice_use){p, bytes, SLUICE_USE_READ_WRITE};
	KEEPS(context, sluice_stream_create(s, &stream));
	KEEPS(context, sluice_launch_begin(s, stream, &use, 1, &l));
	sluice_launch_end(l);
	CHECK(current() == context);
	KEEPS(context, sluice_event_create(s, &event));
	KEEPS(context, sluice_event_record(s, stream, event));
	sluice_event_synchronize(event);
	KEEPS(context, sluice_event_query(event));
	KEEPS(context, sluice_stream_synchronize(s, stream));
	sluice_event_destroy(event);
	sluice_stream_destroy(stream);
	CHECK(current() == context);
	KEEPS(context, sluice_evict(s, p, bytes, SLUICE_TIER_HOST, NULL));
	KEEPS(context, sluice_pin(s, p, 2 * MIB));
	KEEPS(context, sluice_unpin(s, p, 2 * MIB));
	CHECK(p[0] == 1);
	KEEPS(context, sluice_advise(s, p, bytes, SLUICE_ADVISE_MEASURE));
	KEEPS(context, sluice_launch_begin(s, NULL, &use, 1, &l));
	sluice_launch_end(l);
	KEEPS(context, sluice_space_set_budget(s, SLUICE_TIER_DEVICE, 4 * MIB)); /* compares */
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) > 4);
	KEEPS(context, sluice_unmap(s, p));
	KEEPS(context, sluice_space_destroy(s));
}

static void
device_that_is_not_there_is_refused(void)
{
	struct sluice_config config;
	struct sluice_space *s = NULL;

	CHECK_OK(sluice_config_init(&config));
	config.device = SLUICE_DEVICE_CUDA;
	config.device_budget_bytes = 8 * MIB;
	config.host_budget_bytes = 8 * MIB;
	config.device_number = (uint32_t)t[0].driver->n_devices;
	CHECK(sluice_space_create(&config, &s) == -EINVAL && !s);
}

int
main(void)
{
	cuda_test_open_device(&t[1], 1);
	cuda_test_open_device(&t[0], 0);
	spaces_on_two_devices_work_at_once_within_their_budgets();
	data_go_from_one_device_to_the_other_through_host_code();
	caller_keeps_its_context(t[0].context);
	caller_keeps_its_context(t[1].context);
	caller_keeps_its_context(NULL);
	device_that_is_not_there_is_refused();
	current_set(t[1].context);
	CHECK_OK(SL_CUDA(t[1].driver, cuModuleUnload, t[1].module));
	CHECK_OK(SL_CUDA(t[1].driver, cuDevicePrimaryCtxRelease, 1));
	current_set(t[0].context);
	cuda_test_close(&t[0], NULL);
	return 0;
}
