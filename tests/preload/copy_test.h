/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of copies and fills: the driver's calls as a program under the preload
 * library reaches them, memory of each kind with a shadow of its contents, and every copy and
 * fill of the driver behind one description of its effect.
 *
 * Device memory is of two kinds: allocated, which the library owns, and a module's variable,
 * which is the driver's. Threads: one.
 */
#ifndef SL_TESTS_PRELOAD_COPY_TEST_H
#define SL_TESTS_PRELOAD_COPY_TEST_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_driver/standin.h"
#include "preload/api/api_copy.h"
#include "preload/api/api_fill.h"
#include "preload/api/api_memop.h"
#include "preload/api/api_tensormap.h"
#include "preload/api/api_texture.h"

/* The driver's call of that name, and one that must succeed. */
void *copy_test_find(const char *name);
#define DRIVER(name) ((__typeof__(&(name)))copy_test_find(#name))
#define MUST(call)                                                                         \
	do {                                                                               \
		int must_result = (call);                                                  \
		if (must_result) {                                                         \
			printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #call, must_result); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)
#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                               \
		}                                                              \
	} while (0)

/* Prototypes that no header of the library's has (cuda_symbols.def). */
int cuInit(unsigned flags);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(uint64_t *addr, size_t bytes);
int cuMemFree_v2(uint64_t addr);

enum kind {
	KIND_OURS = 1,     /* cuMemAlloc() */
	KIND_DRIVERS = 2,  /* a module's variable */
	KIND_PAGEABLE = 4, /* malloc() */
	KIND_PINNED = 8,   /* cuMemHostAlloc() */
	KIND_DEVICE = 3,
	KIND_HOST = 12
};

struct buffer {
	enum kind kind;
	uint64_t addr;
	size_t bytes;
	unsigned char *shadow;
	int stream; /* of the last work on it; tests' own */
};

#define DRIVERS_BYTES ((size_t)256 << 10) /* size of the module's variable */

/*
 * Set up the environment (settings are read at the first call), open the driver and make a context current.
 * device_budget: as SLUICE_DEVICE_BUDGET. Ends the process with 77 without the library and the stand-in.
 */
const struct sl_standin *copy_test_open(const char *device_budget);
/* The context that is current, and a stream of it that does not wait for the legacy one. */
struct cu_context *copy_test_context(void);
struct cu_stream *copy_test_stream(void);

/* All that was asked for is given back; contents as they are at random. One KIND_DRIVERS at a time. */
void buffer_make(struct buffer *buffer, enum kind kind, size_t bytes);
void buffer_free(struct buffer *buffer);
/* Compare with the shadow; ends the test with what differs. Waits for the device. */
void buffer_check(const struct buffer *buffer, const char *after);

/* Work from buffer to buffer, in bytes. A fill has no source. */
struct work {
	struct buffer *to, *from;
	size_t to_at, from_at;       /* of the first byte */
	size_t to_pitch, from_pitch; /* from row to row */
	size_t to_rows, from_rows;   /* of a layer */
	size_t width, height, depth;
	unsigned value, element_bytes; /* fills */
	struct cu_stream *stream;
	struct cu_context *context;
};

struct call {
	const char *name;
	int (*run)(const struct work *work);
	int to, from;           /* kinds that it takes, 0: a fill */
	int dimensions;         /* 1 to 3 */
	int async;              /* takes a stream */
	int named_stream;       /* not the legacy one */
	unsigned element_bytes; /* of a fill */
};

extern const struct call copy_calls[];
extern const size_t n_copy_calls;

/* Do in the shadows what the call does. */
void work_shadow(const struct work *work);

#endif
