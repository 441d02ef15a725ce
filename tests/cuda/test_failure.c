/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fails around a CUDA device: no driver, or one that does not do; memory that somebody else has;
 * every call of the driver, one after the other; a context that is lost in the middle; captured
 * streams, forks, and host code that touches what it has given to a kernel.
 *
 * Each case is a process of its own (test_failure NAME runs one), with settings of the stand-in driver
 * in its environment; a few also make sense on a GPU and run there. What must hold after a failure:
 * the invariants, and the contents or an error; what must hold after all is that nothing is left, that
 * no rule of the driver was broken, and that a file has old or new words.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/cuda_test.h"

#define K     0x9e3779b97f4a7c15ull
#define TILE  (2 * MIB)
#define WORDS (TILE / 8)

static struct cuda_test t;

/* ---- touches of host code, and what the library logs -------------------------------------- */

static __thread sigjmp_buf *volatile caught;

static void
on_fault(int sig)
{
	if (caught)
		siglongjmp(*caught, sig);
	signal(sig, SIG_DFL);
}

/* 0, or the signal that the access raised. */
static int
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

static int
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

/* Standard error goes to a file from here on, which the runner prints when the case fails. */
static void
log_catch(void)
{
	const char *fd = getenv("SLUICE_TEST_LOG");

	log_fd = fd ? atoi(fd) : memfd_create("log", MFD_CLOEXEC);
	CHECK(log_fd >= 0);
	fflush(stderr);
	CHECK(dup2(log_fd, STDERR_FILENO) == STDERR_FILENO);
}

static int
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

static int
error_has(const char *text)
{
	if (!strstr(sluice_last_error(), text))
		printf("\"%s\" is not in: %s\n", text, sluice_last_error());
	return strstr(sluice_last_error(), text) != NULL;
}

/* ---- kernels whose launch may fail -------------------------------------------------------- */

static int
kernel(const char *name, struct cu_stream *stream, const void *p, uint64_t n, uint64_t third)
{
	void *params[] = {&p, &n, &third};
	struct cu_function *function;
	int rc = SL_CUDA(t.driver, cuModuleGetFunction, &function, t.module, name);

	return rc ? rc
		  : SL_CUDA(t.driver, cuLaunchKernel, function, 2, 1, 1, 256, 1, 1, 0,
			    stream, params, NULL);
}

/* ---- no driver, or none that does --------------------------------------------------------- */

static void
creation_is_refused(int rc, const char *why)
{
	struct sluice_config config;
	struct sluice_space *space = NULL;

	CHECK_OK(sluice_config_init(&config));
	config.device = SLUICE_DEVICE_CUDA;
	config.address_bytes = 1 << 30;
	CHECK(sluice_space_create(&config, &space) == rc);
	CHECK(!space);
	CHECK(error_has(why));
	CHECK(error_has("device=soft"));
}

static void
no_driver(void)
{
	creation_is_refused(-ENOTSUP, "no GPU driver");
}

static void
old_driver(void)
{
	creation_is_refused(-ENOTSUP, "too old");
	CHECK(error_has("11.8"));
	CHECK(error_has("12.2"));
}

static void
no_device(void)
{
	creation_is_refused(-ENOTSUP, "finds no device");
}

static void
driver_that_does_not_start(void)
{
	creation_is_refused(-ENOTSUP, "does not start");
	CHECK(error_has("(999)"));
}

static void
no_virtual_memory_management(void)
{
	creation_is_refused(-ENOTSUP, "no virtual memory management");
}

static void
device_number_that_is_not_there(void)
{
	struct sluice_config config;
	struct sluice_space *space = NULL;

	CHECK_OK(sluice_config_init(&config));
	CHECK_OK(sluice_config_parse(&config, "device=cuda,address=1G"));
	config.device_number = 7;
	CHECK(sluice_space_create(&config, &space) == -EINVAL && !space);
	CHECK(error_has("CUDA device 7: there are 1"));
}

/* ---- memory ------------------------------------------------------------------------------- */

static void
fill_check(const uint64_t *p, uint64_t n, uint64_t seed)
{
	for (uint64_t i = 0; i < n; i++)
		CHECK(p[i] == i * K + seed);
}

