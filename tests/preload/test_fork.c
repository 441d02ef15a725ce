/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of a program that uses the GPU. A child has nothing of it. All its calls of the
 * driver are refused as they would be without the library. Only frees of its parent's
 * allocations succeed and do nothing. A child never waits, whatever the library's threads and
 * the program's others did when it was forked. It prints nothing at its end, and its parent goes
 * on with its data. test_ends.c has leftovers of children, and children that become other
 * programs.
 *
 * Threads: those of the library, and some that are in its calls when a child is forked.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"
#include "work.h"

#define N          ((uint64_t)1 << 17) /* of a block: 1 MiB */
#define BLOCKS     6u
#define HANGS_S    300u /* a child that has not ended by then waits for ever */
#define THREADS    3u
#define CHILDREN   12u
#define DEVICE_MIB 32u

static struct work w;
static uint64_t blocks[BLOCKS];
static struct cu_stream *stream;

/* ---- what children do ---- */

/* Whatever the call takes. */
typedef int any_call(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
		     uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j,
		     uint64_t k, uint64_t l);

/* clang-format off */
#define NAME_FORWARD(name)
#define NAME_WRAP(name) #name,
#define PL_API(exported, base, version, flavour, class, group) NAME_##class(exported)
static const char *const wrapped[] = {
#include "preload/api.tbl"
};
#undef PL_API
/* clang-format on */

/* Each wrapper, whatever its arguments are. (Descriptors can be made without a GPU.) */
static void
calls_everything(void)
{
	static uint64_t nothing[512]; /* where a description is expected */
	uint64_t p = (uint64_t)(uintptr_t)nothing;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	unsigned refused = 0;

	for (size_t i = 0; i < sizeof(wrapped) / sizeof(wrapped[0]); i++) {
		any_call *call;

		if (!strncmp(wrapped[i], "cuGetProcAddress", 16))
			continue;
		*(void **)&call = dlsym(driver, wrapped[i]);
		CHECK(call);
		refused += call(p, p, p, p, p, p, p, p, p, p, p, p) != 0;
	}
	CHECK(refused > 200);
}

static void
at_exit(void)
{
	if (w.cuMemFree_v2(blocks[2]))
		_exit(1);
}

static void
frees_what_its_parent_had(void)
{
	uint64_t addr;

	CHECK(!w.cuMemFree_v2(blocks[0]));
	CHECK(!w.cuMemFreeAsync(blocks[1], stream));
	CHECK(!w.cuMemFree_v2(blocks[0])); /* the parent's still */
	CHECK(w.cuMemFree_v2(blocks[3] + 512) == CU_ERROR_NOT_INITIALIZED);
	CHECK(w.cuMemFree_v2((uint64_t)(uintptr_t)&addr) == CU_ERROR_NOT_INITIALIZED);
	CHECK(w.cuMemAlloc_v2(&addr, 4096) == CU_ERROR_NOT_INITIALIZED);
	CHECK(w.cuStreamDestroy_v2(stream) == CU_ERROR_NOT_INITIALIZED);
	CHECK(w.cuInit(0) == CU_ERROR_NOT_INITIALIZED);
	CHECK(!atexit(at_exit));
}

static void *
thread_frees(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)w.cuMemFree_v2(blocks[4]);
}

static void
has_a_thread_and_a_child(void)
{
	int status = -1;
	pid_t child;
	void *result;

#ifdef __SANITIZE_THREAD__ /* it makes no threads in a child of a program with several */
	result = thread_frees(NULL);
	CHECK(!result);
#else
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, thread_frees, NULL));
	CHECK(!pthread_join(thread, &result) && !result);
#endif
	child = fork();
	if (!child)
		exit(w.cuMemFree_v2(blocks[5]) ? 1 : 9);
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
}

static void
does_nothing(void)
{
}

/* It ends by exit(), as programs do that have something to put away. */
static void
child_run(void (*run)(void))
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		alarm(HANGS_S);
		run();
		exit(7);
	}
	CHECK(waitpid(child, &status, 0) == child);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
		fprintf(stderr, "a child ended with %s %d\n",
			WIFEXITED(status) ? "status" : "signal",
			WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
		exit(1);
	}
}

/* ---- the parent ---- */

static void
start(unsigned device_mib)
{
	work_start(&w, device_mib, 64);
	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = work_alloc(&w, N, 100 + i);
}

static void
goes_on(void)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		work_launch(&w, WORK_ADD, stream, blocks[i], N, 1);
		OK(w.cuStreamSynchronize(stream));
		work_expect(&w, blocks[i], N, 101 + i);
		OK(w.cuMemFree_v2(blocks[i]));
	}
	OK(w.cuStreamDestroy_v2(stream));
	work_end(&w);
}

