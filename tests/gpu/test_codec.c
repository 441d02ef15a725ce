/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec's kernels on a GPU, against the host's codec: the same encoded bytes, the same raw bytes,
 * the same refusals of damaged input. SLUICE_TEST_PTX names what nvcc made of src/codec/codec.cu;
 * without it, or without a GPU, the test is skipped.
 *
 *	test_codec [BLOCKS [SEED [MANY]]]     how many random blocks at least (200,000), from which seed (1)
 *
 * MANY blocks (2,000,000) are made on the GPU (blocks.cu; SLUICE_TEST_BLOCKS_PTX), encoded, decoded and compared
 * there. The host's codec encodes one chunk in MANY_ROUNDS_A_SAMPLE * MANY_CHUNKS of them, too.
 *
 * At the end it prints rates of 64 MiB, four chunks a launch, beside a copy in device memory; and of chunks that are
 * encoded and drained to host memory, beside plain copies there. It judges none.
 */
#include "codec/job.h"
#include "codec_data.h"
#include "cuda/cuda_test.h"

#define JOBS_MAX      64u
#define ROUND_BLOCKS  4096u
#define SAMPLE_BLOCKS (unsigned)CODEC_DATA_COUNT
#define RATE_JOBS     4u
#define RATE_BLOCKS   4096u /* 16 MiB */
#define RATE_REPEATS  20
#define RATE_BYTES    ((double)RATE_REPEATS * RATE_JOBS * RATE_BLOCKS * CODEC_BLOCK)

#define MANY_CHUNKS          8u
#define MANY_ROUNDS_A_SAMPLE 256u

enum kernel { PLAN, WRITE, DRAIN, DECODE, KERNEL_COUNT };

static const struct sl_cuda_driver *driver;
static struct cu_stream *stream;
static struct cu_function *function[KERNEL_COUNT], *blocks_make, *blocks_compare;
static struct sl_rng rng;

/* A chunk on both sides. */
struct chunk {
	uint32_t n_blocks;
	size_t bytes, n; /* raw, encoded by the host */
	uint8_t *raw, *encoded, *back;
	uint64_t dev_raw, dev_encoded, dev_plans, dev_table, dev_back;
};

static void
test_skip(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(77);
}

static char *
text_read(const char *path)
{
	FILE *file = fopen(path, "rb");
	char *text = calloc(1, 4 << 20);

	CHECK(file && text);
	CHECK(fread(text, 1, (4 << 20) - 1, file) > 0);
	fclose(file);
	return text;
}

static void
module_open(const char *variable, struct cu_module **module)
{
	const char *ptx = getenv(variable);
	char why[64], *image;

	snprintf(why, sizeof(why), "%s names no kernels", variable);
	if (!ptx)
		test_skip(why);
	image = text_read(ptx);
	CHECK_OK(SL_CUDA(driver, cuModuleLoadData, module, image));
	free(image);
}

static void
kernels_open(void)
{
	static const char *const names[KERNEL_COUNT] = {"sl_codec_plan_kernel",
							"sl_codec_write_kernel",
							"sl_codec_drain_kernel",
							"sl_codec_decode_kernel"};
	struct cu_context *context;
	struct cu_module *module;

	if (sl_cuda_driver_open(&driver))
		test_skip(sluice_last_error());
	CHECK_OK(SL_CUDA(driver, cuDevicePrimaryCtxRetain, &context, 0));
	CHECK_OK(SL_CUDA(driver, cuCtxSetCurrent, context));
	CHECK_OK(SL_CUDA(driver, cuStreamCreate, &stream, CU_STREAM_NONBLOCKING));
	module_open("SLUICE_TEST_PTX", &module);
	for (int i = 0; i < KERNEL_COUNT; i++)
		CHECK_OK(SL_CUDA(driver, cuModuleGetFunction, &function[i], module, names[i]));
	module_open("SLUICE_TEST_BLOCKS_PTX", &module);
	CHECK_OK(SL_CUDA(driver, cuModuleGetFunction, &blocks_make, module, "blocks_make"));
	CHECK_OK(SL_CUDA(driver, cuModuleGetFunction, &blocks_compare, module,
			 "blocks_compare"));
}

