/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec: its bytes (version 1, by hand and as hashes), round trips of every kind, mode and size,
 * its bounds, and damaged input. Buffers end at a page that may not be touched, so a read or a write
 * behind them ends the program.
 */
#include "codec/codec.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "codec/format.h"
#include "codec_data.h"
#include "unit/cmocka_all.h"

#define SEED        1u
#define BLOCKS_MAX  64u
#define RAW_MAX     (BLOCKS_MAX * CODEC_BLOCK)
#define ENCODED_MAX (RAW_MAX + SL_CODEC_HEADER_BYTES)
#define PAGE        4096u

/* Memory that ends at a forbidden page; begins at one, too. */
static uint8_t *
guarded_alloc(size_t bytes)
{
	size_t rounded = (bytes + PAGE - 1) / PAGE * PAGE;
	uint8_t *map = mmap(NULL, rounded + 2 * PAGE, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(map != MAP_FAILED);
	assert_int_equal(mprotect(map + PAGE, rounded, PROT_READ | PROT_WRITE), 0);
	return map + PAGE;
}

static uint8_t *raw, *encoded, *decoded;

static int
buffers_make(void **state)
{
	(void)state;
	raw = guarded_alloc(RAW_MAX);
	encoded = guarded_alloc(ENCODED_MAX);
	decoded = guarded_alloc(RAW_MAX);
	return 0;
}

/* So that the last of these bytes is the last before the forbidden page. */
static uint8_t *
at_end(uint8_t *buffer, size_t size, size_t bytes)
{
	return buffer + (size + PAGE - 1) / PAGE * PAGE - bytes;
}

static uint64_t
bytes_hash(const uint8_t *bytes, size_t n)
{
	uint64_t hash = n;

	for (size_t i = 0; i < n; i++)
		hash = sl_hash_add(hash, bytes[i]);
	return hash;
}

/* Encode raw and compare what comes back. Returns the encoded bytes, which stand at *at. */
static size_t
round_trip(const uint8_t *from, size_t bytes, unsigned flags, uint8_t **at)
{
	uint8_t *out = at_end(encoded, ENCODED_MAX, sl_codec_bound(bytes));
	uint8_t *back = at_end(decoded, RAW_MAX, bytes);
	size_t n = 0;

	assert_int_equal(sl_codec_encode(from, bytes, flags, out, sl_codec_bound(bytes), &n),
			 0);
	assert_true(n <= sl_codec_bound(bytes));
	/* Exactly these bytes and none behind them are needed. */
	memmove(at_end(encoded, ENCODED_MAX, n), out, n);
	out = at_end(encoded, ENCODED_MAX, n);
	memset(back, 0xa5, bytes);
	assert_int_equal(sl_codec_decode(out, n, flags, back, bytes), 0);
	assert_memory_equal(back, from, bytes);
	*at = out;
	return n;
}

/* The entry of a block, and its head. Only of what has elements. */
static uint32_t
entry_of(const uint8_t *out, uint32_t block, struct sl_codec_head *head)
{
	size_t at = SL_CODEC_HEADER_BYTES;
	struct sl_codec_header header;
	uint16_t entry = 0;

	memcpy(&header, out, sizeof(header));
	at += sl_codec_table_bytes(header.n_blocks);
	for (uint32_t i = 0; i <= block; i++) {
		at += SL_CODEC_ENTRY_UNITS(entry) * SL_CODEC_UNIT_BYTES;
		memcpy(&entry, out + SL_CODEC_HEADER_BYTES + 2 * (size_t)i, sizeof(entry));
	}
	if (SL_CODEC_ENTRY_KIND(entry) > SL_CODEC_RAW)
		memcpy(head, out + at, sizeof(*head));
	return entry;
}

/* ---- Bytes of version 1 ---- */

static void
one_block_of_zeros_and_one_constant_are_header_table_and_a_unit(void **state)
{
	static const uint8_t begin[] = {
		'S', 'L', 'Z', 'C', 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0,
	};
	/* zero: kind 0; constant: kind 1, one unit in bits 7 to 15 */
	static const uint8_t table[] = {0x00, 0x00, 0x81, 0x00};
	uint8_t expected[144] = {0}, *at;

	(void)state;
	memset(raw, 0, CODEC_BLOCK);
	for (uint32_t i = 0; i < CODEC_BLOCK; i++)
		raw[CODEC_BLOCK + i] = (uint8_t)(i % 16 + 1);
	memcpy(expected, begin, sizeof(begin));
	memcpy(expected + 64, table, sizeof(table));
	memcpy(expected + 128, raw + CODEC_BLOCK, 16);
	assert_int_equal(round_trip(raw, 2 * CODEC_BLOCK, 0, &at), sizeof(expected));
	assert_memory_equal(at, expected, sizeof(expected));
}

static void
bytes_of_which_one_bit_varies_are_one_plane(void **state)
{
	/* kind u8, 33 units; mode 0, 4096 elements; of each only bit 0 varies, and bit 6 is set */
	static const uint8_t table[] = {0x83, 0x10};
	static const uint8_t begin[] = {0, 0, 0, 0x10, 0, 0, 0, 0, 0x01, 0x40, 0, 0};
	uint8_t expected[33 * 16] = {0}, *at;

	(void)state;
	memcpy(expected, begin, sizeof(begin));
	for (uint32_t i = 0; i < CODEC_BLOCK; i++) {
		uint32_t bit = (uint32_t)__builtin_parity(i); /* never the same in words */

		raw[i] = (uint8_t)(0x40 | bit);
		expected[sizeof(begin) + i / 8] |= (uint8_t)(bit << i % 8);
	}
	assert_int_equal(round_trip(raw, CODEC_BLOCK, 0, &at), 128 + sizeof(expected));
	assert_memory_equal(at + 64, table, sizeof(table));
	assert_memory_equal(at + 128, expected, sizeof(expected));
}

static void
floats_are_codes_and_escapes_of_exponents_and_a_byte(void **state)
{
	/* kind bf16: 12 bytes of head and masks, 4 of dictionary, 256 of codes, 8 of 25 second codes, 4 of
	 * an exponent in full, 2048 of signs and mantissas */
	uint8_t expected[3000] = {0}, *at, *to = expected;
	static const uint8_t begin[] = {7, 0, 0, 8, 25, 0, 1, 0, 0xff, 0, 0, 0};
	/* mode 7: one exponent, then three; as many as each other: the lower one first */
	static const uint8_t dict[] = {127, 100, 110, 120};
	static const uint8_t exponents[] = {100, 110, 120, 90};
	size_t n;

	(void)state;
	for (uint32_t i = 0; i < 2048; i++) {
		uint32_t exponent = i < 25 * 7 && i % 7 == 3 ? exponents[i / 56] : 127;
		uint32_t rest = i * 0x9e3779b1u >> 24;
		uint16_t element = (uint16_t)(rest >> 7 << 15 | exponent << 7 |
					      (rest & 0x7f));

		memcpy(raw + 2 * (size_t)i, &element, sizeof(element));
	}
	memcpy(to, begin, sizeof(begin));
	to += sizeof(begin);
	memcpy(to, dict, sizeof(dict));
	to += sizeof(dict);
	for (uint32_t i = 3; i < 25 * 7; i += 7) /* the escapes */
		to[i / 8] |= (uint8_t)(1u << i % 8);
	to += 256;
	/* Codes: 8 times 0, 1 and 2, then 3; two planes of one row. */
	memcpy(to, "\x00\xff\x00\x01\x00\x00\xff\x01", 8);
	to += 8;
	*to = 90;
	to += 4;
	for (uint32_t i = 0; i < 2048; i++)
		*to++ = (uint8_t)(i * 0x9e3779b1u >> 24);
	n = (size_t)(to - expected + 15) / 16 * 16;
	assert_int_equal(round_trip(raw, CODEC_BLOCK, 0, &at), 128 + n);
	assert_int_equal(at[64] | at[65] << 8, SL_CODEC_ENTRY(SL_CODEC_BF16, 0, n / 16));
	assert_memory_equal(at + 128, expected, n);
}

static void
sparse_elements_are_a_bitmap_and_the_others(void **state)
{
	/* kind u64, sparse; 512 elements, of which 64 are 0x1234 or 0x1235: a bit varies */
	static const uint8_t begin[] = {0,    0,    64, 0, 0, 0, 0, 0,
					1,    0,    0,  0, 0, 0, 0, 0, /* varying */
					0x34, 0x12, 0,  0, 0, 0, 0, 0};
	uint8_t expected[96 + 8] = {0}, *at;
	size_t n = sizeof(begin) + 64 + 8;

	(void)state;
	memset(raw, 0, CODEC_BLOCK);
	for (uint32_t i = 0; i < 64; i++) {
		uint64_t element = i == 5 ? 0x1235 : 0x1234;

		memcpy(raw + (size_t)i * 64, &element, sizeof(element));
	}
	memcpy(expected, begin, sizeof(begin));
	memset(expected + sizeof(begin), 0x01, 64);
	expected[sizeof(begin) + 64] = 1 << 5;
	assert_int_equal(round_trip(raw, CODEC_BLOCK, 0, &at), 128 + n);
	assert_int_equal(at[64] | at[65] << 8, SL_CODEC_ENTRY(SL_CODEC_U64, 1, n / 16));
	assert_memory_equal(at + 128, expected, n);
}

/* What every kind of data becomes: kind, sparse, encoded bytes of 8 blocks, hash of them. The hashes
 * change only with the version of the format. */
static const struct {
	enum codec_data data;
	enum sl_codec_kind kind;
	int sparse;
	size_t bytes;
	uint64_t hash;
} vectors[] = {
	{CODEC_DATA_ZERO, SL_CODEC_ZERO, 0, 128, 0x6bb40007eae8f53a},
	{CODEC_DATA_CONSTANT, SL_CODEC_CONSTANT, 0, 256, 0x6db83006e1e294fd},
	{CODEC_DATA_RANDOM, SL_CODEC_RAW, 0, 32832, 0x682bcda7d5db0242},
	{CODEC_DATA_BOOL, SL_CODEC_U8, 0, 4352, 0x40fbe632ca4a8a4f},
	{CODEC_DATA_U8_SPARSE, SL_CODEC_U8, 1, 11616, 0x978acef9d227b972},
	{CODEC_DATA_TOKENS, SL_CODEC_U16, 0, 26880, 0xdb5a2638674e033f},
	{CODEC_DATA_U16_SPARSE, SL_CODEC_U16, 1, 6272, 0x61f0244bb87531d3},
	{CODEC_DATA_INDICES, SL_CODEC_U32, 0, 20736, 0x573437f476580a03},
	{CODEC_DATA_U32_SPARSE, SL_CODEC_U32, 1, 5200, 0xa872e8417aef7595},
	{CODEC_DATA_INT64, SL_CODEC_U64, 0, 8576, 0xcfe4b96271e54bfb},
	{CODEC_DATA_PADDED, SL_CODEC_U64, 1, 1456, 0xa45ab53a4306c781},
	{CODEC_DATA_BF16, SL_CODEC_BF16, 0, 22384, 0x4a105d0cc8963a5d},
	{CODEC_DATA_BF16_RELU, SL_CODEC_BF16, 1, 12512, 0xf84c426b2c12249c},
	{CODEC_DATA_FP16, SL_CODEC_FP16, 0, 28528, 0x737a41a8b8ec59fe},
	{CODEC_DATA_FP16_RELU, SL_CODEC_FP16, 1, 15664, 0xdb1b9bc814955998},
	{CODEC_DATA_FP32, SL_CODEC_FP32, 0, 27776, 0x6116616f53c39f16},
	{CODEC_DATA_FP32_RELU, SL_CODEC_FP32, 1, 14640, 0x6b50a07d7dce21a6},
	{CODEC_DATA_FP32_LOW_EMPTY, SL_CODEC_FP32, 0, 11440, 0x8aa876657d21b9d5},
};

#define N_VECTORS (sizeof(vectors) / sizeof(vectors[0]))

_Static_assert(N_VECTORS == CODEC_DATA_COUNT, "every kind of data has its vector");

static void
data_becomes_the_kind_and_the_bytes_of_version_1(void **state)
{
	(void)state;
	for (size_t v = 0; v < N_VECTORS; v++) {
		enum codec_data data = vectors[v].data;
		struct sl_codec_info info;
		struct sl_rng rng;
		uint64_t hash;
		uint8_t *at;
		size_t n;

		sl_rng_init(&rng, SEED + data);
		for (uint32_t i = 0; i < 8; i++)
			codec_data_fill(data, &rng, raw + (size_t)i * CODEC_BLOCK);
		n = round_trip(raw, 8 * CODEC_BLOCK, SL_CODEC_CHECK, &at);
		hash = bytes_hash(at, n);
		if (n != vectors[v].bytes || hash != vectors[v].hash)
			print_error("data %u: %zu bytes, hash 0x%016llx\n", data, n,
				    (unsigned long long)hash);
		assert_int_equal(sl_codec_inspect(at, n, &info), 0);
		assert_int_equal(info.raw_bytes, 8 * CODEC_BLOCK);
		assert_int_equal(info.encoded_bytes, n);
		assert_int_equal(info.checked, 1);
		assert_int_equal(info.stored, data == CODEC_DATA_RANDOM);
		assert_int_equal(info.blocks[vectors[v].kind], info.stored ? 0 : 8);
		assert_int_equal(info.sparse_blocks, vectors[v].sparse ? 8 : 0);
		assert_int_equal(n, vectors[v].bytes);
		assert_true(hash == vectors[v].hash);
	}
}

static void
modes_are_those_of_the_page(void **state)
{
	/* k1, exponents in the first part, k2, exponents in the second, escapes: docs/design/codec.md */
	static const uint8_t page[SL_CODEC_MODE_COUNT][5] = {
		{0, 1, 0, 0, 0}, {0, 0, 0, 0, 1},  {1, 2, 0, 0, 0}, {2, 4, 0, 0, 0},
		{3, 8, 0, 0, 0}, {4, 16, 0, 0, 0}, {1, 1, 0, 0, 1}, {1, 1, 2, 3, 1},
		{1, 1, 3, 7, 1}, {2, 3, 0, 0, 1},  {2, 3, 2, 3, 1}, {2, 3, 3, 7, 1},
		{3, 7, 0, 0, 1}, {3, 7, 2, 3, 1},  {3, 7, 3, 7, 1}, {4, 15, 0, 0, 1},
	};

	(void)state;
	for (uint32_t mode = 0; mode < SL_CODEC_MODE_COUNT; mode++) {
		assert_int_equal(sl_codec_k1(mode), page[mode][0]);
		assert_int_equal(sl_codec_n1(mode), page[mode][1]);
		assert_int_equal(sl_codec_k2(mode), page[mode][2]);
		assert_int_equal(sl_codec_n2(mode), page[mode][3]);
		assert_int_equal(sl_codec_escapes(mode), page[mode][4]);
		assert_true(sl_codec_n1(mode) + sl_codec_n2(mode) <= SL_CODEC_DICT_MAX);
	}
}

/* ---- Round trips ---- */

/* Every half word there is: NaNs, infinities, denormals and -0 of bf16 and fp16, and the upper half of
 * every fp32. */
static void
all_numbers_come_back(void **state)
{
	uint8_t *at;

	(void)state;
	for (uint32_t i = 0; i < 65536; i++) {
		uint16_t element = (uint16_t)i;

		memcpy(raw + 2 * (size_t)i, &element, sizeof(element));
	}
	round_trip(raw, 131072, SL_CODEC_CHECK, &at);
	for (uint32_t i = 0; i < 65536; i++) {
		uint32_t element = i << 16 | (i * 40503 & 0xffff);

		memcpy(raw + 4 * (size_t)i, &element, sizeof(element));
	}
	round_trip(raw, 262144, SL_CODEC_CHECK, &at);
}

static void
random_mixtures_come_back_by_every_kind_and_mode(void **state)
{
	uint32_t modes[SL_CODEC_MODE_COUNT] = {0}, kinds[SL_CODEC_KIND_COUNT][2] = {0};
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, SEED);
	for (uint32_t round = 0; round < 1000; round++) {
		uint32_t blocks = 1 + (uint32_t)sl_rng_below(&rng, 20);
		struct sl_codec_info info;
		uint8_t *at;
		size_t n;

		for (uint32_t i = 0; i < blocks; i++) {
			uint32_t kind = (uint32_t)sl_rng_below(&rng, SL_CODEC_KIND_COUNT + 1);
			uint8_t *block = raw + (size_t)i * CODEC_BLOCK;

			if (kind >= SL_CODEC_U8 && kind < SL_CODEC_KIND_COUNT)
				codec_elements_fill(kind, &rng, block);
			else
				codec_data_fill((enum codec_data)sl_rng_below(&rng,
									      CODEC_DATA_COUNT),
						&rng, block);
		}
		n = round_trip(raw, (size_t)blocks * CODEC_BLOCK,
			       round % 2 ? SL_CODEC_CHECK : 0, &at);
		assert_int_equal(sl_codec_inspect(at, n, &info), 0);
		for (uint32_t i = 0; !info.stored && i < blocks; i++) {
			struct sl_codec_head head = {0};
			uint32_t entry = entry_of(at, i, &head);
			uint32_t kind = SL_CODEC_ENTRY_KIND(entry);

			kinds[kind][SL_CODEC_ENTRY_SPARSE(entry)]++;
			if (sl_codec_is_float(kind))
				modes[head.mode]++;
		}
	}
	for (uint32_t mode = 0; mode < SL_CODEC_MODE_COUNT; mode++)
		if (!modes[mode])
			fail_msg("mode %u was never chosen", mode);
	for (uint32_t kind = 0; kind < SL_CODEC_KIND_COUNT; kind++)
		if (!kinds[kind][0] || (kind > SL_CODEC_RAW && !kinds[kind][1]))
			fail_msg("kind %s was never chosen dense or sparse",
				 sl_codec_kind_name((enum sl_codec_kind)kind));
}

