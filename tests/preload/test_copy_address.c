/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that the driver keeps, or that reach the device in other forms than a kernel's
 * argument: words that streams wait for, textures, tensor maps, copied tables of addresses.
 * Their data are resident when they are used, though they were evicted before.
 *
 * Kernels use only the data that their arguments name (arguments=trust), and prefetching is off.
 * So no other data are resident when they run. It runs once with tensor maps that show their
 * address, and once with tensor maps that do not.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "away.h"

#define BLOCK_BYTES ((size_t)4 << 20)

struct cu_module;
struct cu_function;

int cuModuleLoadData(struct cu_module **module, const void *image);
int cuModuleGetFunction(struct cu_function **function, struct cu_module *module,
			const char *name);
int cuModuleGetGlobal_v2(uint64_t *addr, size_t *bytes, struct cu_module *module,
			 const char *name);
int cuLaunchKernel(struct cu_function *function, unsigned grid_x, unsigned grid_y,
		   unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
		   unsigned shared_bytes, struct cu_stream *stream, void **params,
		   void **extra);

static const struct sl_standin *standin;
static struct cu_module *module;
static struct cu_stream *stream, *second;

/* ---- words ---- */

static void
words_stay_on_the_device(void)
{
	uint64_t words = away_block(4096, 0);
	struct cu_memop ops[3] = {
		{.type = CU_MEMOP_WRITE_64, .addr = words + 64, .value = 0x123456789abcull},
		{.type = CU_MEMOP_WAIT_64,
		 .addr = words + 64,
		 .value = 0x123456789abcull,
		 .flags = CU_WAIT_VALUE_EQ},
		{.type = CU_MEMOP_WRITE_32, .addr = words + 72, .value = 5},
	};
	unsigned n = 0;

	away_go();
	CHECK(!away_is_mapped(words, 4096));
#define WORD_PAIR(write, wait, bits)                                    \
	do {                                                            \
		n++;                                                    \
		MUST(DRIVER(wait)(stream, words, n, CU_WAIT_VALUE_EQ)); \
		CHECK(away_is_mapped(words, 4096));                     \
		away_go();                                              \
		CHECK(away_is_mapped(words, 4096));                     \
		MUST(DRIVER(write)(second, words, n, 0));               \
		MUST(DRIVER(cuCtxSynchronize)());                       \
		CHECK(away_word(words, (bits) / 8) == n);               \
	} while (0)
	WORD_PAIR(cuStreamWriteValue32, cuStreamWaitValue32, 32);
	WORD_PAIR(cuStreamWriteValue32_ptsz, cuStreamWaitValue32_ptsz, 32);
	WORD_PAIR(cuStreamWriteValue32_v2, cuStreamWaitValue32_v2, 32);
	WORD_PAIR(cuStreamWriteValue32_v2_ptsz, cuStreamWaitValue32_v2_ptsz, 32);
	WORD_PAIR(cuStreamWriteValue64, cuStreamWaitValue64, 64);
	WORD_PAIR(cuStreamWriteValue64_ptsz, cuStreamWaitValue64_ptsz, 64);
	WORD_PAIR(cuStreamWriteValue64_v2, cuStreamWaitValue64_v2, 64);
	WORD_PAIR(cuStreamWriteValue64_v2_ptsz, cuStreamWaitValue64_v2_ptsz, 64);
#undef WORD_PAIR
	MUST(DRIVER(cuMemFree_v2)(words));
	away_go();

	for (int i = 0; i < 4; i++) {
		words = away_block(4096, 0);
		ops[0].addr = ops[1].addr = words + 64;
		ops[2].addr = words + 72;
		away_go();
		CHECK(!away_is_mapped(words, 4096));
		switch (i) {
		case 0:
			MUST(DRIVER(cuStreamBatchMemOp)(stream, 3, ops, 0));
			break;
		case 1:
			MUST(DRIVER(cuStreamBatchMemOp_ptsz)(NULL, 3, ops, 0));
			break;
		case 2:
			MUST(DRIVER(cuStreamBatchMemOp_v2)(stream, 3, ops, 0));
			break;
		case 3:
			MUST(DRIVER(cuStreamBatchMemOp_v2_ptsz)(NULL, 3, ops, 0));
			break;
		}
		away_go();
		CHECK(away_is_mapped(words, 4096));
		MUST(DRIVER(cuCtxSynchronize)());
		CHECK(away_word(words + 64, 8) == 0x123456789abcull);
		CHECK(away_word(words + 72, 4) == 5);
		MUST(DRIVER(cuMemFree_v2)(words));
	}
}

