/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches. The data that a kernel's arguments name are found in every way of passing arguments.
 * They are resident when the kernel runs, though they were evicted before. Data that arguments
 * do not show are learnt, or all data are kept accessible. Each scenario is a process of its
 * own, since settings are read once. Its statistics have the library's counts of functions.
 *
 * Kernels add to words, so a launch on old contents, or a lost one, shows.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "away.h"
#include "base/rng.h"
#include "kernels.h"
#include "preload/api/api_graph.h"
#include "preload/api/api_launch.h"
#include "preload/api/api_stream.h"
#include "scenario.h"

#define BLOCK_BYTES (4 * AWAY_MIB)
#define WORDS       (BLOCK_BYTES / 4)
#define LAUNCHES    6u
#define PEEKS       3u /* a function's launches that are peeked into */

struct cu_module;
struct cu_function;

int cuLaunchHostFunc(struct cu_stream *stream, void (*fn)(void *), void *arg);
int cuDevicePrimaryCtxRetain(struct cu_context **context, int device);
int cuCtxSetCurrent(struct cu_context *context);
int cuModuleLoadData(struct cu_module **module, const void *image);
int cuModuleGetFunction(struct cu_function **function, struct cu_module *module,
			const char *name);
int cuModuleGetGlobal_v2(uint64_t *addr, size_t *bytes, struct cu_module *module,
			 const char *name);

static const struct sl_standin *standin;
static struct cu_module *module;
static uint64_t variable; /* of the module: an address */

/* ---- kernels: each adds to `words` words ---- */

struct by_value {
	uint64_t words, before;
	uint64_t p;
	uint32_t value, behind;
};

struct __attribute__((packed)) packed {
	uint32_t value;
	uint64_t p;
};

/* Behind 64 bytes of other things, as in the argument of a real kernel. */
struct map_argument {
	char before[64];
	struct cu_tensor_map map;
	uint64_t words;
	uint32_t value;
} __attribute__((aligned(64)));

static void
plain_kernel(const struct sl_standin_block *block, void *const *params)
{
	words_add(standin, block, kernel_word(params, 0), kernel_word(params, 1),
		  (uint32_t)kernel_word(params, 2));
}

static void
by_value_kernel(const struct sl_standin_block *block, void *const *params)
{
	struct by_value a;

	memcpy(&a, params[0], sizeof(a));
	words_add(standin, block, a.p, a.words, a.value);
}

static void
packed_kernel(const struct sl_standin_block *block, void *const *params)
{
	struct packed a;

	memcpy(&a, params[0], sizeof(a));
	words_add(standin, block, a.p, WORDS, a.value);
}

static void
map_kernel(const struct sl_standin_block *block, void *const *params)
{
	struct map_argument a;

	memcpy(&a, params[0], sizeof(a));
	words_add(standin, block, a.map.opaque[0], a.words, a.value);
}

/* Without parameters: what the module's variable names. */
static void
none_kernel(const struct sl_standin_block *block, void *const *params)
{
	const uint64_t *p = standin->ptr(block, variable, 8, SL_STANDIN_READ);

	(void)params;
	words_add(standin, block, *p, WORDS, 1);
}

/* Through so many addresses in memory. */
static void
chase(const struct sl_standin_block *block, uint64_t table, int depth, uint32_t value)
{
	while (depth--)
		table = *(const uint64_t *)standin->ptr(block, table, 8, SL_STANDIN_READ);
	words_add(standin, block, table, WORDS, value);
}

static void
chase_kernel(const struct sl_standin_block *block, void *const *params)
{
	chase(block, kernel_word(params, 0), 1, (uint32_t)kernel_word(params, 1));
}

static void
chase_far_kernel(const struct sl_standin_block *block, void *const *params)
{
	chase(block, kernel_word(params, 0), 2, (uint32_t)kernel_word(params, 1));
}

/* Write an address to memory: no call of the program shows it. */
static void
keep_kernel(const struct sl_standin_block *block, void *const *params)
{
	*(uint64_t *)standin->ptr(block, kernel_word(params, 0), 8,
				  SL_STANDIN_WRITE) = kernel_word(params, 1);
}

enum kernel { PLAIN, BY_VALUE, PACKED, MAP, NONE, CHASE, CHASE_FAR, KEEP, KERNELS };

