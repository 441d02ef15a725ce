/* SPDX-License-Identifier: Apache-2.0 */
/* See failure_script.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cuda/failure_script.h"

struct cuda_test script_cuda;

/* ---- kernels whose launch may fail -------------------------------------------------------- */

static int
kernel(const char *name, struct cu_stream *stream, const void *p, uint64_t n, uint64_t third)
{
	void *params[] = {&p, &n, &third};
	struct cu_function *function;
	int rc = SL_CUDA(script_cuda.driver, cuModuleGetFunction, &function,
			 script_cuda.module, name);

	return rc ? rc
		  : SL_CUDA(script_cuda.driver, cuLaunchKernel, function, 2, 1, 1, 256, 1,
			    1, 0, stream, params, NULL);
}

/* ---- the script --------------------------------------------------------------------------- */

#define TILES 4

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
	tried(s, sluice_sync(s->space, s->file, SLUICE_TO_END));
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

	snprintf(s->path, sizeof(s->path), "/var/tmp/sluice-failure-XXXXXX");
	fd = mkostemp(s->path, O_CLOEXEC);
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
			uint64_t value = 0;
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
	static const char *const names[] = {
		"cuMemUnmap",          "cuMemAddressFree",
		"cuMemRelease",        "cuEventDestroy_v2",
		"cuStreamDestroy_v2",  "cuMemFreeHost",
		"cuMemFree_v2",        "cuModuleUnload",
		"cuCtxPushCurrent_v2", "cuThreadExchangeStreamCaptureMode",
		"cuCtxPopCurrent_v2",  "cuDevicePrimaryCtxRelease_v2"};

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

	script_cuda.standin->live(&now);
	if (!memcmp(&now, before, sizeof(now)) && !script_cuda.standin->violations())
		return;
	printf("%s: left: %zd handles, %zd mappings, %zd reservations, %zd pinned, %zd "
	       "streams, "
	       "%zd events; %s\n",
	       what, now.handles - before->handles, now.mappings - before->mappings,
	       now.reservations - before->reservations, now.pinned - before->pinned,
	       now.streams - before->streams, now.events - before->events,
	       script_cuda.standin->last_violation(text, sizeof(text)));
	exit(1);
}

unsigned script_calls;

int
script_with(const char *name, const char *spec, int lost)
{
	static uint64_t words[TILES * WORDS];
	struct script s = {0};
	struct sl_standin_live before;
	struct cu_context *context;
	uint64_t fired;
	int rc, opened;

	script_cuda.standin->violations_reset();
	script_cuda.standin->live(&before);
	CHECK(script_cuda.standin->fail_set(spec) == 0);
	script_cuda.standin->calls_reset();
	opened = script_open(&s, words) == 0;
	if (opened)
		script_run(&s);
	fired = script_cuda.standin->fail_fired();
	script_calls = (unsigned)(script_cuda.standin->calls("*") -
				  script_cuda.standin->calls("cuEventQuery") -
				  script_cuda.standin->calls("cuStreamQuery"));
	CHECK(script_cuda.standin->fail_set(NULL) == 0);
	while (SL_CUDA(script_cuda.driver, cuCtxGetCurrent, &context) == 0 &&
	       context != script_cuda.context)
		CHECK(!script_cuda.driver->cuCtxPopCurrent(&context)); /* of a pop that failed */
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
	script_cuda.standin->violations_reset();
	return fired != 0;
}
