/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.tbl as data. Names stand in one text, found by offsets: no pointer of these tables has to be
 * relocated in each process that loads the library.
 *
 * Threads: constants only.
 */
#include "preload/api/api_index.h"

#include <stddef.h>
#include <string.h>

/* A member for each name, so that the compiler counts. */
static const struct name_text {
#define PL_API(exported, base, version, flavour, class, group) \
	char exported[sizeof(#exported)];
#include "preload/api.tbl"
#undef PL_API
} name_text = {
#define PL_API(exported, base, version, flavour, class, group) #exported,
#include "preload/api.tbl"
#undef PL_API
};

_Static_assert(sizeof(name_text) <= UINT16_MAX, "offsets are 16 bits wide");

static const struct pl_api_facts facts[SL_API_COUNT] = {
#define PL_API(exported, base, version, flavour, class, group)               \
	{(version), offsetof(struct name_text, exported), sizeof(#base) - 1, \
	 PL_API_##flavour, PL_API_##class},
#include "preload/api.tbl"
#undef PL_API
};

const char *
pl_api_name(enum sl_api api)
{
	return (const char *)&name_text + facts[api].name;
}

int
pl_api_base_compare(enum sl_api api, const char *symbol)
{
	size_t chars = facts[api].base_chars;
	int order = strncmp(pl_api_name(api), symbol, chars);

	if (!order && symbol[chars])
		return -1;
	return order;
}

const struct pl_api_facts *
pl_api_facts(enum sl_api api)
{
	return &facts[api];
}
