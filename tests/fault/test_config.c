/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong configurations: unknown keys, values that cannot be read or cannot work, spill
 * directories that do not exist, budgets that the machine, the cgroup or two chunks forbid. Each
 * is refused with a text that names the key or the object, and changes nothing. Cgroups are
 * forged by a memory file system in a mount namespace of the case's own. No group of the machine
 * is touched.
 */
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fault.h"

/* A text of key=value that must be refused with all of it unchanged. */
#define PARSE_FAILS(text, ...)                                                          \
	do {                                                                            \
		struct sluice_config config_, before_;                                  \
		fault_config(&config_, NULL);                                           \
		before_ = config_;                                                      \
		CHECK_FAILS(sluice_config_parse(&config_, text), -EINVAL, __VA_ARGS__); \
		CHECK(!memcmp(&config_, &before_, sizeof(config_)));                    \
	} while (0)

/* A space that must be refused. */
#define CREATE_FAILS(text, code, ...)                                                   \
	do {                                                                            \
		struct sluice_config config_;                                           \
		struct sluice_space *space_ = (void *)0x5a5a;                           \
		fault_config(&config_, text);                                           \
		CHECK_FAILS(sluice_space_create(&config_, &space_), code, __VA_ARGS__); \
		CHECK(space_ == (void *)0x5a5a);                                        \
	} while (0)

static void
unknown_keys_are_einval_and_named(void)
{
	PARSE_FAILS("devise_budget=1G", "devise_budget", "sluice(7)");
	PARSE_FAILS("workers=1,no_such_key=2", "no_such_key");
	PARSE_FAILS("=1", "unknown key");
	PARSE_FAILS("workers", "workers", "key=value");
	PARSE_FAILS("workers=1,,", "key=value");
	PARSE_FAILS("Workers=1", "Workers");
}

static void
wrong_values_are_einval_and_named(void)
{
	char text[1200] = "spill_dirs=";

	PARSE_FAILS("workers=3,device_budget=lots", "device_budget=lots", "512M");
	PARSE_FAILS("device_budget=", "device_budget=");
	PARSE_FAILS("device_budget=-5", "device_budget=-5");
	PARSE_FAILS("device_budget=12Q", "12Q");
	PARSE_FAILS("device_budget=99999999999999999999", "device_budget");
	PARSE_FAILS("workers=-1", "workers=-1", "65536");
	PARSE_FAILS("workers=65537", "workers=65537");
	PARSE_FAILS("policy=fifo", "policy=fifo", "lru");
	PARSE_FAILS("population=row", "population=row", "chunk");
	PARSE_FAILS("checking=2", "checking=2", "0 or 1");
	PARSE_FAILS("checking=yes", "checking=yes");
	memset(text + strlen(text), 'd', 1100);
	PARSE_FAILS(text, "spill_dirs");
}

static void
environment_that_cannot_be_read_is_einval_and_named(void)
{
	struct sluice_config config;
	struct sluice_space *space = NULL;

	setenv("SLUICE_DEVICE_BUDGET", "plenty", 1);
	CHECK_FAILS(sluice_config_init(&config), -EINVAL, "SLUICE_DEVICE_BUDGET", "plenty");
	CHECK_FAILS(sluice_space_create(NULL, &space), -EINVAL, "SLUICE_DEVICE_BUDGET",
		    "plenty");
	CHECK(!space);
	unsetenv("SLUICE_DEVICE_BUDGET");
	CHECK_OK(sluice_config_init(&config));
}

static void
budget_below_two_chunks_is_enobufs(void)
{
	struct sluice_space *space;
	struct sluice_config before, after;

	CREATE_FAILS("device_budget=2M", -ENOBUFS, "two chunks", "device_budget");
	CREATE_FAILS("device_budget=0", -ENOBUFS, "two chunks");
	CREATE_FAILS("device_budget=16M,chunk=16M", -ENOBUFS, "two chunks", "16777216");
	space = fault_space("device_budget=4M"); /* just enough */
	sluice_space_config(space, &before);
	CHECK_FAILS(sluice_space_set_budget(space, SLUICE_TIER_DEVICE, CHUNK), -ENOBUFS,
		    "2097152", "two chunks");
	CHECK_FAILS(sluice_space_set_budget(space, (enum sluice_tier)7, CHUNK), -EINVAL, "7");
	sluice_space_config(space, &after);
	CHECK(!memcmp(&before, &after, sizeof(before)));
	fault_space_end(space);
}

