/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress(), both ABIs. The driver is asked first. Only its answer is replaced, by our
 * wrapper of the same name and ABI. The pointer tells which that is: the driver answers with its
 * exported functions. If the answer is no export, the rule of names and versions decides. The
 * table must know all ABIs up to the requested version. For a later version the driver is also
 * asked for the table's version: the same answer is the same ABI. Everything else is passed on.
 *
 * Threads: any. No lock; the log of look-ups blocks on its file.
 */
#include "preload/loader/entry.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS        2048u /* of the index; a power of two, more than twice the names */
#define FLAG_THREAD  2u    /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
#define UNKNOWN_SAID 32u   /* unknown names said with verbose */

_Static_assert(SLOTS >= 2 * SL_API_COUNT, "the index has free slots");

/* Number + 1 by the driver's pointer, open addressing; constant once the driver is open. */
static uint16_t slots[SLOTS];

static unsigned
lookup_slot_of(const void *function)
{
	return (unsigned)(((uint64_t)(uintptr_t)function * UINT64_C(0x9e3779b97f4a7c15)) >>
			  53);
}

void
pl_resolve_init(void)
{
	for (unsigned i = 0; i < SL_API_COUNT; i++) {
		unsigned slot = lookup_slot_of(pl_real[i]);

		if (!pl_real_has((enum sl_api)i))
			continue;
		while (slots[slot])
			slot = (slot + 1) % SLOTS;
		slots[slot] = (uint16_t)(i + 1);
	}
}

/* The first row of the base; SL_API_COUNT: there is none. */
static unsigned
base_find(const char *symbol)
{
	unsigned low = 0, high = SL_API_COUNT;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (pl_api_base_compare((enum sl_api)middle, symbol) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < SL_API_COUNT && !pl_api_base_compare((enum sl_api)low, symbol)
		       ? low
		       : (unsigned)SL_API_COUNT;
}

enum sl_api
pl_resolve_rule(const char *symbol, int version, uint64_t flags)
{
	enum sl_api legacy = SL_API_COUNT, thread = SL_API_COUNT;

	for (unsigned i = base_find(symbol); i < SL_API_COUNT; i++) {
		const struct pl_api_facts *facts = pl_api_facts((enum sl_api)i);

		if (pl_api_base_compare((enum sl_api)i, symbol) != 0)
			break;
		if (version < 0 || facts->version > (uint32_t)version)
			continue;
		if (facts->flavour == PL_API_LEGACY)
			legacy = (enum sl_api)i;
		else
			thread = (enum sl_api)i;
	}
	return (flags & FLAG_THREAD) && thread != SL_API_COUNT ? thread : legacy;
}

/* The export of this base that is the driver's function; SL_API_COUNT: none. */
static enum sl_api
export_find(const char *symbol, const void *function)
{
	for (unsigned slot = lookup_slot_of(function); slots[slot];
	     slot = (slot + 1) % SLOTS) {
		enum sl_api api = (enum sl_api)(slots[slot] - 1);

		if (pl_real[api] == function && !pl_api_base_compare(api, symbol))
			return api;
	}
	return SL_API_COUNT;
}

/* Whether the driver has had that ABI since the table's version. */
static bool
is_old(const char *symbol, const void *function, uint64_t flags)
{
	void *then = NULL;
	int status;

	if (pl_real_has(SL_API_cuGetProcAddress_v2)) {
		if (PL_REAL(cuGetProcAddress_v2)(symbol, &then, PL_API_VERSION, flags, &status))
			return false;
	} else if (PL_REAL(cuGetProcAddress)(symbol, &then, PL_API_VERSION, flags)) {
		return false;
	}
	return then == function;
}

/* The name whose ABI the driver's answer has; SL_API_COUNT: not known. */
static enum sl_api
answer_name(const char *symbol, const void *function, int version, uint64_t flags)
{
	enum sl_api rule = pl_resolve_rule(symbol, version, flags), api;

	if (rule != SL_API_COUNT && pl_real[rule] == function)
		return rule;
	api = export_find(symbol, function);
	if (api != SL_API_COUNT)
		return api;
	if (rule == SL_API_COUNT || !pl_real_has(rule) ||
	    (version > PL_API_VERSION && !is_old(symbol, function, flags)))
		return SL_API_COUNT;
	return rule;
}

static void
unknown_note(const char *symbol, int version)
{
	static _Atomic uint32_t said[UNKNOWN_SAID];
	uint32_t hash = 2166136261u;

	PL_COUNT(unknown_names, 1);
	if (!pl_settings()->verbose)
		return;
	for (const char *at = symbol; *at; at++)
		hash = (hash ^ (unsigned char)*at) * 16777619u;
	hash |= 1;
	for (unsigned i = 0; i < UNKNOWN_SAID; i++) {
		uint32_t free = 0;

		if (atomic_compare_exchange_strong(&said[i], &free, hash)) {
			pl_note("%s (CUDA %d) is not in the table of this library: it "
				"goes "
				"to the driver untouched",
				symbol, version);
			return;
		}
		if (free == hash)
			return;
	}
}

/* After the driver answered: put our wrapper in its place. */
static void
answer_take(const char *road, const char *symbol, void **function, int version,
	    uint64_t flags, int result)
{
	enum sl_api api;
	void *wrapper;

	if (!symbol)
		return;
	if (result || !function || !*function) {
		pl_lookup_log(road, symbol, version, flags, result, "-");
		return;
	}
	api = answer_name(symbol, *function, version, flags);
	if (api == SL_API_COUNT) {
		unknown_note(symbol, version);
		pl_lookup_log(road, symbol, version, flags, result, "?");
		return;
	}
	wrapper = pl_wrapper(api);
	if (wrapper)
		*function = wrapper;
	pl_lookup_log(road, symbol, version, flags, result, pl_api_name(api));
}

int
cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
	int result;

	pl_driver_open(); /* another thread may be at it, and the index not complete */
	result = PL_REAL(cuGetProcAddress)(symbol, function, version, flags);
	pl_road_note(PL_ROAD_RESOLVE);
	if (!pl_depth)
		answer_take("proc4", symbol, function, version, flags, result);
	return result;
}

