/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A random run of API calls against a small model. Threads share a space; each owns its files and
 * regions, so it alone knows what they must contain. The model keeps for each 8-byte word what was
 * written last, or ANY after a discard, or WILD. A word carries its owner, its index and a version: where the
 * model says ANY, only zero or an older word of the same owner and place may be read, never other data.
 * After sync and unmap the file is compared too.
 *
 * Kernels run on two streams of each thread while the thread goes on with other ranges; what a kernel is
 * to find is copied at the call. The thread waits for a stream only where it must.
 *
 * The matrix at the end names the configurations. Plain program, see common.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stress/common.h"

#define THREADS         3
#define FILES           2 /* of each thread */
#define REGIONS         3
#define STREAMS         2
#define FILE_BYTES_MAX  (8 * MIB)
#define RANGE_BYTES_MAX (3 * MIB)
#define USE_CHUNKS_MAX  2
#define LOG_LINES       64
#define WORD            sizeof(uint64_t)
#define ANY             UINT64_MAX /* discarded: zero, or what the owner wrote there once */
#define WILD            (UINT64_MAX - 1) /* after scratch use: anything of this space */

/* ---- Words ---- */

static uint64_t
word_make(unsigned owner, uint64_t index, uint64_t version)
{
	return (uint64_t)owner << 52 | (version & 0xfffffff) << 24 | (index & 0xffffff);
}

/* May a reader see this where contents are not known? */
static int
word_is_own(unsigned owner, uint64_t index, uint64_t word)
{
	return !word || (word >> 52 == owner && (word & 0xffffff) == (index & 0xffffff));
}

/* ---- The model ---- */

/* A file at rest: exact words, and its length. */
struct file {
	char path[600];
	unsigned owner;
	size_t size_bytes;
	uint64_t *words; /* all of the file; the last may be cut off */
	int mapped;
};

struct region {
	char *base;        /* NULL: none */
	struct file *file; /* NULL: anonymous */
	size_t first_word; /* of the file, at base */
	size_t size_bytes;
	unsigned owner;
	unsigned flags;
	uint64_t *words; /* what must be read; ANY */
	unsigned char *lazy; /* words whose writes may be lost until a launch or prefetch revives them */
	size_t pin_from, pin_bytes; /* 0: not pinned */
	int tiled_stream; /* stream with work on [busy_from, busy_to); -1: none */
	size_t busy_from, busy_to; /* words */
};

struct player {
	struct sluice_space *space;
	struct sluice_config config;
	unsigned id;
	uint64_t seed, version, step;
	struct sl_rng rng;
	struct file file[FILES];
	struct region region[REGIONS];
	unsigned anonymous; /* how many there were */
	struct sluice_stream *stream[STREAMS];
	int at; /* the region of this step */
	char log[LOG_LINES][160];
};

static _Atomic int pin_taken; /* one region of the space is pinned at a time */
static _Thread_local const struct player *me; /* NULL on the threads of the device */

static void note(struct player *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void
note(struct player *p, const char *fmt, ...)
{
	va_list ap;

	char *line = p->log[p->step % LOG_LINES];
	int n = snprintf(line, sizeof(p->log[0]), "region %d: ", p->at);

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(p->log[0]) - (size_t)n, fmt, ap);
	va_end(ap);
}

static void
log_print(const struct player *p)
{
	printf("  thread %u, last steps:\n", p->id);
	for (uint64_t s = p->step >= LOG_LINES ? p->step - LOG_LINES + 1 : 0;
	     s <= p->step; s++)
		printf("    %llu %s\n", (unsigned long long)s, p->log[s % LOG_LINES]);
	fflush(stdout);
}

static size_t
words_of(size_t bytes)
{
	return (bytes + WORD - 1) / WORD;
}

/* Bytes of word i that are inside size. */
static size_t
word_bytes(size_t size, size_t i)
{
	return size - i * WORD < WORD ? size - i * WORD : WORD;
}

static uint64_t
word_cut(uint64_t word, size_t bytes)
{
	return bytes < WORD ? word & (((uint64_t)1 << bytes * 8) - 1) : word;
}

