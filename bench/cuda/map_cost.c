/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's time to change a mapping, and the copies that make it wait. Each eviction and
 * each fill changes one, and the copy engine that writes page tables also copies data. So a
 * chunk is mapped and unmapped
 * - with nothing under way,
 * - during copies in or out as a program would enqueue them: whole, in its own context,
 * - during copies in pieces of 4 MiB, in a context of their own, as the CUDA device copies out.
 *
 * It calls the driver directly, so the figure is the driver's.
 */
#include "bench_cuda.h"

#include <stdio.h>

#include "base/clock.h"

#define CHUNK_BYTES (32 * MIB)
#define PIECE_BYTES (4 * MIB)
#define COPY_BYTES  (2 * CHUNK_BYTES) /* under way when a mapping is changed */
#define AHEAD_NS    100000u           /* that long */
#define TIMES       31

enum busy { IDLE, COPY_IN, COPY_OUT, COPY_IN_APART, COPY_OUT_APART, BUSY_COUNT };

static const char *const busy_text[BUSY_COUNT] = {
	"idle",
	"while copies come in",
	"while copies go out",
	"while pieces come in, in another context",
	"while pieces go out, in another context",
};

struct probe {
	const struct sl_cuda_driver *driver;
	int device;
	int host_node;
	struct cu_context *apart; /* NULL: refused */
	struct cu_stream *stream, *stream_apart;
	uint64_t data; /* on the device */
	void *host;
};

static double
us_since(uint64_t start_ns)
{
	return (double)(sl_now_ns() - start_ns) / 1e3;
}

static void
place_report(const char *what, const char *place, enum busy busy, double *us)
{
	char name[128];

	snprintf(name, sizeof(name), "%s %d MiB of %s, %s", what,
		 (int)(CHUNK_BYTES / MIB), place, busy_text[busy]);
	report(name, median(us, TIMES), "us", 0, "");
}

/* Copies enqueued, and under way for a while. */
static void
copies_begin(const struct probe *p, enum busy busy)
{
	int apart = busy == COPY_IN_APART || busy == COPY_OUT_APART;
	uint64_t piece = apart ? PIECE_BYTES : CHUNK_BYTES, start;
	struct cu_stream *stream = apart ? p->stream_apart : p->stream;
	const struct sl_cuda_driver *d = p->driver;
	struct cu_context *current;

	if (apart)
		CHECK_OK(SL_CUDA(d, cuCtxPushCurrent, p->apart));
	for (uint64_t at = 0; busy != IDLE && at < COPY_BYTES; at += piece) {
		if (busy == COPY_IN || busy == COPY_IN_APART)
			CHECK_OK(SL_CUDA(d, cuMemcpyHtoDAsync, p->data + at,
					 (char *)p->host + at, piece, stream));
		else
			CHECK_OK(SL_CUDA(d, cuMemcpyDtoHAsync, (char *)p->host + at,
					 p->data + at, piece, stream));
	}
	if (apart)
		CHECK_OK(SL_CUDA(d, cuCtxPopCurrent, &current));
	for (start = sl_now_ns(); busy != IDLE && sl_now_ns() - start < AHEAD_NS;)
		;
}

static void
copies_end(const struct probe *p)
{
	CHECK_OK(SL_CUDA(p->driver, cuStreamSynchronize, p->stream));
	if (p->apart)
		CHECK_OK(SL_CUDA(p->driver, cuStreamSynchronize, p->stream_apart));
}

/* Memory of one place: map and unmap it, in one state of the link. */
static void
place_measure(const struct probe *p, uint64_t handle, const char *place, enum busy busy)
{
	const struct cu_access access = {{CU_LOCATION_DEVICE, p->device},
					 CU_ACCESS_READ_WRITE};
	const struct sl_cuda_driver *d = p->driver;
	double map_us[TIMES], unmap_us[TIMES];
	uint64_t addr, start;

	CHECK_OK(SL_CUDA(d, cuMemAddressReserve, &addr, CHUNK_BYTES, CHUNK_BYTES, 0, 0));
	for (int i = 0; i < TIMES; i++) {
		copies_begin(p, busy);
		start = sl_now_ns();
		CHECK_OK(SL_CUDA(d, cuMemMap, addr, CHUNK_BYTES, 0, handle, 0));
		CHECK_OK(SL_CUDA(d, cuMemSetAccess, addr, CHUNK_BYTES, &access, 1));
		map_us[i] = us_since(start);
		copies_end(p);
		copies_begin(p, busy);
		start = sl_now_ns();
		CHECK_OK(SL_CUDA(d, cuMemUnmap, addr, CHUNK_BYTES));
		unmap_us[i] = us_since(start);
		copies_end(p);
	}
	CHECK_OK(SL_CUDA(d, cuMemAddressFree, addr, CHUNK_BYTES));
	place_report("map", place, busy, map_us);
	place_report("unmap", place, busy, unmap_us);
}

static void
probe_open(struct probe *p, const struct cuda_test *t)
{
	struct sl_cuda_device_info info;
	struct cu_context *current;

	CHECK_OK(sl_cuda_device_probe(t->driver, t->device, &info));
	*p = (struct probe){.driver = t->driver,
			    .device = t->device,
			    .host_node = info.host_node};
	CHECK_OK(SL_CUDA(p->driver, cuMemAlloc, &p->data, COPY_BYTES));
	CHECK_OK(SL_CUDA(p->driver, cuMemHostAlloc, &p->host, COPY_BYTES, 0));
	CHECK_OK(SL_CUDA(p->driver, cuStreamCreate, &p->stream, CU_STREAM_NONBLOCKING));
	if (!p->driver->cuCtxCreate || p->driver->cuCtxCreate(&p->apart, 0, t->device)) {
		p->apart = NULL;
		return;
	}
	CHECK_OK(SL_CUDA(p->driver, cuStreamCreate, &p->stream_apart, CU_STREAM_NONBLOCKING));
	CHECK_OK(SL_CUDA(p->driver, cuCtxPopCurrent, &current));
}

static void
probe_close(struct probe *p)
{
	if (p->apart)
		CHECK_OK(SL_CUDA(p->driver, cuCtxDestroy, p->apart)); /* its stream, too */
	CHECK_OK(SL_CUDA(p->driver, cuStreamDestroy, p->stream));
	CHECK_OK(SL_CUDA(p->driver, cuMemFreeHost, p->host));
	CHECK_OK(SL_CUDA(p->driver, cuMemFree, p->data));
}

void
map_costs(const struct cuda_test *t)
{
	struct probe p;

	probe_open(&p, t);
	for (int host = 0; host < 2; host++) {
		struct cu_allocation what = {
			.type = CU_ALLOCATION_PINNED,
			.location = {host ? CU_LOCATION_HOST_NUMA : CU_LOCATION_DEVICE,
				     host ? p.host_node : p.device},
		};
		uint64_t handle;

		CHECK_OK(SL_CUDA(p.driver, cuMemCreate, &handle, CHUNK_BYTES, &what, 0));
		for (int busy = IDLE; busy < BUSY_COUNT; busy++)
			if (busy < COPY_IN_APART || p.apart)
				place_measure(&p, handle,
					      host ? "host memory" : "device memory",
					      (enum busy)busy);
		CHECK_OK(SL_CUDA(p.driver, cuMemRelease, handle));
	}
	probe_close(&p);
}