int
cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
		    int *status)
{
	int result;

	pl_driver_open();
	result = PL_REAL(cuGetProcAddress_v2)(symbol, function, version, flags, status);
	pl_road_note(PL_ROAD_RESOLVE);
	if (!pl_depth)
		answer_take("proc5", symbol, function, version, flags, result);
	return result;
}

/* ---- the log ---- */

void
pl_lookup_log(const char *road, const char *name, int version, uint64_t flags, int result,
	      const char *answer)
{
	static _Atomic int log_fd = -2; /* -1: none; -2: not looked */
	int fd = atomic_load(&log_fd), saved = errno, chars, expected = -2;
	const char *path;
	char line[512];

	if (fd == -2) {
		path = secure_getenv("SLUICE_PRELOAD_LOOKUPS");
		fd = -1;
		if (path && *path) {
			fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
			if (fd < 0)
				pl_error(
					"SLUICE_PRELOAD_LOOKUPS: %s cannot be opened: %s",
					path, strerror(errno));
		}
		if (!atomic_compare_exchange_strong(&log_fd, &expected, fd)) {
			if (fd >= 0)
				close(fd);
			fd = expected;
		}
	}
	if (fd >= 0) {
		if (strcmp(road, "dlsym"))
			chars = snprintf(line, sizeof(line), "%s \"%s\" %d %llu %d %s\n",
					 road, name, version, (unsigned long long)flags,
					 result, answer);
		else
			chars = snprintf(line, sizeof(line), "%s \"%s\" - - %d %s\n",
					 road, name, result, answer);
		if (chars > 0 && (size_t)chars < sizeof(line) &&
		    write(fd, line, (size_t)chars) != chars)
			pl_error("SLUICE_PRELOAD_LOOKUPS: a line was lost: %s",
				 strerror(errno));
	}
	errno = saved;
}
