/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run's memory as the operating system gives it: files mapped shared, kernels over a small
 * pool of threads. It is the peer that a space is compared with: same kernels, tiles, blocks and
 * files, only that the kernel's page cache decides what is where. No advice is given, discard
 * and pin do nothing, and there are no counters (all zero).
 *
 * Launches are synchronous: the calling thread works on blocks as well, beside workers - 1
 * threads. The output files are sparse until written; files.c has checked that they have room,
 * because a full disk shows as SIGBUS here.
 *
 * Threads: that of workload_run(), and the pool's own.
 */
#include "env.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORKERS_MAX 256u

struct memory_mmap {
	pthread_mutex_t lock;
	pthread_cond_t start, finished;
	unsigned n_threads; /* beside the calling one */
	pthread_t thread[WORKERS_MAX];
	atomic_uint joined; /* numbers given to threads: 1, 2, ... */

	uint64_t round;   /* lock */
	int stop;         /* lock */
	unsigned working; /* lock: threads still at the present round */

	/* The present launch: set under the lock before the round begins. */
	sluice_kernel kernel;
	const void *args;
	struct sluice_grid grid;
	_Atomic uint64_t next_block;

	int fd[WORKLOAD_ARRAYS_MAX];
};

static void
pool_work(struct memory_mmap *m, uint32_t worker)
{
	struct sluice_block block = {.grid = m->grid, .worker = worker};
	uint64_t i;

	while ((i = atomic_fetch_add(&m->next_block, 1)) < m->grid.x) {
		block.index.x = (uint32_t)i;
		m->kernel(&block, (void *)(uintptr_t)m->args);
	}
}

static void *
pool_thread(void *arg)
{
	struct memory_mmap *m = arg;
	uint32_t worker = atomic_fetch_add(&m->joined, 1) + 1;
	uint64_t seen = 0;

	for (;;) {
		pthread_mutex_lock(&m->lock);
		while (m->round == seen && !m->stop)
			pthread_cond_wait(&m->start, &m->lock);
		seen = m->round;
		if (m->stop) {
			pthread_mutex_unlock(&m->lock);
			return NULL;
		}
		pthread_mutex_unlock(&m->lock);

		pool_work(m, worker);

		pthread_mutex_lock(&m->lock);
		if (--m->working == 0)
			pthread_cond_signal(&m->finished);
		pthread_mutex_unlock(&m->lock);
	}
}

static int
mmap_open(struct workload_env *env)
{
	struct memory_mmap *m = calloc(1, sizeof(*m));
	unsigned workers = env->params->config.workers;
	unsigned i;
	int rc;

	if (!m)
		return workload_fail(env, -ENOMEM, "out of memory");
	for (i = 0; i < WORKLOAD_ARRAYS_MAX; i++)
		m->fd[i] = -1;
	env->memory_state = m;
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->start, NULL);
	pthread_cond_init(&m->finished, NULL);
	if (workers == 0) {
		long n = sysconf(_SC_NPROCESSORS_ONLN);

		workers = n > 0 ? (unsigned)n : 1;
	}
	if (workers > WORKERS_MAX)
		workers = WORKERS_MAX;
	env->config.workers = workers;
	for (i = 1; i < workers; i++) {
		rc = pthread_create(&m->thread[m->n_threads], NULL, pool_thread, m);
		if (rc)
			return workload_fail(env, -rc, "thread %u: %s", i, strerror(rc));
		m->n_threads++;
	}
	return 0;
}

static int
mmap_unmap(struct workload_env *env, unsigned array)
{
	struct memory_mmap *m = env->memory_state;
	int rc = 0;

	if (munmap(env->base[array], env->plan.array[array].size_bytes))
		rc = workload_fail(env, -errno, "munmap: %s", strerror(errno));
	if (m->fd[array] >= 0)
		close(m->fd[array]);
	m->fd[array] = -1;
	return rc;
}

