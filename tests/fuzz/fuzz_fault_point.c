/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text for sl_fault_point_set() and SLUICE_FAULT. A refused one leaves what was armed
 * and its counts; a taken one makes points fail only with valid errnos, and each failure
 * is counted.
 */
#include "base/fault_point.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"a", "store.write", "mem.alloc", "*"};
	char *text = malloc(size + 1);
	uint64_t failed = 0;
	int rc;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';

	if (sl_fault_point_set("kept:2:ENOSPC") || sl_fault_point("kept"))
		abort();
	rc = sl_fault_point_set(text);
	if (rc) {
		if (rc != -EINVAL || sl_fault_point("kept") != -ENOSPC)
			abort();
	} else {
		for (int i = 0; i < 40; i++) {
			rc = sl_fault_point(names[i % 4]);
			if (rc > 0 || rc < -4095)
				abort();
			failed += rc != 0;
		}
		if (sl_fault_point_fired() != failed)
			abort();
	}
	free(text);
	return 0;
}
