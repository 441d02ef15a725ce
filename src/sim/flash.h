/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A drive's flash translation: units are mapped one by one, written to blocks in order, and
 * blocks are erased whole; when free blocks run short, the block with the fewest valid units
 * is emptied by copying them (greedy garbage collection). What the program wrote and what the
 * flash had to write are counted, and so are erases: write amplification and wear.
 *
 * And the life of a drive by the bytes written to it (capacity x writes a day x days, over what is written a day: endurance
 * divided by the rate of writing).
 *
 * What it leaves to others: time. Bandwidth and latency are the machine's (plan/machine.h).
 * Threads: the caller's object.
 */
#ifndef SL_SIM_FLASH_H
#define SL_SIM_FLASH_H

#include "sim/sim.h"

struct sl_flash_config {
	uint64_t capacity_bytes; /* what can be addressed */
	double spare;            /* flash beyond it, as a share of it: 0.07 */
	uint32_t unit_bytes;     /* of mapping */
	uint32_t block_units;    /* erased together */
};

struct sl_flash_stats {
	uint64_t host_units;  /* written by the program */
	uint64_t flash_units; /* written to flash: those, and the copies of collection */
	uint64_t trimmed_units, valid_units;
	uint64_t erases;
	uint32_t block_erases_min, block_erases_max;
};

struct sl_flash;

/* A drive of 3.2 TB with 7 % spare flash, in units that keep the map small. */
void sl_flash_config_default(struct sl_flash_config *config);

/* Errors: -EINVAL with a text that names the field, -ENOMEM. destroy takes NULL. */
int sl_flash_create(const struct sl_flash_config *config, struct sl_flash **out) SL_MUST_CHECK;
void sl_flash_destroy(struct sl_flash *flash);

/*
 * Bytes of the drive's address space are written, or their contents are no longer needed. A
 * unit counts when its last byte is in the range, so that a stream of short ranges writes
 * each unit once. Ranges beyond the capacity are refused: -ENOSPC. No I/O, does not block.
 */
int sl_flash_write(struct sl_flash *flash, uint64_t offset, uint64_t bytes) SL_MUST_CHECK;
int sl_flash_trim(struct sl_flash *flash, uint64_t offset, uint64_t bytes) SL_MUST_CHECK;

void sl_flash_stats(const struct sl_flash *flash, struct sl_flash_stats *stats);
double sl_flash_amplification(const struct sl_flash *flash);    /* 1 before any write */
int sl_flash_check(const struct sl_flash *flash) SL_MUST_CHECK; /* walks all; for tests */

struct sl_wear {
	uint64_t period_bytes; /* written to the store in the period reported */
	double bytes_per_second;
	double flash_bytes_per_second; /* with amplification */
	double years; /* until the drives' endurance is used up; 0: endurance unknown; INFINITY:
		       * nothing is written */
};

/* amplification: of sl_flash_amplification(), or 1 where the endurance is given for host
 * writes (drive writes per day), as the paper has it. */
void sl_sim_wear(const struct sl_sim_result *result, const struct sl_machine *machine,
		 uint64_t clock_hz, double amplification, struct sl_wear *out);

#endif