static void
mmap_close(struct workload_env *env)
{
	struct memory_mmap *m = env->memory_state;
	unsigned i;

	if (!m)
		return;
	pthread_mutex_lock(&m->lock);
	m->stop = 1;
	pthread_cond_broadcast(&m->start);
	pthread_mutex_unlock(&m->lock);
	for (i = 0; i < m->n_threads; i++)
		pthread_join(m->thread[i], NULL);
	for (i = 0; i < env->plan.n_arrays; i++) {
		if (env->base[i])
			munmap(env->base[i], env->plan.array[i].size_bytes);
		env->base[i] = NULL;
		if (m->fd[i] >= 0)
			close(m->fd[i]);
	}
	pthread_cond_destroy(&m->finished);
	pthread_cond_destroy(&m->start);
	pthread_mutex_destroy(&m->lock);
	free(m);
	env->memory_state = NULL;
}

static int
mmap_map(struct workload_env *env, unsigned array, const char *path)
{
	struct memory_mmap *m = env->memory_state;
	const struct workload_array *a = &env->plan.array[array];
	int writable = (a->flags & SLUICE_WRITE) != 0 || a->role == WORKLOAD_ANONYMOUS;
	int flags = MAP_SHARED;
	void *addr;

	if (a->role == WORKLOAD_ANONYMOUS) {
		flags = MAP_PRIVATE | MAP_ANONYMOUS;
	} else {
		m->fd[array] = open(path,
				    (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC |
					    (a->flags & SLUICE_CREATE ? O_CREAT : 0),
				    0600);
		if (m->fd[array] < 0)
			return workload_fail(env, -errno, "%s: %s", path, strerror(errno));
		if ((a->flags & SLUICE_CREATE) &&
		    ftruncate(m->fd[array], (off_t)a->size_bytes))
			return workload_fail(env, -errno, "%s: %s", path, strerror(errno));
	}
	addr = mmap(NULL, a->size_bytes, PROT_READ | (writable ? PROT_WRITE : 0), flags,
		    m->fd[array], 0);
	if (addr == MAP_FAILED)
		return workload_fail(env, -errno, "%s: mmap of %llu bytes: %s", path,
				     (unsigned long long)a->size_bytes, strerror(errno));
	env->base[array] = addr;
	return 0;
}

static int
mmap_sync(struct workload_env *env, unsigned array)
{
	struct memory_mmap *m = env->memory_state;

	if (msync(env->base[array], env->plan.array[array].size_bytes, MS_SYNC) ||
	    fsync(m->fd[array]))
		return workload_fail(env, -errno, "%s: sync: %s",
				     env->plan.array[array].name, strerror(errno));
	return 0;
}

static int
mmap_launch(struct workload_env *env, const struct workload_kernel *kernel, uint64_t n,
	    const void *args, const struct sluice_use *uses, size_t n_uses)
{
	struct memory_mmap *m = env->memory_state;
	struct workload_soft_args soft; /* used in place: the launch is over on return */

	workload_soft_make(&soft, kernel, n, args);
	(void)uses;
	(void)n_uses;
	pthread_mutex_lock(&m->lock);
	m->kernel = workload_soft_block;
	m->args = &soft;
	m->grid = (struct sluice_grid){.x = workload_soft_blocks(kernel, n), .y = 1, .z = 1};
	atomic_store(&m->next_block, 0);
	m->working = m->n_threads;
	m->round++;
	if (m->n_threads > 0)
		pthread_cond_broadcast(&m->start);
	pthread_mutex_unlock(&m->lock);

	pool_work(m, 0);

	pthread_mutex_lock(&m->lock);
	while (m->working > 0)
		pthread_cond_wait(&m->finished, &m->lock);
	pthread_mutex_unlock(&m->lock);
	return 0;
}

const struct workload_memory_ops workload_memory_mmap = {
	.open = mmap_open,
	.close = mmap_close,
	.map = mmap_map,
	.sync = mmap_sync,
	.unmap = mmap_unmap,
	.launch = mmap_launch,
	.wait = workload_no_wait,
	.pace = workload_no_wait,
	.discard = workload_no_discard,
	.pin = workload_no_pin,
	.unpin = workload_no_pin,
	.stats = workload_no_stats,
};
