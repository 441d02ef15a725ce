/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the CUDA driver. Every failure names the missing thing in one line. Each symbol of the
 * table is there. Results become the right errnos and names. It runs over the stand-in driver;
 * the build gives its path in SLUICE_STANDIN_LIBRARY.
 *
 * A driver can be opened once in a process, so each test is a process of its own. A plain
 * program: 0 pass, 1 fail, 77 without a stand-in.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_driver/standin.h"
#include "device/cuda/cuda_driver.h"

#define OPENERS 8

static int failures;
static const char *test_name, *standin_path;

#define CHECK(condition)                                                            \
	do {                                                                        \
		if (!(condition)) {                                                 \
			failures++;                                                 \
			printf("FAIL %s line %d: %s (last error: %s)\n", test_name, \
			       __LINE__, #condition, sluice_last_error());          \
		}                                                                   \
	} while (0)

#define CHECK_TEXT(part)                                                        \
	do {                                                                    \
		if (!strstr(sluice_last_error(), (part))) {                     \
			failures++;                                             \
			printf("FAIL %s line %d: no '%s' in '%s'\n", test_name, \
			       __LINE__, (part), sluice_last_error());          \
		}                                                               \
	} while (0)

static const struct sl_cuda_driver *
opened(void)
{
	const struct sl_cuda_driver *driver = NULL;

	CHECK(sl_cuda_driver_open(&driver) == 0);
	if (!driver)
		exit(1);
	return driver;
}

/* It fails with -ENOTSUP, a single line that contains part and offers the software device, and
 * leaves *out alone. */
static void
refused(const char *part)
{
	const struct sl_cuda_driver *mark = (const struct sl_cuda_driver *)&failures;
	const struct sl_cuda_driver *driver = mark;

	CHECK(sl_cuda_driver_open(&driver) == -ENOTSUP);
	CHECK(driver == mark);
	CHECK_TEXT(part);
	CHECK_TEXT("CUDA: ");
	CHECK_TEXT("software device");
	CHECK(!strchr(sluice_last_error(), '\n'));
}

static void
no_library_is_said(void)
{
	setenv("SLUICE_CUDA_LIBRARY", "/nonexistent/libcuda.so.1", 1);
	refused("/nonexistent/libcuda.so.1");
	CHECK_TEXT("no GPU driver");
}

static void
a_library_that_is_no_driver_is_said(void)
{
	setenv("SLUICE_CUDA_LIBRARY", "libc.so.6", 1);
	refused("libc.so.6 has no cuInit");
}

static void
an_overlong_path_is_refused(void)
{
	char *path = malloc(PATH_MAX + 10);

	memset(path, 'a', PATH_MAX + 9);
	path[PATH_MAX + 9] = '\0';
	setenv("SLUICE_CUDA_LIBRARY", path, 1);
	CHECK(sl_cuda_driver_open(&(const struct sl_cuda_driver *){NULL}) == -ENOTSUP);
	CHECK_TEXT("too long");
	free(path);
}

static void
an_old_driver_is_said(void)
{
	setenv("CUDA_STANDIN_VERSION", "12010", 1);
	refused("a driver for CUDA 12.1, too old: 12.2");
}

static void
the_oldest_driver_does(void)
{
	struct sl_cuda_device_info info;

	setenv("CUDA_STANDIN_VERSION", "12020", 1);
	CHECK(opened()->version == 12020);
	/* It does not know the attribute that says so. */
	CHECK(sl_cuda_device_probe(opened(), 0, &info) == 0);
	CHECK(info.host_vmm == 1 && info.host_granularity_bytes == 2u << 20);
}

static void
no_device_is_said(void)
{
	setenv("CUDA_STANDIN_DEVICES", "0", 1);
	refused("finds no device (cuInit: CUDA_ERROR_NO_DEVICE (100))");
}

static void
a_driver_that_does_not_start_is_said(void)
{
	setenv("CUDA_STANDIN_INIT", "803", 1);
	refused("cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)");
}

static void
missing_virtual_memory_management_is_said(void)
{
	struct sl_cuda_device_info info = {.device = 77};

	setenv("CUDA_STANDIN_NO_VMM", "1", 1);
	CHECK(sl_cuda_device_probe(opened(), 0, &info) == -ENOTSUP);
	CHECK_TEXT("virtual memory management");
	CHECK_TEXT("Stand-in GPU 0");
	CHECK(info.device == 77);
}

static void
missing_host_located_memory_is_a_fact(void)
{
	struct sl_cuda_device_info info;

	setenv("CUDA_STANDIN_NO_HOST_VMM", "1", 1);
	CHECK(sl_cuda_device_probe(opened(), 0, &info) == 0);
	CHECK(info.host_vmm == 0 && info.host_granularity_bytes == 0);
	CHECK(info.granularity_bytes == 2u << 20);
}

static void
a_failure_is_not_remembered(void)
{
	setenv("SLUICE_CUDA_LIBRARY", "/nonexistent", 1);
	refused("/nonexistent");
	setenv("SLUICE_CUDA_LIBRARY", standin_path, 1);
	CHECK(opened()->n_devices == 1);
}

static void
devices_are_described(void)
{
	const struct sl_cuda_driver *driver;
	struct sl_cuda_device_info info, other;

	setenv("CUDA_STANDIN_DEVICES", "2", 1);
	setenv("CUDA_STANDIN_DEVICE_BYTES", "64M", 1);
	driver = opened();
	CHECK(driver->n_devices == 2 && driver->version == 13000);
	CHECK(!strcmp(driver->path, standin_path));
	CHECK(sl_cuda_device_probe(driver, 0, &info) == 0);
	CHECK(sl_cuda_device_probe(driver, 1, &other) == 0);
	CHECK(info.memory_bytes == 64u << 20 && info.capability == 90);
	CHECK(info.n_copy_engines == 3 && info.n_multiprocessors == 4);
	CHECK(!strcmp(info.uuid, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae00"));
	CHECK(other.device == 1 &&
	      !strcmp(other.uuid, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae01"));
	CHECK(!info.is_mig && !other.is_mig);
	CHECK(strcmp(info.name, other.name) != 0);
	CHECK(sl_cuda_device_probe(driver, 2, &info) == -EINVAL);
	CHECK(sl_cuda_device_probe(driver, -1, &info) == -EINVAL);
}

static void
a_part_of_a_gpu_has_an_identity_of_its_own(void)
{
	struct sl_cuda_device_info info;

	setenv("CUDA_STANDIN_MIG", "1g.10gb", 1);
	CHECK(sl_cuda_device_probe(opened(), 0, &info) == 0);
	CHECK(info.is_mig && !strcmp(info.name, "Stand-in GPU 0 MIG 1g.10gb"));
	CHECK(!strcmp(info.uuid, "MIG-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae00"));
}

static void *
opener(void *out)
{
	const struct sl_cuda_driver *driver = NULL;

	if (!sl_cuda_driver_open(&driver))
		*(const struct sl_cuda_driver **)out = driver;
	return NULL;
}

static void
threads_that_open_at_once_get_the_same_driver(void)
{
	const struct sl_cuda_driver *got[OPENERS] = {NULL};
	pthread_t threads[OPENERS];

	for (int i = 0; i < OPENERS; i++)
		if (pthread_create(&threads[i], NULL, opener, &got[i]))
			exit(1);
	for (int i = 0; i < OPENERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < OPENERS; i++)
		CHECK(got[i] && got[i] == got[0]);
	CHECK(sl_standin_open(standin_path)->calls("cuInit") == 1);
}

static void
every_symbol_of_the_table_is_there(void)
{
	void *library = dlopen(standin_path, RTLD_NOW | RTLD_LOCAL);
	const struct sl_cuda_driver *driver = opened();
	int n = 0;

	CHECK(library != NULL);
#define CUDA_SYMBOL(name, exported, need, ...)                             \
	CHECK(dlsym(library, #exported) != NULL);                          \
	CHECK(*(void *const *)&driver->name == dlsym(library, #exported)); \
	n++;
#include "device/cuda/cuda_symbols.def"
#undef CUDA_SYMBOL
	CHECK(n > 60);
}

static void
results_have_the_drivers_names(void)
{
	const struct sl_cuda_driver *driver = opened();
	const char *name = NULL;

#define RESULT_SAME(result, code, errno_value, lost)              \
	CHECK(driver->cuGetErrorName(code, &name) == CU_SUCCESS); \
	CHECK(!strcmp(name, sl_cuda_result_name(code)));          \
	CHECK(sl_cuda_errno_quiet(code) == -(errno_value));       \
	CHECK(sl_cuda_result_is_lost(code) == (lost));
	CU_RESULTS(RESULT_SAME)
#undef RESULT_SAME
	CHECK(!strcmp(sl_cuda_result_name(0), "CUDA_SUCCESS"));
	CHECK(!strcmp(sl_cuda_result_name(12345), "CUDA_ERROR_?"));
	CHECK(sl_cuda_errno_quiet(12345) == -EIO && !sl_cuda_result_is_lost(12345));
	CHECK(sl_cuda_errno_quiet(0) == 0 && sl_cuda_errno(0, "cuInit") == 0);
	CHECK(sl_cuda_errno(CU_ERROR_OUT_OF_MEMORY, "cuMemCreate") == -ENOMEM);
}

static void
a_failed_call_keeps_its_code_and_name(void)
{
	const struct sl_cuda_driver *driver = opened();
	size_t n;
	int rc = SL_CUDA(driver, cuMemGetInfo, &n, &n);

	CHECK(rc == -EINVAL);
	CHECK(!strcmp(sluice_last_error(),
		      "cuMemGetInfo: CUDA_ERROR_INVALID_CONTEXT (201)"));
	CHECK(sl_fail_in(sl_cuda_errno(700, "cuMemcpyDtoHAsync"), "evict: chunk %d",
			 4711) == -EFAULT);
	CHECK(!strcmp(sluice_last_error(), "evict: chunk 4711: cuMemcpyDtoHAsync: "
					   "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
}

static void
every_failing_call_of_a_probe_is_reported(void)
{
	const struct sl_standin *standin = sl_standin_open(standin_path);
	const struct sl_cuda_driver *driver = opened();
	struct sl_cuda_device_info info;
	char spec[32];
	int n, rc, failed = 0;

	for (n = 1; n < 50; n++) {
		snprintf(spec, sizeof(spec), "*:%d:999", n);
		CHECK(standin->fail_set(spec) == 0);
		rc = sl_cuda_device_probe(driver, 0, &info);
		if (!standin->fail_fired())
			break;
		if (rc) {
			CHECK(rc == -EIO);
			CHECK_TEXT("CUDA device 0: cu");
			CHECK_TEXT("CUDA_ERROR_UNKNOWN (999)");
			failed++;
		}
	}
	/* What is known of host-located memory may fail: then there is none of it. */
	CHECK(n > 10 && n < 50 && failed >= n - 4);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
#define TEST(name)          \
	{                   \
#name, name \
	}
	TEST(no_library_is_said),
	TEST(a_library_that_is_no_driver_is_said),
	TEST(an_overlong_path_is_refused),
	TEST(an_old_driver_is_said),
	TEST(the_oldest_driver_does),
	TEST(no_device_is_said),
	TEST(a_driver_that_does_not_start_is_said),
	TEST(missing_virtual_memory_management_is_said),
	TEST(missing_host_located_memory_is_a_fact),
	TEST(a_failure_is_not_remembered),
	TEST(devices_are_described),
	TEST(a_part_of_a_gpu_has_an_identity_of_its_own),
	TEST(threads_that_open_at_once_get_the_same_driver),
	TEST(every_symbol_of_the_table_is_there),
	TEST(results_have_the_drivers_names),
	TEST(a_failed_call_keeps_its_code_and_name),
	TEST(every_failing_call_of_a_probe_is_reported),
#undef TEST
};

int
main(void)
{
	int bad = 0, status;
	pid_t child;

	standin_path = getenv("SLUICE_STANDIN_LIBRARY");
	if (!standin_path || !*standin_path) {
		printf("SKIP SLUICE_STANDIN_LIBRARY is not set\n");
		return 77;
	}
	setenv("SLUICE_CUDA_LIBRARY", standin_path, 1);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		fflush(stdout);
		child = fork();
		if (child < 0) {
			perror("fork");
			return 1;
		}
		if (!child) {
			test_name = tests[i].name;
			tests[i].run();
			exit(failures != 0);
		}
		if (waitpid(child, &status, 0) < 0 || status) {
			printf("FAIL %s: status %#x\n", tests[i].name, (unsigned)status);
			bad++;
		}
	}
	return bad != 0;
}
