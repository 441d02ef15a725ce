/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events in a process with a space: fork, kill -9, signals while a fault is served, two spaces
 * at once. A child shares nothing with its parent's space, and its calls say so. A killed
 * process leaves the synced data on the medium, and nothing else.
 */
#include <dirent.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/rng.h"
#include "fault.h"

#define RW (SLUICE_READ | SLUICE_WRITE)

static void
callback_nothing(void *arg)
{
	(void)arg;
}

/* ---- fork ------------------------------------------------------------------------------- */

struct forked {
	struct sluice_space *space;
	struct sluice_event *event;
	char *addr; /* first chunk present, the others not */
};

/* In the child: all of it. Does not return. */
__attribute__((noreturn)) static void
child_of_fork(const struct forked *f)
{
	struct sluice_space *space = f->space;
	struct sluice_use use = {f->addr, PAGE, SLUICE_USE_READ};
	struct sluice_grid one = {1, 1, 1};
	struct fault_range range = {f->addr, PAGE};
	struct sluice_launch *scope;
	struct sluice_stream *stream;
	struct sluice_event *event;
	struct sluice_residency where;
	uint64_t index = 0, value;
	size_t n;
	void *addr;

#define CHILD(call) CHECK_FAILS(call, -ECHILD, "parent")
	CHILD(sluice_map(space, "data", 0, 0, RW, &addr));
	CHILD(sluice_alloc(space, PAGE, 0, &addr));
	CHILD(sluice_unmap(space, f->addr));
	CHILD(sluice_remap(space, f->addr, RW));
	CHILD(sluice_sync(space, f->addr, SLUICE_TO_END));
	CHILD(sluice_advise(space, f->addr, PAGE, SLUICE_ADVISE_NORMAL));
	CHILD(sluice_prefetch(space, f->addr, PAGE, SLUICE_TIER_DEVICE, NULL));
	CHILD(sluice_prefetch_index(space, f->addr, 8, &index, 1, SLUICE_TIER_DEVICE, NULL));
	CHILD(sluice_evict(space, f->addr, PAGE, SLUICE_TIER_HOST, NULL));
	CHILD(sluice_pin(space, f->addr, PAGE));
	CHILD(sluice_unpin(space, f->addr, PAGE));
	CHILD(sluice_residency(space, f->addr, PAGE, &where));
	CHILD(sluice_discard(space, f->addr, PAGE, SLUICE_DISCARD_EAGER, NULL));
	CHILD(sluice_launch(space, NULL, fault_kernel_add, one, &range, sizeof(range),
			    &use, 1));
	CHILD(sluice_launch_begin(space, NULL, &use, 1, &scope));
	CHILD(sluice_stream_create(space, &stream));
	CHILD(sluice_stream_synchronize(space, NULL));
	CHILD(sluice_stream_callback(space, NULL, callback_nothing, NULL));
	CHILD(sluice_event_create(space, &event));
	CHILD(sluice_event_record(space, NULL, f->event));
	CHILD(sluice_event_wait(space, NULL, f->event));
	CHILD(sluice_event_query(f->event));
	CHILD(sluice_regions(space, NULL, 0, &n));
	CHILD(sluice_space_set_budget(space, SLUICE_TIER_DEVICE, 4 * CHUNK));
	CHILD(sluice_space_check(space));
	CHILD(sluice_space_destroy(space));
#undef CHILD
	/* Present or not: never silent zeros, never the parent's bytes. */
	CHECK(fault_read(f->addr, &value) != 0);
	CHECK(fault_write(f->addr, 1) != 0);
	CHECK(fault_read(f->addr + 6 * CHUNK, &value) != 0);
	CHECK(fault_write(f->addr + 6 * CHUNK, 1) != 0);
	/* A space of its own works as in any process. */
	space = fault_space(NULL);
	fault_space_end(space);
	_exit(0);
}

