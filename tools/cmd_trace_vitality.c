/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice trace vitality`: the characterisation of a trace from the paper G10, as tables, JSON
 * and a picture. It shows the memory that launches use at a time, the idle times of tensors, and
 * their sizes.
 *
 * src/plan/vitality.h has the numbers, trace_picture.c the picture.
 *
 * Threads: one.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/size.h"
#include "cmd_trace.h"
#include "json.h"
#include "plan/vitality.h"
#include "trace_picture.h"

static const char *const idle_words[SL_IDLE_BINS] = {
	"< 1 us",   "< 10 us", "< 100 us", "< 1 ms",  "< 10 ms",
	"< 100 ms", "< 1 s",   "< 10 s",   "< 100 s", ">= 100 s",
};

static const char *const size_words[SL_SIZE_BINS] = {
	"<= 4 KiB",   "<= 64 KiB", "<= 1 MiB", "<= 16 MiB",
	"<= 256 MiB", "<= 4 GiB",  "> 4 GiB",
};

static double
percent(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

static void
table_print(const struct sl_vitality *v, const struct sl_vitality_stats *s)
{
	uint64_t idles = 0, idle_bytes = 0, idle_sum = 0, byte_sum = 0;
	char size[32];

	printf("launches            %u\n", v->n_launches);
	printf("tensors             %u, %s, %u of them idle at times\n", s->n_tensors,
	       sl_size_format(v->total_bytes, size, sizeof(size)), s->n_idle_tensors);
	printf("global              %s\n",
	       sl_size_format(v->global_bytes, size, sizeof(size)));
	printf("most alive          %s\n",
	       sl_size_format(v->peak_alive_bytes, size, sizeof(size)));
	printf("alive, of all       mean %.3f %%, most %.3f %%\n", 100 * s->alive_mean,
	       100 * s->alive_max);
	printf("active, of all      mean %.3f %%, median %.3f %%, most %.3f %%\n",
	       100 * s->active_mean, 100 * s->active_median, 100 * s->active_max);
	printf("idle times          %u, median %.1f us, nine tenths up to %.1f us\n",
	       v->n_idles, s->idle_median_us, s->idle_p90_us);

	for (unsigned i = 0; i < SL_IDLE_BINS; i++) {
		idles += s->idles[i];
		idle_bytes += s->idle_bytes[i];
	}
	printf("\nidle for    number   share  so far   bytes share  so far\n");
	for (unsigned i = 0; i < SL_IDLE_BINS; i++) {
		idle_sum += s->idles[i];
		byte_sum += s->idle_bytes[i];
		printf("%-9s %8" PRIu64 " %6.2f%% %6.2f%%      %6.2f%% %6.2f%%\n",
		       idle_words[i], s->idles[i], percent(s->idles[i], idles),
		       percent(idle_sum, idles), percent(s->idle_bytes[i], idle_bytes),
		       percent(byte_sum, idle_bytes));
	}
	printf("\nsize        tensors   share   bytes share  idle times below 100 us, 10 "
	       "ms, "
	       "1 s, longer\n");
	for (unsigned i = 0; i < SL_SIZE_BINS; i++) {
		const uint64_t *by = s->idles_by_size[i];

		printf("%-10s %8" PRIu64 " %6.2f%%       %6.2f%%  %" PRIu64 ", %" PRIu64
		       ", %" PRIu64 ", %" PRIu64 "\n",
		       size_words[i], s->tensors[i], percent(s->tensors[i], s->n_tensors),
		       percent(s->tensor_bytes[i], v->total_bytes), by[0] + by[1] + by[2],
		       by[3] + by[4], by[5] + by[6], by[7] + by[8] + by[9]);
	}
}

static void
numbers_json(struct json *json, const char *key, const uint64_t *numbers, unsigned n)
{
	json_array(json, key);
	for (unsigned i = 0; i < n; i++)
		json_u64(json, NULL, numbers[i]);
	json_close(json);
}

static void
json_print(const struct sl_vitality *v, const struct sl_vitality_stats *s)
{
	struct json json;

	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_u64(&json, "launches", v->n_launches);
	json_u64(&json, "ticks", v->start_ticks[v->n_launches]);
	json_u64(&json, "tensors", s->n_tensors);
	json_u64(&json, "idle_tensors", s->n_idle_tensors);
	json_u64(&json, "total_bytes", v->total_bytes);
	json_u64(&json, "global_bytes", v->global_bytes);
	json_u64(&json, "peak_alive_bytes", v->peak_alive_bytes);
	json_double(&json, "alive_mean_share", s->alive_mean);
	json_double(&json, "alive_max_share", s->alive_max);
	json_double(&json, "active_mean_share", s->active_mean);
	json_double(&json, "active_median_share", s->active_median);
	json_double(&json, "active_max_share", s->active_max);
	json_u64(&json, "idle_times", v->n_idles);
	json_double(&json, "idle_median_us", s->idle_median_us);
	json_double(&json, "idle_p90_us", s->idle_p90_us);
	/* Bins as in the table: decades from below 1 us; sizes up to 4 KiB x 16^i. */
	numbers_json(&json, "idle_number_by_length", s->idles, SL_IDLE_BINS);
	numbers_json(&json, "idle_bytes_by_length", s->idle_bytes, SL_IDLE_BINS);
	numbers_json(&json, "tensors_by_size", s->tensors, SL_SIZE_BINS);
	numbers_json(&json, "bytes_by_size", s->tensor_bytes, SL_SIZE_BINS);
	json_array(&json, "idle_number_by_size_and_length");
	for (unsigned i = 0; i < SL_SIZE_BINS; i++) {
		json_array(&json, NULL);
		for (unsigned j = 0; j < SL_IDLE_BINS; j++)
			json_u64(&json, NULL, s->idles_by_size[i][j]);
		json_close(&json);
	}
	json_close(&json);
	numbers_json(&json, "alive_bytes", v->alive_bytes, v->n_launches);
	numbers_json(&json, "active_bytes", v->active_bytes, v->n_launches);
	json_end(&json);
}

int
trace_vitality_print(const struct sl_trace *trace, uint32_t period, int as_json,
		     const char *svg)
{
	struct sl_vitality_stats stats;
	struct sl_vitality vitality;
	int rc = sl_vitality_make(trace, period, &vitality);

	if (rc)
		return rc;
	rc = sl_vitality_stats(trace, &vitality, &stats);
	if (!rc && svg)
		rc = trace_picture_write(svg, trace, &vitality);
	if (!rc && as_json)
		json_print(&vitality, &stats);
	else if (!rc)
		table_print(&vitality, &stats);
	sl_vitality_fini(&vitality);
	return rc;
}
