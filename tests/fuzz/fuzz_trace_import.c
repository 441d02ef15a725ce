/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a network of the paper G10's inputs. The first byte chooses the family, the second
 * the batch size, the rest is the text. Refused text gives one of the stated errors. Accepted
 * text is a valid trace whose loss follows its forward launches.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "g10/import_g10.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
network_build(const char *text, size_t size, enum sl_g10_family family, uint32_t batch,
	      struct sl_trace *trace)
{
	struct sl_g10_net net;
	int rc;

	if (family == SL_G10_TRANSFORMER)
		return sl_g10_ops_build(text, size, "input", batch, 210, trace);
	rc = sl_g10_net_parse(text, size, "input", family, &net);
	if (rc)
		return rc;
	rc = sl_g10_cnn_build(&net, "input", batch, 128, 128, trace);
	sl_g10_net_fini(&net);
	return rc;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_trace *trace;
	char *text;
	int rc;

	if (size < 2)
		return 0;
	text = malloc(size - 1); /* its exact size: no NUL to lean on */
	if (!text || sl_trace_create(1000, &trace))
		abort();
	memcpy(text, data + 2, size - 2);
	rc = network_build(text, size - 2,
			   (enum sl_g10_family)(data[0] % SL_G10_FAMILY_COUNT), data[1],
			   trace);
	if (rc && rc != -EINVAL && rc != -E2BIG && rc != -ENOMEM)
		abort();
	if (!rc && (sl_trace_check(trace) || trace->n_forward >= trace->n_launches ||
		    strcmp(sl_trace_name(trace, trace->launches[trace->n_forward].name),
			   "make_loss") != 0))
		abort();
	sl_trace_destroy(trace);
	free(text);
	return 0;
}
