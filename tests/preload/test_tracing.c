/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace of a run (--record), use by use: kernels, copies of all three directions, fills,
 * graphs, growing mapped memory, small blocks, several streams, threads and GPUs, memory ample
 * and short. The programs are processes of their own; their traces are read here.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codec_data.h"
#include "scenario.h"
#include "trace/trace.h"
#include "vmm_test.h"

#define N        (MIB / sizeof(uint64_t)) /* elements of a block of 1 MiB */
#define LAUNCHES 50u

static struct work w;

/* ---- programs ---- */

/* What each kind of work is told as. The first uses of a and b are fills. */
static int
all_kinds(void)
{
	struct cu_graph_exec *exec;
	struct cu_stream *stream;
	struct cu_graph *graph;
	static uint64_t host[N];
	uint64_t a, b, c, small;

	work_start(&w, 64, 256);
	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	OK(w.cuMemAlloc_v2(&a, MIB));
	OK(w.cuMemAlloc_v2(&b, 2 * MIB));
	OK(w.cuMemAlloc_v2(&small, 4096));
	OK(w.cuMemsetD8Async(a, 0, MIB, stream));       /* launch 0: fill, all of a */
	OK(w.cuMemsetD8Async(b + MIB, 0, MIB, stream)); /* 1: the first use, so all of b */
	OK(w.cuMemcpyHtoDAsync_v2(a, host, MIB, stream)); /* copy in */
	work_launch(&w, WORK_COPY, stream, b, N, a);    /* 2: a and b, read and written */
	OK(w.cuMemAlloc_v2(&c, 3 * MIB));               /* before launch 3 */
	OK(w.cuMemcpyDtoDAsync_v2(c, b, MIB, stream));  /* 3: copy, b read, c made */
	work_launch(&w, WORK_ADD, stream, small, 8, 1); /* 4 */
	OK(w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
	work_launch(&w, WORK_ADD, stream, a, N, 5);
	work_launch(&w, WORK_ADD, stream, c, N, 5);
	OK(w.cuStreamEndCapture(stream, &graph));
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuGraphLaunch(exec, stream));                 /* 5: graph, a and c */
	OK(w.cuMemcpyDtoHAsync_v2(host, c, 4096, stream)); /* copy out */
	OK(w.cuStreamSynchronize(stream));
	OK(w.cuMemFree_v2(c));                    /* before launch 6 */
	work_launch(&w, WORK_ADD, NULL, b, N, 1); /* 6 */
	OK(w.cuCtxSynchronize());
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
	work_end(&w);
	return 0;
}

