/* SPDX-License-Identifier: Apache-2.0 */
/* See failure.h. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/failure.h"

/* ---- touches of host code, and what the library logs -------------------------------------- */

static __thread sigjmp_buf *volatile caught;

static void
on_fault(int sig)
{
	if (caught)
		siglongjmp(*caught, sig);
	signal(sig, SIG_DFL);
}

int
word_read(const uint64_t *p, uint64_t *value)
{
	sigjmp_buf here;
	int sig = sigsetjmp(here, 1);

	if (!sig) {
		caught = &here;
		*value = *(const volatile uint64_t *)p;
	}
	caught = NULL;
	return sig;
}

int
word_write(uint64_t *p, uint64_t value)
{
	sigjmp_buf here;
	int sig = sigsetjmp(here, 1);

	if (!sig) {
		caught = &here;
		*(volatile uint64_t *)p = value;
	}
	caught = NULL;
	return sig;
}

static int log_fd = -1;
static off_t log_from;

void
log_catch(void)
{
	const char *fd = getenv("SLUICE_TEST_LOG");

	log_fd = fd ? atoi(fd) : memfd_create("log", MFD_CLOEXEC);
	CHECK(log_fd >= 0);
	fflush(stderr);
	CHECK(dup2(log_fd, STDERR_FILENO) == STDERR_FILENO);
}

int
log_has(const char *text)
{
	char all[8192];
	ssize_t n = pread(log_fd, all, sizeof(all) - 1, log_from);

	all[n > 0 ? n : 0] = '\0';
	if (!strstr(all, text))
		printf("not in the log: \"%s\"; there is:\n%s\n", text, all);
	log_from = lseek(log_fd, 0, SEEK_END);
	return strstr(all, text) != NULL;
}

int
error_has(const char *text)
{
	if (!strstr(sluice_last_error(), text))
		printf("\"%s\" is not in: %s\n", text, sluice_last_error());
	return strstr(sluice_last_error(), text) != NULL;
}

void
fill_check(const uint64_t *p, uint64_t n, uint64_t seed)
{
	for (uint64_t i = 0; i < n; i++)
		CHECK(p[i] == i * K + seed);
}

/* ---- the runner --------------------------------------------------------------------------- */

/* The end of what a case that failed has said. */
static void
log_print(int fd)
{
	char text[6000];
	off_t end = lseek(fd, 0, SEEK_END);
	off_t from = end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0;
	ssize_t n = pread(fd, text, sizeof(text) - 1, from);

	text[n > 0 ? n : 0] = '\0';
	printf("%s", text);
}

static int
case_spawn(const struct failure_case *c)
{
	int fd = memfd_create("log", 0); /* it stays open in the case */
	char number[16];
	int status = 0;
	pid_t pid;

	CHECK(fd >= 0);
	snprintf(number, sizeof(number), "%d", fd);
	setenv("SLUICE_TEST_LOG", number, 1);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (c->variable)
			setenv(c->variable, c->value, 1);
		if (c->variable2)
			setenv(c->variable2, c->value2, 1);
		execl("/proc/self/exe", "failure", "--case", c->name, (char *)NULL);
		_exit(127);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		printf(" ended by signal %d\n", WTERMSIG(status));
	if (!WIFEXITED(status) || (WEXITSTATUS(status) && WEXITSTATUS(status) != 77))
		log_print(fd);
	close(fd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int
failure_main(const struct failure_case *cases, size_t n, int argc, char **argv)
{
	const char *only = argc == 2 ? argv[1] : NULL;
	int standin = getenv("SLUICE_CUDA_LIBRARY") != NULL;
	unsigned failed = 0, passed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3) {
		signal(SIGSEGV, on_fault);
		signal(SIGBUS, on_fault);
		for (size_t i = 0; i < n; i++) {
			if (strcmp(cases[i].name, argv[2]))
				continue;
			cases[i].run();
			return 0;
		}
		return 1;
	}
	for (size_t i = 0; i < n; i++) {
		int status;

		if (only && strcmp(only, cases[i].name))
			continue;
		if (cases[i].needs_standin && !standin) {
			printf("%s: left out on a real driver\n", cases[i].name);
			continue;
		}
		printf("%s\n", cases[i].name);
		status = case_spawn(&cases[i]);
		if (status && status != 77) {
			printf("FAILED: %s: exit status %d\n", cases[i].name, status);
			failed++;
		}
		passed += !status;
	}
	if (failed)
		return 1;
	return passed ? 0 : 77;
}
