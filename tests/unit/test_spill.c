/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spill extents: budgets, striping, reuse, holes, full disks, and random traffic
 * against a model that knows which bytes are handed out. Real unlinked files in
 * SLUICE_TEST_DIR (default /var/tmp); a full disk is a small tmpfs, which needs root:
 * that test is skipped without.
 */
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/fault_point.h"
#include "base/rng.h"
#include "store/engine.h"
#include "unit/cmocka_all.h"

#define MIB (1ull << 20)

static struct sl_engine *engine;
static char base[256];
static char dir_a[300], dir_b[300], both[620];

static struct sl_spill *
spill_new(const char *dirs, uint64_t budget_bytes)
{
	struct sl_spill *spill = NULL;

	assert_int_equal(sl_spill_create(engine, dirs, budget_bytes, 0, &spill), 0);
	return spill;
}

static unsigned
entries(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	assert_non_null(dir);
	while ((e = readdir(dir)))
		n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
	closedir(dir);
	return n;
}

/* Blocks that a store's file holds, and its length. */
static uint64_t
held_bytes(struct sl_store *store)
{
	struct stat st;

	assert_int_equal(fstat(((struct sl_file_store *)store)->file.fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static int
overlap(const struct sl_extent *a, const struct sl_extent *b)
{
	return a->store == b->store && a->offset < b->offset + b->bytes &&
	       b->offset < a->offset + a->bytes;
}

static void
extents_do_not_overlap_and_leave_no_name(void **state)
{
	struct sl_spill *spill = spill_new(dir_a, UINT64_MAX);
	struct sl_extent e[64];

	(void)state;
	for (unsigned i = 0; i < 64; i++) {
		assert_int_equal(sl_spill_alloc(spill, (1 + i % 3) * 2 * MIB, &e[i]), 0);
		assert_int_equal(e[i].bytes, (1 + i % 3) * 2 * MIB);
		for (unsigned j = 0; j < i; j++)
			assert_false(overlap(&e[i], &e[j]));
	}
	assert_int_equal(entries(dir_a), 0);
	/* What is handed out has its blocks. */
	assert_true(held_bytes(e[0].store) >= sl_spill_used_bytes(spill));
	for (unsigned i = 0; i < 64; i++)
		sl_spill_put(spill, &e[i]);
	assert_int_equal(sl_spill_used_bytes(spill), 0);
	sl_spill_destroy(spill);
	sl_spill_destroy(NULL);
}

static void
directories_take_turns(void **state)
{
	struct sl_spill *spill = spill_new(both, UINT64_MAX);
	struct sl_extent e[8];

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(sl_spill_alloc(spill, 2 * MIB, &e[i]), 0);
	for (unsigned i = 2; i < 8; i++)
		assert_ptr_equal(e[i].store, e[i - 2].store);
	assert_ptr_not_equal(e[0].store, e[1].store);
	assert_int_equal(entries(dir_a) + entries(dir_b), 0);
	for (unsigned i = 0; i < 8; i++)
		sl_spill_put(spill, &e[i]);
	sl_spill_destroy(spill);
}

/* Every byte of the budget can be used, in blocks no more than it are held, and one
 * page more is refused; for budgets below, at and above a step, with directories taking
 * turns. */
static void
the_budget_is_reached_and_never_exceeded(void **state)
{
	static const uint64_t budgets[] = {8 * MIB, 64 * MIB, 100 * MIB, 200 * MIB};

	(void)state;
	for (size_t b = 0; b < sizeof(budgets) / sizeof(budgets[0]); b++) {
		struct sl_spill *spill = spill_new(both, budgets[b]);
		struct sl_store *stores[2] = {NULL, NULL};
		struct sl_extent e[100], more;
		unsigned n = (unsigned)(budgets[b] / (2 * MIB));

		for (unsigned i = 0; i < n; i++) {
			assert_int_equal(sl_spill_alloc(spill, 2 * MIB, &e[i]), 0);
			stores[i % 2] = i < 2 ? e[i].store : stores[i % 2];
		}
		assert_int_equal(sl_spill_used_bytes(spill), budgets[b]);
		/* Some slack for what the file system needs itself to map the blocks. */
		assert_true(held_bytes(stores[0]) + held_bytes(stores[1]) <=
			    budgets[b] + 64 * 1024);
		memset(&more, 0x77, sizeof(more));
		assert_int_equal(sl_spill_alloc(spill, 4096, &more), -ENOSPC);
		assert_non_null(strstr(sluice_last_error(), "budget"));
		assert_int_equal(more.bytes, 0x7777777777777777);
		assert_int_equal(sl_spill_set_budget(spill, budgets[b] - 1), -ENOSPC);
		assert_int_equal(sl_spill_set_budget(spill, budgets[b] + 4096), 0);
		assert_int_equal(sl_spill_alloc(spill, 4096, &more), 0);
		assert_int_equal(sl_spill_alloc(spill, 4096, &more), -ENOSPC);
		sl_spill_put(spill, &more);
		for (unsigned i = 0; i < n; i++)
			sl_spill_put(spill, &e[i]);
		sl_spill_destroy(spill);
	}
}

static void
what_was_put_is_used_again(void **state)
{
	struct sl_spill *spill = spill_new(dir_a, UINT64_MAX);
	struct sl_extent e[16], again;

	(void)state;
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(sl_spill_alloc(spill, 2 * MIB, &e[i]), 0);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 1; i < 16; i += 2) {
			sl_spill_put(spill, &e[i]);
			assert_int_equal(sl_spill_alloc(spill, 2 * MIB, &again), 0);
			assert_int_equal(again.offset, e[i].offset);
		}
	}
	assert_true(held_bytes(e[0].store) <= 64 * MIB + 65536);
	for (unsigned i = 0; i < 16; i++)
		sl_spill_put(spill, &e[i]);
	sl_spill_destroy(spill);
}

static void
free_steps_give_their_blocks_back_and_get_new_ones(void **state)
{
	struct sl_spill *spill = spill_new(dir_a, UINT64_MAX);
	struct sl_extent e[12], large;
	uint64_t before;

	(void)state;
	for (unsigned i = 0; i < 12; i++)
		assert_int_equal(sl_spill_alloc(spill, 16 * MIB, &e[i]), 0);
	before = held_bytes(e[0].store);
	assert_true(before >= 192 * MIB);
	for (unsigned i = 1; i < 12; i++)
		sl_spill_put(spill, &e[i]);
	for (unsigned i = 1; i < 3; i++) /* each takes from the first step, and punches one */
		assert_int_equal(sl_spill_alloc(spill, 16 * MIB, &e[i]), 0);
	assert_true(held_bytes(e[0].store) <= before - 128 * MIB);

	/* The holes are filled again before the file gets longer; longer than a step
	 * works. */
	assert_int_equal(sl_spill_alloc(spill, 16 * MIB, &e[3]), 0);
	assert_int_equal(sl_spill_alloc(spill, 16 * MIB, &e[4]), 0);
	assert_int_equal(e[4].offset, 64 * MIB);
	assert_true(held_bytes(e[0].store) >= 128 * MIB);
	assert_int_equal(sl_spill_alloc(spill, 150 * MIB, &large), 0);
	for (unsigned i = 0; i < 5; i++) {
		assert_false(overlap(&e[i], &large));
		sl_spill_put(spill, &e[i]);
	}
	sl_spill_put(spill, &large);
	sl_spill_destroy(spill);
}

static void
a_budget_in_pieces_is_still_a_budget(void **state)
{
	struct sl_spill *spill = spill_new(dir_a, 16 * MIB);
	struct sl_extent e[256], large;

	(void)state;
	for (unsigned i = 0; i < 256; i++)
		assert_int_equal(sl_spill_alloc(spill, 65536, &e[i]), 0);
	for (unsigned i = 0; i < 256; i += 2)
		sl_spill_put(spill, &e[i]);
	/* Half is free and no two pieces are neighbours. */
	assert_int_equal(sl_spill_alloc(spill, 8 * MIB, &large), 0);
	assert_true(held_bytes(large.store) <= 16 * MIB + 65536);
	for (unsigned i = 1; i < 256; i += 2) {
		assert_false(overlap(&e[i], &large));
		sl_spill_put(spill, &e[i]);
	}
	sl_spill_put(spill, &large);
	assert_int_equal(sl_spill_alloc(spill, 16 * MIB, &large), 0);
	assert_true(held_bytes(large.store) <= 16 * MIB + 65536);
	sl_spill_put(spill, &large);
	sl_spill_destroy(spill);
}

#define TRAFFIC_THREADS 4
#define TRAFFIC_SLOTS   24

struct traffic {
	struct sl_spill *spill;
	uint64_t seed;
	pthread_t thread;
	unsigned failed; /* alloc gave something else than 0 or -ENOSPC, or bytes changed */
};

/* Allocate and put at random; each extent's first page carries its owner's mark until
 * put. */
static void *
traffic_main(void *arg)
{
	struct traffic *t = arg;
	struct sl_extent e[TRAFFIC_SLOTS] = {{0}};
	uint64_t mark[TRAFFIC_SLOTS];
	_Alignas(SL_STORE_ALIGN) uint64_t page[SL_STORE_ALIGN / 8] = {0};
	struct sl_rng rng;

	sl_rng_init(&rng, t->seed);
	for (unsigned n = 0; n < 600; n++) {
		unsigned i = (unsigned)sl_rng_below(&rng, TRAFFIC_SLOTS);
		const struct sl_store_ops *ops;

		if (e[i].store) {
			ops = e[i].store->ops;
			t->failed += ops->read_now(e[i].store, page, e[i].offset,
						   SL_STORE_ALIGN, NULL) != 0;
			t->failed += page[0] != mark[i] || page[511] != mark[i];
			sl_spill_put(t->spill, &e[i]);
			e[i].store = NULL;
		} else {
			uint64_t bytes = SL_STORE_ALIGN << sl_rng_below(&rng, 13);
			int rc = sl_spill_alloc(t->spill, bytes, &e[i]);

			t->failed += rc != 0 && rc != -ENOSPC;
			if (rc)
				continue;
			ops = e[i].store->ops;
			mark[i] = sl_rng_next(&rng);
			page[0] = page[511] = mark[i];
			t->failed += ops->write_now(e[i].store, page, e[i].offset,
						    SL_STORE_ALIGN) != 0;
		}
		t->failed += sl_spill_used_bytes(t->spill) > 96 * MIB;
	}
	for (unsigned i = 0; i < TRAFFIC_SLOTS; i++)
		if (e[i].store)
			sl_spill_put(t->spill, &e[i]);
	return NULL;
}

static void
threads_get_extents_of_their_own(void **state)
{
	struct sl_spill *spill = spill_new(both, 96 * MIB);
	struct traffic t[TRAFFIC_THREADS];
	uint64_t seed = 20261121;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (unsigned i = 0; i < TRAFFIC_THREADS; i++) {
		t[i] = (struct traffic){.spill = spill, .seed = seed + i};
		assert_int_equal(pthread_create(&t[i].thread, NULL, traffic_main, &t[i]), 0);
	}
	for (unsigned i = 0; i < TRAFFIC_THREADS; i++) {
		pthread_join(t[i].thread, NULL);
		assert_int_equal(t[i].failed, 0);
	}
	assert_int_equal(sl_spill_used_bytes(spill), 0);
	sl_spill_destroy(spill);
}

static void
a_full_directory_is_passed_over_and_the_last_one_is_said(void **state)
{
	char small[320], dirs[640];
	struct sl_spill *spill = NULL;
	struct sl_extent e[16], last;
	unsigned n = 0;

	(void)state;
	snprintf(small, sizeof(small), "%s/small", base);
	snprintf(dirs, sizeof(dirs), "%s:%s", small, dir_a);
	assert_int_equal(mkdir(small, 0700), 0);
	if (mount("none", small, "tmpfs", 0, "size=9m")) {
		print_message("skip: mount of a small tmpfs: %s\n", strerror(errno));
		rmdir(small);
		skip();
	}
	/* Memory is refused, unless asked for. */
	assert_int_equal(sl_spill_create(engine, dirs, UINT64_MAX, 0, &spill), -EINVAL);
	assert_non_null(strstr(sluice_last_error(), "tmpfs"));
	assert_null(spill);

	/* Alone: its last megabytes are used, then the text names it. */
	assert_int_equal(sl_spill_create(engine, small, UINT64_MAX, 1, &spill), 0);
	while (n < 16 && !sl_spill_alloc(spill, 2 * MIB, &e[n]))
		n++;
	assert_int_equal(n, 4);
	assert_int_equal(sl_spill_alloc(spill, 2 * MIB, &last), -ENOSPC);
	assert_non_null(strstr(sluice_last_error(), "small"));
	assert_non_null(strstr(sluice_last_error(), "ENOSPC"));
	assert_int_equal(sl_spill_used_bytes(spill), 8 * MIB);
	sl_spill_put(spill, &e[2]);
	assert_int_equal(sl_spill_alloc(spill, 2 * MIB, &e[2]), 0);
	while (n > 0)
		sl_spill_put(spill, &e[--n]);
	sl_spill_destroy(spill);

	/* With another: that one serves the rest. */
	assert_int_equal(sl_spill_create(engine, dirs, UINT64_MAX, 1, &spill), 0);
	for (n = 0; n < 16; n++)
		assert_int_equal(sl_spill_alloc(spill, 2 * MIB, &e[n]), 0);
	assert_ptr_equal(e[14].store, e[15].store);
	assert_ptr_not_equal(e[0].store, e[15].store);
	while (n > 0)
		sl_spill_put(spill, &e[--n]);
	sl_spill_destroy(spill);
	assert_int_equal(umount(small), 0);
	assert_int_equal(rmdir(small), 0);
}

static void
wrong_directories_are_refused_at_once(void **state)
{
	struct sl_spill *spill = NULL;
	char path[400], dirs[800];
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/absent", base);
	snprintf(dirs, sizeof(dirs), "%s:%s", dir_a, path);
	assert_int_equal(sl_spill_create(engine, dirs, 1, 0, &spill), -ENOENT);
	assert_non_null(strstr(sluice_last_error(), "absent"));
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(sl_spill_create(engine, dirs, 1, 0, &spill), -EINVAL);
	unlink(path);
	assert_int_equal(sl_spill_create(engine, "", 1, 0, &spill), -EINVAL);
	snprintf(dirs, sizeof(dirs), "%s:", dir_a);
	assert_int_equal(sl_spill_create(engine, dirs, 1, 0, &spill), -EINVAL);

	assert_int_equal(chmod(base, 0755), 0);
	assert_int_equal(chmod(dir_a, 0555), 0);
	if (geteuid() == 0)
		assert_int_equal(seteuid(65534), 0);
	assert_int_equal(sl_spill_create(engine, dir_a, 1, 0, &spill), -EACCES);
	assert_non_null(strstr(sluice_last_error(), dir_a));
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(dir_a, 0700), 0);
	assert_null(spill);
}

