/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace in memory: what a program launched, in order, and which tensors each launch
 * used with which intent. The same thing whether it was recorded (event rings), imported
 * (the inputs of the paper G10) or made by a test. Readers and writers of files:
 * trace_read.c, trace_write.c; this file has the model and its
 * validity.
 *
 * Time is counted in ticks of clock_hz, so that imported cycle counts stay exact. A trace
 * holds one or more periods (training iterations); launches of period p are
 * period_first[p] ... period_first[p + 1] - 1. A trace of one period is understood to
 * repeat.
 *
 * Threads: plain data; no function here keeps state.
 */
#ifndef SL_TRACE_TRACE_H
#define SL_TRACE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sluice/launch.h"

#define SL_TRACE_NONE UINT32_MAX

/* Bounds a reader enforces; far above every known program. */
#define SL_TRACE_TENSORS_MAX  (1u << 24)
#define SL_TRACE_LAUNCHES_MAX (1u << 24)
#define SL_TRACE_USES_MAX     (1u << 27)
#define SL_TRACE_SIZE_MAX     ((uint64_t)1 << 50) /* bytes of one tensor */
#define SL_TRACE_TICKS_MAX    ((uint64_t)1 << 56) /* of one launch, and in sum */
#define SL_TRACE_NAME_MAX     255u           /* bytes of one name, and of the source */
#define SL_TRACE_CLOCK_MAX    1000000000000u /* Hz */

/* A ratio of 1: ratios are in ten-thousandths. */
#define SL_TRACE_RATIO_ONE 10000u

enum sl_tensor_kind {
	SL_TENSOR_GLOBAL, /* keeps its contents from period to period (weights, state) */
	SL_TENSOR_LOCAL,  /* made and dead within a period (outputs, gradients) */
	SL_TENSOR_WORKSPACE, /* local, used by one launch only, contents matter to nobody */
	SL_TENSOR_KIND_COUNT
};

struct sl_tensor {
	uint64_t size_bytes; /* > 0 */
	enum sl_tensor_kind kind;
	uint32_t name; /* offset in strings; SL_TRACE_NONE: no name */
	/* Explicit life, launch numbers: allocated before launch alloc_at, freed
	 * before launch free_at. SL_TRACE_NONE: the trace does not say. (Vitality goes
	 * by the uses: memory held without need is not alive.) */
	uint32_t alloc_at, free_at;
	/* Encoded bytes of its contents (src/codec) for SL_TRACE_RATIO_ONE raw ones; at most as
	 * many, since what does not shrink is moved raw. 0: not known. */
	uint32_t ratio;
};

struct sl_trace_use {
	uint32_t tensor;
	enum sluice_intent intent;
};

struct sl_trace_launch {
	uint64_t start_ticks; /* after the trace's begin; launches do not overlap */
	uint64_t ticks;       /* > 0: duration with every tensor resident */
	/* The same launch with outputs, and with inputs and outputs, absent and
	 * brought in by the stock driver's faults. 0: not measured; else ticks <=
	 * output <= all. */
	uint64_t fault_output_ticks, fault_all_ticks;
	uint32_t name;      /* offset in strings; SL_TRACE_NONE */
	uint32_t first_use; /* uses[first_use ... first_use + n_uses - 1], ascending tensor
			     * numbers, each tensor once */
	uint32_t n_uses;
};

/* A copy by the program itself (not by us) between host and a tensor. */
struct sl_trace_copy {
	uint32_t before_launch; /* happens before this launch */
	uint32_t tensor;
	int to_device; /* 1: host to device */
	uint64_t bytes;
};

struct sl_trace {
	uint64_t clock_hz; /* > 0 */
	char *source;      /* one line for people: where the trace comes from. Owned */
	struct sl_tensor *tensors;
	uint32_t n_tensors;
	struct sl_trace_launch *launches;
	uint32_t n_launches;
	struct sl_trace_use *uses;
	uint32_t n_uses;
	struct sl_trace_copy *copies; /* ascending before_launch */
	uint32_t n_copies;
	uint32_t *period_first; /* n_periods + 1 entries, the last is n_launches */
	uint32_t n_periods;     /* >= 1 */
	/* Launches of a period that belong to the forward pass: 0 ... n_forward - 1;
	 * the launch n_forward is the loss. SL_TRACE_NONE: unknown. (FlashNeuron needs
	 * it.) */
	uint32_t n_forward;
	char *strings; /* names, each ended by NUL, each once. Owned */
	size_t strings_bytes;
	/* For the building functions: room of the arrays above, and a table of the
	 * names. */
	struct {
		uint32_t tensors, launches, uses, copies, periods;
		size_t strings;
	} max;
	uint32_t *name_slots; /* offsets by hash; SL_TRACE_NONE: empty */
	uint32_t n_names, n_name_slots;
};

