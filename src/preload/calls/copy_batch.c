/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of copies, and decompression by the copy engines. One scope covers all copies of a
 * call, or a part of at most PART_MAX of them. The copies of a batch have no order among
 * themselves, and parts follow each other on the stream.
 *
 * The older version of a call also returns the index of the failed copy. In a call made in parts
 * it counts over all.
 *
 * Between a pointer and an array lengths are in elements of the array, which are not queried.
 * The pointer's use then goes to the end of its block.
 *
 * Threads: any.
 */
#include <stdbool.h>

#include "preload/api/api_copy.h"
#include "preload/calls/touch.h"
#include "preload/gpu.h"
#include "preload/guest.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/scope.h"
#include "preload/streams/capture.h"
#include "sluice/sluice.h"

#define PART_MAX ((size_t)128)

/* The index of what failed in a part, over all. SIZE_MAX: none in particular. */
static void
failed_move(size_t *failed, size_t first)
{
	if (failed && *failed != SIZE_MAX)
		*failed += first;
}

static size_t
part_of(size_t n, size_t first)
{
	return n - first < PART_MAX ? n - first : PART_MAX;
}

/* ---- bytes in a row ---- */

struct batch {
	void *real;
	int old; /* the first version */
	uint64_t *to, *from;
	size_t *bytes;
	size_t n;
	struct cu_copy_attributes *attributes;
	size_t *firsts, n_attributes;
	size_t *failed;
	struct cu_stream *stream;
	enum pl_default_stream flavour;
};

static int
copy_batch_forward(const struct batch *b)
{
	__typeof__(&cuMemcpyBatchAsync) first = b->real;
	__typeof__(&cuMemcpyBatchAsync_v2) second = b->real;

	if (b->old)
		return first(b->to, b->from, b->bytes, b->n, b->attributes, b->firsts,
			     b->n_attributes, b->failed, b->stream);
	return second(b->to, b->from, b->bytes, b->n, b->attributes, b->firsts,
		      b->n_attributes, b->stream);
}

/* The attributes of copy i. */
static struct cu_copy_attributes *
attributes_of(const struct batch *b, size_t i)
{
	size_t k = 0;

	while (k + 1 < b->n_attributes && b->firsts[k + 1] <= i)
		k++;
	return &b->attributes[k];
}

struct row {
	const struct batch *batch;
	size_t i;
};

static int
piece_row(void *arg, uint64_t x, uint64_t y, uint64_t z, uint64_t width, uint64_t height)
{
	const struct row *row = arg;
	const struct batch *b = row->batch;
	struct batch one = *b;
	uint64_t to = b->to[row->i] + x, from = b->from[row->i] + x;
	size_t bytes = width, first = 0;

	(void)y;
	(void)z;
	(void)height;
	one.to = &to;
	one.from = &from;
	one.bytes = &bytes;
	one.n = 1;
	one.attributes = attributes_of(b, row->i);
	one.firsts = &first;
	one.n_attributes = 1;
	return copy_batch_forward(&one);
}

static int
batch_in_pieces(const struct batch *b)
{
	int result = CU_SUCCESS;

	for (size_t i = 0; i < b->n && !result; i++) {
		const struct pl_side to = {.addr = b->to[i]}, from = {.addr = b->from[i]};
		struct row row = {.batch = b, .i = i};

		result = pl_pieces(&to, &from, b->bytes[i], 1, 1, piece_row, &row);
		if (result)
			failed_move(b->failed, i);
	}
	PL_COUNT(copies_split, result == CU_SUCCESS);
	return result;
}

/* At most PART_MAX copies. */
static int
batch_part(const struct batch *b)
{
	struct pl_use uses[2 * PART_MAX];
	struct pl_touch touch;
	int result;

	pl_touch_init(&touch, uses, 2 * PART_MAX);
	for (size_t i = 0; i < b->n; i++) {
		pl_touch_add(&touch, b->to[i], b->bytes[i], SLUICE_USE_WRITE_ALL);
		pl_touch_add(&touch, b->from[i], b->bytes[i], SLUICE_USE_READ);
	}
	result = pl_touch_begin(&touch, b->stream, b->flavour);
	if (result)
		return result;
	result = copy_batch_forward(b);
	if (pl_touch_is_split(&touch, result))
		result = batch_in_pieces(b);
	pl_touch_end(&touch);
	return result;
}

