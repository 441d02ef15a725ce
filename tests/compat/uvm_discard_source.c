/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source in the spellings of the UVM Discard paper and of its authors' programs. Compiled as C17
 * and C++ and run by tests/cli/test_compat_sources.sh; valid in both. Exit status 0 when each
 * spelling does what it says, 77 when the machine refuses.
 */
#include <stdio.h>
#include <string.h>

#include "sluice/region.h"
#include "sluice/uvm_discard.h"

static const size_t size = (size_t)2 << 20;
static unsigned char *buffer;

static void
refill(void)
{
	if (sluice_prefetch(uvm_space(), buffer, size, SLUICE_TIER_DEVICE, NULL))
		fprintf(stderr, "prefetch: %s\n", sluice_last_error());
	memset(buffer, 7, size);
}

int
main(void)
{
	struct sluice_config config;
	struct sluice_stream *stream, *default_stream = NULL;
	struct sluice_space *space;
	void *addr;
	int rc;

	if (sluice_config_init(&config))
		return 1;
	rc = sluice_space_create(&config, &space);
	if (rc == -1 /* EPERM */ || rc == -95 /* ENOTSUP */) {
		printf("skipped: %s\n", sluice_last_error());
		return 77;
	}
	if (rc || sluice_space_destroy(space))
		return 2;
	if (!uvm_space() || sluice_alloc(uvm_space(), size, 0, &addr) ||
	    sluice_stream_create(uvm_space(), &stream))
		return 3;
	buffer = (unsigned char *)addr;

	refill();
	UvmDiscard(buffer, size);
	if (buffer[0])
		return 4;
	refill();
	UvmDiscard(buffer, size, 0); /* not lazy, or stream 0: the same */
	if (buffer[0])
		return 5;
	refill();
	UvmDiscard(buffer, size, default_stream);
	if (buffer[0])
		return 6;
	refill();
	UvmDiscard(buffer, size, stream);
	if (sluice_stream_synchronize(uvm_space(), stream) || buffer[0])
		return 7;
	refill();
	UvmDiscardAsync(buffer, size, 0, stream);
	if (sluice_stream_synchronize(uvm_space(), stream) || buffer[0])
		return 8;
	refill();
	UvmDiscard(buffer, size, 1);
	UvmDiscardLazy(buffer, size);
	UvmDiscardLazy(buffer, size, stream);
	UvmDiscardAsync(buffer, size, 1, stream);
	if (sluice_stream_synchronize(uvm_space(), stream))
		return 9;
	refill();
	if (sluice_evict(uvm_space(), buffer, size, SLUICE_TIER_HOST, NULL) || buffer[0] != 7)
		return 10; /* revived by the prefetch: the write counts */
	sluice_stream_destroy(stream);
	return 0;
}
