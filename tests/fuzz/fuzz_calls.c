/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte string as a sequence of calls on a small space: three bytes a call, for operation,
 * place and size. The first byte chooses the configuration. After every call the invariants
 * hold. Every byte read is the last one written to its page, unless the page was discarded
 * since. Every error is one of the closed list. The sequence is cut at 48 calls.
 *
 * One space per input: slow for a fuzzer, but a finding is then a file that can be replayed.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sluice/sluice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHUNK             ((size_t)2 << 20)
#define PAGE              ((size_t)4096)
#define REGIONS           3u
#define REGION_CHUNKS_MAX 4u
#define PAGES_MAX         (REGION_CHUNKS_MAX * CHUNK / PAGE)
#define CALLS_MAX         48u

/* What a page's first byte must be. */
struct page {
	uint8_t value;
	uint8_t dead; /* discarded since the last write: anything of its own is right */
};

struct region {
	char *addr; /* NULL: not there */
	size_t size_bytes;
	unsigned pins;
	struct page pages[PAGES_MAX];
};

struct model {
	struct sluice_space *space;
	struct region regions[REGIONS];
	uint8_t next_value;
};

static const char *const configs[] = {
	"device_budget=4M,host_budget=0",
	"device_budget=8M,host_budget=4M",
	"device_budget=6M,host_budget=6M,population=page",
	"device_budget=6M,host_budget=4M,population=grow,faults=signal",
	"device_budget=4M,host_budget=4M,policy=uvm",
	"device_budget=6M,host_budget=2M,policy=dragon,store_io=file",
};

static void
broken(const char *what)
{
	fprintf(stderr, "fuzz_calls: %s (%s)\n", what, sluice_last_error());
	abort();
}

static void
result_check(int rc)
{
	static const int known[] = {0,        -EINVAL, -ENOENT, -EACCES, -EFBIG, -ENOMEM,
				    -ENOBUFS, -ENOSPC, -EIO,    -EBUSY,  -EFAULT};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (rc == known[i])
			return;
	}
	broken("an error that is not in the list");
}

static struct sluice_space *
space_make(uint8_t which)
{
	struct sluice_config config;
	struct sluice_space *space;
	int rc;

	if (sluice_config_init(&config) ||
	    sluice_config_parse(&config,
				"device=soft,workers=1,readahead_chunks=2,address=1G,"
				"staging=16M") ||
	    sluice_config_parse(&config,
				configs[which % (sizeof(configs) / sizeof(configs[0]))]))
		broken("configuration");
	rc = sluice_space_create(&config, &space);
	if (rc == -EPERM || rc == -ENOTSUP) {
		printf("skipped: %s\n", sluice_last_error());
		exit(77);
	}
	if (rc)
		broken("no space");
	return space;
}

struct bump_args {
	char *addr;
	size_t size_bytes;
	uint8_t value;
	int writes;
};

/* Write, or read, the first byte of every page of the range. */
static void
kernel_bump(const struct sluice_block *block, void *args)
{
	const struct bump_args *a = args;

	(void)block;
	for (size_t i = 0; i < a->size_bytes; i += PAGE) {
		volatile char *at = a->addr + i;

		if (a->writes)
			*at = (char)a->value;
		else
			(void)*at;
	}
}

static void
pages_written(struct region *r, size_t first, size_t n, uint8_t value)
{
	for (size_t i = first; i < first + n; i++)
		r->pages[i] = (struct page){.value = value};
}

static void
region_check(struct region *r, size_t first, size_t n)
{
	for (size_t i = first; i < first + n; i++) {
		uint8_t seen = (uint8_t) * (volatile char *)(r->addr + i * PAGE);

		if (!r->pages[i].dead && seen != r->pages[i].value)
			broken("a page does not have what was written last");
	}
}

/* One launch over pages [first, first + n) with intent how; by faults where how is the count. */
static void
launch(struct model *m, struct region *r, size_t first, size_t n, uint8_t how)
{
	enum sluice_intent intent = (enum sluice_intent)(how % (SLUICE_USE_COUNT + 1));
	struct bump_args args = {r->addr + first * PAGE, n * PAGE, ++m->next_value,
				 intent != SLUICE_USE_READ};
	struct sluice_use use = {args.addr, args.size_bytes, intent};
	int rc = sluice_launch(m->space, NULL, kernel_bump, (struct sluice_grid){1, 1, 1},
			       &args, sizeof(args), &use, intent != SLUICE_USE_COUNT);

	result_check(rc);
	if (rc || intent == SLUICE_USE_READ)
		return;
	pages_written(r, first, n, args.value);
	for (size_t i = first; intent == SLUICE_USE_SCRATCH && i < first + n; i++)
		r->pages[i].dead = 1;
	/* write-all is a promise for every byte, and only first bytes are looked at */
}

/*
 * A write by host code does not revive what was lazily discarded; a launch does, in pieces that fit
 * the smallest budget.
 */
