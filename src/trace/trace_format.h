/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the writer and the readers of trace files: versions, and the
 * table of records (trace_read.c), which drives both forms. sluice-trace(5) describes the forms.
 *
 *   trace_write.c        both forms
 *   trace_read.c         the choice of form; the table and the rules of each record
 *   trace_read_text.c    lines and words
 *   trace_read_binary.c  tags and varints
 *
 * Threads: no state.
 */
#ifndef SL_TRACE_TRACE_FORMAT_H
#define SL_TRACE_TRACE_FORMAT_H

#include "trace/trace.h"

#define SL_TRACE_VERSION_MAX   2u /* read; a trace without ratios is written in version 1 */
#define SL_TRACE_VERSION_RATIO 2u             /* the first with ratios */
#define SL_TRACE_WORD          "sluice-trace" /* first word of the text form */
/* First bytes of the binary form: not text, and broken by a transfer as text. */
#define SL_TRACE_MAGIC         "\x89SLTR\r\n"
#define SL_TRACE_MAGIC_BYTES   7u
#define SL_TRACE_FILE_MAX      ((size_t)4 << 30)

/* The records of both forms. Their numbers are the tags of the binary form. */
enum sl_trace_tag {
	SL_TAG_END = 0, /* behind it the CRC */
	SL_TAG_CLOCK = 1,
	SL_TAG_SOURCE = 2,
	SL_TAG_FORWARD = 3,
	SL_TAG_TENSOR = 4,
	SL_TAG_ALLOC = 5,
	SL_TAG_FREE = 6,
	SL_TAG_COPY_IN = 7,
	SL_TAG_COPY_OUT = 8,
	SL_TAG_PERIOD = 9,
	SL_TAG_LAUNCH = 10, /* the start is a distance from the launch before; behind it the uses */
	SL_TAG_RATIO = 11, /* from version 2 on */
	SL_TAG_COUNT,
	SL_RECORD_USE = SL_TAG_COUNT, /* a record of the text form only */
	SL_RECORD_COUNT
};

/* A trace on its way in: which records came. */
struct sl_trace_reader {
	struct sl_trace *trace;
	uint8_t *used; /* by tensor: a launch or copy has it */
	uint32_t max_used;
	uint32_t version; /* of the file */
	int has_clock, has_source, has_forward;
	uint32_t n_periods; /* begun by a record */
	int ended;
};

#define SL_TRACE_FIELDS_MAX 4

/* What came with a record. */
struct sl_trace_values {
	uint64_t fields[SL_TRACE_FIELDS_MAX];
	const char *text; /* source or name; "": none */
};

/* A number of a record. */
struct sl_trace_field {
	const char *what; /* for errors; NULL: there is none */
	/* The text form has a word for each value; NULL: it has the number. */
	const char *(*word)(unsigned value);
	unsigned n_words;
	const char *unknown; /* the error about another word: what it is not, what there is */
};

/* What a record has, in this order. */
struct sl_trace_record {
	const char *word;
	/* The text form numbers these records: what the number is, and the next. NULL: it does not. */
	const char *numbered;
	uint32_t (*next)(const struct sl_trace_reader *r);
	struct sl_trace_field fields[SL_TRACE_FIELDS_MAX];
	int has_source, has_name; /* a text; a name, which may be missing */
	/* Its rules. -EINVAL with a text that the caller puts its place before. */
	int (*take)(struct sl_trace_reader *r, const struct sl_trace_values *v);
};
extern const struct sl_trace_record sl_trace_records[SL_RECORD_COUNT];

/* The version that a file states. -ENOTSUP: this program does not read it. */
int sl_trace_reader_version(struct sl_trace_reader *r, uint64_t version) SL_MUST_CHECK;

/* Where the launch before ends; 0 before the first. */
uint64_t sl_trace_reader_now(const struct sl_trace_reader *r);

int sl_trace_read_text(struct sl_trace_reader *r, const char *text, size_t bytes,
		       const char *label) SL_MUST_CHECK;
int sl_trace_read_binary(struct sl_trace_reader *r, const uint8_t *data, size_t bytes,
			 const char *label) SL_MUST_CHECK;

/* CRC-32 (IEEE) of more bytes behind those of crc; 0 to begin with. */
uint32_t sl_trace_crc(uint32_t crc, const void *data, size_t bytes);

#endif
