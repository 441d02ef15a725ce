/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches. A kernel uses the data that its arguments name. Arguments are searched word by word.
 * A word that lies in a block of ours makes the whole block a use, read and written, since the
 * kernel may go any distance from that address. A word that only looks like an address costs a
 * needless use.
 *
 * Arguments do not show addresses in memory (PL_SCOPE_ALL). Each function is peeked into for its
 * first launches, and ever more rarely later (pointer_scan.c). Small copies are searched
 * (pointer_table.c). Some names tell it (mangled.c).
 *
 * A launch in a stream that is being captured is only recorded. graph.c asks for its uses when
 * the graph is instantiated.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "preload/alloc/block.h"
#include "preload/alloc/suballoc.h"
#include "preload/api/api_launch.h"
#include "preload/args/functions.h"
#include "preload/args/pointer_table.h"
#include "preload/args/tensormap.h"
#include "preload/calls/touch.h"
#include "preload/gpu.h"
#include "preload/guest.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/report/faults.h"
#include "preload/report/timings.h"
#include "preload/scope.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"
#include "sluice/sluice.h"

#define TENSOR_MAP_BYTES 128u
#define TENSOR_MAP_ALIGN 64u

static _Atomic uint64_t stamps; /* atomic: relaxed: a number, and no more */

uint64_t
pl_launch_stamp(void)
{
	return atomic_fetch_add_explicit(&stamps, 1, memory_order_relaxed) + 1;
}

size_t
pl_word_use(uint64_t word, struct pl_use *uses, size_t n, uint64_t stamp)
{
	struct pl_block *block = pl_maybe_ours(word) ? pl_data_find(word) : NULL;
	size_t with;

	if (!block)
		return n;
	with = pl_block_use(block, word, uses, n, stamp);
	if ((with > n || block->bytes > PL_POOL_BYTES) &&
	    atomic_load_explicit(&block->flags, memory_order_relaxed) & PL_BLOCK_TABLE)
		with = pl_pointer_table_uses(block, word, uses, with, stamp);
	return with;
}

struct scan {
	struct pl_use *uses;
	size_t n;
	uint64_t stamp;
	uint64_t at[PL_WORDS_MAX]; /* arguments that name blocks */
	size_t n_at;
	struct pl_guest_uses guests; /* and those that name spaces of the program's own */
};

/* The arrays are not cleared. */
static void
scan_begin(struct scan *scan, struct pl_use *uses)
{
	scan->uses = uses;
	scan->n = scan->n_at = 0;
	scan->guests.n = 0;
	scan->guests.all = 0;
}

static void
scan_word(struct scan *scan, uint64_t word)
{
	if (pl_is_guests(word)) {
		pl_guest_use_add(&scan->guests, word, 0, SLUICE_USE_READ_WRITE);
		return;
	}
	if (!pl_maybe_ours(word))
		return;
	scan->n = pl_word_use(word, scan->uses, scan->n, scan->stamp);
	if (scan->n_at < PL_WORDS_MAX)
		scan->at[scan->n_at++] = word;
}

/* Exactly these bytes of a block: what a tensor map reaches. */
static void
scan_range(struct scan *scan, const struct pl_use *use)
{
	struct pl_block *block = use->block;

	if (atomic_load_explicit(&block->last_launch, memory_order_relaxed) == scan->stamp)
		return; /* all of it is used */
	for (size_t i = 0; i < scan->n; i++)
		if (scan->uses[i].addr == use->addr && scan->uses[i].bytes == use->bytes)
			return;
	if (scan->n < PL_USES_MAX)
		scan->uses[scan->n++] = *use;
}

/* Structs may be packed: words are looked for at every fourth byte. Tensor maps are aligned to 64 bytes in
 * their struct, and say how far they reach; their address is not taken for one of a whole block. */