static uint64_t
device_alloc(size_t bytes)
{
	uint64_t addr;

	CHECK_OK(SL_CUDA(driver, cuMemAlloc, &addr, bytes));
	return addr;
}

static void
to_device(uint64_t to, const void *from, size_t bytes)
{
	CHECK_OK(SL_CUDA(driver, cuMemcpyHtoDAsync, to, from, bytes, stream));
	CHECK_OK(SL_CUDA(driver, cuStreamSynchronize, stream));
}

static void
to_host(void *to, uint64_t from, size_t bytes)
{
	CHECK_OK(SL_CUDA(driver, cuMemcpyDtoHAsync, to, from, bytes, stream));
	CHECK_OK(SL_CUDA(driver, cuStreamSynchronize, stream));
}

static void
chunk_make(struct chunk *c, uint32_t n_blocks)
{
	c->n_blocks = n_blocks;
	c->bytes = (size_t)n_blocks * CODEC_BLOCK;
	c->raw = malloc(c->bytes);
	c->encoded = malloc(sl_codec_bound(c->bytes));
	c->back = malloc(sl_codec_bound(c->bytes));
	CHECK(c->raw && c->encoded && c->back);
	c->dev_raw = device_alloc(c->bytes);
	c->dev_encoded = device_alloc(sl_codec_bound(c->bytes));
	c->dev_plans = device_alloc(n_blocks * sizeof(struct sl_codec_plan));
	c->dev_table = device_alloc(SL_CODEC_TABLE_BYTES(n_blocks));
	c->dev_back = device_alloc(c->bytes);
}

static void
chunk_free(struct chunk *c)
{
	free(c->raw);
	free(c->encoded);
	free(c->back);
	CHECK_OK(SL_CUDA(driver, cuMemFree, c->dev_raw));
	CHECK_OK(SL_CUDA(driver, cuMemFree, c->dev_encoded));
	CHECK_OK(SL_CUDA(driver, cuMemFree, c->dev_plans));
	CHECK_OK(SL_CUDA(driver, cuMemFree, c->dev_table));
	CHECK_OK(SL_CUDA(driver, cuMemFree, c->dev_back));
}

/* One launch for n jobs, which lie at dev_jobs. */
static void
kernel_launch(enum kernel kernel, const struct sl_codec_job *jobs, uint64_t dev_jobs,
	      uint32_t n)
{
	void *params[] = {&dev_jobs};
	uint32_t most = 0;

	for (uint32_t i = 0; i < n; i++)
		if (jobs[i].n_blocks > most)
			most = jobs[i].n_blocks;
	CHECK_OK(SL_CUDA(driver, cuLaunchKernel, function[kernel], SL_CODEC_GRID(most), n,
			 1, SL_CODEC_THREADS, 1, 1, 0, stream, params, NULL));
}

static struct sl_codec_job
job_make(const struct chunk *c, int decode, uint32_t check)
{
	return (struct sl_codec_job){
		.raw = decode ? c->dev_back : c->dev_raw,
		.encoded = c->dev_encoded,
		.plans = c->dev_plans,
		.table = c->dev_table,
		.encoded_bytes = decode ? c->n : 0,
		.n_blocks = c->n_blocks,
		.check = check,
		.damaged = UINT32_MAX,
	};
}