/* Two blocks side by side in a range are one that grew; half of it unmapped, another one. */
static int
growing(void)
{
	uint64_t addr, first, second;
	struct vmm v;

	vmm_start(&v, 64, 256);
	addr = vmm_reserve(&v, 2 * GRANULE);
	first = vmm_create(&v, GRANULE);
	second = vmm_create(&v, GRANULE);
	vmm_map(&v, addr, GRANULE, first);
	work_launch(&v.w, WORK_ADD, NULL, addr, 8, 1);
	vmm_map(&v, addr + GRANULE, GRANULE, second);
	work_launch(&v.w, WORK_ADD, NULL, addr, 8, 1);
	OK(v.w.cuCtxSynchronize());
	OK(v.w.cuMemUnmap(addr + GRANULE, GRANULE));
	work_launch(&v.w, WORK_ADD, NULL, addr, 8, 1);
	OK(v.w.cuCtxSynchronize());
	OK(v.w.cuMemUnmap(addr, GRANULE));
	OK(v.w.cuMemRelease(first));
	OK(v.w.cuMemRelease(second));
	OK(v.w.cuMemAddressFree(addr, 2 * GRANULE));
	work_end(&v.w);
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

/* A block with parts: three tensors are loaded into it and used, then another two. */
static int
pool(void)
{
	static uint64_t host[3 * N];
	uint64_t p;

	work_start(&w, 16, 256);
	OK(w.cuMemAlloc_v2(&p, 12 * MIB));
	OK(w.cuMemcpyHtoDAsync_v2(p, host, MIB, NULL));
	OK(w.cuMemcpyHtoDAsync_v2(p + MIB, host, 2 * MIB, NULL));
	OK(w.cuMemcpyHtoDAsync_v2(p + 3 * MIB, host, 3 * MIB, NULL));
	for (unsigned i = 0; i < 2; i++) {
		work_launch(&w, WORK_ADD, NULL, p, N, 1);           /* 0, 3 */
		work_launch(&w, WORK_ADD, NULL, p + MIB, N, 1);     /* 1, 4 */
		work_launch(&w, WORK_ADD, NULL, p + 3 * MIB, N, 1); /* 2, 5 */
	}
	for (unsigned i = 0; i < 2; i++)
		work_launch(&w, WORK_COPY, NULL, p + 6 * MIB, N, p + 10 * MIB); /* 6, 7 */
	OK(w.cuCtxSynchronize());
	OK(w.cuMemFree_v2(p));
	work_end(&w);
	return 0;
}

/* Blocks of data whose ratios are known, more than the device holds: they go out and come back.
 * The one of 1 MiB is used at the end, and stays. A block whose halves differ has the mean. */
#define SAMPLED 6u
static int
sampled(void)
{
	static const enum codec_data data[SAMPLED] = {
		CODEC_DATA_ZERO,     CODEC_DATA_RANDOM,         CODEC_DATA_BF16,
		CODEC_DATA_CONSTANT, CODEC_DATA_FP32_LOW_EMPTY, CODEC_DATA_RANDOM};
	static char host[(4 + SAMPLED) * MIB];
	uint64_t p[SAMPLED], last;
	struct sl_rng rng;

	sl_rng_init(&rng, 5);
	work_start(&w, 16, 256);
	for (unsigned i = 0; i < SAMPLED; i++) {
		uint64_t bytes = (4 + i) * MIB; /* of its own size, by which it is found */

		for (uint64_t at = 0; at < bytes; at += CODEC_BLOCK)
			codec_data_fill(i == 5 && at >= bytes / 2 ? CODEC_DATA_BOOL : data[i],
					&rng, host + at);
		OK(w.cuMemAlloc_v2(&p[i], bytes));
		OK(w.cuMemcpyHtoDAsync_v2(p[i], host, bytes, NULL));
		OK(w.cuCtxSynchronize());
	}
	for (unsigned i = 0; i < 3 * SAMPLED; i++) {
		/* It may write, as far as is known, and adds 0. */
		work_launch(&w, WORK_ADD, NULL, p[i % SAMPLED], 8, 0);
		OK(w.cuCtxSynchronize());
	}
	OK(w.cuMemAlloc_v2(&last, MIB));
	work_launch(&w, WORK_ADD, NULL, last, 8, 1);
	OK(w.cuCtxSynchronize());
	work_end(&w);
	return 0;
}

static void *
launch_for_ever(void *arg)
{
	uint64_t p;

	(void)arg;
	OK(w.cuCtxSetCurrent(w.context));
	OK(w.cuMemAlloc_v2(&p, MIB));
	for (;;) {
		work_launch(&w, WORK_ADD, NULL, p, 8, 1);
		OK(w.cuCtxSynchronize());
	}
	return NULL;
}

/* Exits while another thread, whose launch was the last that is wanted, writes the trace. */
static int
ends_while_written(void)
{
	char path[64], unfinished[128];
	pthread_t thread;

	work_start(&w, 64, 256);
	scenario_path(path, "early.trace");
	snprintf(unfinished, sizeof(unfinished), "%s.%d.new", path, (int)getpid());
	CHECK(!pthread_create(&thread, NULL, launch_for_ever, NULL));
	while (access(unfinished, F_OK) && access(path, F_OK))
		usleep(100);
	exit(0);
}

static void
second_gpu_is_not_recorded_beyond_the_bound(void)
{
	char path[64];

	scenario_path(path, "bound.trace.gpu1");
	CHECK(access(path, F_OK) != 0);
}

/* One launch on the first GPU, two on the second, whose trace has another name. */
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
	work_launch(&there, WORK_ADD, NULL, p, N, 1);
	OK(w.cuCtxSynchronize());
	OK(w.cuCtxSetCurrent(w.context));
	work_end(&w);
	return 0;
}

/* ---- what they leave ---- */

static struct sl_trace *
trace_of(const char *name, const char *suffix)
{
	struct sl_trace *trace;
	char path[64], file[64];

	snprintf(file, sizeof(file), "%s.trace%s", name, suffix);
	scenario_path(path, file);
	if (sl_trace_read(path, &trace)) {
		printf("%s: %s\n", name, sluice_last_error());
		exit(1);
	}
	for (uint32_t k = 0; k < trace->n_launches; k++)
		CHECK(trace->launches[k].ticks > 1); /* each has a time */
	return trace;
}

