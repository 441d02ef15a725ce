/* SPDX-License-Identifier: Apache-2.0 */
/* The calls for bindings: texts say what the structs say. On the software device. */
#include "api.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sluice/binding.h"

static uint64_t
number_in(const char *text, const char *group, const char *name)
{
	char key[64];
	const char *at = strstr(text, group);

	CHECK(at);
	snprintf(key, sizeof(key), "\"%s\": ", name);
	at = strstr(at, key);
	CHECK(at);
	return strtoull(at + strlen(key), NULL, 10);
}

static void
texts_say_what_the_structs_say(void)
{
	struct sluice_residency at;
	struct sluice_stats stats;
	struct sluice_space *s;
	char text[8192];
	void *p;

	CHECK(sluice_space_open("device_budget=16M,host_budget=8M,readahead_chunks=0",
				&s) == 0);
	CHECK(sluice_alloc(s, 12 * CHUNK, 0, &p) == 0);
	memory_fill(p, 10 * CHUNK, 1);
	at = residency(s, p, 12 * CHUNK); /* nothing is moving any more */
	sluice_stats_get(s, &stats);
	CHECK(sluice_stats_json(s, text, sizeof(text)) == 0);
	for (int k = 0; k < SLUICE_COUNTER_COUNT; k++)
		CHECK_EQ(number_in(text, "\"counters\"",
				   sluice_counter_name((enum sluice_counter)k)),
			 stats.counter[k]);
	CHECK_EQ(number_in(text, "\"resident_bytes\"", "device"), 16 * MIB);
	CHECK_EQ(number_in(text, "\"resident_peak_bytes\"", "host"),
		 stats.resident_peak_bytes[SLUICE_TIER_HOST]);
	CHECK_EQ(number_in(text, "\"budget_bytes\"", "host"), 8 * MIB);
	CHECK(sluice_residency_json(s, p, 12 * CHUNK, text, sizeof(text)) == 0);
	CHECK_EQ(number_in(text, "{", "device"), at.tier_bytes[SLUICE_TIER_DEVICE]);
	CHECK_EQ(number_in(text, "{", "host"), at.tier_bytes[SLUICE_TIER_HOST]);
	CHECK_EQ(number_in(text, "{", "empty"), 2 * CHUNK);
	CHECK_EQ(number_in(text, "{", "dirty"), at.dirty_bytes);
	CHECK(sluice_unmap(s, p) == 0);
	CHECK(sluice_space_destroy(s) == 0);
}

static void
launch_takes_its_uses_from_arrays(void)
{
	const int intents[] = {SLUICE_USE_READ_WRITE, SLUICE_USE_READ};
	const int wrong[] = {SLUICE_USE_COUNT, -1};
	size_t sizes[] = {CHUNK, 2 * CHUNK};
	struct sluice_launch *l = NULL;
	const void *addrs[2];
	struct sluice_space *s;
	char text[256];
	void *p;

	CHECK(sluice_space_open("device=soft,device_budget=16M,host_budget=8M", &s) == 0);
	CHECK(sluice_alloc(s, 4 * CHUNK, 0, &p) == 0);
	addrs[0] = p;
	addrs[1] = (char *)p + 2 * CHUNK;
	CHECK(sluice_launch_begin_ranges(s, NULL, addrs, sizes, intents, 2, &l) == 0);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 3 * CHUNK);
	sluice_launch_end(l);
	l = NULL;
	CHECK_FAILS(sluice_launch_begin_ranges(s, NULL, addrs, sizes, wrong, 1, &l),
		    -EINVAL, "no intent");
	CHECK_FAILS(sluice_launch_begin_ranges(s, NULL, addrs, sizes, wrong + 1, 1, &l),
		    -EINVAL, "no intent");
	CHECK_FAILS(sluice_launch_begin_ranges(s, NULL, NULL, sizes, intents, 1, &l),
		    -EINVAL, "NULL");
	addrs[1] = text;
	CHECK_FAILS(sluice_launch_begin_ranges(s, NULL, addrs, sizes, intents, 2, &l),
		    -ENOENT, "region");
	CHECK(!l);
	CHECK(sluice_space_json(s, text, sizeof(text)) == 0);
	CHECK(strstr(text, "{\"device\": \"soft\", \"device_number\": 0, "));
	CHECK_EQ(number_in(text, "{", "chunk_bytes"), CHUNK);
	CHECK_FAILS(sluice_space_json(s, text, 8), -ENOBUFS, "bytes");
	CHECK(sluice_is_preloaded() == 0);
	CHECK(sluice_space_destroy(s) == 0);
}

static void
wrong_settings_and_short_texts_are_refused(void)
{
	struct sluice_space *s = NULL;
	char text[512], guard[16] = "untouched";

	CHECK_FAILS(sluice_space_open("device_budget=much", &s), -EINVAL, "device_budget");
	CHECK_FAILS(sluice_space_open("no_such_key=1", &s), -EINVAL, "no_such_key");
	CHECK(!s);
	CHECK(sluice_space_open(NULL, &s) == 0);
	CHECK_FAILS(sluice_stats_json(s, text, sizeof(text)), -ENOBUFS, "bytes");
	CHECK(strlen(text) == sizeof(text) - 1);
	CHECK_FAILS(sluice_stats_json(s, guard, 0), -ENOBUFS, "bytes");
	CHECK(!strcmp(guard, "untouched"));
	CHECK_FAILS(sluice_residency_json(s, text, 1, text, sizeof(text)), -ENOENT,
		    "no region");
	CHECK(sluice_space_destroy(s) == 0);
}

static void
forked_child_is_refused(void)
{
	struct sluice_space *s;
	char text[8192];
	pid_t child;
	int status;

	CHECK(sluice_space_open("", &s) == 0);
	child = fork();
	if (!child)
		_exit(sluice_stats_json(s, text, sizeof(text)) == -ECHILD ? 0 : 1);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(sluice_space_destroy(s) == 0);
}

static const struct api_case cases[] = {
	CASE(texts_say_what_the_structs_say),
	CASE(launch_takes_its_uses_from_arrays),
	CASE(wrong_settings_and_short_texts_are_refused),
	CASE(forked_child_is_refused),
};
API_MAIN(cases)