static void
scan_bytes(struct scan *scan, const void *bytes, size_t n)
{
	const char *at = bytes;
	struct pl_use use;
	uint64_t word;

	if (n == sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		scan_word(scan, word);
		return;
	}
	for (size_t i = 0; i + sizeof(word) <= n; i += 4) {
		if (!(i % TENSOR_MAP_ALIGN) && n - i >= TENSOR_MAP_BYTES &&
		    pl_tensor_map_find(at + i, &use)) {
			scan_range(scan, &use);
			i += TENSOR_MAP_BYTES - 4;
			continue;
		}
		memcpy(&word, at + i, sizeof(word));
		if (pl_is_managed(word))
			scan_word(scan, word);
	}
}

/* 1 if extra is as it must be. */
static int
scan_extra(struct scan *scan, void **extra)
{
	const void *buffer = NULL;
	size_t bytes = 0;

	for (unsigned i = 0; i < 16 && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[i + 1];
		else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = *(const size_t *)extra[i + 1];
		else
			return 0;
	}
	if (buffer)
		scan_bytes(scan, buffer, bytes);
	return 1;
}

/* Fills scan->uses from what the launch is given. */
static void
scan_launch(struct scan *scan, const struct pl_function *f, void **params, void **extra)
{
	scan->stamp = pl_launch_stamp();
	if (params) {
		for (uint32_t i = 0; i < f->n_params; i++) {
			if (f->params[i].bytes >= sizeof(uint64_t) && params[i])
				scan_bytes(scan, params[i], f->params[i].bytes);
		}
	} else if (extra) {
		scan_extra(scan, extra);
	}
	scan->n = pl_pointer_table_globals(scan->uses, scan->n, scan->stamp);
}

/* n: uses that were found. There may be more where the array is full. */
static unsigned
scope_flags(const struct pl_function *f, size_t n)
{
	if (n == PL_USES_MAX)
		return PL_SCOPE_ALL;
	switch (pl_settings()->arguments) {
	case PL_ARGUMENTS_ALL:
		return PL_SCOPE_ALL;
	case PL_ARGUMENTS_TRUST:
		return 0;
	case PL_ARGUMENTS_LEARN:
		break;
	}
	return atomic_load_explicit(&f->knowledge, memory_order_acquire) == PL_DIRECT &&
			       !atomic_load_explicit(&pl_pointer_table_overflow,
						     memory_order_relaxed)
		       ? 0
		       : PL_SCOPE_ALL;
}

size_t
pl_launch_look(void *function, void **params, void **extra, struct pl_use *uses,
	       unsigned *flags, uint64_t *at, size_t *n_at)
{
	struct pl_function *f = pl_function_find(function);
	struct scan scan;

	*flags = PL_SCOPE_ALL;
	*n_at = 0;
	if (!f)
		return 0;
	scan_begin(&scan, uses);
	scan_launch(&scan, f, params, extra);
	*flags = scope_flags(f, scan.n);
	memcpy(at, scan.at, scan.n_at * sizeof(*at));
	*n_at = scan.n_at;
	return scan.n;
}

size_t
pl_launch_uses(void *function, void **params, void **extra, struct pl_use *uses,
	       unsigned *flags)
{
	uint64_t at[PL_WORDS_MAX];
	size_t n_at;

	return pl_launch_look(function, params, extra, uses, flags, at, &n_at);
}

/* Whether to peek into the n-th launch of a function: not enough is known of it, or it is due again. */
static bool
launch_is_due(const struct pl_function *f, uint64_t n, struct cu_stream *stream,
	      enum pl_default_stream flavour)
{
	return pl_settings()->arguments == PL_ARGUMENTS_LEARN &&
	       pl_function_is_due(f, n) && !pl_stream_captures(stream, flavour);
}

/* A launch that is being looked at. */
struct look {
	struct pl_function *function;
	struct cu_stream *stream;
	enum pl_default_stream flavour;
	const struct scan *scan;
};

static bool
launch_names_all(void *arg)
{
	const struct look *look = arg;

	return pl_pointer_scan_finds_none(look->function, look->stream, look->flavour,
					  look->scan->at, look->scan->n_at);
}

