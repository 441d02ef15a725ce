/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator like PyTorch's under the preload library: it takes large blocks from the driver, and tells
 * what it gives out inside of them. Each piece moves by itself, what was taken back is neither copied
 * out nor in, and whatever the allocator tells, all words are right.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>

#include "scenario.h"
#include "work.h"

#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define CUDA   1u /* as the type of a device */

#define MIB         ((uint64_t)1 << 20)
#define PIECE       (4 * MIB)
#define WORDS       (PIECE / sizeof(uint64_t))
#define PIECES      4u /* of a block */
#define BLOCKS      8u
#define ROUNDS      6u
#define MANY_ROUNDS 24u
#define DEVICE      64u /* MiB: half of what the blocks take */

typedef void (*report_fn)(void *, int64_t, uint64_t, uint64_t, uint16_t);

static struct work w;
static report_fn report;
static uint64_t blocks[BLOCKS];

static uint64_t
piece_at(unsigned block, unsigned piece)
{
	return blocks[block] + piece * PIECE;
}

static void
give(uint64_t at, uint64_t bytes)
{
	report((void *)(uintptr_t)at, (int64_t)bytes, 1, 2, CUDA);
}

static void
take_back(uint64_t at, uint64_t bytes)
{
	report((void *)(uintptr_t)at, -(int64_t)bytes, 1, 2, CUDA);
}

static void
add(uint64_t at, uint64_t v)
{
	work_launch(&w, WORK_ADD, NULL, at, WORDS, v);
}

/* Blocks of the driver's, and the function that PyTorch's allocator would call. */
static void
start(void)
{
	*(void **)&report = dlsym(RTLD_DEFAULT, REPORT);
	work_start(&w, DEVICE, 512);
	CHECK(report);
	for (unsigned b = 0; b < BLOCKS; b++)
		OK(w.cuMemAlloc_v2(&blocks[b], PIECES * PIECE));
}

static int
end(void)
{
	OK(w.cuCtxSynchronize());
	for (unsigned b = 0; b < BLOCKS; b++)
		if (blocks[b])
			OK(w.cuMemFree_v2(blocks[b]));
	OK(w.cuModuleUnload(w.module));
	work_end(&w);
	return 0;
}

/* ---- what it is for ---- */

/* One piece of each block is used over and over: all of these fit. The others are written once. */
static int
pieces_move_by_themselves(void)
{
	start();
	for (unsigned b = 0; b < BLOCKS; b++)
		for (unsigned p = 0; p < PIECES; p++) {
			give(piece_at(b, p), PIECE);
			work_write(&w, piece_at(b, p), WORDS, b * PIECES + p);
		}
	for (unsigned round = 0; round < MANY_ROUNDS; round++)
		for (unsigned b = 0; b < BLOCKS; b++)
			add(piece_at(b, 1), 1);
	for (unsigned b = 0; b < BLOCKS; b++)
		for (unsigned p = 0; p < PIECES; p++)
			work_expect(&w, piece_at(b, p), WORDS,
				    b * PIECES + p + (p == 1 ? MANY_ROUNDS : 0));
	return end();
}

/* A block after the other is given out, written, read and taken back: never more than one at a time. */
static int
dead_pieces_stay(void)
{
	start();
	give(piece_at(0, 0), PIECE);
	work_write(&w, piece_at(0, 0), WORDS, 5);
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned b = 1; b < BLOCKS; b++) {
			for (unsigned p = 0; p < PIECES; p++) {
				give(piece_at(b, p), PIECE);
				work_write(&w, piece_at(b, p), WORDS, round);
				add(piece_at(b, p), 1);
			}
			for (unsigned p = 0; p < PIECES; p++) {
				work_expect(&w, piece_at(b, p), WORDS, round + 1);
				take_back(piece_at(b, p), PIECE);
			}
		}
	work_expect(&w, piece_at(0, 0), WORDS, 5);
	return end();
}

/* ---- with the caching off ---- */

/* The result of an allocation while the thread captures. relaxed: with the thread in that mode, as PyTorch
 * allocates; else where an allocation of the driver's is forbidden, and ours does no harm. */
