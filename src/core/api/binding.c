/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls for bindings of other languages: texts in the place of structs. Everything here is made of
 * other public calls.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/guest.h"
#include "core/api/api.h"
#include "sluice/binding.h"
#include "sluice/move.h"
#include "sluice/stats.h"

static const char *const tiers[SLUICE_TIER_COUNT] = {
	[SLUICE_TIER_DEVICE] = "device",
	[SLUICE_TIER_HOST] = "host",
	[SLUICE_TIER_STORE] = "store",
};

/* A text that is being written. */
struct text {
	char *to;
	size_t size, used; /* used may go beyond size: then it is cut */
};

__attribute__((format(printf, 2, 3))) static void
text_add(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->used < t->size ? t->to + t->used : NULL,
		      t->used < t->size ? t->size - t->used : 0, format, args);
	va_end(args);
	t->used += n > 0 ? (size_t)n : 0;
}

static int
text_end(const struct text *t, const char *call)
{
	if (t->used < t->size)
		return 0;
	return sl_fail(-ENOBUFS, "%s: the text has %zu bytes and a NUL, %zu are given",
		       call, t->used, t->size);
}

static void
tiers_add(struct text *t, const char *name, const uint64_t *bytes)
{
	text_add(t, ", \"%s\": {", name);
	for (int k = 0; k < SLUICE_TIER_COUNT; k++)
		text_add(t, "%s\"%s\": %llu", k ? ", " : "", tiers[k],
			 (unsigned long long)bytes[k]);
	text_add(t, "}");
}

int
sluice_space_open(const char *settings, struct sluice_space **out)
{
	struct sluice_config config;
	int rc = sluice_config_init(&config);

	if (!rc && settings && *settings)
		rc = sluice_config_parse(&config, settings);
	return rc ? rc : sluice_space_create(&config, out);
}

int
sluice_stats_json(struct sluice_space *space, char *text, size_t size)
{
	struct text t = {text, size, 0};
	struct sluice_stats stats;
	int rc = sl_space_enterable(space);

	if (rc)
		return rc;
	sluice_stats_get(space, &stats);
	text_add(&t, "{\"counters\": {");
	for (int k = 0; k < SLUICE_COUNTER_COUNT; k++)
		text_add(&t, "%s\"%s\": %llu", k ? ", " : "",
			 sluice_counter_name((enum sluice_counter)k),
			 (unsigned long long)stats.counter[k]);
	text_add(&t, "}");
	tiers_add(&t, "resident_bytes", stats.resident_bytes);
	tiers_add(&t, "resident_peak_bytes", stats.resident_peak_bytes);
	tiers_add(&t, "budget_bytes", stats.budget_bytes);
	text_add(&t, "}");
	return text_end(&t, "stats");
}

int
sluice_residency_json(struct sluice_space *space, const void *addr, size_t size_bytes,
		      char *text, size_t size)
{
	struct text t = {text, size, 0};
	struct sluice_residency at;
	int rc = sluice_residency(space, addr, size_bytes, &at);

	if (rc)
		return rc;
	text_add(&t, "{");
	for (int k = 0; k < SLUICE_TIER_COUNT; k++)
		text_add(&t, "\"%s\": %llu, ", tiers[k],
			 (unsigned long long)at.tier_bytes[k]);
	text_add(&t, "\"empty\": %llu, \"dirty\": %llu, \"pinned\": %llu, \"in_flight\": %llu}",
		 (unsigned long long)at.empty_bytes, (unsigned long long)at.dirty_bytes,
		 (unsigned long long)at.pinned_bytes,
		 (unsigned long long)at.in_flight_bytes);
	return text_end(&t, "residency");
}

int
sluice_space_json(struct sluice_space *space, char *text, size_t size)
{
	struct text t = {text, size, 0};
	struct sluice_config config;
	int rc = sl_space_enterable(space);

	if (rc)
		return rc;
	sluice_space_config(space, &config);
	text_add(&t, "{\"device\": \"%s\", \"device_number\": %u, \"chunk_bytes\": %llu}",
		 config.device == SLUICE_DEVICE_CUDA ? "cuda" : "soft",
		 (unsigned)config.device_number, (unsigned long long)config.chunk_bytes);
	return text_end(&t, "space");
}

int
sluice_launch_begin_ranges(struct sluice_space *space, struct sluice_stream *stream,
			   const void *const *addrs, const size_t *sizes_bytes,
			   const int *intents, size_t n, struct sluice_launch **out)
{
	struct sluice_use *uses;
	int rc = 0;

	if (n && (!addrs || !sizes_bytes || !intents))
		return sl_fail(-EINVAL, "launch: %zu uses, and an array is NULL", n);
	uses = sl_calloc(n ? n : 1, sizeof(*uses));
	if (!uses)
		return sl_fail(-ENOMEM, "launch: out of memory");
	for (size_t i = 0; i < n && !rc; i++) {
		if (intents[i] < 0 || intents[i] >= SLUICE_USE_COUNT)
			rc = sl_fail(-EINVAL, "launch: use %zu: %d is no intent", i,
				     intents[i]);
		uses[i] = (struct sluice_use){addrs[i], sizes_bytes[i],
					      (enum sluice_intent)intents[i]};
	}
	if (!rc)
		rc = sluice_launch_begin(space, stream, uses, n, out);
	free(uses);
	return rc;
}

int
sluice_is_preloaded(void)
{
	return dlsym(RTLD_DEFAULT, SL_GUEST_JOIN) != NULL;
}
