/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runner and the helpers of the failure tests; see fault.h. The runner itself has no threads:
 * it forks for every case, waits for it at most a minute, and removes its directory.
 */
#include "fault.h"

#include <ftw.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SKIPPED   77
#define LOG_FILE  "log"
#define LOG_LINES 100u

static char case_dir[256]; /* absolute; "" in the runner */

/* ---- the end of a case ------------------------------------------------------------------ */

void
fault_failed(const char *file, int line, const char *fmt, ...)
{
	const char *name = strrchr(file, '/');
	va_list ap;

	printf("  %s:%d: ", name ? name + 1 : file, line);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	_exit(1); /* threads of a space may be anywhere: no destructors */
}

void
fault_skip(const char *fmt, ...)
{
	va_list ap;

	printf("  skipped: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	_exit(SKIPPED);
}

static const char *
word_missing(const char *text, va_list ap)
{
	const char *word;

	while ((word = va_arg(ap, const char *)))
		if (!strstr(text, word))
			return word;
	return NULL;
}

void
fault_check_fails(const char *file, int line, const char *what, int rc, int code, ...)
{
	const char *text = sluice_last_error();
	const char *missing;
	va_list ap;

	if (rc != code)
		fault_failed(file, line, "%s: returned %d (%s), expected %d (%s); text: %s",
			     what, rc, sl_errno_name(rc), code, sl_errno_name(code), text);
	va_start(ap, code);
	missing = word_missing(text, ap);
	va_end(ap);
	if (missing)
		fault_failed(file, line, "%s: \"%s\" is not in the text: %s", what,
			     missing, text);
}

void
fault_check_logged(const char *file, int line, ...)
{
	char path[sizeof(case_dir) + sizeof(LOG_FILE) + 1];
	char text[16384];
	const char *missing;
	ssize_t n = 0;
	va_list ap;
	int fd;

	snprintf(path, sizeof(path), "%s/" LOG_FILE, case_dir);
	fd = open(path, O_RDONLY);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	va_start(ap, line);
	missing = word_missing(text, ap);
	va_end(ap);
	if (missing)
		fault_failed(file, line, "\"%s\" is not in the log:\n%s", missing, text);
}

/* ---- the runner ------------------------------------------------------------------------- */

static int
entry_remove(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	return remove(path) && errno != EBUSY ? -1 : 0;
}

/* The end of the log. */
static void
log_print(void)
{
	char path[sizeof(case_dir) + sizeof(LOG_FILE) + 1];
	char line[1024];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/" LOG_FILE, case_dir);
	f = fopen(path, "r");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f))
		n++;
	rewind(f);
	while (fgets(line, sizeof(line), f))
		if (n-- <= LOG_LINES)
			printf("  | %s", line);
	fclose(f);
}

static __thread sigjmp_buf *volatile caught; /* volatile: read by the handler */

/* A refused access: back to who expects it, else the end that it means. */
static void
on_fault(int sig, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	if (caught)
		siglongjmp(*caught, sig);
	signal(sig, SIG_DFL); /* the access is tried again, and ends the process */
}

static void
case_run(const struct fault_case *test)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a runner that is killed leaves no case running */
	if (chdir(case_dir))
		fault_failed(__FILE__, __LINE__, "chdir %s: %s", case_dir, strerror(errno));
	fd = open(LOG_FILE, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
		fault_failed(__FILE__, __LINE__, "log: %s", strerror(errno));
	close(fd);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	alarm(CASE_SECONDS);
	test->run();
	exit(0); /* with leak detection, where it is on */
}