static void
out_of_device_memory_below_the_budget(void)
{
	struct sluice_space *s;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t *p;
	unsigned refused = 0;

	cuda_test_open(&t);
	s = cuda_test_space(64, 128, NULL);
	CHECK_OK(sluice_alloc(s, 48 * MIB, 0, (void **)&p));
	t.standin->memory_taken_set(0, 256 * MIB - 12 * MIB);
	for (uint64_t at = 0; at < 48 * MIB; at += TILE) {
		int rc;

		use = (struct sluice_use){(char *)p + at, TILE, SLUICE_USE_WRITE_ALL};
		rc = sluice_launch_begin(s, NULL, &use, 1, &l);
		if (rc) {
			CHECK(rc == -ENOMEM);
			CHECK(error_has("lower the budget"));
			CHECK(error_has("268435456"));
			refused++;
			CHECK_OK(sluice_space_check(s));
			continue;
		}
		cuda_test_launch(&t, s, NULL, TEST_FILL, (char *)p + at, WORDS, at);
		sluice_launch_end(l);
	}
	CHECK(refused > 0 && refused < 24);
	/* What was written is there, what was refused is not, and then it goes on. */
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(p[5] == 5 * K);
	CHECK(p[23 * WORDS] == 0);
	t.standin->memory_taken_set(0, 0);
	for (uint64_t at = 0; at < 48 * MIB; at += TILE)
		cuda_test_run(&t, s, NULL, TEST_FILL, (char *)p + at, WORDS, at,
			      SLUICE_USE_WRITE_ALL);
	for (uint64_t at = 0; at < 48 * MIB; at += TILE)
		fill_check(p + at / 8, WORDS, at);
	CHECK_OK(sluice_unmap(s, p));
	cuda_test_close(&t, s);
}

static void
pinned_memory_is_refused(void)
{
	struct sluice_space *s;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t *p, value;
	unsigned refused = 0;

	cuda_test_open(&t);
	log_catch();
	s = cuda_test_space(8, 128, NULL); /* the stand-in lets 24 MiB be pinned */
	CHECK_OK(sluice_alloc(s, 64 * MIB, 0, (void **)&p));
	for (uint64_t at = 0; at < 64 * MIB; at += TILE) {
		int rc;

		use = (struct sluice_use){(char *)p + at, TILE, SLUICE_USE_WRITE_ALL};
		rc = sluice_launch_begin(s, NULL, &use, 1, &l);
		if (rc) {
			CHECK(rc == -ENOMEM);
			CHECK(error_has("pinning 2097152 bytes of host memory"));
			CHECK_OK(sluice_space_check(s));
			refused++;
			continue;
		}
		cuda_test_launch(&t, s, NULL, TEST_FILL, (char *)p + at, WORDS, at);
		sluice_launch_end(l);
	}
	CHECK(refused > 0);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	for (uint64_t at = 0; at < 64 * MIB; at += TILE) {
		/* It is there, or was never written, or cannot be shown for lack of a frame. */
		if (!word_read((uint64_t *)((char *)p + at + 80), &value))
			CHECK(value == 10 * K + at || value == 0);
	}
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_unmap(s, p));
	cuda_test_close(&t, s);
}

static void
a_program_that_also_uses_cumemalloc(void)
{
	struct sluice_space *s;
	uint64_t plain, word, sum = 0;
	uint64_t *p;

	cuda_test_open(&t);
	CHECK_OK(SL_CUDA(t.driver, cuMemAlloc, &plain, TILE));
	s = cuda_test_space(16, 64, NULL);
	word = cuda_test_word(&t);
	CHECK_OK(sluice_alloc(s, 32 * MIB, 0, (void **)&p));
	cuda_test_launch_on(&t, NULL, TEST_FILL, plain, WORDS, 3);
	for (uint64_t at = 0; at < 32 * MIB; at += TILE) {
		struct sluice_use use = {(char *)p + at, TILE, SLUICE_USE_WRITE_ALL};
		struct sluice_launch *l;

		CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
		cuda_test_launch(&t, s, NULL, TEST_COPY, (void *)(uintptr_t)plain, WORDS,
				 (uintptr_t)((char *)p + at));
		sluice_launch_end(l);
	}
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	for (uint64_t at = 0; at < 32 * MIB; at += TILE)
		fill_check(p + at / 8, WORDS, 3);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
	/* The space has gone, the program's memory has not. */
	cuda_test_launch_on(&t, NULL, TEST_SUM, plain, WORDS, word);
	for (uint64_t i = 0; i < WORDS; i++)
		sum += i * K + 3;
	CHECK(cuda_test_word_read(&t, word) == sum);
	cuda_test_word_free(&t, word);
	CHECK_OK(SL_CUDA(t.driver, cuMemFree, plain));
	cuda_test_close(&t, NULL);
}

