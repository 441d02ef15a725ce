/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of the stand-in driver's streams: copies, fills, host functions, waits for words.
 * Also the check of an address. copy.c checks when work is queued; the answer is then
 * INVALID_VALUE, and nothing is lost. This file checks again when it runs; then it is
 * LAUNCH_FAILED, and the context is lost, as with the real driver.
 *
 * Threads: a stream's own. The.lock is held except while memory is copied, a word is awaited or
 * foreign code runs. The use count holds the touched mappings.
 */
#include <string.h>
#include <time.h>

#include "internal.h"

#define POLL_NS 20000

static uint64_t
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void
sleep_ns(uint64_t ns)
{
	const struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000u),
				       .tv_nsec = (long)(ns % 1000000000u)};

	nanosleep(&pause, NULL);
}

/* What is wrong with a place now, or NULL. */
const char *
place_check(const struct place *place, size_t bytes, int access)
{
	const struct pinned *pinned;

	if (place->gpu)
		return view_check(place->device, place->addr, bytes, access);
	pinned = pinned_find((void *)(uintptr_t)place->addr);
	if (!pinned)
		return "not pinned";
	return place->addr + bytes > (uintptr_t)pinned->data + pinned->bytes
		       ? "beyond the end of the pinned block"
		       : NULL;
}

/* A place in use by what runs. */
struct hold {
	struct mapping **mappings;
	size_t n;
	char *data;
};

static struct hold
place_hold(const struct place *place, size_t bytes)
{
	struct hold hold = {.data = (char *)(uintptr_t)place->addr};

	if (place->gpu) {
		hold.mappings = view_use_begin(place->addr, bytes, &hold.n);
		hold.data = view_pointer(place->addr);
	}
	return hold;
}

/* 1: it was unmapped meanwhile. */
static int
place_let_go(struct hold *hold)
{
	return hold->mappings ? view_use_end(hold->mappings, hold->n) : 0;
}

/* The place of work that runs cannot be used: the context is lost. */
static int
place_lost(const struct op *op, uint64_t addr, const char *wrong)
{
	return violate(CU_ERROR_LAUNCH_FAILED, "%s, when it ran: %#llx + %#zx: %s",
		       call_name(op->call), (unsigned long long)addr, op->bytes, wrong);
}

/* The sanitizers' memmove() copies byte by byte. */
static void
bytes_copy(char *to, const char *from, size_t bytes)
{
	if (to < from + bytes && from < to + bytes)
		memmove(to, from, bytes);
	else
		memcpy(to, from, bytes);
}

/* With the lock, which is dropped: others may change what is waited for. */
static void
poll_pause(void)
{
	pthread_mutex_unlock(&the.lock);
	sleep_ns(POLL_NS);
	pthread_mutex_lock(&the.lock);
}

static int
place_is_on_device(const struct place *place)
{
	return place->gpu && view_location(place->addr) == CU_LOCATION_DEVICE;
}

static int
copy_direction(const struct op *op)
{
	return (place_is_on_device(&op->to) ? SL_STANDIN_COPIES_IN : 0) |
	       (!op->staged && place_is_on_device(&op->from) ? SL_STANDIN_COPIES_OUT : 0);
}

static int
op_copy(struct op *op)
{
	struct hold to, from = {.data = op->staged};
	const char *wrong;
	int dead, pageable_to = op->flags & 1;

	if (!op->staged) {
		wrong = place_check(&op->from, op->bytes, SL_STANDIN_READ);
		if (wrong)
			return place_lost(op, op->from.addr, wrong);
	}
	wrong = pageable_to ? NULL : place_check(&op->to, op->bytes, SL_STANDIN_WRITE);
	if (wrong)
		return place_lost(op, op->to.addr, wrong);
	if (!op->staged)
		from = place_hold(&op->from, op->bytes);
	to = place_hold(&op->to, op->bytes);
	pthread_mutex_unlock(&the.lock);
	bytes_copy(to.data, from.data, op->bytes);
	if (the.settings.copy_bytes_per_s)
		sleep_ns((uint64_t)((double)op->bytes * 1e9 /
				    (double)the.settings.copy_bytes_per_s));
	pthread_mutex_lock(&the.lock);
	dead = place_let_go(&to);
	dead |= place_let_go(&from);
	return dead ? place_lost(op, op->to.addr, "unmapped meanwhile") : 0;
}