static int
captured_allocation(bool relaxed)
{
	int (*exchange)(int *mode);
	int mode = CU_CAPTURE_MODE_RELAXED, result;
	struct cu_stream *stream;
	struct cu_graph *graph;
	uint64_t at;

	*(void **)&exchange = dlsym(RTLD_DEFAULT, "cuThreadExchangeStreamCaptureMode");
	CHECK(exchange);
	OK(w.cuStreamCreate(&stream, 1));
	OK(w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
	if (relaxed)
		OK(exchange(&mode));
	result = w.cuMemAlloc_v2(&at, PIECE);
	if (relaxed)
		OK(exchange(&mode));
	OK(w.cuStreamEndCapture(stream, &graph));
	OK(w.cuGraphDestroy(graph));
	OK(w.cuStreamDestroy_v2(stream));
	if (!result)
		OK(w.cuMemFree_v2(at));
	return result;
}

/* What PyTorch allocates for a graph would be another's when the graph is launched: refused. */
static int
graphs_need_the_caching(void)
{
	uint64_t at;

	start();
	CHECK(captured_allocation(true) == CU_SUCCESS);
	CHECK(dlopen(TORCH_LIBRARY, RTLD_NOW | RTLD_LOCAL));
	CHECK(captured_allocation(true) == CU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CHECK(captured_allocation(false) == CU_SUCCESS);
	OK(w.cuMemAlloc_v2(&at, PIECE));
	OK(w.cuMemFree_v2(at));
	return end();
}

/* Nobody has switched it off. */
static int
graphs_have_the_caching(void)
{
	start();
	CHECK(dlopen(TORCH_LIBRARY, RTLD_NOW | RTLD_LOCAL));
	CHECK(captured_allocation(true) == CU_SUCCESS);
	return end();
}

/* ---- what is told otherwise ---- */

/* Write so much else that nothing of before stays on the device. */
static void
others_write(unsigned first)
{
	for (unsigned b = first; b < BLOCKS; b++)
		for (unsigned p = 0; p < PIECES; p++)
			work_write(&w, piece_at(b, p), WORDS, 1);
}

/* A graph that adds 1 to the pieces of a block below the n-th. */
static struct cu_graph_exec *
capture(unsigned block, unsigned n)
{
	struct cu_graph_exec *exec;
	struct cu_stream *stream;
	struct cu_graph *graph;

	OK(w.cuStreamCreate(&stream, 1));
	OK(w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
	for (unsigned p = 0; p < n; p++)
		work_launch(&w, WORK_ADD, stream, piece_at(block, p), WORDS, 1);
	OK(w.cuStreamEndCapture(stream, &graph));
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuGraphDestroy(graph));
	OK(w.cuStreamDestroy_v2(stream));
	return exec;
}

/* What a graph was captured with has been taken back, and lives on from launch to launch. Its neighbours
 * in the same chunks come and go. */
static int
what_graphs_use_stays(void)
{
	struct cu_graph_exec *exec;

	start();
	others_write(1); /* short of memory from here on */
	for (unsigned p = 0; p < PIECES; p++) {
		give(piece_at(0, p), PIECE);
		work_write(&w, piece_at(0, p), WORDS, 20 + p);
	}
	exec = capture(0, PIECES - 1);
	for (unsigned p = 0; p < PIECES; p++)
		take_back(piece_at(0, p), PIECE);
	for (unsigned p = 0; p < PIECES - 1; p++)
		work_write(&w, piece_at(0, p), WORDS, 30 + p);
	for (unsigned round = 0; round < ROUNDS; round++) {
		OK(w.cuGraphLaunch(exec, NULL));
		give(piece_at(0, PIECES - 1), PIECE);
		add(piece_at(0, PIECES - 1), 1);
		take_back(piece_at(0, PIECES - 1), PIECE);
		others_write(1);
	}
	for (unsigned p = 0; p < PIECES - 1; p++)
		work_expect(&w, piece_at(0, p), WORDS, 30 + p + ROUNDS);
	OK(w.cuGraphExecDestroy(exec));
	return end();
}

/* All is taken back and given out again, at once or when much has been used between: as PyTorch restores what
 * a pool of graphs had given out. Contents stay. */
static int
what_is_restored_stays(void)
{
	struct cu_graph_exec *exec;

	start();
	exec = capture(BLOCKS - 1, 1);
	others_write(0); /* short of memory from here on */
	for (unsigned p = 0; p < PIECES; p++) {
		give(piece_at(0, p), PIECE);
		work_write(&w, piece_at(0, p), WORDS, 40 + p);
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned p = 0; p < PIECES; p++)
			take_back(piece_at(0, p), PIECE);
		for (unsigned p = 0; p < PIECES; p++)
			give(piece_at(0, p), PIECE);
		others_write(1);
		for (unsigned p = 0; p < PIECES; p++) {
			add(piece_at(0, p), 1);
			work_expect(&w, piece_at(0, p), WORDS, 40 + p + round + 1);
		}
	}
	OK(w.cuGraphExecDestroy(exec));
	return end();
}

/* A kernel is given what is not given out, as a graph is launched whose tensors have ended. */
static int
what_is_not_given_out_can_be_used(void)
{
	start();
	others_write(1);
	give(piece_at(0, 0), PIECE);
	give(piece_at(0, 2), PIECE);
	take_back(piece_at(0, 2), PIECE);
	for (unsigned p = 0; p < PIECES; p++)
		work_write(&w, piece_at(0, p), WORDS, p);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned p = 0; p < PIECES; p++)
			add(piece_at(0, p), 1);
		others_write(1);
	}
	for (unsigned p = 0; p < PIECES; p++)
		work_expect(&w, piece_at(0, p), WORDS, p + ROUNDS);
	return end();
}

