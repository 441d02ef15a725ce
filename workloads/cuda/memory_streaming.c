/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run's memory as one streams it by hand: arrays in pinned host memory, and on the device a few
 * buffers (slots), within the device budget. For each launch what it reads is copied to a slot, the
 * kernel runs on the slot, what it wrote is copied back, each on a stream of its own, so that
 * copies in, kernels and copies out of neighbouring launches overlap. Small arrays that every
 * launch uses whole (workload_array.kept) stay on the device; and a launch that reads just what the one
 * before it read, and writes none of it, finds that in its slot. It is what an expert writes for one
 * program; here once for all of them, since the workloads say what each launch uses.
 *
 * Order. A slot is filled again when its last copies out are done (an event, waited for by the
 * stream of copies in). So of the launches before, only those of the other slots may still be
 * writing to host memory: a launch that reads what one of them writes waits for it. Copies in never
 * race with copies out of later launches: those run behind kernels that wait for theirs.
 *
 * Threads: that of workload_run(); three streams.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_run.h"
#include "device/cuda/cuda_driver.h"

#define SLOTS_MAX 3u
#define ALIGN_BYTES \
	512u /* parts of a slot begin so, but for the offset of what they hold */
#define PACE_EVENTS 16u /* launches that may be enqueued and not done */

struct part {
	unsigned array;
	struct sluice_use use;
	uint64_t device;
};

struct slot {
	uint64_t device;
	struct cu_event *copied_in, *run, *copied_out;
	int used; /* 1: copied_out has been recorded */
	struct part part[WORKLOAD_POINTERS_MAX];
	unsigned n_parts;
};

struct memory_streaming {
	struct workload_cuda *cuda;
	struct cu_stream *in, *run, *out;
	struct cu_event *pace[PACE_EVENTS];
	uint64_t launches;
	uint64_t slot_bytes, kept_bytes;
	unsigned n_slots;
	unsigned last; /* slot of the last launch that had one, if n_slots */
	int held; /* since then nobody else may have written what it was copied from */
	struct slot slot[SLOTS_MAX];
	struct workload_cuda_array kept[WORKLOAD_ARRAYS_MAX]; /* of arrays that are */
};

static int
streaming_open(struct workload_env *env)
{
	struct memory_streaming *m = calloc(1, sizeof(*m));
	const struct sl_cuda_driver *driver;
	unsigned i;
	int rc;

	if (!m)
		return workload_fail(env, -ENOMEM, "out of memory");
	env->memory_state = m;
	rc = workload_cuda_open(env, env->config.device_number, &m->cuda);
	if (rc)
		return rc;
	driver = m->cuda->driver;
	rc = SL_CUDA(driver, cuStreamCreate, &m->in, CU_STREAM_NONBLOCKING);
	if (!rc)
		rc = SL_CUDA(driver, cuStreamCreate, &m->run, CU_STREAM_NONBLOCKING);
	if (!rc)
		rc = SL_CUDA(driver, cuStreamCreate, &m->out, CU_STREAM_NONBLOCKING);
	for (i = 0; !rc && i < PACE_EVENTS; i++)
		rc = SL_CUDA(driver, cuEventCreate, &m->pace[i], CU_EVENT_UNTIMED);
	for (i = 0; !rc && i < SLOTS_MAX; i++) {
		rc = SL_CUDA(driver, cuEventCreate, &m->slot[i].copied_in, CU_EVENT_UNTIMED);
		if (!rc)
			rc = SL_CUDA(driver, cuEventCreate, &m->slot[i].run,
				     CU_EVENT_UNTIMED);
		if (!rc)
			rc = SL_CUDA(driver, cuEventCreate, &m->slot[i].copied_out,
				     CU_EVENT_UNTIMED);
	}
	return rc ? workload_fail_library(env, rc, "stream") : 0;
}

static void
slots_free(struct memory_streaming *m)
{
	unsigned i;

	for (i = 0; i < SLOTS_MAX; i++) {
		if (m->slot[i].device)
			(void)m->cuda->driver->cuMemFree(m->slot[i].device);
		m->slot[i].device = 0;
		m->slot[i].used = 0;
		m->slot[i].n_parts = 0;
	}
	m->n_slots = 0;
	m->slot_bytes = 0;
	m->held = 0;
}

static void
stream_end(struct memory_streaming *m, struct cu_stream *stream)
{
	if (!stream)
		return;
	(void)m->cuda->driver->cuStreamSynchronize(stream);
	(void)m->cuda->driver->cuStreamDestroy(stream);
}

static void
event_end(struct memory_streaming *m, struct cu_event *event)
{
	if (event)
		(void)m->cuda->driver->cuEventDestroy(event);
}

