/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes for sl_trace_decode(). Refused bytes give one of the stated errors and leave no
 * trace. Accepted ones pass sl_trace_check(), have a vitality (if small) and read back the same
 * from both forms. They stay valid when their periods and kinds are found anew.
 */
#include "trace/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plan/vitality.h"

#define LAUNCHES_FEW 10000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file in memory, and its name. */
static int
scratch_file(char path[64])
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("fuzz_trace", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0))
		abort();
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

static void
check_same(const struct sl_trace *a, const struct sl_trace *b)
{
	if (a->n_tensors != b->n_tensors || a->n_launches != b->n_launches ||
	    a->n_uses != b->n_uses || a->n_copies != b->n_copies ||
	    a->n_periods != b->n_periods || a->n_forward != b->n_forward ||
	    a->clock_hz != b->clock_hz)
		abort();
	for (uint32_t i = 0; i < a->n_uses; i++)
		if (a->uses[i].tensor != b->uses[i].tensor ||
		    a->uses[i].intent != b->uses[i].intent)
			abort();
	for (uint32_t t = 0; t < a->n_tensors; t++)
		if (a->tensors[t].size_bytes != b->tensors[t].size_bytes ||
		    a->tensors[t].alloc_at != b->tensors[t].alloc_at ||
		    a->tensors[t].free_at != b->tensors[t].free_at ||
		    a->tensors[t].ratio != b->tensors[t].ratio ||
		    strcmp(sl_trace_name(a, a->tensors[t].name),
			   sl_trace_name(b, b->tensors[t].name)) != 0)
			abort();
}

static void
check_taken(const struct sl_trace *trace)
{
	struct sl_trace *back;
	struct sl_vitality v;
	char path[64];

	if (sl_trace_check(trace))
		abort();
	for (int text = 0; text < 2; text++) {
		scratch_file(path);
		if (sl_trace_write(trace, path, text) || sl_trace_read(path, &back))
			abort();
		check_same(trace, back);
		sl_trace_destroy(back);
	}
	if (trace->n_launches > LAUNCHES_FEW || trace->n_tensors > LAUNCHES_FEW)
		return;
	for (uint32_t p = 0; p < trace->n_periods && p < 3; p++) {
		if (sl_vitality_make(trace, p, &v))
			abort();
		for (uint32_t k = 0; k < v.n_launches; k++)
			if (v.alive_bytes[k] < v.active_bytes[k])
				abort();
		sl_vitality_fini(&v);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_trace *trace = NULL;
	int rc = sl_trace_decode(data, size, "input", &trace);

	if (rc) {
		if (trace ||
		    (rc != -EINVAL && rc != -E2BIG && rc != -ENOTSUP && rc != -ENOMEM))
			abort();
		return 0;
	}
	check_taken(trace);
	if (sl_trace_find_periods(trace) || sl_trace_find_kinds(trace) ||
	    sl_trace_check(trace))
		abort();
	sl_trace_destroy(trace);
	return 0;
}
