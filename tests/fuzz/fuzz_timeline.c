/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the timeline that `sluice report` reads. The reader ends, with a known code. What it
 * accepts is divided: the parts of each GPU add up to the whole, and the waits of the functions to
 * those of the GPUs.
 *
 * The files belong to the tool and not to the library, so this file takes them in.
 */
#include "../../tools/json_read.c" /* NOLINT(bugprone-suspicious-include): see above */
#include "../../tools/timeline_read.c" /* NOLINT(bugprone-suspicious-include): see above */

#include "../../tools/report_gather.c" /* NOLINT(bugprone-suspicious-include): see above */
#include "../../tools/report_parts.c" /* NOLINT(bugprone-suspicious-include): see above */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
sums_check(const struct report *report)
{
	uint64_t waited = 0;

	for (int i = 0; i < REPORT_GPUS_MAX; i++) {
		const struct report_gpu *gpu = report->gpus[i];
		uint64_t sum = 0;

		if (!gpu)
			continue;
		for (int part = 0; part < REPORT_PARTS; part++)
			sum += gpu->part_ns[part];
		if (sum != report_whole_ns(report))
			abort();
		waited += report_waited_ns(gpu) - gpu->waited_last_ns;
	}
	for (size_t i = 0; i < report->n_functions; i++)
		waited -= report->functions[i].waited_ns;
	if (waited || report->end_ns < report->begin_ns)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FILE *file = size ? fmemopen((void *)(uintptr_t)data, size, "rb") : NULL;
	struct report report = {.path = "input"};
	struct timeline_reader *reader = NULL;
	int rc;

	if (!file)
		return 0;
	rc = timeline_open_file(file, "input", &reader);
	if (!rc && reader)
		rc = report_gather(reader, &report);
	if (rc && rc != -EINVAL && rc != -E2BIG && rc != -ENOMEM)
		abort();
	if (!rc) {
		report_parts_make(&report);
		sums_check(&report);
	}
	timeline_close(reader);
	report_fini(&report);
	return 0;
}
