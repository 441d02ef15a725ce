/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host code: touches that are refused, faults that are none of ours, signals in the middle of one, and
 * forked children. See device_suite.h.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_suite.h"

static void
refused_host_touches_are_the_programs_sigbus(void)
{
	for (int d = 0; d < 2; d++) {
		struct core core;
		char *addr;

		core_init(&core, CHUNK, deliveries[d]);
		core.serve = serve_refuse;
		core.armed = 1;
		addr = chunk_addr(&core, 1) + 77;
		host_touch(addr, SIGBUS);
		CHECK(((uintptr_t)host_fault_addr & ~(PAGE - 1)) ==
		      ((uintptr_t)addr & ~(PAGE - 1)));
		core.armed = 0;
		*addr = 3; /* and nothing is broken */
		CHECK(*addr == 3);
		core_fini(&core);
	}
}

static void
foreign_faults_reach_the_programs_handler(void)
{
	struct core core;
	char *page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	core_init(&core, CHUNK, SL_DELIVER_SIGNAL);
	host_touch(page + 5, SIGSEGV);
	CHECK(host_fault_addr == page + 5);
	host_touch(chunk_addr(&core, CHUNKS), SIGSEGV); /* outside regions: ordinary */
	CHECK(core.n_touches == 0);
	core_fini(&core);
	host_touch(page + 6, SIGSEGV);
	munmap(page, PAGE);
}

static struct core *alarm_core;
static _Atomic unsigned alarm_count;

static void
on_alarm(int sig)
{
	volatile char *addr = chunk_addr(alarm_core, (int)(alarm_count++ % CHUNKS));

	(void)sig;
	addr[200 * PAGE]++;
}

static void
signals_during_faults_may_touch_too(void)
{
	for (int d = 0; d < 2; d++) {
		struct sigaction action = {.sa_handler = on_alarm};
		struct itimerval often = {{0, 500}, {0, 500}};
		struct itimerval never = {{0, 0}, {0, 0}};
		struct sigaction before;
		struct core core;
		unsigned sum = 0;
		unsigned touches = 0;

		if (SANITIZES_THREADS && deliveries[d] == SL_DELIVER_SIGNAL) {
			printf("  skipped for signal delivery: ThreadSanitizer runs "
			       "handlers later, "
			       "with every signal blocked\n");
			continue;
		}
		core_init(&core, CHUNK, deliveries[d]);
		alarm_core = &core;
		alarm_count = 0;
		for (int i = 0; i < CHUNKS; i++) {
			chunk_hold(&core, i, 0);
		}
		sigaction(SIGALRM, &action, &before);
		setitimer(ITIMER_REAL, &often, NULL);
		for (int i = 0; i < 600; i++) {
			volatile char *addr = chunk_addr(&core, i % CHUNKS);

			addr[PAGE * (size_t)(i % 100)]++;
			touches++;
			/* The evictor must not be interrupted while it holds the core's lock. */
			if (i % 3 == 0) {
				sigset_t alarm_only;

				sigemptyset(&alarm_only);
				sigaddset(&alarm_only, SIGALRM);
				pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
				chunk_evict(&core, i % CHUNKS);
				pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
			}
		}
		for (int i = 0; i < 60000 && alarm_count < 3; i++)
			usleep(1000);
		setitimer(ITIMER_REAL, &never, NULL);
		sigaction(SIGALRM, &before, NULL);
		for (int i = 0; i < CHUNKS; i++)
			for (size_t p = 0; p < 100; p++)
				sum += (unsigned char)chunk_addr(&core, i)[p * PAGE];
		CHECK(sum == touches); /* at most 15 each: no wrap-around */
		CHECK(alarm_count >= 3);
		core_fini(&core);
	}
}

static void
a_forked_child_has_nothing_of_it(void)
{
	struct core core;
	volatile char *addr;
	int status = 0;
	pid_t pid;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	addr = chunk_addr(&core, 0);
	addr[0] = 11;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		unsigned char resident;

		/* Neither present nor absent chunks are there, and no frame. */
		if (!mincore((void *)addr, PAGE, &resident) || errno != ENOMEM)
			_exit(1);
		host_touch(addr, SIGSEGV);
		_exit(device_failed());
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(addr[0] == 11);
	addr[CHUNK] = 5;
	CHECK(core.n_touches == 2);
	core_fini(&core);
}

static const struct device_test tests[] = {
	TEST_ROLES(refused_host_touches_are_the_programs_sigbus, ROLE_TOUCHES),
	TEST_ROLES(foreign_faults_reach_the_programs_handler, ROLE_TOUCHES),
	TEST_ROLES(signals_during_faults_may_touch_too, ROLE_TOUCHES),
	TEST_ROLES(a_forked_child_has_nothing_of_it, ROLE_TOUCHES),
};

DEVICE_MAIN(tests)
