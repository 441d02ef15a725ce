/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking mode: every kind of wrong intent is found and reported with its address. The access
 * is served all the same. Right intents are never reported. Kernels here touch single words, as
 * their arguments say.
 */
#include "fault.h"

static struct sluice_space *space;
static char *addr; /* 4 chunks of pattern 5 */

#define BYTES (4 * CHUNK)

/* Up to four touches, in this order. */
struct touches {
	unsigned n;
	struct {
		uint64_t *at;
		int write;
	} touch[4];
};

static uint64_t seen[4];

static void
kernel_touch(const struct sluice_block *block, void *args)
{
	struct touches *t = args;

	(void)block;
	for (unsigned i = 0; i < t->n; i++) {
		if (t->touch[i].write)
			*(volatile uint64_t *)t->touch[i].at = 7;
		else
			seen[i] = *(volatile uint64_t *)t->touch[i].at;
	}
}

static void
begin(void)
{
	void *map;

	space = fault_space("checking=1");
	CHECK_OK(sluice_alloc(space, BYTES, 0, &map));
	addr = map;
	fault_fill(addr, BYTES, 5);
	CHECK(fault_counter(space, SLUICE_COUNTER_INTENT_ERRORS) == 0);
}

static void
end(void)
{
	CHECK_OK(sluice_space_check(space));
	CHECK_OK(sluice_unmap(space, addr));
	CHECK_OK(sluice_space_check(space));
	CHECK_OK(sluice_space_destroy(space));
}

static uint64_t *
word_at(size_t offset)
{
	return (uint64_t *)(void *)(addr + offset);
}

static int
launch_touches(const struct touches *t, const struct sluice_use *uses, size_t n_uses)
{
	int rc = sluice_launch(space, NULL, kernel_touch, (struct sluice_grid){1, 1, 1},
			       t, sizeof(*t), uses, n_uses);

	return rc ? rc : sluice_stream_synchronize(space, NULL);
}

/* The launch fails with the address and the words, and n intent errors are counted. */
#define WRONG(t, uses, n_uses, n, at, ...)                                                  \
	do {                                                                                \
		uint64_t before_ = fault_counter(space, SLUICE_COUNTER_INTENT_ERRORS);      \
		char text_[32];                                                             \
		snprintf(text_, sizeof(text_), "%p", (void *)(at));                         \
		CHECK_FAILS(launch_touches(t, uses, n_uses), -EFAULT, "launch", text_,      \
			    __VA_ARGS__);                                                   \
		CHECK(fault_counter(space, SLUICE_COUNTER_INTENT_ERRORS) == before_ + (n)); \
	} while (0)

static void
right_intents_are_never_reported(void)
{
	struct sluice_use uses[] = {
		{addr, 0, SLUICE_USE_READ},      {addr, 0, SLUICE_USE_READ_WRITE},
		{addr, 0, SLUICE_USE_WRITE_ALL}, {addr, 0, SLUICE_USE_SCRATCH},
		{addr, 0, SLUICE_USE_WRITE},
	};
	struct touches t = {4, {{NULL, 0}, {NULL, 1}, {NULL, 1}, {NULL, 1}}};
	struct fault_range range;

	begin();
	for (int i = 0; i < 4; i++)
		uses[i] = (struct sluice_use){addr + (size_t)i * CHUNK, CHUNK,
					      uses[i].intent};
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			t.touch[i].at = word_at((size_t)i * CHUNK + PAGE);
		CHECK_OK(launch_touches(&t, uses, 4));
		CHECK(seen[0] == fault_word(5, PAGE / 8));
		/* Read after its own write, in write-all and scratch. */
		for (int k = 2; k < 4; k++) {
			t.touch[0].at = t.touch[1].at = word_at((size_t)k * CHUNK);
			t.touch[0].write = 1;
			t.touch[1].write = 0;
			t.n = 2;
			CHECK_OK(launch_touches(&t, uses, 4));
			CHECK(seen[1] == 7);
			t = (struct touches){4, {{NULL, 0}, {NULL, 1}, {NULL, 1}, {NULL, 1}}};
		}
	}
	/* Undeclared launches and host code may do what they like with what lives. */
	range = (struct fault_range){addr, 2 * CHUNK};
	CHECK_OK(sluice_launch(space, NULL, fault_kernel_add, fault_grid(range.bytes),
			       &range, sizeof(range), NULL, 0));
	CHECK_OK(sluice_stream_synchronize(space, NULL));
	fault_fill(addr, BYTES, 6);
	CHECK(fault_has(addr, BYTES, 6));
	/* A part of a page that write-all covers in part has old bytes to read. */
	uses[0] = (struct sluice_use){addr + 64, 4 * PAGE, SLUICE_USE_WRITE_ALL};
	t = (struct touches){2, {{word_at(0), 0}, {word_at(64), 1}}};
	CHECK_OK(launch_touches(&t, uses, 1));
	CHECK(seen[0] == fault_word(6, 0));
	CHECK(fault_counter(space, SLUICE_COUNTER_INTENT_ERRORS) == 0);
	end();
}

