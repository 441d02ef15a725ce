/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls a host callback may make: each call of the API that can wait, from a callback of a stream
 * that nothing else is on, and behind which a launch stands. A call that hangs ends the case (api.h).
 */
#include "api.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct call {
	struct sluice_space *space;
	struct sluice_stream *stream, *other;
	void *addr;
	const char *path;
	int (*make)(struct call *call);
	int rc;
	char text[256];
};

static void
call_back(void *arg)
{
	struct call *call = arg;

	usleep(20000); /* until what is called after it is there */
	call->rc = call->make(call);
	snprintf(call->text, sizeof(call->text), "%s", sluice_last_error());
}

static int
map_own(struct call *call, void **out)
{
	return sluice_map(call->space, call->path, 0, CHUNK, SLUICE_READ | SLUICE_WRITE, out);
}

static int
call_unmap(struct call *call)
{
	return sluice_unmap(call->space, call->addr);
}

static int
call_evict(struct call *call)
{
	return sluice_evict(call->space, call->addr, CHUNK, SLUICE_TIER_STORE, NULL);
}

static int
call_discard(struct call *call)
{
	return sluice_discard(call->space, call->addr, CHUNK, SLUICE_DISCARD_EAGER, NULL);
}

static int
call_advise(struct call *call)
{
	return sluice_advise(call->space, call->addr, CHUNK, SLUICE_ADVISE_RANDOM);
}

static int
call_remap(struct call *call)
{
	void *own;
	int rc = map_own(call, &own);

	return rc ? rc : sluice_remap(call->space, own, SLUICE_READ);
}

static int
call_sync(struct call *call)
{
	void *own;
	int rc = map_own(call, &own);

	if (rc)
		return rc;
	*(volatile char *)own = 1;
	rc = sluice_sync(call->space, own, CHUNK);
	return rc ? rc : sluice_unmap(call->space, own);
}

static int
call_pin(struct call *call)
{
	int rc = sluice_pin(call->space, call->addr, CHUNK);

	return rc ? rc : sluice_unpin(call->space, call->addr, CHUNK);
}

static int
call_scope(struct call *call)
{
	struct sluice_use use = {call->addr, CHUNK, SLUICE_USE_READ};
	struct sluice_launch *l;
	int rc = sluice_launch_begin(call->space, call->other, &use, 1, &l);

	if (!rc)
		sluice_launch_end(l);
	return rc;
}

static int
call_budget(struct call *call)
{
	return sluice_space_set_budget(call->space, SLUICE_TIER_DEVICE, 8 * MIB);
}

static int
call_synchronize_other(struct call *call)
{
	return sluice_stream_synchronize(call->space, call->other);
}

static int
call_synchronize_own(struct call *call)
{
	return sluice_stream_synchronize(call->space, call->stream);
}

static int
call_destroy(struct call *call)
{
	return sluice_space_destroy(call->space);
}

/* The call from a callback; behind: a launch on the callback's stream stands behind it that uses addr. */
static struct call
call_made(int (*make)(struct call *call), int behind)
{
	struct sluice_space *s = space_make("");
	struct call call = {.space = s, .path = file_make("own", CHUNK, 1), .make = make};
	struct sluice_grid grid = {1, 1, 1};
	struct sluice_use use;

	call.addr = region_alloc(s, CHUNK);
	use = (struct sluice_use){call.addr, CHUNK, SLUICE_USE_READ_WRITE};
	CHECK(sluice_stream_create(s, &call.stream) == 0);
	CHECK(sluice_stream_create(s, &call.other) == 0);
	CHECK(sluice_stream_callback(s, call.stream, call_back, &call) == 0);
	if (behind)
		CHECK(sluice_launch(s, call.stream, kernel_nothing, grid, NULL, 0, &use,
				    1) == 0);
	CHECK(sluice_stream_synchronize(s, call.stream) == 0);
	sluice_stream_destroy(call.stream);
	sluice_stream_destroy(call.other);
	space_end(s);
	return call;
}

static void
calls_that_wait_for_a_range_do_not_wait_for_their_own_callback(void)
{
	static int (*const makes[])(
		struct call *) = {call_unmap,   call_evict,
				  call_discard, call_advise,
				  call_remap,   call_sync,
				  call_pin,     call_scope,
				  call_budget,  call_synchronize_other};

	for (size_t i = 0; i < sizeof(makes) / sizeof(makes[0]); i++)
		CHECK_EQ(call_made(makes[i], 0).rc, 0);
}

static void
calls_that_would_wait_for_what_stands_behind_the_callback_are_refused(void)
{
	static int (*const makes[])(struct call *) = {call_unmap, call_evict,
						      call_discard, call_advise};

	for (size_t i = 0; i < sizeof(makes) / sizeof(makes[0]); i++) {
		struct call call = call_made(makes[i], 1);

		CHECK_EQ(call.rc, -EDEADLK);
		CHECK(strstr(call.text, "callback") != NULL);
	}
}

static void
calls_that_need_room_from_behind_the_callback_get_it(void)
{
	static int (*const makes[])(struct call *) = {call_pin, call_scope, call_budget,
						      call_remap, call_sync};

	for (size_t i = 0; i < sizeof(makes) / sizeof(makes[0]); i++)
		CHECK_EQ(call_made(makes[i], 1).rc, 0);
}

static void
waiting_for_its_own_stream_or_the_space_is_refused(void)
{
	CHECK_EQ(call_made(call_synchronize_own, 0).rc, -EDEADLK);
	CHECK_EQ(call_made(call_destroy, 0).rc, -EDEADLK);
}

static const struct api_case cases[] = {
	CASE(calls_that_wait_for_a_range_do_not_wait_for_their_own_callback),
	CASE(calls_that_would_wait_for_what_stands_behind_the_callback_are_refused),
	CASE(calls_that_need_room_from_behind_the_callback_get_it),
	CASE(waiting_for_its_own_stream_or_the_space_is_refused),
};

API_MAIN(cases)