/* Encode and decode n chunks whose raw bytes are made, in one launch each; compare. */
static void
chunks_compare(struct chunk *chunks, uint32_t n, uint32_t check, uint64_t dev_jobs)
{
	struct sl_codec_job jobs[JOBS_MAX] = {{0}};

	for (uint32_t i = 0; i < n; i++) {
		struct chunk *c = &chunks[i];

		CHECK_OK(sl_codec_encode(c->raw, c->bytes, check ? SL_CODEC_CHECK : 0,
					 c->encoded, sl_codec_bound(c->bytes), &c->n));
		to_device(c->dev_raw, c->raw, c->bytes);
		CHECK_OK(SL_CUDA(driver, cuMemsetD8Async, c->dev_encoded, 0x77,
				 sl_codec_bound(c->bytes), stream));
		jobs[i] = job_make(c, 0, check);
	}
	to_device(dev_jobs, jobs, n * sizeof(*jobs));
	kernel_launch(PLAN, jobs, dev_jobs, n);
	kernel_launch(WRITE, jobs, dev_jobs, n);
	for (uint32_t i = 0; i < n; i++) {
		struct chunk *c = &chunks[i];

		to_host(c->back, c->dev_encoded, c->n);
		CHECK(memcmp(c->back, c->encoded, c->n) == 0);
		jobs[i] = job_make(c, 1, check);
	}
	to_device(dev_jobs, jobs, n * sizeof(*jobs));
	kernel_launch(DECODE, jobs, dev_jobs, n);
	to_host(jobs, dev_jobs, n * sizeof(*jobs));
	for (uint32_t i = 0; i < n; i++) {
		struct chunk *c = &chunks[i];
		struct sl_codec_header header;

		to_host(c->back, c->dev_back, c->bytes);
		CHECK(jobs[i].damaged == UINT32_MAX);
		CHECK(memcmp(c->back, c->raw, c->bytes) == 0);
		memcpy(&header, c->encoded, sizeof(header));
		CHECK(!check || header.checksum == jobs[i].checksum);
	}
}

static void
every_kind_of_data_gives_the_same_bytes(uint64_t dev_jobs)
{
	static const uint32_t sizes[] = {1, 3, 4, 33, 512, 4096};
	struct chunk chunks[sizeof(sizes) / sizeof(*sizes)];
	uint32_t n = sizeof(sizes) / sizeof(*sizes);

	for (uint32_t i = 0; i < n; i++)
		chunk_make(&chunks[i], sizes[i]);
	for (enum codec_data data = 0; data < CODEC_DATA_COUNT; data++) {
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t k = 0; k < sizes[i]; k++)
				codec_data_fill(data, &rng, chunks[i].raw + k * CODEC_BLOCK);
		chunks_compare(chunks, n, data & 1, dev_jobs);
	}
	for (uint32_t i = 0; i < n; i++)
		chunk_free(&chunks[i]);
}

/* Every half word, as a half and as the upper half of a fp32. */
static void
all_numbers_come_back(uint64_t dev_jobs)
{
	struct chunk c[2];

	chunk_make(&c[0], 32);
	chunk_make(&c[1], 64);
	for (uint32_t i = 0; i < 65536; i++) {
		uint32_t word = i << 16 | (i * 40503 & 0xffff);

		memcpy(c[0].raw + 2 * (size_t)i, &i, 2);
		memcpy(c[1].raw + 4 * (size_t)i, &word, 4);
	}
	chunks_compare(c, 2, 1, dev_jobs);
	chunk_free(&c[0]);
	chunk_free(&c[1]);
}

static void
random_blocks_give_the_same_bytes(uint64_t blocks, uint64_t dev_jobs)
{
	struct chunk c[2];
	uint64_t done = 0;

	chunk_make(&c[0], ROUND_BLOCKS);
	chunk_make(&c[1], ROUND_BLOCKS);
	for (uint32_t round = 0; done < blocks; round++) {
		for (uint32_t i = 0; i < 2 * ROUND_BLOCKS; i++) {
			uint32_t kind = (uint32_t)sl_rng_below(&rng, 2 * CODEC_DATA_COUNT);
			uint8_t *to = c[i & 1].raw + (size_t)(i / 2) * CODEC_BLOCK;

			if (kind < CODEC_DATA_COUNT)
				codec_data_fill((enum codec_data)kind, &rng, to);
			else
				codec_elements_fill(SL_CODEC_U8 +
							    (uint32_t)sl_rng_below(&rng, 7),
						    &rng, to);
		}
		chunks_compare(c, 2, round & 1, dev_jobs);
		done += 2 * ROUND_BLOCKS;
	}
	printf("%llu random blocks: the same bytes as the host's\n",
	       (unsigned long long)done);
	chunk_free(&c[0]);
	chunk_free(&c[1]);
}

