/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DRAGON's names on top of Sluice. Source written to the DRAGON paper, or to the library shipped
 * with it, compiles and runs against this header alone. The two differ in dragon_map(): the paper
 * has five arguments (with an offset), the shipped library four. Both work here, in C by the number
 * of arguments and in C++ by overloading.
 *
 * All calls work on one space per process. It is made at the first call from the defaults and the
 * environment (SLUICE_DEVICE_BUDGET and so on, see sluice(7)). It is written back and closed at
 * exit(). dragon_space() returns it, so that kernels can be launched on the mapped memory.
 *
 * Calls return D_OK or one of the library's error numbers. sluice_last_error() has the text.
 * Ignoring a result gives no compiler warning, unlike in the rest of the API, since existing
 * sources ignore them. docs/design/papers.md has the differences from DRAGON and the reasons.
 */
#ifndef SLUICE_DRAGON_H
#define SLUICE_DRAGON_H

#include <stddef.h>
#include <stdint.h>

#include "sluice/space.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors, with the numbers of the shipped library. */
enum dragon_error {
	D_OK,
	D_ERR_FILE, /* the file: missing, no permission, too short, disk full, I/O error */
	D_ERR_IOCTL,  /* refused now: the range is pinned, or the process was forked */
	D_ERR_UVM,    /* this machine refuses paging in user space (userfaultfd) */
	D_ERR_INTVAL, /* a parameter is wrong, or the address is not mapped */
	D_ERR_MEM,    /* out of memory or addresses, or a budget is too small */
	D_ERR_NOT_IMPLEMENTED /* a setting came too late: the space exists already */
};

typedef enum dragon_error dragonError_t;

/* Flags of the shipped library; combine with |. */
enum dragon_flag {
	D_F_READ = 0x01, /* contents are read: a first touch reads the file */
	D_F_WRITE = 0x02, /* contents are written back; without READ, first touch gives zeros */
	D_F_CREATE = 0x04,    /* create the file, extend it to size (never shortened) */
	D_F_DONTTRASH = 0x08, /* accepted, no effect (DRAGON's driver ignored it too) */
	D_F_VOLATILE = 0x10, /* intermediate data: to the file only when host memory is full */
	D_F_USEHOSTBUF = 0x20 /* accepted, no effect: the host tier always buffers */
};

/* Flags of the paper: the same bits, so both spellings may be combined. */
#define D_READ     D_F_READ
#define D_WRITE    D_F_WRITE
#define D_VOLATILE D_F_VOLATILE

/*
 * Map a file, as in the paper: size_bytes from offset (a multiple of 4096). size_bytes 0: the whole
 * file from offset. flags: D_*. *addr is the mapping, valid on host and device until
 * dragon_unmap(), and untouched on failure.
 *
 * DRAGON_READAHEAD_TYPE in the environment controls read-ahead of mappings with READ and without
 * VOLATILE:
 *  - "agg..." reads the whole file ahead into host memory in the background.
 *  - "dis..." never reads ahead.
 *  - Otherwise read-ahead follows the access pattern.
 * Errors: D_ERR_FILE, D_ERR_INTVAL, D_ERR_MEM, D_ERR_UVM.
 * Threads: any.
 * Blocks: on opening and extending the file, and at the first call on making the space.
 */
SLUICE_API dragonError_t dragon_map_paper(const char *filename, size_t size_bytes,
					  uint64_t offset, unsigned flags, void **addr);

/* The same as in the shipped library: from the start of the file. */
SLUICE_API dragonError_t dragon_map_artifact(const char *filename, size_t size_bytes,
					     unsigned short flags, void **addr);

/*
 * Replace the READ, WRITE and VOLATILE flags of a mapping (other flags have no effect). Pending
 * writes are flushed under the old flags. Contents of a volatile mapping are thrown away.
 * Errors: D_ERR_INTVAL (no mapping starts at addr), D_ERR_FILE, D_ERR_IOCTL.
 * Threads: any.
 * Blocks: on launches that declared the mapping, and on I/O.
 */
SLUICE_API dragonError_t dragon_remap(void *addr, unsigned short flags);

/*
 * Put everything written in [addr, addr + size_bytes) on the medium. With size_bytes 0, and with
 * dragon_flush(): to the end of the mapping. When D_OK is returned, data and file size survive a
 * power cut. Another process that maps the file after a barrier reads them. Volatile mappings:
 * nothing to do. Wait first for kernels launched without declared uses.
 * Errors: D_ERR_INTVAL, D_ERR_FILE (unwritten data stay in memory).
 * Threads: any.
 * Blocks: on I/O.
 */
SLUICE_API dragonError_t dragon_sync(void *addr, size_t size_bytes);
SLUICE_API dragonError_t dragon_flush(void *addr);

/*
 * Flush (unless volatile) and end a mapping. addr is the address from dragon_map().
 * Errors: D_ERR_INTVAL, D_ERR_IOCTL (pinned), D_ERR_FILE (write-back failed). After D_ERR_FILE the
 *     mapping stays, and nothing is lost: free space and call again.
 * Threads: any.
 * Blocks: on launches that declared the mapping, and on I/O.
 */
SLUICE_API dragonError_t dragon_unmap(void *addr);

/*
 * Set the 4 KiB pages of the host budget that volatile data must leave free: host_reserve_bytes of
 * struct sluice_config. More than the budget means all of it. Overrides DRAGON_NR_RESERVED_PAGES in
 * the environment. Call it before all others.
 * Errors: D_ERR_NOT_IMPLEMENTED (the space exists).
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API dragonError_t dragon_trash_set_num_reserved_sys_cache_pages(unsigned long pages);

/*
 * Set the limit of 2 MiB blocks that are on their way to the disk at once when host memory is full.
 * It raises staging_bytes of struct sluice_config, and never lowers it below the need of the I/O
 * depth. Call it before all others.
 * Errors: D_ERR_INTVAL (0 or too many), D_ERR_NOT_IMPLEMENTED (the space exists).
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API dragonError_t dragon_trash_set_num_blocks(unsigned long blocks);

/*
 * The space behind these calls, made now if need be: for sluice_launch(), sluice_prefetch(),
 * sluice_stats_get() and the rest. The library owns it: do not destroy it.
 * Errors: NULL (it could not be made; sluice_last_error() has the reason).
 * Threads: any.
 * Blocks: on making the space.
 */
SLUICE_API struct sluice_space *dragon_space(void);

#ifdef __cplusplus
}

static inline dragonError_t
dragon_map(const char *filename, size_t size_bytes, unsigned short flags, void **addr)
{
	return dragon_map_artifact(filename, size_bytes, flags, addr);
}

static inline dragonError_t
dragon_map(const char *filename, size_t size_bytes, uint64_t offset, unsigned flags,
	   void **addr)
{
	return dragon_map_paper(filename, size_bytes, offset, flags, addr);
}
#else
/* The sixth of the arguments, the five of the paper, or the four of the library, and the names. */
#define dragon_map(...)                                                             \
	SLUICE_DRAGON_SIXTH_(__VA_ARGS__, dragon_map_paper, dragon_map_artifact, 0) \
	(__VA_ARGS__)
#define SLUICE_DRAGON_SIXTH_(a, b, c, d, e, name, ...) name
#endif
#endif