static void
write_to_what_was_declared_read_is_reported(void)
{
	struct sluice_use use;
	struct touches t;

	begin();
	use = (struct sluice_use){addr, CHUNK, SLUICE_USE_READ};
	t = (struct touches){1, {{word_at(3 * PAGE + 8), 1}}};
	WRONG(&t, &use, 1, 1, t.touch[0].at, "write to", "intent read", "12296");
	CHECK(*word_at(3 * PAGE + 8) == 7); /* served: the result does not change */
	t = (struct touches){2, {{word_at(PAGE), 0}, {word_at(PAGE), 1}}};
	WRONG(&t, &use, 1, 1, t.touch[0].at, "write to", "intent read");
	CHECK(seen[0] == fault_word(5, PAGE / 8));
	end();
}

static void
read_of_write_all_and_scratch_before_a_write_is_reported(void)
{
	enum sluice_intent intents[] = {SLUICE_USE_WRITE_ALL, SLUICE_USE_SCRATCH};

	for (size_t i = 0; i < COUNT_OF(intents); i++) {
		struct sluice_use use;
		struct touches t;

		begin();
		use = (struct sluice_use){addr + CHUNK, CHUNK, intents[i]};
		t = (struct touches){1, {{word_at(CHUNK + 2 * PAGE), 0}}};
		WRONG(&t, &use, 1, 1, t.touch[0].at, "read of", "before any write");
		/* Written in one page, read in the next. */
		t = (struct touches){2,
				     {{word_at(CHUNK + 5 * PAGE), 1},
				      {word_at(CHUNK + 6 * PAGE), 0}}};
		WRONG(&t, &use, 1, 1, t.touch[1].at, "read of", "before any write");
		end();
	}
}

static void
undeclared_touch_is_reported(void)
{
	struct sluice_use uses[2];
	struct touches t;

	begin();
	uses[0] = (struct sluice_use){addr, CHUNK, SLUICE_USE_READ_WRITE};
	uses[1] = (struct sluice_use){addr + 2 * CHUNK, CHUNK, SLUICE_USE_READ};
	t = (struct touches){1, {{word_at(CHUNK + PAGE), 0}}};
	WRONG(&t, uses, 2, 1, t.touch[0].at, "read of", "outside the declared uses");
	CHECK(seen[0] == fault_word(5, (CHUNK + PAGE) / 8));
	t = (struct touches){2, {{word_at(0), 1}, {word_at(3 * CHUNK), 1}}};
	WRONG(&t, uses, 2, 1, t.touch[1].at, "write to", "outside the declared uses");
	CHECK(*word_at(3 * CHUNK) == 7);
	/* By the page behind a use that ends inside a chunk. */
	uses[0].size_bytes = 3 * PAGE;
	t = (struct touches){2, {{word_at(2 * PAGE), 1}, {word_at(3 * PAGE), 1}}};
	WRONG(&t, uses, 2, 1, t.touch[1].at, "outside the declared uses");
	end();
}