/* The host's codec makes the same of what is at c->dev_raw. */
static void
chunk_sample(struct chunk *c)
{
	to_host(c->raw, c->dev_raw, c->bytes);
	CHECK_OK(sl_codec_encode(c->raw, c->bytes, 0, c->encoded,
				 sl_codec_bound(c->bytes), &c->n));
	to_host(c->back, c->dev_encoded, c->n);
	CHECK(memcmp(c->back, c->encoded, c->n) == 0);
}

static void
blocks_launch_compare(const struct chunk *c, uint64_t differ)
{
	uint64_t raw = c->dev_raw, back = c->dev_back;
	void *params[] = {&raw, &back, &differ};

	CHECK_OK(SL_CUDA(driver, cuLaunchKernel, blocks_compare, RATE_BLOCKS, 1, 1, 128,
			 1, 1, 0, stream, params, NULL));
}

/* Make, encode, decode and compare all chunks. jobs: to encode, to decode, and room to run both. */
static void
many_round(struct chunk *chunks, uint64_t jobs, uint64_t seed, uint64_t differ)
{
	const struct sl_codec_job sizes = {.n_blocks = RATE_BLOCKS};
	uint64_t both = 2 * MANY_CHUNKS * sizeof(struct sl_codec_job), run = jobs + both;
	struct sl_codec_job all[MANY_CHUNKS];

	for (uint32_t i = 0; i < MANY_CHUNKS; i++) {
		uint64_t chunk_seed = seed + i;
		void *params[] = {&chunks[i].dev_raw, &chunk_seed};

		all[i] = sizes;
		CHECK_OK(SL_CUDA(driver, cuLaunchKernel, blocks_make, RATE_BLOCKS, 1, 1,
				 128, 1, 1, 0, stream, params, NULL));
	}
	CHECK_OK(SL_CUDA(driver, cuMemcpyDtoDAsync, run, jobs, both, stream));
	kernel_launch(PLAN, all, run, MANY_CHUNKS);
	kernel_launch(WRITE, all, run, MANY_CHUNKS);
	kernel_launch(DECODE, all, run + both / 2, MANY_CHUNKS);
	for (uint32_t i = 0; i < MANY_CHUNKS; i++)
		blocks_launch_compare(&chunks[i], differ);
}

static void
many_blocks_come_back(uint64_t blocks, uint64_t seed)
{
	struct sl_codec_job jobs[2 * MANY_CHUNKS];
	struct chunk chunks[MANY_CHUNKS];
	uint64_t dev_jobs = device_alloc(2 * sizeof(jobs)), differ = device_alloc(8);
	uint64_t found = 0, done = 0, samples = 0;

	to_device(differ, &found, sizeof(found));
	for (uint32_t i = 0; i < MANY_CHUNKS; i++) {
		chunk_make(&chunks[i], RATE_BLOCKS);
		chunks[i].n = sl_codec_bound(chunks[i].bytes);
		jobs[i] = job_make(&chunks[i], 0, 0);
		jobs[MANY_CHUNKS + i] = job_make(&chunks[i], 1, 0);
		CHECK_OK(SL_CUDA(driver, cuMemsetD8Async, chunks[i].dev_raw, 0x77,
				 chunks[i].bytes, stream));
		CHECK_OK(SL_CUDA(driver, cuMemsetD8Async, chunks[i].dev_back, 0x55,
				 chunks[i].bytes, stream));
	}
	to_device(dev_jobs, jobs, sizeof(jobs));
	blocks_launch_compare(&chunks[0], differ); /* nothing is there yet */
	to_host(&found, differ, sizeof(found));
	CHECK(found);
	found = 0;
	to_device(differ, &found, sizeof(found));
	for (uint64_t round = 0; done < blocks; round++) {
		many_round(chunks, dev_jobs,
			   seed * 0x9e3779b97f4a7c15ull + round * MANY_CHUNKS, differ);
		done += MANY_CHUNKS * RATE_BLOCKS;
		if (round % MANY_ROUNDS_A_SAMPLE && done < blocks)
			continue;
		chunk_sample(&chunks[round / MANY_ROUNDS_A_SAMPLE % MANY_CHUNKS]);
		samples++;
		to_host(&found, differ, sizeof(found));
		CHECK(!found);
	}
	printf("%llu blocks came back on the GPU; the host made the same bytes of %llu "
	       "chunks\n",
	       (unsigned long long)done, (unsigned long long)samples);
	for (uint32_t i = 0; i < MANY_CHUNKS; i++)
		chunk_free(&chunks[i]);
	CHECK_OK(SL_CUDA(driver, cuMemFree, dev_jobs));
	CHECK_OK(SL_CUDA(driver, cuMemFree, differ));
}