/* One element differs from all others: every part has its shortest length somewhere. */
static void
a_single_other_element_comes_back(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < CODEC_BLOCK; i += 61)
		for (uint32_t background = 0; background < 256; background += 51) {
			uint8_t *at;

			memset(raw, (int)background, CODEC_BLOCK);
			raw[i] ^= (uint8_t)(1u << i % 8);
			assert_true(round_trip(raw, CODEC_BLOCK, SL_CODEC_CHECK, &at) <
				    CODEC_BLOCK / 4);
		}
}

static void
buffers_may_have_any_alignment(void **state)
{
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, SEED);
	for (uint32_t i = 0; i < 4; i++)
		codec_data_fill(CODEC_DATA_BF16_RELU, &rng,
				raw + 2 * PAGE + (size_t)i * CODEC_BLOCK);
	for (uint32_t shift = 1; shift < 17; shift++) {
		size_t bytes = 4 * CODEC_BLOCK, n = 0;
		uint8_t *from = raw + 2 * PAGE - shift;

		memmove(from, raw + 2 * PAGE - shift + 1, bytes);
		assert_int_equal(sl_codec_encode(from, bytes, 0, encoded + shift,
						 ENCODED_MAX - shift, &n),
				 0);
		memset(decoded, 0, bytes + shift);
		assert_int_equal(sl_codec_decode(encoded + shift, n, 0, decoded + shift, bytes),
				 0);
		assert_memory_equal(decoded + shift, from, bytes);
	}
}