/* Whether a word read from index i of the region is what it must be. */
static int
word_fits(const struct region *r, size_t i, uint64_t want, uint64_t got)
{
	size_t bytes = word_bytes(r->size_bytes, i);

	got = word_cut(got, bytes);
	if (want == WILD)
		return 1;
	if (want != ANY)
		return got == word_cut(want, bytes);
	/* A word that an earlier mapping cut in two carries nobody's mark. */
	return bytes < WORD || word_is_own(r->owner, r->first_word + i, got) ||
	       (r->file && got == r->file->words[r->first_word + i]);
}

static uint64_t
word_load(const struct region *r, size_t i)
{
	uint64_t got = 0;

	memcpy(&got, r->base + i * WORD, word_bytes(r->size_bytes, i));
	return got;
}

static void
word_check(const struct region *r, size_t i, uint64_t want, uint64_t got, const char *who)
{
	if (!word_fits(r, i, want, got))
		FAIL("%s (thread %d, region %d, step %lld) found word %zu of %s%s to be "
		     "%016llx, not "
		     "%016llx",
		     who, me ? (int)me->id : -1, me ? me->at : -1,
		     me ? (long long)me->step : -1, i,
		     r->file ? r->file->path : "anonymous memory",
		     want == ANY ? " (discarded)" : "", (unsigned long long)got,
		     (unsigned long long)want);
}

/* ---- Choosing ---- */

static uint64_t
below(struct player *p, uint64_t n)
{
	return sl_rng_below(&p->rng, n);
}

static struct region *
region_pick(struct player *p)
{
	p->at = (int)below(p, REGIONS);
	return p->region[p->at].base ? &p->region[p->at] : NULL;
}

/* A range of words, at most two chunks' worth where it is to be used by a launch. */
static void
range_pick(struct player *p, const struct region *r, size_t max_bytes, size_t *from,
	   size_t *n)
{
	size_t words = words_of(r->size_bytes);
	size_t chunk = p->config.chunk_bytes / WORD;
	size_t max = max_bytes / WORD;

	switch (below(p, 4)) {
	case 0: /* a few words somewhere */
		*from = below(p, words);
		*n = 1 + below(p, 64);
		break;
	case 1: /* whole chunks */
		*from = below(p, (words + chunk - 1) / chunk) * chunk;
		*n = chunk * (1 + below(p, USE_CHUNKS_MAX));
		break;
	case 2: /* whole pages */
		*from = below(p, words) / 512 * 512;
		*n = 512 * (1 + below(p, 300));
		break;
	default:
		*from = below(p, words);
		*n = 1 + below(p, max);
		break;
	}
	if (*n > max)
		*n = max;
	if (*n > words - *from)
		*n = words - *from;
	/* At most USE_CHUNKS_MAX chunks in all: what every budget here has room for. */
	if (*from / chunk + USE_CHUNKS_MAX <= (*from + *n - 1) / chunk)
		*n = (*from / chunk + USE_CHUNKS_MAX) * chunk - *from;
}

static size_t
range_bytes(const struct region *r, size_t from, size_t n)
{
	return (from + n) * WORD > r->size_bytes ? r->size_bytes - from * WORD : n * WORD;
}

static int
range_has_any(const struct region *r, size_t from, size_t n)
{
	size_t first = from / 512 * 512, last = (from + n + 511) / 512 * 512;

	for (size_t i = first; i < last && i < words_of(r->size_bytes); i++)
		if (r->words[i] >= WILD)
			return 1;
	return 0;
}

/* Wait until the stream that works on any of these words is done. */
static void
region_settle(struct player *p, struct region *r, size_t from, size_t n)
{
	if (r->tiled_stream < 0 || from >= r->busy_to || from + n <= r->busy_from)
		return;
	OK(sluice_stream_synchronize(p->space, p->stream[r->tiled_stream]));
	r->tiled_stream = -1;
}

/* The stream to work on this region: the one it is busy on, or any. Notes what is busy. */
static unsigned
region_stream(struct player *p, struct region *r, size_t from, size_t n)
{
	if (r->tiled_stream < 0) {
		r->tiled_stream = (int)below(p, STREAMS);
		r->busy_from = from;
		r->busy_to = from + n;
	}
	if (from < r->busy_from)
		r->busy_from = from;
	if (from + n > r->busy_to)
		r->busy_to = from + n;
	return (unsigned)r->tiled_stream;
}

/* ---- Files ---- */