static void
revive(struct model *m, struct region *r, size_t first, size_t n)
{
	for (size_t i = first; i < first + n; i += CHUNK / PAGE) {
		size_t left = first + n - i;

		launch(m, r, i, left < CHUNK / PAGE ? left : CHUNK / PAGE,
		       SLUICE_USE_READ_WRITE);
		if (sluice_stream_synchronize(m->space, NULL))
			broken("the reviving launch");
	}
}

static void
region_make(struct model *m, struct region *r, uint8_t how)
{
	size_t size = (1 + how % REGION_CHUNKS_MAX) * CHUNK - (how & 0x80 ? 5 * PAGE : 0);
	void *addr;
	int rc = sluice_alloc(m->space, size, how & 0x40 ? SLUICE_NO_READAHEAD : 0, &addr);

	result_check(rc);
	if (rc)
		return;
	memset(r, 0, sizeof(*r));
	r->addr = addr;
	r->size_bytes = size;
}

static void
region_end(struct model *m, struct region *r)
{
	int rc = sluice_unmap(m->space, r->addr);

	if (rc != (r->pins ? -EBUSY : 0))
		broken("unmap");
	if (!rc)
		r->addr = NULL;
}

static void
discard(struct model *m, struct region *r, size_t first, size_t n, uint8_t how)
{
	enum sluice_discard_mode mode = how & 1 ? SLUICE_DISCARD_LAZY : SLUICE_DISCARD_EAGER;
	int rc = sluice_discard(m->space, r->addr + first * PAGE, n * PAGE, mode, NULL);

	result_check(rc);
	if (rc)
		return;
	for (size_t i = first; i < first + n; i++)
		r->pages[i].dead = 1;
	if (mode == SLUICE_DISCARD_LAZY)
		revive(m, r, first, n);
}

static void
pin(struct model *m, struct region *r)
{
	int rc;

	if (r->pins) {
		if (sluice_unpin(m->space, r->addr, PAGE))
			broken("unpin");
		r->pins--;
		return;
	}
	rc = sluice_pin(m->space, r->addr, PAGE);
	result_check(rc);
	r->pins += rc == 0;
}

static void
call(struct model *m, const uint8_t *bytes)
{
	struct region *r = &m->regions[(bytes[0] >> 4) % REGIONS];
	size_t n_pages, first, n;

	if (!r->addr) {
		region_make(m, r, bytes[1]);
		return;
	}
	n_pages = r->size_bytes / PAGE;
	first = bytes[1] * n_pages / 256;
	n = 1 + bytes[2] * (n_pages - first - 1) / 255;
	switch (bytes[0] % 14) {
	case 0:
		region_end(m, r);
		return;
	case 1:
		for (size_t i = first; i < first + n; i++)
			r->addr[i * PAGE] = (char)(m->next_value + 1);
		pages_written(r, first, n, ++m->next_value);
		return;
	case 2:
		region_check(r, first, n);
		return;
	case 3:
	case 4:
	case 5:
		launch(m, r, first, n, bytes[2]);
		result_check(sluice_stream_synchronize(m->space, NULL));
		if (bytes[2] % (SLUICE_USE_COUNT + 1) == SLUICE_USE_SCRATCH)
			revive(m, r, first, n);
		return;
	case 6:
		result_check(sluice_prefetch(m->space, r->addr + first * PAGE, n * PAGE,
					     (enum sluice_tier)(bytes[2] % 3), NULL));
		return;
	case 7:
		result_check(sluice_evict(m->space, r->addr + first * PAGE, n * PAGE,
					  (enum sluice_tier)(bytes[2] % 3), NULL));
		return;
	case 8:
	case 9:
		discard(m, r, first, n, bytes[2]);
		return;
	case 10:
		pin(m, r);
		return;
	case 11:
		result_check(sluice_advise(m->space, r->addr + first * PAGE, n * PAGE,
					   (enum sluice_advice)(
						   bytes[2] % (SLUICE_ADVISE_COUNT + 1))));
		return;
	case 12:
		result_check(sluice_space_set_budget(m->space,
						     (enum sluice_tier)(bytes[1] % 2),
						     (size_t)(bytes[2] % 6) * CHUNK));
		return;
	case 13:
		result_check(sluice_sync(m->space, r->addr, SLUICE_TO_END));
		return;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return 0;
	m->space = space_make(size ? data[0] : 0);
	for (size_t i = 1; i + 3 <= size && i < 3 * CALLS_MAX; i += 3) {
		call(m, data + i);
		if (sluice_space_check(m->space))
			broken("the invariants");
	}
	for (size_t i = 0; i < REGIONS; i++) {
		struct region *r = &m->regions[i];

		if (r->addr)
			region_check(r, 0, r->size_bytes / PAGE);
	}
	if (sluice_space_destroy(m->space))
		broken("destroy");
	free(m);
	return 0;
}
