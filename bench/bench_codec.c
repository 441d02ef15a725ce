/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec on the host, one thread: how small data become, and how fast. One process measures one
 * kind of data, made like what programs of bench/programs keep on a GPU. memcpy() of the same bytes is
 * the limit, measured by turns with encode and decode.
 *
 * The data are as large as --size says, beyond the caches, and are coded in chunks of --chunk. Rates
 * are of raw bytes, of the fastest of --repeats passes over all of the data: other work on the machine
 * only slows them. What is decoded is compared.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "common.h"

#define ROW \
	1024u /* elements of one scale: weights and moments have one for each channel */
#define VOCABULARY 50257u

struct run {
	const char *kind;
	uint64_t size_bytes;
	uint64_t chunk_bytes;
	uint32_t repeats;
	uint64_t random;
	unsigned char *raw, *back;
	unsigned char **encoded; /* by chunk */
	size_t *encoded_bytes;
};

/* Normally distributed, of standard deviation 1. */
static float
normal(struct run *r)
{
	double a = (double)(bench_random(&r->random) >> 11) * 0x1p-53 + 0x1p-54;
	double b = (double)(bench_random(&r->random) >> 11) * 0x1p-53;

	return (float)(sqrt(-2 * log(a)) * cos(6.283185307179586 * b));
}