/* What fails here has been reported by what failed before it. */
static void
streaming_close(struct workload_env *env)
{
	struct memory_streaming *m = env->memory_state;
	unsigned i;

	if (!m)
		return;
	if (m->cuda) {
		stream_end(m, m->in);
		stream_end(m, m->run);
		stream_end(m, m->out);
		for (i = 0; i < PACE_EVENTS; i++)
			event_end(m, m->pace[i]);
		for (i = 0; i < SLOTS_MAX; i++) {
			event_end(m, m->slot[i].copied_in);
			event_end(m, m->slot[i].run);
			event_end(m, m->slot[i].copied_out);
		}
		slots_free(m);
		for (i = 0; i < env->plan.n_arrays; i++) {
			workload_cuda_array_free(m->cuda, &m->kept[i]);
			sl_ignore(workload_cuda_host_unmap(env, m->cuda, i));
		}
		workload_cuda_close(m->cuda);
	}
	free(m);
	env->memory_state = NULL;
}

static int
streaming_map(struct workload_env *env, unsigned array, const char *path)
{
	struct memory_streaming *m = env->memory_state;
	int rc = workload_cuda_host_map(env, m->cuda, array, path);

	if (!rc && env->plan.array[array].kept) {
		rc = workload_cuda_array_make(env, m->cuda, array, &m->kept[array]);
		m->kept_bytes += env->plan.array[array].size_bytes;
	}
	return rc;
}

static int
streaming_unmap(struct workload_env *env, unsigned array)
{
	struct memory_streaming *m = env->memory_state;

	slots_free(m);
	workload_cuda_array_free(m->cuda, &m->kept[array]);
	return workload_cuda_host_unmap(env, m->cuda, array);
}

static int
streaming_wait(struct workload_env *env)
{
	struct memory_streaming *m = env->memory_state;
	const struct sl_cuda_driver *driver = m->cuda->driver;
	int rc = SL_CUDA(driver, cuStreamSynchronize, m->in);

	m->held = 0; /* host code may write to arrays now */
	if (!rc)
		rc = SL_CUDA(driver, cuStreamSynchronize, m->run);
	if (!rc)
		rc = SL_CUDA(driver, cuStreamSynchronize, m->out);
	return rc ? workload_fail_library(env, rc, "run") : 0;
}

/* Slots of at least bytes, as many as the budget has room for. */
static int
slots_grow(struct workload_env *env, uint64_t bytes)
{
	struct memory_streaming *m = env->memory_state;
	uint64_t room = workload_less(env->config.device_budget_bytes, m->kept_bytes);
	unsigned n = (unsigned)(room / bytes < SLOTS_MAX ? room / bytes : SLOTS_MAX);
	int rc = streaming_wait(env);

	if (rc)
		return rc;
	if (n == 0)
		return workload_fail(
			env, -ENOBUFS,
			"streaming: a launch uses %llu MiB, the device budget has "
			"room for %llu MiB: give a smaller --tile",
			(unsigned long long)(bytes >> 20), (unsigned long long)(room >> 20));
	slots_free(m);
	for (; !rc && m->n_slots < n; m->n_slots++)
		rc = SL_CUDA(m->cuda->driver, cuMemAlloc, &m->slot[m->n_slots].device, bytes);
	if (rc)
		return workload_fail_library(env, rc, "streaming: a buffer");
	m->slot_bytes = bytes;
	return 0;
}

/* Lay out the uses, but for kept arrays, as the parts of a slot; *bytes: how much that takes. They are
 * not in one yet: device counts from its begin. */
static int
parts_make(struct workload_env *env, const struct sluice_use *uses, size_t n_uses,
	   struct part *part, unsigned *n_parts, uint64_t *bytes)
{
	uint64_t at = 0;
	size_t i;

