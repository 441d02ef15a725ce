/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spare mappings. A process may have vm.max_map_count mappings (65530 by default), and each
 * attached range takes up to two. At the limit, attach() must be the call that fails. Memory
 * that was attached before needs mappings as well, for its frames. So the device keeps
 * SPARE_MAPS mappings back from its start. It gives them to the process when an attach or a
 * segment of frames meets the limit. It attaches nothing until it has them again.
 *
 * A spare mapping is a page without memory whose protection differs from both neighbours'.
 *
 * Threads: any; sl_soft_spare_maps_give() also in signal handlers.
 */
#include <errno.h>
#include <sys/mman.h>

#include "device/soft/soft.h"

/* A segment of frames, 256 MiB or more, takes three: enough for 42 GiB of frames. Making them takes
 * 0.6 ms a device and removing them 0.25 ms (measured, Linux 6.18, one core). */
#define SPARE_MAPS 512

int
sl_soft_spare_maps_take(struct soft *soft)
{
	size_t bytes = (size_t)SPARE_MAPS * SL_PAGE_BYTES;
	char *p;

	if (atomic_load_explicit(&soft->spare_maps, memory_order_relaxed))
		return 0;
	p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	for (size_t at = 0; at < bytes; at += 2 * (size_t)SL_PAGE_BYTES)
		if (mprotect(p + at, SL_PAGE_BYTES, PROT_READ)) {
			int rc = -errno;

			munmap(p, bytes);
			return rc;
		}
	p = atomic_exchange_explicit(&soft->spare_maps, p, memory_order_relaxed);
	if (p) /* another thread was faster */
		munmap(p, bytes);
	return 0;
}

int
sl_soft_spare_maps_give(struct soft *soft)
{
	void *p = atomic_exchange_explicit(&soft->spare_maps, NULL, memory_order_relaxed);

	if (!p)
		return 0;
	munmap(p, (size_t)SPARE_MAPS * SL_PAGE_BYTES);
	return 1;
}
