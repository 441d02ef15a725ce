/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's launches. A kernel's C function is called once for each block of the grid.
 * All it touches goes through kernel_ptr(), which is where a GPU would fault: then the block is
 * left by longjmp, no further block begins, and the context is lost.
 *
 * Threads: blocks run on the stream's thread, and on CUDA_STANDIN_BLOCKS - 1 threads made for the
 * launch.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define BLOCKS_MAX 64 /* threads of a launch */

struct launch {
	const struct sl_standin_kernel *kernel;
	struct cu_function *function;
	struct cu_context *context;
	unsigned grid[3], threads[3], shared_bytes;
	char *values; /* copies of the arguments */
	void *params[16];
	_Atomic uint64_t next_block;
	uint64_t n_blocks;
	_Atomic int code;
};

/* A block that runs: what sl_standin_block.private points to. */
struct running {
	jmp_buf out;
	struct launch *launch;
	struct mapping **held;
	size_t n_held, held_size;
};

/* ---- launches ---- */

void
launch_free(struct launch *launch)
{
	free(launch->values);
	free(launch);
}

struct launch *
launch_copy(const struct launch *launch)
{
	const struct sl_standin_kernel *kernel = launch->kernel;
	struct launch *copy = must_alloc(1, sizeof(*copy));
	size_t bytes = 0;

	*copy = (struct launch){.kernel = kernel,
				.function = launch->function,
				.context = launch->context,
				.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
				.threads = {launch->threads[0], launch->threads[1],
					    launch->threads[2]},
				.shared_bytes = launch->shared_bytes,
				.n_blocks = launch->n_blocks};
	for (size_t i = 0; i < kernel->n_params; i++)
		bytes = kernel_param_offset(kernel, i) + kernel->param_bytes[i];
	copy->values = must_alloc(bytes + 16, 1);
	memcpy(copy->values, launch->values, bytes);
	for (size_t i = 0; i < kernel->n_params; i++)
		copy->params[i] = copy->values + kernel_param_offset(kernel, i);
	return copy;
}

/* Copy the arguments out of one of the two ways to pass them. 0, or what is wrong. */
static const char *
launch_arguments(struct launch *launch, void **params, void **extra)
{
	const struct sl_standin_kernel *kernel = launch->kernel;
	const char *buffer = NULL;
	size_t buffer_bytes = 0, bytes = 0;

	if (params && extra)
		return "both kinds of arguments";
	if (kernel->n_params && !params && !extra)
		return "no arguments";
	for (void **at = extra; at && *at != CU_LAUNCH_EXTRA_END; at += 2) {
		if (*at == CU_LAUNCH_EXTRA_BUFFER)
			buffer = at[1];
		else if (*at == CU_LAUNCH_EXTRA_BYTES)
			buffer_bytes = *(size_t *)at[1];
		else
			return "unknown key among the extra arguments";
	}
	for (size_t i = 0; i < kernel->n_params; i++)
		bytes = kernel_param_offset(kernel, i) + kernel->param_bytes[i];
	if (extra && kernel->n_params && (!buffer || buffer_bytes < bytes))
		return "too few extra arguments";
	launch->values = must_alloc(bytes + 16, 1);
	for (size_t i = 0; i < kernel->n_params; i++) {
		size_t offset = kernel_param_offset(kernel, i);

		if (params && !params[i])
			return "an argument is missing";
		launch->params[i] = launch->values + offset;
		memcpy(launch->params[i], params ? params[i] : buffer + offset,
		       kernel->param_bytes[i]);
	}
	return NULL;
}

