/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nth-failure sweep over host memory: one program uses every part of the library, and in run n the
 * nth allocation of the library or of its pager fails. Each run is a process. A call may then say that
 * memory is out; made again, it succeeds. Contents are right in every run, and nothing stays allocated.
 *
 * A library that gets no memory for its space leaves the program to the driver, which is right too.
 * Where all later allocations fail as well, the last call of the program must say so: that tells how
 * many allocations there are. SWEEP_ALL=1 in the environment takes every n, else every STRIDE-th.
 *
 * Threads: those of the library.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmm_test.h"

#define N         ((uint64_t)1 << 19) /* elements of a block: 4 MiB */
#define BLOCKS    6u                  /* more than the device budget holds */
#define STRIDE    13u                 /* prime to what repeats in the program */
#define STEPS_MAX 1024u
#define VMM_BYTES (4 * MIB)

enum { EXIT_FAILED = 1, EXIT_OUT = 3 };

static struct vmm v;
static struct work *const w = &v.w;

/* One allocation fails, so the second try has what the first had not. */
#define TWICE(call)                                                                   \
	do {                                                                          \
		int twice_result = (call);                                            \
                                                                                      \
		if (twice_result == CU_ERROR_OUT_OF_MEMORY) {                         \
			twice_result = (call);                                        \
			if (twice_result == CU_ERROR_OUT_OF_MEMORY)                   \
				exit(EXIT_OUT);                                       \
		}                                                                     \
		if (twice_result) {                                                   \
			fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, \
				twice_result);                                        \
			exit(EXIT_FAILED);                                            \
		}                                                                     \
	} while (0)

static uint64_t data[N];

static void
block_write(uint64_t p, uint64_t value)
{
	for (uint64_t i = 0; i < N; i++)
		data[i] = value;
	TWICE(w->cuMemcpyHtoDAsync_v2(p, data, sizeof(data), NULL));
	OK(w->cuStreamSynchronize(NULL));
}

static void
block_expect(uint64_t p, uint64_t value)
{
	memset(data, 0, sizeof(data));
	TWICE(w->cuMemcpyDtoHAsync_v2(data, p, sizeof(data), NULL));
	OK(w->cuStreamSynchronize(NULL));
	for (uint64_t i = 0; i < N; i++) {
		if (data[i] == value)
			continue;
		fprintf(stderr, "element %llu: %llu, not %llu\n", (unsigned long long)i,
			(unsigned long long)data[i], (unsigned long long)value);
		exit(EXIT_FAILED);
	}
}