/* More than that. Each part gets the attributes that apply in it. */
static int
batch_in_parts(const struct batch *b)
{
	struct cu_copy_attributes attributes[PART_MAX];
	size_t firsts[PART_MAX];
	size_t k = 0;

	for (size_t first = 0; first < b->n;) {
		struct batch part = *b;
		int result;

		part.n = part_of(b->n, first);
		part.to += first;
		part.from += first;
		part.bytes += first;
		part.attributes = attributes;
		part.firsts = firsts;
		while (k + 1 < b->n_attributes && b->firsts[k + 1] <= first)
			k++;
		attributes[0] = b->attributes[k];
		firsts[0] = 0;
		part.n_attributes = 1;
		for (size_t next = k + 1;
		     next < b->n_attributes && b->firsts[next] < first + part.n &&
		     part.n_attributes < PART_MAX;
		     next++) {
			attributes[part.n_attributes] = b->attributes[next];
			firsts[part.n_attributes++] = b->firsts[next] - first;
		}
		result = batch_part(&part);
		if (result) {
			failed_move(b->failed, first);
			return result;
		}
		first += part.n;
	}
	return CU_SUCCESS;
}

static void
batch_note(const struct batch *b)
{
	if (pl_stream_captures(b->stream, b->flavour))
		return;
	for (size_t i = 0; i < b->n; i++)
		if (b->bytes[i] <= PL_TABLE_BYTES_MAX && pl_maybe_ours(b->to[i]))
			pl_host_note(b->to[i], (void *)(uintptr_t)b->from[i], b->bytes[i]);
}

static bool
batch_is_managed(const struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		if (pl_is_managed(b->to[i]) || pl_is_managed(b->from[i]))
			return true;
	return false;
}

static int
copy_batch_run(const struct batch *b)
{
	int result;

	/* What has no sense is the driver's to refuse. */
	if (!pl_active() || !b->to || !b->from || !b->bytes || !b->attributes ||
	    !b->firsts || !b->n_attributes || b->n_attributes > b->n || b->firsts[0] ||
	    !batch_is_managed(b))
		return copy_batch_forward(b);
	for (size_t k = 1; k < b->n_attributes; k++)
		if (b->firsts[k] <= b->firsts[k - 1] || b->firsts[k] >= b->n)
			return copy_batch_forward(b);
	result = b->n > PART_MAX ? batch_in_parts(b) : batch_part(b);
	batch_note(b); /* what is overwritten has been forgotten */
	return result;
}

#define BATCH(function, stream_0, ...)                                   \
	copy_batch_run(&(const struct batch){.real = (void *)(function), \
					     .flavour = (stream_0),      \
					     __VA_ARGS__})

/* clang-format off */
PL_DEFINE_BOTH(cuMemcpyBatchAsync, ptsz, BATCH,
	       (uint64_t *to, uint64_t *from, size_t *bytes, size_t n,
		struct cu_copy_attributes *attributes, size_t *firsts, size_t n_attributes,
		size_t *failed, struct cu_stream *stream),
	       .old = 1, .to = to, .from = from, .bytes = bytes, .n = n,
	       .attributes = attributes, .firsts = firsts, .n_attributes = n_attributes,
	       .failed = failed, .stream = stream)
PL_DEFINE_BOTH(cuMemcpyBatchAsync_v2, ptsz, BATCH,
	       (uint64_t *to, uint64_t *from, size_t *bytes, size_t n,
		struct cu_copy_attributes *attributes, size_t *firsts, size_t n_attributes,
		struct cu_stream *stream),
	       .to = to, .from = from, .bytes = bytes, .n = n, .attributes = attributes,
	       .firsts = firsts, .n_attributes = n_attributes, .stream = stream)
/* clang-format on */

/* ---- boxes ---- */

struct boxes {
	void *real;
	int old;
	struct cu_batch_3d *copies;
	size_t n;
	size_t *failed;
	unsigned long long flags;
	struct cu_stream *stream;
	enum pl_default_stream flavour;
};

