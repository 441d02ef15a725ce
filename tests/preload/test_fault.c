/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that faults: the program gets the driver's error from the call that sees it. One line
 * says whether the library's memory was out of the kernel's reach. Each scenario is a process of
 * its own, whose messages are read from a file.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "away.h"
#include "preload/api/api_launch.h"
#include "preload/api/api_wait.h"

struct cu_module;
struct cu_function;

int cuModuleLoadData(struct cu_module **module, const void *image);
int cuModuleGetFunction(struct cu_function **function, struct cu_module *module,
			const char *name);

static const struct sl_standin *standin;
static struct cu_function *function;

static void
touch_kernel(const struct sl_standin_block *block, void *const *params)
{
	uint64_t addr;

	memcpy(&addr, params[0], sizeof(addr));
	/* As it was kept in memory: nobody could see it. */
	*(char *)standin->ptr(block, ~addr, 1, SL_STANDIN_WRITE) = 1;
}

static const struct sl_standin_kernel kernel = {"fault_touch", touch_kernel, 1, {8}};

static void
start(void)
{
	struct cu_module *module;

	standin->kernel_register(&kernel);
	MUST(DRIVER(cuModuleLoadData)(&module, SL_STANDIN_IMAGE));
	MUST(DRIVER(cuModuleGetFunction)(&function, module, kernel.name));
}

/* All calls that see it say so. */
static void
touch(uint64_t addr)
{
	uint64_t hidden = ~addr;
	void *params[] = {&hidden};

	MUST(DRIVER(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CHECK(DRIVER(cuStreamSynchronize)(NULL) == CU_ERROR_ILLEGAL_ADDRESS);
	CHECK(DRIVER(cuCtxSynchronize)() == CU_ERROR_ILLEGAL_ADDRESS);
	CHECK(DRIVER(cuStreamQuery)(NULL) == CU_ERROR_ILLEGAL_ADDRESS);
	CHECK(DRIVER(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) ==
	      CU_ERROR_ILLEGAL_ADDRESS);
}

static void
wild_address(void)
{
	uint64_t addr;

	standin = copy_test_open("64M");
	start();
	addr = away_block(AWAY_MIB, 0);
	CHECK(DRIVER(cuStreamQuery)(NULL) == CU_SUCCESS);
	touch(addr - ((uint64_t)1 << 44));
}

static void
what_nobody_named(void)
{
	uint64_t addr;

	standin = away_open();
	start();
	addr = away_block(4 * AWAY_MIB, 0);
	away_go();
	CHECK(!away_is_mapped(addr, AWAY_MIB));
	touch(addr);
}

static void
refused_call(void)
{
	uint64_t addr;

	standin = copy_test_open("64M");
	addr = away_block(AWAY_MIB, 0);
	CHECK(DRIVER(cuMemcpyHtoD_v2)(addr - ((uint64_t)1 << 44), &addr, 8));
}

/* Its data cannot be brought: no kernel has run. */
static void
refused_launch(void)
{
	uint64_t addr, named;
	void *params[] = {&named};

	standin = away_open();
	start();
	addr = named = away_block(AWAY_MIB, 0);
	away_go();
	CHECK(!standin->fail_set("cuMemMap:1+:801"));
	CHECK(DRIVER(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) ==
	      CU_ERROR_UNKNOWN);
	CHECK(standin->fail_fired() > 0 && !standin->fail_set(NULL));
	away_expect(addr, AWAY_MIB, 0, "a launch that was refused");
}

/* Run it; in text what it wrote to its standard error. Its exit status. */
static int
messages(void (*run)(void), char *text, size_t text_bytes)
{
	char path[] = "/tmp/sluice-fault-XXXXXX";
	int fd = mkstemp(path), status;
	ssize_t n;
	pid_t child;

	CHECK(fd >= 0 && !unlink(path));
	fflush(stdout);
	child = fork();
	if (!child) {
		setenv("SLUICE_RUN", "quiet=1,arguments=trust,follow=never", 1);
		setenv("CUDA_STANDIN_QUIET", "1", 1);
		dup2(fd, STDERR_FILENO);
		run();
		exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	n = pread(fd, text, text_bytes - 1, 0);
	close(fd);
	CHECK(n >= 0);
	text[n] = '\0';
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static unsigned
times(const char *text, const char *what)
{
	unsigned n = 0;

	while ((text = strstr(text, what))) {
		n++;
		text += strlen(what);
	}
	return n;
}

int
main(void)
{
	static const struct {
		void (*run)(void);
		const char *says; /* NULL: no kernel has failed */
	} rows[] = {
		{wild_address, "the reason is in the program"},
		{what_nobody_named, "could not reach"},
		{refused_call, NULL},
		{refused_launch, NULL},
	};
	int failed = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[8192];
		int status = messages(rows[i].run, text, sizeof(text));
		unsigned said = times(text, "a kernel of the program has failed");

		if (status == 77)
			return 77;
		if (!status && said == (rows[i].says != NULL) &&
		    (!rows[i].says || times(text, rows[i].says) == 1))
			continue;
		printf("scenario %zu: status %d; it says:\n%s", i, status, text);
		failed = 1;
	}
	return failed;
}