/* ---- Sizes ---- */

static void
sizes_and_flags_that_are_wrong_are_refused(void **state)
{
	static const size_t wrong[] = {0, 1, 4095, 4097, (64u << 20) + 4096};
	size_t n = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(sl_codec_encode(raw, wrong[i], 0, encoded, ENCODED_MAX, &n),
				 -EINVAL);
	assert_non_null(strstr(sluice_last_error(), "multiple of 4096"));
	assert_int_equal(sl_codec_encode(raw, CODEC_BLOCK, 2, encoded, ENCODED_MAX, &n),
			 -EINVAL);
	assert_int_equal(n, 77);
	assert_int_equal(sl_codec_encode(raw, CODEC_BLOCK, 0, encoded, ENCODED_MAX, &n), 0);
	assert_int_equal(sl_codec_decode(encoded, n, 2, decoded, CODEC_BLOCK), -EINVAL);
	assert_int_equal(sl_codec_decode(encoded, n, 0, decoded, 2 * CODEC_BLOCK), -EINVAL);
}

/* What is not smaller is stored as it is, 64 bytes longer; a buffer that is too small is said so. */
static void
output_is_bounded_and_stays_in_its_buffer(void **state)
{
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, SEED);
	for (enum codec_data data = 0; data < CODEC_DATA_COUNT; data++) {
		size_t bytes = 3 * CODEC_BLOCK, needed, n = 0;
		uint8_t *at;

		for (uint32_t i = 0; i < 3; i++)
			codec_data_fill(data, &rng, raw + (size_t)i * CODEC_BLOCK);
		needed = round_trip(raw, bytes, 0, &at);
		if (data == CODEC_DATA_RANDOM)
			assert_int_equal(needed, bytes + 64);
		at = at_end(encoded, ENCODED_MAX, needed);
		assert_int_equal(sl_codec_encode(raw, bytes, 0, at, needed, &n), 0);
		assert_int_equal(n, needed);
		for (size_t less = 1; less <= needed; less += less < 100 ? 1 : 97) {
			n = 77;
			at = at_end(encoded, ENCODED_MAX, needed - less);
			assert_int_equal(sl_codec_encode(raw, bytes, 0, at, needed - less, &n),
					 -ENOSPC);
			assert_int_equal(n, 77);
		}
	}
}

