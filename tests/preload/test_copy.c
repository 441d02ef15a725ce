/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every copy and fill of the driver, in both forms, between memory of every kind, has its usual
 * effect under the preload library. The cases: all data fit the device; a call touches more than
 * that; the driver refuses a range in different places. Each is a process of its own, for
 * settings are read once. Its counters come from the file that it leaves.
 *
 * Argument: a seed.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "copy_test.h"

#define BIG_BYTES (((size_t)5 << 20) + 4096 + 48)

struct setting {
	const char *name, *budget;
	int no_mixed;
	size_t more_bytes; /* allocated besides, and used by nobody */
};

static const struct setting settings[] = {
	{"all fits", "128M", 0, 0},
	{"larger than the device", "8M", 0, 24u << 20},
	{"larger than the device, and no copies across places", "8M", 1, 24u << 20},
};

static struct sl_rng rng;
static struct cu_stream *stream;
static struct cu_context *context;

static int
wrong_driver_calls(const struct sl_standin *standin)
{
	char text[256];

	if (!standin->violations())
		return 0;
	printf("%llu rules broken, the last: %s\n",
	       (unsigned long long)standin->violations(),
	       standin->last_violation(text, sizeof(text)));
	return 1;
}

/* A box that fits both sides, the first byte of each wherever there is room. */
static void
work_shape(struct work *w, const struct call *call)
{
	size_t to = w->to->bytes, from = w->from ? w->from->bytes : SIZE_MAX;
	size_t least = to < from ? to : from,
	       unit = call->element_bytes ? call->element_bytes : 1;

	w->depth = call->dimensions > 2 ? 1 + sl_rng_below(&rng, 4) : 1;
	w->height = call->dimensions > 1 ? 1 + sl_rng_below(&rng, 24) : 1;
	w->width = 1 + sl_rng_below(&rng, least / w->height / w->depth / 2);
	if (call->dimensions == 1 && sl_rng_below(&rng, 3) == 0)
		w->width = least; /* all of it */
	w->width -= w->width % unit;
	if (!w->width)
		w->width = unit;
	w->to_pitch = w->width + unit * sl_rng_below(&rng, 3);
	w->from_pitch = w->width + sl_rng_below(&rng, 3);
	w->to_rows = w->height;
	w->from_rows = w->height;
	if (w->to_pitch * w->height * w->depth > to)
		w->to_pitch = w->width;
	if (w->from_pitch * w->height * w->depth > from)
		w->from_pitch = w->width;
	w->to_at = sl_rng_below(&rng, to - w->to_pitch * w->height * w->depth + 1);
	w->to_at -= w->to_at % unit;
	w->from_at = w->from ? sl_rng_below(&rng,
					    from - w->from_pitch * w->height * w->depth + 1)
			     : 0;
	w->value = (unsigned)sl_rng_next(&rng);
	w->element_bytes = unit;
}

static void
call_try(const struct call *call, struct buffer *to, struct buffer *from)
{
	struct work w = {.to = to, .from = from, .context = context};
	int result;

	if (call->async && (call->named_stream || sl_rng_below(&rng, 2)))
		w.stream = stream;
	work_shape(&w, call);
	result = call->run(&w);
	if (result) {
		printf("%s: %d (kinds %d and %d, %zu x %zu x %zu at %zu and %zu)\n",
		       call->name, result, to->kind, from ? from->kind : 0, w.width,
		       w.height, w.depth, w.to_at, w.from_at);
		exit(1);
	}
	work_shadow(&w);
	buffer_check(to, call->name);
	if (from && sl_rng_below(&rng, 8) == 0)
		buffer_check(from, call->name);
}

static const enum kind kinds[] = {KIND_OURS, KIND_DRIVERS, KIND_PAGEABLE, KIND_PINNED};