static void
read_of_discarded_pages_is_reported_until_written(void)
{
	static const enum sluice_discard_mode modes[] = {SLUICE_DISCARD_EAGER,
							 SLUICE_DISCARD_LAZY};

	for (size_t m = 0; m < COUNT_OF(modes); m++) {
		struct sluice_use use;
		struct touches t;

		begin();
		use = (struct sluice_use){addr, BYTES, SLUICE_USE_READ_WRITE};
		CHECK_OK(sluice_discard(space, addr + CHUNK, CHUNK, modes[m],
					NULL)); /* all of a chunk */
		CHECK_OK(sluice_discard(space, addr + 4 * PAGE, 2 * PAGE, modes[m],
					NULL)); /* two pages */
		use.size_bytes = 2 * CHUNK;
		t = (struct touches){1, {{word_at(CHUNK + 8 * PAGE), 0}}};
		WRONG(&t, &use, 1, 1, t.touch[0].at, "read of", "discarded");
		t = (struct touches){1, {{word_at(5 * PAGE), 0}}};
		WRONG(&t, &use, 1, 1, t.touch[0].at, "read of", "discarded");
		/* Its neighbours live. */
		t = (struct touches){2, {{word_at(3 * PAGE), 0}, {word_at(6 * PAGE), 0}}};
		CHECK_OK(launch_touches(&t, &use, 1));
		CHECK(seen[0] == fault_word(5, 3 * PAGE / 8) &&
		      seen[1] == fault_word(5, 6 * PAGE / 8));
		/* Written, they live again. */
		t = (struct touches){2,
				     {{word_at(4 * PAGE), 1}, {word_at(CHUNK + 9 * PAGE), 1}}};
		CHECK_OK(launch_touches(&t, &use, 1));
		t.touch[0].write = t.touch[1].write = 0;
		CHECK_OK(launch_touches(&t, &use, 1));
		CHECK(seen[0] == 7 && seen[1] == 7);
		end();
	}
}

/* Words [from, from + n) of pages, one a page, touched by a launch that declares the pages so. */
static void
pages_touch(size_t from, size_t n, enum sluice_intent intent, int write)
{
	for (size_t page = from; page < from + n; page += 4) {
		struct sluice_use use = {addr + page * PAGE, 4 * PAGE, intent};
		struct touches t = {.n = 4};

		for (size_t i = 0; i < 4; i++) {
			t.touch[i].at = word_at((page + i) * PAGE);
			t.touch[i].write = write;
		}
		seen[0] = 0;
		CHECK_OK(launch_touches(&t, &use, 1));
		CHECK(write || seen[0] == 7);
	}
}

/* The first bytes are a launch's scratch, of which it writes one word. */
static void
scratch_run(size_t bytes)
{
	struct sluice_use use = {addr, bytes, SLUICE_USE_SCRATCH};
	struct touches t = {1, {{word_at(0), 1}}};

	CHECK_OK(launch_touches(&t, &use, 1));
}

/* On a pinned chunk no touch is seen: what was noted of its pages would be wrong ever after. */
static void
what_is_written_while_it_is_pinned_is_not_taken_for_scratch(void)
{
	for (int whole = 0; whole < 2; whole++) {
		begin();
		CHECK_OK(sluice_pin(space, addr, CHUNK));
		scratch_run(whole ? CHUNK : CHUNK / 2);
		pages_touch(0, 4, SLUICE_USE_WRITE, 1);
		CHECK_OK(sluice_unpin(space, addr, CHUNK));
		pages_touch(0, 4, SLUICE_USE_READ, 0);
		end();
	}
}

static void
what_was_discarded_before_it_was_pinned_may_be_written(void)
{
	for (int whole = 0; whole < 2; whole++) {
		begin();
		CHECK_OK(sluice_discard(space, addr, whole ? CHUNK : CHUNK / 2,
					SLUICE_DISCARD_EAGER, NULL));
		CHECK_OK(sluice_pin(space, addr, CHUNK));
		pages_touch(0, 4, SLUICE_USE_WRITE, 1);
		CHECK_OK(sluice_unpin(space, addr, CHUNK));
		pages_touch(0, 4, SLUICE_USE_READ, 0);
		end();
	}
}

