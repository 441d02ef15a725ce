/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grids: blocks of kernels on a fixed pool of worker threads that all streams share.
 *
 * At most `workers` threads run blocks at any time. Each holds a slot, whose number is the
 * kernel's worker number. The thread that calls grid_run() takes a slot as well and helps, so a
 * small grid wakes no other thread. Pool threads take from the oldest grid that has blocks left.
 * Blocks are handed out in order, in batches that shrink towards the end.
 *
 * A grid lives on its caller's stack. refs counts the threads that may still look at it: those
 * in its blocks, and handler threads that serve a touch of one. Lists, slots and refs change
 * under pool->lock, which is not held while a block runs. A block is entered with sigsetjmp, so
 * that the fault handlers (touch.c) can end it. Locks that a kernel held then stay locked.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "device/soft/soft.h"

#define BATCH_MAX 64u

/* initial-exec: read in signal handlers, where allocating thread storage is not allowed. */
static _Thread_local struct soft_worker *current_worker
	__attribute__((tls_model("initial-exec")));

struct soft_worker *
sl_soft_worker_current(void)
{
	return current_worker;
}

void
sl_soft_grid_fail(struct soft_grid *grid, int rc, const char *text)
{
	if (!atomic_exchange(&grid->failing, 1)) {
		strncpy(grid->text, text, sizeof(grid->text) - 1);
		grid->rc = rc;
	}
	atomic_store(&grid->stop, 1);
}

static int
grid_has_blocks(struct soft_grid *grid)
{
	return !atomic_load_explicit(&grid->stop, memory_order_relaxed) &&
	       atomic_load_explicit(&grid->next_block, memory_order_relaxed) < grid->total;
}

/* Next blocks of the grid: first and how many; 0: none left. */
static uint64_t
batch_take(struct soft_grid *grid, uint32_t workers, uint64_t *first)
{
	uint64_t taken = atomic_load_explicit(&grid->next_block, memory_order_relaxed);
	uint64_t n;

	if (taken >= grid->total)
		return 0;
	n = (grid->total - taken) / (4ull * workers);
	n = n < 1 ? 1 : n > BATCH_MAX ? BATCH_MAX : n;
	*first = atomic_fetch_add_explicit(&grid->next_block, n, memory_order_relaxed);
	if (*first >= grid->total)
		return 0;
	return n < grid->total - *first ? n : grid->total - *first;
}

static void
batch_run(struct soft_grid *grid, uint32_t slot, uint64_t first, uint64_t n)
{
	uint64_t row = first / grid->size.x;
	struct sluice_block block = {
		.index = {(uint32_t)(first % grid->size.x),
			  (uint32_t)(row % grid->size.y), (uint32_t)(row / grid->size.y)},
		.grid = grid->size,
		.worker = slot,
	};

	while (n-- && !atomic_load_explicit(&grid->stop, memory_order_relaxed)) {
		struct sluice_block own = block; /* a kernel may change what it is given */

		grid->kernel(&own, grid->args);
		if (++block.index.x == grid->size.x) {
			block.index.x = 0;
			if (++block.index.y == grid->size.y) {
				block.index.y = 0;
				block.index.z++;
			}
		}
	}
}

/* Run blocks until none is left. Left early, by siglongjmp, when one of them is ended. */
static void __attribute__((noinline)) worker_run(struct soft_worker *worker)
{
	struct soft_grid *grid = worker->grid;
	uint64_t first;
	uint64_t n;

	worker->doomed_pc = 0;
	if (!sigsetjmp(worker->leave, 0)) {
		worker->in_block = 1;
		while ((n = batch_take(grid, worker->soft->dev.workers, &first)))
			batch_run(grid, worker->slot, first, n);
	}
	worker->in_block = 0;
}

/* Here, since the attribute needs the parameter. */
static struct soft_grid *grid_pick_locked(struct soft_pool *pool) SL_REQUIRES(pool->lock);
static void worker_enter_locked(struct soft_pool *pool, struct soft_worker *worker,
				struct soft_grid *grid) SL_REQUIRES(pool->lock);
static void worker_exit_locked(struct soft_pool *pool, struct soft_worker *worker)
	SL_REQUIRES(pool->lock);
static void grid_help_locked(struct soft *soft, struct soft_pool *pool,
			     struct soft_grid *grid) SL_REQUIRES(pool->lock);
