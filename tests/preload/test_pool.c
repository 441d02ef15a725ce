/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that arguments hide from the library: tables in parts of a large block, as pools
 * allocate them; functions that get data at first; tables further away than the library looks,
 * known only from a function's name. Kernels write them, so no call shows them. A kernel that
 * meets an unmapped address fails.
 */
#include <inttypes.h>
#include <string.h>

#include "away.h"
#include "kernels.h"
#include "scenario.h"

#define BLOCK_BYTES (4 * AWAY_MIB)
#define WORDS       (BLOCK_BYTES / 4)
#define LAUNCHES    6u
#define POOL_BYTES  (64 * AWAY_MIB)
#define AGAIN       32u /* a function is peeked into again at this launch */

struct cu_module;
struct cu_function;

int cuLaunchKernel(struct cu_function *function, unsigned grid_x, unsigned grid_y,
		   unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
		   unsigned shared_bytes, struct cu_stream *stream, void **params,
		   void **extra);
int cuModuleLoadData(struct cu_module **module, const void *image);
int cuModuleGetFunction(struct cu_function **function, struct cu_module *module,
			const char *name);

static const struct sl_standin *standin;

/* ---- kernels: each adds to `words` words ---- */

static uint64_t
address_at(const struct sl_standin_block *block, uint64_t p)
{
	return *(const uint64_t *)standin->ptr(block, p, 8, SL_STANDIN_READ);
}

static void
plain_kernel(const struct sl_standin_block *block, void *const *params)
{
	words_add(standin, block, kernel_word(params, 0), kernel_word(params, 1),
		  (uint32_t)kernel_word(params, 2));
}

static void
chase_kernel(const struct sl_standin_block *block, void *const *params)
{
	words_add(standin, block, address_at(block, kernel_word(params, 0)), WORDS,
		  (uint32_t)kernel_word(params, 1));
}

static void
keep_kernel(const struct sl_standin_block *block, void *const *params)
{
	*(uint64_t *)standin->ptr(block, kernel_word(params, 0), 8,
				  SL_STANDIN_WRITE) = kernel_word(params, 1);
}

/* Its words are data, or its first word is the address of them. */
static void
either_kernel(const struct sl_standin_block *block, void *const *params)
{
	uint64_t p = kernel_word(params, 0);

	if (kernel_word(params, 1))
		p = address_at(block, p);
	words_add(standin, block, p, kernel_word(params, 3),
		  (uint32_t)kernel_word(params, 2));
}

#define FAR_BYTES 8192u /* peeks look at half as much */

static void
named_kernel(const struct sl_standin_block *block, void *const *params)
{
	words_add(standin, block, address_at(block, kernel_word(params, 0) + FAR_BYTES),
		  WORDS, (uint32_t)kernel_word(params, 1));
}

enum kernel { PLAIN, CHASE, KEEP, EITHER, NAMED, KERNELS };

static const struct sl_standin_kernel kernels[KERNELS] = {
	[PLAIN] = {"pool_plain", plain_kernel, 3, {8, 8, 8}},
	[CHASE] = {"pool_chase", chase_kernel, 2, {8, 8}},
	[KEEP] = {"pool_keep", keep_kernel, 2, {8, 8}},
	[EITHER] = {"pool_either", either_kernel, 4, {8, 8, 8, 8}},
	[NAMED] = {"_Z10pool_namedPKPfi", named_kernel, 2, {8, 8}},
};

static struct cu_function *functions[KERNELS];

static void
launch(enum kernel kernel, void **params)
{
	MUST(DRIVER(cuLaunchKernel)(functions[kernel], 1, 1, 1, 1, 1, 1, 0, NULL, params,
				    NULL));
	MUST(DRIVER(cuCtxSynchronize)());
}

static void
two(enum kernel kernel, uint64_t a, uint64_t b)
{
	launch(kernel, (void *[]){&a, &b});
}

static void
start(void)
{
	struct cu_module *module;

	standin = away_open();
	for (int i = 0; i < KERNELS; i++)
		standin->kernel_register(&kernels[i]);
	MUST(DRIVER(cuModuleLoadData)(&module, SL_STANDIN_IMAGE));
	for (int i = 0; i < KERNELS; i++)
		MUST(DRIVER(cuModuleGetFunction)(&functions[i], module, kernels[i].name));
}

/* ---- what is looked for where ---- */

/* The table is written by a kernel: nothing but a look shows it. */
static int
table_in_a_pool_is_found(void)
{
	uint64_t pool, block, table;

	start();
	pool = away_block(POOL_BYTES, 0);
	table = pool + 3 * AWAY_MIB + 512;
	for (unsigned i = 0; i < LAUNCHES; i++) {
		block = away_block(BLOCK_BYTES, i);
		two(KEEP, table, block);
		away_go();
		two(CHASE, table, 1);
		away_expect(block, BLOCK_BYTES, i + 1, "from a pool");
	}
	return away_close();
}