/* 2 and 64 MiB: the smallest chunk and the largest. */
static void
chunks_of_every_size_come_back(void **state)
{
	uint32_t mib[] = {2, 4, 64};
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, SEED);
	for (size_t k = 0; k < sizeof(mib) / sizeof(*mib); k++) {
		size_t bytes = (size_t)mib[k] << 20, n = 0;
		uint8_t *from = malloc(bytes), *out = malloc(sl_codec_bound(bytes));
		uint8_t *back = malloc(bytes);

		assert_true(from && out && back);
		for (size_t i = 0; i < bytes; i += CODEC_BLOCK) {
			if (i % (1u << 20) >= (64u << 10)) /* made once, then moved around */
				memcpy(from + i, from + i - (64u << 10), CODEC_BLOCK);
			else
				codec_data_fill((enum codec_data)(i / CODEC_BLOCK %
								  CODEC_DATA_COUNT),
						&rng, from + i);
		}
		assert_int_equal(sl_codec_encode(from, bytes, SL_CODEC_CHECK, out,
						 sl_codec_bound(bytes), &n),
				 0);
		assert_true(n < bytes);
		assert_int_equal(sl_codec_decode(out, n, SL_CODEC_CHECK, back, bytes), 0);
		assert_memory_equal(back, from, bytes);
		free(from);
		free(out);
		free(back);
	}
}

