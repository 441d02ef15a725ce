/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that end badly or become another, while their memory is on the device, in host memory
 * and on disk. They are killed, crash, leave by exit() or abort() with queued work, fork, become
 * another program, or take the library out of their environment. Each is a process of its own.
 * It ends as it would without the library. Nothing is left in the directory for spill files or
 * in /dev/shm; only these outlive a process. A program that goes on has right data.
 *
 * Threads: one, and those of the library.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "away.h"
#include "spill.h"

#define BLOCKS      16
#define BLOCK_BYTES (4 * AWAY_MIB)
#define WORD(i)     (0x1234u + (unsigned)(i)*0x10001u)

int cuDevicePrimaryCtxRetain(struct cu_context **context, int device);
int cuCtxSetCurrent(struct cu_context *context);

static char spill[PATH_MAX];
static int ready[2]; /* a byte: the child has its memory in place */
static uint64_t blocks[BLOCKS];

/* ---- the children ---- */

/* Spill files that this process has open, all of them without a name; and bytes in them. */
static unsigned
spill_files(uint64_t *bytes)
{
	DIR *fds = opendir("/proc/self/fd");
	struct dirent *entry;
	unsigned n = 0;

	CHECK(fds);
	*bytes = 0;
	while ((entry = readdir(fds))) {
		char link[PATH_MAX + 16];
		struct stat st;
		ssize_t chars = readlinkat(dirfd(fds), entry->d_name, link, sizeof(link) - 1);

		if (chars <= 0)
			continue;
		link[chars] = '\0';
		if (strncmp(link, spill, strlen(spill)) != 0)
			continue;
		CHECK(strstr(link, "(deleted)") && !fstat(atoi(entry->d_name), &st));
		*bytes += (uint64_t)st.st_blocks * 512;
		n++;
	}
	closedir(fds);
	return n;
}

/* Blocks in all three places. */
static void
start(void)
{
	uint64_t bytes;

	(void)copy_test_open(AWAY_BUDGET);
	setenv("SLUICE_HOST_BUDGET", "16M", 1);
	setenv("SLUICE_SPILL_DIRS", spill, 1);
	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = away_block(BLOCK_BYTES, WORD(i));
	CHECK(spill_files(&bytes) > 0 && bytes > 0);
}

static void
blocks_check(void)
{
	static unsigned words[BLOCK_BYTES / 4];

	for (unsigned i = 0; i < BLOCKS; i++) {
		MUST(DRIVER(cuMemcpyDtoH_v2)(words, blocks[i], BLOCK_BYTES));
		for (size_t k = 0; k < BLOCK_BYTES / 4; k++)
			CHECK(words[k] == WORD(i));
	}
}

static void
is_ready(void)
{
	CHECK(write(ready[1], "r", 1) == 1);
}

static void
waits_to_be_killed(void)
{
	start();
	is_ready();
	for (;;)
		pause();
}

/* Killed between two calls of the driver, wherever that is. */
static void
works_until_it_is_killed(void)
{
	start();
	is_ready();
	for (unsigned i = 0;; i++)
		MUST(DRIVER(cuMemsetD32_v2)(blocks[i % BLOCKS], i, BLOCK_BYTES / 4));
}

static void
touches_what_is_not_there(void)
{
	volatile int *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
				     -1, 0);

	start();
	*nowhere = 1;
}

static void
aborts(void)
{
	start();
	abort();
}

static void
exits_with_work_in_the_queue(void)
{
	start();
	for (unsigned i = 0; i < BLOCKS; i++)
		MUST(DRIVER(cuMemsetD32Async)(blocks[i], i, BLOCK_BYTES / 4, NULL));
	exit(3);
}

static void
leaves_without_a_word(void)
{
	start();
	_exit(4);
}

static sigjmp_buf after_fault;
static void *volatile fault_address;

static void
on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	fault_address = info->si_addr;
	siglongjmp(after_fault, 1);
}

/* As programs do that have a collector or guard their stacks: the fault is theirs, with its address. */
static void
has_a_handler_of_its_own(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	char *volatile nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
				      -1, 0);

	CHECK(nowhere != MAP_FAILED && !sigaction(SIGSEGV, &action, NULL));
	start();
	for (volatile int i = 0; i < 3; i++) {
		fault_address = NULL;
		if (!sigsetjmp(after_fault, 1)) {
			nowhere[100 * i] = 1;
			CHECK(!"the write came through");
		}
		CHECK(fault_address == nowhere + 100 * i);
		blocks_check();
	}
	exit(5);
}

static void
frees_at_exit(void)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		if (DRIVER(cuMemFree_v2)(blocks[i]))
			_exit(1);
}

/* A child cannot use the GPU of its parent: it is told so, and ends as it likes; the parent goes on. */
static void
forks(void)
{
	uint64_t addr;
	int status;

	start();
	for (int way = 0; way < 5; way++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			if (way == 0)
				exit(10);
			if (way == 1)
				_exit(11);
			if (way == 3)
				exit(atexit(frees_at_exit) ? 1 : 13);
			if (way == 4) {
				execl("/bin/sh", "sh", "-c", "exit 14", (char *)NULL);
				_exit(126);
			}
			CHECK(DRIVER(cuMemAlloc_v2)(&addr, 4096));
			_exit(12);
		}
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 10 + way);
		blocks_check();
	}
	exit(6);
}

