/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of src/codec/codec.cu on a CPU (warp_threads.h), against the host's codec: the same
 * encoded bytes; the same raw bytes; of damaged input the same is refused, and what is not gives the
 * same. For test_codec_kernels.sh:
 *
 *	codec_kernels ROUNDS SEED      chunks of up to 13 blocks
 */
#include "warp_threads.h"
/* Words above, kernels below. */
#include "codec/codec.cu"

extern "C" {
#include "codec_twin.h"
}

enum { BLOCKS_MAX = 13, DAMAGES = 6 };

static void (*kernel_now)(sl_codec_job *);
static sl_codec_job *jobs_now;

static void
kernel_thread(void)
{
	kernel_now(jobs_now);
}

static void
grid_launch(void (*kernel)(sl_codec_job *), sl_codec_job *job, unsigned grid)
{
	kernel_now = kernel;
	jobs_now = job;
	for (unsigned x = 0; x < grid; x++) {
		blockIdx = {x, 0, 0};
		warp_block_run(kernel_thread);
	}
}

/* More thread blocks than the job needs, as where another job of the launch is larger. */
static void
kernel_launch(void (*kernel)(sl_codec_job *), sl_codec_job *job)
{
	grid_launch(kernel, job, SL_CODEC_GRID(job->n_blocks) + 1);
}

static uint64_t
address(const void *memory)
{
	return (uint64_t)(uintptr_t)memory;
}

static uint8_t *
buffer_make(size_t bytes)
{
	uint8_t *memory = static_cast<uint8_t *>(aligned_alloc(64, (bytes + 63) / 64 * 64));

	if (!memory)
		abort();
	memset(memory, 0x77, bytes);
	return memory;
}

static void
fail(unsigned round, const char *what)
{
	printf("round %u: %s\n", round, what);
	exit(1);
}

/* Change a bit or a byte, more often than not in the table or in a head. */
static void
damage(uint8_t *in, size_t n, unsigned blocks)
{
	size_t table = 64, first = table + (2 * blocks + 63) / 64 * 64, at;

	switch (twin_random(4)) {
	case 0:
		at = table + twin_random(2 * blocks);
		break;
	case 1:
	case 2:
		at = first + twin_random(48);
		break;
	default:
		at = twin_random(n);
		break;
	}
	if (at < n)
		in[at] ^= twin_random(3) ? 1u << twin_random(8) : 1 + twin_random(255);
}

static void
decode_compare(unsigned round, const uint8_t *encoded, size_t n, unsigned blocks, unsigned check,
	       unsigned long *outcomes)
{
	size_t bytes = blocks * (size_t)4096;
	uint8_t *in = buffer_make(n), *host = buffer_make(bytes), *device = buffer_make(bytes);

	for (unsigned damages = 0; damages < DAMAGES; damages++) {
		sl_codec_job job = {};
		sl_codec_header header;
		int refused, rc;

		job.raw = address(device);
		job.encoded = address(in);
		job.encoded_bytes = n;
		job.n_blocks = blocks;
		job.check = check;
		job.damaged = UINT32_MAX;
		memcpy(in, encoded, n);
		for (unsigned i = 0; i < damages; i += 2)
			damage(in, n, blocks);
		rc = twin_decode(in, n, check, host, bytes);
		kernel_launch(sl_codec_decode_kernel, &job);
		memcpy(&header, in, sizeof(header));
		refused = job.damaged != UINT32_MAX ||
			  (check && header.flags & SL_CODEC_HAS_CHECKSUM &&
			   header.checksum != job.checksum);
		if (refused != (rc != 0))
			fail(round, "the host refuses what the kernel accepts, or the other way round");
		if (!rc && memcmp(host, device, bytes) != 0)
			fail(round, "other raw bytes");
		if (!damages && rc)
			fail(round, "what was encoded is refused");
		if (damages)
			outcomes[refused]++;
	}
	free(device);
	free(host);
	free(in);
}

int
main(int argc, char **argv)
{
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[1]) : 20;
	unsigned long outcomes[2] = {0, 0}, total = 0, stored = 0;

	twin_seed(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
	for (unsigned round = 0; round < rounds; round++) {
		unsigned blocks = 1 + (unsigned)twin_random(BLOCKS_MAX), check = round % 2;
		size_t bytes = blocks * (size_t)4096, n;
		uint8_t *raw = buffer_make(bytes), *out = buffer_make(bytes + 64);
		uint8_t *drained = buffer_make(bytes + 64);
		uint8_t *expected = buffer_make(bytes + 64);
		uint8_t *plans = buffer_make(blocks * sizeof(sl_codec_plan));
		uint8_t *table = buffer_make(SL_CODEC_TABLE_BYTES(blocks));
		uint64_t most = round % 3 ? 0 : 1 + twin_random(bytes);
		sl_codec_job job = {};

		for (unsigned i = 0; i < blocks; i++)
			twin_fill(round, raw + i * (size_t)4096);
		n = twin_encode(raw, bytes, check, most, expected);
		job.raw = address(raw);
		job.encoded = address(out);
		job.plans = address(plans);
		job.table = address(table);
		job.encoded_bytes = most;
		job.n_blocks = blocks;
		job.check = check;
		job.drain = round % 4 > 1 ? address(drained) : 0;
		kernel_launch(sl_codec_plan_kernel, &job);
		kernel_launch(sl_codec_write_kernel, &job);
		if (job.drain)
			grid_launch(sl_codec_drain_kernel, &job, SL_CODEC_DRAIN_GRID);
		if (job.drain && is_stored(&job, job.units)) {
			if (memcmp(drained, raw, bytes) != 0)
				fail(round, "other drained bytes of what is stored");
			stored++;
		} else if (memcmp(job.drain ? drained : out, expected, n) != 0) {
			fail(round, "other encoded bytes");
		}
		decode_compare(round, expected, n, blocks, check, outcomes);
		total += blocks;
		free(plans);
		free(table);
		free(drained);
		free(expected);
		free(out);
		free(raw);
	}
	printf("%lu blocks; damaged: %lu accepted alike, %lu refused alike; %lu stored chunks drained\n",
	       total, outcomes[0], outcomes[1], stored);
	return outcomes[0] && outcomes[1] && stored ? 0 : 1;
}
