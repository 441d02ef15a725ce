/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's answers about a pointer under the preload library. For managed memory they are
 * the same on the device, zero-copy, and evicted. Each answer has as many bytes as its type,
 * since callers need not clear theirs before. One process for each place.
 */
#include "away.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "preload/api/api_query.h"
#include "scenario.h"

#define BYTES (3 * AWAY_MIB + 7)
#define MOST  16 /* bytes of any attribute */
#define FILL  0xa5

/* What is expected of a block of ours; NONE: that it has no such attribute. */
enum what { NONE, ZERO, ONE, TYPE, ACCESS, CONTEXT, ADDR, BASE, SIZE, SOME };

static const struct attribute {
	const char *name;
	int which;
	size_t bytes; /* that are written */
	enum what what;
} attributes[] = {
	{"context", CU_POINTER_CONTEXT, 8, CONTEXT},
	{"memory type", CU_POINTER_MEMORY_TYPE, 4, TYPE},
	{"device pointer", CU_POINTER_DEVICE_POINTER, 8, ADDR},
	{"host pointer", CU_POINTER_HOST_POINTER, 8, NONE},
	{"sync memops", CU_POINTER_SYNC_MEMOPS, 4, ZERO},
	{"buffer id", CU_POINTER_BUFFER_ID, 8, SOME},
	{"is managed", CU_POINTER_IS_MANAGED, 4, ZERO},
	{"device ordinal", CU_POINTER_DEVICE_ORDINAL, 4, ZERO},
	{"is IPC capable", CU_POINTER_IS_IPC_CAPABLE, 4, ZERO},
	{"range start", CU_POINTER_RANGE_START, 8, BASE},
	{"range bytes", CU_POINTER_RANGE_BYTES, 8, SIZE},
	{"mapped", CU_POINTER_MAPPED, 4, ONE},
	{"handle types", CU_POINTER_HANDLE_TYPES, 4, ZERO},
	{"is RDMA capable", CU_POINTER_IS_RDMA_CAPABLE, 4, ZERO},
	{"access flags", CU_POINTER_ACCESS_FLAGS, 4, ACCESS},
	{"pool", CU_POINTER_POOL, 8, ZERO},
	{"mapping bytes", CU_POINTER_MAPPING_BYTES, 8, SIZE},
	{"mapping start", CU_POINTER_MAPPING_START, 8, BASE},
	{"block id", CU_POINTER_BLOCK_ID, 8, SOME},
	{"is decompress capable", CU_POINTER_IS_DECOMPRESS_CAPABLE, 4, ZERO},
};

#define N_ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))

static int failed;

static void
value_check(const struct attribute *attribute, const unsigned char *value,
	    uint64_t wanted, const char *where)
{
	uint64_t got = 0;

	memcpy(&got, value, attribute->bytes);
	if (attribute->what == SOME ? !got || got != wanted : got != wanted) {
		printf("%s, %s: %#llx, not %#llx\n", where, attribute->name,
		       (unsigned long long)got, (unsigned long long)wanted);
		failed = 1;
	}
	for (size_t at = attribute->bytes; at < MOST; at++)
		if (value[at] != FILL) {
			printf("%s, %s: more than %zu bytes are written\n", where,
			       attribute->name, attribute->bytes);
			failed = 1;
			return;
		}
}

static uint64_t
wanted_of(const struct attribute *attribute, uint64_t base, size_t at, uint64_t id)
{
	switch (attribute->what) {
	case NONE:
	case ZERO:
		break;
	case ONE:
		return 1;
	case TYPE:
		return CU_MEMORY_DEVICE;
	case ACCESS:
		return CU_ACCESS_READ_WRITE;
	case CONTEXT:
		return (uintptr_t)copy_test_context();
	case ADDR:
		return base + at;
	case BASE:
		return base;
	case SIZE:
		return BYTES;
	case SOME:
		return id;
	}
	return 0;
}

/* All attributes of base + at, one by one and together. id: of the block. */
static void
block_check(uint64_t base, size_t at, uint64_t id, const char *where)
{
	unsigned char value[N_ATTRIBUTES][MOST];
	void *values[N_ATTRIBUTES];
	int which[N_ATTRIBUTES];

	for (size_t i = 0; i < N_ATTRIBUTES; i++) {
		const struct attribute *attribute = &attributes[i];

		which[i] = attribute->which;
		values[i] = value[i];
		memset(value[i], FILL, MOST);
		if (attribute->what == NONE) {
			CHECK(DRIVER(cuPointerGetAttribute)(value[i], which[i], base + at) ==
			      CU_ERROR_INVALID_VALUE);
			continue;
		}
		MUST(DRIVER(cuPointerGetAttribute)(value[i], which[i], base + at));
		value_check(attribute, value[i], wanted_of(attribute, base, at, id), where);
	}
	memset(value, FILL, sizeof(value));
	MUST(DRIVER(cuPointerGetAttributes)(N_ATTRIBUTES, which, values, base + at));
	for (size_t i = 0; i < N_ATTRIBUTES; i++)
		value_check(&attributes[i], value[i],
			    wanted_of(&attributes[i], base, at, id), where);
}

