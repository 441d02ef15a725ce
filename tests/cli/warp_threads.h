/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of CUDA's language that src/codec/codec.cu uses, for a C++ compiler and a CPU. A thread of
 * a block is a context with a stack of its own; it runs until a call that all lanes of a warp, or all
 * threads of the block, make together. Thread blocks run one after another.
 *
 * A call that some lanes do not make ends the program, as does one whose threads have returned. What
 * it does not show: data that one lane reads before another has written them, without such a call
 * between. Lanes run in their order, or backwards: WARP_BACKWARDS=1.
 */
#ifndef TESTS_CLI_WARP_THREADS_H
#define TESTS_CLI_WARP_THREADS_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>

#define __CUDACC__ 1
#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static

using std::max;
using std::min;

struct alignas(16) uint4 {
	uint32_t x, y, z, w;
};

static inline uint4
make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
	return uint4{x, y, z, w};
}

struct warp_index {
	uint32_t x, y, z;
};

static warp_index threadIdx, blockIdx;

enum { WARP_THREADS = 128, WARP_STACK_BYTES = 64 << 10 };

struct warp_thread {
	ucontext_t context;
	jmp_buf at;
	bool started, alive;
	char *stack;
};

/* Those who wait for each other: lanes of a warp, or all threads. */
struct warp_group {
	unsigned first, n, arrived, turn;
	uint64_t values[32];
};

static warp_thread warp_threads[WARP_THREADS];
static warp_group warp_groups[WARP_THREADS / 32], warp_all;
static ucontext_t warp_caller;
static unsigned warp_current;
static void (*warp_body)(void);

static void
warp_go(unsigned i)
{
	warp_thread *thread = &warp_threads[i];

	warp_current = i;
	threadIdx.x = i;
	if (thread->started)
		_longjmp(thread->at, 1);
	thread->started = true;
	setcontext(&thread->context);
	abort();
}

/* The next thread that has not returned, in the order of this run. */
static int
warp_next(void)
{
	static const bool backwards = getenv("WARP_BACKWARDS") != nullptr;

	for (unsigned k = 1; k <= WARP_THREADS; k++) {
		unsigned step = backwards ? WARP_THREADS - k : k;
		unsigned i = (warp_current + step) % WARP_THREADS;

		if (warp_threads[i].alive)
			return (int)i;
	}
	return -1;
}

static void
warp_wait(warp_group *group)
{
	unsigned turn = group->turn;

	for (unsigned i = group->first; i < group->first + group->n; i++)
		if (!warp_threads[i].alive) {
			fprintf(stderr, "thread %u waits for thread %u, which has returned\n",
				warp_current, i);
			exit(1);
		}
	if (++group->arrived == group->n) {
		group->arrived = 0;
		group->turn++;
		return;
	}
	while (group->turn == turn)
		if (!_setjmp(warp_threads[warp_current].at))
			warp_go((unsigned)warp_next());
}

static void
warp_begin(void)
{
	warp_body();
	warp_threads[warp_current].alive = false;
	if (warp_next() >= 0)
		warp_go((unsigned)warp_next());
	setcontext(&warp_caller);
	abort();
}

/* Run a thread block. */
static void
warp_block_run(void (*body)(void))
{
	warp_body = body;
	warp_all = {0, WARP_THREADS, 0, 0, {0}};
	for (unsigned i = 0; i < WARP_THREADS; i++) {
		warp_thread *thread = &warp_threads[i];

		warp_groups[i / 32] = {i / 32 * 32, 32, 0, 0, {0}};
		if (!thread->stack)
			thread->stack = static_cast<char *>(malloc(WARP_STACK_BYTES));
		getcontext(&thread->context);
		thread->context.uc_stack.ss_sp = thread->stack;
		thread->context.uc_stack.ss_size = WARP_STACK_BYTES;
		thread->context.uc_link = nullptr;
		makecontext(&thread->context, warp_begin, 0);
		thread->started = false;
		thread->alive = true;
	}
	warp_current = 0;
	threadIdx.x = 0;
	warp_threads[0].started = true;
	swapcontext(&warp_caller, &warp_threads[0].context); /* until all have returned */
}

static void
__syncthreads(void)
{
	warp_wait(&warp_all);
}

static void
__syncwarp(void)
{
	warp_wait(&warp_groups[warp_current / 32]);
}

/* Every lane gives a value; this lane gets lane `from`'s. */
static uint64_t
warp_exchange(uint64_t value, unsigned from)
{
	warp_group *group = &warp_groups[warp_current / 32];

	group->values[warp_current % 32] = value;
	warp_wait(group);
	value = group->values[from % 32];
	warp_wait(group);
	return value;
}

template <class value_type>
static value_type
__shfl_sync(uint32_t, value_type value, unsigned lane)
{
	return (value_type)warp_exchange((uint64_t)value, lane);
}

template <class value_type>
static value_type
__shfl_xor_sync(uint32_t, value_type value, unsigned bits)
{
	return (value_type)warp_exchange((uint64_t)value, warp_current % 32 ^ bits);
}

template <class value_type>
static value_type
__shfl_up_sync(uint32_t, value_type value, unsigned lanes)
{
	unsigned lane = warp_current % 32;

	return (value_type)warp_exchange((uint64_t)value, lane < lanes ? lane : lane - lanes);
}

static uint32_t
__ballot_sync(uint32_t, int is)
{
	warp_group *group = &warp_groups[warp_current / 32];
	uint32_t bits = 0;

	group->values[warp_current % 32] = is != 0;
	warp_wait(group);
	for (unsigned i = 0; i < 32; i++)
		bits |= (uint32_t)group->values[i] << i;
	warp_wait(group);
	return bits;
}

static int
__all_sync(uint32_t mask, int is)
{
	return __ballot_sync(mask, is) == mask;
}

template <class value_type>
static value_type
atomicAdd(value_type *to, value_type value)
{
	value_type before = *to;

	*to += value;
	return before;
}

static uint32_t
atomicMin(uint32_t *to, uint32_t value)
{
	uint32_t before = *to;

	*to = min(before, value);
	return before;
}

static int
__popc(uint32_t bits)
{
	return __builtin_popcount(bits);
}

static int
__popcll(uint64_t bits)
{
	return __builtin_popcountll(bits);
}

/* Four bytes of eight, by nibbles. */
static uint32_t
__byte_perm(uint32_t low, uint32_t high, uint32_t places)
{
	uint64_t bytes = low | (uint64_t)high << 32;
	uint32_t result = 0;

	for (unsigned i = 0; i < 4; i++)
		result |= (uint32_t)(bytes >> 8 * (places >> 4 * i & 7) & 0xff) << 8 * i;
	return result;
}

static uint32_t
__funnelshift_r(uint32_t low, uint32_t high, uint32_t bits)
{
	return (uint32_t)((low | (uint64_t)high << 32) >> (bits & 31));
}

/* Sum of products of bytes. */
static uint32_t
__dp4a(uint32_t a, uint32_t b, uint32_t sum)
{
	for (unsigned i = 0; i < 32; i += 8)
		sum += (a >> i & 0xff) * (b >> i & 0xff);
	return sum;
}

static int
__clz(int bits)
{
	return bits ? __builtin_clz((unsigned)bits) : 32;
}

#endif