/* The discard of the second half would take the chunk for dead. */
static void
what_is_written_while_it_is_pinned_does_not_go_with_the_rest(void)
{
	begin();
	CHECK_OK(sluice_pin(space, addr, CHUNK));
	scratch_run(CHUNK / 2);
	pages_touch(0, 4, SLUICE_USE_WRITE, 1);
	CHECK_OK(sluice_unpin(space, addr, CHUNK));
	CHECK_OK(sluice_discard(space, addr + CHUNK / 2, CHUNK / 2, SLUICE_DISCARD_LAZY,
				NULL));
	CHECK(*word_at(3 * PAGE) == 7);
	CHECK(fault_counter(space, SLUICE_COUNTER_INTENT_ERRORS) == 0);
	end();
}

/* A discard of what is pinned is not the unmapping of it, whatever checking makes of it else. */
static void
pinned_chunk_stays_on_the_device_when_it_is_discarded(void)
{
	struct sluice_residency at;

	begin();
	CHECK_OK(sluice_pin(space, addr, CHUNK));
	CHECK_OK(sluice_discard(space, addr, CHUNK, SLUICE_DISCARD_LAZY, NULL));
	CHECK_OK(sluice_residency(space, addr, CHUNK, &at));
	CHECK(at.tier_bytes[SLUICE_TIER_DEVICE] == CHUNK && at.pinned_bytes == CHUNK);
	pages_touch(0, 4, SLUICE_USE_WRITE, 1);
	CHECK_OK(sluice_unpin(space, addr, CHUNK));
	pages_touch(0, 4, SLUICE_USE_READ, 0);
	end();
}

static void
host_read_of_discarded_pages_is_logged_and_served(void)
{
	uint64_t value;
	char text[32];

	begin();
	CHECK_OK(sluice_discard(space, addr + CHUNK, CHUNK, SLUICE_DISCARD_EAGER, NULL));
	CHECK(fault_read(addr + CHUNK + PAGE, &value) == 0);
	CHECK(value == 0 || value == fault_word(5, (CHUNK + PAGE) / 8));
	CHECK(fault_counter(space, SLUICE_COUNTER_INTENT_ERRORS) == 1);
	snprintf(text, sizeof(text), "%p", (void *)(addr + CHUNK + PAGE));
	CHECK_LOGGED("host code", "read of", text, "discarded");
	/* A write is right, and so is reading it. */
	CHECK(fault_write(addr + CHUNK + 3 * PAGE, 9) == 0);
	CHECK(fault_read(addr + CHUNK + 3 * PAGE, &value) == 0 && value == 9);
	CHECK(fault_counter(space, SLUICE_COUNTER_INTENT_ERRORS) == 1);
	end();
}

static void
first_wrong_touch_of_a_launch_is_the_one_reported(void)
{
	struct sluice_use use;
	struct touches t;

	begin();
	use = (struct sluice_use){addr, CHUNK, SLUICE_USE_READ};
	t = (struct touches){
		3, {{word_at(PAGE), 1}, {word_at(2 * PAGE), 1}, {word_at(CHUNK), 0}}};
	WRONG(&t, &use, 1, 3, t.touch[0].at, "write to");
	/* The next launch starts clean. */
	t = (struct touches){1, {{word_at(PAGE), 0}}};
	CHECK_OK(launch_touches(&t, &use, 1));
	CHECK(seen[0] == 7);
	end();
}

int
main(int argc, char **argv)
{
	static const struct fault_case cases[] = {
		CASE(right_intents_are_never_reported),
		CASE(write_to_what_was_declared_read_is_reported),
		CASE(read_of_write_all_and_scratch_before_a_write_is_reported),
		CASE(undeclared_touch_is_reported),
		CASE(read_of_discarded_pages_is_reported_until_written),
		CASE(what_is_written_while_it_is_pinned_is_not_taken_for_scratch),
		CASE(what_was_discarded_before_it_was_pinned_may_be_written),
		CASE(what_is_written_while_it_is_pinned_does_not_go_with_the_rest),
		CASE(pinned_chunk_stays_on_the_device_when_it_is_discarded),
		CASE(host_read_of_discarded_pages_is_logged_and_served),
		CASE(first_wrong_touch_of_a_launch_is_the_one_reported),
	};

	return fault_main(argc, argv, cases, COUNT_OF(cases));
}