static void pool_wake_locked(struct soft_pool *pool, uint64_t blocks)
	SL_REQUIRES(pool->lock);
static void grid_remove_locked(struct soft_pool *pool, struct soft_grid *grid)
	SL_REQUIRES(pool->lock);
static struct soft_worker *worker_find_locked(struct soft_pool *pool, pid_t tid)
	SL_REQUIRES(pool->lock);

static struct soft_grid *
grid_pick_locked(struct soft_pool *pool)
{
	for (struct soft_grid *grid = pool->oldest; grid; grid = grid->next)
		if (grid_has_blocks(grid))
			return grid;
	return NULL;
}

static void
worker_enter_locked(struct soft_pool *pool, struct soft_worker *worker, struct soft_grid *grid)
{
	worker->slot = pool->slots[--pool->n_slots];
	worker->grid = grid;
	grid->refs++;
}

static void
grid_put_locked(struct soft_grid *grid)
{
	if (!--grid->refs && !grid_has_blocks(grid))
		sl_cond_signal(&grid->done);
}

static void
worker_exit_locked(struct soft_pool *pool, struct soft_worker *worker)
{
	struct soft_grid *grid = worker->grid;

	pool->slots[pool->n_slots++] = worker->slot;
	worker->grid = NULL;
	grid_put_locked(grid);
}

static void *
pool_run(void *arg)
{
	struct soft *soft = arg;
	struct soft_pool *pool = &soft->pool;
	struct soft_worker worker = {.soft = soft, .tid = gettid()};
	struct soft_worker **link;

	current_worker = &worker;
	sl_mutex_lock(&pool->lock);
	worker.next = pool->workers_head;
	pool->workers_head = &worker;
	while (!pool->stopping) {
		struct soft_grid *grid = pool->n_slots ? grid_pick_locked(pool) : NULL;

		if (!grid) {
			pool->n_idle++;
			sl_cond_wait(&pool->work, &pool->lock);
			pool->n_idle--;
			continue;
		}
		worker_enter_locked(pool, &worker, grid);
		sl_mutex_unlock(&pool->lock);
		worker_run(&worker);
		sl_mutex_lock(&pool->lock);
		worker_exit_locked(pool, &worker);
	}
	for (link = &pool->workers_head; *link != &worker; link = &(*link)->next)
		;
	*link = worker.next;
	sl_mutex_unlock(&pool->lock);
	current_worker = NULL;
	return NULL;
}

int
sl_soft_pool_start(struct soft *soft)
{
	struct soft_pool *pool = &soft->pool;
	uint32_t workers = soft->dev.workers;

	pool->slots = sl_calloc(workers, sizeof(pool->slots[0]));
	pool->threads = sl_calloc(workers, sizeof(pool->threads[0]));
	if (!pool->slots || !pool->threads)
		return sl_fail(-ENOMEM, "device: out of memory for %u workers", workers);
	for (uint32_t i = 0; i < workers; i++)
		pool->slots[i] = workers - 1 - i; /* the lowest number on top */
	pool->n_slots = workers;
	while (pool->n_threads < workers) {
		int rc = sl_soft_thread_start(&pool->threads[pool->n_threads], pool_run,
					      soft, "sl-worker");

		if (rc)
			return rc;
		pool->n_threads++;
	}
	return 0;
}

void
sl_soft_pool_stop(struct soft *soft)
{
	struct soft_pool *pool = &soft->pool;

	sl_mutex_lock(&pool->lock);
	assert(!pool->oldest);
	pool->stopping = 1;
	sl_cond_broadcast(&pool->work);
	sl_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->n_threads; i++)
		pthread_join(pool->threads[i], NULL);
	free(pool->threads);
	free(pool->slots);
	sl_cond_fini(&pool->work);
	sl_mutex_fini(&pool->lock);
}

/* Wake as many pool threads as can help with blocks that nobody has taken. */
static void
pool_wake_locked(struct soft_pool *pool, uint64_t blocks)
{
	uint64_t n = blocks;

	if (n > pool->n_slots)
		n = pool->n_slots;
	if (n > pool->n_idle)
		n = pool->n_idle;
	while (n--)
		sl_cond_signal(&pool->work);
}