/* Ends that were not told, begins beyond a block, of nothing, of what is not ours, and twice. */
static int
nonsense_does_nothing(void)
{
	uint64_t none = 0;

	start();
	others_write(1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		give(piece_at(0, 0), 2 * PIECE);
		give(piece_at(0, 1), PIECE);
		give(piece_at(0, 0) + PIECE / 2, PIECE);
		give(piece_at(0, 2), 16 * PIECE);
		give(piece_at(0, 2), UINT64_MAX / 2);
		give((uintptr_t)&none, sizeof(none));
		give(0, PIECE);
		give(piece_at(0, 3), 0);
		take_back(piece_at(0, 1), PIECE);
		take_back(piece_at(0, 1), PIECE);
		take_back(piece_at(0, 3) + 512, PIECE);
		take_back((uintptr_t)&none, sizeof(none));
		for (unsigned p = 0; p < PIECES; p++)
			work_write(&w, piece_at(0, p), WORDS, p + round);
		others_write(1);
		for (unsigned p = 0; p < PIECES; p++)
			work_expect(&w, piece_at(0, p), WORDS, p + round);
	}
	return end();
}

/* The block goes with what was given out of it, and another one comes at its place. */
static int
freed_blocks_are_forgotten(void)
{
	start();
	others_write(1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		give(piece_at(0, 1), PIECE);
		add(piece_at(0, 1), 1);
		if (round % 2)
			take_back(piece_at(0, 1), PIECE);
		OK(w.cuMemFree_v2(blocks[0]));
		OK(w.cuMemAlloc_v2(&blocks[0], PIECES * PIECE));
		for (unsigned p = 0; p < PIECES; p++)
			work_write(&w, piece_at(0, p), WORDS, round);
		others_write(1);
		for (unsigned p = 0; p < PIECES; p++)
			work_expect(&w, piece_at(0, p), WORDS, round);
	}
	return end();
}

/* ---- threads ---- */

static _Atomic unsigned running;