/* ---- Damage ---- */

/* One block of every kind of data; the encoded bytes, ending at the forbidden page. */
static size_t
sample_make(unsigned flags, uint8_t **at)
{
	struct sl_rng rng;

	sl_rng_init(&rng, SEED);
	for (enum codec_data data = 0; data < CODEC_DATA_COUNT; data++)
		codec_data_fill(data, &rng, raw + (size_t)data * CODEC_BLOCK);
	return round_trip(raw, CODEC_DATA_COUNT * CODEC_BLOCK, flags, at);
}

#define SAMPLE_BYTES (CODEC_DATA_COUNT * CODEC_BLOCK)

static int
sample_decode(const uint8_t *at, size_t n)
{
	return sl_codec_decode(at, n, SL_CODEC_CHECK,
			       at_end(decoded, RAW_MAX, SAMPLE_BYTES), SAMPLE_BYTES);
}

static void
cut_input_is_refused(void **state)
{
	uint8_t *at, *whole = malloc(ENCODED_MAX);
	size_t n = sample_make(0, &at);

	(void)state;
	assert_non_null(whole);
	memcpy(whole, at, n);
	for (size_t keep = 0; keep < n; keep += keep < 300 || keep > n - 300 ? 1 : 251) {
		at = at_end(encoded, ENCODED_MAX, keep);
		memcpy(at, whole, keep);
		assert_int_equal(sample_decode(at, keep), -EBADMSG);
	}
	free(whole);
}

