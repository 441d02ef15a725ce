/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of a GPU: who is in it, with several processes, and what damage does. Each test has a
 * directory of its own.
 */
#include "share/book.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fault_point.h"
#include "base/hash.h"
#include "unit/cmocka_all.h"

#define GPU "GPU-1"

static char dir[] = "/tmp/sluice-book-XXXXXX";
static char path[64];

/* The rows are too many for a stack. */
static struct sl_book_row rows[SL_BOOK_ROWS];

static int
dir_make(void **state)
{
	(void)state;
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/book-" GPU, dir);
	return 0;
}

static int
dir_remove(void **state)
{
	(void)state;
	(void)unlink(path);
	return rmdir(dir);
}

static struct sl_book *
joined(uint64_t want)
{
	struct sl_book_row row = {.claim = {.want_bytes = want}};
	struct sl_book *book;

	assert_int_equal(sl_book_open(dir, GPU, &book), 0);
	assert_int_equal(sl_book_join(book, &row), 0);
	return book;
}

static size_t
count(struct sl_book *book)
{
	size_t n, me;

	assert_int_equal(sl_book_read(book, rows, &n, &me), 0);
	return n;
}

/* A process that joins, says so and waits: it ends with its pipe's other end, or killed. */
static pid_t
process_joins(uint64_t want)
{
	int pipes[2];
	pid_t child;
	char byte;

	assert_int_equal(pipe(pipes), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		struct sl_book_row row = {.claim = {.want_bytes = want}};
		struct sl_book *book;

		if (sl_book_open(dir, GPU, &book) || sl_book_join(book, &row) ||
		    write(pipes[1], "j", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	close(pipes[0]);
	return child;
}

static void
process_kill(pid_t child)
{
	int status;

	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
}

static void
each_sees_the_rows_of_all(void **state)
{
	struct sl_book *a = joined(1), *b = joined(2);
	size_t n, me;

	(void)state;
	assert_int_equal(sl_book_read(b, rows, &n, &me), 0);
	assert_int_equal(n, 2);
	assert_int_equal(me, 1);
	assert_int_equal(rows[0].claim.want_bytes, 1);
	assert_int_equal(rows[1].claim.want_bytes, 2);
	assert_int_equal(rows[0].pid, getpid());
	assert_true(rows[0].start > 0);
	assert_string_equal(rows[0].command, "unit_test_book");
	sl_book_close(a);
	assert_int_equal(count(b), 1);
	sl_book_close(b);
}

static void
a_killed_process_is_out_at_once_and_its_row_is_used_again(void **state)
{
	struct sl_book *book = joined(0);
	pid_t one = process_joins(1), two = process_joins(2), three;

	(void)state;
	assert_int_equal(count(book), 3);
	process_kill(one);
	assert_int_equal(count(book), 2);
	assert_int_equal(rows[1].claim.want_bytes, 2);
	three = process_joins(3);
	assert_int_equal(count(book), 3);
	assert_int_equal(rows[1].claim.want_bytes, 3);
	process_kill(two);
	process_kill(three);
	assert_int_equal(count(book), 1);
	sl_book_close(book);
}

static void
a_forked_child_has_no_row(void **state)
{
	struct sl_book *book = joined(1), *other = joined(2);
	pid_t child = fork();
	int status;

	(void)state;
	if (!child) {
		sl_book_forked(other);
		for (;;)
			pause();
	}
	/* The parent's end of the row counts, not the child's. */
	while (count(book) != 2)
		;
	sl_book_close(other);
	for (int tries = 0; count(book) != 1; tries++) {
		assert_true(tries < 100000); /* the child may not have run yet */
		usleep(1000);
	}
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	sl_book_close(book);
}

static void
a_hundred_processes_are_in_it_and_it_can_be_full(void **state)
{
	struct sl_book *book = joined(0), *all[SL_BOOK_ROWS];
	struct sl_book_row row = {.leave_bytes = 0};
	pid_t children[100];
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < 100; i++)
		children[i] = process_joins(i + 1);
	assert_int_equal(count(book), 101);
	while (n < SL_BOOK_ROWS - 101)
		all[n++] = joined(0);
	assert_int_equal(count(book), SL_BOOK_ROWS);
	assert_int_equal(sl_book_open(dir, GPU, &all[n]), 0);
	assert_int_equal(sl_book_join(all[n], &row), -ENOSPC);
	assert_non_null(strstr(sluice_last_error(), "256 programs"));
	process_kill(children[50]);
	assert_int_equal(sl_book_join(all[n], &row), 0);
	for (size_t i = 0; i <= n; i++)
		sl_book_close(all[i]);
	for (size_t i = 0; i < 100; i++)
		if (i != 50)
			process_kill(children[i]);
	assert_int_equal(count(book), 1);
	sl_book_close(book);
}

static void
who_holds_the_lock_and_is_killed_or_stopped_harms_nobody(void **state)
{
	struct sl_book *book = joined(0);
	int pipes[2], status;
	pid_t child;
	char byte;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (!child) {
		struct sl_book *own = joined(1);

		if (!sl_book_lock(own) || write(pipes[1], "l", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_false(sl_book_lock(book)); /* it comes back without */
	assert_int_equal(count(book), 2);
	process_kill(child);
	assert_true(sl_book_lock(book));
	sl_book_unlock(book);
	close(pipes[0]);
	close(pipes[1]);
	sl_book_close(book);
}

static void
who_does_not_write_is_away_and_comes_back(void **state)
{
	struct sl_book *a = joined(1), *b = joined(2);
	struct sl_book_row row = {.claim = {.want_bytes = 7}};

	(void)state;
	assert_int_equal(count(b), 2);
	assert_false(rows[0].claim.is_away);
	for (int tries = 0; !rows[0].claim.is_away; tries++) {
		assert_true(tries < 100000);
		usleep(10000);
		assert_int_equal(count(b), 2);
	}
	assert_false(rows[1].claim.is_away); /* itself never is */
	assert_int_equal(sl_book_write(a, &row), 0);
	assert_int_equal(count(b), 2);
	assert_false(rows[0].claim.is_away);
	assert_int_equal(rows[0].claim.want_bytes, 7);
	sl_book_close(a);
	sl_book_close(b);
}

static void
an_order_reaches_the_process_it_is_for_and_no_other(void **state)
{
	struct sl_book *book = joined(0), *reader, *next;
	const struct sl_book_order order = {5, 1, 3};
	struct sl_book_order got;
	pid_t child = process_joins(1);

	(void)state;
	assert_int_equal(sl_book_open_existing(dir, GPU, &reader), 0);
	assert_int_equal(sl_book_order_give(reader, child, &order), 0);
	assert_int_equal(sl_book_order_of(reader, child, &got), 0);
	assert_memory_equal(&got, &order, sizeof(got));
	assert_int_equal(sl_book_order_read(book, &got), 0);
	assert_int_equal(got.number, 0);
	process_kill(child);
	assert_int_equal(sl_book_order_give(reader, child, &order), -ESRCH);
	next = joined(2); /* in the row of the killed one */
	assert_int_equal(sl_book_order_read(next, &got), 0);
	assert_int_equal(got.number, 0);
	assert_int_equal(sl_book_order_give(reader, getpid(), &order), 0);
	assert_int_equal(sl_book_order_read(book, &got), 0);
	assert_int_equal(got.limit_bytes, 5);
	sl_book_close(next);
	sl_book_close(reader);
	sl_book_close(book);
}

static void
file_write(off_t at, const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, at), n);
	close(fd);
}

static void
a_damaged_book_is_made_anew(void **state)
{
	struct sl_book *old = joined(1), *new;
	size_t n, me;

	(void)state;
	file_write(3, "damage", 6);
	assert_int_equal(sl_book_read(old, rows, &n, &me), -EBADMSG);
	assert_int_equal(sl_book_open_existing(dir, GPU, &new), -EBADMSG);
	new = joined(2);
	assert_int_equal(count(new), 1);
	assert_int_equal(sl_book_read(old, rows, &n, &me), -ESTALE);
	sl_book_close(old);
	old = joined(1);
	assert_int_equal(count(new), 2);
	sl_book_close(old);
	sl_book_close(new);
}

static void
a_cut_book_is_damaged(void **state)
{
	struct sl_book *book = joined(1);
	size_t n, me;

	(void)state;
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(sl_book_read(book, rows, &n, &me), -EBADMSG);
	sl_book_close(book);
	book = joined(1);
	assert_int_equal(count(book), 1);
	sl_book_close(book);
}

static void
a_damaged_row_is_passed_over_until_it_is_written_again(void **state)
{
	struct sl_book *a = joined(1), *b = joined(2);
	struct sl_book_row row = {.claim = {.want_bytes = 1}};

	(void)state;
	file_write(64 + 24, "x", 1);
	assert_int_equal(count(b), 1);
	assert_int_equal(sl_book_write(a, &row), 0);
	assert_int_equal(count(b), 2);
	sl_book_close(a);
	sl_book_close(b);
}

static void
another_version_is_refused_with_both(void **state)
{
	struct sl_book *book = joined(1);
	unsigned char head[64];
	uint64_t check;
	uint32_t other = 9;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct sl_book *refused;

	(void)state;
	assert_int_equal(pread(fd, head, sizeof(head), 0), sizeof(head));
	close(fd);
	memcpy(head + 16, &other, sizeof(other));
	/* Its head is whole, as that version has written it. */
	check = sl_hash_add(other, 512);
	memcpy(head + 8, &check, sizeof(check));
	file_write(0, head, 24);
	assert_int_equal(sl_book_open(dir, GPU, &refused), -EPROTO);
	assert_non_null(strstr(sluice_last_error(), "has version 9, this Sluice has 2"));
	sl_book_close(book);
}

static void
a_removed_book_is_seen(void **state)
{
	struct sl_book *book = joined(1);
	struct sl_book_row row = {.leave_bytes = 0};

	(void)state;
	assert_int_equal(unlink(path), 0);
	assert_int_equal(sl_book_write(book, &row), -ESTALE);
	sl_book_close(book);
	book = joined(1);
	assert_int_equal(count(book), 1);
	sl_book_close(book);
}

/* Closes all that the process has beyond the first three, as daemons do. */
static void
a_program_that_closes_the_book_has_its_file_left_alone(void **state)
{
	struct sl_book *book = joined(1);
	struct sl_book_row row = {.leave_bytes = 0};
	char other[80];
	struct stat st;
	int fd;

	(void)state;
	snprintf(other, sizeof(other), "%s/other", dir);
	close_range(3, ~0u, 0);
	/* Every number that the book may have had is a file of the program's now. */
	do
		fd = open(other, O_RDWR | O_CREAT, 0600);
	while (fd >= 0 && fd < 1000);
	assert_int_equal(sl_book_write(book, &row), -EBADF);
	sl_book_unlock(book);
	sl_book_close(book);
	assert_int_equal(stat(other, &st), 0);
	assert_int_equal(st.st_size, 0);
	close_range(3, ~0u, 0);
	assert_int_equal(unlink(other), 0);
}

static void
a_file_of_others_is_refused(void **state)
{
	struct sl_book *book = joined(1);

	(void)state;
	sl_book_close(book);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(sl_book_open(dir, GPU, &book), -EPERM);
	assert_non_null(strstr(sluice_last_error(), "is not this user's alone"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(sl_book_open(dir, GPU, &book), -ELOOP);
	assert_int_equal(sl_book_open(dir, "a/b", &book), -EINVAL);
}

static void
a_process_that_may_write_no_files_is_refused_and_gets_no_signal(void **state)
{
	struct rlimit before, none = {4096, RLIM_INFINITY};
	struct sl_book *book;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(sl_book_open(dir, GPU, &book), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

static void
failures_leave_nothing_behind(void **state)
{
	struct sl_book_row row = {.leave_bytes = 0};
	struct sl_book *book;

	(void)state;
	assert_int_equal(sl_fault_point_set("book.make:1:ENOSPC"), 0);
	assert_int_equal(sl_book_open(dir, GPU, &book), -ENOSPC);
	assert_int_equal(sl_fault_point_set("mem.alloc:2:ENOMEM"), 0);
	assert_int_equal(sl_book_open(dir, GPU, &book), -ENOMEM);
	assert_int_equal(sl_fault_point_set("book.write:1:ENOSPC"), 0);
	assert_int_equal(sl_book_open(dir, GPU, &book), 0);
	assert_int_equal(sl_book_join(book, &row), -ENOSPC);
	assert_int_equal(sl_fault_point_set(NULL), 0);
	assert_int_equal(count(book), 0);
	assert_int_equal(sl_book_join(book, &row), 0);
	sl_book_close(book);
}

#define IN_DIR(name) cmocka_unit_test_setup_teardown(name, dir_make, dir_remove)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIR(each_sees_the_rows_of_all),
		IN_DIR(a_killed_process_is_out_at_once_and_its_row_is_used_again),
		IN_DIR(a_forked_child_has_no_row),
		IN_DIR(a_hundred_processes_are_in_it_and_it_can_be_full),
		IN_DIR(who_holds_the_lock_and_is_killed_or_stopped_harms_nobody),
		IN_DIR(who_does_not_write_is_away_and_comes_back),
		IN_DIR(an_order_reaches_the_process_it_is_for_and_no_other),
		IN_DIR(a_damaged_book_is_made_anew),
		IN_DIR(a_cut_book_is_damaged),
		IN_DIR(a_damaged_row_is_passed_over_until_it_is_written_again),
		IN_DIR(another_version_is_refused_with_both),
		IN_DIR(a_removed_book_is_seen),
		IN_DIR(a_program_that_closes_the_book_has_its_file_left_alone),
		IN_DIR(a_file_of_others_is_refused),
		IN_DIR(a_process_that_may_write_no_files_is_refused_and_gets_no_signal),
		IN_DIR(failures_leave_nothing_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