/* Its scope, and a peek behind the scope's moves: it reads what they bring. If that peek can tell whether all
 * data are to be mapped for this launch, it is asked at once. */
static int
launch_open(struct pl_scope *scope, struct pl_function *f, uint64_t number,
	    struct cu_stream *stream, enum pl_default_stream flavour,
	    const struct scan *scan, unsigned *flags)
{
	struct look look = {f, stream, flavour, scan};
	int due = launch_is_due(f, number, stream, flavour), all, result;

	if (due && pl_function_is_new(f) && scan->n_at && scan->n_at < PL_WORDS_MAX &&
	    scan->n < PL_USES_MAX && !atomic_load(&pl_pointer_table_overflow)) {
		result = pl_scope_begin_asking(scope, stream, flavour, scan->uses,
					       scan->n, launch_names_all, &look, &all);
		*flags = all ? (unsigned)PL_SCOPE_ALL : 0;
		due = !scope->pinned; /* else it was peeked into */
	} else {
		result = pl_scope_begin(scope, stream, flavour, scan->uses, scan->n, *flags);
	}
	if (!result && due)
		(void)pl_pointer_scan(f, stream, flavour, scan->at, scan->n_at);
	return result;
}

/* Nobody looks at launches yet: but which streams have been used is known from the first one on. Where other
 * programs may want memory, data can begin to move at any moment: they wait for the scope. */
static bool
launch_is_at_ease(struct pl_scope *scope, struct cu_stream *stream,
		  enum pl_default_stream flavour)
{
	struct pl_gpu *gpu;

	if (__builtin_expect(pl_watching() || atomic_load(&pl_guests), 0))
		return false;
	gpu = pl_gpu_here();
	if (!gpu)
		return true;
	(void)pl_stream_bit(gpu, stream, flavour);
	return !gpu->share || pl_scope_at_ease(scope, gpu);
}

/* Addresses of another GPU's blocks: this one cannot reach them (peer_gpu.c), so nothing is done for them. How
 * many uses are left. */
static size_t
uses_here(const struct pl_function *f, struct pl_use *uses, size_t n)
{
	static _Atomic int told;
	size_t here = pl_peers_part(uses, n);

	if (here < n && !atomic_exchange(&told, 1))
		pl_note("%s is given memory of another GPU: a kernel that touches it "
			"faults, since GPUs "
			"do not reach each other's memory here (copies between them "
			"work)",
			f->name);
	return here;
}

/* For --explain: what is named and neither on the device nor on its way there. Other threads' moves
 * are in it only as far as they took something away. */
static uint64_t
missed_bytes(const struct pl_use *uses, size_t n)
{
	struct sluice_residency at;
	uint64_t missed = 0;

	pl_enter();
	for (size_t i = 0; i < n; i++) {
		uint64_t away;

		if (sluice_residency(uses[i].block->gpu->space,
				     (void *)(uintptr_t)uses[i].addr, uses[i].bytes, &at))
			continue;
		away = at.tier_bytes[SLUICE_TIER_HOST] + at.tier_bytes[SLUICE_TIER_STORE];
		missed += away > at.in_flight_bytes ? away - at.in_flight_bytes : 0;
	}
	pl_leave();
	return missed;
}

static void
scope_init(struct pl_scope *scope, const void *what, uint64_t shape)
{
	scope->what = (uintptr_t)what;
	scope->shape = shape;
	scope->growth = (struct pl_growth){0};
	scope->name = "kernel";
	scope->copies = 0;
	scope->launch = scope->all = NULL;
	scope->unpinned = scope->pinned = NULL;
	scope->timing = NULL;
}

/* At ease only its time is taken, if --timeline wants it: nothing is moved for it. */
static int
launch_at_ease(struct pl_scope *scope, const void *function, struct cu_stream *stream,
	       enum pl_default_stream flavour)
{
	struct pl_gpu *unpinned = scope->unpinned;
	struct pl_function *f;
	int result;