static const struct sl_standin_kernel kernels[KERNELS] = {
	[PLAIN] = {"launch_plain", plain_kernel, 3, {8, 8, 8}},
	[BY_VALUE] = {"launch_by_value", by_value_kernel, 1, {sizeof(struct by_value)}},
	[PACKED] = {"launch_packed", packed_kernel, 1, {sizeof(struct packed)}},
	[MAP] = {"launch_map", map_kernel, 1, {sizeof(struct map_argument)}},
	[NONE] = {"launch_none", none_kernel, 0, {0}},
	[CHASE] = {"launch_chase", chase_kernel, 2, {8, 8}},
	[CHASE_FAR] = {"launch_chase_far", chase_far_kernel, 2, {8, 8}},
	[KEEP] = {"launch_keep", keep_kernel, 2, {8, 8}},
};

static struct cu_function *functions[KERNELS];

static void
launch(enum kernel kernel, void **params, void **extra)
{
	MUST(DRIVER(cuLaunchKernel)(functions[kernel], 1, 1, 1, 1, 1, 1, 0, NULL, params,
				    extra));
}

static void
done(void)
{
	MUST(DRIVER(cuCtxSynchronize)());
}

static void
two(enum kernel kernel, uint64_t a, uint64_t b)
{
	void *params[] = {&a, &b};

	launch(kernel, params, NULL);
	done();
}

static void
plain(uint64_t p, uint64_t value)
{
	uint64_t words = WORDS;
	void *params[] = {&p, &words, &value};

	launch(PLAIN, params, NULL);
}

static void
start(void)
{
	standin = away_open();
	for (int i = 0; i < KERNELS; i++)
		standin->kernel_register(&kernels[i]);
	MUST(DRIVER(cuModuleLoadData)(&module, SL_STANDIN_IMAGE "global target 8\n"));
	MUST(DRIVER(cuModuleGetGlobal_v2)(&variable, NULL, module, "target"));
	for (int i = 0; i < KERNELS; i++)
		MUST(DRIVER(cuModuleGetFunction)(&functions[i], module, kernels[i].name));
}

/* ---- arguments are taken at their word: nothing else is in place ---- */

enum way {
	WAY_PLAIN,
	WAY_MIDDLE,
	WAY_BY_VALUE,
	WAY_PACKED,
	WAY_EXTRA,
	WAY_THREAD,
	WAY_CONFIG,
	WAY_CONFIG_THREAD,
	WAY_TOGETHER,
	WAY_TOGETHER_THREAD,
	WAYS
};