/* Damaged copies of one block of every kind, JOBS_MAX a launch. */
static void
damage_is_refused_as_on_the_host(uint32_t launches, uint64_t dev_jobs)
{
	struct chunk chunks[JOBS_MAX];
	unsigned long outcomes[2] = {0, 0};

	for (uint32_t i = 0; i < JOBS_MAX; i++)
		chunk_make(&chunks[i], SAMPLE_BLOCKS);
	for (uint32_t launch = 0; launch < launches; launch++) {
		struct sl_codec_job jobs[JOBS_MAX] = {{0}};

		for (uint32_t i = 0; i < JOBS_MAX; i++) {
			struct chunk *c = &chunks[i];

			for (enum codec_data data = 0; data < CODEC_DATA_COUNT; data++)
				codec_data_fill(data, &rng,
						c->raw + (size_t)data * CODEC_BLOCK);
			CHECK_OK(sl_codec_encode(c->raw, c->bytes, SL_CODEC_CHECK, c->encoded,
						 sl_codec_bound(c->bytes), &c->n));
			for (uint64_t k = 0; k <= sl_rng_below(&rng, 3); k++) {
				uint64_t among = sl_rng_below(&rng, 2) ? 192 : c->n;

				c->encoded[sl_rng_below(&rng, among)] ^=
					(uint8_t)(1u << sl_rng_below(&rng, 8));
			}
			to_device(c->dev_encoded, c->encoded, c->n);
			jobs[i] = job_make(c, 1, 1);
		}
		to_device(dev_jobs, jobs, sizeof(jobs));
		kernel_launch(DECODE, jobs, dev_jobs, JOBS_MAX);
		to_host(jobs, dev_jobs, sizeof(jobs));
		for (uint32_t i = 0; i < JOBS_MAX; i++) {
			struct chunk *c = &chunks[i];
			struct sl_codec_header header;
			int refused, rc;

			rc = sl_codec_decode(c->encoded, c->n, SL_CODEC_CHECK, c->raw,
					     c->bytes);
			memcpy(&header, c->encoded, sizeof(header));
			refused = jobs[i].damaged != UINT32_MAX ||
				  (header.flags & SL_CODEC_HAS_CHECKSUM &&
				   header.checksum != jobs[i].checksum);
			CHECK(refused == (rc != 0));
			if (!rc) {
				to_host(c->back, c->dev_back, c->bytes);
				CHECK(memcmp(c->back, c->raw, c->bytes) == 0);
			}
			outcomes[refused]++;
		}
	}
	printf("damaged chunks: %lu accepted alike, %lu refused alike\n", outcomes[0],
	       outcomes[1]);
	CHECK(outcomes[0] && outcomes[1]);
	for (uint32_t i = 0; i < JOBS_MAX; i++)
		chunk_free(&chunks[i]);
}

/* GB/s of RATE_BYTES since the event. */
static double
rate(struct cu_event *begin, struct cu_event *end)
{
	float ms = 0;

	CHECK_OK(SL_CUDA(driver, cuEventRecord, end, stream));
	CHECK_OK(SL_CUDA(driver, cuEventSynchronize, end));
	CHECK_OK(SL_CUDA(driver, cuEventElapsedTime, &ms, begin, end));
	return RATE_BYTES / 1e6 / (double)ms;
}

/* GB/s of raw bytes, encoded and drained to pinned host memory, a chunk a launch: as moves do. A chunk is encoded while
 * the one before is drained. */
static double
drain_rate(const struct chunk *chunks, uint64_t dev_jobs, struct cu_event *begin,
	   struct cu_event *end)
{
	double result;
	struct cu_stream *encodes, *drains = stream;
	struct cu_event *encoded[2], *drained[2];
	void *host[2];

