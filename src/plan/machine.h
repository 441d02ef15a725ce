/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine that a plan is made for and a simulation runs on: memories, links, drives and
 * the cost of a fault. One description for planner, simulator and what-if.
 *
 * Units: bytes, bytes per second (decimal giga where a user writes G), nanoseconds.
 */
#ifndef SL_PLAN_MACHINE_H
#define SL_PLAN_MACHINE_H

#include <stdint.h>

#include "base/error.h"
#include "trace/trace.h"

struct sl_machine {
	uint64_t device_bytes; /* memory of one GPU */
	uint64_t host_bytes;   /* host memory lent to it; 0 allowed */
	uint64_t store_bytes;  /* of all drives together; 0: unlimited */
	double link_in_bps;    /* host to device */
	double link_out_bps;   /* device to host */
	double store_read_bps; /* store to device or host; <= link */
	double store_write_bps;
	double fault_ns;      /* serving one page fault by the host */
	double store_read_ns; /* latency of one request (the artifact's SSD latency) */
	double store_write_ns;
	double link_ns;
	double alloc_bps; /* clearing fresh device memory */
	/* A compressed link: raw bytes per second that the device encodes on their way out and
	 * decodes on their way in. Both 0: all bytes cross as they are. */
	double encode_bps, decode_bps;
	uint32_t page_bytes;       /* unit of paging for fault-driven policies */
	uint32_t link_batch_pages; /* pages that cross the link in one transfer step */
	uint32_t n_gpus;           /* share host memory, store and its bandwidth; >= 1 */
	int shares_link;           /* the GPUs hang on one link; else each has its own */
	/* The drive, for wear: bytes that may be written in its life and the share of
	 * over-provisioned flash the translation layer has. */
	double drive_endurance_bytes; /* drive writes per day x capacity x days; 0: unknown */
	uint32_t n_drives;
};

/* The machine of the paper G10, table "simulated machine": A100 with 40 GiB, PCIe 3 x16,
 * 128 GiB host, one Z-NAND drive of 3.2 GB/s. */
void sl_machine_g10(struct sl_machine *machine);

enum sl_way { SL_WAY_IN, SL_WAY_OUT, SL_WAY_COUNT }; /* to the device, from it */

/* What moving contents costs, in ten-thousandths (SL_TRACE_RATIO_ONE) of what raw bytes cost. */
struct sl_move_cost {
	uint32_t time;  /* on the link: 1 to SL_TRACE_RATIO_ONE */
	uint32_t bytes; /* that cross it */
};

/*
 * The time of a move, for simulator, planner and bound. ratio: of a tensor (struct sl_tensor); 0:
 * not known. The link and the codec work at once, a chunk behind each other. So a move takes as
 * long as the slower of the two: ratio times the time of raw bytes on the link, or their time in
 * the codec. What would not be faster, and what has no ratio, crosses raw. The store's rate is
 * that of raw bytes in any case. Pure; the machine passed sl_machine_check().
 */
struct sl_move_cost sl_machine_move(const struct sl_machine *machine, enum sl_way way,
				    uint32_t ratio);

/*
 * Transfers are seen on a fixed grid: in each step of step_ticks so many units of unit_bytes
 * cross a way at most. The simulation by pages moves by it, and the lower bound counts by it.
 */
struct sl_machine_steps {
	uint64_t unit_bytes;
	uint64_t step_ticks;
	uint32_t in, out;             /* units: the link, each way */
	uint32_t store_in, store_out; /* of them from the store, and to it */
};

/*
 * as_published: the unit is the page and a share of a step is cut to whole pages. Else it is a
 * part of a page, small enough that rounding to it does not matter. -EINVAL: so much device
 * memory that units cannot be counted, or a link too fast for the clock.
 */
int sl_machine_steps(const struct sl_machine *machine, uint64_t clock_hz,
		     int as_published, struct sl_machine_steps *out) SL_MUST_CHECK;

/* Every figure possible and consistent? -EINVAL, the text names the field and its bound. */
int sl_machine_check(const struct sl_machine *machine) SL_MUST_CHECK;

#endif