static void
file_compare(const struct file *f, const struct region *r, size_t from, size_t n)
{
	int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	size_t bytes = range_bytes(r, from, n);
	uint64_t *got = calloc(n, WORD);
	ssize_t done;

	if (fd < 0 || !got)
		exit(1);
	done = pread(fd, got, bytes, (off_t)((r->first_word + from) * WORD));
	if (done != (ssize_t)bytes)
		FAIL("%s: %zd bytes read for %zu", f->path, done, bytes);
	for (size_t i = 0; i < n && !stress.failures; i++) {
		uint64_t want = r->words[from + i];

		/* Never written in a mapping that does not read: as before, or zeros. */
		if (!want && !(r->flags & SLUICE_READ))
			want = ANY;
		word_check(r, from + i, want, got[i], "the file");
	}
	free(got);
	close(fd);
}

/* The file at rest: nothing outside the mapping changed; what is in it now is the model from here. */
static void
file_absorb(struct file *f, const struct region *r)
{
	int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	uint64_t *got = calloc(words_of(f->size_bytes), WORD);
	struct stat st;

	if (fd < 0 || !got || fstat(fd, &st))
		exit(1);
	CHECK((size_t)st.st_size == f->size_bytes);
	if (pread(fd, got, f->size_bytes, 0) != (ssize_t)f->size_bytes)
		FAIL("%s: short read", f->path);
	for (size_t i = 0; i < words_of(f->size_bytes) && !stress.failures; i++) {
		size_t end = r->first_word + words_of(r->size_bytes);
		/* The word that holds the mapping's end belongs to both. */
		int inside = i >= r->first_word && i < end;
		int cut = i + 1 == end && r->size_bytes % WORD;

		if (inside && cut)
			continue;
		if (!inside && got[i] != f->words[i])
			FAIL("%s: word %zu outside the mapping changed", f->path, i);
	}
	memcpy(f->words, got, words_of(f->size_bytes) * WORD);
	free(got);
	close(fd);
}

static void
file_make(struct player *p, unsigned k)
{
	struct file *f = &p->file[k];
	int fd;

	f->owner = 1 + p->id * 16 + k;
	f->size_bytes = FILE_BYTES_MAX / 2 + below(p, FILE_BYTES_MAX / 2);
	f->words = calloc(words_of(FILE_BYTES_MAX) + 1, WORD);
	snprintf(f->path, sizeof(f->path), "%s/file.%u.%u", stress.dir, p->id, k);
	fd = open(f->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || !f->words)
		exit(1);
	for (size_t i = 0; i < words_of(f->size_bytes); i++)
		f->words[i] = word_cut(word_make(f->owner, i, 0),
				       word_bytes(f->size_bytes, i));
	if (pwrite(fd, f->words, f->size_bytes, 0) != (ssize_t)f->size_bytes)
		exit(1);
	close(fd);
}

/* ---- Regions ---- */

/* What a fresh mapping with these flags must read. */
static void
region_contents(struct region *r)
{
	size_t n = words_of(r->size_bytes);

	memset(r->lazy, 0, n);
	if (r->file && (r->flags & SLUICE_READ) && !(r->flags & SLUICE_VOLATILE))
		memcpy(r->words, r->file->words + r->first_word, n * WORD);
	else
		memset(r->words, 0, n * WORD);
	if (r->size_bytes % WORD)
		r->words[n - 1] = word_cut(r->words[n - 1], r->size_bytes % WORD);
}

static unsigned
flags_pick(struct player *p)
{
	static const unsigned flags[] = {SLUICE_READ | SLUICE_WRITE,
					 SLUICE_READ | SLUICE_WRITE,
					 SLUICE_READ | SLUICE_WRITE | SLUICE_NO_READAHEAD,
					 SLUICE_READ,
					 SLUICE_WRITE,
					 SLUICE_READ | SLUICE_WRITE | SLUICE_VOLATILE};

	return flags[below(p, sizeof(flags) / sizeof(flags[0]))];
}

