/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices, the test core and the runner of test_device_*.c: see device_suite.h.
 *
 * A row's device is the back end with the fault wrapper (the software device always has it) and, in
 * half of its rows, the delay wrapper around it. The CUDA device is the stand-in driver's where
 * SLUICE_STANDIN_LIBRARY names one, else what the machine has. The program's own handlers of SIGSEGV and SIGBUS are installed before
 * the first device, as a host program's would be.
 */
#include "device_suite.h"
#include "minimal_device.h"

#include "cuda_driver/standin.h"
#include "device/cuda/cuda_driver.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

const struct device_row *device_row;
static _Atomic int failures;
static const char *test_name;

/* ---- Devices ---- */

static int
soft_create(const struct sl_device_config *config, struct sl_device **out,
	    const char *how, int slowly)
{
	int rc;

	setenv("SLUICE_SOFT_MOVE", how, 1);
	rc = sl_device_soft_create(config, out);
	if (!rc && slowly)
		rc = sl_device_wrap_delay(*out, 20000, 40000000000u, out);
	return rc;
}

static int
soft_move_create(const struct sl_device_config *config, struct sl_device **out)
{
	return soft_create(config, out, "move", 0);
}

static int
soft_copy_create(const struct sl_device_config *config, struct sl_device **out)
{
	return soft_create(config, out, "copy", 0);
}

static int
soft_move_slow_create(const struct sl_device_config *config, struct sl_device **out)
{
	return soft_create(config, out, "move", 1);
}

static int
soft_copy_slow_create(const struct sl_device_config *config, struct sl_device **out)
{
	return soft_create(config, out, "copy", 1);
}

static int
cuda_create(const struct sl_device_config *config, struct sl_device **out)
{
	const char *standin = getenv("SLUICE_STANDIN_LIBRARY");

	if (standin)
		setenv("SLUICE_CUDA_LIBRARY", standin, 0);
	return sl_device_cuda_create(config, 0, out);
}

static int
cuda_slow_create(const struct sl_device_config *config, struct sl_device **out)
{
	int rc = cuda_create(config, out);

	return rc ? rc : sl_device_wrap_delay(*out, 20000, 40000000000u, out);
}

static int
cuda_fault_create(const struct sl_device_config *config, struct sl_device **out)
{
	int rc = cuda_create(config, out);

	return rc ? rc : sl_device_wrap_fault(*out, out);
}

static const struct device_row device_rows[] = {
	{"soft, move", DEVICE_USERFAULT | DEVICE_SEES_PINS | DEVICE_PROMPT, soft_move_create},
	{"soft, copy", DEVICE_USERFAULT | DEVICE_PROMPT, soft_copy_create},
	{"soft, move, delayed", DEVICE_USERFAULT | DEVICE_SEES_PINS, soft_move_slow_create},
	{"soft, copy, delayed", DEVICE_USERFAULT, soft_copy_slow_create},
	{"cuda", DEVICE_PROMPT | DEVICE_CUDA, cuda_create},
	{"cuda, delayed", DEVICE_CUDA, cuda_slow_create},
	{"cuda, failing", DEVICE_PROMPT | DEVICE_CUDA, cuda_fault_create},
	{"minimal", DEVICE_PROMPT, minimal_device_create},
};

/* ---- The test core ---- */

const enum sl_delivery deliveries[2] = {SL_DELIVER_THREAD, SL_DELIVER_SIGNAL};

char *
chunk_addr(const struct core *core, int i)
{
	return (char *)core->dev->base + (size_t)i * core->chunk_bytes;
}

/* The host map is shown by granules. */
static int
hostmap_show(struct core *core, char *addr, const char *src, int guard)
{
	size_t at;
	int rc = 0;

	for (at = 0; at < core->chunk_bytes && !rc; at += CHUNK)
		rc = core->dev->hostmap->show(core->dev, addr + at, src ? src + at : NULL,
					      guard);
	if (rc)
		for (at -= CHUNK; at; at -= CHUNK)
			CHECK(core->dev->hostmap->hide(core->dev, addr + at - CHUNK,
						       NULL) == 0);
	return rc;
}

