/* SPDX-License-Identifier: Apache-2.0 */
/* See away.h. */
#include "away.h"

#define FILLER_BYTES (12 * AWAY_MIB)
#define PIECE_BYTES  (4 * AWAY_MIB)

static const struct sl_standin *standin;
static uint64_t filler;

const struct sl_standin *
away_open(void)
{
	standin = copy_test_open(AWAY_BUDGET);
	filler = away_block(FILLER_BYTES, 0);
	return standin;
}

int
away_close(void)
{
	char text[256];

	MUST(DRIVER(cuMemFree_v2)(filler));
	if (!standin->violations())
		return 0;
	printf("%llu rules broken, the last: %s\n",
	       (unsigned long long)standin->violations(),
	       standin->last_violation(text, sizeof(text)));
	return 1;
}

int
away_is_mapped(uint64_t addr, size_t bytes)
{
	return standin->mapped(0, addr, bytes, SL_STANDIN_READ);
}

void
away_go(void)
{
	for (size_t at = 0; at < FILLER_BYTES; at += PIECE_BYTES)
		MUST(DRIVER(cuMemsetD8_v2)(filler + at, 3, PIECE_BYTES));
	MUST(DRIVER(cuStreamSynchronize)(NULL));
}

uint64_t
away_block(size_t bytes, unsigned value)
{
	uint64_t addr;

	MUST(DRIVER(cuMemAlloc_v2)(&addr, bytes));
	MUST(DRIVER(cuMemsetD32_v2)(addr, value, bytes / 4));
	MUST(DRIVER(cuCtxSynchronize)());
	return addr;
}

uint64_t
away_word(uint64_t addr, size_t bytes)
{
	uint64_t value = 0;

	MUST(DRIVER(cuMemcpyDtoH_v2)(&value, addr, bytes));
	return value;
}

void
away_expect(uint64_t addr, size_t bytes, unsigned value, const char *after)
{
	const uint64_t at[] = {0, bytes / 8 * 4, bytes - 4};

	for (int i = 0; i < 3; i++) {
		uint64_t got = away_word(addr + at[i], 4);

		if (got == value)
			continue;
		printf("%s: word at %llu is %llu, not %u\n", after,
		       (unsigned long long)at[i], (unsigned long long)got, value);
		exit(1);
	}
}