/* Nor does a child write the statistics, which a program writes at its end. */
static int
one_at_a_time(void)
{
	char path[64];

	scenario_path(path, "one at a time");
	start(4); /* some of the blocks are elsewhere */
	child_run(does_nothing);
	child_run(frees_what_its_parent_had);
	child_run(has_a_thread_and_a_child);
	child_run(calls_everything);
	CHECK(access(path, F_OK) < 0);
	goes_on();
	return 0;
}

/* Takes what is beyond the budget: waits, with locks of the library, until the kernels that run have ended. */
static void *
presses(void *unused)
{
	uint64_t more[DEVICE_MIB];

	(void)unused;
	OK(w.cuCtxSetCurrent(w.context));
	for (unsigned i = 0; i < DEVICE_MIB; i++)
		OK(w.cuMemAlloc_v2(&more[i], N * 8));
	for (unsigned i = 0; i < DEVICE_MIB; i++)
		OK(w.cuMemFree_v2(more[i]));
	return NULL;
}

/* The child is forked where another thread holds what every call that allocates would wait for. */
static int
while_locks_are_held(void)
{
	uint64_t before, *word;
	pthread_t thread;

	start(DEVICE_MIB);
	OK(w.cuMemHostAlloc((void **)&word, 8, 0));
	*word = 0;
	work_launch(&w, WORK_GATE, stream, blocks[0], N, (uint64_t)(uintptr_t)word);
	before = w.standin->calls("cuCtxSynchronize");
	CHECK(!pthread_create(&thread, NULL, presses, NULL));
	while (w.standin->calls("cuCtxSynchronize") == before)
		usleep(1000);
	child_run(frees_what_its_parent_had);
	child_run(has_a_thread_and_a_child);
	child_run(calls_everything);
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	CHECK(!pthread_join(thread, NULL));
	OK(w.cuStreamSynchronize(stream));
	OK(w.cuMemFreeHost(word));
	work_write(&w, blocks[0], N, 100);
	goes_on();
	return 0;
}

static _Atomic int over;

static void
graph_made(struct cu_stream *mine, uint64_t p, uint64_t value)
{
	struct cu_graph *graph;
	struct cu_graph_exec *exec;
	struct cu_graph_node *node;
	uint64_t values[3] = {p, N, value};
	void *params[3];
	struct cu_kernel_node kernel = work_node(&w, WORK_ADD, values, params);

	OK(w.cuGraphCreate(&graph, 0));
	OK(w.cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &kernel));
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuGraphLaunch(exec, mine));
	OK(w.cuStreamSynchronize(mine));
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
}

/* In and out of all that has locks. */
static void *
works(void *unused)
{
	struct cu_stream *mine;
	uint64_t p, q, range;
	void *host;

	(void)unused;
	OK(w.cuCtxSetCurrent(w.context));
	p = work_alloc(&w, N, 1);
	for (uint64_t value = 1; !over; value += 2) {
		OK(w.cuStreamCreate(&mine, CU_STREAM_NONBLOCKING));
		OK(w.cuMemAllocAsync(&q, 4 * N, mine));
		OK(w.cuMemsetD8Async(q, 1, 4 * N, mine));
		work_launch(&w, WORK_ADD, mine, p, N, 1);
		OK(w.cuMemFreeAsync(q, mine));
		graph_made(mine, p, 1);
		OK(w.cuMemHostAlloc(&host, 4096, 0));
		OK(w.cuMemFreeHost(host));
		OK(w.cuMemAddressReserve(&range, (size_t)32 << 20, 0, 0, 0));
		OK(w.cuMemAddressFree(range, (size_t)32 << 20));
		OK(w.cuStreamDestroy_v2(mine));
		work_expect(&w, p, N, value + 2);
	}
	OK(w.cuMemFree_v2(p));
	return NULL;
}

static int
while_threads_work(void)
{
	pthread_t threads[THREADS];

	start(4);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, works, NULL));
	for (unsigned i = 0; i < CHILDREN; i++) {
		child_run(calls_everything);
		child_run(frees_what_its_parent_had);
		usleep(1000 * i);
	}
	over = 1;
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	goes_on();
	return 0;
}

int
main(void)
{
	int status;

	scenario_open();
	status = scenario("one at a time", one_at_a_time, "arguments=learn");
	if (status != 77) {
		(void)scenario("while locks are held", while_locks_are_held,
			       "arguments=learn");
		(void)scenario("while threads work", while_threads_work, "arguments=learn");
	}
	return scenario_close() ? 1 : status;
}