static void
every_call_between_all_kinds(void)
{
	struct buffer to[4], from[4];

	for (int i = 0; i < 4; i++) {
		size_t bytes = kinds[i] == KIND_DRIVERS ? DRIVERS_BYTES : BIG_BYTES;

		buffer_make(&to[i], kinds[i], bytes);
		if (kinds[i] != KIND_DRIVERS)
			buffer_make(&from[i], kinds[i], bytes);
	}
	for (size_t n = 0; n < n_copy_calls; n++) {
		const struct call *call = &copy_calls[n];

		for (int i = 0; i < 4; i++) {
			if (!(call->to & kinds[i]))
				continue;
			if (!call->from)
				call_try(call, &to[i], NULL);
			for (int k = 0; k < 4; k++) {
				struct buffer *source = kinds[k] == KIND_DRIVERS ? &to[k]
										 : &from[k];

				/* Host to host is the driver's business alone. */
				if ((call->from & kinds[k]) && source != &to[i] &&
				    ((kinds[i] | kinds[k]) & KIND_DEVICE))
					call_try(call, &to[i], source);
			}
		}
	}
	for (int i = 0; i < 4; i++) {
		buffer_check(&to[i], "all");
		if (kinds[i] != KIND_DRIVERS)
			buffer_free(&from[i]);
		buffer_free(&to[i]);
	}
}

/* From one part of a block to another, near and far: both are uses of the same chunks. */
static void
parts_of_one_block_are_copied(void)
{
	static const size_t distances[] = {64, 4096, (size_t)2 << 20, (size_t)5 << 19};
	struct buffer block;

	buffer_make(&block, KIND_OURS, BIG_BYTES);
	for (size_t i = 0; i < sizeof(distances) / sizeof(distances[0]); i++) {
		struct work w = {.to = &block,
				 .from = &block,
				 .to_at = distances[i],
				 .width = distances[i],
				 .height = 1,
				 .depth = 1};

		MUST(DRIVER(cuMemcpyDtoD_v2)(block.addr + w.to_at, block.addr, w.width));
		work_shadow(&w);
		buffer_check(&block, "a copy inside a block");
	}
	/* A batch that reads what it also writes is undefined, but is not refused by us. */
	{
		uint64_t to[2] = {block.addr + 128, block.addr + 512};
		uint64_t from[2] = {block.addr, block.addr + 128};
		size_t bytes[2] = {64, 64}, first = 0;
		struct cu_copy_attributes attributes = {.access_order = 1};

		MUST(DRIVER(cuMemcpyBatchAsync_v2)(to, from, bytes, 2, &attributes,
						   &first, 1, stream));
		MUST(DRIVER(cuCtxSynchronize)());
	}
	buffer_free(&block);
}

struct cu_array_shape {
	size_t width, height;
	int format;
	unsigned n_channels;
};

int cuArrayCreate_v2(struct cu_array **array, const struct cu_array_shape *shape);
int cuArrayDestroy(struct cu_array *array);

/* Through an array and back, by each pair of calls. */
static void
arrays_take_and_give(void)
{
	const struct cu_array_shape shape = {.width = BIG_BYTES, .format = 1, .n_channels = 1};
	struct buffer ours, host;
	struct cu_array *array;

	buffer_make(&ours, KIND_OURS, BIG_BYTES);
	buffer_make(&host, KIND_PAGEABLE, BIG_BYTES);
	MUST(DRIVER(cuArrayCreate_v2)(&array, &shape));
	for (int own = 0; own < 2; own++) {
		size_t at = 1000 + (size_t)own, n = BIG_BYTES - 2 * at;
		struct work w = {.to = &ours,
				 .from = &host,
				 .to_at = at,
				 .from_at = 5,
				 .width = n,
				 .height = 1,
				 .depth = 1};
		struct work back = {.to = &host,
				    .from = &ours,
				    .to_at = 7,
				    .from_at = at,
				    .width = n,
				    .height = 1,
				    .depth = 1};
		void *source = (char *)(uintptr_t)host.addr + w.from_at;
		void *target = (char *)(uintptr_t)host.addr + back.to_at;

		MUST((own ? DRIVER(cuMemcpyHtoA_v2_ptds)
			  : DRIVER(cuMemcpyHtoA_v2))(array, at, source, n));
		MUST((own ? DRIVER(cuMemcpyAtoD_v2_ptds)
			  : DRIVER(cuMemcpyAtoD_v2))(ours.addr + at, array, at, n));
		work_shadow(&w);
		buffer_check(&ours, "array to device");
		MUST(DRIVER(cuMemsetD8_v2)(ours.addr, 7, 4096));
		memset(ours.shadow, 7, 4096);
		MUST((own ? DRIVER(cuMemcpyDtoA_v2_ptds)
			  : DRIVER(cuMemcpyDtoA_v2))(array, 3, ours.addr + at, n));
		MUST((own ? DRIVER(cuMemcpyAtoH_v2_ptds)
			  : DRIVER(cuMemcpyAtoH_v2))(target, array, 3, n));
		work_shadow(&back);
		buffer_check(&host, "array to host");
		MUST((own ? DRIVER(cuMemcpyHtoAAsync_v2_ptsz)
			  : DRIVER(cuMemcpyHtoAAsync_v2))(array, 0, source, n, stream));
		MUST((own ? DRIVER(cuMemcpyAtoHAsync_v2_ptsz)
			  : DRIVER(cuMemcpyAtoHAsync_v2))(target, array, 0, n, stream));
		MUST(DRIVER(cuCtxSynchronize)());
		memmove(host.shadow + back.to_at, host.shadow + w.from_at, n);
		buffer_check(&host, "through an array on a stream");
	}
	MUST(DRIVER(cuArrayDestroy)(array));
	buffer_free(&ours);
	buffer_free(&host);
}