static void
values_that_cannot_work_are_refused_by_create(void)
{
	struct sluice_config config;
	struct sluice_space *space = NULL;

	CREATE_FAILS("chunk=3M", -EINVAL, "3145728", "2 MiB");
	CREATE_FAILS("chunk=1M", -EINVAL, "1048576", "2 MiB");
	CREATE_FAILS("chunk=128M", -EINVAL, "64 MiB");
	CREATE_FAILS("host_reserve=9M", -EINVAL, "host_reserve", "host_budget");
	CREATE_FAILS("address=8M", -EINVAL, "address");
	CREATE_FAILS("address=128T", -EINVAL, "address");
	CREATE_FAILS("workers=65536", -EINVAL, "workers");
	CREATE_FAILS("device=cuda", -ENOTSUP, "CUDA", "device=soft");
	CREATE_FAILS("device_budget=900T", -ENOBUFS, "device_budget", "limit");
	fault_config(&config, NULL);
	config.struct_bytes = 8;
	CHECK_FAILS(sluice_space_create(&config, &space), -EINVAL, "sluice_config_init");
	fault_config(&config, NULL);
	config.policy = (enum sluice_policy)77;
	CHECK_FAILS(sluice_space_create(&config, &space), -EINVAL, "enum");
	fault_config(&config, NULL);
	config.population = (enum sluice_population)77;
	CHECK_FAILS(sluice_space_create(&config, &space), -EINVAL, "enum");
	CHECK(!space);
}

static void
spill_directory_that_is_none_is_refused(void)
{
	fault_file_make("file", PAGE, 1);
	CHECK(!mkdir("locked", 0555) && !chmod(".", 0755));
	CREATE_FAILS("spill_dirs=no/such", -ENOENT, "no/such", "directory that exists");
	CREATE_FAILS("spill_dirs=file", -EINVAL, "file", "not a directory");
	CREATE_FAILS("spill_dirs=", -EINVAL, "empty");
	CREATE_FAILS("spill_dirs=.::.", -EINVAL, "empty");
	CREATE_FAILS("spill_dirs=.:no/such", -ENOENT, "no/such");
	if (geteuid() == 0) {
		struct sluice_config config;
		struct sluice_space *space = NULL;
		int rc;

		fault_config(&config, "spill_dirs=locked");
		CHECK(!seteuid(65534));
		rc = sluice_space_create(&config, &space);
		CHECK(!seteuid(0));
		/* The device may be refused first where users have no userfaultfd. */
		if (rc == -EPERM || rc == -ENOTSUP)
			fault_skip("as another user: %s", sluice_last_error());
		CHECK_FAILS(rc, -EACCES, "locked", "write to");
	} else {
		CREATE_FAILS("spill_dirs=locked", -EACCES, "locked", "write to");
	}
}

static void
spilling_to_memory_is_refused(void)
{
	fault_mounts_own();
	CHECK(!mkdir("memory", 0755));
	if (mount("tmpfs", "memory", "tmpfs", 0, "size=4m"))
		fault_skip("mounting a tmpfs: %s", strerror(errno));
	CREATE_FAILS("spill_dirs=memory", -EINVAL, "memory", "tmpfs", "on a disk");
	CREATE_FAILS("spill_dirs=.:memory", -EINVAL, "memory", "tmpfs");
}

/* Where this process's group for memory would have its files; version 1 or 2. */
static void
group_file_make(int version, const char *name, uint64_t number)
{
	char path[2048] = "/sys/fs/cgroup", line[1024];
	FILE *f = fopen("/proc/self/cgroup", "r");
	size_t n;

	if (version == 1) {
		strcat(path, "/memory");
		CHECK(!mkdir(path, 0755) || errno == EEXIST);
	}
	while (f && fgets(line, sizeof(line), f)) {
		char *group = strchr(line, ':');
		int is_memory = group && strstr(group, version == 1 ? ":memory:" : "::/");

		group = group ? strchr(group + 1, ':') : NULL;
		if (!group || !is_memory)
			continue;
		group[strcspn(group, "\n")] = '\0';
		for (char *part = strtok(group + 1, "/"); part; part = strtok(NULL, "/")) {
			n = strlen(path);
			snprintf(path + n, sizeof(path) - n, "/%s", part);
			CHECK(!mkdir(path, 0755) || errno == EEXIST);
		}
		break;
	}
	if (!f || feof(f))
		fault_skip("no cgroup of version %d", version);
	fclose(f);
	n = strlen(path);
	snprintf(path + n, sizeof(path) - n, "/%s", name);
	f = fopen(path, "w");
	CHECK(f && fprintf(f, "%llu\n", (unsigned long long)number) > 0 && !fclose(f));
}

