/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline of a run (--timeline): each kind of work, several streams, threads and GPUs, memory
 * ample and short, the launch rate's bound. tests/cli/test_run_timeline.sh checks the format and
 * the bytes. The programs are processes of their own; their files are searched here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"
#include "work.h"

#define MIB      ((uint64_t)1 << 20)
#define N        (MIB / sizeof(uint64_t)) /* elements of a block of 1 MiB */
#define LAUNCHES 50u
#define MANY     12000u /* launches in less than a second: more than are timed */

static struct work w;

/* ---- programs ---- */

static int
all_kinds(void)
{
	struct cu_graph_exec *exec;
	struct cu_stream *stream;
	struct cu_graph *graph;
	static uint64_t host[N];
	uint64_t a, b;

	work_start(&w, 64, 256);
	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	OK(w.cuMemAlloc_v2(&a, MIB));
	OK(w.cuMemAlloc_v2(&b, 2 * MIB));
	OK(w.cuMemsetD8Async(a, 0, MIB, stream));
	OK(w.cuMemcpyHtoDAsync_v2(a, host, MIB, stream));
	work_launch(&w, WORK_COPY, stream, b, N, a);
	OK(w.cuMemcpyDtoDAsync_v2(b, a, MIB, stream));
	OK(w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
	work_launch(&w, WORK_ADD, stream, a, N, 5);
	OK(w.cuStreamEndCapture(stream, &graph));
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuGraphLaunch(exec, stream));
	OK(w.cuMemcpyDtoHAsync_v2(host, b, 4096, stream));
	OK(w.cuStreamSynchronize(stream));
	work_launch(&w, WORK_ADD, NULL, b, N, 1);
	OK(w.cuCtxSynchronize());
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
	work_end(&w);
	return 0;
}

static int
threads(void)
{
	uint64_t p;

	work_start(&w, 16, 256); /* memory is short from the begin, and there are 12 MiB more at once */
	OK(w.cuMemAlloc_v2(&p, 20 * MIB));
	work_threads(&w, LAUNCHES);
	work_end(&w);
	return 0;
}

static int
two_gpus(void)
{
	struct cu_context *other;
	struct cu_module *module;
	struct work there;
	uint64_t p;

	CHECK(!setenv("CUDA_STANDIN_DEVICES", "2", 1));
	work_start(&w, 64, 256);
	OK(w.cuMemAlloc_v2(&p, MIB));
	work_launch(&w, WORK_ADD, NULL, p, N, 1);
	OK(w.cuCtxSynchronize());
	there = w;
	OK(w.cuDevicePrimaryCtxRetain(&other, 1));
	OK(w.cuCtxSetCurrent(other));
	OK(w.cuModuleLoadData(&module, SL_STANDIN_IMAGE));
	OK(w.cuModuleGetFunction(&there.kernel[WORK_ADD], module, "work_add"));
	OK(w.cuMemAlloc_v2(&p, 2 * MIB));
	work_launch(&there, WORK_ADD, NULL, p, N, 1);
	OK(w.cuCtxSynchronize());
	OK(w.cuCtxSetCurrent(w.context));
	work_end(&w);
	return 0;
}

static int
many(void)
{
	uint64_t p;

	work_start(&w, 64, 256);
	OK(w.cuMemAlloc_v2(&p, MIB));
	for (unsigned i = 0; i < MANY; i++) {
		work_launch(&w, WORK_ADD, NULL, p, 8, 1);
		if (i % 1000 == 0)
			OK(w.cuCtxSynchronize());
	}
	OK(w.cuCtxSynchronize());
	work_end(&w);
	return 0;
}

/* ---- what they leave ---- */

/* How often the text is in the file of that name. */
static unsigned
count(const char *name, const char *text)
{
	static char line[8192];
	char path[64];
	unsigned n = 0;
	FILE *f;

	scenario_path(path, name);
	f = fopen(path, "r");
	CHECK(f != NULL);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, text) != NULL;
	(void)fclose(f);
	return n;
}

static int
on_a_timeline(const char *name, int (*run)(void))
{
	char settings[160], path[64], file[64];

	snprintf(file, sizeof(file), "%s.json", name);
	scenario_path(path, file);
	snprintf(settings, sizeof(settings), "timeline=%s,arguments=trust", path);
	return scenario(name, run, settings);
}

static void
each_kind_of_work_is_there(void)
{
	CHECK(count("kinds.json", "\"cat\":\"kernel\",\"name\":\"work_") == 2);
	CHECK(count("kinds.json", "\"cat\":\"graph\"") == 1);
	CHECK(count("kinds.json", "\"cat\":\"fill\"") == 1);
	CHECK(count("kinds.json", "\"cat\":\"copy\"") == 3);
	CHECK(count("kinds.json", "GPU 0 default stream") == 1);
	CHECK(count("kinds.json", "GPU 0 stream 0") == 1);
}

static void
work_of_all_threads_is_there(void)
{
	unsigned kernels = count("threads.json", "\"cat\":\"kernel\"");
	unsigned starts = count("threads.json", "\"ph\":\"s\"");

	CHECK(kernels == WORK_THREADS * LAUNCHES);
	CHECK(starts == count("threads.json", "\"ph\":\"f\""));
	CHECK(count("threads.json", "\"name\":\"GPU 0 stream ") >= WORK_THREADS);
}

static void
both_gpus_are_there(void)
{
	CHECK(count("gpus.json", "\"cat\":\"kernel\"") == 2);
	CHECK(count("gpus.json", "GPU 0 default stream") == 1);
	CHECK(count("gpus.json", "GPU 1 default stream") == 1);
	CHECK(count("gpus.json", "\"ph\":\"C\",") &&
	      count("gpus.json", "GPU 1 device memory"));
}

/* 5,000 at once, 10,000 a second. How many a slow machine has is its business. */
static void
what_has_no_time_is_told(void)
{
	unsigned kernels = count("many.json", "\"cat\":\"kernel\"");

	CHECK(kernels >= 5000 && kernels <= MANY);
	CHECK((kernels < MANY) == (count("many.json", "launches without a time") == 1));
}

int
main(void)
{
	int status;

	scenario_open();
	status = on_a_timeline("kinds", all_kinds);
	if (!status) {
		each_kind_of_work_is_there();
		if (!on_a_timeline("threads", threads))
			work_of_all_threads_is_there();
		if (!on_a_timeline("gpus", two_gpus))
			both_gpus_are_there();
		if (!on_a_timeline("many", many))
			what_has_no_time_is_told();
	}
	return scenario_close() ? 1 : status == 77 ? 77 : 0;
}
