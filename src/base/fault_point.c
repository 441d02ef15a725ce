/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Injected failures by name, and a malloc family that can fail.
 *
 * SLUICE_FAULT is read when the program or library is loaded. If a part cannot be read, a line
 * says so and nothing is armed. While nothing is armed, a point costs one relaxed load. While
 * armed, each matching specification counts the call with an atomic add. So the Nth call is one
 * call, however many threads run. There is no lock and no allocation: points may be asked in a
 * signal handler.
 *
 * sl_fault_point() sets the thread's last error, as the failing call would. The caller returns
 * the code, or maps it as it maps real ones.
 */
#include "base/fault_point.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define SPECS_MAX     32
#define NAME_BYTES    32
#define ERRNO_HIGHEST 133 /* EHWPOISON, the last of Linux */

struct fault_spec {
	char name[NAME_BYTES]; /* "*": every name */
	uint64_t nth;          /* from 1 */
	int rc;                /* negative errno */
	int repeat;            /* later calls fail too */
};

/*
 * specs and n_specs change only in sl_fault_point_set(), which excludes fallible steps in
 * other threads (contract) and at load time. The counters are atomic: several threads
 * count at once.
 */
static struct fault_spec specs[SPECS_MAX];
static unsigned n_specs;
static _Atomic uint64_t spec_calls[SPECS_MAX]; /* atomic: relaxed: a count */
static _Atomic uint64_t fired;                 /* atomic: relaxed: a count */
static _Atomic int armed;                      /* atomic: relaxed: the caller excludes */

static int
spec_fires(const struct fault_spec *spec, uint64_t call)
{
	return call == spec->nth || (spec->repeat && call > spec->nth);
}

/* Armed. Every matching specification counts, the first that fires decides. */
static int
point_ask(const char *name)
{
	uint64_t fired_call = 0;
	int rc = 0;

	for (unsigned i = 0; i < n_specs; i++) {
		uint64_t call;

		if (strcmp(specs[i].name, "*") && strcmp(specs[i].name, name))
			continue;
		call = atomic_fetch_add_explicit(&spec_calls[i], 1, memory_order_relaxed) + 1;
		if (!rc && spec_fires(&specs[i], call)) {
			rc = specs[i].rc;
			fired_call = call;
		}
	}
	if (!rc)
		return 0;
	atomic_fetch_add_explicit(&fired, 1, memory_order_relaxed);
	return sl_fail(rc, "%s: %s (%d) injected by SLUICE_FAULT at call %llu", name,
		       sl_errno_name(rc), -rc, (unsigned long long)fired_call);
}

int
sl_fault_point(const char *name)
{
	if (!atomic_load_explicit(&armed, memory_order_relaxed))
		return 0;
	return point_ask(name);
}

uint64_t
sl_fault_point_fired(void)
{
	return atomic_load_explicit(&fired, memory_order_relaxed);
}

/* "ENOSPC" or "28" of length bytes; 0: neither. */
static int
errno_find(const char *text, size_t length)
{
	int value = 0;

	for (int i = 1; i <= ERRNO_HIGHEST; i++) {
		const char *name = sl_errno_name(i);

		if (strlen(name) == length && !memcmp(name, text, length) &&
		    strcmp(name, "E?") != 0)
			return i;
	}
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9' || value > ERRNO_HIGHEST)
			return 0;
		value = value * 10 + (text[i] - '0');
	}
	return value <= ERRNO_HIGHEST ? value : 0;
}

/* Decimal number of length bytes, at least 1; 0: not one, or beyond 64 bits. */
static uint64_t
count_find(const char *text, size_t length)
{
	uint64_t value = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9' ||
		    __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
			return 0;
	}
	return value;
}

/* One "name:N[:ERRNO][+]" of length bytes. True when it could be read. */
static int
spec_read(const char *text, size_t length, struct fault_spec *out)
{
	const char *end = text + length;
	const char *colon = memchr(text, ':', length);
	size_t name_length = colon ? (size_t)(colon - text) : 0;
	struct fault_spec spec = {.rc = -EIO};
	const char *number, *second;

	if (name_length == 0 || name_length >= NAME_BYTES)
		return 0;
	memcpy(spec.name, text, name_length);

	number = colon + 1;
	if (end > number && end[-1] == '+') {
		spec.repeat = 1;
		end--;
	}
	second = memchr(number, ':', (size_t)(end - number));
	spec.nth = count_find(number, (size_t)((second ? second : end) - number));
	if (second)
		spec.rc = -errno_find(second + 1, (size_t)(end - second - 1));
	if (spec.nth == 0 || spec.rc == 0)
		return 0;
	*out = spec;
	return 1;
}

int
sl_fault_point_set(const char *text)
{
	struct fault_spec fresh[SPECS_MAX] = {0};
	unsigned n = 0;
	const char *at = text;

	while (at && *at) {
		size_t length = strcspn(at, ",");

		if (n == SPECS_MAX)
			return sl_fail(-EINVAL, "fault points: more than %d specifications",
				       SPECS_MAX);
		if (!spec_read(at, length, &fresh[n]) ||
		    (at[length] == ',' && !at[length + 1]))
			return sl_fail(-EINVAL,
				       "fault points: \"%.64s\" cannot be read; write "
				       "name:N[:ERRNO][+], as in store.write:3:ENOSPC+",
				       at);
		n++;
		at += length;
		if (*at == ',')
			at++;
	}

	atomic_store_explicit(&armed, 0, memory_order_relaxed);
	memcpy(specs, fresh, n * sizeof(specs[0]));
	n_specs = n;
	for (unsigned i = 0; i < SPECS_MAX; i++)
		atomic_store_explicit(&spec_calls[i], 0, memory_order_relaxed);
	atomic_store_explicit(&fired, 0, memory_order_relaxed);
	atomic_store_explicit(&armed, n != 0, memory_order_relaxed);
	return 0;
}

/* Before main(): a fallible step then never meets a half-read environment. */
__attribute__((constructor)) static void
environment_read(void)
{
	if (sl_fault_point_set(getenv("SLUICE_FAULT")))
		sl_log(SL_ERROR, "fault", "SLUICE_FAULT is ignored: %s", sluice_last_error());
}

void *
sl_calloc(size_t n, size_t bytes)
{
	return sl_fault_point("mem.alloc") ? NULL : calloc(n, bytes);
}

void *
sl_malloc(size_t bytes)
{
	return sl_fault_point("mem.alloc") ? NULL : malloc(bytes);
}

void *
sl_realloc(void *old, size_t bytes)
{
	return sl_fault_point("mem.alloc") ? NULL : realloc(old, bytes);
}

char *
sl_strdup(const char *text)
{
	return sl_fault_point("mem.alloc") ? NULL : strdup(text);
}
