/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the virtual machine share: times of moves, lines that do one thing after the
 * other, and the note of what went wrong.
 *
 * Threads: those of the machine, which take turns.
 */
#include "sim/virtual.h"

#include <math.h>
#include <stdarg.h>

void
sl_virtual_fail(struct sl_virtual *v, const char *fmt, ...)
{
	va_list ap;

	if (v->failed)
		return;
	v->failed = 1;
	va_start(ap, fmt);
	vsnprintf(v->why, sizeof(v->why), fmt, ap);
	va_end(ap);
}

uint64_t
sl_virtual_ticks(const struct sl_virtual *v, uint64_t bytes, double bps)
{
	return (uint64_t)ceil((double)bytes * (double)v->clock_hz / bps);
}

uint64_t
sl_virtual_latency(const struct sl_virtual *v, double ns)
{
	return (uint64_t)(ns * (double)v->clock_hz / 1e9);
}

uint64_t
sl_line_add(struct sl_line *line, uint64_t from, uint64_t ticks)
{
	if (line->free_tick < from)
		line->free_tick = from;
	line->free_tick += ticks;
	line->busy_ticks += ticks;
	return line->free_tick;
}

uint64_t
sl_line_busy(const struct sl_line *line, uint64_t now)
{
	uint64_t ahead = line->free_tick > now ? line->free_tick - now : 0;

	return line->busy_ticks > ahead ? line->busy_ticks - ahead : 0;
}