	if (!pl_timed())
		return CU_SUCCESS;
	f = function ? pl_function_find(function) : NULL;
	if (f)
		scope->name = f->name;
	result = pl_scope_begin(scope, stream, flavour, NULL, 0, 0);
	scope->unpinned = unpinned;
	return result;
}

/* A launch whose arguments nobody can read: it may touch everything. */
static int
launch_blind(struct pl_scope *scope, struct cu_stream *stream, enum pl_default_stream flavour)
{
	PL_COUNT(launches_seen, 1);
	PL_COUNT(launches_all, 1);
	PL_COUNT(launches_opaque, 1);
	return pl_scope_begin(scope, stream, flavour, NULL, 0, PL_SCOPE_ALL);
}

/* Everything that is to be done before the driver is called, and nothing if we take no part. CUresult;
 * launch_return() follows in either case. */
static int
launch_begin(struct pl_scope *scope, struct pl_guest_scope *guests, void *function,
	     uint64_t shape, void **params, void **extra, struct cu_stream *stream,
	     enum pl_default_stream flavour)
{
	struct pl_use uses[PL_USES_MAX];
	struct scan scan;
	struct pl_function *f;
	uint64_t before = 0, number;
	unsigned flags;
	int result;

	scope_init(scope, function, shape);
	guests->n = 0;
	if (!pl_active())
		return CU_SUCCESS;
	PL_COUNT(launches, 1);
	if (launch_is_at_ease(scope, stream, flavour))
		return launch_at_ease(scope, function, stream, flavour);
	f = pl_function_find(function);
	if (!f) /* no memory to know it by */
		return launch_blind(scope, stream, flavour);
	scope->name = f->name;
	pl_pointer_scans_look();
	scan_begin(&scan, uses);
	scan_launch(&scan, f, params, extra);
	flags = scope_flags(f, scan.n);
	scan.n = uses_here(f, uses, scan.n);
	PL_COUNT(launches_seen, 1);
	number = atomic_fetch_add_explicit(&f->launches, 1, memory_order_relaxed) + 1;
	if (atomic_load_explicit(&f->knowledge, memory_order_relaxed) == PL_OPAQUE)
		PL_COUNT(launches_opaque, 1);
	if (__builtin_expect(pl_settings()->explain, 0)) {
		atomic_fetch_add_explicit(&f->missed_bytes, missed_bytes(uses, scan.n),
					  memory_order_relaxed);
		before = sl_now_ns();
	}
	result = pl_guest_begin(guests, stream, flavour, &scan.guests);
	if (!result)
		result = launch_open(scope, f, number, stream, flavour, &scan, &flags);
	if (before)
		atomic_fetch_add_explicit(&f->waited_ns, sl_now_ns() - before,
					  memory_order_relaxed);
	if (flags & PL_SCOPE_ALL) {
		PL_COUNT(launches_all, 1);
		atomic_fetch_add_explicit(&f->all, 1, memory_order_relaxed);
	}
	return result;
}

/* Its scope is over. Passes the result on. */
static int
launch_return(struct pl_scope *scope, int result)
{
	pl_scope_end(scope);
	return result;
}

/* ---- both forms of a call: launched is what launch_begin() is told of it ---- */

#define GRID(x, y, z) \
	(((uint64_t)(x) << 32 | (y)) * 31 + (z)) /* as the shape of a launch */
#define LIST(...) __VA_ARGS__
#define LAUNCH_FORM(name, flavour, parameters, launched, arguments)                 \
	int name parameters                                                         \
	{                                                                           \
		struct pl_scope scope;                                              \
		struct pl_guest_scope guests;                                       \
		int result = launch_begin(&scope, &guests, LIST launched, flavour); \
                                                                                    \
		if (!result) /* NOLINTNEXTLINE(bugprone-macro-parentheses) */       \
			result = pl_fault_seen(PL_REAL(name) arguments);            \
		result = launch_return(&scope, result);                             \
		pl_guest_end(&guests);                                              \
		return result;                                                      \
	}
