/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nth-failure sweep. One scenario that uses every part of a space runs again and again. In
 * run n the nth fallible step fails: allocation, frame, mapping, move, page, guard, read, write,
 * sync, spill extent, thread. The sweep ends with the first run in which no step is left to
 * fail. After each run:
 * - every call has succeeded, or failed with a code and a text;
 * - the invariants hold;
 * - the file has all contents that a successful sync promised;
 * - all data that were not reported lost are right;
 * - the space is as usable as before once the failures stop;
 * - no descriptor, thread, mapping or memory is left (leak detection in the sanitized build).
 *
 * The scenario keeps a model: for each page its value, or that it may be anything (discarded, or
 * written by a failed launch). Host touches that cannot be served are signals. The page then has
 * its old value.
 *
 * Where there are thousands of steps, every kth n is taken. SWEEP_ALL=1 in the environment takes
 * all, SWEEP_FROM=n begins there.
 */
#include <dirent.h>

#include "fault.h"
#include "sweep.h"

/* Small: each run writes and reads all of it. More than device and host tier together. */
#define FILE_PAGES (3 * CHUNK / PAGE)
#define ANON_PAGES (5 * CHUNK / PAGE)
#define STEP       37u /* pages between those that are looked at; prime to what a chunk has */
#define ANYTHING   UINT64_MAX

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

static struct sluice_space *space;
static unsigned errors; /* calls that failed in this run */
static int injecting;
static const char *spec_now;

#define FAIL(...) fault_failed(__FILE__, __LINE__, __VA_ARGS__)

/* A call that may fail while failures are injected, and then cleanly. */
static int
checked(int rc, const char *call)
{
	if (!rc)
		return 0;
	errors++;
	if (!injecting)
		FAIL("%s: %s: %s: %s", spec_now, call, sl_errno_name(rc),
		     sluice_last_error());
	if (rc > 0 || rc < -133 || !*sluice_last_error())
		FAIL("%s: %s: code %d, text \"%s\"", spec_now, call, rc, sluice_last_error());
	return rc;
}

#define TRY(call) checked(call, #call)

/* ---- the model -------------------------------------------------------------------------- */

struct model {
	char *addr; /* NULL: not mapped */
	size_t n_pages;
	uint64_t page[ANON_PAGES]; /* first word of each */
};

static struct model file, anon;

static void
model_write(struct model *m, size_t page, uint64_t value)
{
	if (!m->addr || fault_write(m->addr + page * PAGE, value))
		return;
	m->page[page] = value;
}

static void
model_read(const struct model *m, size_t page)
{
	uint64_t value;

	if (!m->addr)
		return;
	if (fault_read(m->addr + page * PAGE, &value)) {
		errors++;
		if (!injecting)
			FAIL("%s: page %zu cannot be read", spec_now, page);
		return;
	}
	if (m->page[page] != ANYTHING && m->page[page] != value)
		FAIL("%s: page %zu has %llu, not %llu", spec_now, page,
		     (unsigned long long)value, (unsigned long long)m->page[page]);
}

static void
model_read_all(const struct model *m)
{
	for (size_t p = 0; p < m->n_pages; p += STEP)
		model_read(m, p);
}

static void
model_forget(struct model *m, size_t first, size_t n)
{
	for (size_t p = first; p < first + n; p++)
		m->page[p] = ANYTHING;
}

/* ---- the scenario ----------------------------------------------------------------------- */

/* Set the first word of every page of a range to a value. */
struct set_args {
	char *data;
	size_t n_pages;
	uint64_t value;
};

static void
kernel_set(const struct sluice_block *block, void *args)
{
	const struct set_args *a = args;

	for (size_t p = block->index.x; p < a->n_pages; p += block->grid.x)
		*(volatile uint64_t *)(void *)(a->data + p * PAGE) = a->value;
}

static void
launch(struct model *m, size_t first, size_t n, uint64_t value, int declared,
       enum sluice_intent intent, struct sluice_stream *stream)
{
	struct set_args args = {m->addr + first * PAGE, n, value};
	struct sluice_use use = {args.data, n * PAGE, intent};
	int rc;

	if (!m->addr)
		return;
	rc = TRY(sluice_launch(space, stream, kernel_set, (struct sluice_grid){4, 1, 1},
			       &args, sizeof(args), &use, declared));
	if (rc)
		return;
	rc = TRY(sluice_stream_synchronize(space, stream));
	for (size_t p = first; p < first + n; p++)
		m->page[p] = rc ? ANYTHING : value;
}

/* What the file has is what the model starts from. */
static void
file_look(void)
{
	int fd = open("data", O_RDONLY | O_CLOEXEC);
	char *data = malloc(FILE_PAGES * PAGE);

	CHECK(fd >= 0 && data);
	CHECK(read(fd, data, FILE_PAGES * PAGE) == (ssize_t)(FILE_PAGES * PAGE));
	for (size_t p = 0; p < FILE_PAGES; p++)
		memcpy(&file.page[p], data + p * PAGE, sizeof(file.page[p]));
	free(data);
	close(fd);
}