/* Data that has one word which looks like an address, not at the place that is given. */
static int
data_in_a_pool_is_no_table(void)
{
	uint64_t pool, block;

	start();
	pool = away_block(POOL_BYTES, 0);
	block = away_block(BLOCK_BYTES, 0);
	two(KEEP, pool + 128, block);
	for (unsigned i = 0; i < LAUNCHES; i++) {
		uint64_t words = 16, value = 1;
		void *params[] = {&pool, &words, &value};

		launch(PLAIN, params);
	}
	CHECK(away_word(pool, 4) == LAUNCHES);
	return away_close();
}

/* A function that is given data at first, and then what holds addresses. */
static int
function_may_turn_out_otherwise(void)
{
	uint64_t block, table, data, words = WORDS;
	uint64_t is_table = 0, zero = 0, value = 1;
	void *params[] = {&data, &is_table, &value, &words};

	start();
	block = away_block(BLOCK_BYTES, 1);
	data = away_block(BLOCK_BYTES, 0);
	table = away_block(4096, 0);
	two(KEEP, table, block);
	for (unsigned i = 1; i < AGAIN; i++)
		launch(EITHER, params);
	away_expect(data, BLOCK_BYTES, AGAIN - 1, "as data");
	/* The launch that is looked at finds what it names in place; those behind it need not. */
	launch(PLAIN, (void *[]){&block, &zero, &value});
	is_table = 1;
	data = table;
	for (unsigned i = 0; i < LAUNCHES; i++) {
		launch(EITHER, params);
		away_go();
		launch(PLAIN, (void *[]){&table, &zero, &value}); /* peeks are looked at */
	}
	away_expect(block, BLOCK_BYTES, 1 + LAUNCHES, "as addresses");
	return away_close();
}

/* It says so by its name; the table is further away than peeks look. */
static int
name_tells_of_addresses(void)
{
	uint64_t pool, block, base, value = 1;
	void *params[] = {&base, &value};

	start();
	pool = away_block(POOL_BYTES, 0);
	base = pool + AWAY_MIB;
	block = away_block(BLOCK_BYTES, 1);
	two(KEEP, base + FAR_BYTES, block);
	for (unsigned i = 0; i < LAUNCHES; i++) {
		away_go();
		launch(NAMED, params);
	}
	away_expect(block, BLOCK_BYTES, 1 + LAUNCHES, "by its name");
	return away_close();
}

/* What a launch is given of a pool brings what the table there names to the device, and no other table's. */
static int
tables_of_a_pool_are_apart(void)
{
	uint64_t pool, block[2], table[2], words = 0, value = 0;
	void *params[] = {&table[0], &words, &value};

	start();
	pool = away_block(2 * AWAY_MIB, 0);
	for (unsigned i = 0; i < 2; i++) {
		block[i] = away_block(BLOCK_BYTES, i);
		table[i] = pool + i * AWAY_MIB;
		MUST(DRIVER(cuMemcpyHtoD_v2)(table[i], &block[i], sizeof(block[i])));
	}
	away_go();
	launch(PLAIN, params);
	CHECK(away_is_mapped(block[0], BLOCK_BYTES) &&
	      !away_is_mapped(block[1], BLOCK_BYTES));
	/* A little behind its beginning, and behind a small copy to a part of it. */
	MUST(DRIVER(cuMemcpyHtoD_v2)(table[1] + 4096, &block[0], sizeof(block[0])));
	MUST(DRIVER(cuMemcpyHtoD_v2)(table[1], &(uint64_t[]){block[1], 0}, 16));
	MUST(DRIVER(cuMemcpyHtoD_v2)(table[1] + 8, &value, sizeof(value)));
	table[0] = table[1];
	away_go();
	launch(PLAIN, params);
	CHECK(away_is_mapped(block[0], BLOCK_BYTES) && away_is_mapped(block[1], BLOCK_BYTES));
	/* Filled: there is no table any more. */
	MUST(DRIVER(cuMemsetD8_v2)(table[1], 0, 8192));
	away_go();
	launch(PLAIN, params);
	CHECK(!away_is_mapped(block[0], BLOCK_BYTES) &&
	      !away_is_mapped(block[1], BLOCK_BYTES));
	return away_close();
}

/* ---- scenarios ---- */

int
main(void)
{
	const char *name = "pool";
	int status;

	scenario_open();
	status = scenario(name, table_in_a_pool_is_found, "follow=never");
	if (status == 77)
		return scenario_close() ? 1 : 77;
	scenario_expect(name, "pool_chase\"", "indirect", 1, 1);
	scenario_expect(name, "pool_chase\"", "all", LAUNCHES, LAUNCHES);

	name = "data";
	(void)scenario(name, data_in_a_pool_is_no_table, "follow=never");
	scenario_expect(name, "pool_plain\"", "indirect", 0, 0);
	scenario_expect(name, "pool_plain\"", "all", 0, 0);

	name = "either";
	(void)scenario(name, function_may_turn_out_otherwise, "follow=never");
	scenario_expect(name, "pool_either\"", "indirect", 1, 1);
	scenario_expect(name, "pool_either\"", "all", LAUNCHES - 1, LAUNCHES - 1);

	name = "named";
	(void)scenario(name, name_tells_of_addresses, "follow=never");
	scenario_expect(name, "pool_named", "all", LAUNCHES, LAUNCHES);
	(void)scenario("parts", tables_of_a_pool_are_apart, "follow=never,arguments=trust");
	return scenario_close();
}
