/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text for sluice_config_parse(). The answer is 0 or -EINVAL with a text. A refused text
 * changes nothing. An accepted one is accepted again with the same result. It is either resolved
 * into budgets of whole chunks, or refused with one of the documented codes.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sluice_config fresh; /* the machine's defaults: read once, reading is slow */
	struct sluice_config config, again;
	char *text = malloc(size + 1);
	int rc;

	if (!text)
		return 0;
	if (!fresh.struct_bytes && sluice_config_init(&fresh))
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	config = fresh;
	rc = sluice_config_parse(&config, text);
	if (rc) {
		if (rc != -EINVAL || !*sluice_last_error() ||
		    memcmp(&config, &fresh, sizeof(config)))
			abort();
	} else {
		again = config;
		if (sluice_config_parse(&again, text) ||
		    memcmp(&again, &config, sizeof(again)))
			abort();
		if (!memchr(config.spill_dirs, '\0', sizeof(config.spill_dirs)))
			abort();
		rc = sl_config_resolve(&config);
		if (rc && rc != -EINVAL && rc != -ENOBUFS)
			abort();
		if (!rc && (config.device_budget_bytes % config.chunk_bytes ||
			    config.device_budget_bytes < 2 * config.chunk_bytes ||
			    config.host_budget_bytes % config.chunk_bytes ||
			    config.host_reserve_bytes > config.host_budget_bytes))
			abort();
	}
	free(text);
	return 0;
}
