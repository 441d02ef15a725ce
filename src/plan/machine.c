/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines for planner and simulator: the one of the paper G10, and the check that a
 * description is possible at all. What the figures mean to a planner or to the simulator is
 * theirs to say; here is only what no machine can be.
 *
 * Threads: plain data; nothing is kept.
 */
#include "plan/machine.h"

#include <errno.h>
#include <math.h>

#define GIB (1ull << 30)

/* Bounds far above every machine that exists, so that sums and products stay exact. */
#define BYTES_MAX  ((uint64_t)1 << 50)
#define BPS_MAX    1e15
#define NS_MAX     1e12
#define GPUS_MAX   1024
#define DRIVES_MAX 4096

/* Units of a step are counted in 32 bits, and two of them added. */
#define UNITS_MAX  (UINT32_MAX / 2)
#define UNIT_LEAST 64 /* bytes: the store's share of a step is still many of them */

void
sl_machine_g10(struct sl_machine *machine)
{
	*machine = (struct sl_machine){
		.device_bytes = 40 * GIB,
		.host_bytes = 128 * GIB,
		.store_bytes = 0,
		.link_in_bps = 15.754e9,
		.link_out_bps = 15.754e9,
		.store_read_bps = 3.2e9,
		.store_write_bps = 3.2e9,
		.fault_ns = 45e3,
		.store_read_ns = 20e3,
		.store_write_ns = 16e3,
		.link_ns = 5e3,
		.alloc_bps = 1e6 / 0.000000814,
		.page_bytes = 4096,
		.link_batch_pages = 50,
		.n_gpus = 1,
		/* 3.2 TB, 30 drive writes a day for five years. */
		.drive_endurance_bytes = 30 * 3.2e12 * 5 * 365,
		.n_drives = 1,
	};
}

static int
rate_check(const char *field, double bps)
{
	if (!isfinite(bps) || bps <= 0 || bps > BPS_MAX)
		return sl_fail(-EINVAL, "machine: %s is %g bytes/s, must be above 0 and at most %g",
			       field, bps, BPS_MAX);
	return 0;
}

static int
time_check(const char *field, double ns)
{
	if (!isfinite(ns) || ns < 0 || ns > NS_MAX)
		return sl_fail(-EINVAL, "machine: %s is %g ns, must be 0 to %g", field,
			       ns, NS_MAX);
	return 0;
}

int
sl_machine_check(const struct sl_machine *machine)
{
	const struct sl_machine *m = machine;
	int rc;

	if (m->page_bytes < 512 || m->page_bytes > 1u << 30 ||
	    (m->page_bytes & (m->page_bytes - 1)))
		return sl_fail(-EINVAL, "machine: page_bytes is %u, must be a power of two, 512 to 2^30",
			       m->page_bytes);
	if (m->device_bytes < m->page_bytes || m->device_bytes > BYTES_MAX)
		return sl_fail(-EINVAL, "machine: device memory is %llu bytes, must be %u (one page) to 2^50",
			       (unsigned long long)m->device_bytes, m->page_bytes);
	if (m->host_bytes > BYTES_MAX)
		return sl_fail(-EINVAL, "machine: host memory is %llu bytes, at most 2^50",
			       (unsigned long long)m->host_bytes);
	if (m->store_bytes > BYTES_MAX)
		return sl_fail(-EINVAL, "machine: the store is %llu bytes, at most 2^50",
			       (unsigned long long)m->store_bytes);

	rc = rate_check("link_in_bps", m->link_in_bps);
	if (!rc)
		rc = rate_check("link_out_bps", m->link_out_bps);
	if (!rc)
		rc = rate_check("store_read_bps", m->store_read_bps);
	if (!rc)
		rc = rate_check("store_write_bps", m->store_write_bps);
	if (!rc)
		rc = rate_check("alloc_bps", m->alloc_bps);
	if (!rc)
		rc = time_check("fault_ns", m->fault_ns);
	if (!rc)
		rc = time_check("store_read_ns", m->store_read_ns);
	if (!rc)
		rc = time_check("store_write_ns", m->store_write_ns);
	if (!rc)
		rc = time_check("link_ns", m->link_ns);
	if (!rc && (m->encode_bps != 0 || m->decode_bps != 0))
		rc = rate_check("encode_bps", m->encode_bps);
	if (!rc && m->encode_bps != 0)
		rc = rate_check("decode_bps", m->decode_bps);
	if (rc)
		return rc;

	if (m->store_read_bps > m->link_in_bps)
		return sl_fail(-EINVAL, "machine: store_read_bps (%g) is above link_in_bps (%g): the link bounds it",
			       m->store_read_bps, m->link_in_bps);
	if (m->store_write_bps > m->link_out_bps)
		return sl_fail(-EINVAL, "machine: store_write_bps (%g) is above link_out_bps (%g): the link bounds it",
			       m->store_write_bps, m->link_out_bps);
	if (!m->link_batch_pages || m->link_batch_pages > 1u << 20)
		return sl_fail(-EINVAL, "machine: link_batch_pages is %u, must be 1 to 2^20",
			       m->link_batch_pages);
	if (!m->n_gpus || m->n_gpus > GPUS_MAX)
		return sl_fail(-EINVAL, "machine: n_gpus is %u, must be 1 to %d",
			       m->n_gpus, GPUS_MAX);
	if (!m->n_drives || m->n_drives > DRIVES_MAX)
		return sl_fail(-EINVAL, "machine: n_drives is %u, must be 1 to %d",
			       m->n_drives, DRIVES_MAX);
	if (!isfinite(m->drive_endurance_bytes) || m->drive_endurance_bytes < 0)
		return sl_fail(-EINVAL,
			       "machine: drive_endurance_bytes is %g, must be 0 or more",
			       m->drive_endurance_bytes);
	return 0;
}