static void
step_map(struct player *p)
{
	struct region *r = &p->region[p->at];
	struct file *f = &p->file[below(p, FILES)];
	void *addr = NULL;

	if (r->base)
		return;
	r->tiled_stream = -1;
	r->pin_bytes = 0;
	if (f->mapped || below(p, 3) == 0) {
		r->file = NULL;
		r->first_word = 0;
		r->owner = 1024 + p->id * 1024 + p->anonymous++ % 1000;
		r->size_bytes = 1 + below(p, FILE_BYTES_MAX / 2);
		r->flags = SLUICE_READ | SLUICE_WRITE;
		note(p, "alloc %zu", r->size_bytes);
		OK(sluice_alloc(p->space, r->size_bytes, 0, &addr));
	} else {
		size_t offset = below(p, f->size_bytes / 2) / PAGE * PAGE;
		int whole = below(p, 3) == 0;

		r->file = f;
		r->first_word = offset / WORD;
		r->owner = f->owner;
		r->flags = flags_pick(p);
		r->size_bytes = whole ? f->size_bytes - offset
				      : 1 + below(p, f->size_bytes - offset);
		note(p, "map offset %zu, size %zu, flags 0x%x", offset, r->size_bytes,
		     r->flags);
		OK(sluice_map(p->space, f->path, offset, whole ? 0 : r->size_bytes,
			      r->flags, &addr));
		f->mapped = addr != NULL;
	}
	r->words = calloc(words_of(r->size_bytes), WORD);
	r->lazy = calloc(words_of(r->size_bytes), 1);
	if (!r->words || !r->lazy)
		exit(1);
	region_contents(r);
	r->base = addr;
}

static void
step_unpin(struct player *p, struct region *r)
{
	note(p, "unpin");
	OK(sluice_unpin(p->space, r->base + r->pin_from, r->pin_bytes));
	CHECK(sluice_unpin(p->space, r->base + r->pin_from, r->pin_bytes) == -EINVAL);
	r->pin_bytes = 0;
	atomic_store(&pin_taken, 0);
}

static void
region_end(struct player *p, struct region *r)
{
	if (r->pin_bytes) {
		CHECK(sluice_unmap(p->space, r->base) == -EBUSY);
		step_unpin(p, r);
	}
	note(p, "unmap %s", r->file ? r->file->path : "anonymous");
	/* Launches that are still on their way are waited for by unmap itself. */
	OK(sluice_unmap(p->space, r->base));
	region_settle(p, r, 0, SIZE_MAX / 2);
	if (r->file) {
		if (!(r->flags & SLUICE_VOLATILE))
			file_compare(r->file, r, 0, words_of(r->size_bytes));
		file_absorb(r->file, r);
		r->file->mapped = 0;
	}
	free(r->words);
	free(r->lazy);
	r->base = NULL;
}

static void
step_remap(struct player *p, struct region *r)
{
	unsigned flags = flags_pick(p) & ~(unsigned)SLUICE_NO_READAHEAD;

	if (!r->file || r->pin_bytes ||
	    ((flags & SLUICE_WRITE) && !(r->flags & SLUICE_WRITE)))
		return;
	note(p, "remap 0x%x to 0x%x", r->flags, flags);
	OK(sluice_remap(p->space, r->base, flags));
	region_settle(p, r, 0, SIZE_MAX / 2);
	if (!(r->flags & SLUICE_VOLATILE))
		file_compare(r->file, r, 0, words_of(r->size_bytes));
	file_absorb(r->file, r);
	r->flags = flags;
	region_contents(r);
}

/* ---- Host code ---- */

static void
step_host_read(struct player *p, struct region *r)
{
	size_t from, n, stride = 1 + below(p, 200);

	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	if (p->config.checking && range_has_any(r, from, n))
		return;
	note(p, "host reads %zu + %zu / %zu", from, n, stride);
	region_settle(p, r, from, n);
	for (size_t i = from; i < from + n && !stress.failures; i += stride)
		word_check(r, i, r->words[i], word_load(r, i), "host code");
	/* Behind the end there is nothing. */
	if (from + n == words_of(r->size_bytes) && r->size_bytes % PAGE && !p->config.checking)
		for (size_t at = r->size_bytes; at % PAGE; at++)
			if (r->base[at]) {
				FAIL("byte %zu behind the end is not 0", at - r->size_bytes);
				break;
			}
}

/* One word written by host code or by a kernel that declared nothing. */
static void
word_model_write(struct region *r, size_t i, uint64_t word)
{
	if (!r->lazy[i])
		r->words[i] = word_cut(word, word_bytes(r->size_bytes, i));
	else if (r->words[i] != WILD)
		r->words[i] = ANY;
}