static int
op_memset(struct op *op)
{
	const char *wrong = place_check(&op->to, op->bytes, SL_STANDIN_WRITE);
	struct hold to;

	if (wrong)
		return place_lost(op, op->to.addr, wrong);
	to = place_hold(&op->to, op->bytes);
	pthread_mutex_unlock(&the.lock);
	if (op->value_bytes == 1)
		memset(to.data, (int)op->value, op->bytes);
	else
		for (size_t i = 0; i < op->bytes; i += op->value_bytes)
			memcpy(to.data + i, &op->value, op->value_bytes);
	pthread_mutex_lock(&the.lock);
	return place_let_go(&to) ? place_lost(op, op->to.addr, "unmapped meanwhile") : 0;
}

/* Compared in as many bytes as the operation has, cyclically. */
static int
value_is_reached(uint64_t word, uint64_t value, unsigned how, unsigned bits)
{
	uint64_t mask = UINT64_MAX >> (64 - bits);

	switch (how) {
	case CU_WAIT_VALUE_GEQ:
		return !((word - value) >> (bits - 1) & 1);
	case CU_WAIT_VALUE_EQ:
		return word == value;
	case CU_WAIT_VALUE_AND:
		return (word & value) != 0;
	}
	return (~(word | value) & mask) != 0;
}

static void
value_write(void *data, uint64_t value, unsigned bytes)
{
	if (bytes == 8)
		__atomic_store_n((uint64_t *)data, value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)data, (uint32_t)value, __ATOMIC_RELEASE);
}

static uint64_t
value_read(const void *data, unsigned bytes)
{
	return bytes == 8 ? __atomic_load_n((const uint64_t *)data, __ATOMIC_ACQUIRE)
			  : __atomic_load_n((const uint32_t *)data, __ATOMIC_ACQUIRE);
}

static int
op_value(struct stream *stream, struct op *op)
{
	int write = op->kind == OP_WRITE_VALUE, reached = 0;
	const char *wrong;
	struct hold hold;

	while (!reached && !stream->context->lost) {
		wrong = place_check(&op->to, op->bytes,
				    write ? SL_STANDIN_WRITE : SL_STANDIN_READ);
		if (wrong)
			return place_lost(op, op->to.addr, wrong);
		hold = place_hold(&op->to, op->bytes);
		if (write)
			value_write(hold.data, op->value, op->value_bytes);
		reached = write ||
			  value_is_reached(value_read(hold.data, op->value_bytes),
					   op->value, op->flags, 8 * op->value_bytes);
		place_let_go(&hold);
		if (reached)
			break;
		poll_pause();
	}
	return 0;
}

/* With the lock, which is dropped while it runs. 0, or what the context is lost with. */
int
op_run(struct stream *stream, struct op *op)
{
	int code = 0;

	switch (op->kind) {
	case OP_COPY:
		while (the.copies_held & copy_direction(op) && !stream->context->lost)
			poll_pause();
		code = exec_enter(CALL_EXEC_COPY);
		return code ? code : op_copy(op);
	case OP_MEMSET:
		code = exec_enter(CALL_EXEC_MEMSET);
		return code ? code : op_memset(op);
	case OP_KERNEL:
		code = exec_enter(CALL_EXEC_KERNEL);
		if (code)
			return code;
		pthread_mutex_unlock(&the.lock);
		code = launch_run(op->launch);
		pthread_mutex_lock(&the.lock);
		return code;
	case OP_HOST:
		pthread_mutex_unlock(&the.lock);
		in_host_function = 1;
		op->host_function(op->host_argument);
		in_host_function = 0;
		pthread_mutex_lock(&the.lock);
		return 0;
	case OP_RECORD:
		if (op->event->point.stream == stream && op->event->point.seq == op->seq)
			op->event->time_ns = the.settings.link_bytes_per_s ? link_ns()
									   : now_ns();
		return 0;
	case OP_GRAPH:
	case OP_EMPTY:
	case OP_ALLOC:
	case OP_CONDITIONAL:
	case OP_WAIT:
		return 0; /* its points were waited for */
	case OP_WAIT_VALUE:
	case OP_WRITE_VALUE:
		return op_value(stream, op);
	}
	return 0;
}