/* What the driver refuses is refused, and what is there stays when nothing had to move. */
static void
nonsense_is_the_drivers_to_refuse(void)
{
	struct buffer ours;
	size_t failed = 0;

	buffer_make(&ours, KIND_OURS, 4096);
	CHECK(DRIVER(cuMemsetD32_v2)(ours.addr + 1, 0, 1));
	CHECK(DRIVER(cuMemsetD32_v2)(ours.addr, 0, SIZE_MAX / 2));
	CHECK(DRIVER(cuMemcpyBatchAsync)(&ours.addr, &ours.addr, &ours.bytes, 1, NULL,
					 NULL, 0, &failed, stream));
	CHECK(failed == SIZE_MAX);
	MUST(DRIVER(cuMemcpyDtoD_v2)(ours.addr, ours.addr, 0));
	buffer_check(&ours, "what was refused");
	buffer_free(&ours);
}

static int
setting_run(const struct setting *setting, uint64_t seed, const char *stats)
{
	const struct sl_standin *standin;
	uint64_t more = 0;
	char run[256];

	if (setting->no_mixed)
		setenv("CUDA_STANDIN_NO_MIXED", "1", 1);
	snprintf(run, sizeof(run), "quiet=1,stats=%s", stats);
	setenv("SLUICE_RUN", run, 1);
	sl_rng_init(&rng, seed);
	standin = copy_test_open(setting->budget);
	context = copy_test_context();
	stream = copy_test_stream();
	if (setting->more_bytes)
		MUST(DRIVER(cuMemAlloc_v2)(&more, setting->more_bytes));
	every_call_between_all_kinds();
	parts_of_one_block_are_copied();
	arrays_take_and_give();
	CHECK(!wrong_driver_calls(standin));
	nonsense_is_the_drivers_to_refuse();
	if (more)
		MUST(DRIVER(cuMemFree_v2)(more));
	return 0;
}

/* The number behind "name": in a file of counters; -1: not there. */
static long long
stats_get(const char *path, const char *name)
{
	static char text[65536];
	FILE *f = fopen(path, "r");
	char key[64];
	const char *at;
	size_t n;

	if (!f)
		return -1;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(text, key);
	return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

int
main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20260411;
	int failed = 0;

	printf("seed %llu\n", (unsigned long long)seed);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		char dir[] = "/tmp/sluice-copy-XXXXXX", stats[64];
		long long split;
		int status;
		pid_t child;

		if (!mkdtemp(dir))
			return 1;
		snprintf(stats, sizeof(stats), "%s/stats", dir);
		fflush(stdout);
		child = fork();
		if (!child)
			exit(setting_run(&settings[i], seed, stats));
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 1;
		status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (status == 77)
			return 77;
		split = stats_get(stats, "copies_split");
		if (!status && (stats_get(stats, "copies") <= 0 || split < 0 ||
				(split > 0) != settings[i].no_mixed)) {
			printf("%lld copies, %lld in pieces\n",
			       stats_get(stats, "copies"), split);
			status = 1;
		}
		unlink(stats);
		rmdir(dir);
		printf("%s: %s\n", settings[i].name, status ? "failed" : "ok");
		failed |= status != 0;
	}
	return failed;
}