static void
group_limit_is_respected(int version, const char *limit_name, const char *usage_name)
{
	struct sluice_config config;
	struct sluice_space *space;

	fault_mounts_own();
	if (mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, "size=1m"))
		fault_skip("mounting over /sys/fs/cgroup: %s", strerror(errno));
	group_file_make(version, limit_name, 64 * MIB);
	group_file_make(version, usage_name, 8 * MIB);

	CREATE_FAILS("host_budget=64M", -ENOBUFS, "67108864", "cgroup", "host_budget");
	CREATE_FAILS("device_budget=64M", -ENOBUFS, "67108864", "cgroup", "device_budget");
	/* The defaults fit what the group has left. */
	CHECK_OK(sluice_config_init(&config));
	CHECK(config.device_budget_bytes + config.host_budget_bytes <= 56 * MIB);
	space = fault_space("host_budget=24M");
	fault_space_end(space);
}

static void
cgroup_v1_limit_below_the_budgets_is_enobufs(void)
{
	group_limit_is_respected(1, "memory.limit_in_bytes", "memory.usage_in_bytes");
}

static void
cgroup_v2_limit_below_the_budgets_is_enobufs(void)
{
	group_limit_is_respected(2, "memory.max", "memory.current");
}

static void
memlock_limit_of_0_still_works(void)
{
	struct rlimit none = {0, 0};
	struct sluice_space *space;
	void *addr;

	CHECK(!setrlimit(RLIMIT_MEMLOCK, &none));
	if (geteuid() == 0) /* root may lock without limit: be somebody else, see below */
		CHECK(!chmod(".", 0777));
	fault_file_make("data", 4 * CHUNK, 1);
	space = fault_space(NULL);
	CHECK_OK(sluice_map(space, "data", 0, 0, SLUICE_READ | SLUICE_WRITE, &addr));
	CHECK(fault_has(addr, 4 * CHUNK, 1));
	CHECK_OK(sluice_pin(space, addr, CHUNK));
	CHECK_OK(sluice_unpin(space, addr, CHUNK));
	fault_space_end(space);
	/* Without privileges (user-mode userfaultfd): what is refused is said. */
	if (geteuid() == 0) {
		struct sluice_config config;
		int rc;

		fault_config(&config, NULL);
		CHECK(!setgid(65534) && !setuid(65534));
		rc = sluice_space_create(&config, &space);
		if (rc == -EPERM || rc == -ENOTSUP) {
			CHECK(strlen(sluice_last_error()) > 20);
			return;
		}
		CHECK_OK(rc);
		fault_space_end(space);
	}
}

static void
descriptor_limit_is_a_clean_error(void)
{
	struct sluice_config config;
	struct rlimit limit, before;
	unsigned failures = 0;

	CHECK(!getrlimit(RLIMIT_NOFILE, &before));
	fault_config(&config, NULL);
	for (rlim_t n = 4; n < 24; n++) {
		struct sluice_space *space = NULL;
		int rc;

		limit = (struct rlimit){n, before.rlim_max};
		CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
		rc = sluice_space_create(&config, &space);
		CHECK(!setrlimit(RLIMIT_NOFILE, &before));
		if (rc == -EPERM || rc == -ENOTSUP) /* some feature could not be asked for */
			CHECK(!space);
		else if (rc)
			CHECK_FAILS(rc, -EMFILE, "EMFILE");
		else
			CHECK_OK(sluice_space_destroy(space));
		failures += rc != 0;
	}
	CHECK(failures > 0 && failures < 20);
}

int
main(int argc, char **argv)
{
	static const struct fault_case cases[] = {
		CASE(unknown_keys_are_einval_and_named),
		CASE(wrong_values_are_einval_and_named),
		CASE(environment_that_cannot_be_read_is_einval_and_named),
		CASE(budget_below_two_chunks_is_enobufs),
		CASE(values_that_cannot_work_are_refused_by_create),
		CASE(spill_directory_that_is_none_is_refused),
		CASE(spilling_to_memory_is_refused),
		CASE(cgroup_v1_limit_below_the_budgets_is_enobufs),
		CASE(cgroup_v2_limit_below_the_budgets_is_enobufs),
		CASE(memlock_limit_of_0_still_works),
		CASE(descriptor_limit_is_a_clean_error),
	};

	return fault_main(argc, argv, cases, COUNT_OF(cases));
}
