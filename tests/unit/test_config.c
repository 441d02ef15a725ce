/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: every key as text and from the environment, what is refused and that nothing
 * is changed then, and how sl_config_resolve() rounds and fills in.
 */
#include "unit/cmocka_all.h"

#include "core/api/api.h"

#define MIB ((uint64_t)1 << 20)

static struct sluice_config
config_default(void)
{
	struct sluice_config c;

	assert_int_equal(sluice_config_init(&c), 0);
	return c;
}

/* Set one pair on a fresh configuration. */
static struct sluice_config
config_with(const char *text)
{
	struct sluice_config c = config_default();

	if (sluice_config_parse(&c, text))
		fail_msg("%s: %s", text, sluice_last_error());
	return c;
}

static void
defaults_resolve_on_this_machine(void **state)
{
	struct sluice_config c = config_default();

	(void)state;
	assert_int_equal(c.struct_bytes, sizeof(c));
	assert_int_equal(c.chunk_bytes, 2 * MIB);
	assert_true(c.device_budget_bytes >= 4 * MIB);
	assert_true(c.store_budget_bytes == UINT64_MAX);
	assert_true(c.spill_dirs[0] == '/');
	assert_int_equal(sl_config_resolve(&c), 0);
	assert_true(c.writeback_bytes == c.host_budget_bytes / 4);
}

/* Whoever reserves all of the host tier need not know how large chunks are. */
static void
reserve_of_all_is_rounded_as_the_budget_is(void **state)
{
	struct sluice_config c = config_with("host_budget=9M,host_reserve=9M");

	(void)state;
	assert_int_equal(sl_config_resolve(&c), 0);
	assert_true(c.host_reserve_bytes == 8 * MIB);
}

static void
every_size_key_sets_its_field(void **state)
{
	(void)state;
	assert_true(config_with("device_budget=512M").device_budget_bytes == 512 * MIB);
	assert_true(config_with("host_budget=1G").host_budget_bytes == 1024 * MIB);
	assert_true(config_with("host_reserve=12M").host_reserve_bytes == 12 * MIB);
	assert_true(config_with("store_budget=3T").store_budget_bytes == 3 * MIB * MIB);
	assert_true(config_with("store_budget=-1").store_budget_bytes == UINT64_MAX);
	assert_true(config_with("staging=100M").staging_bytes == 100 * MIB);
	assert_true(config_with("address=64G").address_bytes == 64 * 1024 * MIB);
	assert_true(config_with("chunk=16M").chunk_bytes == 16 * MIB);
	assert_true(config_with("writeback=0").writeback_bytes == 0);
	assert_true(config_with("writeback=-1").writeback_bytes == UINT64_MAX);
}

static void
every_other_key_sets_its_field(void **state)
{
	(void)state;
	assert_int_equal(config_with("device=soft").device, SLUICE_DEVICE_SOFT);
	assert_int_equal(config_with("device=cuda").device, SLUICE_DEVICE_CUDA);
	assert_int_equal(config_with("device=auto").device, SLUICE_DEVICE_AUTO);
	assert_int_equal(config_with("workers=7").workers, 7);
	assert_int_equal(config_with("readahead_chunks=0").readahead_chunks, 0);
	assert_int_equal(config_with("readahead_chunks=65536").readahead_chunks, 65536);
	assert_int_equal(config_with("policy=lru").policy, SLUICE_POLICY_LRU);
	assert_int_equal(config_with("policy=dragon").policy, SLUICE_POLICY_DRAGON);
	assert_int_equal(config_with("policy=uvm").policy, SLUICE_POLICY_UVM);
	assert_int_equal(config_with("population=chunk").population, SLUICE_POPULATE_CHUNK);
	assert_int_equal(config_with("population=grow").population, SLUICE_POPULATE_GROW);
	assert_int_equal(config_with("population=page").population, SLUICE_POPULATE_PAGE);
	assert_int_equal(config_with("miss=serve").miss, SLUICE_MISS_SERVE);
	assert_int_equal(config_with("miss=fail").miss, SLUICE_MISS_FAIL);
	assert_int_equal(config_with("faults=auto").faults, SLUICE_FAULTS_AUTO);
	assert_int_equal(config_with("faults=thread").faults, SLUICE_FAULTS_THREAD);
	assert_int_equal(config_with("faults=signal").faults, SLUICE_FAULTS_SIGNAL);
	assert_int_equal(config_with("store_io=auto").store_io, SLUICE_STORE_IO_AUTO);
	assert_int_equal(config_with("store_io=uring").store_io, SLUICE_STORE_IO_URING);
	assert_int_equal(config_with("store_io=file").store_io, SLUICE_STORE_IO_FILE);
	assert_int_equal(config_with("").compress, SLUICE_COMPRESS_NEVER);
	assert_int_equal(config_with("compress=auto").compress, SLUICE_COMPRESS_AUTO);
	assert_int_equal(config_with("compress=always").compress, SLUICE_COMPRESS_ALWAYS);
	assert_int_equal(config_with("").share, SLUICE_SHARE_OFF);
	assert_int_equal(config_with("share=off").share, SLUICE_SHARE_OFF);
	assert_int_equal(config_with("share=auto").share, SLUICE_SHARE_AUTO);
	assert_int_equal(config_with("soft_memory=64M").soft_memory_bytes, 64 * MIB);
	assert_int_equal(config_with("checking=1").checking, 1);
	assert_int_equal(config_with("checking=1,checking=0").checking, 0);
	assert_int_equal(config_with("publish=1").publish, 1);
	assert_string_equal(config_with("spill_dirs=/a:/b").spill_dirs, "/a:/b");
	assert_string_equal(config_with("spill_dirs=").spill_dirs, "");
}