static void
step_host_write(struct player *p, struct region *r)
{
	size_t from, n, stride = 1 + below(p, 100);

	if (!(r->flags & SLUICE_WRITE))
		return;
	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	note(p, "host writes %zu + %zu / %zu", from, n, stride);
	region_settle(p, r, from, n);
	p->version++;
	for (size_t i = from; i < from + n; i += stride) {
		uint64_t word = word_make(r->owner, r->first_word + i, p->version);

		memcpy(r->base + i * WORD, &word, word_bytes(r->size_bytes, i));
		word_model_write(r, i, word);
	}
}

/* ---- Kernels ---- */

/* Blocks share a range; each checks, then writes, its part. */
struct kernel_args {
	struct region shape; /* copy: base, size, owner, first word */
	size_t from, n, stride;
	uint64_t *expected; /* NULL: nothing is read; else every stride-th word; freed by the last */
	uint64_t version;       /* 0: nothing is written */
	_Atomic uint32_t *left; /* blocks to go */
};

static void
kernel(const struct sluice_block *block, void *args)
{
	struct kernel_args *a = args;
	size_t per = (a->n + block->grid.x - 1) / block->grid.x;
	size_t begin = block->index.x * per;
	size_t end = begin + per < a->n ? begin + per : a->n;

	begin = (begin + a->stride - 1) / a->stride * a->stride;
	for (size_t k = begin; k < end; k += a->stride) {
		size_t i = a->from + k;
		uint64_t word = word_make(a->shape.owner, a->shape.first_word + i,
					  a->version);

		if (a->expected)
			word_check(&a->shape, i, a->expected[k / a->stride],
				   word_load(&a->shape, i), "a kernel");
		if (a->version)
			memcpy(a->shape.base + i * WORD, &word,
			       word_bytes(a->shape.size_bytes, i));
	}
	if (atomic_fetch_sub(a->left, 1) == 1) {
		free(a->expected);
		free(a->left);
	}
}

/* What launch calls and scopes have in common: the ranges, the model's part. */
struct plan {
	struct region *r;
	size_t from, n;
	enum sluice_intent intent;
	int declared;
	struct sluice_use use;
};

static int
plan_make(struct player *p, struct region *r, struct plan *plan)
{
	plan->r = r;
	range_pick(p, r, RANGE_BYTES_MAX, &plan->from, &plan->n);
	plan->intent = (enum sluice_intent)below(p, SLUICE_USE_COUNT);
	plan->declared = below(p, 4) != 0;
	if (!(r->flags & SLUICE_WRITE))
		plan->intent = SLUICE_USE_READ;
	if (!plan->declared && plan->intent == SLUICE_USE_SCRATCH)
		plan->intent = SLUICE_USE_WRITE;
	if (p->config.checking && plan->intent != SLUICE_USE_WRITE_ALL &&
	    plan->intent != SLUICE_USE_WRITE && range_has_any(r, plan->from, plan->n))
		return 0;
	plan->use = (struct sluice_use){r->base + plan->from * WORD,
					range_bytes(r, plan->from, plan->n), plan->intent};
	return 1;
}

/* The kernel of a plan, with what it must find, and what it leaves behind entered in the model. */
static struct kernel_args
plan_kernel(struct player *p, const struct plan *plan, uint32_t blocks)
{
	struct region *r = plan->r;
	struct kernel_args a = {.shape = *r, .from = plan->from, .n = plan->n, .stride = 1};
	int reads = plan->intent == SLUICE_USE_READ || plan->intent == SLUICE_USE_READ_WRITE;
	size_t k = 0;

	if (plan->intent != SLUICE_USE_WRITE_ALL || !plan->declared)
		a.stride = 1 + below(p, 60);
	if (plan->intent != SLUICE_USE_READ)
		a.version = ++p->version;
	a.left = malloc(sizeof(*a.left));
	a.expected = reads ? malloc(words_of(plan->n * WORD) / a.stride * WORD + WORD) : NULL;
	if (!a.left || (reads && !a.expected))
		exit(1);
	atomic_store(a.left, blocks);
	for (size_t i = plan->from; i < plan->from + plan->n && plan->declared; i++) {
		if (plan->intent != SLUICE_USE_READ && plan->intent != SLUICE_USE_SCRATCH)
			r->lazy[i] = 0;
	}
	for (size_t i = plan->from; i < plan->from + plan->n; i += a.stride) {
		if (reads)
			a.expected[k++] = r->words[i];
		if (a.version)
			word_model_write(r, i,
					 word_make(r->owner, r->first_word + i, a.version));
	}
	for (size_t i = plan->from;
	     plan->intent == SLUICE_USE_SCRATCH && i < plan->from + plan->n; i++) {
		r->words[i] = WILD;
		r->lazy[i] = 1;
	}
	return a;
}