/* Add 1 to the block. */
static void
way_go(enum way way, uint64_t p)
{
	struct by_value by_value = {.words = WORDS, .p = p, .value = 1};
	struct packed packed = {.value = 1, .p = p};
	struct cu_launch_config config = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
	uint64_t addr = p, words = WORDS, value = 1;
	uint64_t buffer[] = {p, WORDS, 1};
	size_t bytes = sizeof(buffer);
	void *params[] = {&addr, &words, &value};
	void *value_params[] = {&by_value}, *packed_params[] = {&packed};
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer,
			 CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
	struct cu_function *f = functions[PLAIN];

	switch (way) {
	case WAY_PLAIN:
		launch(PLAIN, params, NULL);
		return;
	case WAY_MIDDLE: /* the second half, and then the first by an address in it */
		words = WORDS / 2;
		launch(PLAIN, params, NULL);
		addr = p + BLOCK_BYTES / 2;
		launch(PLAIN, params, NULL);
		return;
	case WAY_BY_VALUE:
		launch(BY_VALUE, value_params, NULL);
		return;
	case WAY_PACKED:
		launch(PACKED, packed_params, NULL);
		return;
	case WAY_EXTRA:
		launch(PLAIN, NULL, extra);
		return;
	case WAY_THREAD:
		MUST(DRIVER(cuLaunchKernel_ptsz)(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
		return;
	case WAY_CONFIG:
		MUST(DRIVER(cuLaunchKernelEx)(&config, f, params, NULL));
		return;
	case WAY_CONFIG_THREAD:
		MUST(DRIVER(cuLaunchKernelEx_ptsz)(&config, f, NULL, extra));
		return;
	case WAY_TOGETHER:
		MUST(DRIVER(cuLaunchCooperativeKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, params));
		return;
	case WAY_TOGETHER_THREAD:
		MUST(DRIVER(cuLaunchCooperativeKernel_ptsz)(f, 1, 1, 1, 1, 1, 1, 0, NULL,
							    params));
		return;
	case WAYS:
		return;
	}
}

static void
every_way_of_passing_arguments_is_read(void)
{
	uint64_t block = away_block(BLOCK_BYTES, 0), other = away_block(BLOCK_BYTES, 7);
	char text[32];

	for (unsigned way = 0; way < WAYS; way++) {
		away_go();
		CHECK(!away_is_mapped(block, BLOCK_BYTES));
		way_go((enum way)way, block);
		done();
		CHECK(!away_is_mapped(other, BLOCK_BYTES)); /* nobody named it */
		snprintf(text, sizeof(text), "way %u", way);
		away_expect(block, BLOCK_BYTES, way + 1, text);
	}
	away_expect(other, BLOCK_BYTES, 7, "all ways");
	MUST(DRIVER(cuMemFree_v2)(block));
	MUST(DRIVER(cuMemFree_v2)(other));
}

/* The block is larger than the tensor: only the tensor's part of it is brought in. */
static void
tensor_map_names_its_tensor_and_no_more(void)
{
	static struct map_argument argument;
	const uint64_t dims[2] = {1024, AWAY_MIB / 2048}, strides[1] = {4096};
	const uint32_t box[2] = {16, 1}, ones[2] = {1, 1};
	uint64_t block = away_block(8 * AWAY_MIB, 5), tensor = block + 4 * AWAY_MIB;
	void *params[] = {&argument};

	argument.words = 2 * AWAY_MIB / 4;
	argument.value = 2;
	MUST(DRIVER(cuTensorMapEncodeTiled)(&argument.map, CU_TENSOR_F32, 2,
					    (void *)(uintptr_t)tensor, dims, strides, box,
					    ones, 0, 0, 0, 0));
	for (unsigned i = 0; i < 2; i++) {
		away_go();
		CHECK(!away_is_mapped(tensor, 16));
		launch(MAP, params, NULL);
		done();
		CHECK(away_is_mapped(tensor, 2 * AWAY_MIB));
		CHECK(!away_is_mapped(block, 2 * AWAY_MIB));
		CHECK(!away_is_mapped(block + 6 * AWAY_MIB, 2 * AWAY_MIB));
	}
	away_expect(tensor, 2 * AWAY_MIB, 9, "tensor");
	away_expect(block, 4 * AWAY_MIB, 5, "before the tensor");
	away_expect(block + 6 * AWAY_MIB, 2 * AWAY_MIB, 5, "behind the tensor");
	MUST(DRIVER(cuMemFree_v2)(block));
}

static void
kernel_without_parameters_reads_a_variable(unsigned launches)
{
	uint64_t block = away_block(BLOCK_BYTES, 3);

	MUST(DRIVER(cuMemcpyHtoD_v2)(variable, &block, sizeof(block)));
	for (unsigned i = 0; i < launches; i++) {
		away_go();
		launch(NONE, NULL, NULL);
		done();
	}
	away_expect(block, BLOCK_BYTES, 3 + launches, "variable");
	MUST(DRIVER(cuMemFree_v2)(block));
}

static int
taken_at_their_word(void)
{
	start();
	every_way_of_passing_arguments_is_read();
	tensor_map_names_its_tensor_and_no_more();
	kernel_without_parameters_reads_a_variable(2);
	return away_close();
}

/* ---- what arguments do not show ---- */

/* A kernel that is given a single number, as sums and losses are. */
static void
a_number_hides_no_address(void)
{
	struct by_value argument = {.words = 1, .p = away_block(4, 1), .value = 1};
	void *params[] = {&argument};

	for (unsigned i = 0; i < LAUNCHES; i++) {
		away_go();
		launch(BY_VALUE, params, NULL);
	}
	done();
	CHECK(away_word(argument.p, 4) == 1 + LAUNCHES);
}

static int
hidden_addresses_are_reached(void)
{
	uint64_t block, table, far;

	start();
	block = away_block(BLOCK_BYTES, 1);
	table = away_block(4096, 0);
	far = away_block(4096, 0);
	a_number_hides_no_address();
	two(KEEP, table, block);
	two(KEEP, far, table);
	for (unsigned i = 0; i < LAUNCHES; i++) {
		away_go();
		CHECK(i || !away_is_mapped(block, BLOCK_BYTES)); /* later in host memory */
		two(CHASE, table, 1);
		away_go();
		two(CHASE_FAR, far, 10);
	}
	away_expect(block, BLOCK_BYTES, 1 + 11 * LAUNCHES, "hidden");
	kernel_without_parameters_reads_a_variable(LAUNCHES);
	/* Of this one it is known after some launches that its arguments name all. */
	for (unsigned i = 0; i < LAUNCHES; i++) {
		uint64_t other = away_block(BLOCK_BYTES, 0);

		away_go();
		plain(other, 4);
		done();
		away_expect(other, BLOCK_BYTES, 4, "named");
		MUST(DRIVER(cuMemFree_v2)(other));
	}
	return away_close();
}

static void
host_stands(void *arg)
{
	const struct timespec pause = {0, 1000000};

	while (!atomic_load((_Atomic int *)arg))
		nanosleep(&pause, NULL);
}

/* Work that ends only when the launching thread has gone on: nobody waits for a peek behind it for ever,
 * and not again. */
static int
peeks_behind_a_wait_are_not_awaited(void)
{
	_Atomic int goes_on = 0;
	uint64_t block;

	start();
	block = away_block(BLOCK_BYTES, 1);
	away_go();
	MUST(DRIVER(cuLaunchHostFunc)(NULL, host_stands, &goes_on));
	plain(block, 1);
	atomic_store(&goes_on, 1);
	done();
	for (unsigned i = 0; i < LAUNCHES; i++) {
		away_go();
		way_go(WAY_BY_VALUE, block);
		done();
	}
	away_expect(block, BLOCK_BYTES, 2 + LAUNCHES, "behind a wait");
	return away_close();
}

/* Functions that are only launched inside of graphs. */
static int
graphs_are_peeked_into(void)
{
	struct cu_graph_exec *exec;
	struct cu_stream *stream;
	struct cu_graph *graph;
	uint64_t block, table, other, value = 1;
	uint64_t words = WORDS;
	void *chase_params[] = {&table, &value}, *plain_params[] = {&other, &words, &value};

	start();
	block = away_block(BLOCK_BYTES, 1);
	other = away_block(BLOCK_BYTES, 2);
	table = away_block(4096, 0);
	two(KEEP, table, block);
	stream = copy_test_stream();
	MUST(DRIVER(cuStreamBeginCapture_v2)(stream, CU_CAPTURE_MODE_GLOBAL));
	MUST(DRIVER(cuLaunchKernel)(functions[CHASE], 1, 1, 1, 1, 1, 1, 0, stream,
				    chase_params, NULL));
	MUST(DRIVER(cuLaunchKernel)(functions[PLAIN], 1, 1, 1, 1, 1, 1, 0, stream,
				    plain_params, NULL));
	MUST(DRIVER(cuStreamEndCapture)(stream, &graph));
	MUST(DRIVER(cuGraphInstantiateWithFlags)(&exec, graph, 0));
	for (unsigned i = 0; i < LAUNCHES; i++) {
		away_go();
		MUST(DRIVER(cuGraphLaunch)(exec, stream));
		MUST(DRIVER(cuStreamSynchronize)(stream));
	}
	away_expect(block, BLOCK_BYTES, 1 + LAUNCHES, "chased in a graph");
	away_expect(other, BLOCK_BYTES, 2 + LAUNCHES, "named in a graph");
	/* What the graph's launches have told of it holds for a launch without. */
	away_go();
	plain(other, 1);
	done();
	away_expect(other, BLOCK_BYTES, 3 + LAUNCHES, "behind the graph");
	return away_close();
}

/* Arguments that name another GPU's memory, which the kernel passes by. */
static int
other_gpus_memory_is_left_alone(void)
{
	struct cu_context *here, *there;
	struct by_value argument = {.words = WORDS, .value = 1};
	void *params[] = {&argument};
	struct cu_graph_exec *exec;
	struct cu_stream *stream;
	struct cu_graph *graph;
	uint64_t block, filler;

	setenv("CUDA_STANDIN_DEVICES", "2", 1);
	start();
	here = copy_test_context();
	MUST(DRIVER(cuDevicePrimaryCtxRetain)(&there, 1));
	MUST(DRIVER(cuCtxSetCurrent)(there));
	argument.before = away_block(BLOCK_BYTES, 8);
	filler = away_block(12 * AWAY_MIB, 1);
	MUST(DRIVER(cuCtxSetCurrent)(here));
	argument.p = block = away_block(BLOCK_BYTES, 0);
	for (unsigned i = 0; i < LAUNCHES; i++) {
		away_go();
		launch(BY_VALUE, params, NULL);
		done();
	}
	/* A graph's own copies may go there: it is held where it is. */
	stream = copy_test_stream();
	MUST(DRIVER(cuStreamBeginCapture_v2)(stream, CU_CAPTURE_MODE_GLOBAL));
	MUST(DRIVER(cuLaunchKernel)(functions[BY_VALUE], 1, 1, 1, 1, 1, 1, 0, stream,
				    params, NULL));
	MUST(DRIVER(cuStreamEndCapture)(stream, &graph));
	MUST(DRIVER(cuGraphInstantiateWithFlags)(&exec, graph, 0));
	for (unsigned i = 0; i < LAUNCHES; i++) {
		away_go();
		MUST(DRIVER(cuGraphLaunch)(exec, stream));
		MUST(DRIVER(cuStreamSynchronize)(stream));
		CHECK(standin->mapped(1, argument.before, BLOCK_BYTES, SL_STANDIN_READ));
	}
	away_expect(block, BLOCK_BYTES, 2 * LAUNCHES, "here");
	MUST(DRIVER(cuCtxSetCurrent)(there));
	away_expect(argument.before, BLOCK_BYTES, 8, "there");
	MUST(DRIVER(cuCtxSetCurrent)(here));
	MUST(DRIVER(cuMemFree_v2)(filler));
	return away_close();
}

/* A driver that tells nothing of its functions. */
static int
unreadable_arguments_reach_everything(void)
{
	uint64_t block, table;

	setenv("CUDA_STANDIN_NO_NAMES", "1", 1);
	start();
	CHECK(!standin->fail_set("cuFuncGetParamInfo:1+:801"));
	block = away_block(BLOCK_BYTES, 1);
	table = away_block(4096, 0);
	two(KEEP, table, block);
	for (unsigned i = 0; i < LAUNCHES; i++) {
		away_go();
		two(CHASE, table, 1);
	}
	away_expect(block, BLOCK_BYTES, 1 + LAUNCHES, "unreadable");
	return away_close();
}

static int
named_and_all(void)
{
	uint64_t block, table;

	start();
	block = away_block(BLOCK_BYTES, 0);
	table = away_block(4096, 0);
	two(KEEP, table, block);
	for (unsigned i = 0; i < LAUNCHES; i++) {
		away_go();
		plain(block, 1);
		away_go();
		way_go(WAY_PACKED, block);
		away_go();
		two(CHASE, table, 1);
	}
	away_expect(block, BLOCK_BYTES, 3 * LAUNCHES, "policies");
	return away_close();
}

/* ---- under pressure ---- */

#define BLOCKS 12u /* of BLOCK_BYTES: four times the device budget */
#define STEPS  40u
#define ROUNDS 4u

/* The same steps in each round, as programs have them. */
static int
repeated_steps_are_right(void)
{
	uint64_t blocks[BLOCKS], table;
	unsigned expected[BLOCKS];
	struct sl_rng rng;
	char text[32];

	start();
	table = away_block(4096, 0);
	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = away_block(BLOCK_BYTES, i);
		expected[i] = i;
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		sl_rng_init(&rng, 4);
		for (unsigned step = 0; step < STEPS; step++) {
			unsigned i = (unsigned)(sl_rng_next(&rng) >> 8) % BLOCKS;
			unsigned way = (unsigned)(sl_rng_next(&rng) >> 8) % (WAYS + 1);

			if (way == WAYS) {
				two(KEEP, table, blocks[i]);
				two(CHASE, table, 1);
			} else {
				way_go((enum way)way, blocks[i]);
			}
			/* Two streams: the thread's own does not wait for the legacy one's. */
			if (way == WAY_THREAD || way == WAY_CONFIG_THREAD ||
			    way == WAY_TOGETHER_THREAD)
				done();
			expected[i]++;
		}
		done();
	}
	for (unsigned i = 0; i < BLOCKS; i++) {
		snprintf(text, sizeof(text), "block %u", i);
		away_expect(blocks[i], BLOCK_BYTES, expected[i], text);
	}
	return away_close();
}

/* ---- scenarios ---- */

static void
settings_are_kept(const char *policies)
{
	const char *name = "policies";
	char settings[128];
	FILE *f = fopen(policies, "w");

	CHECK(f && fputs("# what is known\nnames *_plain\nall *_packed\n", f) >= 0 &&
	      !fclose(f));
	snprintf(settings, sizeof(settings), "follow=never,policies=%s", policies);
	(void)scenario(name, named_and_all, settings);
	scenario_expect(name, "launch_plain", "all", 0, 0);
	scenario_expect(name, "launch_packed", "all", LAUNCHES, LAUNCHES);
	scenario_expect(name, "launch_chase", "all", LAUNCHES, LAUNCHES);

	name = "all";
	(void)scenario(name, named_and_all, "follow=never,arguments=all");
	scenario_expect(name, "launch_plain", "all", LAUNCHES, LAUNCHES);
	scenario_expect(name, "launch_plain", "indirect", 0, 0);
	scenario_expect(name, "launch_chase", "all", LAUNCHES, LAUNCHES);
}

static void
functions_are_learnt(void)
{
	const char *name = "hidden";

	(void)scenario(name, hidden_addresses_are_reached, "follow=never");
	scenario_expect(name, "launch_chase\"", "launches", LAUNCHES, LAUNCHES);
	scenario_expect(name, "launch_chase\"", "all", LAUNCHES, LAUNCHES);
	scenario_expect(name, "launch_chase\"", "indirect", 1, 1);
	scenario_expect(name, "launch_chase_far\"", "indirect", 1, 1);
	scenario_expect(name, "launch_by_value\"", "launches", LAUNCHES, LAUNCHES);
	scenario_expect(name, "launch_by_value\"", "all", 0, 0);
	scenario_expect(name, "launch_plain\"", "launches", LAUNCHES, LAUNCHES);
	scenario_expect(name, "launch_plain\"", "all", 0, 0); /* peeked into before it runs */
	scenario_expect(name, "launch_plain\"", "indirect", 0, 0);
	scenario_expect(name, "launch_none\"", "all", PEEKS, PEEKS);

	name = "wait";
	(void)scenario(name, peeks_behind_a_wait_are_not_awaited, "follow=never");
	scenario_expect(name, "launch_plain\"", "all", 1, 1);
	scenario_expect(name, "launch_by_value\"", "all", PEEKS, PEEKS);

	name = "graphs";
	(void)scenario(name, graphs_are_peeked_into, "follow=never");
	scenario_expect(name, "launch_chase\"", "launches", 1, 1); /* the captured one */
	scenario_expect(name, "launch_chase\"", "indirect", 1, 1);
	scenario_expect(name, "launch_plain\"", "launches", 2, 2);
	scenario_expect(name, "launch_plain\"", "all", 1, 1);
	(void)scenario("gpus", other_gpus_memory_is_left_alone, "arguments=trust");

	name = "unreadable";
	(void)scenario(name, unreadable_arguments_reach_everything, "follow=never");
	scenario_expect(name, "counters", "launches_opaque", LAUNCHES + 1, LAUNCHES + 1);
	scenario_expect(name, "counters", "launches_all", LAUNCHES + 1, LAUNCHES + 1);
}

static void
pressure_is_borne(void)
{
	(void)scenario("alone", repeated_steps_are_right, "follow=never,explain=1");
	scenario_expect("alone", "counters", "follows_hit", 0, 0);
	scenario_expect("alone", "launch_plain", "missed_bytes", BLOCK_BYTES, UINT64_MAX);
	(void)scenario("following", repeated_steps_are_right, "follow=always");
	scenario_expect("following", "counters", "follows_hit", STEPS, UINT64_MAX);
	scenario_expect("following", "launch_plain", "missed_bytes", 0, 0);
	(void)scenario("everything", repeated_steps_are_right, "arguments=all");
}

int
main(void)
{
	char path[64];
	int status;

	scenario_open();
	status = scenario("words", taken_at_their_word, "arguments=trust,follow=never");
	scenario_path(path, "file");
	if (status != 77) {
		settings_are_kept(path);
		functions_are_learnt();
		pressure_is_borne();
	}
	return scenario_close() ? 1 : status == 77 ? 77 : 0;
}