static uint64_t
id_of(uint64_t addr)
{
	uint64_t id = 0;

	MUST(DRIVER(cuPointerGetAttribute)(&id, CU_POINTER_BUFFER_ID, addr));
	return id;
}

/* What the driver itself says an address is: a CU_MEMORY_..., 0: nothing. */
static int
driver_says(uint64_t addr)
{
	int (*ask)(void *, int, uint64_t), type = 0;
	const char *path = getenv("SLUICE_CUDA_LIBRARY");
	struct link_map *map;

	CHECK(path && !dlinfo(dlopen(NULL, RTLD_NOW), RTLD_DI_LINKMAP, &map));
	while (map && strcmp(map->l_name, path) != 0)
		map = map->l_next;
	CHECK(map);
	*(void **)&ask = dlsym(map, "cuPointerGetAttribute");
	CHECK(ask);
	return ask(&type, CU_POINTER_MEMORY_TYPE, addr) ? 0 : type;
}

static void
sync_is_as_it_was_set(uint64_t addr)
{
	unsigned on = 1, off = 0;
	uint64_t value = 0;

	MUST(DRIVER(cuPointerSetAttribute)(&on, CU_POINTER_SYNC_MEMOPS, addr));
	MUST(DRIVER(cuPointerGetAttribute)(&value, CU_POINTER_SYNC_MEMOPS, addr));
	CHECK(value == 1);
	MUST(DRIVER(cuPointerSetAttribute)(&off, CU_POINTER_SYNC_MEMOPS, addr));
}

/* Behind the end of a block, freed, and memory that is not the driver's: no error, and nothing there. */
static void
nobodys_addresses_are_nothing(uint64_t addr, uint64_t id)
{
	unsigned char value[N_ATTRIBUTES][MOST];
	void *values[N_ATTRIBUTES];
	int which[N_ATTRIBUTES], number;
	uint64_t places[] = {addr + BYTES, addr, (uintptr_t)&number}, b;

	for (size_t i = 0; i < N_ATTRIBUTES; i++) {
		which[i] = attributes[i].which;
		values[i] = value[i];
	}
	for (size_t k = 0; k < 3; k++) {
		if (k == 1)
			MUST(DRIVER(cuMemFree_v2)(addr));
		CHECK(DRIVER(cuPointerGetAttribute)(&number, CU_POINTER_MEMORY_TYPE,
						    places[k]) == CU_ERROR_INVALID_VALUE);
		memset(value, FILL, sizeof(value));
		MUST(DRIVER(cuPointerGetAttributes)(N_ATTRIBUTES, which, values, places[k]));
		for (size_t i = 0; i < N_ATTRIBUTES; i++) {
			struct attribute none = attributes[i];

			none.what = NONE;
			value_check(&none, value[i],
				    which[i] == CU_POINTER_DEVICE_ORDINAL
					    ? (uint32_t)CU_DEVICE_NONE
					    : 0,
				    "nobody's");
		}
	}
	MUST(DRIVER(cuMemAlloc_v2)(&b, BYTES));
	CHECK(id_of(b) != id);
	MUST(DRIVER(cuMemFree_v2)(b));
}

static int
on_the_device_and_off_it(void)
{
	uint64_t a, b, id;

	away_open();
	MUST(DRIVER(cuMemAlloc_v2)(&a, BYTES));
	MUST(DRIVER(cuMemAlloc_v2)(&b, 100));
	MUST(DRIVER(cuMemsetD8_v2)(a, 1, BYTES));
	CHECK(driver_says(a) == CU_MEMORY_DEVICE);
	id = id_of(a);
	CHECK(id != id_of(b));
	block_check(a, 0, id, "on the device");
	block_check(a, BYTES - 1, id, "at its end");
	away_go();
	CHECK(!driver_says(a));
	block_check(a, 5, id, "off the device");
	sync_is_as_it_was_set(a + 5);
	CHECK(!driver_says(a)); /* asking brings nothing in */
	MUST(DRIVER(cuMemFree_v2)(b));
	nobodys_addresses_are_nothing(a, id);
	return failed | away_close();
}

/* Mode naive: what does not fit when it is allocated stays in host memory, mapped for the GPU. */
static int
in_host_memory(void)
{
	uint64_t a;

	away_open();
	MUST(DRIVER(cuMemAlloc_v2)(&a, BYTES));
	MUST(DRIVER(cuMemsetD8_v2)(a, 1, BYTES));
	CHECK(driver_says(a + 2 * AWAY_MIB) == CU_MEMORY_HOST);
	block_check(a, 2 * AWAY_MIB, id_of(a), "in host memory");
	MUST(DRIVER(cuMemFree_v2)(a));
	return failed | away_close();
}

int
main(void)
{
	int status;

	scenario_open();
	status = scenario("on the device and off it", on_the_device_and_off_it, "mode=paged");
	if (status != 77)
		scenario("in host memory", in_host_memory, "mode=naive");
	return scenario_close() ? 1 : status;
}