static void
forked_child_gets_echild_and_the_parent_goes_on(void)
{
	struct forked f = {.space = fault_space(NULL)};
	size_t bytes = 7 * CHUNK;
	void *addr;

	fault_file_make("data", bytes, 1);
	CHECK_OK(sluice_event_create(f.space, &f.event));
	CHECK_OK(sluice_map(f.space, "data", 0, 0, RW, &addr));
	f.addr = addr;
	CHECK_OK(sluice_pin(f.space, addr, CHUNK));
	fault_fill(addr, CHUNK, 2);
	for (int i = 0; i < 2; i++) {
		int status;
		pid_t pid = fork();

		if (!pid)
			child_of_fork(&f);
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		CHECK(fault_has(addr, CHUNK, 2));
		CHECK_OK(sluice_space_check(f.space));
	}
	CHECK_OK(sluice_unpin(f.space, addr, CHUNK));
	CHECK_OK(sluice_unmap(f.space, addr));
	CHECK(fault_file_has("data", 0, CHUNK, 2, 0));
	CHECK(fault_file_has("data", CHUNK, bytes - CHUNK, 1, CHUNK));
	sluice_event_destroy(f.event);
	fault_space_end(f.space);
}

/* ---- two spaces ------------------------------------------------------------------------- */

static void
stream_of_one_space_is_refused_by_another(void)
{
	static const char words[] = "another space";
	struct sluice_space *a = fault_space(NULL), *b = fault_space(NULL);
	struct fault_range range = {NULL, PAGE};
	struct sluice_launch *scope;
	struct sluice_stream *of_a;
	struct sluice_event *event;
	struct sluice_use use;
	uint64_t index = 0;
	void *in_b;

	CHECK_OK(sluice_alloc(b, CHUNK, 0, &in_b));
	CHECK_OK(sluice_stream_create(a, &of_a));
	CHECK_OK(sluice_event_create(b, &event));
	range.data = in_b;
	use = (struct sluice_use){in_b, PAGE, SLUICE_USE_READ_WRITE};
	CHECK_FAILS(sluice_launch(b, of_a, fault_kernel_add, fault_grid(PAGE), &range,
				  sizeof(range), &use, 1),
		    -EINVAL, words);
	CHECK_FAILS(sluice_launch_begin(b, of_a, &use, 1, &scope), -EINVAL, words);
	CHECK_FAILS(sluice_prefetch(b, in_b, SLUICE_TO_END, SLUICE_TIER_DEVICE, of_a),
		    -EINVAL, words);
	CHECK_FAILS(sluice_prefetch_index(b, in_b, 8, &index, 1, SLUICE_TIER_DEVICE, of_a),
		    -EINVAL, words);
	CHECK_FAILS(sluice_evict(b, in_b, SLUICE_TO_END, SLUICE_TIER_HOST, of_a), -EINVAL,
		    words);
	CHECK_FAILS(sluice_discard(b, in_b, SLUICE_TO_END, SLUICE_DISCARD_LAZY, of_a),
		    -EINVAL, words);
	CHECK_FAILS(sluice_stream_callback(b, of_a, callback_nothing, NULL), -EINVAL, words);
	CHECK_FAILS(sluice_stream_synchronize(b, of_a), -EINVAL, words);
	CHECK_FAILS(sluice_event_record(b, of_a, event), -EINVAL, words);
	CHECK_FAILS(sluice_event_wait(b, of_a, event), -EINVAL, words);
	sluice_event_destroy(event);
	sluice_stream_destroy(of_a);
	CHECK_OK(sluice_space_destroy(a));
	fault_space_end(b);
}

static void
two_spaces_are_independent(void)
{
	struct sluice_space *a = fault_space(NULL);
	struct sluice_space *b = fault_space(
		"population=page,faults=signal,device_budget=4M");
	struct sluice_use use;
	struct fault_range range = {NULL, 9 * CHUNK};
	void *in_a, *in_b;

	CHECK_OK(sluice_alloc(a, range.bytes, 0, &in_a));
	CHECK_OK(sluice_map(b, "data", 0, range.bytes, RW | SLUICE_CREATE, &in_b));
	fault_fill(in_a, range.bytes, 1);
	fault_fill(in_b, range.bytes, 2);
	/* What belongs to one is unknown to the other. */
	use = (struct sluice_use){in_a, PAGE, SLUICE_USE_READ};
	range.data = in_a;
	CHECK_FAILS(sluice_launch(b, NULL, fault_kernel_add, fault_grid(PAGE), &range,
				  sizeof(range), &use, 1),
		    -ENOENT, "no region of this space");
	CHECK_FAILS(sluice_unmap(b, in_a), -ENOENT, "no region");
	CHECK_FAILS(sluice_sync(a, in_b, SLUICE_TO_END), -ENOENT, "no region of this space");
	/* A kernel of b on the data of a, by faults: each serves its own. */
	CHECK_OK(sluice_launch(b, NULL, fault_kernel_add, fault_grid(range.bytes), &range,
			       sizeof(range), NULL, 0));
	CHECK_OK(sluice_stream_synchronize(b, NULL));
	for (size_t at = 0; at < range.bytes; at += PAGE)
		CHECK(*(uint64_t *)(void *)(range.data + at) == fault_word(1, at / 8) + 1);
	/* A failure in one costs the other nothing; nor does its end. */
	range.data = (char *)64;
	CHECK_OK(sluice_launch(b, NULL, fault_kernel_add, fault_grid(PAGE), &range,
			       sizeof(range), NULL, 0));
	CHECK_OK(sluice_stream_synchronize(a, NULL));
	CHECK_FAILS(sluice_stream_synchronize(b, NULL), -EFAULT, "outside any region");
	CHECK(fault_has(in_b, range.bytes, 2));
	CHECK_OK(sluice_space_destroy(b));
	CHECK(fault_file_has("data", 0, range.bytes, 2, 0));
	CHECK(*(uint64_t *)in_a == fault_word(1, 0) + 1);
	fault_space_end(a);
}