#define LAUNCH(name, parameters, launched, arguments)                 \
	LAUNCH_FORM(name, PL_LEGACY, parameters, launched, arguments) \
	LAUNCH_FORM(name##_ptsz, PL_PER_THREAD, parameters, launched, arguments)

/* clang-format off */
LAUNCH(cuLaunchKernel,
       (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
	unsigned block_y, unsigned block_z, unsigned shared_bytes, struct cu_stream *stream,
	void **params, void **extra),
       (function, GRID(grid_x, grid_y, grid_z), params, extra, stream),
       (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
	params, extra))
LAUNCH(cuLaunchKernelEx,
       (const struct cu_launch_config *config, void *function, void **params, void **extra),
       (function, config ? GRID(config->grid[0], config->grid[1], config->grid[2]) : 0, params,
	extra, config ? config->stream : NULL),
       (config, function, params, extra))
LAUNCH(cuLaunchCooperativeKernel,
       (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
	unsigned block_y, unsigned block_z, unsigned shared_bytes, struct cu_stream *stream,
	void **params),
       (function, GRID(grid_x, grid_y, grid_z), params, NULL, stream),
       (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
	params))
/* clang-format on */

/* ---- calls of the first CUDA versions: parameters were set on the function before ---- */

static int
launch_begin_old(struct pl_scope *scope, struct cu_stream *stream)
{
	scope_init(scope, NULL, 0);
	if (!pl_active())
		return CU_SUCCESS;
	PL_COUNT(launches, 1);
	return launch_is_at_ease(scope, stream, PL_LEGACY)
		       ? launch_at_ease(scope, NULL, stream, PL_LEGACY)
		       : launch_blind(scope, stream, PL_LEGACY);
}

int
cuLaunch(void *function)
{
	struct pl_scope scope;
	int result = launch_begin_old(&scope, NULL);

	return launch_return(&scope, result ? result
					    : pl_fault_seen(PL_REAL(cuLaunch)(function)));
}

int
cuLaunchGrid(void *function, int width, int height)
{
	struct pl_scope scope;
	int result = launch_begin_old(&scope, NULL);

	return launch_return(&scope,
			     result ? result
				    : pl_fault_seen(PL_REAL(cuLaunchGrid)(function, width,
									  height)));
}

int
cuLaunchGridAsync(void *function, int width, int height, struct cu_stream *stream)
{
	struct pl_scope scope;
	int result = launch_begin_old(&scope, stream);

	return launch_return(&scope, result ? result
					    : pl_fault_seen(PL_REAL(cuLaunchGridAsync)(
						      function, width, height, stream)));
}

/* One kernel on several devices: each as a launch of its own. Deprecated since CUDA 11.3. */
int
cuLaunchCooperativeKernelMultiDevice(struct cu_cooperative_launch *launches, unsigned n,
				     unsigned flags)
{
	struct pl_scope scopes[PL_GPUS_MAX];
	struct pl_guest_scope guests[PL_GPUS_MAX];
	int result = CU_SUCCESS;
	unsigned begun = 0;

	if (!pl_active() || n > PL_GPUS_MAX || !launches)
		return PL_REAL(cuLaunchCooperativeKernelMultiDevice)(launches, n, flags);
	while (begun < n && !result) {
		struct cu_cooperative_launch *l = &launches[begun];

		result = launch_begin(&scopes[begun], &guests[begun], l->function,
				      GRID(l->grid[0], l->grid[1], l->grid[2]), l->params,
				      NULL, l->stream, PL_LEGACY);
		begun++;
	}
	if (!result)
		result = pl_fault_seen(
			PL_REAL(cuLaunchCooperativeKernelMultiDevice)(launches, n, flags));
	while (begun--) {
		pl_scope_end(&scopes[begun]);
		pl_guest_end(&guests[begun]);
	}
	return result;
}