/* Exit status of the case, or 1 with the reason printed. */
static int
case_fork(const struct fault_case *test)
{
	const char *tmp = getenv("TMPDIR");
	int status;
	pid_t pid;

	snprintf(case_dir, sizeof(case_dir), "%s/sluice-fault-XXXXXX",
		 tmp && *tmp && strlen(tmp) < sizeof(case_dir) - 32 ? tmp : "/var/tmp");
	if (!mkdtemp(case_dir)) {
		printf("  mkdtemp %s: %s\n", case_dir, strerror(errno));
		return 1;
	}
	fflush(NULL);
	pid = fork();
	if (!pid)
		case_run(test);
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		printf("  fork: %s\n", strerror(errno));
		status = 1 << 8;
	} else if (WIFSIGNALED(status)) {
		printf("  ended by signal %d (%s)\n", WTERMSIG(status),
		       WTERMSIG(status) == SIGALRM ? "it hangs"
						   : strsignal(WTERMSIG(status)));
		status = 1 << 8;
	}
	if (WEXITSTATUS(status) && WEXITSTATUS(status) != SKIPPED)
		log_print();
	nftw(case_dir, entry_remove, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return WEXITSTATUS(status);
}

int
fault_main(int argc, char **argv, const struct fault_case *cases, size_t n)
{
	unsigned passed = 0, failed = 0, skipped = 0;

	setenv("SLUICE_FAULT", "", 1); /* stores are wrapped, nothing is armed */
	for (size_t i = 0; i < n; i++) {
		int status;

		if (argc > 1 && strcmp(argv[1], cases[i].name))
			continue;
		printf("%s\n", cases[i].name);
		status = case_fork(&cases[i]);
		if (!status)
			passed++;
		else if (status == SKIPPED)
			skipped++;
		else
			failed++;
		if (status && status != SKIPPED)
			printf("FAILED: %s\n", cases[i].name);
	}
	printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
	if (failed || (!passed && !skipped))
		return 1;
	return passed ? 0 : SKIPPED;
}

/* ---- spaces ----------------------------------------------------------------------------- */

void
fault_config(struct sluice_config *config, const char *more)
{
	CHECK_OK(sluice_config_init(config));
	CHECK_OK(sluice_config_parse(
		config, "device=soft,device_budget=8M,host_budget=8M,staging=16M,"
			"workers=2,address=1G,readahead_chunks=2,spill_dirs=."));
	if (more)
		CHECK_OK(sluice_config_parse(config, more));
}

struct sluice_space *
fault_space(const char *more)
{
	struct sluice_config config;
	struct sluice_space *space;
	int rc;

	fault_config(&config, more);
	rc = sluice_space_create(&config, &space);
	if (rc == -EPERM || rc == -ENOTSUP)
		fault_skip("no space on this machine: %s", sluice_last_error());
	CHECK_OK(rc);
	return space;
}

uint64_t
fault_counter(struct sluice_space *space, enum sluice_counter counter)
{
	struct sluice_stats stats;

	sluice_stats_get(space, &stats);
	return stats.counter[counter];
}

void
fault_kernel_add(const struct sluice_block *block, void *args)
{
	const struct fault_range *range = args;
	size_t end = (block->index.x + 1) * MIB < range->bytes ? (block->index.x + 1) * MIB
							       : range->bytes;

	for (size_t at = block->index.x * MIB; at < end; at += PAGE)
		++*(uint64_t *)(void *)(range->data + at);
}

struct sluice_grid
fault_grid(size_t bytes)
{
	return (struct sluice_grid){(uint32_t)((bytes + MIB - 1) / MIB), 1, 1};
}

void
fault_usable(struct sluice_space *space)
{
	struct fault_range range = {NULL, 13 * CHUNK}; /* more than device and host together */
	struct sluice_use use;
	void *addr;

	CHECK_OK(sluice_space_check(space));
	CHECK_OK(sluice_alloc(space, range.bytes, 0, &addr));
	range.data = addr;
	for (size_t at = 0; at < range.bytes; at += PAGE)
		CHECK(fault_write(range.data + at, fault_word(99, at)) == 0);
	CHECK_OK(sluice_launch(space, NULL, fault_kernel_add, fault_grid(range.bytes),
			       &range, sizeof(range), NULL, 0));
	CHECK_OK(sluice_stream_synchronize(space, NULL));
	use = (struct sluice_use){addr, 2 * CHUNK, SLUICE_USE_READ_WRITE};
	range.bytes = 2 * CHUNK;
	CHECK_OK(sluice_launch(space, NULL, fault_kernel_add, fault_grid(range.bytes),
			       &range, sizeof(range), &use, 1));
	CHECK_OK(sluice_stream_synchronize(space, NULL));
	for (size_t at = 0; at < 13 * CHUNK; at += PAGE) {
		uint64_t value;

		CHECK(fault_read(range.data + at, &value) == 0);
		CHECK(value == fault_word(99, at) + (at < range.bytes ? 2 : 1));
	}
	CHECK_OK(sluice_space_check(space));
	CHECK_OK(sluice_unmap(space, addr));
	CHECK_OK(sluice_space_check(space));
}