/* Every bit of header, table and heads, and bits elsewhere. Nothing is read or written out of bounds, and
 * whatever is accepted is right: what changed was padding. */
static void
damaged_bits_are_refused_by_the_checksum(void **state)
{
	uint8_t *at;
	size_t n = sample_make(SL_CODEC_CHECK, &at);
	uint32_t accepted = 0, refused = 0;

	(void)state;
	for (size_t bit = 0; bit < 8 * n; bit += bit < 8 * 1024 ? 1 : 37) {
		int rc;

		at[bit / 8] ^= (uint8_t)(1u << bit % 8);
		rc = sample_decode(at, n);
		if (rc) {
			/* Another number of blocks is another size than the wanted one. */
			assert_true(rc == -EBADMSG || rc == -EINVAL);
			refused++;
		} else if (bit / 8 >= 16) { /* the flag of the checksum is in the header */
			assert_memory_equal(at_end(decoded, RAW_MAX, SAMPLE_BYTES), raw,
					    SAMPLE_BYTES);
			accepted++;
		}
		at[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_true(refused > 20 * accepted);
	assert_int_equal(sample_decode(at, n), 0);
}

/* Several bytes at once, in what a decoder believes: table, heads and masks. Without the checksum some of
 * it is accepted; nothing is touched that is not ours. */
static void
damaged_bytes_never_lead_out_of_the_buffers(void **state)
{
	uint8_t *at, *whole = malloc(ENCODED_MAX);
	size_t n = sample_make(0, &at);
	uint32_t refused = 0;
	struct sl_rng rng;

	(void)state;
	assert_non_null(whole);
	memcpy(whole, at, n);
	sl_rng_init(&rng, SEED);
	for (uint32_t round = 0; round < 20000; round++) {
		uint32_t changes = 1 + (uint32_t)sl_rng_below(&rng, 4);

		for (uint32_t i = 0; i < changes; i++) {
			uint32_t block = (uint32_t)sl_rng_below(&rng, CODEC_DATA_COUNT);
			size_t place = SL_CODEC_HEADER_BYTES +
				       sl_codec_table_bytes(CODEC_DATA_COUNT);

			for (uint32_t k = 0; k < block; k++)
				place += SL_CODEC_ENTRY_UNITS(whole[64 + 2 * k] |
							      whole[65 + 2 * k] << 8) *
					 SL_CODEC_UNIT_BYTES;
			place += sl_rng_below(&rng, 48);
			if (place < n)
				at[place] = (uint8_t)sl_rng_next(&rng);
		}
		refused += sample_decode(at, n) != 0;
		memcpy(at, whole, n);
	}
	assert_true(refused > 10000);
	free(whole);
}

static void
the_text_names_what_is_damaged(void **state)
{
	uint8_t *at;
	size_t n = sample_make(0, &at);
	size_t begin = SL_CODEC_HEADER_BYTES + sl_codec_table_bytes(CODEC_DATA_COUNT);
	struct sl_codec_info info = {.raw_bytes = 77};

	(void)state;
	at[4] = 9;
	assert_int_equal(sample_decode(at, n), -EBADMSG);
	assert_non_null(strstr(sluice_last_error(), "version 9"));
	assert_int_equal(sl_codec_inspect(at, n, &info), -EBADMSG);
	assert_int_equal(info.raw_bytes, 77);
	at[4] = 1;
	at[0] ^= 1;
	assert_int_equal(sample_decode(at, n), -EBADMSG);
	assert_non_null(strstr(sluice_last_error(), "no compressed chunk"));
	at[0] ^= 1;
	/* Block 3 follows a unit of a constant and a raw block; byte 2 is its number of elements. */
	at[begin + 16 + CODEC_BLOCK + 2] ^= 1;
	assert_int_equal(sample_decode(at, n), -EBADMSG);
	assert_non_null(strstr(sluice_last_error(), "block 3 (u8)"));
}

/* The sum would not change if words were not mixed with their places. */
static void
the_checksum_sees_exchanged_words_and_blocks(void **state)
{
	uint8_t *at, word[8];
	size_t n;

	(void)state;
	for (uint32_t i = 0; i < 2 * CODEC_BLOCK; i++)
		raw[i] = (uint8_t)(i * i >> 5);
	memset(raw, 1, 16);
	memset(raw + CODEC_BLOCK, 2, 16);
	n = round_trip(raw, 2 * CODEC_BLOCK, SL_CODEC_CHECK, &at);
	memcpy(word, at + n - 8, 8);
	memcpy(at + n - 8, at + n - 16, 8);
	memcpy(at + n - 16, word, 8);
	assert_int_equal(sl_codec_decode(at, n, SL_CODEC_CHECK, decoded, 2 * CODEC_BLOCK),
			 -EBADMSG);
	assert_non_null(strstr(sluice_last_error(), "checksum"));
	assert_int_equal(sl_codec_decode(at, n, 0, decoded, 2 * CODEC_BLOCK), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(one_block_of_zeros_and_one_constant_are_header_table_and_a_unit),
		T(bytes_of_which_one_bit_varies_are_one_plane),
		T(floats_are_codes_and_escapes_of_exponents_and_a_byte),
		T(sparse_elements_are_a_bitmap_and_the_others),
		T(data_becomes_the_kind_and_the_bytes_of_version_1),
		T(modes_are_those_of_the_page),
		T(all_numbers_come_back),
		T(random_mixtures_come_back_by_every_kind_and_mode),
		T(a_single_other_element_comes_back),
		T(buffers_may_have_any_alignment),
		T(sizes_and_flags_that_are_wrong_are_refused),
		T(output_is_bounded_and_stays_in_its_buffer),
		T(chunks_of_every_size_come_back),
		T(cut_input_is_refused),
		T(damaged_bits_are_refused_by_the_checksum),
		T(damaged_bytes_never_lead_out_of_the_buffers),
		T(the_text_names_what_is_damaged),
		T(the_checksum_sees_exchanged_words_and_blocks),
	};

	return cmocka_run_group_tests(tests, buffers_make, NULL);
}