/* ---- every call of the driver, failing once ----------------------------------------------- */

#define TILES 4

#if defined(__SANITIZE_THREAD__) /* ten times slower */
#define FEWER 8
#else
#define FEWER 2
#endif

static const char *const call_names[] = {
#define CUDA_SYMBOL(name, exported, ...) #exported,
#include "device/cuda/cuda_symbols.def"
#undef CUDA_SYMBOL
};

/* What a run knows of a region: word k of tile i is one of two. */
struct tile {
	uint64_t old, new; /* seeds; equal: known */
	int filled;        /* word i is i * K + seed; else all words are the seed */
	int unknown;       /* an error says that anything may be there */
};

struct script {
	struct sluice_space *space;
	struct sluice_stream *stream;
	struct sluice_event *event;
	uint64_t *anon, *file;
	struct tile anon_tile[TILES], file_tile[TILES];
	char path[64];
	unsigned errors;
	int lost;
};

static int
tried(struct script *s, int rc)
{
	if (rc)
		s->errors++;
	return rc;
}

/* A kernel on a tile that changes its seed (content of word i: i * K + seed). */
static void
script_launch(struct script *s, uint64_t *base, struct tile *tile, int i,
	      const char *name, uint64_t value, enum sluice_intent intent)
{
	uint64_t *p = base + (uint64_t)i * WORDS;
	struct sluice_use use = {p, TILE, intent};
	struct sluice_launch *l;
	int rc = tried(s, sluice_launch_begin(s->space, s->stream, &use, 1, &l));

	if (rc) { /* WRITE_ALL: it may be there already, with any contents */
		tile[i].unknown |= intent == SLUICE_USE_WRITE_ALL;
		return;
	}
	rc = tried(s, kernel(name, sluice_stream_native(s->space, s->stream), p, WORDS,
			     value));
	sluice_launch_end(l);
	if (rc) { /* WRITE_ALL: the old contents are gone already */
		tile[i].unknown |= intent == SLUICE_USE_WRITE_ALL;
		return;
	}
	if (intent == SLUICE_USE_WRITE_ALL)
		tile[i].new = value;
	else
		tile[i].new += value;
	rc = tried(s, sluice_stream_synchronize(s->space, s->stream));
	if (!rc)
		tile[i].old = tile[i].new;
	if (intent == SLUICE_USE_WRITE_ALL) {
		tile[i].filled = 1;
		tile[i].unknown |= rc != 0;
	}
}

static void
script_nothing(void *arg)
{
	(void)arg;
}

static void
script_run(struct script *s)
{
	uint64_t value;

	for (int i = 0; i < TILES; i++)
		script_launch(s, s->anon, s->anon_tile, i, "test_fill", (uint64_t)i + 1,
			      SLUICE_USE_WRITE_ALL);
	for (int i = 0; i < TILES; i++)
		script_launch(s, s->file, s->file_tile, i, "test_add", 7,
			      SLUICE_USE_READ_WRITE);
	tried(s, sluice_prefetch(s->space, s->anon, 2 * TILE, SLUICE_TIER_DEVICE, s->stream));
	tried(s, sluice_evict(s->space, s->anon + 2 * WORDS, TILE, SLUICE_TIER_STORE, NULL));
	for (int i = 0; i < TILES; i++) {
		uint64_t *p = s->anon + (uint64_t)i * WORDS;

		if (tried(s, word_read(p, &value)) == 0 && !s->anon_tile[i].unknown &&
		    value != s->anon_tile[i].new &&value != s->anon_tile[i].old) {
			printf("tile %d: %llx, expected %llx or %llx\n", i,
			       (unsigned long long)value,
			       (unsigned long long)s->anon_tile[i].new,
			       (unsigned long long)s->anon_tile[i].old);
			exit(1);
		}
		tried(s, word_write(p, s->anon_tile[i].new)); /* as it is, but dirty */
	}
	tried(s, sluice_sync(s->space, s->file, 0));
	tried(s, sluice_stream_callback(s->space, s->stream, script_nothing, NULL));
	tried(s, sluice_event_record(s->space, s->stream, s->event));
	tried(s, sluice_event_wait(s->space, NULL, s->event));
	for (int i = 0; i < TILES; i++)
		script_launch(s, s->anon, s->anon_tile, i, "test_add", 3,
			      SLUICE_USE_READ_WRITE);
	for (int i = 0; i < TILES; i++)
		script_launch(s, s->file, s->file_tile, i, "test_add", 9,
			      SLUICE_USE_READ_WRITE);
	tried(s, sluice_discard(s->space, s->anon, TILE, SLUICE_DISCARD_EAGER, NULL));
	s->anon_tile[0].unknown = 1;
	tried(s, sluice_stream_synchronize(s->space, s->stream));
}