static void
step_launch(struct player *p, struct region *r)
{
	struct kernel_args a;
	struct plan plan;
	uint32_t blocks = 1 + (uint32_t)below(p, 5);
	unsigned s;

	if (!plan_make(p, r, &plan))
		return;
	note(p, "launch %s intent %d, %zu + %zu, %u blocks",
	     plan.declared ? "declared" : "by faults", (int)plan.intent, plan.from,
	     plan.n, blocks);
	s = region_stream(p, r, plan.from, plan.n);
	a = plan_kernel(p, &plan, blocks);
	OK(sluice_launch(p->space, p->stream[s], kernel, (struct sluice_grid){blocks, 1, 1},
			 &a, sizeof(a), &plan.use, (size_t)plan.declared));
}

/* The thread itself works in a scope; perhaps a kernel on the same range, too. */
static void
step_scope(struct player *p, struct region *r)
{
	struct sluice_block block = {{0, 0, 0}, {1, 1, 1}, 0};
	struct sluice_launch *scope = NULL;
	struct kernel_args a;
	struct plan plan;

	if (!plan_make(p, r, &plan) || !plan.declared)
		return;
	note(p, "scope intent %d, %zu + %zu", (int)plan.intent, plan.from, plan.n);
	region_settle(p, r, plan.from, plan.n);
	if (r->tiled_stream >= 0)
		region_settle(p, r, r->busy_from, 1);
	OK(sluice_launch_begin(p->space, p->stream[0], &plan.use, 1, &scope));
	if (!scope)
		return;
	if (!p->config.checking) /* there the host's own scope has no kernel to be compared with */
		CHECK(sluice_evict(p->space, plan.use.addr, plan.use.size_bytes,
				   SLUICE_TIER_HOST, NULL) == -EBUSY);
	a = plan_kernel(p, &plan, 1);
	kernel(&block, &a);
	sluice_launch_end(scope);
}

/* ---- Moves ---- */

static void
step_prefetch(struct player *p, struct region *r)
{
	enum sluice_tier tier = below(p, 2) ? SLUICE_TIER_DEVICE : SLUICE_TIER_HOST;
	int on_stream = below(p, 2) != 0;
	size_t from, n;
	struct sluice_stream *stream = NULL;

	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	note(p, "prefetch %zu + %zu to %d%s", from, n, (int)tier,
	     on_stream ? " on a stream" : "");
	if (on_stream)
		stream = p->stream[region_stream(p, r, from, n)];
	else
		region_settle(p, r, from, n);
	if (below(p, 3) == 0) {
		uint64_t index[20];

		for (unsigned i = 0; i < 20; i++)
			index[i] = below(p, r->size_bytes);
		OK(sluice_prefetch_index(p->space, r->base, 1, index, 20, tier, stream));
		index[7] = r->size_bytes;
		CHECK(sluice_prefetch_index(p->space, r->base, 1, index, 20, tier,
					    stream) == -EINVAL);
		return;
	}
	OK(sluice_prefetch(p->space, r->base + from * WORD, range_bytes(r, from, n), tier,
			   stream));
	memset(r->lazy + from, 0, n);
}

static void
step_evict(struct player *p, struct region *r)
{
	enum sluice_tier tier = below(p, 2) ? SLUICE_TIER_STORE : SLUICE_TIER_HOST;
	struct sluice_stream *stream = NULL;
	size_t from, n;

	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	note(p, "evict %zu + %zu to %d", from, n, (int)tier);
	if (below(p, 2))
		stream = p->stream[region_stream(p, r, from, n)];
	OK(sluice_evict(p->space, r->base + from * WORD, range_bytes(r, from, n), tier,
			stream));
}

static void
step_pin(struct player *p, struct region *r)
{
	size_t at = below(p, words_of(r->size_bytes)) * WORD;

	if (r->pin_bytes) {
		step_unpin(p, r);
		return;
	}
	/* Two chunks must stay free, and launches need two; so: with four or more, and one pin. */
	if (p->config.device_budget_bytes < 4 * p->config.chunk_bytes ||
	    atomic_exchange(&pin_taken, 1))
		return;
	note(p, "pin %zu", at);
	OK(sluice_pin(p->space, r->base + at, 1));
	r->pin_from = at;
	r->pin_bytes = 1;
}