/* ---- textures ---- */

static void
textures_stay_on_the_device(void)
{
	struct cu_resource resource = {.type = CU_RESOURCE_LINEAR};
	struct cu_resource array = {.type = CU_RESOURCE_ARRAY};
	uint64_t object;
	size_t offset;

	for (int i = 0; i < 5; i++) {
		uint64_t block = away_block(BLOCK_BYTES / 4, 17);

		away_go();
		CHECK(!away_is_mapped(block, BLOCK_BYTES / 4));
		resource.type = i ? CU_RESOURCE_PITCH_2D : CU_RESOURCE_LINEAR;
		resource.addr = block;
		if (i < 2)
			MUST(DRIVER(cuTexObjectCreate)(&object, &resource, NULL, NULL));
		else if (i == 2)
			MUST(DRIVER(cuTexRefSetAddress_v2)(&offset, NULL, block, BLOCK_BYTES));
		else if (i == 3)
			MUST(DRIVER(cuTexRefSetAddress2D_v2)(NULL, NULL, block, 512));
		else
			MUST(DRIVER(cuTexRefSetAddress2D_v3)(NULL, NULL, block, 512));
		away_go();
		CHECK(away_is_mapped(block, BLOCK_BYTES / 4));
		CHECK(away_word(block + 4, 4) == 17);
		MUST(DRIVER(cuMemFree_v2)(block));
	}
	MUST(DRIVER(cuTexObjectCreate)(&object, &array, NULL, NULL));
	MUST(DRIVER(cuSurfObjectCreate)(&object, &array));
}

/* ---- tensor maps and tables ---- */

/* Behind 64 bytes of other things, as in the argument of a real kernel. */
struct map_argument {
	char before[64];
	struct cu_tensor_map map;
	uint64_t out, bytes;
} __attribute__((aligned(64)));

static uint64_t
map_address(const struct cu_tensor_map *map)
{
	return map->opaque[0] ? map->opaque[0] : ~map->opaque[14];
}

static uint64_t
sum(const struct sl_standin_block *block, uint64_t addr, uint64_t bytes)
{
	const uint32_t *words = standin->ptr(block, addr, bytes, SL_STANDIN_READ);
	uint64_t all = 0;

	for (uint64_t i = 0; i < bytes / 4; i++)
		all += words[i];
	return all;
}

static void
map_sum_kernel(const struct sl_standin_block *block, void *const *params)
{
	struct map_argument a;

	memcpy(&a, params[0], sizeof(a));
	*(uint64_t *)standin->ptr(block, a.out, 8,
				  SL_STANDIN_WRITE) = sum(block, map_address(&a.map),
							  a.bytes);
}

/* The sum of the block whose address is the first word of a table. */
static void
table_sum_kernel(const struct sl_standin_block *block, void *const *params)
{
	uint64_t table = *(const uint64_t *)params[0], out = *(const uint64_t *)params[1];
	uint64_t addr = *(uint64_t *)standin->ptr(block, table, 8, SL_STANDIN_READ);

	*(uint64_t *)standin->ptr(block, out, 8, SL_STANDIN_WRITE) = sum(block, addr,
									 BLOCK_BYTES);
}

static struct cu_function *map_sum, *table_sum;

