/* SPDX-License-Identifier: Apache-2.0 */
/* C twins of kernels.cu for the stand-in driver: the grid is shared out by blocks. */
#include <time.h>

#include "cuda/cuda_test.h"

static const struct sl_standin *standin;

#define PIECE 4096u

struct share {
	uint64_t begin, end;
};

static struct share
share_of(const struct sl_standin_block *b, uint64_t n)
{
	uint64_t each = (n + b->grid[0] - 1) / b->grid[0];
	uint64_t begin = each * b->index[0];

	begin = begin < n ? begin : n;
	return (struct share){begin, begin + each < n ? begin + each : n};
}

static uint64_t *
words(const struct sl_standin_block *b, uint64_t p, uint64_t first, uint64_t n, int access)
{
	return standin->ptr(b, p + first * 8, n * 8, access);
}

#define U64(i) (*(const uint64_t *)params[i])

SL_STANDIN_KERNEL
static void
fill(const struct sl_standin_block *b, void *const *params)
{
	struct share s = share_of(b, U64(1));

	for (uint64_t i = s.begin; i < s.end; i += PIECE) {
		uint64_t n = s.end - i < PIECE ? s.end - i : PIECE;
		uint64_t *p = words(b, U64(0), i, n, SL_STANDIN_WRITE);

		for (uint64_t k = 0; k < n; k++)
			p[k] = (i + k) * 0x9e3779b97f4a7c15ull + U64(2);
	}
}

SL_STANDIN_KERNEL
static void
add(const struct sl_standin_block *b, void *const *params)
{
	struct share s = share_of(b, U64(1));

	for (uint64_t i = s.begin; i < s.end; i += PIECE) {
		uint64_t n = s.end - i < PIECE ? s.end - i : PIECE;
		uint64_t *p = words(b, U64(0), i, n, SL_STANDIN_READ | SL_STANDIN_WRITE);

		for (uint64_t k = 0; k < n; k++)
			p[k] += U64(2);
	}
}

SL_STANDIN_KERNEL
static void
sum(const struct sl_standin_block *b, void *const *params)
{
	struct share s = share_of(b, U64(1));
	uint64_t *out = words(b, U64(2), 0, 1, SL_STANDIN_READ | SL_STANDIN_WRITE);
	uint64_t total = 0;

	for (uint64_t i = s.begin; i < s.end; i += PIECE) {
		uint64_t n = s.end - i < PIECE ? s.end - i : PIECE;
		const uint64_t *p = words(b, U64(0), i, n, SL_STANDIN_READ);

		for (uint64_t k = 0; k < n; k++)
			total += p[k];
	}
	__atomic_fetch_add(out, total, __ATOMIC_RELAXED);
}

SL_STANDIN_KERNEL
static void
copy(const struct sl_standin_block *b, void *const *params)
{
	struct share s = share_of(b, U64(1));

	for (uint64_t i = s.begin; i < s.end; i += PIECE) {
		uint64_t n = s.end - i < PIECE ? s.end - i : PIECE;
		const uint64_t *p = words(b, U64(0), i, n, SL_STANDIN_READ);
		uint64_t *q = words(b, U64(2), i, n, SL_STANDIN_WRITE);

		for (uint64_t k = 0; k < n; k++)
			q[k] = p[k];
	}
}

SL_STANDIN_KERNEL
static void
delay(const struct sl_standin_block *b, void *const *params)
{
	uint64_t ns = U64(2);
	struct timespec pause = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	if (b->index[0] == 0)
		nanosleep(&pause, NULL);
}

/* sluice_device.cuh, for one C function that is the whole block. */
static int
ask(const struct sl_standin_block *b, struct sluice_fetch_box *box, uint32_t op)
{
	uint64_t number = __atomic_load_n(&box->reply, __ATOMIC_ACQUIRE) + 1;

	box->op = op;
	__atomic_store_n(&box->request, number, __ATOMIC_RELEASE);
	while (__atomic_load_n(&box->reply, __ATOMIC_ACQUIRE) != number)
		standin->pause(b);
	return box->rc;
}

static struct sluice_fetch_box *
box_of(const struct sl_standin_block *b, const struct sluice_fetch_view *f)
{
	return standin->ptr(b, (uintptr_t)&f->box[b->index[0]],
			    sizeof(struct sluice_fetch_box),
			    SL_STANDIN_READ | SL_STANDIN_WRITE);
}

static int
acquire(const struct sl_standin_block *b, struct sluice_fetch_box *box, uint64_t addr,
	uint64_t bytes, enum sluice_intent intent)
{
	box->n_uses = 1;
	box->use[0].addr = addr;
	box->use[0].bytes = bytes;
	box->intent[0] = intent;
	return ask(b, box, SLUICE_FETCH_ACQUIRE);
}

SL_STANDIN_KERNEL
static void
fetch(const struct sl_standin_block *b, void *const *params)
{
	struct sluice_fetch_box *box = box_of(b, params[0]);
	uint64_t p = U64(1), n = U64(2), tile = U64(3), plus = U64(4);
	uint64_t *out = words(b, U64(5), 0, 1, SL_STANDIN_READ | SL_STANDIN_WRITE);
	uint64_t *failed = words(b, U64(6), 0, 1, SL_STANDIN_READ | SL_STANDIN_WRITE);

	for (uint64_t at = b->index[0] * tile; at < n; at += b->grid[0] * tile) {
		uint64_t m = at + tile < n ? tile : n - at, total = 0;
		uint64_t *q;

		if (acquire(b, box, p + at * 8, m * 8,
			    plus ? SLUICE_USE_READ_WRITE : SLUICE_USE_READ)) {
			__atomic_fetch_add(failed, 1, __ATOMIC_RELAXED);
			continue;
		}
		q = words(b, p, at, m,
			  plus ? SL_STANDIN_READ | SL_STANDIN_WRITE : SL_STANDIN_READ);
		for (uint64_t i = 0; i < m; i++) {
			total += q[i];
			if (plus)
				q[i] += plus;
		}
		__atomic_fetch_add(out, total, __ATOMIC_RELAXED);
		standin->drop(b, p + at * 8, m * 8);
		ask(b, box, SLUICE_FETCH_RELEASE);
	}
}

SL_STANDIN_KERNEL
static void
fetch_wrong(const struct sl_standin_block *b, void *const *params)
{
	struct sluice_fetch_box *box = box_of(b, params[0]);
	int64_t *rcs = (int64_t *)words(b, U64(2), 0, 4, SL_STANDIN_WRITE);

	rcs[0] = acquire(b, box, U64(1), 4096, SLUICE_USE_READ);
	rcs[1] = ask(b, box, SLUICE_FETCH_RESIDENT);
	rcs[2] = acquire(b, box, U64(1), 4096, SLUICE_USE_READ);
	ask(b, box, SLUICE_FETCH_RELEASE);
	rcs[3] = acquire(b, box, 4096, 4096, SLUICE_USE_READ);
}

void
cuda_test_kernels_register(const struct sl_standin *table)
{
	static const struct sl_standin_kernel kernels[] = {
		{"test_fill", fill, 3, {8, 8, 8}},
		{"test_add", add, 3, {8, 8, 8}},
		{"test_sum", sum, 3, {8, 8, 8}},
		{"test_copy", copy, 3, {8, 8, 8}},
		{"test_delay", delay, 3, {8, 8, 8}},
		{"test_fetch", fetch, 7, {16, 8, 8, 8, 8, 8, 8}},
		{"test_fetch_wrong", fetch_wrong, 3, {16, 8, 8}},
	};

	standin = table;
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		table->kernel_register(&kernels[i]);
}