static void
step_advise(struct player *p, struct region *r)
{
	enum sluice_advice advice = (enum sluice_advice)below(p, SLUICE_ADVISE_COUNT);
	size_t from, n;

	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	note(p, "advise %d", (int)advice);
	/* NORMAL and RANDOM move the region: they wait for what is on the streams. */
	OK(sluice_advise(p->space, r->base + from * WORD, range_bytes(r, from, n), advice));
}

static void
step_sync(struct player *p, struct region *r)
{
	size_t from, n;

	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	note(p, "sync %zu + %zu", from, n);
	OK(sluice_sync(p->space, r->base + from * WORD, range_bytes(r, from, n)));
	if (r->file && (r->flags & SLUICE_WRITE) && !(r->flags & SLUICE_VOLATILE))
		file_compare(r->file, r, from, n);
}

static void
step_discard(struct player *p, struct region *r)
{
	enum sluice_discard_mode mode = below(p, 2) ? SLUICE_DISCARD_LAZY
						    : SLUICE_DISCARD_EAGER;
	struct sluice_stream *stream = NULL;
	size_t from, n;
	int rc;

	if (!(r->flags & SLUICE_WRITE))
		return;
	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	if (below(p, 2))
		stream = p->stream[region_stream(p, r, from, n)];
	else
		region_settle(p, r, from, n);
	note(p, "discard %s %zu + %zu%s", mode == SLUICE_DISCARD_LAZY ? "lazy" : "eager",
	     from, n, stream ? " on a stream" : "");
	rc = sluice_discard(p->space, r->base + from * WORD, range_bytes(r, from, n),
			    mode, stream);
	if (rc == -EBUSY && r->pin_bytes && mode == SLUICE_DISCARD_EAGER)
		return;
	OK(rc);
	for (size_t i = from; i < from + n; i++) {
		if (r->words[i] != WILD)
			r->words[i] = ANY;
		r->lazy[i] = mode == SLUICE_DISCARD_LAZY;
	}
	if (mode == SLUICE_DISCARD_EAGER && stream)
		memset(r->lazy + from, 1, n); /* unmapped when the stream comes to it */
}

/* ---- Looking ---- */

static void
step_look(struct player *p, struct region *r)
{
	struct sluice_residency at;
	struct sluice_stats stats;
	size_t from, n, bytes;

	range_pick(p, r, RANGE_BYTES_MAX, &from, &n);
	bytes = range_bytes(r, from, n);
	note(p, "residency %zu + %zu", from, n);
	OK(sluice_residency(p->space, r->base + from * WORD, bytes, &at));
	if (at.tier_bytes[0] + at.tier_bytes[1] + at.tier_bytes[2] + at.empty_bytes != bytes ||
	    at.dirty_bytes > bytes || at.pinned_bytes > bytes || at.in_flight_bytes > bytes)
		FAIL("residency of %zu bytes: %llu + %llu + %llu + %llu, dirty %llu",
		     bytes, (unsigned long long)at.tier_bytes[0],
		     (unsigned long long)at.tier_bytes[1],
		     (unsigned long long)at.tier_bytes[2],
		     (unsigned long long)at.empty_bytes, (unsigned long long)at.dirty_bytes);
	sluice_stats_get(p->space, &stats);
	CHECK(stats.counter[SLUICE_COUNTER_IO_ERRORS] == 0);
	CHECK(stats.counter[SLUICE_COUNTER_INTENT_ERRORS] == 0);
	CHECK(sluice_residency(p->space, p, 1, &at) == -ENOENT);
}

static void
step_budget(struct player *p)
{
	uint64_t chunks = p->config.device_budget_bytes / p->config.chunk_bytes;
	uint64_t least = chunks < 4 ? chunks : 4; /* see step_pin() */

	if (below(p, 2)) {
		chunks = least + below(p, chunks + 2 - least);
		note(p, "device budget %llu chunks", (unsigned long long)chunks);
		OK(sluice_space_set_budget(p->space, SLUICE_TIER_DEVICE,
					   chunks * p->config.chunk_bytes));
	} else {
		uint64_t bytes = below(p, p->config.host_budget_bytes + 1);

		note(p, "host budget %llu", (unsigned long long)bytes);
		OK(sluice_space_set_budget(p->space, SLUICE_TIER_HOST, bytes));
	}
}