static int
recorded(const char *name, int (*run)(void), const char *more)
{
	char settings[160], path[64], file[64];

	snprintf(file, sizeof(file), "%s.trace", name);
	scenario_path(path, file);
	snprintf(settings, sizeof(settings), "record=%s,arguments=trust%s", path, more);
	return scenario(name, run, settings);
}

/* The launch has this name and so many uses; the use of so many bytes has this intent. */
static void
use_check(const struct sl_trace *trace, uint32_t k, const char *name, uint32_t n,
	  uint64_t bytes, enum sluice_intent intent)
{
	const struct sl_trace_launch *launch = &trace->launches[k];

	CHECK(k < trace->n_launches && launch->n_uses == n);
	CHECK(!strcmp(sl_trace_name(trace, launch->name), name));
	for (uint32_t i = 0; i < n; i++) {
		const struct sl_trace_use *use = &trace->uses[launch->first_use + i];

		if (trace->tensors[use->tensor].size_bytes == bytes) {
			CHECK(use->intent == intent);
			return;
		}
	}
	CHECK(!"no use of so many bytes");
}

static const struct sl_tensor *
tensor_of_bytes(const struct sl_trace *trace, uint64_t bytes)
{
	for (uint32_t t = 0; t < trace->n_tensors; t++)
		if (trace->tensors[t].size_bytes == bytes)
			return &trace->tensors[t];
	CHECK(!"no tensor of so many bytes");
	return NULL;
}

static void
all_kinds_are_told_as_what_they_do(void)
{
	struct sl_trace *trace = trace_of("kinds", "");
	const struct sl_tensor *c;

	CHECK(trace->n_launches == 7);
	use_check(trace, 0, "fill", 1, MIB, SLUICE_USE_WRITE_ALL);
	use_check(trace, 1, "fill", 1, 2 * MIB, SLUICE_USE_WRITE_ALL);
	use_check(trace, 2, "work_copy", 2, MIB, SLUICE_USE_READ_WRITE);
	use_check(trace, 2, "work_copy", 2, 2 * MIB, SLUICE_USE_READ_WRITE);
	use_check(trace, 3, "copy", 2, 2 * MIB, SLUICE_USE_READ);
	use_check(trace, 3, "copy", 2, 3 * MIB, SLUICE_USE_WRITE_ALL);
	use_check(trace, 4, "work_add", 1, 4096, SLUICE_USE_READ_WRITE);
	use_check(trace, 5, "graph", 2, MIB, SLUICE_USE_READ_WRITE);
	use_check(trace, 5, "graph", 2, 3 * MIB, SLUICE_USE_READ_WRITE);
	use_check(trace, 6, "work_add", 1, 2 * MIB, SLUICE_USE_READ_WRITE);
	CHECK(trace->n_copies == 2);
	CHECK(trace->copies[0].to_device && trace->copies[0].before_launch == 2 &&
	      trace->copies[0].bytes == MIB);
	CHECK(!trace->copies[1].to_device && trace->copies[1].before_launch == 6 &&
	      trace->copies[1].bytes == 4096);
	c = tensor_of_bytes(trace, 3 * MIB);
	CHECK(c->alloc_at == 3 && c->free_at == 6);
	CHECK(!strcmp(sl_trace_name(trace, tensor_of_bytes(trace, 4096)->name),
		      "small blocks"));
	sl_trace_destroy(trace);
}

static void
what_grows_is_another_tensor_then(void)
{
	struct sl_trace *trace = trace_of("growing", "");
	uint64_t bytes[3];

	CHECK(trace->n_launches == 3);
	for (uint32_t k = 0; k < 3; k++) {
		CHECK(trace->launches[k].n_uses == 1);
		bytes[k] = trace->tensors[trace->uses[k].tensor].size_bytes;
	}
	CHECK(bytes[0] == GRANULE && bytes[1] == 2 * GRANULE && bytes[2] == GRANULE);
	CHECK(trace->uses[0].tensor != trace->uses[2].tensor);
	CHECK(trace->uses[0].intent == SLUICE_USE_WRITE_ALL);
	CHECK(trace->uses[1].intent == SLUICE_USE_READ_WRITE);
	for (uint32_t k = 0; k < 3; k++)
		CHECK(trace->tensors[trace->uses[k].tensor].free_at == k + 1);
	sl_trace_destroy(trace);
}