static void
launch(struct cu_stream *stream, enum work_kernel kernel, uint64_t p, uint64_t value)
{
	uint64_t n = N;
	void *params[] = {&p, &n, &value};

	TWICE(w->cuLaunchKernel(w->kernel[kernel], 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

/* More blocks than fit, used by two streams, freed while work is queued, and one that is stream-ordered. */
static void
blocks_are_used(uint64_t *blocks, struct cu_stream *other)
{
	uint64_t own;

	for (unsigned i = 0; i < BLOCKS; i++) {
		TWICE(w->cuMemAlloc_v2(&blocks[i], N * 8));
		block_write(blocks[i], i);
	}
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < BLOCKS; i++)
			launch(i % 2 ? other : NULL, WORK_ADD, blocks[i], 10);
	OK(w->cuStreamSynchronize(other));
	OK(w->cuStreamSynchronize(NULL));
	launch(other, WORK_COPY, blocks[0], blocks[1]);
	TWICE(w->cuMemAllocAsync(&own, N * 8, other));
	TWICE(w->cuMemsetD8Async(own, 1, N * 8, other));
	TWICE(w->cuMemcpyDtoDAsync_v2(blocks[2], own, N * 8, other));
	TWICE(w->cuMemFreeAsync(own, other));
	OK(w->cuStreamSynchronize(other));
	block_expect(blocks[0], 21);
	block_expect(blocks[2], 0x0101010101010101u);
	block_expect(blocks[5], 25);
	TWICE(w->cuMemFree_v2(blocks[4]));
	TWICE(w->cuMemAlloc_v2(&blocks[4], N * 4));
}

static void
a_graph_is_launched(uint64_t block, struct cu_stream *stream)
{
	struct cu_graph *graph;
	struct cu_graph_exec *exec;
	struct cu_graph_node *node;
	uint64_t values[3] = {block, N, 5};
	void *params[3];
	struct cu_kernel_node add = work_node(w, WORK_ADD, values, params);

	block_write(block, 1);
	OK(w->cuGraphCreate(&graph, 0));
	TWICE(w->cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &add));
	TWICE(w->cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 3; i++)
		TWICE(w->cuGraphLaunch(exec, stream));
	values[2] = 7;
	TWICE(w->cuGraphExecKernelNodeSetParams_v2(exec, node, &add));
	TWICE(w->cuGraphLaunch(exec, stream));
	OK(w->cuStreamSynchronize(stream));
	block_expect(block, 1 + 3 * 5 + 7);
	OK(w->cuGraphExecDestroy(exec));
	OK(w->cuGraphDestroy(graph));
}

static void
memory_is_mapped(void)
{
	uint64_t handle, addr;

	TWICE(w->cuMemAddressReserve(&addr, VMM_BYTES, 0, 0, 0));
	TWICE(w->cuMemCreate(&handle, VMM_BYTES, &vmm_on_device, 0));
	TWICE(w->cuMemMap(addr, VMM_BYTES, 0, handle, 0));
	TWICE(w->cuMemSetAccess(addr, VMM_BYTES, &vmm_read_write, 1));
	block_write(addr, 3);
	launch(NULL, WORK_ADD, addr, 4);
	block_expect(addr, 7);
	TWICE(w->cuMemUnmap(addr, VMM_BYTES));
	OK(w->cuMemRelease(handle));
	OK(w->cuMemAddressFree(addr, VMM_BYTES));
}

static int
program(int must_be_served)
{
	uint64_t blocks[BLOCKS], handle;
	size_t before, after, total;
	struct cu_stream *other;

	if (must_be_served)
		work_start(w, 16, 64);
	else
		work_open(w, 16, 64);
	TWICE(w->cuMemAlloc_v2(&handle, N)); /* makes the space */
	OK(w->cuMemFree_v2(handle));
	OK(w->cuMemGetInfo_v2(&before, &total));
	OK(w->cuStreamCreate(&other, 0));
	blocks_are_used(blocks, other);
	a_graph_is_launched(blocks[3], other);
	memory_is_mapped();
	for (unsigned i = 0; i < BLOCKS; i++)
		OK(w->cuMemFree_v2(blocks[i]));
	TWICE(w->cuStreamDestroy_v2(other));
	OK(w->cuMemGetInfo_v2(&after, &total));
	CHECK(before == after);
	TWICE(w->cuMemCreate(&handle, VMM_BYTES, &vmm_on_device, 0));
	OK(w->cuMemRelease(handle));
	work_end(w);
	return 0;
}

/* What a run ends with in which the nth allocation fails. */
static int
run(unsigned nth, const char *suffix, const char *how)
{
	char path[] = "/tmp/sluice-sweep-XXXXXX", spec[64], text[8192];
	int fd = mkstemp(path), status, ends;
	ssize_t n;
	pid_t child;

	CHECK(fd >= 0 && !unlink(path));
	snprintf(spec, sizeof(spec), "mem.alloc:%u:ENOMEM%s", nth, suffix);
	fflush(stdout);
	child = fork();
	if (!child) {
		setenv("SLUICE_FAULT", spec, 1);
		dup2(fd, STDERR_FILENO);
		execl("/proc/self/exe", "test_sweep", how, (char *)NULL);
		_exit(126);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	n = pread(fd, text, sizeof(text) - 1, 0);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	ends = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (ends && ends != EXIT_OUT && ends != 77)
		printf("%s: ended with %d, and said: %s\n", spec, ends, text);
	return ends;
}

/* The number of the last allocation, found by halves: from there on nothing fails. */
static unsigned
steps_count(void)
{
	unsigned low = 1, high = STEPS_MAX;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (run(middle, "+", "served"))
			low = middle + 1;
		else
			high = middle;
	}
	return high - 1;
}

int
main(int argc, char **argv)
{
	unsigned stride = getenv("SWEEP_ALL") ? 1 : STRIDE, steps, failed = 0;

	if (argc == 2)
		return program(!strcmp(argv[1], "served"));
	work_start(w, 16, 64); /* or 77 */
	steps = steps_count();
	CHECK(steps > 40 && steps < STEPS_MAX - 1);
	for (unsigned n = 1; n <= steps; n += n < 2 * STRIDE ? 1 : stride)
		failed += run(n, "", "program") != 0;
	printf("%u allocations, %u of the runs failed\n", steps, failed);
	return failed != 0;
}