static int
boxes_forward(const struct boxes *b)
{
	__typeof__(&cuMemcpy3DBatchAsync) first = b->real;
	__typeof__(&cuMemcpy3DBatchAsync_v2) second = b->real;

	if (b->old)
		return first(b->n, b->copies, b->failed, b->flags, b->stream);
	return second(b->n, b->copies, b->flags, b->stream);
}

/* Of a copy between pointers. */
static struct pl_side
side_of(const struct cu_operand *operand, const struct cu_batch_3d *copy)
{
	struct pl_side side = {.addr = operand->pointer.addr};

	side.pitch = operand->pointer.row ? operand->pointer.row : copy->width;
	side.layer = side.pitch * (operand->pointer.layer_rows ? operand->pointer.layer_rows
							       : copy->height);
	return side;
}

static bool
has_array(const struct cu_batch_3d *copy)
{
	return copy->to.type != CU_OPERAND_POINTER || copy->from.type != CU_OPERAND_POINTER;
}

static void
operand_touch(struct pl_touch *touch, const struct cu_operand *operand,
	      const struct cu_batch_3d *copy, int written)
{
	enum sluice_intent intent = written ? SLUICE_USE_WRITE : SLUICE_USE_READ;
	uint64_t bytes = UINT64_MAX; /* to the end of the block */
	struct pl_side side;

	if (operand->type != CU_OPERAND_POINTER || !copy->width || !copy->height ||
	    !copy->depth)
		return;
	if (!has_array(copy)) {
		side = side_of(operand, copy);
		bytes = pl_box_bytes(&side, copy->width, copy->height, copy->depth);
		if (written && pl_box_is_dense(&side, copy->width, copy->height, copy->depth))
			intent = SLUICE_USE_WRITE_ALL;
	}
	pl_touch_add(touch, operand->pointer.addr, bytes, intent);
}

struct one_box {
	const struct boxes *boxes;
	const struct cu_batch_3d *copy;
};

static int
piece_box(void *arg, uint64_t x, uint64_t y, uint64_t z, uint64_t width, uint64_t height)
{
	const struct one_box *box = arg;
	struct boxes one = *box->boxes;
	struct cu_batch_3d piece = *box->copy;
	const struct pl_side to = side_of(&piece.to, &piece);
	const struct pl_side from = side_of(&piece.from, &piece);

	piece.to.pointer.addr += x + y * to.pitch + z * to.layer;
	piece.from.pointer.addr += x + y * from.pitch + z * from.layer;
	piece.to.pointer.row = to.pitch;
	piece.from.pointer.row = from.pitch;
	piece.to.pointer.layer_rows = piece.from.pointer.layer_rows = 0;
	piece.width = width;
	piece.height = height;
	piece.depth = 1;
	one.copies = &piece;
	one.n = 1;
	return boxes_forward(&one);
}

static int
boxes_in_pieces(const struct boxes *b)
{
	int result = CU_SUCCESS;

	for (size_t i = 0; i < b->n && !result; i++) {
		struct cu_batch_3d *copy = &b->copies[i];
		struct one_box box = {.boxes = b, .copy = copy};
		struct boxes one = *b;

		if (has_array(copy)) {
			one.copies = copy;
			one.n = 1;
			result = boxes_forward(&one);
		} else {
			const struct pl_side to = side_of(&copy->to, copy);
			const struct pl_side from = side_of(&copy->from, copy);

			result = pl_pieces(&to, &from, copy->width, copy->height,
					   copy->depth, piece_box, &box);
		}
		if (result)
			failed_move(b->failed, i);
	}
	PL_COUNT(copies_split, result == CU_SUCCESS);
	return result;
}

static int
boxes_part(const struct boxes *b)
{
	struct pl_use uses[2 * PART_MAX];
	struct pl_touch touch;
	int result;

	pl_touch_init(&touch, uses, 2 * PART_MAX);
	for (size_t i = 0; i < b->n; i++) {
		operand_touch(&touch, &b->copies[i].to, &b->copies[i], 1);
		operand_touch(&touch, &b->copies[i].from, &b->copies[i], 0);
	}
	result = pl_touch_begin(&touch, b->stream, b->flavour);
	if (result)
		return result;
	result = boxes_forward(b);
	if (pl_touch_is_split(&touch, result))
		result = boxes_in_pieces(b);
	pl_touch_end(&touch);
	return result;
}