static void
file_check(size_t first, size_t n)
{
	int fd = open("data", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	for (size_t p = first; p < first + n; p += STEP) {
		uint64_t value = 0;

		CHECK(pread(fd, &value, sizeof(value), (off_t)(p * PAGE)) == sizeof(value));
		if (file.page[p] != ANYTHING && file.page[p] != value)
			FAIL("%s: synced page %zu has %llu on the file, not %llu",
			     spec_now, p, (unsigned long long)value,
			     (unsigned long long)file.page[p]);
	}
	close(fd);
}

static void
moves(struct sluice_stream *stream)
{
	uint64_t index[] = {3, 900, 1200};
	struct sluice_launch *scope;
	struct sluice_use use;

	if (anon.addr) {
		TRY(sluice_prefetch(space, anon.addr, CHUNK, SLUICE_TIER_DEVICE, stream));
		TRY(sluice_prefetch_index(space, anon.addr, PAGE, index, 3,
					  SLUICE_TIER_HOST, NULL));
		if (!TRY(sluice_pin(space, anon.addr + CHUNK, CHUNK)))
			CHECK_OK(sluice_unpin(space, anon.addr + CHUNK, CHUNK));
		TRY(sluice_evict(space, anon.addr, 2 * CHUNK, SLUICE_TIER_STORE, NULL));
		TRY(sluice_advise(space, anon.addr, CHUNK, SLUICE_ADVISE_WILL_NEED));
		use = (struct sluice_use){anon.addr, CHUNK, SLUICE_USE_READ};
		if (!TRY(sluice_launch_begin(space, NULL, &use, 1, &scope))) {
			model_read(&anon, 0);
			sluice_launch_end(scope);
		}
	}
	TRY(sluice_stream_synchronize(space, stream));
}

static void
discards(void)
{
	if (!anon.addr)
		return;
	if (!TRY(sluice_discard(space, anon.addr, CHUNK, SLUICE_DISCARD_EAGER, NULL)))
		model_forget(&anon, 0, CHUNK / PAGE);
	if (!TRY(sluice_discard(space, anon.addr + 2 * CHUNK, CHUNK, SLUICE_DISCARD_LAZY,
				NULL)))
		model_forget(&anon, 2 * CHUNK / PAGE, CHUNK / PAGE);
	/* Written after a revival: it counts again. */
	TRY(sluice_prefetch(space, anon.addr + 2 * CHUNK, CHUNK, SLUICE_TIER_DEVICE, NULL));
	model_write(&anon, 0, 71);
}

static void
scenario(void)
{
	struct sluice_stream *stream = NULL;
	void *addr;

	if (!TRY(sluice_map(space, "data", 0, 0, SLUICE_READ | SLUICE_WRITE, &addr))) {
		file.addr = addr;
		file.n_pages = FILE_PAGES;
	}
	if (!TRY(sluice_alloc(space, ANON_PAGES * PAGE, 0, &addr))) {
		anon.addr = addr;
		anon.n_pages = ANON_PAGES;
		memset(anon.page, 0, sizeof(anon.page));
	}
	if (TRY(sluice_stream_create(space, &stream)))
		stream = NULL;
	for (size_t p = 0; p < file.n_pages; p += STEP)
		model_write(&file, p, p + 10);
	for (size_t p = 0; p < anon.n_pages; p += STEP)
		model_write(&anon, p, p + 20);
	if (file.addr && !TRY(sluice_sync(space, file.addr, SLUICE_TO_END)))
		file_check(0, FILE_PAGES);
	launch(&anon, 0, ANON_PAGES, 31, 0, SLUICE_USE_WRITE, NULL);
	launch(&file, 0, 2 * CHUNK / PAGE, 32, 1, SLUICE_USE_READ_WRITE, stream);
	launch(&file, CHUNK / PAGE, 2 * CHUNK / PAGE, 33, 1, SLUICE_USE_WRITE_ALL, NULL);
	/* Present while it is synced: a snapshot, and writes that must be seen after it. */
	if (file.addr && !TRY(sluice_sync(space, file.addr, SLUICE_TO_END)))
		file_check(0, FILE_PAGES);
	for (size_t p = 2; p < file.n_pages; p += 7 * STEP)
		model_write(&file, p, p + 30);
	moves(stream);
	discards();
	model_read_all(&file);
	model_read_all(&anon);
	if (file.addr) {
		if (!TRY(sluice_advise(space, file.addr, FILE_PAGES * PAGE,
				       SLUICE_ADVISE_RANDOM)))
			for (size_t p = 1; p < FILE_PAGES; p += 5 * STEP)
				model_write(&file, p, p + 40);
		TRY(sluice_sync(space, file.addr, SLUICE_TO_END));
	}
	sluice_stream_destroy(stream);
}

/* ---- one run ---------------------------------------------------------------------------- */

/* What the process has of the things that must not be left behind. */
struct held {
	unsigned descriptors, threads, mappings;
};

static unsigned
entries_count(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static struct held
held_now(void)
{
	struct held held = {entries_count("/proc/self/fd"),
			    entries_count("/proc/self/task"), 0};
	FILE *f = fopen("/proc/self/maps", "r");
	int c;

	CHECK(f);
	while ((c = getc(f)) != EOF)
		held.mappings += c == '\n';
	fclose(f);
	return held;
}

static void
leftovers_check(const struct held *before)
{
	struct held after = held_now();

	/* A joined thread may still be leaving the kernel. */
	for (int i = 0; after.threads > before->threads && i < 60000; i++) {
		usleep(1000);
		after = held_now();
	}
	if (after.descriptors > before->descriptors || after.threads > before->threads)
		FAIL("%s: left over: %u descriptors, %u threads; before: %u, %u", spec_now,
		     after.descriptors, after.threads, before->descriptors, before->threads);
	/* Thread stacks and allocator arenas are kept for reuse: some tens are no leak. A sanitizer's
	 * allocator keeps more, and finds leaks by itself. */
	if (!SANITIZED && after.mappings > before->mappings + 60)
		FAIL("%s: %u mappings, %u before", spec_now, after.mappings,
		     before->mappings);
}

/* Failures have stopped: everything works, and all that is known is there. */
static void
aftermath(void)
{
	int rc;

	CHECK_OK(sl_fault_point_set(NULL));
	injecting = 0;
	CHECK_OK(sluice_space_check(space));
	model_read_all(&file);
	model_read_all(&anon);
	if (file.addr) {
		/* An earlier failure in the background is reported once, here. */
		rc = sluice_sync(space, file.addr, SLUICE_TO_END);
		if (rc)
			CHECK(*sluice_last_error());
		CHECK_OK(sluice_sync(space, file.addr, SLUICE_TO_END));
		file_check(0, FILE_PAGES);
		CHECK_OK(sluice_unmap(space, file.addr));
		file_check(0, FILE_PAGES);
	}
	if (anon.addr)
		CHECK_OK(sluice_unmap(space, anon.addr));
	{ /* as good as new */
		void *addr;

		CHECK_OK(sluice_alloc(space, ANON_PAGES * PAGE, 0, &addr));
		anon.addr = addr;
		anon.n_pages = ANON_PAGES;
		memset(anon.page, 0, sizeof(anon.page));
		model_read(&anon, ANON_PAGES - 1);
		launch(&anon, 0, ANON_PAGES, 51, 0, SLUICE_USE_WRITE, NULL);
		launch(&anon, 0, CHUNK / PAGE, 52, 1, SLUICE_USE_READ_WRITE, NULL);
		model_read_all(&anon);
	}
	CHECK_OK(sluice_space_check(space));
	CHECK_OK(sluice_space_destroy(space));
}

/* 1: a failure was injected. */
static int
run_once(const char *spec, const char *config_text)
{
	struct sluice_config config;
	uint64_t fired;
	int rc;

	spec_now = spec;
	memset(&file, 0, sizeof(file));
	memset(&anon, 0, sizeof(anon));
	file_look(); /* what the run before has left: writing it anew would take longer than the run */
	fault_config(&config, "device_budget=6M");
	CHECK_OK(sluice_config_parse(&config, config_text));
	space = NULL;
	errors = 0;
	injecting = 1;
	CHECK_OK(sl_fault_point_set(spec));
	rc = TRY(sluice_space_create(&config, &space));
	if (rc) {
		CHECK(!space);
		CHECK_OK(sl_fault_point_set(NULL));
		injecting = 0;
		return 1;
	}
	scenario();
	fired = sl_fault_point_fired();
	aftermath();
	if (errors && !fired)
		FAIL("%s: %u calls failed, but no failure was injected", spec, errors);
	return fired > 0;
}

/* As the nth step of name fails, for every n; suffix: ":ERRNO" or ":ERRNO+". */
void
sweep(const char *name, const char *suffix, const char *config, unsigned stride)
{
	const char *from = getenv("SWEEP_FROM");
	struct held before;
	unsigned n = from ? (unsigned)strtoul(from, NULL, 10) : 1;
	unsigned runs = 0;
	char spec[64];

	fault_file_make("data", FILE_PAGES * PAGE, 1);
	/* Once without: what is kept for ever is there afterwards. */
	(void)run_once("store.read:1000000", config);
	before = held_now();
	if (getenv("SWEEP_ALL"))
		stride = 1;
	for (int fired = 1; fired; n += stride) {
		snprintf(spec, sizeof(spec), "%s:%u%s", name, n, suffix);
		alarm(CASE_SECONDS);
		fired = run_once(spec, config);
		leftovers_check(&before);
		runs++;
	}
	if (runs < 2)
		FAIL("%s: nothing was injected", name);
	printf("  %s%s: %u runs\n", name, suffix, runs);
}
