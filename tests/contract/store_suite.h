/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the contract of store.h (test_store_*.c): one suite over every engine,
 * plain and wrapped, on a disk and on memory; small tools; and the runner.
 *
 *   test_store_X [uring|file]    0 pass, 1 fail, 77 the engine cannot run here (reason printed)
 *
 * Without an argument both engines are tested. Files live in SLUICE_TEST_DIR (default /var/tmp),
 * which should take O_DIRECT, and in /dev/shm. Parts that need root or a small file system are
 * skipped with a line. No assertion depends on speed. The only times checked are the lower
 * bounds of the delay wrapper.
 */
#ifndef TESTS_CONTRACT_STORE_SUITE_H
#define TESTS_CONTRACT_STORE_SUITE_H

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/engine.h"
#include "store/io_error.h"
#include "store/store.h"

/* ---- Running ---- */

#define CHECK(cond)                                                    \
	do {                                                           \
		if (!(cond))                                           \
			store_check_failed(__FILE__, __LINE__, #cond); \
	} while (0)

void store_check_failed(const char *file, int line, const char *what)
	__attribute__((noreturn));

enum wrap { WRAP_NONE, WRAP_FAULT, WRAP_DELAY, WRAP_COUNT };

struct config {
	const char *kind;
	enum wrap wrap;
	const char *dir;
	int memory; /* dir is a memory file system */
	struct sl_engine *engine;
};

enum store_scope {
	STORE_EVERYWHERE, /* each engine, wrapper and file system */
	STORE_ENGINE,     /* each engine, plain on the disk */
	STORE_URING,      /* the ring alone, with an engine of its own */
	STORE_NO_ENGINE   /* once: c has only the directory */
};

struct store_test {
	const char *name;
	void (*run)(const struct config *c);
	enum store_scope scope;
};
/* clang-format off */
#define TEST(function, scope) {#function, function, scope}
#define STORE_MAIN(tests)                                                                \
	int                                                                              \
	main(int argc, char **argv)                                                      \
	{                                                                                \
		return store_main(tests, sizeof(tests) / sizeof((tests)[0]), argc, argv); \
	}
/* clang-format on */

int store_main(const struct store_test *tests, size_t n, int argc, char **argv);

/* ---- Tools ---- */

/* bytes, aligned for I/O, with room to the next page; free() it. */
void *buffer_new(size_t bytes);
void pattern_fill(void *buf, size_t bytes, uint64_t seed);
void path_make(char *path, size_t path_bytes, const struct config *c, const char *name);
/* A file of the test's own, by plain calls. */
void plain_file_make(const char *path, const void *data, size_t bytes);
uint64_t plain_file_length(const char *path);
void plain_file_read(const char *path, void *buf, size_t bytes, uint64_t offset);
/* Names in a directory. */
unsigned dir_entries(const char *path);
/* Through the configuration's engine, in its wrapper; or a store in that wrapper, which owns it. */
struct sl_store *store_open(const struct config *c, const char *path, int flags);
struct sl_store *store_wrapped(const struct config *c, struct sl_store *store);

/* A request one can wait for. */
struct request {
	struct sl_io io;
	sem_t *over;
	atomic_int calls; /* of done() */
	pthread_t thread; /* that called it */
};

/* Its done(): counts, and posts over. */
void request_done(struct sl_io *io);
void request_set(struct request *r, sem_t *over, enum sl_io_op op, enum sl_io_class class,
		 void *buf, uint64_t offset, size_t bytes);
void sem_take(sem_t *sem);
/* To its end, by a semaphore of its own; its result. */
int request_run(struct sl_store *store, struct request *r);
/* One queued request from start to end; its result. past_end may be NULL. */
int io_run(struct sl_store *store, enum sl_io_op op, void *buf, uint64_t offset,
	   size_t bytes, int *past_end);

#endif