static void
a_failing_step_leaves_no_trace(void **state)
{
	struct sl_spill *spill = NULL;
	struct sl_extent e;

	(void)state;
	for (unsigned n = 1;; n++) {
		char spec[32];
		unsigned failed = 0;

		snprintf(spec, sizeof(spec), "*:%u", n);
		assert_int_equal(sl_fault_point_set(spec), 0);
		failed += sl_spill_create(engine, both, 64 * MIB, 0, &spill) != 0;
		if (!failed) {
			failed += sl_spill_alloc(spill, 2 * MIB, &e) != 0;
			/* With a directory left, an allocation may succeed all the
			 * same. */
			assert_int_equal(sl_spill_used_bytes(spill), failed ? 0 : 2 * MIB);
			if (!failed)
				sl_spill_put(spill, &e);
			assert_int_equal(sl_spill_used_bytes(spill), 0);
			sl_spill_destroy(spill);
		}
		spill = NULL;
		assert_true(!failed || sl_fault_point_fired() == 1);
		if (!sl_fault_point_fired())
			break;
		assert_true(n < 100);
	}
	assert_int_equal(sl_fault_point_set(NULL), 0);

	spill = spill_new(dir_a, UINT64_MAX);
	assert_int_equal(sl_fault_point_set("spill.alloc:1:ENOSPC"), 0);
	assert_int_equal(sl_spill_alloc(spill, 4096, &e), -ENOSPC);
	assert_int_equal(sl_fault_point_set(NULL), 0);
	assert_int_equal(sl_spill_alloc(spill, 0, &e), -EINVAL);
	assert_int_equal(sl_spill_alloc(spill, 4097, &e), -EINVAL);
	assert_int_equal(sl_spill_alloc(spill, 1ull << 60, &e), -ENOSPC);
	assert_int_equal(sl_spill_used_bytes(spill), 0);
	sl_spill_destroy(spill);
}

