/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DRAGON's calls. Each becomes one public call of Sluice on the default space. Flags and errors
 * change their numbers; nothing is kept here. The environment is read where DRAGON read it:
 * read-ahead at each map, the reserve when the space is made (default_space.c).
 *
 * Threads: no state of its own; any thread.
 */
#include "sluice/dragon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/log.h"
#include "compat/default_space.h"
#include "sluice/move.h"
#include "sluice/region.h"

#define DRAGON_FLAGS_ALL \
	(D_F_READ | D_F_WRITE | D_F_CREATE | D_F_DONTTRASH | D_F_VOLATILE | D_F_USEHOSTBUF)
#define DRAGON_PAGE_BYTES  4096u
#define DRAGON_BLOCK_BYTES (2u << 20)
#define DRAGON_BLOCKS_MAX  4096ul /* 8 GiB in flight: more is a mistake in the unit */

enum readahead { READAHEAD_NORMAL, READAHEAD_AGGRESSIVE, READAHEAD_DISABLED };

/* Which of DRAGON's errors says best what an errno of ours says. not_found differs by call. */
static dragonError_t
error_from_errno(int rc, dragonError_t not_found)
{
	switch (-rc) {
	case 0:
		return D_OK;
	case ENOENT:
		return not_found;
	case EINVAL:
		return D_ERR_INTVAL;
	case ENOMEM:
	case ENOBUFS:
		return D_ERR_MEM;
	case EPERM:
	case ENOTSUP:
		return D_ERR_UVM;
	case EBUSY:
	case ECHILD:
	case ECANCELED:
		return D_ERR_IOCTL;
	default: /* every other errno comes from opening, reading or writing a file */
		return D_ERR_FILE;
	}
}

/* The part of the flags that a live mapping has. */
static unsigned
use_flags(unsigned flags)
{
	return ((flags & D_F_READ) ? SLUICE_READ : 0) |
	       ((flags & D_F_WRITE) ? SLUICE_WRITE : 0) |
	       ((flags & D_F_VOLATILE) ? SLUICE_VOLATILE : 0);
}

static int
flags_check(const char *call, unsigned flags)
{
	if (flags & ~(unsigned)DRAGON_FLAGS_ALL)
		return sl_fail(-EINVAL, "%s: unknown bits in flags 0x%x; use D_F_* or D_*",
			       call, flags);
	return 0;
}

/* As in DRAGON: only the first letters count, and only data that come from the file. */
static enum readahead
readahead_wanted(unsigned flags)
{
	const char *type = getenv("DRAGON_READAHEAD_TYPE");

	if (!type || !(flags & D_F_READ) || (flags & D_F_VOLATILE))
		return READAHEAD_NORMAL;
	if (!strncmp(type, "agg", 3))
		return READAHEAD_AGGRESSIVE;
	if (!strncmp(type, "dis", 3))
		return READAHEAD_DISABLED;
	return READAHEAD_NORMAL;
}

/*
 * The whole mapping into host memory in the background, and the full window after that; size 0
 * is what the file has, as in sluice_map(). Hints: a refusal costs time only, so the mapping
 * stands, but it is said.
 */
static void
readahead_start(struct sluice_space *space, const char *filename, uint64_t offset,
		void *addr, size_t size_bytes)
{
	struct stat status;
	int rc;

	if (!size_bytes && !stat(filename, &status) && (uint64_t)status.st_size > offset)
		size_bytes = (size_t)((uint64_t)status.st_size - offset);
	rc = sluice_advise(space, addr, size_bytes, SLUICE_ADVISE_SEQUENTIAL);
	if (!rc)
		rc = sluice_advise(space, addr, size_bytes, SLUICE_ADVISE_WILL_NEED);
	if (rc)
		sl_log_once("dragon-readahead", SL_WARN, "compat",
			    "DRAGON_READAHEAD_TYPE=agg had no effect on a mapping: %s",
			    sluice_last_error());
}

dragonError_t
dragon_map_paper(const char *filename, size_t size_bytes, uint64_t offset, unsigned flags,
		 void **addr)
{
	enum readahead readahead = readahead_wanted(flags);
	struct sluice_space *space;
	unsigned map_flags;
	int rc;

	if (!filename || !addr)
		return error_from_errno(sl_fail(-EINVAL,
						"dragon_map: filename or addr is NULL"),
					D_ERR_FILE);
	rc = flags_check("dragon_map", flags);
	if (!rc)
		rc = sl_default_space_get(&space);
	if (rc)
		return error_from_errno(rc, D_ERR_FILE);

	map_flags = use_flags(flags) | ((flags & D_F_CREATE) ? SLUICE_CREATE : 0) |
		    (readahead == READAHEAD_DISABLED ? SLUICE_NO_READAHEAD : 0);
	rc = sluice_map(space, filename, offset, size_bytes, map_flags, addr);
	if (rc)
		return error_from_errno(rc, D_ERR_FILE);
	if (readahead == READAHEAD_AGGRESSIVE)
		readahead_start(space, filename, offset, *addr, size_bytes);
	return D_OK;
}

dragonError_t
dragon_map_artifact(const char *filename, size_t size_bytes, unsigned short flags, void **addr)
{
	return dragon_map_paper(filename, size_bytes, 0, flags, addr);
}

dragonError_t
dragon_remap(void *addr, unsigned short flags)
{
	struct sluice_space *space;
	int rc = flags_check("dragon_remap", flags);

	if (!rc)
		rc = sl_default_space_get(&space);
	if (!rc)
		rc = sluice_remap(space, addr, use_flags(flags));
	return error_from_errno(rc, D_ERR_INTVAL);
}

dragonError_t
dragon_sync(void *addr, size_t size_bytes)
{
	struct sluice_space *space;
	int rc = sl_default_space_get(&space);

	if (!rc)
		rc = sluice_sync(space, addr, size_bytes ? size_bytes : SLUICE_TO_END);
	return error_from_errno(rc, D_ERR_INTVAL);
}

dragonError_t
dragon_flush(void *addr)
{
	return dragon_sync(addr, 0);
}

dragonError_t
dragon_unmap(void *addr)
{
	struct sluice_space *space;
	int rc = sl_default_space_get(&space);

	if (!rc)
		rc = sluice_unmap(space, addr);
	return error_from_errno(rc, D_ERR_INTVAL);
}

/* A setting after the space is made is DRAGON's "not implemented", as it always answered. */
static dragonError_t
setting_error(int rc)
{
	return rc == -EBUSY ? D_ERR_NOT_IMPLEMENTED : error_from_errno(rc, D_ERR_INTVAL);
}

dragonError_t
dragon_trash_set_num_reserved_sys_cache_pages(unsigned long pages)
{
	/* Beyond any budget is all of it; kept below the mark for "not set". */
	uint64_t pages_max = (UINT64_MAX - 1) / DRAGON_PAGE_BYTES;
	uint64_t reserve_bytes = (pages < pages_max ? pages : pages_max) * DRAGON_PAGE_BYTES;

	return setting_error(sl_default_space_set_reserve(reserve_bytes));
}

dragonError_t
dragon_trash_set_num_blocks(unsigned long blocks)
{
	if (!blocks || blocks > DRAGON_BLOCKS_MAX)
		return setting_error(
			sl_fail(-EINVAL,
				"dragon_trash_set_num_blocks: %lu blocks of 2 MiB; use "
				"1 to %lu",
				blocks, DRAGON_BLOCKS_MAX));
	return setting_error(
		sl_default_space_set_staging((uint64_t)blocks * DRAGON_BLOCK_BYTES));
}

struct sluice_space *
dragon_space(void)
{
	return sl_default_space();
}
