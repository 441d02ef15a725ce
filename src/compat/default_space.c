/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default space. The first use makes it from sluice_config_init() (so from SLUICE_* in the
 * environment), then DRAGON_NR_RESERVED_PAGES, then the program's earlier settings. An exit
 * handler writes back, logs failures, and closes it. A program that ends without exit() leaves
 * its files as a crash would.
 *
 * Threads: one mutex makes other first users wait while the space is made. Later the pointer is
 * read without it. The mutex is outside the order of lock.h: it is held before any lock of the
 * library, and nothing in the library calls back here. A thread that still uses the space while
 * another calls exit() is the program's error.
 */
#include "compat/default_space.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"

#define DRAGON_PAGE_BYTES 4096u
#define UNSET             UINT64_MAX

enum default_state { DEFAULT_NONE, DEFAULT_OPEN, DEFAULT_CLOSED };

static pthread_mutex_t default_lock = PTHREAD_MUTEX_INITIALIZER;
/* Set once, cleared at exit. atomic: release in default_open(), pairs with the acquire in
 * sl_default_space_get(). */
static _Atomic(struct sluice_space *) default_space;
static enum default_state default_state; /* default_lock */
static int default_hooked; /* default_lock: the exit handler is registered */
static uint64_t default_reserve = UNSET; /* default_lock */
static uint64_t default_staging = UNSET; /* default_lock */

static void
default_close(void)
{
	struct sluice_space *space;
	int rc;

	pthread_mutex_lock(&default_lock);
	space = atomic_exchange(&default_space, NULL);
	default_state = DEFAULT_CLOSED;
	pthread_mutex_unlock(&default_lock);

	rc = sluice_space_destroy(space);
	if (rc && rc != -ECHILD) /* a forked child leaves the space to its parent */
		sl_log(SL_ERROR, "compat",
		       "at exit, data of the default space could not be written back: %s "
		       "(%s). "
		       "Call dragon_sync() or sluice_sync() before exit to handle this.",
		       sluice_last_error(), sl_errno_name(rc));
}

/* DRAGON_NR_RESERVED_PAGES: strtoull() alone would take "-1" and "". */
static int
reserved_pages_read(uint64_t *bytes)
{
	const char *text = getenv("DRAGON_NR_RESERVED_PAGES");
	unsigned long long pages;
	char *end;

	if (!text)
		return 0;
	errno = 0;
	pages = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end)
		return sl_fail(-EINVAL,
			       "DRAGON_NR_RESERVED_PAGES='%.64s' is not a number of 4 "
			       "KiB pages; "
			       "write digits only",
			       text);
	if (errno == ERANGE || pages > UINT64_MAX / DRAGON_PAGE_BYTES)
		*bytes = UINT64_MAX; /* clamped to the host budget like any large number */
	else
		*bytes = pages * DRAGON_PAGE_BYTES;
	return 0;
}

/* Later sources override earlier ones: defaults, DRAGON's environment, ours, the program. */
static int
default_config(struct sluice_config *config)
{
	uint64_t reserve;
	int rc = sluice_config_init(config);

	if (rc)
		return rc;
	reserve = config->host_reserve_bytes;
	if (!getenv("SLUICE_HOST_RESERVE")) {
		rc = reserved_pages_read(&reserve);
		if (rc)
			return rc;
	}
	if (default_reserve != UNSET)
		reserve = default_reserve;
	if (reserve > config->host_budget_bytes) {
		sl_log(SL_WARN, "compat",
		       "the reserve set in DRAGON's way (%llu MiB) is more than the host "
		       "budget (%llu "
		       "MiB): volatile data get no host memory and are spilled. Lower it "
		       "or raise "
		       "SLUICE_HOST_BUDGET.",
		       (unsigned long long)(reserve >> 20),
		       (unsigned long long)(config->host_budget_bytes >> 20));
		reserve = config->host_budget_bytes;
	}
	config->host_reserve_bytes = reserve;
	if (default_staging != UNSET && config->staging_bytes < default_staging)
		config->staging_bytes = default_staging;
	return 0;
}

/* LOCKING: needs default_lock. */
static int
default_open(struct sluice_space **out)
{
	struct sluice_config config;
	struct sluice_space *space;
	int rc;

	if (!default_hooked) {
		if (atexit(default_close))
			return sl_fail(-ENOMEM,
				       "default space: no room for an exit handler");
		default_hooked = 1;
	}
	rc = default_config(&config);
	if (rc)
		return rc;
	rc = sluice_space_create(&config, &space);
	if (rc)
		return rc;
	default_state = DEFAULT_OPEN;
	atomic_store_explicit(&default_space, space, memory_order_release);
	*out = space;
	return 0;
}

int
sl_default_space_get(struct sluice_space **out)
{
	struct sluice_space *space;
	int rc = 0;

	space = atomic_load_explicit(&default_space, memory_order_acquire);
	if (space) {
		*out = space;
		return 0;
	}

	pthread_mutex_lock(&default_lock);
	space = atomic_load(&default_space);
	if (space)
		*out = space;
	else if (default_state == DEFAULT_CLOSED)
		rc = sl_fail(-ECANCELED,
			     "the default space is closed: the process is in exit(); "
			     "unmap and sync before main() returns");
	else
		rc = default_open(out);
	pthread_mutex_unlock(&default_lock);
	return rc;
}

struct sluice_space *
sl_default_space(void)
{
	struct sluice_space *space = NULL;

	return sl_default_space_get(&space) ? NULL : space;
}

static int
default_set(uint64_t *field, uint64_t value, const char *what)
{
	int rc = 0;

	pthread_mutex_lock(&default_lock);
	if (default_state == DEFAULT_NONE)
		*field = value;
	else
		rc = sl_fail(-EBUSY,
			     "%s cannot change once the default space exists; set it "
			     "before the "
			     "first map",
			     what);
	pthread_mutex_unlock(&default_lock);
	return rc;
}

int
sl_default_space_set_reserve(uint64_t reserve_bytes)
{
	return default_set(&default_reserve, reserve_bytes, "the host reserve");
}

int
sl_default_space_set_staging(uint64_t staging_bytes)
{
	return default_set(&default_staging, staging_bytes, "the staging memory");
}