struct sl_move_cost
sl_machine_move(const struct sl_machine *machine, enum sl_way way, uint32_t ratio)
{
	const struct sl_move_cost raw = {SL_TRACE_RATIO_ONE, SL_TRACE_RATIO_ONE};
	double link = way == SL_WAY_IN ? machine->link_in_bps : machine->link_out_bps;
	double codec = way == SL_WAY_IN ? machine->decode_bps : machine->encode_bps;
	double coded;

	if (!ratio || !(codec > 0))
		return raw;
	coded = fmax(ratio, ceil(link / codec * SL_TRACE_RATIO_ONE));
	if (coded >= SL_TRACE_RATIO_ONE)
		return raw;
	return (struct sl_move_cost){(uint32_t)coded, ratio};
}

/* Units of one step on something of bandwidth share_bps beside the link; at least one. */
static uint32_t
units_share(const struct sl_machine *machine, int as_published, uint32_t batch,
	    double share_bps)
{
	double units = batch * (share_bps / machine->link_in_bps) + 0.5;

	if (as_published)
		units = batch / (machine->link_in_bps / 1e9) * (share_bps / 1e9);
	return units < 1 ? 1 : (uint32_t)fmin(units, UNITS_MAX);
}

int
sl_machine_steps(const struct sl_machine *machine, uint64_t clock_hz, int as_published,
		 struct sl_machine_steps *out)
{
	uint64_t unit = machine->page_bytes, most = machine->device_bytes, units;
	double batch, step;

	while (!as_published && unit > UNIT_LEAST && most / (unit / 2) < UNITS_MAX / 4)
		unit /= 2;
	if (most / unit > UNITS_MAX / 2)
		return sl_fail(
			-EINVAL,
			"machine: device memory of %llu bytes is too much, at most "
			"%llu with pages of %llu bytes",
			(unsigned long long)most,
			(unsigned long long)(unit * (UNITS_MAX / 2)),
			(unsigned long long)unit);
	units = machine->page_bytes / unit;
	batch = (double)machine->link_batch_pages * (double)units;
	step = batch * (double)unit / (machine->link_in_bps / (double)clock_hz);
	if (step < 1 || batch > UNITS_MAX)
		return sl_fail(
			-EINVAL,
			"machine: a link of %g bytes/s moves a step of %u pages in %g "
			"ticks of the trace's clock (%g Hz): it is too fast for it",
			machine->link_in_bps, machine->link_batch_pages, step,
			(double)clock_hz);
	out->unit_bytes = unit;
	out->step_ticks = (uint64_t)step;
	out->in = (uint32_t)batch;
	out->out = units_share(machine, as_published, out->in, machine->link_out_bps);
	out->store_in = units_share(machine, as_published, out->in, machine->store_read_bps);
	out->store_out = units_share(machine, as_published, out->in,
				     machine->store_write_bps);
	return 0;
}
