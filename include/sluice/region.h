/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: mapped files and anonymous allocations, all used through plain pointers. */
#ifndef SLUICE_REGION_H
#define SLUICE_REGION_H

#include "sluice/space.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a region may be used; combine with |. */
enum sluice_map_flag {
	SLUICE_READ = 0x01,  /* contents are read: a first touch reads the file */
	SLUICE_WRITE = 0x02, /* contents are written: what changed goes back to the file.
			      * WRITE without READ: a first touch is zero-filled, the file
			      * is not read */
	SLUICE_VOLATILE = 0x04, /* intermediate data: written to the store only when host
				 * memory is full, never at sync or unmap; contents are
				 * lost at unmap */
	SLUICE_CREATE = 0x08, /* create the file if missing, extend it to offset + size */
	SLUICE_NO_READAHEAD = 0x10 /* never read ahead in this region */
};

/*
 * A size that means: to the end of the region. Calls that take a range within a region accept it.
 * A size of 0 is an empty range there: nothing happens, and 0 is returned; the address must be in a
 * region all the same (-ENOENT). Only sluice_map() and dragon_map() give 0 another meaning.
 */
#define SLUICE_TO_END ((size_t)-1)

/*
 * Map size bytes of a file, from offset (a multiple of 4096). size 0: the whole file from
 * offset. *addr: start of the mapping, aligned to the chunk size; bytes past size in the
 * last chunk read as zeros and are not written to the file. The file stays open until
 * sluice_unmap(). Errors: -ENOENT, -EISDIR, -EACCES (read-only file with SLUICE_WRITE),
 * -EFBIG (file shorter than offset + size without SLUICE_CREATE, or no addresses left),
 * -EINVAL (size 0 of an empty file, unaligned offset, no READ nor WRITE, CREATE without
 * WRITE), -ENOSPC, -ENOMEM. Any thread. Blocks on opening and extending the file.
 * (DRAGON, dragon_map.)
 */
SLUICE_API int sluice_map(struct sluice_space *space, const char *path, uint64_t offset,
			  size_t size_bytes, unsigned flags, void **addr) SLUICE_MUST_CHECK;

/*
 * Allocate size bytes of zeros, spilled to the spill directories when host memory is
 * full. In memory it takes whole chunks. flags: 0 or SLUICE_NO_READAHEAD. Errors: -EINVAL
 * (size 0, flags), -EFBIG, -ENOMEM (also at the system's limit of mappings, vm.max_map_count:
 * what was allocated before stays usable). Any thread. Does not block on I/O.
 */
SLUICE_API int sluice_alloc(struct sluice_space *space, size_t size_bytes, unsigned flags,
			    void **addr) SLUICE_MUST_CHECK;

/*
 * End a region; addr is what map or alloc gave. Waits for launches that use it. A file
 * region is flushed first (unless volatile); an anonymous one is discarded. Errors:
 * -ENOENT (no region starts there), -EBUSY (pinned, or in a sluice_launch_begin() not yet
 * ended); the region then stays. A write-back error (-EIO, -ENOSPC) is returned after one
 * more attempt and the region stays mapped, so that nothing is lost: free space and call
 * again, or sluice_discard() first. Any thread. Blocks on launches and I/O.
 */
SLUICE_API int sluice_unmap(struct sluice_space *space, void *addr) SLUICE_MUST_CHECK;

/*
 * Replace the READ / WRITE / VOLATILE flags of a region. Pending writes are flushed under
 * the old flags; contents of a volatile region are discarded (DRAGON's dragon_remap).
 * Errors as sluice_map() and sluice_unmap(). Any thread. Blocks on launches and I/O.
 */
SLUICE_API int sluice_remap(struct sluice_space *space, void *addr,
			    unsigned flags) SLUICE_MUST_CHECK;

/*
 * Put everything written in [addr, addr + size) on the medium: when 0 is returned, data
 * and size survive a power cut. Waits for launches that use the range. Volatile and anonymous ranges: nothing to do, 0. Errors: -ENOENT, -EIO,
 * -ENOSPC: also any earlier background write-back error of the region, reported once;
 * what could not be written stays in memory. Where the text names fdatasync, a later 0 speaks for
 * what is written after: the system does not tell twice. Any thread. Blocks on launches and I/O.
 * (DRAGON, dragon_sync.)
 */
SLUICE_API int sluice_sync(struct sluice_space *space, void *addr,
			   size_t size_bytes) SLUICE_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