static void
map_expect(const struct cu_tensor_map *map, uint64_t out, uint64_t value)
{
	struct map_argument argument = {.map = *map, .out = out, .bytes = BLOCK_BYTES};
	void *params[] = {&argument};

	away_go();
	CHECK(!away_is_mapped(map_address(map), BLOCK_BYTES));
	MUST(DRIVER(cuLaunchKernel)(map_sum, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	MUST(DRIVER(cuCtxSynchronize)());
	CHECK(away_word(out, 8) == value * (BLOCK_BYTES / 4));
}

static void
tensor_maps_name_their_tensors(void)
{
	static struct cu_tensor_map map __attribute__((aligned(64)));
	const uint64_t dims[3] = {1024, 32, 32}, strides[2] = {4096, 131072};
	const uint32_t box[3] = {16, 1, 1}, ones[3] = {1, 1, 1};
	const int corner[3] = {0, 0, 0};
	uint64_t block = away_block(BLOCK_BYTES, 3), other = away_block(BLOCK_BYTES, 9);
	uint64_t out = away_block(64, 0);
	void *tensor = (void *)(uintptr_t)block;

	/* Also made while the tensor is elsewhere: the driver refuses what is not mapped. */
	away_go();
	CHECK(!away_is_mapped(block, 16));
	MUST(DRIVER(cuTensorMapEncodeTiled)(&map, CU_TENSOR_F32, 3, tensor, dims, strides,
					    box, ones, 0, 0, 0, 0));
	map_expect(&map, out, 3);
	MUST(DRIVER(cuTensorMapEncodeIm2col)(&map, CU_TENSOR_F32, 3, tensor, dims, strides,
					     corner, corner, 4, 4, ones, 0, 0, 0, 0));
	map_expect(&map, out, 3);
	MUST(DRIVER(cuTensorMapEncodeIm2colWide)(&map, CU_TENSOR_F32, 3, tensor, dims,
						 strides, 0, 0, 4, 4, ones, 0, 0, 0, 0, 0));
	map_expect(&map, out, 3);
	MUST(DRIVER(cuTensorMapReplaceAddress)(&map, (void *)(uintptr_t)other));
	map_expect(&map, out, 9);
	/* Nonsense is refused by the driver, and nothing is remembered of it. */
	CHECK(DRIVER(cuTensorMapEncodeTiled)(&map, CU_TENSOR_F32, 9, tensor, dims,
					     strides, box, ones, 0, 0, 0, 0));
	MUST(DRIVER(cuMemFree_v2)(block));
	MUST(DRIVER(cuMemFree_v2)(other));
	MUST(DRIVER(cuMemFree_v2)(out));
}

/* More maps than are remembered: the newest still are. */
static void
many_tensor_maps_are_made(void)
{
	static struct cu_tensor_map map __attribute__((aligned(64)));
	uint64_t dims[2] = {16, 1}, strides[1] = {64};
	const uint32_t box[2] = {16, 1}, ones[2] = {1, 1};
	uint64_t block = away_block(BLOCK_BYTES, 4), out = away_block(64, 0);

	for (uint64_t i = 0; i < 70000; i++) {
		dims[1] = 1 + i % 35000;
		strides[0] = 64 + 16 * (i / 35000);
		MUST(DRIVER(cuTensorMapEncodeTiled)(&map, CU_TENSOR_U8, 2,
						    (void *)(uintptr_t)block, dims,
						    strides, box, ones, 0, 0, 0, 0));
	}
	map_expect(&map, out, 4);
	MUST(DRIVER(cuMemFree_v2)(block));
	MUST(DRIVER(cuMemFree_v2)(out));
}

static void
table_expect(uint64_t table, uint64_t out, uint64_t block, const char *by)
{
	void *params[] = {&table, &out};

	away_go();
	if (away_is_mapped(block, BLOCK_BYTES)) {
		printf("%s: the block is still there\n", by);
		exit(1);
	}
	MUST(DRIVER(cuLaunchKernel)(table_sum, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	if (DRIVER(cuCtxSynchronize)() || away_word(out, 8) != 6 * (BLOCK_BYTES / 4)) {
		printf("a table copied by %s is not known as one\n", by);
		exit(1);
	}
}

/* By each way in which a small piece of host memory gets to the device. */
static void
copied_addresses_are_found(void)
{
	uint64_t block = away_block(BLOCK_BYTES, 6), out = away_block(64, 0);
	struct buffer host, pinned;

	buffer_make(&host, KIND_PAGEABLE, 4096);
	buffer_make(&pinned, KIND_PINNED, 4096);
	memset((void *)(uintptr_t)host.addr, 0, 4096);
	memset((void *)(uintptr_t)pinned.addr, 0, 4096);
	*(uint64_t *)(uintptr_t)host.addr = block;
	*(uint64_t *)(uintptr_t)pinned.addr = block;
	for (size_t i = 0; i < n_copy_calls; i++) {
		const struct call *call = &copy_calls[i];
		struct buffer table = {.kind = KIND_OURS, .bytes = 4096};
		struct work w = {.to = &table,
				 .from = i % 2 ? &host : &pinned,
				 .width = 2048,
				 .to_pitch = 2048,
				 .from_pitch = 2048,
				 .to_rows = 1,
				 .from_rows = 1,
				 .height = 1,
				 .depth = 1,
				 .stream = stream};

		/* Peers, and the batches of boxes, have no side on the host that is looked at. */
		if (!(call->from & KIND_HOST) || !(call->to & KIND_DEVICE) ||
		    strstr(call->name, "3DBatch"))
			continue;
		/* In parts of eight bytes at least. */
		if (strstr(call->name, "BatchAsync"))
			w.width = 4096;
		table.addr = away_block(4096, 0);
		MUST(call->run(&w));
		MUST(DRIVER(cuCtxSynchronize)());
		table_expect(table.addr, out, block, call->name);
		MUST(DRIVER(cuMemFree_v2)(table.addr));
	}
	buffer_free(&host);
	buffer_free(&pinned);
	MUST(DRIVER(cuMemFree_v2)(block));
	MUST(DRIVER(cuMemFree_v2)(out));
}

/* From host memory, so many bytes of words. */
static void
words_copy(uint64_t to, const void *words, size_t bytes)
{
	MUST(DRIVER(cuMemcpyHtoD_v2)(to, words, bytes));
}

/* What a copy does not reach of a table is as it was; and a copy may begin between two words. */
static void
parts_of_tables_are_copied(void)
{
	uint64_t block = away_block(BLOCK_BYTES, 6), other = away_block(BLOCK_BYTES, 7);
	uint64_t out = away_block(64, 0), table = away_block(4096, 0);
	uint64_t words[3] = {block, other, other};
	uint32_t halves[3] = {0, (uint32_t)block, (uint32_t)(block >> 32)};

	words_copy(table, words, sizeof(words));
	words_copy(table + 8, &other, sizeof(other));
	table_expect(table, out, block, "a copy, and another over its middle");
	words[0] = 0;
	words_copy(table + 16, words, 8);
	table_expect(table, out, block, "a copy, and others over the rest");
	words_copy(table + 1028, halves, sizeof(halves));
	table_expect(table + 1032, out, block, "a copy that begins between two words");
	MUST(DRIVER(cuMemFree_v2)(block));
	MUST(DRIVER(cuMemFree_v2)(other));
	MUST(DRIVER(cuMemFree_v2)(out));
	MUST(DRIVER(cuMemFree_v2)(table));
}

static int
run(int hidden)
{
	const struct sl_standin_kernel kernels[] = {
		{"map_sum", map_sum_kernel, 1, {sizeof(struct map_argument)}},
		{"table_sum", table_sum_kernel, 2, {8, 8}},
	};
	if (hidden)
		setenv("CUDA_STANDIN_HIDE_MAPS", "1", 1);
	setenv("SLUICE_RUN", "quiet=1,arguments=trust,follow=never", 1);
	standin = away_open();
	for (int i = 0; i < 2; i++)
		standin->kernel_register(&kernels[i]);
	MUST(DRIVER(cuModuleLoadData)(&module, SL_STANDIN_IMAGE));
	MUST(DRIVER(cuModuleGetFunction)(&map_sum, module, "map_sum"));
	MUST(DRIVER(cuModuleGetFunction)(&table_sum, module, "table_sum"));
	stream = copy_test_stream();
	second = copy_test_stream();
	words_stay_on_the_device();
	textures_stay_on_the_device();
	tensor_maps_name_their_tensors();
	many_tensor_maps_are_made();
	copied_addresses_are_found();
	parts_of_tables_are_copied();
	return away_close();
}

int
main(void)
{
	int failed = 0;

	for (int hidden = 0; hidden < 2; hidden++) {
		int status;
		pid_t child;

		fflush(stdout);
		child = fork();
		if (!child)
			exit(run(hidden));
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 1;
		status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (status == 77)
			return 77;
		printf("maps that %s their address: %s\n", hidden ? "hide" : "show",
		       status ? "failed" : "ok");
		failed |= status != 0;
	}
	return failed;
}