/* ---- signals ---------------------------------------------------------------------------- */

#define STORM_BYTES (9 * CHUNK)

static char *storm_data; /* in the managed memory: a counter in every page */
static _Atomic uint64_t storm_signals;
static atomic_int storm_over;

/* One more signal, soon: not before the interrupted code has had its turn. */
static void
alarm_soon(void)
{
	struct itimerval soon = {{0, 0}, {0, 700}};

	setitimer(ITIMER_REAL, &soon, NULL);
}

static void
on_alarm(int sig)
{
	uint64_t n = atomic_fetch_add(&storm_signals, 1);
	size_t page = n * 613 % (STORM_BYTES / PAGE);

	(void)sig;
	__atomic_fetch_add((uint64_t *)(void *)(storm_data + page * PAGE), 1,
			   __ATOMIC_RELAXED);
	if (!storm_over)
		alarm_soon();
}

static void
signal_during_a_fault_may_touch_managed_memory(void)
{
	static const char *const ways[] = {
		"faults=thread,host_budget=64M", "faults=signal,host_budget=64M",
		"faults=signal,population=page,host_budget=64M"};

	for (size_t w = 0; w < COUNT_OF(ways); w++) {
		struct sluice_space *space = fault_space(ways[w]);
		struct itimerval never = {{0, 0}, {0, 0}};
		struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
		struct sigaction before;
		uint64_t sum = 0, touched = 0, deadline;
		unsigned rounds = 0;
		void *counters, *data;

		CHECK_OK(sluice_alloc(space, STORM_BYTES, 0, &counters));
		CHECK_OK(sluice_alloc(space, STORM_BYTES, 0, &data));
		storm_data = counters;
		storm_signals = 0;
		storm_over = 0;
		CHECK(!sigaction(SIGALRM, &action, &before));
		alarm_soon();
		deadline = sl_now_ns() + 500 * 1000 * 1000;
		do { /* every page in turn: evictions all the while */
			for (size_t at = 64; at < STORM_BYTES; at += PAGE) {
				++*(volatile uint64_t *)(void *)((char *)data + at);
				__atomic_fetch_add((uint64_t *)(void *)((char *)counters + at),
						   1, __ATOMIC_RELAXED);
			}
			rounds++;
		} while (sl_now_ns() < deadline && rounds < 100000);
		storm_over = 1; /* the last signal arms no further one */
		CHECK(!setitimer(ITIMER_REAL, &never, NULL));
		CHECK(!sigaction(SIGALRM, &before, NULL));
		alarm(CASE_SECONDS);
		for (size_t at = 0; at < STORM_BYTES; at += PAGE) {
			sum += *(uint64_t *)(void *)((char *)counters + at);
			touched += *(uint64_t *)(void *)((char *)counters + at + 64);
			CHECK(*(uint64_t *)(void *)((char *)data + at + 64) == rounds);
		}
		CHECK(storm_signals > 0);
		CHECK(sum == storm_signals);
		CHECK(touched == rounds * (STORM_BYTES / PAGE));
		fault_space_end(space);
	}
}

/* ---- kill -9 ---------------------------------------------------------------------------- */