	CHECK_OK(SL_CUDA(driver, cuStreamCreate, &encodes, CU_STREAM_NONBLOCKING));
	for (int i = 0; i < 2; i++) {
		CHECK_OK(SL_CUDA(driver, cuEventCreate, &encoded[i], 0));
		CHECK_OK(SL_CUDA(driver, cuEventCreate, &drained[i], 0));
		CHECK_OK(SL_CUDA(driver, cuMemHostAlloc, &host[i],
				 sl_codec_bound(chunks[0].bytes), CU_HOST_ALLOC_PORTABLE));
	}
	CHECK_OK(SL_CUDA(driver, cuEventRecord, begin, drains));
	for (uint32_t i = 0; i < RATE_REPEATS * RATE_JOBS; i++) {
		struct sl_codec_job job = job_make(&chunks[i % 2], 0, 0);
		uint64_t dev_job = dev_jobs + i % 2 * sizeof(job);

		job.drain = (uintptr_t)host[i % 2];
		if (i >= 2)
			CHECK_OK(SL_CUDA(driver, cuStreamWaitEvent, encodes,
					 drained[i % 2], 0));
		CHECK_OK(SL_CUDA(driver, cuMemcpyHtoDAsync, dev_job, &job, sizeof(job),
				 encodes));
		stream = encodes;
		kernel_launch(PLAN, &job, dev_job, 1);
		kernel_launch(WRITE, &job, dev_job, 1);
		stream = drains;
		CHECK_OK(SL_CUDA(driver, cuEventRecord, encoded[i % 2], encodes));
		CHECK_OK(SL_CUDA(driver, cuStreamWaitEvent, drains, encoded[i % 2], 0));
		job.n_blocks = SL_CODEC_DRAIN_GRID * SL_CODEC_WARPS; /* its grid */
		kernel_launch(DRAIN, &job, dev_job, 1);
		CHECK_OK(SL_CUDA(driver, cuEventRecord, drained[i % 2], drains));
	}
	result = rate(begin, end);
	for (int i = 0; i < 2; i++) {
		CHECK(!memcmp(host[i], chunks[i].encoded, chunks[i].n) ||
		      !memcmp(host[i], chunks[i].raw, chunks[i].bytes));
		CHECK_OK(SL_CUDA(driver, cuEventDestroy, encoded[i]));
		CHECK_OK(SL_CUDA(driver, cuEventDestroy, drained[i]));
		CHECK_OK(SL_CUDA(driver, cuMemFreeHost, host[i]));
	}
	CHECK_OK(SL_CUDA(driver, cuStreamDestroy, encodes));
	return result;
}

/* Of a plain copy out. */
static double
link_rate(const struct chunk *chunks, struct cu_event *begin, struct cu_event *end)
{
	double result;
	void *host;

	CHECK_OK(SL_CUDA(driver, cuMemHostAlloc, &host, chunks[0].bytes,
			 CU_HOST_ALLOC_PORTABLE));
	CHECK_OK(SL_CUDA(driver, cuEventRecord, begin, stream));
	for (uint32_t i = 0; i < RATE_REPEATS * RATE_JOBS; i++)
		CHECK_OK(SL_CUDA(driver, cuMemcpyDtoHAsync, host,
				 chunks[i % RATE_JOBS].dev_raw, chunks[0].bytes, stream));
	result = rate(begin, end);
	CHECK_OK(SL_CUDA(driver, cuMemFreeHost, host));
	return result;
}