	*n_parts = 0;
	for (i = 0; i < n_uses; i++) {
		unsigned array = workload_array_of(env, uses[i].addr);
		uint64_t offset = (uintptr_t)uses[i].addr % ALIGN_BYTES;

		if (array == env->plan.n_arrays || *n_parts == WORKLOAD_POINTERS_MAX)
			return workload_fail(env, -EINVAL,
					     "streaming: use %zu is of no array", i);
		if (env->plan.array[array].kept)
			continue;
		part[(*n_parts)++] = (struct part){.array = array,
						   .use = uses[i],
						   .device = at + offset};
		at += (offset + uses[i].size_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES *
		      ALIGN_BYTES;
	}
	*bytes = at ? at : ALIGN_BYTES;
	return 0;
}

static int
parts_overlap(const struct part *read, const struct part *written)
{
	const char *a = read->use.addr, *b = written->use.addr;

	return workload_intent_reads(read->use.intent) &&
	       workload_intent_writes(written->use.intent) &&
	       a < b + written->use.size_bytes && b < a + read->use.size_bytes;
}

/* Does the slot hold what the parts are to read, and does nobody write to it? */
static int
slot_holds(const struct slot *slot, const struct part *part, unsigned n_parts)
{
	if (!slot->used || slot->n_parts != n_parts)
		return 0;
	for (unsigned i = 0; i < n_parts; i++) {
		const struct sluice_use *held = &slot->part[i].use, *use = &part[i].use;

		if (held->intent != SLUICE_USE_READ || use->intent != SLUICE_USE_READ ||
		    held->addr != use->addr || held->size_bytes != use->size_bytes)
			return 0;
	}
	return 1;
}

/* The stream of copies in waits for copies out that the slot's new contents depend on. */
static int
slot_order(struct memory_streaming *m, const struct slot *slot)
{
	const struct sl_cuda_driver *driver = m->cuda->driver;
	unsigned s, i, k;
	int rc = 0;

	for (s = 0; !rc && s < m->n_slots; s++) {
		const struct slot *other = &m->slot[s];
		int needed = 0;

		if (other == slot || !other->used)
			continue;
		for (i = 0; i < slot->n_parts; i++)
			for (k = 0; k < other->n_parts; k++)
				needed |= parts_overlap(&slot->part[i], &other->part[k]);
		if (needed)
			rc = SL_CUDA(driver, cuStreamWaitEvent, m->in, other->copied_out, 0);
	}
	return rc;
}

static int
slot_copy_in(struct workload_env *env, struct slot *slot)
{
	struct memory_streaming *m = env->memory_state;
	const struct sl_cuda_driver *driver = m->cuda->driver;
	unsigned i;
	int rc = slot_order(m, slot);

	for (i = 0; !rc && i < slot->n_parts; i++) {
		const struct part *part = &slot->part[i];

		if (!workload_intent_reads(part->use.intent))
			continue;
		rc = SL_CUDA(driver, cuMemcpyHtoDAsync, part->device, part->use.addr,
			     part->use.size_bytes, m->in);
		env->result->h2d_bytes += part->use.size_bytes;
	}
	if (!rc)
		rc = SL_CUDA(driver, cuEventRecord, slot->copied_in, m->in);
	if (!rc)
		rc = SL_CUDA(driver, cuStreamWaitEvent, m->run, slot->copied_in, 0);
	return rc ? workload_fail_library(env, rc, "streaming: copies in") : 0;
}

/* Enqueued: one launch more that streaming_pace() counts. */
static int
pace_note(struct memory_streaming *m, struct cu_stream *stream)
{
	return SL_CUDA(m->cuda->driver, cuEventRecord,
		       m->pace[m->launches++ % PACE_EVENTS], stream);
}

static int
slot_copy_out(struct workload_env *env, struct slot *slot)
{
	struct memory_streaming *m = env->memory_state;
	const struct sl_cuda_driver *driver = m->cuda->driver;
	unsigned i;
	int rc = SL_CUDA(driver, cuEventRecord, slot->run, m->run);

	if (!rc)
		rc = SL_CUDA(driver, cuStreamWaitEvent, m->out, slot->run, 0);
	for (i = 0; !rc && i < slot->n_parts; i++) {
		const struct part *part = &slot->part[i];

		if (!workload_intent_writes(part->use.intent))
			continue;
		rc = SL_CUDA(driver, cuMemcpyDtoHAsync, (void *)(uintptr_t)part->use.addr,
			     part->device, part->use.size_bytes, m->out);
		env->result->d2h_bytes += part->use.size_bytes;
	}
	if (!rc)
		rc = SL_CUDA(driver, cuEventRecord, slot->copied_out, m->out);
	if (!rc)
		rc = pace_note(m, m->out);
	slot->used = m->held = 1;
	return rc ? workload_fail_library(env, rc, "streaming: copies out") : 0;
}

static int
kept_use(struct workload_env *env, const struct sluice_use *uses, size_t n_uses)
{
	struct memory_streaming *m = env->memory_state;
	size_t i;
	int rc = 0;

	for (i = 0; !rc && i < n_uses; i++) {
		unsigned array = workload_array_of(env, uses[i].addr);

		if (env->plan.array[array].kept)
			rc = workload_cuda_array_use(env, m->cuda, array, &m->kept[array],
						     uses[i].intent, m->run);
	}
	return rc;
}

/* Pointers into a part go with it: an array may have several. */
static void
parts_translate(const struct workload_kernel *kernel, const void *args,
		const struct part *part, unsigned n_parts, void *moved)
{
	for (unsigned i = 0; i < kernel->n_pointers; i++) {
		uint64_t addr, at, shifted;

		memcpy(&addr, (const char *)args + kernel->pointer[i], sizeof(addr));
		for (unsigned k = 0; k < n_parts; k++) {
			at = addr - (uintptr_t)part[k].use.addr;
			if (at >= part[k].use.size_bytes)
				continue;
			shifted = part[k].device + at;
			memcpy((char *)moved + kernel->pointer[i], &shifted, sizeof(shifted));
		}
	}
}

/* A slot for these parts, with what they read on its way there. NULL: they are none. */
static int
slot_take(struct workload_env *env, const struct part *part, unsigned n_parts,
	  uint64_t bytes, struct slot **out)
{
	struct memory_streaming *m = env->memory_state;
	struct slot *slot;
	int rc = 0;

	*out = NULL;
	if (!n_parts)
		return 0;
	if (m->held && slot_holds(&m->slot[m->last], part, n_parts)) {
		*out = &m->slot[m->last];
		return 0;
	}
	if (bytes > m->slot_bytes)
		rc = slots_grow(env, bytes);
	if (rc)
		return rc;
	m->last = (m->last + 1) % m->n_slots;
	slot = &m->slot[m->last];
	if (slot->used) {
		rc = SL_CUDA(m->cuda->driver, cuStreamWaitEvent, m->in, slot->copied_out, 0);
		if (rc)
			return workload_fail_library(env, rc, "streaming: a buffer");
	}
	slot->n_parts = n_parts;
	for (unsigned i = 0; i < n_parts; i++) {
		slot->part[i] = part[i];
		slot->part[i].device += slot->device;
	}
	*out = slot;
	return slot_copy_in(env, slot);
}

static int
streaming_launch(struct workload_env *env, const struct workload_kernel *kernel,
		 uint64_t n, const void *args, const struct sluice_use *uses, size_t n_uses)
{
	struct memory_streaming *m = env->memory_state;
	_Alignas(16) unsigned char moved[WORKLOAD_KERNEL_ARGS_MAX];
	uint64_t shift[WORKLOAD_ARRAYS_MAX] = {0};
	struct part part[WORKLOAD_POINTERS_MAX];
	unsigned n_parts, i;
	struct slot *slot = NULL;
	uint64_t bytes = 0; /* gcc at -O1 does not see that parts_make() sets it */
	int rc;

	rc = parts_make(env, uses, n_uses, part, &n_parts, &bytes);
	if (!rc)
		rc = slot_take(env, part, n_parts, bytes, &slot);
	if (rc)
		return rc;
	for (i = 0; slot && i < n_parts; i++)
		shift[slot->part[i].array] = slot->part[i].device -
					     (uintptr_t)slot->part[i].use.addr;
	for (i = 0; i < env->plan.n_arrays; i++)
		if (m->kept[i].device)
			shift[i] = m->kept[i].device - (uintptr_t)env->base[i];
	rc = workload_cuda_translate(env, kernel, args, shift, moved);
	if (!rc) {
		if (slot)
			parts_translate(kernel, args, slot->part, n_parts, moved);
		rc = kept_use(env, uses, n_uses);
	}
	if (!rc)
		rc = workload_cuda_launch(env, m->cuda, kernel, n, moved, m->run);
	if (rc)
		return rc;
	if (slot)
		return slot_copy_out(env, slot);
	rc = pace_note(m, m->run);
	return rc ? workload_fail_library(env, rc, "run") : 0;
}

static int
streaming_pace(struct workload_env *env)
{
	struct memory_streaming *m = env->memory_state;
	int rc = 0;

	if (m->launches >= PACE_EVENTS)
		rc = SL_CUDA(m->cuda->driver, cuEventSynchronize,
			     m->pace[m->launches % PACE_EVENTS]);
	return rc ? workload_fail_library(env, rc, "run") : 0;
}

static int
streaming_round_begin(struct workload_env *env, enum workload_round round)
{
	struct memory_streaming *m = env->memory_state;
	unsigned i;

	if (round == WORKLOAD_ROUND_RESIDENT)
		return 1;
	env->result->h2d_bytes = env->result->d2h_bytes = env->result->collect_bytes = 0;
	m->held = 0;
	for (i = 0; i < env->plan.n_arrays; i++)
		m->kept[i].there = m->kept[i].written = 0;
	return 0;
}

static int
streaming_round_end(struct workload_env *env, enum workload_round round)
{
	struct memory_streaming *m = env->memory_state;
	int rc;

	if (round != WORKLOAD_ROUND_MEASURED)
		return 0;
	rc = workload_cuda_arrays_collect(env, m->cuda, m->kept, m->run);
	return rc ? rc : streaming_wait(env);
}

const struct workload_memory_ops workload_memory_streaming = {
	.open = streaming_open,
	.close = streaming_close,
	.map = streaming_map,
	.sync = workload_cuda_host_sync,
	.unmap = streaming_unmap,
	.launch = streaming_launch,
	.wait = streaming_wait,
	.pace = streaming_pace,
	.discard = workload_no_discard,
	.pin = workload_no_pin,
	.unpin = workload_no_pin,
	.stats = workload_no_stats,
	.round_begin = streaming_round_begin,
	.round_end = streaming_round_end,
};