static void
grid_remove_locked(struct soft_pool *pool, struct soft_grid *grid)
{
	struct soft_grid *before = NULL;

	for (struct soft_grid *g = pool->oldest; g != grid; g = g->next)
		before = g;
	if (before)
		before->next = grid->next;
	else
		pool->oldest = grid->next;
	if (pool->newest == grid)
		pool->newest = before;
}

/* Help with the grid on the calling thread. Drops the lock and retakes it. */
static void
grid_help_locked(struct soft *soft, struct soft_pool *pool, struct soft_grid *grid)
{
	struct soft_worker worker = {.soft = soft, .tid = gettid()};
	struct soft_worker **link;

	worker_enter_locked(pool, &worker, grid);
	worker.next = pool->workers_head;
	/* cppcheck-suppress autoVariables; taken off the list below */
	pool->workers_head = &worker;
	sl_mutex_unlock(&pool->lock);

	current_worker = &worker;
	worker_run(&worker);
	current_worker = NULL;

	sl_mutex_lock(&pool->lock);
	for (link = &pool->workers_head; *link != &worker; link = &(*link)->next)
		;
	*link = worker.next;
	worker_exit_locked(pool, &worker);
	/* The slot is free: an idle pool thread may use it for another grid. */
	if (grid_pick_locked(pool))
		pool_wake_locked(pool, 1);
}

int
sl_soft_grid_run(struct sl_device *dev, sluice_kernel kernel, struct sluice_grid size,
		 void *args, void *launch)
{
	struct soft *soft = sl_soft_of(dev);
	struct soft_pool *pool = &soft->pool;
	struct soft_grid grid = {
		.kernel = kernel,
		.args = args,
		.launch = launch,
		.size = size,
	};
	uint64_t plane = (uint64_t)size.x * size.y;

	if (!plane || !size.z || plane > (UINT64_MAX >> 1) / size.z)
		return sl_fail(-EINVAL, "grid of %u x %u x %u blocks: %s", size.x, size.y,
			       size.z, plane && size.z ? "more than 2^63" : "empty");
	assert(!current_worker); /* a kernel does not run kernels */
	grid.total = plane * size.z;
	sl_cond_init(&grid.done);

	sl_mutex_lock(&pool->lock);
	grid.serial = ++pool->last_serial;
	if (pool->newest)
		pool->newest->next = &grid;
	else
		pool->oldest = &grid;
	pool->newest = &grid;
	pool_wake_locked(pool, pool->n_slots ? grid.total - 1 : 0);
	if (pool->n_slots)
		grid_help_locked(soft, pool, &grid);
	while (grid.refs || grid_has_blocks(&grid))
		sl_cond_wait(&grid.done, &pool->lock);
	grid_remove_locked(pool, &grid);
	sl_mutex_unlock(&pool->lock);

	sl_cond_fini(&grid.done);
	return atomic_load(&grid.failing) ? sl_fail_text(grid.rc, grid.text) : 0;
}

static struct soft_worker *
worker_find_locked(struct soft_pool *pool, pid_t tid)
{
	for (struct soft_worker *worker = pool->workers_head; worker; worker = worker->next)
		if (worker->tid == tid)
			return worker;
	return NULL;
}

struct soft_grid *
sl_soft_grid_get_by_tid_locked(struct soft_pool *pool, pid_t tid, enum soft_toucher *who)
{
	struct soft_worker *worker = worker_find_locked(pool, tid);
	struct soft_grid *grid = worker ? worker->grid : NULL;

	*who = SOFT_TOUCHER_HOST;
	if (grid) {
		grid->refs++;
		*who = atomic_load(&worker->doomed) == grid->serial ? SOFT_TOUCHER_DOOMED
								    : SOFT_TOUCHER_KERNEL;
	}
	return grid;
}

void
sl_soft_grid_doom(struct soft *soft, struct soft_grid *grid, pid_t tid, int rc,
		  const char *text)
{
	struct soft_worker *worker;

	sl_mutex_lock(&soft->pool.lock);
	worker = worker_find_locked(&soft->pool, tid);
	if (worker && worker->grid == grid) {
		sl_soft_grid_fail(grid, rc, text);
		atomic_store(&worker->doomed, grid->serial);
	}
	sl_mutex_unlock(&soft->pool.lock);
}

void
sl_soft_grid_put(struct soft *soft, struct soft_grid *grid)
{
	sl_mutex_lock(&soft->pool.lock);
	grid_put_locked(grid);
	sl_mutex_unlock(&soft->pool.lock);
}