#define KILL_BYTES (6 * CHUNK)
#define KILL_SPILL (8 * CHUNK)

/* Round after round: write all pages, sync, say so. Ended by SIGKILL. */
__attribute__((noreturn)) static void
child_to_be_killed(int out, uint64_t round)
{
	struct sluice_space *space = fault_space(
		"host_budget=4M,writeback=2M,spill_dirs=spill");
	void *addr, *anonymous;

	CHECK_OK(sluice_map(space, "data", 0, 0, RW, &addr));
	CHECK_OK(sluice_alloc(space, KILL_SPILL, 0, &anonymous));
	for (;;) {
		round++;
		for (size_t at = 0; at < KILL_BYTES; at += PAGE) {
			uint64_t *words = (uint64_t *)(void *)((char *)addr + at);

			words[0] = words[255] = words[511] = round;
			if (at % CHUNK == 0)
				fault_fill((char *)anonymous + at, CHUNK, round);
		}
		CHECK_OK(sluice_sync(space, addr, SLUICE_TO_END));
		CHECK(write(out, &round, sizeof(round)) == sizeof(round));
	}
}

static unsigned
entries_count(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned n = 0;

	CHECK(d);
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(d);
	return n;
}

/*
 * Every page is of one round, and of none before the last that was synced. Returns the newest
 * round of any page.
 */
static uint64_t
killed_file_check(uint64_t synced, uint64_t begun)
{
	int fd = open("data", O_RDONLY | O_CLOEXEC);
	uint64_t newest = synced;

	CHECK(fd >= 0);
	for (size_t at = 0; at < KILL_BYTES; at += PAGE) {
		uint64_t words[512];

		CHECK(pread(fd, words, PAGE, (off_t)at) == (ssize_t)PAGE);
		if (words[0] < synced || words[0] > begun || words[255] != words[0] ||
		    words[511] != words[0])
			fault_failed(__FILE__, __LINE__,
				     "page at %zu: %llu %llu %llu; synced %llu, begun "
				     "%llu",
				     at, (unsigned long long)words[0],
				     (unsigned long long)words[255],
				     (unsigned long long)words[511],
				     (unsigned long long)synced, (unsigned long long)begun);
		if (words[0] > newest)
			newest = words[0];
	}
	close(fd);
	return newest;
}

static void
killed_process_leaves_what_was_synced_and_nothing_else(void)
{
	uint64_t synced = 0, newest = 0, seed = sl_now_ns();
	unsigned syncs = 0;
	struct sl_rng rng;
	int fd;

	printf("  seed %llu\n", (unsigned long long)seed);
	sl_rng_init(&rng, seed);
	CHECK(!mkdir("spill", 0700));
	fd = open("data", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && !ftruncate(fd, KILL_BYTES) && !close(fd));
	fault_space_end(fault_space(NULL)); /* or skip */
	for (int i = 0; i < 10; i++) {
		uint64_t begun = newest + 1;
		int pipe_fds[2], status;
		pid_t pid;

		CHECK(!pipe(pipe_fds));
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			close(pipe_fds[0]);
			child_to_be_killed(pipe_fds[1], newest);
		}
		close(pipe_fds[1]);
		if (i % 2) { /* half of them not before the first sync */
			struct pollfd ready = {.fd = pipe_fds[0], .events = POLLIN};

			CHECK(poll(&ready, 1, 30000) == 1);
		}
		usleep((useconds_t)sl_rng_below(&rng, 60000));
		CHECK(!kill(pid, SIGKILL) && waitpid(pid, &status, 0) == pid);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		while (read(pipe_fds[0], &synced, sizeof(synced)) == sizeof(synced)) {
			begun = synced + 1;
			syncs++;
		}
		close(pipe_fds[0]);
		newest = killed_file_check(synced, begun);
		CHECK(entries_count("spill") == 0);
	}
	CHECK(syncs > 0);
}

int
main(int argc, char **argv)
{
	static const struct fault_case cases[] = {
		CASE(forked_child_gets_echild_and_the_parent_goes_on),
		CASE(two_spaces_are_independent),
		CASE(stream_of_one_space_is_refused_by_another),
		CASE(signal_during_a_fault_may_touch_managed_memory),
		CASE(killed_process_leaves_what_was_synced_and_nothing_else),
	};

	return fault_main(argc, argv, cases, COUNT_OF(cases));
}