static uint32_t
bits_of(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* Rounded to the nearest, ties to even. */
static uint16_t
bf16_of(float value)
{
	uint32_t bits = bits_of(value);

	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Cut; what is below the smallest normal one is zero. */
static uint16_t
fp16_of(float value)
{
	uint32_t bits = bits_of(value);
	uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 0xff;

	if (exponent <= 112)
		return (uint16_t)sign;
	return (uint16_t)(sign | (exponent - 112) << 10 | (bits >> 13 & 0x3ff));
}

/* ---- One element of each kind of data; scale: of its row ---- */

static uint64_t
weight_bf16(struct run *r, float scale)
{
	return bf16_of(0.02f * scale * normal(r));
}

static uint64_t
weight_fp16(struct run *r, float scale)
{
	return fp16_of(0.02f * scale * normal(r));
}

static uint64_t
weight_fp32(struct run *r, float scale)
{
	return bits_of(0.02f * scale * normal(r));
}

/* Of mixed precision: computed in bf16, kept in fp32. */
static uint64_t
gradient_fp32(struct run *r, float scale)
{
	return (uint64_t)bf16_of(1e-4f * scale * normal(r)) << 16;
}

/* Adam's first moment: gradients of which the last few count. */
static uint64_t
moment_m(struct run *r, float scale)
{
	return bits_of(1e-4f * scale * (0.7f * normal(r) + 0.3f * normal(r)));
}

/* Its second: squares, of which the last hundreds count; here six of them. */
static uint64_t
moment_v(struct run *r, float scale)
{
	float sum = 0;

	for (unsigned i = 0; i < 6; i++) {
		float gradient = 1e-4f * scale * normal(r);

		sum += gradient * gradient;
	}
	return bits_of(sum / 6);
}

static uint64_t
activation_bf16(struct run *r, float scale)
{
	return bf16_of(scale * normal(r));
}

static uint64_t
gelu_bf16(struct run *r, float scale)
{
	float x = scale * normal(r);

	return bf16_of(0.5f * x * (1 + erff(x * 0.70710678f)));
}

static uint64_t
relu_bf16(struct run *r, float scale)
{
	float x = scale * normal(r);

	return x > 0.08f ? bf16_of(x) : 0;
}

static uint64_t
relu_fp32(struct run *r, float scale)
{
	float x = scale * normal(r);

	return x > 0.08f ? bits_of(x) : 0;
}

static uint64_t
index_int64(struct run *r, float scale)
{
	(void)scale;
	return bench_random(&r->random) % VOCABULARY;
}

static uint64_t
mask_bool(struct run *r, float scale)
{
	(void)scale;
	return bench_random(&r->random) % 10 != 0;
}

static uint64_t
random_byte(struct run *r, float scale)
{
	(void)scale;
	return bench_random(&r->random) & 0xff;
}

static uint64_t
zero_byte(struct run *r, float scale)
{
	(void)r;
	(void)scale;
	return 0;
}

static const struct data_kind {
	const char *name;
	unsigned bytes; /* of an element */
	uint64_t (*element)(struct run *r, float scale);
} kinds[] = {
	{"weights-bf16", 2, weight_bf16},  {"weights-fp16", 2, weight_fp16},
	{"weights-fp32", 4, weight_fp32},  {"gradients-fp32", 4, gradient_fp32},
	{"adam-m-fp32", 4, moment_m},      {"adam-v-fp32", 4, moment_v},
	{"norm-bf16", 2, activation_bf16}, {"gelu-bf16", 2, gelu_bf16},
	{"relu-bf16", 2, relu_bf16},       {"relu-fp32", 4, relu_fp32},
	{"indices-int64", 8, index_int64}, {"mask-bool", 1, mask_bool},
	{"random", 1, random_byte},        {"zeros", 1, zero_byte},
};

static void
data_make(struct run *r)
{
	const struct data_kind *kind = NULL;
	float scale = 1;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(r->kind, kinds[i].name))
			kind = &kinds[i];
	if (!kind)
		bench_usage("--data: \"%s\" is not known; see --help", r->kind);
	for (uint64_t i = 0; i < r->size_bytes / kind->bytes; i++) {
		uint64_t element;

		if (i % ROW == 0)
			scale = expf(0.5f * normal(r));
		element = kind->element(r, scale);
		memcpy(r->raw + i * kind->bytes, &element, kind->bytes);
	}
}

/* ---- Passes over all data. Each gives seconds. ---- */

static double
encode_pass(struct run *r)
{
	uint64_t start = bench_now_ns();

	for (uint64_t i = 0; i < r->size_bytes / r->chunk_bytes; i++)
		if (sl_codec_encode(r->raw + i * r->chunk_bytes, r->chunk_bytes, 0,
				    r->encoded[i], sl_codec_bound(r->chunk_bytes),
				    &r->encoded_bytes[i]))
			bench_fail("%s", sluice_last_error());
	return (double)(bench_now_ns() - start) / 1e9;
}

static double
decode_pass(struct run *r)
{
	uint64_t start = bench_now_ns();

	for (uint64_t i = 0; i < r->size_bytes / r->chunk_bytes; i++)
		if (sl_codec_decode(r->encoded[i], r->encoded_bytes[i], 0,
				    r->back + i * r->chunk_bytes, r->chunk_bytes))
			bench_fail("%s", sluice_last_error());
	return (double)(bench_now_ns() - start) / 1e9;
}

static double
memcpy_pass(struct run *r)
{
	uint64_t start = bench_now_ns();

	for (uint64_t i = 0; i < r->size_bytes / r->chunk_bytes; i++)
		memcpy(r->back + i * r->chunk_bytes, r->raw + i * r->chunk_bytes,
		       r->chunk_bytes);
	return (double)(bench_now_ns() - start) / 1e9;
}

static const char help[] = "usage: bench_codec --data KIND [OPTIONS]\n"
			   "\n"
			   "KIND: weights-bf16, weights-fp16, weights-fp32, "
			   "gradients-fp32, adam-m-fp32, adam-v-fp32,\n"
			   "norm-bf16, gelu-bf16, relu-bf16, relu-fp32, indices-int64, "
			   "mask-bool, random, zeros\n"
			   "\n"
			   "  --size SIZE      of the data (128M)\n"
			   "  --chunk SIZE     encoded at once (2M)\n"
			   "  --repeats N      passes; the fastest counts (5)\n";

int
main(int argc, char **argv)
{
	struct run r = {.size_bytes = 128u << 20,
			.chunk_bytes = 2u << 20,
			.repeats = 5,
			.random = 1};
	const struct bench_option options[] = {
		{"data", BENCH_OPTION_TEXT, &r.kind, 0, 0},
		{"size", BENCH_OPTION_SIZE, &r.size_bytes, 0, 0},
		{"chunk", BENCH_OPTION_SIZE, &r.chunk_bytes, 0, 0},
		{"repeats", BENCH_OPTION_COUNT, &r.repeats, 1, 1000},
	};
	double encode_s = HUGE_VAL, decode_s = HUGE_VAL, memcpy_s = HUGE_VAL;
	double gigabytes, encoded = 0;
	uint64_t n_chunks;

	bench_options_parse(argc, argv, options, sizeof(options) / sizeof(options[0]), help);
	if (!r.kind)
		bench_usage("--data is needed; see --help");
	if (!r.chunk_bytes || r.chunk_bytes % SL_CODEC_BLOCK_BYTES ||
	    r.chunk_bytes > SL_CODEC_BYTES_MAX || !r.size_bytes ||
	    r.size_bytes % r.chunk_bytes)
		bench_usage("--chunk must be a multiple of 4096, at most 64M; --size one "
			    "of it");
	n_chunks = r.size_bytes / r.chunk_bytes;
	r.raw = bench_alloc(r.size_bytes);
	r.back = bench_alloc(r.size_bytes);
	r.encoded = calloc(n_chunks, sizeof(*r.encoded));
	r.encoded_bytes = calloc(n_chunks, sizeof(*r.encoded_bytes));
	if (!r.encoded || !r.encoded_bytes)
		bench_fail("out of memory");
	for (uint64_t i = 0; i < n_chunks; i++)
		r.encoded[i] = bench_alloc(sl_codec_bound(r.chunk_bytes));
	data_make(&r);
	for (uint32_t i = 0; i < r.repeats; i++) {
		encode_s = fmin(encode_s, encode_pass(&r));
		memcpy_s = fmin(memcpy_s, memcpy_pass(&r));
		memset(r.back, 0xa5, r.size_bytes);
		decode_s = fmin(decode_s, decode_pass(&r));
		if (memcmp(r.raw, r.back, r.size_bytes) != 0)
			bench_fail("%s: other bytes come back", r.kind);
	}
	for (uint64_t i = 0; i < n_chunks; i++)
		encoded += (double)r.encoded_bytes[i];
	gigabytes = (double)r.size_bytes / 1e9;
	bench_json_begin("codec", r.kind);
	bench_json_count("size_bytes", r.size_bytes);
	bench_json_number("ratio", encoded / (double)r.size_bytes);
	bench_json_number("encode_gb_per_s", gigabytes / encode_s);
	bench_json_number("decode_gb_per_s", gigabytes / decode_s);
	bench_json_number("memcpy_gb_per_s", gigabytes / memcpy_s);
	bench_json_end();
	for (uint64_t i = 0; i < n_chunks; i++)
		free(r.encoded[i]);
	free(r.encoded_bytes);
	free(r.encoded);
	free(r.back);
	free(r.raw);
	return 0;
}
