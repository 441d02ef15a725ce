/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The preload library's count of unmanaged memory, on driver calls of a few lines. Memory that
 * was allocated outside the library is counted once, for as long as it exists.
 */
#include "preload/calls/foreign.h"

#include <string.h>

#include "preload/api/api_foreign.h"
#include "preload/api/api_stream.h"
#include "preload/report/counters.h"
#include "unit/cmocka_all.h"

/* Not in the library that unit tests are linked with. NOLINTBEGIN(bugprone-suspicious-include) */
#include "preload/calls/code.c"
#include "preload/calls/foreign.c"
#include "preload/calls/ranges.c"
/* NOLINTEND(bugprone-suspicious-include) */

#define MIB ((uint64_t)1 << 20)

void *pl_real[SL_API_COUNT];
_Atomic int pl_phase = PL_AWAKE;
_Thread_local int pl_depth __attribute__((tls_model("initial-exec")));
_Atomic uint64_t pl_counters[PL_COUNT_COUNT];

static struct pl_gpu gpu;
static int64_t taken, elsewhere; /* on the GPU that has a space; on another */
static uint64_t device_free;     /* what fake_create() has */
static unsigned rooms, forgotten;
static uint64_t last_handle = 0x1000;

struct pl_gpu *
pl_gpu_of_device(int device)
{
	return device ? NULL : &gpu;
}

void
pl_gpu_foreign(struct pl_gpu *g, int64_t bytes)
{
	if (g)
		taken += bytes;
	else
		elsewhere += bytes;
}

bool
pl_room_made(int result, int *tries, uint64_t bytes)
{
	if (result != CU_ERROR_OUT_OF_MEMORY || ++*tries > 2)
		return 0;
	rooms++;
	device_free += bytes; /* a space that makes way */
	return 1;
}

void
pl_launch_forget(void)
{
	forgotten++;
}

/* ---- the driver ---- */

static int
fake_create(uint64_t *handle, size_t bytes, const struct cu_allocation *what,
	    unsigned long long flags)
{
	(void)what;
	(void)flags;
	if (bytes > device_free)
		return CU_ERROR_OUT_OF_MEMORY;
	device_free -= bytes;
	*handle = last_handle += 16;
	return CU_SUCCESS;
}

static int
fake_ok(void)
{
	return CU_SUCCESS;
}

static int
fake_fail(void)
{
	return CU_ERROR_INVALID_VALUE;
}

static int
fake_array(struct cu_array **array, const void *what)
{
	(void)what;
	*array = (struct cu_array *)(last_handle += 16);
	return CU_SUCCESS;
}

static int
fake_device(int *device)
{
	*device = 0;
	return CU_SUCCESS;
}

static int
setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < SL_API_COUNT; i++)
		pl_real[i] = (void *)fake_ok;
	pl_real[SL_API_cuMemCreate] = (void *)fake_create;
	pl_real[SL_API_cuArrayCreate_v2] = (void *)fake_array;
	pl_real[SL_API_cuArray3DCreate_v2] = (void *)fake_array;
	pl_real[SL_API_cuCtxGetDevice] = (void *)fake_device;
	taken = elsewhere = 0;
	device_free = 1024 * MIB;
	rooms = forgotten = 0;
	return 0;
}

static const struct cu_allocation on_device = {
	.type = CU_ALLOCATION_PINNED,
	.location = {.type = CU_LOCATION_DEVICE},
};

/* ---- physical memory ---- */

static void
physical_memory_counts_until_its_last_handle_is_released(void **state)
{
	uint64_t handle;

	(void)state;
	assert_int_equal(pl_foreign_create(&handle, 8 * MIB, &on_device, 0), 0);
	assert_int_equal(taken, 8 * MIB);
	pl_foreign_retained(handle);
	assert_int_equal(pl_foreign_release(handle), 0);
	assert_int_equal(taken, 8 * MIB);
	assert_int_equal(pl_foreign_release(handle), 0);
	assert_int_equal(taken, 0);
}

static void
physical_memory_counts_as_long_as_it_is_mapped(void **state)
{
	uint64_t handle;

	(void)state;
	assert_int_equal(pl_foreign_create(&handle, 8 * MIB, &on_device, 0), 0);
	assert_int_equal(pl_foreign_map(0x10000000, 4 * MIB, 0, handle, 0), 0);
	assert_int_equal(pl_foreign_map(0x20000000, 4 * MIB, 4 * MIB, handle, 0), 0);
	assert_int_equal(pl_foreign_release(handle), 0);
	assert_int_equal(taken, 8 * MIB);
	assert_int_equal(pl_foreign_unmap(0x10000000, 4 * MIB), 0);
	assert_int_equal(taken, 8 * MIB);
	assert_int_equal(pl_foreign_unmap(0x20000000, 4 * MIB), 0);
	assert_int_equal(taken, 0);
}