static void
pairs_are_taken_in_order_and_the_last_counts(void **state)
{
	struct sluice_config c = config_with("chunk=4M,policy=uvm,chunk=8M,");

	(void)state;
	assert_int_equal(c.chunk_bytes, 8 * MIB);
	assert_int_equal(c.policy, SLUICE_POLICY_UVM);
	c = config_with("");
	assert_int_equal(c.chunk_bytes, 2 * MIB);
}

static void
wrong_pair_is_named_and_nothing_is_changed(void **state)
{
	static const char *const texts[][2] = {
		{"chunk=8M,policy", "policy"},
		{"chunk=8M,colour=red", "colour"},
		{"chunk=8M,policy=fifo", "policy"},
		{"chunk=8M,policy=LRU", "policy"},
		{"chunk=8M,device_budget=lots", "device_budget"},
		{"chunk=8M,device_budget=-2", "device_budget"},
		{"chunk=8M,host_budget=1.5", "host_budget"},
		{"chunk=8M,workers=65537", "workers"},
		{"chunk=8M,workers=", "workers"},
		{"chunk=8M,checking=2", "checking"},
		{"chunk=8M,checking=yes", "checking"},
		{"chunk=8M,=3", "key"},
		{"chunk=8M,chunk_bytes=4M", "chunk_bytes"},
		{"chunk=8M, policy=lru", "policy"},
		{"chunk=8M,,policy=lru", "key=value"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct sluice_config c = config_default(), before = c;

		assert_int_equal(sluice_config_parse(&c, texts[i][0]), -EINVAL);
		if (!strstr(sluice_last_error(), texts[i][1]))
			fail_msg("%s: \"%s\" does not name %s", texts[i][0],
				 sluice_last_error(), texts[i][1]);
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

static void
long_spill_directories_fit_to_the_last_byte_or_are_refused(void **state)
{
	struct sluice_config c = config_default();
	char text[1200] = "spill_dirs=";
	size_t n = strlen(text);

	(void)state;
	memset(text + n, 'x', 1023);
	text[n + 1023] = '\0';
	assert_int_equal(sluice_config_parse(&c, text), 0);
	assert_int_equal(strlen(c.spill_dirs), 1023);
	text[n + 1023] = 'x';
	text[n + 1024] = '\0';
	assert_int_equal(sluice_config_parse(&c, text), -EINVAL);
	text[n + 1024] = 'x';
	text[n + 1025] = '\0';
	assert_int_equal(sluice_config_parse(&c, text), -EINVAL);
	assert_int_equal(strlen(c.spill_dirs), 1023);
}

static void
environment_sets_what_its_names_say(void **state)
{
	struct sluice_config c;

	(void)state;
	setenv("SLUICE_DEVICE_BUDGET", "48M", 1);
	setenv("SLUICE_POLICY", "dragon", 1);
	setenv("SLUICE_READAHEAD_CHUNKS", "3", 1);
	setenv("SLUICE_SPILL_DIRS", "/tmp:/var/tmp", 1);
	setenv("SLUICE_HOST_BUDGET", "", 1); /* empty: as if it were not there */
	assert_int_equal(sluice_config_init(&c), 0);
	assert_true(c.device_budget_bytes == 48 * MIB);
	assert_int_equal(c.policy, SLUICE_POLICY_DRAGON);
	assert_int_equal(c.readahead_chunks, 3);
	assert_string_equal(c.spill_dirs, "/tmp:/var/tmp");
	unsetenv("SLUICE_DEVICE_BUDGET");
	unsetenv("SLUICE_POLICY");
	unsetenv("SLUICE_READAHEAD_CHUNKS");
	unsetenv("SLUICE_SPILL_DIRS");
	unsetenv("SLUICE_HOST_BUDGET");
	assert_int_equal(config_default().policy, SLUICE_POLICY_LRU);
}

static void
wrong_variable_is_named(void **state)
{
	struct sluice_config c;

	(void)state;
	setenv("SLUICE_CHUNK", "two", 1);
	assert_int_equal(sluice_config_init(&c), -EINVAL);
	assert_non_null(strstr(sluice_last_error(), "SLUICE_CHUNK"));
	unsetenv("SLUICE_CHUNK");
}

static void
spill_files_go_to_tmpdir_unless_told_otherwise(void **state)
{
	const char *tmpdir = getenv("TMPDIR");
	char *before = tmpdir ? strdup(tmpdir) : NULL;

	(void)state;
	setenv("TMPDIR", "/some/where", 1);
	assert_string_equal(config_default().spill_dirs, "/some/where");
	unsetenv("TMPDIR");
	assert_string_equal(config_default().spill_dirs, "/var/tmp");
	if (before)
		setenv("TMPDIR", before, 1);
	free(before);
}

static void
budgets_are_rounded_down_to_whole_chunks(void **state)
{
	struct sluice_config c = config_with(
		"chunk=4M,device_budget=19M,host_budget=7M,staging=1M,"
		"address=1G");

	(void)state;
	assert_int_equal(sl_config_resolve(&c), 0);
	assert_true(c.device_budget_bytes == 16 * MIB);
	assert_true(c.host_budget_bytes == 4 * MIB);
	assert_true(c.staging_bytes == 32 * MIB); /* never below eight chunks */
	assert_true(c.writeback_bytes == MIB);
}

static void
checking_populates_by_page(void **state)
{
	struct sluice_config c = config_with("checking=1,population=chunk");

	(void)state;
	assert_int_equal(sl_config_resolve(&c), 0);
	assert_int_equal(c.population, SLUICE_POPULATE_PAGE);
}

static void
what_cannot_work_is_refused_with_the_reason(void **state)
{
	static const struct {
		const char *text;
		int rc;
		const char *words;
	} wrong[] = {
		{"chunk=1M", -EINVAL, "2 MiB times a power of two"},
		{"chunk=3M", -EINVAL, "2 MiB times a power of two"},
		{"chunk=6M", -EINVAL, "power of two"},
		{"chunk=128M", -EINVAL, "64 MiB"},
		{"chunk=0", -EINVAL, "power of two"},
		{"device_budget=3M", -ENOBUFS, "device_budget"},
		{"device_budget=16M,chunk=16M", -ENOBUFS, "two chunks"},
		{"host_budget=4M,host_reserve=5M", -EINVAL, "host_reserve"},
		{"address=2M", -EINVAL, "address"},
		{"address=100T", -EINVAL, "address"},
		{"device_budget=1000T,address=1T", -ENOBUFS, "budget"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct sluice_config c = config_with(wrong[i].text);
		int rc = sl_config_resolve(&c);

		if (rc != wrong[i].rc || !strstr(sluice_last_error(), wrong[i].words))
			fail_msg("%s: %d, \"%s\"", wrong[i].text, rc, sluice_last_error());
	}
}

static void
enum_values_and_sizes_of_other_versions_are_refused(void **state)
{
	struct sluice_config c = config_default();

	(void)state;
	c.policy = SLUICE_POLICY_COUNT;
	assert_int_equal(sl_config_resolve(&c), -EINVAL);
	c = config_default();
	c.population = (enum sluice_population) - 1;
	assert_int_equal(sl_config_resolve(&c), -EINVAL);
	c = config_default();
	c.struct_bytes = 8;
	assert_int_equal(sl_config_resolve(&c), -EINVAL);
	assert_non_null(strstr(sluice_last_error(), "sluice_config_init"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(defaults_resolve_on_this_machine),
		T(every_size_key_sets_its_field),
		T(reserve_of_all_is_rounded_as_the_budget_is),
		T(every_other_key_sets_its_field),
		T(pairs_are_taken_in_order_and_the_last_counts),
		T(wrong_pair_is_named_and_nothing_is_changed),
		T(long_spill_directories_fit_to_the_last_byte_or_are_refused),
		T(environment_sets_what_its_names_say),
		T(wrong_variable_is_named),
		T(spill_files_go_to_tmpdir_unless_told_otherwise),
		T(budgets_are_rounded_down_to_whole_chunks),
		T(checking_populates_by_page),
		T(what_cannot_work_is_refused_with_the_reason),
		T(enum_values_and_sizes_of_other_versions_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