static int
group_setup(void **state)
{
	const char *dir = getenv("SLUICE_TEST_DIR");

	(void)state;
	unsetenv("SLUICE_FAULT");
	unsetenv("SLUICE_STORE_DELAY");
	if (sl_fault_point_set(NULL))
		return -1;
	snprintf(base, sizeof(base), "%.200s/sluice-spill-XXXXXX", dir ? dir : "/var/tmp");
	if (!mkdtemp(base))
		return -1;
	snprintf(dir_a, sizeof(dir_a), "%s/a", base);
	snprintf(dir_b, sizeof(dir_b), "%s/b", base);
	snprintf(both, sizeof(both), "%s:%s", dir_a, dir_b);
	return mkdir(dir_a, 0700) || mkdir(dir_b, 0700) ||
	       sl_engine_create("file", 2, &engine);
}

static int
group_teardown(void **state)
{
	(void)state;
	sl_engine_destroy(engine);
	return rmdir(dir_a) || rmdir(dir_b) || rmdir(base);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(extents_do_not_overlap_and_leave_no_name),
		T(directories_take_turns),
		T(the_budget_is_reached_and_never_exceeded),
		T(what_was_put_is_used_again),
		T(free_steps_give_their_blocks_back_and_get_new_ones),
		T(a_budget_in_pieces_is_still_a_budget),
		T(threads_get_extents_of_their_own),
		T(a_full_directory_is_passed_over_and_the_last_one_is_said),
		T(wrong_directories_are_refused_at_once),
		T(a_failing_step_leaves_no_trace),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