static void
one_unmapping_ends_all_mappings_in_its_range(void **state)
{
	uint64_t handle[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(pl_foreign_create(&handle[i], 2 * MIB, &on_device, 0), 0);
		assert_int_equal(pl_foreign_map(0x10000000 + i * 2 * MIB, 2 * MIB, 0,
						handle[i], 0),
				 0);
		assert_int_equal(pl_foreign_release(handle[i]), 0);
	}
	assert_int_equal(taken, 8 * MIB);
	assert_int_equal(pl_foreign_unmap(0x10000000, 6 * MIB), 0);
	assert_int_equal(taken, 2 * MIB);
	assert_int_equal(pl_foreign_unmap(0x10000000 + 6 * MIB, 2 * MIB), 0);
	assert_int_equal(taken, 0);
}

static void
what_fails_changes_nothing(void **state)
{
	uint64_t handle;

	(void)state;
	assert_int_equal(pl_foreign_create(&handle, 8 * MIB, &on_device, 0), 0);
	pl_real[SL_API_cuMemRelease] = pl_real[SL_API_cuMemMap] = (void *)fake_fail;
	assert_int_equal(pl_foreign_release(handle), CU_ERROR_INVALID_VALUE);
	assert_int_equal(pl_foreign_map(0x10000000, 8 * MIB, 0, handle, 0),
			 CU_ERROR_INVALID_VALUE);
	assert_int_equal(taken, 8 * MIB);
	pl_real[SL_API_cuMemRelease] = (void *)fake_ok;
	assert_int_equal(pl_foreign_release(handle), 0);
	assert_int_equal(taken, 0);
}

static void
memory_elsewhere_does_not_count(void **state)
{
	struct cu_allocation what = {.location = {.type = CU_LOCATION_HOST_NUMA}};
	uint64_t handle;

	(void)state;
	assert_int_equal(pl_foreign_create(&handle, MIB, &what, 0), 0);
	assert_int_equal(pl_foreign_release(handle), 0);
	assert_int_equal(elsewhere, 0);
	what.location = (struct cu_location){CU_LOCATION_DEVICE, 1}; /* a GPU without a space */
	assert_int_equal(pl_foreign_create(&handle, MIB, &what, 0), 0);
	assert_int_equal(pl_foreign_release(handle), 0);
	assert_int_equal(taken, 0);
	assert_int_equal(elsewhere, MIB);
}

static void
full_device_makes_room_once_for_what_is_asked(void **state)
{
	uint64_t handle;

	(void)state;
	device_free = 0;
	assert_int_equal(pl_foreign_create(&handle, 8 * MIB, &on_device, 0), 0);
	assert_int_equal(taken, 8 * MIB);
	assert_int_equal(rooms, 1);
	assert_int_equal(pl_foreign_release(handle), 0);
	assert_int_equal(taken, 0);
}

/* ---- arrays ---- */

static void
arrays_count_by_their_description(void **state)
{
	const struct cu_array_description flat = {1024, 512, 0x20, 4};
	const struct cu_array_description_3d deep = {64, 64, 16, 0x10, 2, 0};
	struct cu_array *a, *b;

	(void)state;
	assert_int_equal(cuArrayCreate_v2(&a, &flat), 0);
	assert_int_equal(taken, 1024 * 512 * 4 * 4);
	assert_int_equal(cuArray3DCreate_v2(&b, &deep), 0);
	assert_int_equal(taken, 1024 * 512 * 4 * 4 + 64 * 64 * 16 * 2 * 2);
	assert_int_equal(cuArrayDestroy(a), 0);
	assert_int_equal(cuArrayDestroy(b), 0);
	assert_int_equal(taken, 0);
}

/* ---- code ---- */

static void
functions_are_forgotten_when_their_code_is_unloaded(void **state)
{
	(void)state;
	assert_int_equal(cuModuleUnload((struct cu_module *)0x40), 0);
	assert_int_equal(forgotten, 1);
}

static void
asleep_nothing_is_noted(void **state)
{
	uint64_t handle;

	(void)state;
	atomic_store(&pl_phase, PL_DEAD);
	assert_int_equal(pl_foreign_create(&handle, 8 * MIB, &on_device, 0), 0);
	assert_int_equal(cuModuleUnload(NULL), 0);
	atomic_store(&pl_phase, PL_AWAKE);
	assert_int_equal(taken, 0);
	assert_int_equal(forgotten, 0);
	assert_int_equal(pl_foreign_release(handle), 0);
	assert_int_equal(taken, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(physical_memory_counts_until_its_last_handle_is_released,
				       setup),
		cmocka_unit_test_setup(physical_memory_counts_as_long_as_it_is_mapped, setup),
		cmocka_unit_test_setup(one_unmapping_ends_all_mappings_in_its_range, setup),
		cmocka_unit_test_setup(what_fails_changes_nothing, setup),
		cmocka_unit_test_setup(memory_elsewhere_does_not_count, setup),
		cmocka_unit_test_setup(full_device_makes_room_once_for_what_is_asked, setup),
		cmocka_unit_test_setup(arrays_count_by_their_description, setup),
		cmocka_unit_test_setup(functions_are_forgotten_when_their_code_is_unloaded,
				       setup),
		cmocka_unit_test_setup(asleep_nothing_is_noted, setup),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	free(handles.at);
	free(sizes.at);
	free(mappings.at);
	free(arrays.at);
	return rc;
}