static void
parts_of_a_pool_are_tensors(void)
{
	struct sl_trace *trace = trace_of("pool", "");
	const uint64_t mib[3] = {1, 2, 3};

	CHECK(trace->n_launches == 8);
	for (uint32_t k = 0; k < 6; k++)
		use_check(trace, k, "work_add", 1, mib[k % 3] * MIB, SLUICE_USE_READ_WRITE);
	for (uint32_t k = 6; k < 8; k++) {
		use_check(trace, k, "work_copy", 2, 4 * MIB, SLUICE_USE_READ_WRITE);
		use_check(trace, k, "work_copy", 2, 2 * MIB, SLUICE_USE_READ_WRITE);
	}
	CHECK(trace->n_copies == 3);
	for (uint32_t i = 0; i < 3; i++)
		CHECK(trace->copies[i].bytes == mib[i] * MIB &&
		      trace->tensors[trace->copies[i].tensor].size_bytes == mib[i] * MIB);
	for (uint32_t t = 0; t < trace->n_tensors; t++)
		CHECK(trace->tensors[t].free_at == 8 || trace->tensors[t].size_bytes < MIB);
	sl_trace_destroy(trace);
}

static void
threads_tell_all_of_it(void)
{
	struct sl_trace *trace = trace_of("threads", "");
	uint32_t n = 0;

	CHECK(trace->n_launches == WORK_THREADS * LAUNCHES);
	for (uint32_t k = 0; k < trace->n_launches; k++)
		use_check(trace, k, "work_add", 1, WORK_BLOCK_BYTES, SLUICE_USE_WRITE_ALL);
	for (uint32_t t = 0; t < trace->n_tensors; t++) {
		if (trace->tensors[t].size_bytes != WORK_BLOCK_BYTES)
			continue;
		CHECK(trace->tensors[t].kind == SL_TENSOR_LOCAL &&
		      trace->tensors[t].free_at != SL_TRACE_NONE);
		n++;
	}
	CHECK(n == WORK_THREADS * LAUNCHES);
	sl_trace_destroy(trace);
}

static void
what_is_moved_out_has_a_ratio(void)
{
	static const struct {
		uint32_t least, most;
	} rows[SAMPLED] = {{5, 5},   {10000, 10000}, {6700, 7100},
			   {43, 45}, {3300, 3700},   {4500, 7000}};
	struct sl_trace *trace = trace_of("sampled", "");

	for (uint32_t i = 0; i < SAMPLED; i++) {
		uint32_t ratio = tensor_of_bytes(trace, (4 + i) * MIB)->ratio;

		printf("%u MiB: ratio %u\n", 4 + i, ratio);
		CHECK(ratio >= rows[i].least && ratio <= rows[i].most);
	}
	CHECK(!tensor_of_bytes(trace, MIB)->ratio); /* it never left */
	sl_trace_destroy(trace);
}

static void
each_gpu_has_its_own(void)
{
	struct sl_trace *first = trace_of("gpus", ""),
			*second = trace_of("gpus", ".gpu1");

	CHECK(first->n_launches == 1 && second->n_launches == 2);
	use_check(first, 0, "work_add", 1, MIB, SLUICE_USE_WRITE_ALL);
	use_check(second, 1, "work_add", 1, 2 * MIB, SLUICE_USE_READ_WRITE);
	sl_trace_destroy(first);
	sl_trace_destroy(second);
}

int
main(void)
{
	int status;

	scenario_open();
	status = recorded("kinds", all_kinds, "");
	if (!status) {
		all_kinds_are_told_as_what_they_do();
		if (!recorded("growing", growing, ",mapped=all"))
			what_grows_is_another_tensor_then();
		if (!recorded("pool", pool, ""))
			parts_of_a_pool_are_tensors();
		if (!recorded("threads", threads, ""))
			threads_tell_all_of_it();
		if (!recorded("sampled", sampled, ""))
			what_is_moved_out_has_a_ratio();
		if (!recorded("early", ends_while_written, ",record_launches=20000"))
			sl_trace_destroy(trace_of("early", ""));
		if (!recorded("bound", two_gpus, ",record_launches=1"))
			second_gpu_is_not_recorded_beyond_the_bound();
		if (!recorded("gpus", two_gpus, ""))
			each_gpu_has_its_own();
	}
	return scenario_close() ? 1 : status == 77 ? 77 : 0;
}
