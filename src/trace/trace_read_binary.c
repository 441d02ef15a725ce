/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary form of a trace: tags and varints, read once from the first byte to the
 * last. The end record closes with a CRC of everything before it. Rules of records:
 * trace_read.c.
 *
 * Errors name the record (from 0) and the byte at which it begins.
 *
 * Threads: no state.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace_format.h"

struct binary {
	struct sl_trace_reader *reader;
	const uint8_t *data;
	size_t at, bytes;
	/* Names seen, in order: offsets into the trace's strings. */
	uint32_t *names;
	uint32_t n_names, max_names;
	char text[SL_TRACE_NAME_MAX + 1];
};

static int
truncated(void)
{
	return sl_fail(-EINVAL, "the file ends inside this record: it is incomplete");
}

/* Seven bits a byte, the lowest first; the shortest form only. */
static int
varint_take(struct binary *b, uint64_t *out)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte;

		if (b->at == b->bytes)
			return truncated();
		byte = b->data[b->at++];
		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (byte == 0 && shift > 0)
			return sl_fail(-EINVAL, "a number with needless zeros");
		*out = value;
		return 0;
	}
	return sl_fail(-EINVAL, "a number above 2^64");
}

/* A string into b->text. */
static int
string_take(struct binary *b)
{
	uint64_t length;
	int rc = varint_take(b, &length);

	if (rc)
		return rc;
	if (length == 0 || length > SL_TRACE_NAME_MAX)
		return sl_fail(-EINVAL, "a name of %" PRIu64 " bytes; it must have 1 to %u",
			       length, SL_TRACE_NAME_MAX);
	if (length > b->bytes - b->at)
		return truncated();
	memcpy(b->text, b->data + b->at, length);
	b->text[length] = '\0';
	b->at += length;
	if (strlen(b->text) != length)
		return sl_fail(-EINVAL, "a name with a zero byte");
	return 0;
}

/* A reference to a name into b->text: 0 none, 1 a new one follows, else one seen
 * before. */
static int
name_take(struct binary *b, int *is_new)
{
	uint64_t reference;
	int rc = varint_take(b, &reference);

	*is_new = 0;
	b->text[0] = '\0';
	if (rc || reference == 0)
		return rc;
	if (reference == 1) {
		*is_new = 1;
		return string_take(b);
	}
	if (reference - 2 >= b->n_names)
		return sl_fail(-EINVAL, "name %" PRIu64 " of %u", reference - 2, b->n_names);
	strcpy(b->text, sl_trace_name(b->reader->trace, b->names[reference - 2]));
	return 0;
}

/* Remember where the trace keeps a new name. */
static int
name_keep(struct binary *b, uint32_t name)
{
	if (b->n_names == b->max_names) {
		uint32_t more = b->max_names ? b->max_names * 2 : 256;
		uint32_t *grown = reallocarray(b->names, more, sizeof(*grown));

		if (!grown)
			return sl_fail(-ENOMEM, "no memory for more names");
		b->names = grown;
		b->max_names = more;
	}
	b->names[b->n_names++] = name;
	return 0;
}

static int
uses_take(struct binary *b, uint64_t n)
{
	uint64_t tensor = 0, field;
	int rc = 0;

	for (uint64_t i = 0; !rc && i < n; i++) {
		rc = varint_take(b, &field);
		if (rc)
			break;
		/* The distance to the tensor before; the first one's is its number. */
		tensor += field >> 3;
		if (tensor > SL_TRACE_TENSORS_MAX)
			return sl_fail(-EINVAL, "a use of tensor %" PRIu64, tensor);
		rc = sl_trace_records[SL_RECORD_USE].take(
			b->reader, &(struct sl_trace_values){{tensor, field & 7}, ""});
	}
	return rc;
}

/* Behind the last record: the CRC of all before it. */
static int
crc_take(struct binary *b)
{
	size_t covered = b->at;
	uint32_t crc;

	if (b->bytes - b->at < 4)
		return truncated();
	crc = (uint32_t)b->data[b->at] | (uint32_t)b->data[b->at + 1] << 8 |
	      (uint32_t)b->data[b->at + 2] << 16 | (uint32_t)b->data[b->at + 3] << 24;
	b->at += 4;
	if (crc != sl_trace_crc(0, b->data, covered))
		return sl_fail(-EINVAL, "the CRC does not match: the file is damaged");
	return 0;
}

/* A launch: its start is stated as a distance; the number of its uses. */
static int
launch_fields(struct binary *b, uint64_t *fields, uint64_t *n_uses)
{
	uint64_t gap = fields[0];
	int rc = varint_take(b, n_uses);

	if (!rc && __builtin_add_overflow(sl_trace_reader_now(b->reader), gap, &fields[0]))
		rc = sl_fail(-EINVAL, "a launch %" PRIu64 " ticks after the one before", gap);
	return rc;
}

static int
record_take(struct binary *b)
{
	const struct sl_trace *trace = b->reader->trace;
	const struct sl_trace_record *record;
	struct sl_trace_values v = {.text = b->text};
	uint64_t tag, n_uses = 0;
	int is_new = 0;
	int rc = varint_take(b, &tag);

	if (rc)
		return rc;
	if (tag >= SL_TAG_COUNT)
		return sl_fail(-EINVAL, "a record of type %" PRIu64 ", which is none", tag);
	record = &sl_trace_records[tag];
	for (int i = 0; !rc && i < SL_TRACE_FIELDS_MAX && record->fields[i].what; i++)
		rc = varint_take(b, &v.fields[i]);
	if (!rc && record->has_source)
		rc = string_take(b);
	if (!rc && record->has_name)
		rc = name_take(b, &is_new);
	if (!rc && tag == SL_TAG_LAUNCH)
		rc = launch_fields(b, v.fields, &n_uses);
	if (!rc && tag == SL_TAG_END)
		rc = crc_take(b);
	if (!rc)
		rc = record->take(b->reader, &v);
	if (!rc && is_new)
		rc = name_keep(b, tag == SL_TAG_LAUNCH
					  ? trace->launches[trace->n_launches - 1].name
					  : trace->tensors[trace->n_tensors - 1].name);
	return rc ? rc : uses_take(b, n_uses);
}

int
sl_trace_read_binary(struct sl_trace_reader *r, const uint8_t *data, size_t bytes,
		     const char *label)
{
	struct binary b = {.reader = r, .data = data, .at = SL_TRACE_MAGIC_BYTES, .bytes = bytes};
	uint64_t version;
	int rc = varint_take(&b, &version);

	if (!rc)
		rc = sl_trace_reader_version(r, version);
	if (rc)
		return sl_fail_in(rc, "%s", label);
	for (uint64_t record = 0; !rc && !r->ended; record++) {
		size_t begin = b.at;

		rc = record_take(&b);
		if (rc)
			sl_ignore(sl_fail_in(rc, "%s: record %" PRIu64 " at byte %zu",
					     label, record, begin)); /* rc is kept */
	}
	if (!rc && b.at < bytes)
		rc = sl_fail(-EINVAL, "%s: %zu bytes behind the end record at byte %zu",
			     label, bytes - b.at, b.at);
	free(b.names);
	return rc;
}