int
host_show(struct core *core, char *addr, struct sl_frame *frame, unsigned flags)
{
	const unsigned guards = SL_PRESENT_GUARD | SL_PRESENT_GUARD_STRICT;
	int rc;

	if (!core->dev->hostmap)
		return core->dev->ops->present(core->dev, addr, core->chunk_bytes, frame,
					       flags);
	rc = hostmap_show(core, addr, frame ? frame->data : NULL, (flags & guards) != 0);
	if (!rc && frame && !(flags & SL_PRESENT_KEEP))
		core->dev->ops->frame_put(core->dev, frame);
	return rc;
}

int
host_hide(struct core *core, char *addr, struct sl_frame *frame, int kept)
{
	const struct sl_device_ops *ops = core->dev->ops;
	char *to = frame && !kept ? frame->data : NULL;
	int rc = 0;

	if (!core->dev->hostmap)
		return ops->absent(core->dev, addr, core->chunk_bytes, frame,
				   kept    ? SL_ABSENT_KEPT
				   : frame ? SL_ABSENT_COPY
					   : SL_ABSENT_DISCARD);
	for (size_t at = 0; at < core->chunk_bytes && !rc; at += CHUNK)
		rc = core->dev->hostmap->hide(core->dev, addr + at, to ? to + at : NULL);
	return rc;
}

static int
host_unguard(struct core *core, char *addr)
{
	int rc = 0;

	if (!core->dev->hostmap)
		return core->dev->guards->unguard(core->dev, addr, core->chunk_bytes);
	for (size_t at = 0; at < core->chunk_bytes && !rc; at += CHUNK)
		rc = core->dev->hostmap->unguard(core->dev, addr + at);
	return rc;
}

/* A copy by the driver, behind every move. */
static void
driver_copy(void *to, uint64_t from, uint64_t to_device, const void *data, size_t bytes)
{
	const struct sl_cuda_driver *driver;
	struct cu_context *context;

	CHECK(sl_cuda_driver_open(&driver) == 0);
	CHECK(driver->cuDevicePrimaryCtxRetain(&context, 0) == 0);
	CHECK(driver->cuCtxPushCurrent(context) == 0);
	CHECK(driver->cuCtxSynchronize() == 0);
	if (to)
		CHECK(driver->cuMemcpyDtoHAsync(to, from, bytes, NULL) == 0);
	else
		CHECK(driver->cuMemcpyHtoDAsync(to_device, data, bytes, NULL) == 0);
	CHECK(driver->cuCtxSynchronize() == 0);
	CHECK(driver->cuCtxPopCurrent(&context) == 0);
	CHECK(driver->cuDevicePrimaryCtxRelease(0) == 0);
}

void
device_peek(struct core *core, const void *addr, void *to, size_t bytes)
{
	if (core->dev->hostmap)
		driver_copy(to, (uintptr_t)addr, 0, NULL, bytes);
	else
		memcpy(to, addr, bytes);
}

void
device_poke(struct core *core, void *addr, const void *from, size_t bytes)
{
	if (core->dev->hostmap)
		driver_copy(NULL, 0, (uintptr_t)addr, from, bytes);
	else
		memcpy(addr, from, bytes);
}