static void *
thread_run(void *arg)
{
	unsigned b = *(const unsigned *)arg;
	struct cu_stream *stream;

	OK(w.cuCtxSetCurrent(w.context));
	OK(w.cuStreamCreate(&stream, 1));
	for (unsigned round = 0; round < 4 * ROUNDS; round++)
		for (unsigned p = 0; p < PIECES; p++) {
			uint64_t at = piece_at(b, p), first = 0;

			give(at, PIECE);
			OK(w.cuMemsetD8Async(at, 0, PIECE, stream));
			work_launch(&w, WORK_ADD, stream, at, WORDS, round);
			OK(w.cuMemcpyDtoHAsync_v2(&first, at + PIECE - 8, 8, stream));
			OK(w.cuStreamSynchronize(stream));
			CHECK(first == round);
			take_back(at, PIECE);
		}
	OK(w.cuStreamDestroy_v2(stream));
	running--;
	return NULL;
}

/* What each gives out is its own, in a chunk that it shares with others. */
static int
threads_share_chunks(void)
{
	static unsigned numbers[BLOCKS];
	pthread_t threads[BLOCKS];

	start();
	running = BLOCKS;
	for (unsigned b = 0; b < BLOCKS; b++) {
		numbers[b] = b;
		CHECK(!pthread_create(&threads[b], NULL, thread_run, &numbers[b]));
	}
	for (unsigned b = 0; b < BLOCKS; b++)
		CHECK(!pthread_join(threads[b], NULL));
	CHECK(!running);
	return end();
}

/* ---- PyTorch's own ---- */

/* PyTorch's function is told what ours is, once its library is there. */
static int
calls_are_passed_on(void)
{
	const int64_t *told;
	void *library;

	start();
	give(piece_at(0, 0), PIECE);
	library = dlopen(C10_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
	told = dlsym(library, "c10_told");
	CHECK(told);
	give(piece_at(0, 1), PIECE);
	take_back(piece_at(0, 0), PIECE);
	report(NULL, 7, 10, 20, 0x100); /* of a CPU */
	CHECK(told[0] == (int64_t)(piece_at(0, 0) + piece_at(0, 1)));
	CHECK(told[1] == 7 && told[2] == 12 && told[3] == 24 && told[4] == 2 + 0x100);
	return end();
}

static uint64_t
moved(const char *name)
{
	static const char *const counters[] = {"h2d_launch", "h2d_prefetch", "d2h_evict"};
	uint64_t sum = 0;

	for (unsigned i = 0; i < 3; i++)
		sum += scenario_number(name, "\"gpus\"", counters[i]);
	return sum;
}

/* Copies in and out, of whole chunks, that the scenario has made for the most. */
static int
moved_expect(const char *name, uint64_t most)
{
	uint64_t bytes = moved(name);

	printf("%s: %" PRIu64 " MiB moved\n", name, bytes / MIB);
	return bytes <= most ? 0 : 1;
}

int
main(void)
{
	int failed = 0;

	scenario_open();
	if (scenario("pieces", pieces_move_by_themselves, "arguments=trust") == 77)
		return 77;
	/* What is written leaves, and returns when it is looked at; the rounds move nothing. */
	failed |= moved_expect("pieces", BLOCKS * PIECES * PIECE * 5 / 2);
	scenario_expect("pieces", "counters", "suballocations", BLOCKS * PIECES,
			BLOCKS * PIECES);
	scenario("dead", dead_pieces_stay, "arguments=trust");
	failed |= moved_expect("dead", 0);
	CHECK(!setenv("SLUICE_LARGE_CHUNK", "8M", 1)); /* of two pieces */
	scenario("graphs", what_graphs_use_stays, "arguments=trust");
	scenario("restored", what_is_restored_stays, "arguments=trust");
	scenario("threads", threads_share_chunks, "arguments=trust");
	CHECK(!unsetenv("SLUICE_LARGE_CHUNK"));
	scenario("used", what_is_not_given_out_can_be_used, "arguments=trust");
	scenario("nonsense", nonsense_does_nothing, "arguments=trust");
	scenario("freed", freed_blocks_are_forgotten, "arguments=trust");
	scenario("passed", calls_are_passed_on, "arguments=trust");
	scenario("uncached", graphs_need_the_caching, "frameworks=jax+pytorch");
	scenario("cached", graphs_have_the_caching, "frameworks=jax");
	return scenario_close() || failed;
}
