/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the writer and the readers of trace files: versions, the records of the binary form,
 * and the rules for a record in either form (trace_read.c). sluice-trace(5) describes the forms.
 *
 *   trace_write.c        both forms
 *   trace_read.c         the choice of form; the rules of each record; the end
 *   trace_read_text.c    lines and words
 *   trace_read_binary.c  tags and varints
 *
 * Threads: no state.
 */
#ifndef SL_TRACE_TRACE_FORMAT_H
#define SL_TRACE_TRACE_FORMAT_H

#include "trace/trace.h"

#define SL_TRACE_VERSION     1
#define SL_TRACE_WORD        "sluice-trace" /* first word of the text form */
/* First bytes of the binary form: not text, and broken by a transfer as text. */
#define SL_TRACE_MAGIC       "\x89SLTR\r\n"
#define SL_TRACE_MAGIC_BYTES 7u
#define SL_TRACE_FILE_MAX    ((size_t)4 << 30)

/* Records of the binary form; numbers are part of the format. */
enum sl_trace_tag {
	SL_TAG_END = 0,     /* launches, tensors, uses; then the CRC */
	SL_TAG_CLOCK = 1,   /* Hz */
	SL_TAG_SOURCE = 2,  /* string */
	SL_TAG_FORWARD = 3, /* launches */
	SL_TAG_TENSOR = 4,  /* bytes, kind, name */
	SL_TAG_ALLOC = 5,   /* tensor */
	SL_TAG_FREE = 6,    /* tensor */
	SL_TAG_COPY_IN = 7, /* tensor, bytes */
	SL_TAG_COPY_OUT = 8,
	SL_TAG_PERIOD = 9,
	SL_TAG_LAUNCH = 10, /* gap, ticks, fault output, fault all, name, uses */
};

struct sl_trace_totals {
	uint64_t launches, tensors, uses;
};

/* A trace on its way in: which records came. */
struct sl_trace_reader {
	struct sl_trace *trace;
	uint8_t *used; /* by tensor: a launch or copy has it */
	uint32_t max_used;
	int has_clock, has_source, has_forward;
	uint32_t n_periods; /* begun by a record */
	int ended;
};

/* The rules of each record; -EINVAL with a text that the caller puts its place before. */
int sl_trace_reader_clock(struct sl_trace_reader *r, uint64_t hz) SL_MUST_CHECK;
int sl_trace_reader_source(struct sl_trace_reader *r, const char *source) SL_MUST_CHECK;
int sl_trace_reader_forward(struct sl_trace_reader *r, uint64_t launches) SL_MUST_CHECK;
int sl_trace_reader_tensor(struct sl_trace_reader *r, uint64_t size_bytes, uint64_t kind,
			   const char *name) SL_MUST_CHECK;
int sl_trace_reader_alloc(struct sl_trace_reader *r, uint64_t tensor) SL_MUST_CHECK;
int sl_trace_reader_free(struct sl_trace_reader *r, uint64_t tensor) SL_MUST_CHECK;
int sl_trace_reader_copy(struct sl_trace_reader *r, uint64_t tensor, int to_device,
			 uint64_t bytes) SL_MUST_CHECK;
int sl_trace_reader_period(struct sl_trace_reader *r) SL_MUST_CHECK;
int sl_trace_reader_launch(struct sl_trace_reader *r, uint64_t start_ticks,
			   uint64_t ticks, uint64_t fault_output_ticks,
			   uint64_t fault_all_ticks, const char *name) SL_MUST_CHECK;
int sl_trace_reader_use(struct sl_trace_reader *r, uint64_t tensor,
			uint64_t intent) SL_MUST_CHECK;
int sl_trace_reader_end(struct sl_trace_reader *r,
			const struct sl_trace_totals *totals) SL_MUST_CHECK;

/* Where the launch before ends; 0 before the first. */
uint64_t sl_trace_reader_now(const struct sl_trace_reader *r);

int sl_trace_read_text(struct sl_trace_reader *r, const char *text, size_t bytes,
		       const char *label) SL_MUST_CHECK;
int sl_trace_read_binary(struct sl_trace_reader *r, const uint8_t *data, size_t bytes,
			 const char *label) SL_MUST_CHECK;

/* CRC-32 (IEEE) of more bytes behind those of crc; 0 to begin with. */
uint32_t sl_trace_crc(uint32_t crc, const void *data, size_t bytes);

#endif