int
serve_chunk(struct core *core, const struct sl_touch *touch)
{
	size_t i = ((uintptr_t)touch->addr - (uintptr_t)core->dev->base) / core->chunk_bytes;
	struct chunk *chunk = &core->chunk[i];
	int rc = 0;

	if (i >= CHUNKS)
		return sl_fail(-EFAULT, "test core: %p", touch->addr);
	pthread_mutex_lock(&core->lock);
	while (chunk->state == CHUNK_BUSY)
		pthread_cond_wait(&core->changed, &core->lock);
	if (core->closed) {
		pthread_mutex_unlock(&core->lock);
		return sl_fail(-ENOENT, "test core: closed");
	}
	if (chunk->state == CHUNK_ABSENT) {
		chunk->state = CHUNK_BUSY;
		pthread_mutex_unlock(&core->lock);
		rc = host_show(core, chunk_addr(core, (int)i), chunk->frame,
			       core->present_flags);
		pthread_mutex_lock(&core->lock);
		chunk->state = rc ? CHUNK_ABSENT : CHUNK_PRESENT;
		chunk->dirty = 0;
		chunk->guarded = core->present_flags & SL_PRESENT_GUARD_STRICT;
		if (!rc && !(core->present_flags & SL_PRESENT_KEEP))
			chunk->frame = NULL;
		pthread_cond_broadcast(&core->changed);
	} else if (touch->guarded && chunk->guarded) {
		chunk->state = CHUNK_BUSY;
		pthread_mutex_unlock(&core->lock);
		rc = host_unguard(core, chunk_addr(core, (int)i));
		pthread_mutex_lock(&core->lock);
		chunk->guarded = 0;
		chunk->dirty = 1;
		chunk->state = CHUNK_PRESENT;
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

int
device_create(struct core *core, struct sl_device **out)
{
	struct sl_device_config config = {
		.address_bytes = ADDRESS_BYTES,
		.workers = WORKERS,
		.frame_cache_bytes = 64ul << 20,
		.touch_server = {.touched = core_touched, .core = core},
	};

	return device_row->create(&config, out);
}

void
core_init(struct core *core, size_t chunk_bytes, enum sl_delivery delivery)
{
	int rc;

	memset(core, 0, sizeof(*core));
	pthread_mutex_init(&core->lock, NULL);
	pthread_cond_init(&core->changed, NULL);
	core->chunk_bytes = chunk_bytes;
	core->serve = serve_chunk;
	rc = device_create(core, &core->dev);
	CHECK(rc == 0);
	if (rc)
		exit(1);
	rc = core->dev->ops->attach(core->dev, core->dev->base, CHUNKS * chunk_bytes,
				    delivery);
	CHECK(rc == 0);
}

void
core_fini(struct core *core)
{
	/* A handler thread may still serve a touch whose thread was woken by another one's. */
	pthread_mutex_lock(&core->lock);
	core->closed = 1;
	for (int i = 0; i < CHUNKS; i++) {
		while (core->chunk[i].state == CHUNK_BUSY)
			pthread_cond_wait(&core->changed, &core->lock);
		if (core->chunk[i].frame)
			core->dev->ops->frame_put(core->dev, core->chunk[i].frame);
	}
	pthread_mutex_unlock(&core->lock);
	core->dev->ops->detach(core->dev, core->dev->base, CHUNKS * core->chunk_bytes);
	core->dev->ops->destroy(core->dev);
	pthread_cond_destroy(&core->changed);
	pthread_mutex_destroy(&core->lock);
}

struct sl_frame *
frame_get(struct core *core)
{
	struct sl_frame *frame = NULL;

	CHECK(core->dev->ops->frame_get(core->dev, core->chunk_bytes, &frame) == 0);
	return frame;
}

void
chunk_hold(struct core *core, int i, int value)
{
	struct sl_frame *frame = frame_get(core);

	memset(frame->data, value, frame->bytes);
	pthread_mutex_lock(&core->lock);
	core->chunk[i].frame = frame;
	pthread_mutex_unlock(&core->lock);
}

static uint64_t
pattern(size_t word, uint64_t seed)
{
	return (word + 1) * 0x9e3779b97f4a7c15u ^ seed;
}

void
pattern_write(void *data, size_t bytes, uint64_t seed)
{
	uint64_t *words = data;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		words[i] = pattern(i, seed);
}

int
pattern_is(const void *data, size_t bytes, uint64_t seed)
{
	const uint64_t *words = data;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		if (words[i] != pattern(i, seed))
			return 0;
	return 1;
}

int
all_zero(const char *data, size_t bytes)
{
	return !data[0] && !memcmp(data, data + 1, bytes - 1);
}

void
device_pattern_write(struct core *core, void *addr, size_t bytes, uint64_t seed)
{
	char *data = malloc(bytes);

	pattern_write(data, bytes, seed);
	device_poke(core, addr, data, bytes);
	free(data);
}

int
device_pattern_is(struct core *core, const void *addr, size_t bytes, uint64_t seed)
{
	char *data = malloc(bytes);
	int is;

	device_peek(core, addr, data, bytes);
	is = pattern_is(data, bytes, seed);
	free(data);
	return is;
}

int
device_all_zero(struct core *core, const void *addr, size_t bytes)
{
	char *data = malloc(bytes);
	int is;

	device_peek(core, addr, data, bytes);
	is = all_zero(data, bytes);
	free(data);
	return is;
}

volatile uint64_t *
chunk_counter(struct core *core, int chunk, int i)
{
	return (volatile uint64_t *)(chunk_addr(core, chunk) + (size_t)(i * 100 + 3) * PAGE);
}

static void
counters_store(struct core *core, int chunk, int clean)
{
	char *data = core->chunk[chunk].frame->data;

	for (int i = 0; i < COUNTERS; i++) {
		ptrdiff_t at = (char *)(uintptr_t)chunk_counter(core, chunk, i) -
			       chunk_addr(core, chunk);

		if (clean)
			memcpy(data + at, &core->chunk[chunk].stored[i], sizeof(uint64_t));
		else
			memcpy(&core->chunk[chunk].stored[i], data + at, sizeof(uint64_t));
	}
}

void
chunk_evict(struct core *core, int i)
{
	struct chunk *chunk = &core->chunk[i];
	int strict = (core->present_flags & SL_PRESENT_GUARD_STRICT) != 0;
	int clean;
	int rc;

	pthread_mutex_lock(&core->lock);
	while (chunk->state == CHUNK_BUSY)
		pthread_cond_wait(&core->changed, &core->lock);
	if (chunk->state != CHUNK_PRESENT) {
		pthread_mutex_unlock(&core->lock);
		return;
	}
	chunk->state = CHUNK_BUSY;
	clean = strict && !chunk->dirty;
	pthread_mutex_unlock(&core->lock);
	if (!chunk->frame) /* ours while busy */
		chunk->frame = frame_get(core);
	rc = host_hide(core, chunk_addr(core, i), chunk->frame, clean);
	CHECK(rc == 0);
	counters_store(core, i, clean);
	pthread_mutex_lock(&core->lock);
	chunk->state = CHUNK_ABSENT;
	pthread_cond_broadcast(&core->changed);
	pthread_mutex_unlock(&core->lock);
}

int
serve_refuse(struct core *core, const struct sl_touch *touch)
{
	if (!core->armed)
		return serve_chunk(core, touch);
	return sl_fail(-EIO, "test core: %p is on a broken disk", touch->addr);
}

/* ---- Kernels, host code ---- */

void
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

void
kernel_touch_addr(const struct sluice_block *block, void *args)
{
	struct kernel_args *a = args;

	a->blocks++;
	if (block->index.x == 2)
		*(volatile char *)a->addr += 1;
}

static sigjmp_buf host_left;
static _Atomic int host_expects; /* signal that the next fault should raise; then 0 */
void *_Atomic host_fault_addr;

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

void
host_touch(volatile char *addr, int sig)
{
	host_expects = sig;
	if (!sigsetjmp(host_left, 1))
		*addr = 1;
	CHECK(host_expects == 0);
	host_expects = 0;
}

/* ---- The runner ---- */

void
device_check_failed(int line, const char *what)
{
	failures++;
	printf("FAIL %s [%s] line %d: %s (last error: %s)\n", test_name, device_row->name,
	       line, what, sluice_last_error());
}

int
device_failed(void)
{
	return failures != 0;
}

/* The stand-in driver saw every rule kept, and everything came back. */
static void
standin_check(void)
{
	const char *library = getenv("SLUICE_STANDIN_LIBRARY");
	const struct sl_standin *standin;
	struct sl_standin_live live;
	char text[512];

	if (!(device_row->traits & DEVICE_CUDA) || !library)
		return;
	standin = sl_standin_open(library);
	CHECK(standin != NULL);
	if (!standin)
		return;
	if (standin->violations())
		printf("  rule broken: %s\n", standin->last_violation(text, sizeof(text)));
	CHECK(standin->violations() == 0);
	standin->violations_reset();
	standin->live(&live);
	CHECK(live.handles + live.mappings + live.reservations + live.plain + live.pinned +
		      live.registered + live.streams + live.events + live.contexts ==
	      0);
}

static const struct {
	unsigned role;
	const char *name;
	size_t at; /* the pointer in struct sl_device */
} roles[] = {
	{ROLE_KERNELS, "kernels", offsetof(struct sl_device, kernels)},
	{ROLE_EVENTS, "events", offsetof(struct sl_device, events)},
	{ROLE_ASYNC, "async", offsetof(struct sl_device, async)},
	{ROLE_NATIVE, "native", offsetof(struct sl_device, native)},
	{ROLE_FAULTS, "faults", offsetof(struct sl_device, faults)},
	{ROLE_GUARDS, "guards", offsetof(struct sl_device, guards)},
	{ROLE_HOSTMAP, "hostmap", offsetof(struct sl_device, hostmap)},
	{ROLE_ZEROCOPY, "zerocopy", offsetof(struct sl_device, zerocopy)},
};
#define N_ROLES (sizeof(roles) / sizeof(roles[0]))

static unsigned
roles_of(const struct sl_device *dev)
{
	unsigned all = 0;

	for (size_t i = 0; i < N_ROLES; i++)
		if (*(const void *const *)((const char *)dev + roles[i].at))
			all |= roles[i].role;
	return all & (ROLE_FAULTS | ROLE_HOSTMAP) ? all | ROLE_TOUCHES : all;
}

static const char *
role_name(unsigned lacking)
{
	for (size_t i = 0; i < N_ROLES; i++)
		if (lacking & roles[i].role)
			return roles[i].name;
	return "touches";
}

/* Whether the row's device can be had on this machine; why not is printed. *has: its roles. */
static int
row_works(unsigned *has)
{
	struct core core = {0};
	struct sl_device *dev;
	int rc = device_create(&core, &dev);

	if (rc == -EPERM || rc == -ENOTSUP) {
		printf("skipped: %s: %s\n", device_row->name, sluice_last_error());
		return 0;
	}
	CHECK(rc == 0);
	if (rc)
		exit(1);
	*has = roles_of(dev);
	dev->ops->destroy(dev);
	return 1;
}

/* Those of the tests that belong to the row, and before or after the first device. */
static void
tests_run(const struct device_test *tests, size_t n, int before, unsigned has,
	  const char *filter)
{
	for (size_t i = 0; i < n; i++) {
		test_name = tests[i].name;
		if (tests[i].before != before || (tests[i].needs & ~device_row->traits) ||
		    !strstr(test_name, filter))
			continue;
		if (tests[i].roles & ~has) {
			printf(" %s: left out: the device has no %s\n", test_name,
			       role_name(tests[i].roles & ~has));
			continue;
		}
		printf(" %s\n", test_name);
		tests[i].run();
		standin_check();
	}
}

int
device_main(const struct device_test *tests, size_t n, int argc, char **argv)
{
	const char *filter = argc > 1 ? argv[1] : "";
	struct sigaction action = {.sa_sigaction = on_host_fault, .sa_flags = SA_SIGINFO};
	size_t n_rows = sizeof(device_rows) / sizeof(device_rows[0]);
	unsigned has = 0;
	int ran = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	for (size_t r = 0; r < n_rows; r++) {
		device_row = &device_rows[r];
		tests_run(tests, n, 1, 0, filter);
	}
	for (size_t r = 0; r < n_rows; r++) {
		device_row = &device_rows[r];
		test_name = "creation";
		if (!row_works(&has))
			continue;
		ran |= (has & ROLE_TOUCHES) != 0; /* one that the system may refuse */
		printf("device: %s\n", device_row->name);
		tests_run(tests, n, 0, has, filter);
	}
	if (!ran)
		return 77;
	printf("%s\n", failures ? "FAILED" : "passed");
	return failures ? 1 : 0;
}