static int
script_open(struct script *s, uint64_t *base)
{
	struct sluice_config config;
	int fd;

	snprintf(s->path, sizeof(s->path), "/var/tmp/sluice-failure-%d", (int)getpid());
	fd = open(s->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	for (int i = 0; i < TILES; i++)
		s->file_tile[i].filled = 1;
	for (uint64_t i = 0; i < TILES * WORDS; i++)
		base[i] = i % WORDS * K;
	CHECK(write(fd, base, TILES * TILE) == (ssize_t)(TILES * TILE));
	close(fd);
	CHECK_OK(sluice_config_init(&config));
	CHECK_OK(sluice_config_parse(&config,
				     "device=cuda,device_budget=6M,host_budget=8M,"
				     "staging=8M,address=1G,chunk=2M,large_chunk=2M,"
				     "readahead_chunks=2"));
	if (tried(s, sluice_space_create(&config, &s->space)))
		return -1;
	if (tried(s, sluice_stream_create(s->space, &s->stream)))
		s->stream = NULL;
	if (tried(s, sluice_event_create(s->space, &s->event)) ||
	    tried(s, sluice_alloc(s->space, TILES * TILE, 0, (void **)&s->anon)) ||
	    tried(s, sluice_map(s->space, s->path, 0, 0, SLUICE_READ | SLUICE_WRITE,
				(void **)&s->file)))
		return -1;
	return 0;
}

static int
word_is(const struct tile *tile, uint64_t i, uint64_t value)
{
	uint64_t first = tile->filled ? i * K : 0;

	return tile->unknown || value == first + tile->old || value == first + tile->new;
}

static void
script_contents(struct script *s, const char *what)
{
	static const char *const names[] = {"anonymous", "file"};

	for (int r = 0; r < 2; r++) {
		const uint64_t *p = r ? s->file : s->anon;
		const struct tile *tile = r ? s->file_tile : s->anon_tile;

		for (uint64_t i = 0; p && i < TILES * WORDS; i += 61) {
			uint64_t value;
			int sig = word_read(p + i, &value);

			if (!sig && word_is(&tile[i / WORDS], i % WORDS, value))
				continue;
			printf("%s: %s, tile %d, word %d: signal %d, %llx\n", what,
			       names[r], (int)(i / WORDS), (int)(i % WORDS), sig,
			       (unsigned long long)value);
			exit(1);
		}
	}
}

/* old or new, whatever has happened. */
static void
script_file(struct script *s, const char *what, uint64_t *words, int exact)
{
	int fd = open(s->path, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(pread(fd, words, TILES * TILE, 0) == (ssize_t)(TILES * TILE));
	close(fd);
	for (uint64_t i = 0; i < TILES * WORDS; i += 61) {
		const struct tile *tile = &s->file_tile[i / WORDS];
		uint64_t seed = words[i] - i % WORDS * K;

		if (exact ? word_is(tile, i % WORDS, words[i])
			  : seed == 0 || seed == 7 || seed == 16 || seed == 9)
			continue;
		printf("%s: the file's word %d of tile %d has seed %llx, neither old nor "
		       "new\n",
		       what, (int)(i % WORDS), (int)(i / WORDS), (unsigned long long)seed);
		exit(1);
	}
}

static int
call_gives_back(const char *name)
{
	static const char *const names[] = {"cuMemUnmap",
					    "cuMemAddressFree",
					    "cuMemRelease",
					    "cuEventDestroy_v2",
					    "cuStreamDestroy_v2",
					    "cuMemFreeHost",
					    "cuMemFree_v2",
					    "cuModuleUnload",
					    "cuCtxPushCurrent_v2",
					    "cuCtxPopCurrent_v2",
					    "cuDevicePrimaryCtxRelease_v2"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return 1;
	return 0;
}

static void
live_check(const struct sl_standin_live *before, const char *what)
{
	struct sl_standin_live now;
	char text[512];

	t.standin->live(&now);
	if (!memcmp(&now, before, sizeof(now)) && !t.standin->violations())
		return;
	printf("%s: left: %zd handles, %zd mappings, %zd reservations, %zd pinned, %zd "
	       "streams, "
	       "%zd events; %s\n",
	       what, now.handles - before->handles, now.mappings - before->mappings,
	       now.reservations - before->reservations, now.pinned - before->pinned,
	       now.streams - before->streams, now.events - before->events,
	       t.standin->last_violation(text, sizeof(text)));
	exit(1);
}

/* One run with failures injected; 0: none came up. */
static int
script_with(const char *name, const char *spec, int lost)
{
	static uint64_t words[TILES * WORDS];
	struct script s = {0};
	struct sl_standin_live before;
	struct cu_context *context;
	uint64_t fired;
	int rc, opened;

	t.standin->violations_reset();
	t.standin->live(&before);
	CHECK(t.standin->fail_set(spec) == 0);
	opened = script_open(&s, words) == 0;
	if (opened)
		script_run(&s);
	fired = t.standin->fail_fired();
	CHECK(t.standin->fail_set(NULL) == 0);
	while (SL_CUDA(t.driver, cuCtxGetCurrent, &context) == 0 && context != t.context)
		CHECK(!t.driver->cuCtxPopCurrent(&context)); /* of a pop that failed */
	if (!fired && s.errors) {
		printf("%s: nothing was injected, but %u calls failed: %s\n", spec,
		       s.errors, sluice_last_error());
		exit(1);
	}
	if (s.space) {
		CHECK_OK(sluice_space_check(s.space));
		if (!lost && opened)
			script_contents(&s, spec);
		CHECK_OK(sluice_space_check(s.space));
		sluice_event_destroy(s.event);
		sluice_stream_destroy(s.stream);
		rc = sluice_space_destroy(s.space);
		if (opened)
			script_file(&s, spec, words, !lost && !s.errors);
		CHECK(!rc || s.errors || lost);
	}
	unlink(s.path);
	if (!lost && !call_gives_back(name))
		live_check(&before, spec);
	t.standin->violations_reset();
	return fired != 0;
}

static void
driver_error_at_each_call(void)
{
	int late = FEWER > 2 || getenv("CUDA_STANDIN_LATE_US");
	int all = getenv("SWEEP_ALL") != NULL;
	unsigned runs = 0, points = 0;

	cuda_test_open(&t);
	log_catch();
	CHECK(!script_with("", "cuMemMap:1000000", 0));
	for (size_t i = 0; i < sizeof(call_names) / sizeof(call_names[0]); i++) {
		unsigned n = 1;
		char spec[64];

		if (late && !strstr(call_names[i], "Async") &&
		    !strstr(call_names[i], "Stream") && !strstr(call_names[i], "Event"))
			continue;
		/* The first ones, then ever fewer; or each of them. */
		for (int fired = 1; fired; n = all ? n + 1 : FEWER * n, runs++) {
			snprintf(spec, sizeof(spec), "%s:%u", call_names[i], n);
			fired = script_with(call_names[i], spec, 0);
			points += fired != 0;
		}
	}
	printf("%u runs, %u failures injected\n", runs, points);
	CHECK(points > (late ? 15 : 60));
	_exit(0); /* calls that gave nothing back have left things */
}

/* ---- a lost context ----------------------------------------------------------------------- */

/* One process for each: a lost context stays lost. */
static void
lost_with(const char *spec)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		cuda_test_open(&t);
		log_catch();
		if (!script_with("", spec, 1))
			_exit(42);
		fflush(stdout);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	printf("%s: %s %d\n", spec, WIFSIGNALED(status) ? "signal" : "exit status",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	exit(1);
}

static void
context_is_lost_at_any_point(void)
{
	static const char *const specs[] = {
		"exec.kernel:1:700",  "exec.kernel:3:700", "exec.kernel:7:719",
		"exec.kernel:12:700", "exec.copy:1:700",   "exec.copy:2:719",
		"exec.copy:5:700",    "exec.copy:9:700",   "exec.memset:1:700",
		"*:700:700",          "*:900:700",         "*:1200:700",
	};

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		lost_with(specs[i]);
}

static void
lost_context_names_launch_and_ranges(void)
{
	struct sluice_space *s;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t *p, *q, value;
	char range[64];

	cuda_test_open(&t);
	log_catch();
	s = cuda_test_space(8, 64, NULL);
	CHECK_OK(sluice_alloc(s, 16 * MIB, 0, (void **)&p));
	CHECK_OK(sluice_alloc(s, 4 * MIB, 0, (void **)&q));
	for (uint64_t i = 0; i < 4 * MIB / 8; i++)
		q[i] = i;
	use = (struct sluice_use){p + WORDS, TILE, SLUICE_USE_WRITE_ALL};
	CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
	cuda_test_launch(&t, s, NULL, TEST_DELAY, NULL, 0, 50000000);
	/* A pointer that leads nowhere. */
	cuda_test_launch(&t, s, NULL, TEST_ADD, (char *)p + ((uint64_t)1 << 34), 8, 1);
	sluice_launch_end(l);
	CHECK(sluice_stream_synchronize(s, NULL) == -EFAULT);
	CHECK(error_has("CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
	CHECK(error_has("launch 1 ("));
	snprintf(range, sizeof(range), "2097152 of anonymous at %p", (void *)(p + WORDS));
	CHECK(error_has(range));
	CHECK_OK(sluice_space_check(s));
	/* No launch that needs something begins any more; host code has what was in host memory. */
	use.addr = p + 3 * WORDS;
	CHECK(sluice_launch_begin(s, NULL, &use, 1, &l) < 0);
	CHECK(error_has("700"));
	for (uint64_t i = 0; i < 4 * MIB / 8; i += 511)
		CHECK(!word_read(q + i, &value) && value == i);
	CHECK(!word_write(q + 9, 1));
	/* What only the device had is not made up. */
	CHECK(word_read(p + WORDS + 5, &value) == SIGBUS);
	CHECK(log_has("700"));
	CHECK_OK(sluice_space_check(s));
	sl_ignore(sluice_space_destroy(s));
	fflush(stdout);
	_exit(0); /* the context is beyond giving back */
}

/* ---- captured streams --------------------------------------------------------------------- */

static void
a_captured_stream_is_refused(void)
{
	struct sluice_space *s;
	struct sluice_stream *stream, *own;
	struct sluice_event *event;
	struct cu_stream *native;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t calls;
	char *p;

	cuda_test_open(&t);
	s = cuda_test_space(16, 64, NULL);
	CHECK_OK(SL_CUDA(t.driver, cuStreamCreate, &native, CU_STREAM_NONBLOCKING));
	CHECK_OK(sluice_stream_wrap(s, native, &stream));
	CHECK_OK(sluice_stream_create(s, &own));
	CHECK_OK(sluice_event_create(s, &event));
	CHECK_OK(sluice_alloc(s, 8 * MIB, 0, (void **)&p));
	use = (struct sluice_use){p, 4 * MIB, SLUICE_USE_WRITE_ALL};
	for (int resident = 0; resident < 2; resident++) {
		CHECK(t.standin->stream_capture(native, 1) == 0);
		CHECK(t.standin->stream_capture(sluice_stream_native(s, own), 1) == 0);
		t.standin->calls_reset();
		CHECK(sluice_launch_begin(s, stream, &use, 1, &l) == -EBUSY);
		CHECK(error_has("captured into a graph"));
		CHECK(sluice_launch_begin(s, own, &use, 1, &l) == -EBUSY);
		CHECK(sluice_stream_synchronize(s, stream) == -EBUSY);
		CHECK(sluice_stream_callback(s, stream, script_nothing, NULL) == -EBUSY);
		CHECK(sluice_prefetch(s, p, TILE, SLUICE_TIER_DEVICE, stream) == -EBUSY);
		CHECK(sluice_evict(s, p, TILE, SLUICE_TIER_HOST, stream) == -EBUSY);
		CHECK(sluice_discard(s, p, TILE, SLUICE_DISCARD_LAZY, stream) == -EBUSY);
		calls = t.standin->calls("*") - t.standin->calls("cuStreamIsCapturing") -
			t.standin->calls("cuCtxPushCurrent_v2") -
			t.standin->calls("cuCtxPopCurrent_v2") -
			t.standin->calls("cuEventQuery");
		CHECK(calls == 0); /* nothing enqueued */
		/* Another stream works meanwhile. */
		cuda_test_run(&t, s, NULL, TEST_FILL, p, 4 * MIB / 8, 5,
			      SLUICE_USE_WRITE_ALL);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		CHECK(t.standin->stream_capture(native, 0) == 0);
		CHECK(t.standin->stream_capture(sluice_stream_native(s, own), 0) == 0);
		cuda_test_run(&t, s, stream, TEST_ADD, p, 4 * MIB / 8, 1,
			      SLUICE_USE_READ_WRITE);
		CHECK_OK(sluice_stream_synchronize(s, stream));
	}
	CHECK(((uint64_t *)p)[77] == 77 * K + 6);
	sluice_event_destroy(event);
	sluice_stream_destroy(own);
	sluice_stream_destroy(stream);
	CHECK_OK(SL_CUDA(t.driver, cuStreamDestroy, native));
	CHECK_OK(sluice_unmap(s, p));
	cuda_test_close(&t, s);
}

/* ---- processes ---------------------------------------------------------------------------- */

static void
fork_leaves_the_space_with_the_parent(void)
{
	struct sluice_space *s;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t *p, value;
	int status;
	pid_t pid;

	cuda_test_open(&t);
	s = cuda_test_space(16, 64, NULL);
	CHECK_OK(sluice_alloc(s, 8 * MIB, 0, (void **)&p));
	use = (struct sluice_use){p, 8 * MIB, SLUICE_USE_READ_WRITE};
	cuda_test_run(&t, s, NULL, TEST_FILL, p, MIB, 5, SLUICE_USE_WRITE_ALL);
	CHECK(p[MIB / 2] == MIB / 2 * K + 5); /* some shown to host code, some on the device */
	fflush(stdout);
	pid = fork();
	if (!pid) {
		CHECK(sluice_launch_begin(s, NULL, &use, 1, &l) == -ECHILD);
		CHECK(sluice_stream_synchronize(s, NULL) == -ECHILD);
		CHECK(sluice_unmap(s, p) == -ECHILD);
		CHECK(sluice_space_destroy(s) == -ECHILD);
		CHECK(word_read(p + MIB / 2, &value) != 0); /* never zeros, never the parent's */
		CHECK(word_read(p, &value) != 0);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cuda_test_run(&t, s, NULL, TEST_ADD, p, MIB, 1, SLUICE_USE_READ_WRITE);
	fill_check(p, MIB, 6);
	CHECK_OK(sluice_unmap(s, p));
	cuda_test_close(&t, s);
}

static void
tiles_written_and_read(void)
{
	struct sluice_space *s;
	uint64_t *p;

	cuda_test_open(&t);
	s = cuda_test_space(16, 64, NULL);
	CHECK_OK(sluice_alloc(s, 32 * MIB, 0, (void **)&p));
	for (int round = 0; round < 3; round++) {
		for (uint64_t at = 0; at < 32 * MIB; at += TILE)
			cuda_test_run(&t, s, NULL, TEST_FILL, p + at / 8, WORDS,
				      at + (unsigned)round, SLUICE_USE_WRITE_ALL);
		for (uint64_t at = 0; at < 32 * MIB; at += 4 * TILE)
			fill_check(p + at / 8, WORDS, at + (unsigned)round);
	}
	CHECK_OK(sluice_unmap(s, p));
	cuda_test_close(&t, s);
}

static void
two_processes_on_one_gpu(void)
{
	pid_t pid[2];
	int status;

	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (!pid[i]) {
			tiles_written_and_read();
			fflush(stdout);
			_exit(0);
		}
	}
	for (int i = 0; i < 2; i++) {
		CHECK(waitpid(pid[i], &status, 0) == pid[i]);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

/* ---- host code and what kernels hold ------------------------------------------------------ */

static void
touches_of_what_is_held(const char *config)
{
	struct sluice_space *s;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t *p, value;

	s = cuda_test_space(16, 64, config);
	CHECK_OK(sluice_alloc(s, 8 * MIB, 0, (void **)&p));
	cuda_test_run(&t, s, NULL, TEST_FILL, p, MIB, 5, SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	use = (struct sluice_use){p, TILE, SLUICE_USE_READ_WRITE};
	CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
	CHECK(word_read(p + 9, &value) == SIGBUS);
	CHECK(log_has("in a sluice_launch_begin() of this thread"));
	CHECK(word_write(p + 9, 1) == SIGBUS);
	CHECK(!word_read(p + WORDS + 9, &value) && value == (WORDS + 9) * K + 5);
	sluice_launch_end(l);
	CHECK(!word_read(p + 9, &value) && value == 9 * K + 5);
	CHECK_OK(sluice_pin(s, p, TILE));
	CHECK(word_read(p + 9, &value) == SIGBUS);
	CHECK(log_has("which sluice_pin() holds on the device: unpin it first"));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_unpin(s, p, TILE));
	CHECK(!word_write(p + 9, 1));
	CHECK(!word_read(p + 10, &value) && value == 10 * K + 5);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
host_code_cannot_have_what_kernels_hold(void)
{
	cuda_test_open(&t);
	log_catch();
	touches_of_what_is_held("faults=thread");
	touches_of_what_is_held("faults=signal");
	cuda_test_close(&t, NULL);
}

/* ---- the runner --------------------------------------------------------------------------- */

static const struct failure_case {
	const char *name;
	void (*run)(void);
	int needs_standin;
	const char *variable, *value, *variable2, *value2;
} cases[] = {
	{"no_driver", no_driver, 0, "SLUICE_CUDA_LIBRARY", "/nowhere/libcuda.so.1", NULL, NULL},
	{"old_driver", old_driver, 1, "CUDA_STANDIN_VERSION", "11080", NULL, NULL},
	{"no_device", no_device, 1, "CUDA_STANDIN_DEVICES", "0", NULL, NULL},
	{"driver_that_does_not_start", driver_that_does_not_start, 1, "CUDA_STANDIN_INIT",
	 "999", NULL, NULL},
	{"no_virtual_memory_management", no_virtual_memory_management, 1,
	 "CUDA_STANDIN_NO_VMM", "1", NULL, NULL},
	{"device_number_that_is_not_there", device_number_that_is_not_there, 1, NULL,
	 NULL, NULL, NULL},
	{"out_of_device_memory_below_the_budget", out_of_device_memory_below_the_budget,
	 1, NULL, NULL, NULL, NULL},
	{"pinned_memory_is_refused", pinned_memory_is_refused, 1,
	 "CUDA_STANDIN_HOST_BYTES", "24M", NULL, NULL},
	{"pinned_memory_is_refused (no host VMM)", pinned_memory_is_refused, 1,
	 "CUDA_STANDIN_HOST_BYTES", "24M", "CUDA_STANDIN_NO_HOST_VMM", "1"},
	{"a_program_that_also_uses_cumemalloc", a_program_that_also_uses_cumemalloc, 0,
	 NULL, NULL, NULL, NULL},
	{"driver_error_at_each_call", driver_error_at_each_call, 1, NULL, NULL, NULL, NULL},
	{"driver_error_at_each_call (late)", driver_error_at_each_call, 1,
	 "CUDA_STANDIN_LATE_US", "200", "CUDA_STANDIN_NO_HOST_VMM", "1"},
	{"context_is_lost_at_any_point", context_is_lost_at_any_point, 1, NULL, NULL,
	 NULL, NULL},
	{"context_is_lost_at_any_point (late)", context_is_lost_at_any_point, 1,
	 "CUDA_STANDIN_LATE_US", "2000", NULL, NULL},
	{"lost_context_names_launch_and_ranges", lost_context_names_launch_and_ranges, 0,
	 NULL, NULL, NULL, NULL},
	{"a_captured_stream_is_refused", a_captured_stream_is_refused, 1, NULL, NULL,
	 NULL, NULL},
	{"fork_leaves_the_space_with_the_parent", fork_leaves_the_space_with_the_parent,
	 0, NULL, NULL, NULL, NULL},
	{"two_processes_on_one_gpu", two_processes_on_one_gpu, 0, NULL, NULL, NULL, NULL},
	{"host_code_cannot_have_what_kernels_hold",
	 host_code_cannot_have_what_kernels_hold, 0, NULL, NULL, NULL, NULL},
};

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
		execl("/proc/self/exe", "test_failure", "--case", c->name, (char *)NULL);
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
main(int argc, char **argv)
{
	const char *only = argc == 2 ? argv[1] : NULL;
	int standin = getenv("SLUICE_CUDA_LIBRARY") != NULL;
	unsigned failed = 0, passed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3) {
		signal(SIGSEGV, on_fault);
		signal(SIGBUS, on_fault);
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			if (strcmp(cases[i].name, argv[2]))
				continue;
			cases[i].run();
			return 0;
		}
		return 1;
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
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
