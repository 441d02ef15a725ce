/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run's memory as one programs it without a pager, on the software device: files are read(2) as a
 * whole into host memory, what kernels use is copied to the device and what they wrote back, and at
 * the end files are written and flushed. The published baseline of DRAGON (managed memory and POSIX
 * I/O) in its best form: it knows what each launch uses, where that relies on faults.
 *
 * Arrays that fit the device budget all together are copied once in and once out. Otherwise each
 * launch's declared ranges go through a window as large as the budget, but for arrays that every
 * launch uses whole (workload_array.kept), which stay. Host memory holds all files at once, within
 * the host budget: more is refused, as there. Nothing overlaps: neither does it there.
 *
 * The device is memory of this process, copies are memcpy(), slowed down to the link's rate where one
 * is modelled. Kernels run on the threads of the mmap memory.
 *
 * Threads: that of the run, and those.
 */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "env.h"

#define PIECE_BYTES (8u << 20)
#define ALIGN_BYTES 4096u

struct copies_array {
	char *host;   /* NULL: the device alone has it */
	char *device; /* the whole of it; NULL: ranges go through the window */
	int there;    /* the device has its contents */
	int written;  /* and newer ones than the host */
	int fd;       /* of its file; -1: none */
};

struct copies {
	void *pool; /* memory_state of the mmap memory, whose threads run kernels */
	int whole;  /* everything fits the device */
	char *window;
	uint64_t window_bytes;
	uint64_t h2d_bytes, d2h_bytes, read_bytes, write_bytes;
	struct copies_array array[WORKLOAD_ARRAYS_MAX];
};

/* A range of an array that one launch uses, and where it is on the device. */
struct span {
	unsigned array;
	char *begin, *end, *device;
};

