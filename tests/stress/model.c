/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words, the log, ranges, and files at rest: see model.h.
 */
#include "stress/model.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Thread_local const struct player *model_player;

/* ---- Words ---- */

uint64_t
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

/* ---- The log ---- */

void
player_note(struct player *p, const char *fmt, ...)
{
	va_list ap;

	char *line = p->log[p->step % LOG_LINES];
	int n = snprintf(line, sizeof(p->log[0]), "region %d: ", p->at);

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(p->log[0]) - (size_t)n, fmt, ap);
	va_end(ap);
}

void
player_log_print(const struct player *p)
{
	printf("  thread %u, last steps:\n", p->id);
	for (uint64_t s = p->step >= LOG_LINES ? p->step - LOG_LINES + 1 : 0;
	     s <= p->step; s++)
		printf("    %llu %s\n", (unsigned long long)s, p->log[s % LOG_LINES]);
	fflush(stdout);
}

/* ---- What must be read ---- */

size_t
words_of(size_t bytes)
{
	return (bytes + WORD - 1) / WORD;
}

/* Bytes of word i that are inside size. */
size_t
word_bytes(size_t size, size_t i)
{
	return size - i * WORD < WORD ? size - i * WORD : WORD;
}

uint64_t
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

uint64_t
word_load(const struct region *r, size_t i)
{
	uint64_t got = 0;

	memcpy(&got, r->base + i * WORD, word_bytes(r->size_bytes, i));
	return got;
}

void
word_check(const struct region *r, size_t i, uint64_t want, uint64_t got, const char *who)
{
	if (!word_fits(r, i, want, got))
		FAIL("%s (thread %d, region %d, step %lld) found word %zu of %s%s to be "
		     "%016llx, not "
		     "%016llx",
		     who, model_player ? (int)model_player->id : -1,
		     model_player ? model_player->at : -1,
		     model_player ? (long long)model_player->step : -1, i,
		     r->file ? r->file->path : "anonymous memory",
		     want == ANY ? " (discarded)" : "", (unsigned long long)got,
		     (unsigned long long)want);
}

/* ---- Choosing ---- */

uint64_t
player_below(struct player *p, uint64_t n)
{
	return sl_rng_below(&p->rng, n);
}

struct region *
region_pick(struct player *p)
{
	p->at = (int)player_below(p, REGIONS);
	return p->region[p->at].base ? &p->region[p->at] : NULL;
}

/* A range of words, at most two chunks' worth where it is to be used by a launch. */
void
range_pick(struct player *p, const struct region *r, size_t max_bytes, size_t *from,
	   size_t *n)
{
	size_t words = words_of(r->size_bytes);
	size_t chunk = p->config.chunk_bytes / WORD;
	size_t max = max_bytes / WORD;

	switch (player_below(p, 4)) {
	case 0: /* a few words somewhere */
		*from = player_below(p, words);
		*n = 1 + player_below(p, 64);
		break;
	case 1: /* whole chunks */
		*from = player_below(p, (words + chunk - 1) / chunk) * chunk;
		*n = chunk * (1 + player_below(p, USE_CHUNKS_MAX));
		break;
	case 2: /* whole pages */
		*from = player_below(p, words) / 512 * 512;
		*n = 512 * (1 + player_below(p, 300));
		break;
	default:
		*from = player_below(p, words);
		*n = 1 + player_below(p, max);
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

size_t
range_bytes(const struct region *r, size_t from, size_t n)
{
	return (from + n) * WORD > r->size_bytes ? r->size_bytes - from * WORD : n * WORD;
}

int
range_has_any(const struct region *r, size_t from, size_t n)
{
	size_t first = from / 512 * 512, last = (from + n + 511) / 512 * 512;

	for (size_t i = first; i < last && i < words_of(r->size_bytes); i++)
		if (r->words[i] >= WILD)
			return 1;
	return 0;
}

/* Wait until the stream that works on any of these words is done. */
void
region_settle(struct player *p, struct region *r, size_t from, size_t n)
{
	if (r->tiled_stream < 0 || from >= r->busy_to || from + n <= r->busy_from)
		return;
	OK(sluice_stream_synchronize(p->space, p->stream[r->tiled_stream]));
	r->tiled_stream = -1;
}

/* The stream to work on this region: the one it is busy on, or any. Notes what is busy. */
unsigned
region_stream(struct player *p, struct region *r, size_t from, size_t n)
{
	if (r->tiled_stream < 0) {
		r->tiled_stream = (int)player_below(p, STREAMS);
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

void
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
void
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

void
file_make(struct player *p, unsigned k)
{
	struct file *f = &p->file[k];
	int fd;

	f->owner = 1 + p->id * 16 + k;
	f->size_bytes = FILE_BYTES_MAX / 2 + player_below(p, FILE_BYTES_MAX / 2);
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
