/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flash translation (flash.h). Blocks are free, open (one for the program's writes, one for
 * collection's copies, so that what is rewritten often and what stays are not mixed), or
 * closed; closed blocks are in lists by their number of valid units, so that the emptiest is
 * found at once. Free blocks are taken in the order they were erased, which spreads the wear.
 *
 * Collection begins when as few blocks are free as it may need itself. It always gains: with
 * spare flash of at least three blocks some closed block is not full of valid units.
 */
#include "sim/flash.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define NOWHERE         UINT32_MAX
#define UNITS_MAX       (1u << 28)
#define FREE_BLOCKS_LOW 2 /* collection needs one to copy to, the program's writes one */

#define SECONDS_PER_YEAR (365.0 * 24 * 3600)

enum block_state { BLOCK_FREE, BLOCK_OPEN, BLOCK_CLOSED };

struct block {
	uint32_t valid, written; /* units */
	uint32_t erases;
	uint32_t next, prev; /* in the list of its valid count, or of free blocks */
	enum block_state state;
};

struct list {
	uint32_t head, tail;
};

struct sl_flash {
	struct sl_flash_config config;
	uint32_t n_units, n_blocks;
	uint32_t *place; /* by unit of the address space: where it is in flash, or NOWHERE */
	uint32_t *holds; /* by unit of flash: which one it has, or NOWHERE */
	struct block *blocks;
	struct list *by_valid; /* closed blocks, 0 ... block_units */
	uint32_t emptiest;     /* no list below it has a block */
	uint32_t free_head, free_tail, n_free;
	uint32_t open_host, open_copy;
	struct sl_flash_stats stats;
};

void
sl_flash_config_default(struct sl_flash_config *config)
{
	*config = (struct sl_flash_config){
		.capacity_bytes = 3200000000000ull,
		.spare = 0.07,
		.unit_bytes = 1u << 20,
		.block_units = 64,
	};
}

/* Lists are first in, first out: among equally empty blocks the one that waits longest. */
static void
closed_add(struct sl_flash *flash, uint32_t block)
{
	struct block *b = &flash->blocks[block];
	struct list *list = &flash->by_valid[b->valid];

	b->state = BLOCK_CLOSED;
	b->next = NOWHERE;
	b->prev = list->tail;
	if (b->prev == NOWHERE)
		list->head = block;
	else
		flash->blocks[b->prev].next = block;
	list->tail = block;
	if (b->valid < flash->emptiest)
		flash->emptiest = b->valid;
}

static void
closed_remove(struct sl_flash *flash, uint32_t block)
{
	struct block *b = &flash->blocks[block];
	struct list *list = &flash->by_valid[b->valid];

	if (b->prev == NOWHERE)
		list->head = b->next;
	else
		flash->blocks[b->prev].next = b->next;
	if (b->next == NOWHERE)
		list->tail = b->prev;
	else
		flash->blocks[b->next].prev = b->prev;
}

static void
free_add(struct sl_flash *flash, uint32_t block)
{
	struct block *b = &flash->blocks[block];

	b->state = BLOCK_FREE;
	b->valid = b->written = 0;
	b->next = NOWHERE;
	if (flash->n_free++)
		flash->blocks[flash->free_tail].next = block;
	else
		flash->free_head = block;
	flash->free_tail = block;
}

static uint32_t
free_take(struct sl_flash *flash)
{
	uint32_t block = flash->free_head;

	assert(flash->n_free);
	flash->free_head = flash->blocks[block].next;
	flash->n_free--;
	flash->blocks[block].state = BLOCK_OPEN;
	return block;
}

static void
unit_invalidate(struct sl_flash *flash, uint32_t unit)
{
	uint32_t at = flash->place[unit], block;
	struct block *b;

	if (at == NOWHERE)
		return;
	block = at / flash->config.block_units;
	b = &flash->blocks[block];
	flash->place[unit] = NOWHERE;
	flash->holds[at] = NOWHERE;
	flash->stats.valid_units--;
	if (b->state == BLOCK_CLOSED) {
		closed_remove(flash, block);
		b->valid--;
		closed_add(flash, block);
	} else {
		b->valid--;
	}
}

/* Write a unit to an open block, which is closed when it is full. */
static void
unit_append(struct sl_flash *flash, uint32_t unit, uint32_t *open)
{
	struct block *b;
	uint32_t at;

	if (*open == NOWHERE)
		*open = free_take(flash);
	b = &flash->blocks[*open];
	at = *open * flash->config.block_units + b->written++;
	b->valid++;
	flash->place[unit] = at;
	flash->holds[at] = unit;
	flash->stats.flash_units++;
	flash->stats.valid_units++;
	if (b->written == flash->config.block_units) {
		closed_add(flash, *open);
		*open = NOWHERE;
	}
}

static void
block_collect(struct sl_flash *flash)
{
	uint32_t block, i, unit;

	while (flash->by_valid[flash->emptiest].head == NOWHERE)
		flash->emptiest++;
	assert(flash->emptiest < flash->config.block_units);
	block = flash->by_valid[flash->emptiest].head;
	closed_remove(flash, block);
	flash->blocks[block].state = BLOCK_OPEN; /* in no list while it is emptied */
	for (i = 0; i < flash->config.block_units; i++) {
		unit = flash->holds[block * flash->config.block_units + i];
		if (unit == NOWHERE)
			continue;
		unit_invalidate(flash, unit);
		unit_append(flash, unit, &flash->open_copy);
	}
	flash->blocks[block].erases++;
	flash->stats.erases++;
	free_add(flash, block);
}

int
sl_flash_create(const struct sl_flash_config *config, struct sl_flash **out)
{
	struct sl_flash *flash;
	uint64_t units, blocks, spare;
	uint32_t i;

	if (!config->unit_bytes || !config->block_units || config->block_units > 1u << 20)
		return sl_fail(-EINVAL,
			       "flash: unit_bytes %u or block_units %u is out of range",
			       config->unit_bytes, config->block_units);
	if (!(config->spare >= 0 && config->spare <= 10))
		return sl_fail(-EINVAL, "flash: spare is %g, must be 0 to 10", config->spare);
	units = config->capacity_bytes / config->unit_bytes;
	if (!units || units > UNITS_MAX)
		return sl_fail(-EINVAL,
			       "flash: %llu bytes are %llu units of %u bytes, must be 1 "
			       "to 2^28: "
			       "change unit_bytes",
			       (unsigned long long)config->capacity_bytes,
			       (unsigned long long)units, config->unit_bytes);
	blocks = (units + config->block_units - 1) / config->block_units;
	spare = (uint64_t)((double)blocks * config->spare);
	/* Below this collection could not gain. */
	blocks += spare < FREE_BLOCKS_LOW + 2 ? FREE_BLOCKS_LOW + 2 : spare;
	if (blocks * config->block_units >= NOWHERE)
		return sl_fail(-EINVAL, "flash: too much spare flash: change unit_bytes");

	flash = calloc(1, sizeof(*flash));
	if (!flash)
		return sl_fail(-ENOMEM, "flash: no memory");
	flash->config = *config;
	flash->n_units = (uint32_t)units;
	flash->n_blocks = (uint32_t)blocks;
	flash->place = malloc(units * sizeof(*flash->place));
	flash->holds = malloc(blocks * config->block_units * sizeof(*flash->holds));
	flash->blocks = calloc(blocks, sizeof(*flash->blocks));
	flash->by_valid = malloc(((size_t)config->block_units + 1) *
				 sizeof(*flash->by_valid));
	if (!flash->place || !flash->holds || !flash->blocks || !flash->by_valid) {
		sl_flash_destroy(flash);
		return sl_fail(-ENOMEM, "flash: no memory for %llu units",
			       (unsigned long long)units);
	}
	for (i = 0; i < flash->n_units; i++)
		flash->place[i] = NOWHERE;
	for (i = 0; i < flash->n_blocks * config->block_units; i++)
		flash->holds[i] = NOWHERE;
	for (i = 0; i <= config->block_units; i++)
		flash->by_valid[i] = (struct list){NOWHERE, NOWHERE};
	flash->emptiest = config->block_units;
	flash->open_host = flash->open_copy = NOWHERE;
	for (i = 0; i < flash->n_blocks; i++)
		free_add(flash, i);
	*out = flash;
	return 0;
}

void
sl_flash_destroy(struct sl_flash *flash)
{
	if (!flash)
		return;
	free(flash->place);
	free(flash->holds);
	free(flash->blocks);
	free(flash->by_valid);
	free(flash);
}

/* Units whose last byte is in the range. */
static int
range_units(const struct sl_flash *flash, uint64_t offset, uint64_t bytes,
	    uint32_t *first, uint32_t *end)
{
	uint64_t unit = flash->config.unit_bytes, most = (uint64_t)flash->n_units * unit;

	if (offset > most || bytes > most - offset)
		return sl_fail(-ENOSPC, "flash: %llu bytes at %llu exceed its %llu bytes",
			       (unsigned long long)bytes, (unsigned long long)offset,
			       (unsigned long long)most);
	*first = (uint32_t)(offset / unit);
	*end = (uint32_t)((offset + bytes) / unit);
	return 0;
}

int
sl_flash_write(struct sl_flash *flash, uint64_t offset, uint64_t bytes)
{
	uint32_t unit = 0, end = 0;
	int rc;

	rc = range_units(flash, offset, bytes, &unit, &end);
	if (rc)
		return rc;
	for (; unit < end; unit++) {
		unit_invalidate(flash, unit);
		while (flash->open_host == NOWHERE && flash->n_free <= FREE_BLOCKS_LOW)
			block_collect(flash);
		unit_append(flash, unit, &flash->open_host);
		flash->stats.host_units++;
	}
	return 0;
}

int
sl_flash_trim(struct sl_flash *flash, uint64_t offset, uint64_t bytes)
{
	uint32_t unit = 0, end = 0;
	int rc;

	rc = range_units(flash, offset, bytes, &unit, &end);
	if (rc)
		return rc;
	for (; unit < end; unit++) {
		flash->stats.trimmed_units += flash->place[unit] != NOWHERE;
		unit_invalidate(flash, unit);
	}
	return 0;
}

void
sl_flash_stats(const struct sl_flash *flash, struct sl_flash_stats *stats)
{
	uint32_t i;

	*stats = flash->stats;
	stats->block_erases_min = UINT32_MAX;
	for (i = 0; i < flash->n_blocks; i++) {
		uint32_t erases = flash->blocks[i].erases;

		if (erases < stats->block_erases_min)
			stats->block_erases_min = erases;
		if (erases > stats->block_erases_max)
			stats->block_erases_max = erases;
	}
}

double
sl_flash_amplification(const struct sl_flash *flash)
{
	if (!flash->stats.host_units)
		return 1;
	return (double)flash->stats.flash_units / (double)flash->stats.host_units;
}

int
sl_flash_check(const struct sl_flash *flash)
{
	uint64_t valid = 0, in_blocks = 0;
	uint32_t i, k, n, n_free = 0;

	for (i = 0; i < flash->n_units; i++) {
		if (flash->place[i] == NOWHERE)
			continue;
		valid++;
		if (flash->holds[flash->place[i]] != i)
			return sl_fail(-EINVAL,
				       "flash: unit %u is not where the map says", i);
	}
	for (i = 0; i < flash->n_blocks; i++) {
		const struct block *b = &flash->blocks[i];

		for (n = k = 0; k < flash->config.block_units; k++)
			n += flash->holds[i * flash->config.block_units + k] != NOWHERE;
		if (n != b->valid || b->valid > b->written)
			return sl_fail(-EINVAL,
				       "flash: block %u counts %u valid units, has %u", i,
				       b->valid, n);
		in_blocks += n;
		n_free += b->state == BLOCK_FREE;
	}
	if (valid != in_blocks || valid != flash->stats.valid_units || n_free != flash->n_free)
		return sl_fail(-EINVAL, "flash: totals are wrong");
	return 0;
}

void
sl_sim_wear(const struct sl_sim_result *result, const struct sl_machine *machine,
	    uint64_t clock_hz, double amplification, struct sl_wear *out)
{
	double seconds = (double)result->best_ticks / (double)clock_hz;

	*out = (struct sl_wear){.period_bytes = result->bytes[SL_PATH_STORE_OUT]};
	if (seconds > 0)
		out->bytes_per_second = (double)out->period_bytes * machine->n_gpus / seconds;
	out->flash_bytes_per_second = out->bytes_per_second * amplification;
	if (machine->drive_endurance_bytes <= 0)
		return;
	out->years = INFINITY;
	if (out->flash_bytes_per_second > 0)
		out->years = machine->drive_endurance_bytes * machine->n_drives /
			     out->flash_bytes_per_second / SECONDS_PER_YEAR;
}