static void *
memory_get(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int
array_is_on_device_alone(const struct workload_array *array)
{
	return array->role == WORKLOAD_ANONYMOUS && array->kept;
}

static int
copies_open(struct workload_env *env)
{
	struct copies *m = calloc(1, sizeof(*m));
	uint64_t slack = WORKLOAD_ARRAYS_MAX * env->config.chunk_bytes;
	uint64_t host = 0, kept = 0;
	unsigned i;
	int rc;

	if (!m)
		return workload_fail(env, -ENOMEM, "out of memory");
	for (i = 0; i < WORKLOAD_ARRAYS_MAX; i++)
		m->array[i].fd = -1;
	rc = workload_memory_mmap.open(env);
	m->pool = env->memory_state;
	env->memory_state = m;
	if (rc)
		return rc;
	for (i = 0; i < env->plan.n_arrays; i++) {
		if (!array_is_on_device_alone(&env->plan.array[i]))
			host += env->plan.array[i].size_bytes;
		if (env->plan.array[i].kept)
			kept += env->plan.array[i].size_bytes;
	}
	m->whole = env->plan.footprint_bytes <= env->config.device_budget_bytes;
	if (host > env->config.host_budget_bytes + slack)
		return workload_fail_budget(env, "host memory for all files", host,
					    env->config.host_budget_bytes);
	if (m->whole)
		return 0;
	if (kept >= env->config.device_budget_bytes)
		return workload_fail_budget(env, "what every launch uses", kept,
					    env->config.device_budget_bytes);
	m->window_bytes = env->config.device_budget_bytes - kept;
	m->window = memory_get(m->window_bytes);
	return m->window ? 0 : workload_fail(env, -ENOMEM, "out of memory for the device");
}

static void
array_free(struct workload_env *env, unsigned array)
{
	struct copies *m = env->memory_state;
	struct copies_array *a = &m->array[array];
	uint64_t bytes = env->plan.array[array].size_bytes;

	if (a->device)
		munmap(a->device, bytes);
	if (a->host)
		munmap(a->host, bytes);
	if (a->fd >= 0)
		close(a->fd);
	*a = (struct copies_array){.fd = -1};
	env->base[array] = NULL;
}

static void
copies_close(struct workload_env *env)
{
	struct copies *m = env->memory_state;

	if (!m)
		return;
	for (unsigned i = 0; i < env->plan.n_arrays; i++)
		array_free(env, i);
	if (m->window)
		munmap(m->window, m->window_bytes);
	env->memory_state = m->pool;
	if (m->pool)
		workload_memory_mmap.close(env);
	env->memory_state = NULL;
	free(m);
}

/* All of a file to memory or the other way round, in pieces. */
static int
file_move(struct workload_env *env, unsigned array, int out)
{
	struct copies *m = env->memory_state;
	const struct workload_array *plan = &env->plan.array[array];
	uint64_t at = 0;

	while (at < plan->size_bytes) {
		size_t piece = plan->size_bytes - at < PIECE_BYTES
				       ? (size_t)(plan->size_bytes - at)
				       : PIECE_BYTES;
		char *data = m->array[array].host + at;
		int fd = m->array[array].fd;
		ssize_t n = out ? pwrite(fd, data, piece, (off_t)at)
				: pread(fd, data, piece, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return workload_fail(env, n < 0 ? -errno : -EIO,
					     "%s: %s at %llu: %s", plan->name,
					     out ? "write" : "read", (unsigned long long)at,
					     strerror(n < 0 ? errno : EIO));
		at += (uint64_t)n;
	}
	*(out ? &m->write_bytes : &m->read_bytes) += at;
	return 0;
}

static int
copies_map(struct workload_env *env, unsigned array, const char *path)
{
	struct copies *m = env->memory_state;
	struct copies_array *a = &m->array[array];
	const struct workload_array *plan = &env->plan.array[array];
	int reads = plan->role == WORKLOAD_INPUT || plan->role == WORKLOAD_IN_PLACE;
	int writes = plan->role == WORKLOAD_OUTPUT;

	a->host = memory_get(plan->size_bytes);
	if (a->host && (m->whole || plan->kept))
		a->device = memory_get(plan->size_bytes);
	if (!a->host || ((m->whole || plan->kept) && !a->device))
		return workload_fail(env, -ENOMEM, "%s: out of memory", plan->name);
	env->base[array] = a->host;
	if (!reads && !writes)
		return 0;
	a->fd = open(path,
		     (plan->role == WORKLOAD_INPUT ? O_RDONLY : O_RDWR) | O_CLOEXEC |
			     (writes ? O_CREAT : 0),
		     0600);
	if (a->fd < 0)
		return workload_fail(env, -errno, "%s: %s", path, strerror(errno));
	return reads ? file_move(env, array, 0) : 0;
}

static void
link_copy(uint64_t *counter, char *to, const char *from, size_t bytes)
{
	uint64_t rate = suite_copies_link_bytes_per_s;
	uint64_t end_ns = workload_now_ns();
	struct timespec end;

	memcpy(to, from, bytes);
	*counter += bytes;
	if (!rate)
		return;
	end_ns += (uint64_t)((double)bytes * 1e9 / (double)rate);
	end = (struct timespec){.tv_sec = (time_t)(end_ns / 1000000000u),
				.tv_nsec = (int)(end_ns % 1000000000u)};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

static int
intent_reads(enum sluice_intent intent)
{
	return intent == SLUICE_USE_READ || intent == SLUICE_USE_READ_WRITE ||
	       intent == SLUICE_USE_WRITE; /* some bytes: the others keep their values */
}

static int
intent_writes(enum sluice_intent intent)
{
	return intent != SLUICE_USE_READ && intent != SLUICE_USE_SCRATCH;
}

static unsigned
array_of(const struct workload_env *env, const void *addr)
{
	unsigned i;

	for (i = 0; i < env->plan.n_arrays; i++) {
		const char *base = env->base[i];

		if (base && (const char *)addr >= base &&
		    (const char *)addr < base + env->plan.array[i].size_bytes)
			break;
	}
	return i;
}

/* A device's own copy of a whole array is used. */
static void
whole_use(struct workload_env *env, unsigned array, enum sluice_intent intent)
{
	struct copies *m = env->memory_state;
	struct copies_array *a = &m->array[array];

	/* Host code may have written arrays without a file, too. */
	if (!a->there && intent_reads(intent))
		link_copy(&m->h2d_bytes, a->device, a->host,
			  env->plan.array[array].size_bytes);
	a->there = 1;
	if (intent_writes(intent))
		a->written = 1;
}

/* One range for each array that goes through the window: from the first to the last byte used. */
static unsigned
spans_find(struct workload_env *env, const struct sluice_use *uses, size_t n_uses,
	   struct span *span)
{
	const struct copies *m = env->memory_state;
	unsigned n = 0;

	for (size_t i = 0; i < n_uses; i++) {
		unsigned array = array_of(env, uses[i].addr), k;
		char *begin = (char *)(uintptr_t)uses[i].addr;

		if (m->array[array].device) {
			whole_use(env, array, uses[i].intent);
			continue;
		}
		for (k = 0; k < n && span[k].array != array; k++)
			;
		if (k == n)
			span[n++] = (struct span){array, begin, begin, NULL};
		if (begin < span[k].begin)
			span[k].begin = begin;
		if (begin + uses[i].size_bytes > span[k].end)
			span[k].end = begin + uses[i].size_bytes;
	}
	return n;
}

static int
spans_place(struct workload_env *env, struct span *span, unsigned n)
{
	const struct copies *m = env->memory_state;
	uint64_t used = 0;

	for (unsigned i = 0; i < n; i++) {
		span[i].device = m->window + used;
		used += ((uint64_t)(span[i].end - span[i].begin) + ALIGN_BYTES - 1) /
			ALIGN_BYTES * ALIGN_BYTES;
		if (used > m->window_bytes)
			return workload_fail_budget(env, "a launch's data on the device",
						    used, m->window_bytes);
	}
	return 0;
}

static void
spans_copy(struct workload_env *env, const struct sluice_use *uses, size_t n_uses,
	   const struct span *span, unsigned n, int out)
{
	struct copies *m = env->memory_state;

	for (size_t i = 0; i < n_uses; i++) {
		char *host = (char *)(uintptr_t)uses[i].addr, *device;
		unsigned array = array_of(env, host), k;

		for (k = 0; k < n && span[k].array != array; k++)
			;
		if (k == n ||
		    !(out ? intent_writes(uses[i].intent) : intent_reads(uses[i].intent)))
			continue;
		device = span[k].device + (host - span[k].begin);
		if (out)
			link_copy(&m->d2h_bytes, host, device, uses[i].size_bytes);
		else
			link_copy(&m->h2d_bytes, device, host, uses[i].size_bytes);
	}
}

/* The arguments with pointers into the device. */
static int
arguments_translate(struct workload_env *env, const struct workload_kernel *kernel,
		    const void *args, const struct span *span, unsigned n, unsigned char *to)
{
	const struct copies *m = env->memory_state;

	memcpy(to, args, kernel->args_bytes);
	for (unsigned p = 0; p < kernel->n_pointers; p++) {
		unsigned array, k;
		char *host, *device;

		memcpy(&host, to + kernel->pointer[p], sizeof(host));
		array = array_of(env, host);
		if (array == env->plan.n_arrays)
			continue; /* NULL, or not of an array */
		for (k = 0; k < n && span[k].array != array; k++)
			;
		if (m->array[array].device)
			device = m->array[array].device + (host - m->array[array].host);
		else if (k < n)
			device = span[k].device + (host - span[k].begin);
		else
			return workload_fail(env,
					     -EINVAL, "%s: the launch does not declare its use of %s",
					     kernel->name, env->plan.array[array].name);
		memcpy(to + kernel->pointer[p], &device, sizeof(device));
	}
	return 0;
}

static int
copies_launch(struct workload_env *env, const struct workload_kernel *kernel, uint64_t n,
	      const void *args, const struct sluice_use *uses, size_t n_uses)
{
	struct copies *m = env->memory_state;
	_Alignas(16) unsigned char moved[WORKLOAD_KERNEL_ARGS_MAX];
	struct span span[WORKLOAD_ARRAYS_MAX];
	unsigned n_spans = spans_find(env, uses, n_uses, span);
	int rc = spans_place(env, span, n_spans);

	if (!rc)
		rc = arguments_translate(env, kernel, args, span, n_spans, moved);
	if (rc)
		return rc;
	spans_copy(env, uses, n_uses, span, n_spans, 0);
	env->memory_state = m->pool;
	rc = workload_memory_mmap.launch(env, kernel, n, moved, NULL, 0);
	env->memory_state = m;
	if (!rc)
		spans_copy(env, uses, n_uses, span, n_spans, 1);
	return rc;
}

static int
copies_host_copy(struct workload_env *env, unsigned array, uint64_t first, uint64_t cols,
		 uint64_t stride, uint64_t rows, void *out)
{
	struct copies *m = env->memory_state;
	const struct copies_array *a = &m->array[array];
	int on_device = a->device && a->there;
	const uint32_t *from = (const uint32_t *)(const void *)(on_device ? a->device
									  : a->host);

	for (uint64_t row = 0; row < rows; row++) {
		char *to = (char *)out + row * cols * 4;
		const char *piece = (const char *)(from + first + row * stride);

		if (on_device)
			link_copy(&m->d2h_bytes, to, piece, cols * 4);
		else
			memcpy(to, piece, cols * 4);
	}
	return 0;
}

/* Results to host memory, to their files and to the medium. */
static int
copies_sync(struct workload_env *env, unsigned array)
{
	struct copies *m = env->memory_state;
	struct copies_array *a = &m->array[array];
	const struct workload_array *plan = &env->plan.array[array];
	int rc;

	if (plan->role != WORKLOAD_OUTPUT && plan->role != WORKLOAD_IN_PLACE)
		return 0;
	if (a->device && a->written)
		link_copy(&m->d2h_bytes, a->host, a->device, plan->size_bytes);
	a->written = 0;
	rc = file_move(env, array, 1);
	if (!rc && fsync(a->fd))
		rc = workload_fail(env, -errno, "%s: fsync: %s", plan->name, strerror(errno));
	return rc;
}

static int
copies_unmap(struct workload_env *env, unsigned array)
{
	array_free(env, array);
	return 0;
}

/* In the words of a space: copies are what launches need, and what is asked for. */
static void
copies_stats(struct workload_env *env, struct sluice_stats *out)
{
	const struct copies *m = env->memory_state;

	memset(out, 0, sizeof(*out));
	if (!m)
		return;
	out->counter[SLUICE_COUNTER_H2D_LAUNCH] = m->h2d_bytes;
	out->counter[SLUICE_COUNTER_D2H_REQUEST] = m->d2h_bytes;
	out->counter[SLUICE_COUNTER_STORE_READ_DEMAND] = m->read_bytes;
	out->counter[SLUICE_COUNTER_STORE_WRITE_SYNC] = m->write_bytes;
	out->counter[SLUICE_COUNTER_LAUNCHES] = env->result->launches;
}

const struct workload_memory_ops suite_memory_copies = {
	.open = copies_open,
	.close = copies_close,
	.map = copies_map,
	.sync = copies_sync,
	.unmap = copies_unmap,
	.launch = copies_launch,
	.wait = workload_no_wait,
	.pace = workload_no_wait,
	.discard = workload_no_discard,
	.pin = workload_no_pin,
	.unpin = workload_no_pin,
	.stats = copies_stats,
	.host_copy = copies_host_copy,
};