static void
becomes(const char *what)
{
	execl("/proc/self/exe", "test_ends", what, spill, (char *)NULL);
	_exit(126);
}

static void
becomes_another(void)
{
	start();
	becomes("again");
}

/* The library is not in the environment any more: the next program has the driver alone. */
static void
drops_the_library(void)
{
	start();
	unsetenv("LD_PRELOAD");
	becomes("alone");
}

/* It sets what it needs itself, and loses us. (A sanitizer's library, which is first, stays.) */
static void
sets_its_own(void)
{
	const char *all = getenv("LD_PRELOAD"), *last;
	char own[PATH_MAX];

	start();
	CHECK(all);
	last = strrchr(all, ':');
	snprintf(own, sizeof(own), "%.*slibm.so.6", last ? (int)(last - all) + 1 : 0, all);
	setenv("LD_PRELOAD", own, 1);
	becomes("alone");
}

/* ---- what they become ---- */

/* A program like any other, under the library again: nothing of the one before is left in it. */
static int
again(void)
{
	uint64_t bytes;

	CHECK(!spill_files(&bytes));
	start();
	blocks_check();
	return 7;
}

/* Without the library: what is allocated is the driver's. */
static int
alone(void)
{
	const char *library = getenv("SLUICE_STANDIN_LIBRARY");
	struct cu_context *context;
	uint64_t bytes, addr;

	CHECK(!dlsym(RTLD_DEFAULT, "cuInit") && !spill_files(&bytes));
	CHECK(library && dlopen(library, RTLD_NOW | RTLD_GLOBAL));
	MUST(DRIVER(cuInit)(0));
	MUST(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0));
	MUST(DRIVER(cuCtxSetCurrent)(context));
	for (unsigned i = 0; i < BLOCKS; i++) {
		MUST(DRIVER(cuMemAlloc_v2)(&addr, BLOCK_BYTES));
		MUST(DRIVER(cuMemFree_v2)(addr));
	}
	CHECK(!dlsym(RTLD_DEFAULT, "sluice_preload") && !spill_files(&bytes));
	return 8;
}

/* ---- the parent ---- */

/* Files whose names have this text in them. */
static unsigned
files_in(const char *path, const char *text)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	unsigned n = 0;

	if (!folder)
		return 0;
	while ((entry = readdir(folder)))
		n += entry->d_name[0] != '.' && strstr(entry->d_name, text);
	closedir(folder);
	return n;
}

struct row {
	const char *name;
	void (*run)(void);
	int killed; /* by us, when it is ready */
	int ends;   /* exit status, or 128 + signal */
};

static const struct row rows[] = {
	{"killed while it waits", waits_to_be_killed, 1, 128 + SIGKILL},
	{"killed at work", works_until_it_is_killed, 1, 128 + SIGKILL},
	{"a crash", touches_what_is_not_there, 0, 128 + SIGSEGV},
	{"abort()", aborts, 0, 128 + SIGABRT},
	{"exit() with work in the queue", exits_with_work_in_the_queue, 0, 3},
	{"_exit()", leaves_without_a_word, 0, 4},
	{"a handler of its own", has_a_handler_of_its_own, 0, 5},
	{"fork()", forks, 0, 6},
	{"exec()", becomes_another, 0, 7},
	{"exec() without the library", drops_the_library, 0, 8},
	{"exec() with an LD_PRELOAD of its own", sets_its_own, 0, 8},
};

/* 0, or 1 and what was wrong. */
static int
row_run(size_t number)
{
	const struct row *row = &rows[number];
	unsigned left, shared;
	int status, got;
	char byte, number_of[16];
	pid_t child;

	CHECK(!pipe(ready));
	fflush(stdout);
	child = fork();
	if (!child) {
		close(ready[0]);
		setenv("SLUICE_RUN", "quiet=1", 1);
		setenv("CUDA_STANDIN_QUIET", "1", 1);
		unsetenv("CUDA_STANDIN_STRICT"); /* nothing is given back, on purpose */
		row->run();
		_exit(125);
	}
	close(ready[1]);
	CHECK(child > 0);
	if (row->killed) {
		CHECK(read(ready[0], &byte, 1) == 1);
		CHECK(!kill(child, SIGKILL));
	}
	close(ready[0]);
	CHECK(waitpid(child, &status, 0) == child);
	got = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (got == 77)
		return 77;
	left = files_in(spill, "");
	/* By the number of the process: in /dev/shm other programs of ours come and go meanwhile. */
	snprintf(number_of, sizeof(number_of), "%d", (int)child);
	shared = files_in("/dev/shm", number_of);
	if (got == row->ends && !left && !shared)
		return 0;
	printf("%s: ended with %d, not %d; %u files in %s; %u files in /dev/shm\n",
	       row->name, got, row->ends, left, spill, shared);
	return 1;
}

int
main(int argc, char **argv)
{
	int rc;

	if (argc == 3) {
		snprintf(spill, sizeof(spill), "%s", argv[2]);
		return strcmp(argv[1], "again") ? alone() : again();
	}
	rc = spill_folder_make(spill, sizeof(spill), "sluice-ends");
	return rc ? rc : spill_rows_run(spill, row_run, sizeof(rows) / sizeof(rows[0]));
}
