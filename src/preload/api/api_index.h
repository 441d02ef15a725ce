/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers and facts of the driver's exported names, made from api.tbl: SL_API_cuMemAlloc_v2 is
 * the number of cuMemAlloc_v2. A C function of a name wraps it; else trampoline.c jumps.
 *
 * Threads: constants only.
 */
#ifndef SL_PRELOAD_API_INDEX_H
#define SL_PRELOAD_API_INDEX_H

#include <stdint.h>

/* The CUDA version whose names are all in the table: in a newer driver a base may have an ABI that
 * is not. */
#define PL_API_VERSION 13000

enum sl_api {
#define PL_API(exported, base, version, flavour, class, group) SL_API_##exported,
#include "preload/api.tbl"
#undef PL_API
	SL_API_COUNT
};

enum pl_api_flavour { PL_API_LEGACY, PL_API_PTDS, PL_API_PTSZ };

enum pl_api_class { PL_API_FORWARD, PL_API_WRAP };

/* One row. */
struct pl_api_facts {
	uint32_t version;
	uint16_t name;      /* where it stands in the table's text */
	uint8_t base_chars; /* so many of its characters are the base */
	uint8_t flavour, class;
};

/* "cuMemAlloc_v2". Static storage. */
const char *pl_api_name(enum sl_api api);
/* Order of the name's base ("cuMemAlloc") and of symbol, as strcmp() has it. */
int pl_api_base_compare(enum sl_api api, const char *symbol);
const struct pl_api_facts *pl_api_facts(enum sl_api api);

#endif