static bool
operand_is_managed(const struct cu_operand *operand)
{
	return operand->type == CU_OPERAND_POINTER && pl_is_managed(operand->pointer.addr);
}

static int
boxes_run(const struct boxes *b)
{
	struct boxes part = *b;
	int found = 0, result = CU_SUCCESS;

	if (!pl_active() || !b->copies)
		return boxes_forward(b);
	for (size_t i = 0; i < b->n && !found; i++)
		found = operand_is_managed(&b->copies[i].to) ||
			operand_is_managed(&b->copies[i].from);
	if (!found)
		return boxes_forward(b);
	for (size_t first = 0; first < b->n && !result; first += part.n) {
		part.copies = b->copies + first;
		part.n = part_of(b->n, first);
		result = boxes_part(&part);
		if (result)
			failed_move(b->failed, first);
	}
	return result;
}

#define BOXES(function, stream_0, ...)                              \
	boxes_run(&(const struct boxes){.real = (void *)(function), \
					.flavour = (stream_0),      \
					__VA_ARGS__})

/* clang-format off */
PL_DEFINE_BOTH(cuMemcpy3DBatchAsync, ptsz, BOXES,
	       (size_t n, struct cu_batch_3d *copies, size_t *failed, unsigned long long flags,
		struct cu_stream *stream),
	       .old = 1, .copies = copies, .n = n, .failed = failed, .flags = flags,
	       .stream = stream)
PL_DEFINE_BOTH(cuMemcpy3DBatchAsync_v2, ptsz, BOXES,
	       (size_t n, struct cu_batch_3d *copies, unsigned long long flags,
		struct cu_stream *stream),
	       .copies = copies, .n = n, .flags = flags, .stream = stream)
/* clang-format on */

/* ---- decompressing ---- */

/* What is written may be less than there is room for: the rest keeps its contents. */
static int
decompress_part(__typeof__(&cuMemBatchDecompressAsync) real, struct cu_decompress *parts,
		size_t n, unsigned flags, size_t *failed, struct cu_stream *stream,
		enum pl_default_stream flavour)
{
	struct pl_use uses[3 * PART_MAX];
	struct pl_touch touch;
	int result;

	pl_touch_init(&touch, uses, 3 * PART_MAX);
	touch.kind = PL_TOUCH_DECOMPRESS;
	for (size_t i = 0; i < n; i++) {
		const struct cu_decompress *part = &parts[i];

		pl_touch_add(&touch, (uintptr_t)part->from, part->from_bytes,
			     SLUICE_USE_READ);
		pl_touch_add(&touch, (uintptr_t)part->to,
			     part->to_bytes ? part->to_bytes : UINT64_MAX, SLUICE_USE_WRITE);
		pl_touch_add(&touch, (uintptr_t)part->written_bytes,
			     sizeof(*part->written_bytes), SLUICE_USE_WRITE);
	}
	result = pl_touch_begin(&touch, stream, flavour);
	if (result)
		return result;
	result = real(parts, n, flags, failed, stream);
	pl_touch_end(&touch);
	return result;
}

static int
decompress(__typeof__(&cuMemBatchDecompressAsync) real, enum pl_default_stream flavour,
	   struct cu_decompress *parts, size_t n, unsigned flags, size_t *failed,
	   struct cu_stream *stream)
{
	int found = 0;

	for (size_t i = 0; parts && pl_active() && i < n && !found; i++)
		found = pl_is_managed((uintptr_t)parts[i].from) ||
			pl_is_managed((uintptr_t)parts[i].to) ||
			pl_is_managed((uintptr_t)parts[i].written_bytes);
	if (!found)
		return real(parts, n, flags, failed, stream);
	for (size_t first = 0; first < n; first += PART_MAX) {
		int result = decompress_part(real, parts + first, part_of(n, first),
					     flags, failed, stream, flavour);

		if (result) {
			failed_move(failed, first);
			return result;
		}
	}
	return CU_SUCCESS;
}

/* clang-format off */
PL_DEFINE_BOTH(cuMemBatchDecompressAsync, ptsz, decompress,
	       (struct cu_decompress *parts, size_t n, unsigned flags, size_t *failed,
		struct cu_stream *stream),
	       parts, n, flags, failed, stream)
/* clang-format on */