int
launch_make(enum call call, struct cu_context *context, struct cu_function *handle,
	    const unsigned grid[3], const unsigned threads[3], unsigned shared_bytes,
	    void **params, void **extra, struct launch **out)
{
	const struct sl_standin_kernel *kernel = function_kernel(call, handle);
	struct launch *launch;
	const char *wrong;

	if (!kernel)
		return CU_ERROR_INVALID_HANDLE;
	launch = must_alloc(1, sizeof(*launch));
	*launch = (struct launch){.kernel = kernel,
				  .function = handle,
				  .context = context,
				  .grid = {grid[0], grid[1], grid[2]},
				  .threads = {threads[0], threads[1], threads[2]},
				  .shared_bytes = shared_bytes};
	launch->n_blocks = (uint64_t)grid[0] * grid[1] * grid[2];
	wrong = launch_arguments(launch, params, extra);
	if (!launch->n_blocks || !threads[0] || !threads[1] || !threads[2] ||
	    (uint64_t)threads[0] * threads[1] * threads[2] > BLOCK_THREADS ||
	    grid[1] > 65535 || grid[2] > 65535 || grid[0] > 0x7fffffffu)
		wrong = "grid or block out of range";
	if (wrong) {
		launch_free(launch);
		return violate(CU_ERROR_INVALID_VALUE, "%s: %s: %s", call_name(call),
			       kernel->name, wrong);
	}
	*out = launch;
	return CU_SUCCESS;
}

struct cu_function *
launch_describe(struct launch *launch, unsigned grid[3], unsigned threads[3],
		unsigned *shared_bytes, void ***params)
{
	memcpy(grid, launch->grid, sizeof(launch->grid));
	memcpy(threads, launch->threads, sizeof(launch->threads));
	*shared_bytes = launch->shared_bytes;
	*params = launch->params;
	return launch->function;
}

int
cuLaunchKernel(struct cu_function *function, unsigned grid_x, unsigned grid_y,
	       unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
	       unsigned shared_bytes, struct cu_stream *handle, void **params, void **extra)
{
	const unsigned grid[3] = {grid_x, grid_y, grid_z};
	const unsigned threads[3] = {block_x, block_y, block_z};
	struct cu_context *context;
	int code = call_enter(CALL_cuLaunchKernel, NEEDS_CONTEXT, &context);
	struct stream *stream;
	struct launch *launch;
	struct op *op;

	if (!code)
		code = launch_make(CALL_cuLaunchKernel, context, function, grid, threads,
				   shared_bytes, params, extra, &launch);
	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	stream = stream_from_handle(context, handle);
	if (stream) {
		op = op_new(OP_KERNEL, CALL_cuLaunchKernel);
		op->launch = launch;
		code = op_submit(stream, op);
	} else {
		launch_free(launch);
		code = violate(CU_ERROR_INVALID_HANDLE,
			       "cuLaunchKernel: no such stream %p", (void *)handle);
	}
	pthread_mutex_unlock(&the.lock);
	return code;
}

/* ---- blocks ---- */

static void
block_hold(struct running *running, uint64_t addr, size_t bytes)
{
	for (uint64_t at = addr; at < addr + bytes;) {
		struct mapping *mapping = mapping_at(at);
		size_t i = 0;

		while (i < running->n_held && running->held[i] != mapping)
			i++;
		if (i == running->n_held) {
			if (running->n_held == running->held_size) {
				running->held_size = running->held_size * 2 + 8;
				running->held = realloc(running->held,
							running->held_size *
								sizeof(*running->held));
				if (!running->held)
					abort();
			}
			running->held[running->n_held++] = mapping;
			mapping_use(mapping);
		}
		at = mapping->base + mapping->bytes;
	}
}

/* the.lock: the range is reached over the link, as far as it is host-located. */
static void
link_note(uint64_t addr, size_t bytes)
{
	uint64_t end = addr + bytes;

	while (addr < end) {
		const struct mapping *mapping = mapping_at(addr);
		uint64_t next = mapping->base + mapping->bytes;

		if (next > end)
			next = end;
		if (mapping->memory && mapping->memory->location.type != CU_LOCATION_DEVICE)
			the.reached += next - addr;
		addr = next;
	}
}

uint64_t
link_ns(void)
{
	return (uint64_t)((double)the.reached / (double)the.settings.link_bytes_per_s * 1e9);
}