static void
rates_print(enum codec_data data, const char *name, uint64_t dev_jobs)
{
	struct sl_codec_job encode[RATE_JOBS], decode[RATE_JOBS];
	uint64_t dev_decode = dev_jobs + sizeof(encode);
	struct chunk chunks[RATE_JOBS];
	struct cu_event *begin, *end;
	double copied, encoded, decoded, n = 0;

	CHECK_OK(SL_CUDA(driver, cuEventCreate, &begin, 0));
	CHECK_OK(SL_CUDA(driver, cuEventCreate, &end, 0));
	for (uint32_t i = 0; i < RATE_JOBS; i++) {
		chunk_make(&chunks[i], RATE_BLOCKS);
		for (uint32_t k = 0; k < RATE_BLOCKS; k++)
			codec_data_fill(data, &rng, chunks[i].raw + (size_t)k * CODEC_BLOCK);
	}
	chunks_compare(chunks, RATE_JOBS, 0, dev_jobs);
	for (uint32_t i = 0; i < RATE_JOBS; i++) {
		encode[i] = job_make(&chunks[i], 0, 0);
		decode[i] = job_make(&chunks[i], 1, 0);
		n += (double)chunks[i].n;
	}
	to_device(dev_decode, decode, sizeof(decode));
	CHECK_OK(SL_CUDA(driver, cuEventRecord, begin, stream));
	for (int r = 0; r < RATE_REPEATS; r++)
		for (uint32_t i = 0; i < RATE_JOBS; i++)
			CHECK_OK(SL_CUDA(driver, cuMemcpyDtoDAsync, chunks[i].dev_back,
					 chunks[i].dev_raw, chunks[i].bytes, stream));
	copied = rate(begin, end);
	CHECK_OK(SL_CUDA(driver, cuEventRecord, begin, stream));
	for (int r = 0; r < RATE_REPEATS; r++)
		kernel_launch(DECODE, decode, dev_decode, RATE_JOBS);
	decoded = rate(begin, end);
	/* The jobs' answers begin anew each time: a copy of 256 bytes, in the time. */
	CHECK_OK(SL_CUDA(driver, cuEventRecord, begin, stream));
	for (int r = 0; r < RATE_REPEATS; r++) {
		CHECK_OK(SL_CUDA(driver, cuMemcpyHtoDAsync, dev_jobs, encode,
				 sizeof(encode), stream));
		kernel_launch(PLAN, encode, dev_jobs, RATE_JOBS);
		kernel_launch(WRITE, encode, dev_jobs, RATE_JOBS);
	}
	encoded = rate(begin, end);
	printf("%-16s %.3f of its size, encode %6.0f GB/s, decode %6.0f GB/s, copy %6.0f "
	       "GB/s; to host memory: encoded %4.0f, a copy %4.0f\n",
	       name, n * RATE_REPEATS / RATE_BYTES, encoded, decoded, copied,
	       drain_rate(chunks, dev_jobs, begin, end), link_rate(chunks, begin, end));
	for (uint32_t i = 0; i < RATE_JOBS; i++)
		chunk_free(&chunks[i]);
	CHECK_OK(SL_CUDA(driver, cuEventDestroy, begin));
	CHECK_OK(SL_CUDA(driver, cuEventDestroy, end));
}

int
main(int argc, char **argv)
{
	uint64_t blocks = argc > 1 ? strtoull(argv[1], NULL, 0) : 200000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	uint64_t many = argc > 3 ? strtoull(argv[3], NULL, 0) : 2000000;
	uint64_t dev_jobs;

	kernels_open();
	printf("seed %llu\n", (unsigned long long)seed);
	sl_rng_init(&rng, seed);
	dev_jobs = device_alloc(JOBS_MAX * sizeof(struct sl_codec_job));
	every_kind_of_data_gives_the_same_bytes(dev_jobs);
	all_numbers_come_back(dev_jobs);
	random_blocks_give_the_same_bytes(blocks, dev_jobs);
	many_blocks_come_back(many, seed);
	damage_is_refused_as_on_the_host(40, dev_jobs);
	rates_print(CODEC_DATA_BF16, "bf16", dev_jobs);
	rates_print(CODEC_DATA_BF16_RELU, "bf16, ReLU", dev_jobs);
	rates_print(CODEC_DATA_FP32, "fp32", dev_jobs);
	rates_print(CODEC_DATA_FP32_LOW_EMPTY, "bf16 as fp32", dev_jobs);
	rates_print(CODEC_DATA_INT64, "int64", dev_jobs);
	rates_print(CODEC_DATA_RANDOM, "random", dev_jobs);
	rates_print(CODEC_DATA_ZERO, "zeros", dev_jobs);
	CHECK_OK(SL_CUDA(driver, cuMemFree, dev_jobs));
	return 0;
}
