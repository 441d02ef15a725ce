/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why was this chunk evicted? SLUICE_LOG=evict=debug has a line for every chunk that leaves the
 * device: which one, who asked for room, the rule that chose it, and when it was used last.
 * HACKING.md shows how to read it. The rules themselves: tests/unit/test_victim.c.
 */
#include "api.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static char text[16384]; /* what was written to standard error */

/* From here on standard error is a file. */
static void
log_begin(void)
{
	int fd = open(file_path("log"), O_CREAT | O_TRUNC | O_RDWR, 0600);

	CHECK(fd >= 0);
	CHECK(setenv("SLUICE_LOG", "evict=debug", 1) == 0);
	CHECK(dup2(fd, STDERR_FILENO) >= 0);
	close(fd);
}

static void
log_read(void)
{
	ssize_t n = pread(STDERR_FILENO, text, sizeof(text) - 1, 0);

	CHECK(n >= 0);
	text[n] = '\0';
}

static void
line_expect(const char *line)
{
	if (!strstr(text, line)) {
		printf("not in the log: %s\nthe log:\n%s", line, text);
		fflush(stdout);
		_exit(1);
	}
}

static uint64_t
lines(void)
{
	uint64_t n = 0;

	for (const char *at = text; (at = strstr(at, "leaves the device")); at++)
		n++;
	return n;
}

/* Room for four chunks; a fifth is used. The launch before it has used chunk 0 again. */
static void
launch_evicts_the_coldest_and_says_so(void)
{
	struct sluice_space *s;
	char *base;

	log_begin();
	s = space_make("device_budget=8M");
	base = region_map(s, file_make("data", 5 * CHUNK, 1), 0, 0, SLUICE_READ);
	for (uint64_t i = 0; i < 4; i++)
		use(s, at_chunk(base, i), CHUNK, SLUICE_USE_READ);
	use(s, base, CHUNK, SLUICE_USE_READ);
	use(s, at_chunk(base, 4), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	log_read();
	CHECK_EQ(lines(), 1);
	line_expect("chunk 1 of ");
	line_expect("data leaves the device; asked by: launch; rule: coldest; last use: "
		    "2 of 6\n");
	space_end(s);
}

static void
discarded_chunk_and_a_smaller_budget_have_their_rules(void)
{
	struct sluice_space *s;
	char *base;

	log_begin();
	s = space_make("device_budget=8M,host_budget=16M");
	base = region_alloc(s, 5 * CHUNK);
	for (uint64_t i = 0; i < 4; i++)
		use(s, at_chunk(base, i), CHUNK, SLUICE_USE_WRITE_ALL);
	CHECK(sluice_discard(s, at_chunk(base, 2), CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	use(s, at_chunk(base, 4), CHUNK, SLUICE_USE_WRITE_ALL);
	space_sync(s);
	CHECK(sluice_space_set_budget(s, SLUICE_TIER_DEVICE, 6 * MIB) == 0);
	CHECK(sluice_evict(s, at_chunk(base, 3), CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	space_sync(s);
	log_read();
	line_expect("asked by: launch; rule: discarded first;");
	line_expect("asked by: smaller budget; rule: coldest;");
	line_expect(
		"asked by: a call or a touch of the range; rule: the range was named;");
	CHECK_EQ(lines(), 3);
	space_end(s);
}

/* A kernel that declares nothing touches a fifth chunk. */
static void
fault_says_that_a_fault_asked(void)
{
	struct sluice_space *s;
	char *base;

	log_begin();
	s = space_make("device_budget=8M,host_budget=16M");
	base = region_alloc(s, 5 * CHUNK);
	for (uint64_t i = 0; i < 4; i++)
		use(s, at_chunk(base, i), CHUNK, SLUICE_USE_WRITE_ALL);
	space_sync(s);
	launch(s, KERNEL_FILL, at_chunk(base, 4), CHUNK, SLUICE_USE_COUNT, 1);
	space_sync(s);
	log_read();
	CHECK_EQ(lines(), 1);
	line_expect("asked by: fault; rule: coldest unused;");
	space_end(s);
}

static void
nothing_is_logged_unless_asked_for(void)
{
	struct sluice_space *s;
	char *base;

	log_begin();
	CHECK(unsetenv("SLUICE_LOG") == 0);
	s = space_make("device_budget=8M");
	base = region_map(s, file_make("data", 5 * CHUNK, 1), 0, 0, SLUICE_READ);
	for (uint64_t i = 0; i < 5; i++)
		use(s, at_chunk(base, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	log_read();
	CHECK_EQ(counter(s, SLUICE_COUNTER_EVICTIONS), 1);
	CHECK_EQ(lines(), 0);
	space_end(s);
}

static const struct api_case cases[] = {
	CASE(launch_evicts_the_coldest_and_says_so),
	CASE(discarded_chunk_and_a_smaller_budget_have_their_rules),
	CASE(fault_says_that_a_fault_asked),
	CASE(nothing_is_logged_unless_asked_for),
};

API_MAIN(cases)