/* An empty trace (all zero, clock set); free releases everything and takes NULL. */
int sl_trace_create(uint64_t clock_hz, struct sl_trace **out) SL_MUST_CHECK;
void sl_trace_destroy(struct sl_trace *trace);

/*
 * Building: each appends and grows as needed. Errors: -ENOMEM, -E2BIG (a bound above),
 * -EINVAL with a text naming the record. name may be NULL. The launch whose uses are
 * added is the last one appended. A tensor used twice by one launch: the intents are
 * joined (read + write-all = read-write; scratch joins with nothing but scratch). On
 * failure the trace is as it was.
 */
int sl_trace_add_tensor(struct sl_trace *trace, uint64_t size_bytes, enum sl_tensor_kind kind,
			const char *name, uint32_t *number) SL_MUST_CHECK;
int sl_trace_add_launch(struct sl_trace *trace, uint64_t ticks, const char *name,
			uint32_t *number) SL_MUST_CHECK; /* starts when the one before ends */
int sl_trace_add_launch_at(struct sl_trace *trace, uint64_t start_ticks, uint64_t ticks,
			   const char *name, uint32_t *number) SL_MUST_CHECK;
int sl_trace_add_use(struct sl_trace *trace, uint32_t tensor,
		     enum sluice_intent intent) SL_MUST_CHECK;
int sl_trace_add_copy(struct sl_trace *trace, uint32_t tensor, int to_device,
		      uint64_t bytes) SL_MUST_CHECK;
int sl_trace_add_period(struct sl_trace *trace) SL_MUST_CHECK; /* the next launch begins one */

/*
 * Whether the whole makes sense: sizes, order, uses inside lives, free after alloc, no
 * overlap, periods ascending and not empty, sums below the bounds. -EINVAL with a text
 * that names the launch or tensor by number. Readers and importers call it last.
 */
int sl_trace_check(const struct sl_trace *trace) SL_MUST_CHECK;

const char *sl_trace_name(const struct sl_trace *trace, uint32_t name); /* "" for NONE */

/* Launches of a period: period_first[period + 1] - period_first[period]. */
uint32_t sl_trace_period_launches(const struct sl_trace *trace, uint32_t period);

/* What is known of how the contents shrink: of so many tensors and bytes of theirs, and their mean
 * ratio by bytes, as a share. 1 where nothing is known. */
struct sl_trace_ratio {
	uint32_t tensors;
	uint64_t bytes;
	double mean;
};
void sl_trace_ratio(const struct sl_trace *trace, struct sl_trace_ratio *out);

/* One line for people; replaces what was there. -ENOMEM; -EINVAL: a control character, or
 * longer than SL_TRACE_NAME_MAX. */
int sl_trace_set_source(struct sl_trace *trace, const char *source) SL_MUST_CHECK;

/*
 * period.c: what a recorded trace does not say. find_periods: the launches that repeat
 * become its periods, what comes before and behind them one each (nothing is
 * changed unless more than half of the launches repeat). find_kinds: global, local or workspace by
 * the uses, with the periods as they are. -ENOMEM.
 */
int sl_trace_find_periods(struct sl_trace *trace) SL_MUST_CHECK;
int sl_trace_find_kinds(struct sl_trace *trace) SL_MUST_CHECK;

/*
 * trace_cut.c: one period as a trace of its own, which is understood to repeat. Tensors are numbered
 * anew; what lives across the whole period without being used is global, since its memory is taken.
 * cut: -EINVAL (no such period), -ENOMEM. steady: the number of the period to take where nobody says: of
 * those with the number of launches that most have, the one with the median time.
 */
int sl_trace_cut(const struct sl_trace *trace, uint32_t period,
		 struct sl_trace **out) SL_MUST_CHECK;
int sl_trace_steady(const struct sl_trace *trace, uint32_t *period) SL_MUST_CHECK;

/* Words of files and messages: "read-write", "global". */
const char *sl_trace_intent_name(enum sluice_intent intent);
const char *sl_tensor_kind_name(enum sl_tensor_kind kind);

/* trace_write.c / trace_read.c: the files (man page sluice-trace(5)). Binary is
 * compact and can be written and read as a stream; text is for people and tests; both
 * carry a version. Errors name the file and the record (binary: record number and
 * byte; text: line). */
int sl_trace_write(const struct sl_trace *trace, const char *path, int text) SL_MUST_CHECK;
int sl_trace_read(const char *path, struct sl_trace **out) SL_MUST_CHECK; /* knows both */
int sl_trace_decode(const void *data, size_t bytes, const char *label,
		    struct sl_trace **out) SL_MUST_CHECK;

#endif