void
fault_space_end(struct sluice_space *space)
{
	fault_usable(space);
	CHECK_OK(sluice_space_destroy(space));
}

/* ---- patterns and files ----------------------------------------------------------------- */

uint64_t
fault_word(uint64_t seed, size_t index)
{
	uint64_t z = seed * 0x9e3779b97f4a7c15u + index + 1;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	return z ^ z >> 27;
}

void
fault_fill(void *data, size_t bytes, uint64_t seed)
{
	uint64_t *words = data;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		words[i] = fault_word(seed, i);
}

int
fault_has(const void *data, size_t bytes, uint64_t seed)
{
	const uint64_t *words = data;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		if (words[i] != fault_word(seed, i))
			return 0;
	return 1;
}

void
fault_file_make(const char *path, size_t bytes, uint64_t seed)
{
	char *data = malloc(bytes ? bytes : 1);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(data && fd >= 0);
	fault_fill(data, bytes, seed);
	CHECK(write(fd, data, bytes) == (ssize_t)bytes);
	CHECK(close(fd) == 0);
	free(data);
}

int
fault_file_has(const char *path, size_t offset, size_t bytes, uint64_t seed, size_t seed_at)
{
	uint64_t *words = malloc(bytes);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int same = words && fd >= 0 &&
		   pread(fd, words, bytes, (off_t)offset) == (ssize_t)bytes;

	for (size_t i = 0; same && i < bytes / sizeof(*words); i++)
		same = words[i] == fault_word(seed, seed_at / sizeof(*words) + i);
	if (fd >= 0)
		close(fd);
	free(words);
	return same;
}

/* ---- touches ---------------------------------------------------------------------------- */

int
fault_read(const void *addr, uint64_t *value)
{
	sigjmp_buf here;
	int sig = sigsetjmp(here, 1);

	if (!sig) {
		caught = &here;
		*value = *(const volatile uint64_t *)addr;
	}
	caught = NULL;
	return sig;
}

int
fault_write(void *addr, uint64_t value)
{
	sigjmp_buf here;
	int sig = sigsetjmp(here, 1);

	if (!sig) {
		caught = &here;
		*(volatile uint64_t *)addr = value;
	}
	caught = NULL;
	return sig;
}

/* ---- mounts ----------------------------------------------------------------------------- */

void
fault_mounts_own(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		fault_skip("a mount namespace of its own: %s", strerror(errno));
}

/* Run a program to its end; 1: it succeeded. */
static int
program_run(char *const argv[])
{
	pid_t pid = fork();
	int status = 1;

	if (!pid) {
		execvp(argv[0], argv);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

void
fault_small_disk(const char *name, size_t mib)
{
	char image[64];
	char *mkfs[] = {"/sbin/mkfs.ext4",
			"-q",
			"-F",
			"-O",
			"^has_journal",
			"-m",
			"0",
			image,
			NULL};
	char *mount_it[] = {"mount", "-o", "loop", image, NULL, NULL};
	int fd;

	fault_mounts_own();
	snprintf(image, sizeof(image), "%s.image", name);
	mount_it[4] = (char *)(uintptr_t)name;
	fd = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && !ftruncate(fd, (off_t)(mib * MIB)) && !close(fd) &&
	      !mkdir(name, 0755));
	if (!program_run(mkfs) || !program_run(mount_it))
		fault_skip(
			"no ext4 on a loop device of its own (mkfs.ext4, mount -o loop)");
}
