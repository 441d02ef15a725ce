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
	SLUICE_READ = 0x01,     /* contents are read: a first touch reads the file */
	SLUICE_WRITE = 0x02,    /* contents are written: changes go back to the file.
			      * WRITE without READ: a first touch is zero-filled, the file
			      * is not read */
	SLUICE_VOLATILE = 0x04, /* intermediate data: written to the store only when host
				 * memory is full, never at sync or unmap; contents are
				 * lost at unmap */
	SLUICE_CREATE = 0x08, /* create the file if missing, extend it to offset + size */
	SLUICE_NO_READAHEAD = 0x10 /* never read ahead in this region */
};

/*
 * A size that means: to the end of the region. Calls on a range within a region accept it.
 *
 * A size of 0 is an empty range there: nothing happens, and 0 is returned. The address must be in
 * a region all the same (-ENOENT). Three calls give 0 another meaning: to sluice_map() and
 * dragon_map() it is the whole file, to dragon_sync() the rest of the mapping.
 */
#define SLUICE_TO_END ((size_t)-1)

/*
 * Map size_bytes of a file, from offset (a multiple of 4096). size_bytes 0: the whole file from
 * offset. *addr is the start of the mapping, aligned to the chunk size. Bytes past the size in the
 * last chunk read as zeros and are not written to the file. The file stays open until
 * sluice_unmap().
 * Errors: -ENOENT, -EISDIR, -EACCES (read-only file with SLUICE_WRITE), -EFBIG (file shorter than
 *     offset + size without SLUICE_CREATE, or no addresses left), -EINVAL (size 0 of an empty
 *     file, unaligned offset, no READ nor WRITE, CREATE without WRITE), -ENOSPC, -ENOMEM.
 * Threads: any.
 * Blocks: on opening and extending the file.
 */
SLUICE_API int sluice_map(struct sluice_space *space, const char *path, uint64_t offset,
			  size_t size_bytes, unsigned flags, void **addr) SLUICE_MUST_CHECK;

/*
 * Allocate size_bytes of zeros. They are spilled to the spill directories when host memory is
 * full. In memory they take whole chunks. flags: 0 or SLUICE_NO_READAHEAD.
 * Errors: -EINVAL (size 0, flags), -EFBIG, -ENOMEM (also at the system's limit of mappings,
 *     vm.max_map_count: memory allocated before stays usable).
 * Threads: any.
 * Blocks: not on I/O.
 */
SLUICE_API int sluice_alloc(struct sluice_space *space, size_t size_bytes, unsigned flags,
			    void **addr) SLUICE_MUST_CHECK;

/*
 * End a region. addr is the address from sluice_map() or sluice_alloc(). A file region is flushed
 * first (unless volatile). An anonymous one is discarded.
 * Errors: -ENOENT (no region starts there), -EBUSY (pinned, or in a sluice_launch_begin() not yet
 *     ended), -EIO and -ENOSPC (write-back failed twice). On an error the region stays mapped, so
 *     that nothing is lost. Free space and call again, or call sluice_discard() first.
 * Threads: any.
 * Blocks: on launches that use the region, and on I/O.
 */
SLUICE_API int sluice_unmap(struct sluice_space *space, void *addr) SLUICE_MUST_CHECK;

/*
 * Replace the READ, WRITE and VOLATILE flags of a region. Pending writes are flushed under the old
 * flags. Contents of a volatile region are discarded.
 * Errors: as sluice_map() and sluice_unmap().
 * Threads: any.
 * Blocks: on launches and I/O.
 */
SLUICE_API int sluice_remap(struct sluice_space *space, void *addr,
			    unsigned flags) SLUICE_MUST_CHECK;

/*
 * Put everything written in [addr, addr + size_bytes) on the medium. When 0 is returned, data and
 * size survive a power cut. Volatile and anonymous ranges: nothing to do, 0.
 * Errors: -ENOENT, -EIO, -ENOSPC. They include an earlier error of the region's background
 *     write-back, reported once. Unwritten data stay in memory. If the text names fdatasync, a
 *     later 0 covers only later writes, since the system reports such an error once.
 * Threads: any.
 * Blocks: on launches that use the range, and on I/O.
 */
SLUICE_API int sluice_sync(struct sluice_space *space, void *addr,
			   size_t size_bytes) SLUICE_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
