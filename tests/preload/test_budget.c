/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The defaults of a space: budgets of memory and disk, which processes of one program share, and
 * addresses, of which there may be too few. Each case is a process of its own; its statistics
 * have the result.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy_test.h"

int cuDevicePrimaryCtxRetain(struct cu_context **context, int device);
int cuCtxSetCurrent(struct cu_context *context);

static char path[] = "/tmp/sluice-budget-XXXXXX";

/* A program that allocates once, in this environment: pairs, then NULL. 77: nothing to test with. */
static int
program(const char *const *environment)
{
	char settings[64];
	int status;
	pid_t child;

	snprintf(settings, sizeof(settings), "quiet=1,stats=%s.%s", path, "%p");
	fflush(stdout);
	child = fork();
	if (!child) {
		struct cu_context *context;
		uint64_t addr;

		setenv("SLUICE_RUN", settings, 1);
		setenv("CUDA_STANDIN_QUIET", "1", 1);
		unsetenv("SLUICE_HOST_BUDGET");
		unsetenv("SLUICE_STORE_BUDGET");
		unsetenv("SLUICE_ADDRESS");
		setenv("SLUICE_DEVICE_BUDGET", "64M", 1);
		for (; *environment; environment += 2)
			setenv(environment[0], environment[1], 1);
		MUST(DRIVER(cuInit)(0));
		MUST(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0));
		MUST(DRIVER(cuCtxSetCurrent)(context));
		MUST(DRIVER(cuMemAlloc_v2)(&addr, 4096));
		MUST(DRIVER(cuMemFree_v2)(addr));
		exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	return child;
}

/* The budget of a tier in the statistics of that process; 0: no space. UINT64_MAX: no bound. */
static uint64_t
budget_of(int process, const char *tier)
{
	static char text[1 << 16];
	char name[64], key[48];
	const char *at;
	FILE *f;

	snprintf(name, sizeof(name), "%s.%d", path, process);
	f = fopen(name, "r");
	CHECK(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	(void)fclose(f);
	(void)unlink(name);
	snprintf(key, sizeof(key), "\"%s\": {\"budget_bytes\": ", tier);
	at = strstr(text, key);
	if (!at)
		return 0;
	at += strlen(key);
	return !strncmp(at, "null", 4) ? UINT64_MAX : strtoull(at, NULL, 10);
}

static void
processes_of_one_program_share_memory_and_disk(void)
{
	const char *const alone[] = {NULL}, *const four[] = {"LOCAL_WORLD_SIZE", "4", NULL};
	const char *const nonsense[] = {"LOCAL_WORLD_SIZE", "4 or 5", NULL};
	const char *const said[] = {"LOCAL_WORLD_SIZE", "4", "SLUICE_HOST_BUDGET", "64M",
				    NULL};
	uint64_t all = budget_of(program(alone), "host");
	uint64_t part = budget_of(program(four), "host");

	/* What is available may change between. */
	if (part < all / 5 || part > all / 3) {
		printf("one has %" PRIu64 " bytes, one of four %" PRIu64 "\n", all, part);
		exit(1);
	}
	CHECK(budget_of(program(alone), "store") == UINT64_MAX);
	part = budget_of(program(four), "store");
	CHECK(part && part != UINT64_MAX);
	CHECK(budget_of(program(nonsense), "store") == UINT64_MAX);
	CHECK(budget_of(program(said), "host") == (uint64_t)64 << 20);
}

static void
fewer_addresses_will_do(void)
{
	/* Each size is asked for at a place, and then at any. */
	const char *const twice[] = {"CUDA_STANDIN_FAIL",
				     "cuMemAddressReserve:1:2,cuMemAddressReserve:2:2,"
				     "cuMemAddressReserve:3:2,cuMemAddressReserve:4:2",
				     NULL};
	const char *const never[] = {"CUDA_STANDIN_FAIL", "cuMemAddressReserve:1+:2", NULL};
	const char *const fixed[] = {"CUDA_STANDIN_FAIL",
				     "cuMemAddressReserve:1:2,cuMemAddressReserve:2:2",
				     "SLUICE_ADDRESS", "512G", NULL};
	const char *const anywhere[] = {"CUDA_STANDIN_FAIL", "cuMemAddressReserve:1:2",
					"SLUICE_ADDRESS", "512G", NULL};

	CHECK(budget_of(program(twice), "device") == (uint64_t)64 << 20);
	CHECK(!budget_of(program(never), "device")); /* the driver served it */
	CHECK(!budget_of(program(fixed), "device"));
	CHECK(budget_of(program(anywhere), "device") == (uint64_t)64 << 20);
}

int
main(void)
{
	int fd;

	if (!getenv("SLUICE_STANDIN_LIBRARY") || !getenv("LD_PRELOAD")) {
		printf("SKIP: not started with the preload library and the stand-in "
		       "driver\n");
		return 77;
	}
	fd = mkstemp(path);
	CHECK(fd >= 0);
	close(fd);
	processes_of_one_program_share_memory_and_disk();
	fewer_addresses_will_do();
	(void)unlink(path);
	return 0;
}