void *
kernel_ptr(const struct sl_standin_block *block, uint64_t addr, size_t bytes, int access)
{
	struct running *running = block->private;
	const struct pinned *pinned;
	const char *wrong = NULL;
	void *p = NULL;

	pthread_mutex_lock(&the.lock);
	pinned = pinned_find((void *)(uintptr_t)addr);
	if (running->launch->context->lost) {
		pthread_mutex_unlock(&the.lock);
		longjmp(running->out, 1);
	}
	if (pinned) {
		p = (void *)(uintptr_t)addr;
		if (addr + bytes > (uintptr_t)pinned->data + pinned->bytes)
			wrong = "beyond the end of the pinned block";
	} else {
		wrong = view_check(block->device, addr, bytes, access);
	}
	if (!wrong && !pinned) {
		block_hold(running, addr, bytes);
		link_note(addr, bytes);
		p = view_pointer(addr);
	}
	if (wrong) {
		violate(CU_ERROR_ILLEGAL_ADDRESS,
			"kernel %s, block %u,%u,%u: %s of %#llx + %#zx: %s",
			block->kernel, block->index[0], block->index[1], block->index[2],
			access & SL_STANDIN_WRITE ? "write" : "read",
			(unsigned long long)addr, bytes, wrong);
		atomic_store(&running->launch->code, CU_ERROR_ILLEGAL_ADDRESS);
		context_lose(running->launch->context, CU_ERROR_ILLEGAL_ADDRESS);
	}
	pthread_mutex_unlock(&the.lock);
	if (wrong)
		longjmp(running->out, 1);
	return p;
}

/* the.lock: let go of one mapping; one that was unmapped meanwhile ends the context. */
static void
block_let_go(struct running *running, struct mapping *mapping)
{
	if (!mapping_unuse(mapping))
		return;
	atomic_store(&running->launch->code, CU_ERROR_ILLEGAL_ADDRESS);
	context_lose(running->launch->context, CU_ERROR_ILLEGAL_ADDRESS);
}

void
kernel_drop(const struct sl_standin_block *block, uint64_t addr, size_t bytes)
{
	struct running *running = block->private;

	pthread_mutex_lock(&the.lock);
	for (size_t i = running->n_held; i-- > 0;) {
		struct mapping *mapping = running->held[i];

		if (mapping->base >= addr + bytes || addr >= mapping->base + mapping->bytes)
			continue;
		running->held[i] = running->held[--running->n_held];
		block_let_go(running, mapping);
	}
	pthread_mutex_unlock(&the.lock);
}

void
kernel_pause(const struct sl_standin_block *block)
{
	struct running *running = block->private;
	int lost;

	pthread_mutex_lock(&the.lock);
	lost = running->launch->context->lost;
	pthread_mutex_unlock(&the.lock);
	if (lost)
		longjmp(running->out, 1);
	sched_yield();
}

static void
block_run(struct launch *launch, uint64_t number)
{
	struct running running = {.launch = launch};
	struct sl_standin_block block = {
		.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
		.index = {(unsigned)(number % launch->grid[0]),
			  (unsigned)(number / launch->grid[0] % launch->grid[1]),
			  (unsigned)(number / launch->grid[0] / launch->grid[1])},
		.threads = {launch->threads[0], launch->threads[1], launch->threads[2]},
		.shared_bytes = launch->shared_bytes,
		.kernel = launch->kernel->name,
		.device = launch->context->device,
		.private = &running,
	};

	if (!setjmp(running.out))
		launch->kernel->function(&block, launch->params);
	pthread_mutex_lock(&the.lock);
	while (running.n_held)
		block_let_go(&running, running.held[--running.n_held]);
	pthread_mutex_unlock(&the.lock);
	free(running.held);
}

static void *
blocks_run(void *argument)
{
	struct launch *launch = argument;
	uint64_t number;

	while (!atomic_load(&launch->code) &&
	       (number = atomic_fetch_add(&launch->next_block, 1)) < launch->n_blocks)
		block_run(launch, number);
	return NULL;
}

int
launch_run(struct launch *launch)
{
	pthread_t threads[BLOCKS_MAX];
	unsigned want = the.settings.n_blocks, n = 0;

	if (want > launch->n_blocks)
		want = (unsigned)launch->n_blocks;
	if (want > BLOCKS_MAX)
		want = BLOCKS_MAX;
	while (n + 1 < want && !pthread_create(&threads[n], NULL, blocks_run, launch))
		n++;
	blocks_run(launch);
	while (n)
		pthread_join(threads[--n], NULL);
	return atomic_load(&launch->code);
}