static void
player_step(struct player *p)
{
	unsigned what = (unsigned)below(p, 100);
	struct region *r = region_pick(p);

	note(p, "-");
	if (!r || what < 4)
		step_map(p);
	else if (what < 8)
		region_end(p, r);
	else if (what < 10)
		step_remap(p, r);
	else if (what < 24)
		step_host_read(p, r);
	else if (what < 38)
		step_host_write(p, r);
	else if (what < 60)
		step_launch(p, r);
	else if (what < 65)
		step_scope(p, r);
	else if (what < 71)
		step_prefetch(p, r);
	else if (what < 77)
		step_evict(p, r);
	else if (what < 80)
		step_pin(p, r);
	else if (what < 83)
		step_advise(p, r);
	else if (what < 87)
		step_sync(p, r);
	else if (what < 94)
		step_discard(p, r);
	else if (what < 97)
		step_look(p, r);
	else if (what < 98 && p->id == 0)
		step_budget(p);
	if (p->step % 16 == 0)
		OK(sluice_space_check(p->space));
}

static void *
player_run(void *arg)
{
	struct player *p = arg;

	me = p;
	sl_rng_init(&p->rng, p->seed);
	for (unsigned k = 0; k < FILES; k++)
		file_make(p, k);
	for (unsigned k = 0; k < STREAMS; k++)
		OK(sluice_stream_create(p->space, &p->stream[k]));
	while (!atomic_load(&stress.stop)) {
		player_step(p);
		if (stress.failures)
			break;
		p->step++;
	}
	if (stress.failures) {
		log_print(p);
	} else {
		for (p->at = 0; p->at < REGIONS; p->at++)
			if (p->region[p->at].base)
				region_end(p, &p->region[p->at]);
		if (stress.failures)
			log_print(p);
	}
	for (unsigned k = 0; k < STREAMS; k++)
		sluice_stream_destroy(p->stream[k]);
	for (unsigned k = 0; k < FILES; k++) {
		unlink(p->file[k].path);
		free(p->file[k].words);
	}
	return NULL;
}

static void
run_config(const char *config)
{
	struct player *players = calloc(THREADS, sizeof(*players));
	pthread_t threads[THREADS];
	struct sluice_space *space = stress_space(config);
	struct sluice_config in_force;
	uint64_t steps = 0;

	if (!players)
		exit(1);
	atomic_store(&pin_taken, 0);
	sluice_space_config(space, &in_force);
	for (unsigned i = 0; i < THREADS; i++) {
		players[i].space = space;
		players[i].config = in_force;
		players[i].id = i;
		players[i].seed = stress.seed * THREADS + i;
		if (pthread_create(&threads[i], NULL, player_run, &players[i]))
			exit(1);
	}
	stress_sleep_until(sl_now_ns() + stress.run_ns);
	atomic_store(&stress.stop, 1);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		steps += players[i].step;
	}
	printf("  %llu steps\n", (unsigned long long)steps);
	if (!stress.failures)
		stress_space_end(space);
	free(players);
}

int
main(int argc, char **argv)
{
	static const char *const configs[] = {
		"device_budget=16M,host_budget=0",
		"device_budget=16M,host_budget=8M,faults=signal",
		"device_budget=8M,host_budget=64M,move=copy",
		"device_budget=4M,host_budget=8M,population=grow",
		"device_budget=8M,host_budget=0,population=page",
		"device_budget=8M,host_budget=16M,population=page,faults=signal,policy="
		"dragon",
		"device_budget=8M,host_budget=32M,population=grow,faults=signal,store_io="
		"file",
		"device_budget=8M,host_budget=8M,policy=uvm,move=copy",
		"device_budget=16M,host_budget=16M,policy=dragon,store_io=file,host_"
		"reserve=8M",
		"device_budget=16M,host_budget=8M,chunk=4M,population=grow,move=copy",
		"device_budget=6M,host_budget=4M,readahead_chunks=16,store_io=uring",
		"device_budget=16M,host_budget=16M,checking=1",
		"device_budget=8M,host_budget=0,chunk=4M,policy=uvm,faults=signal",
	};

	stress_begin(argc, argv, 3);
	for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]) && !stress.failures; i++)
		if (stress_wants(configs[i]))
			run_config(configs[i]);
	return stress_end();
}
