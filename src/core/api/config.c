/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of a space: defaults from the machine, the environment, and texts of
 * key=value pairs. One table names every key; sluice(7) lists the same. Pure, except for reading
 * /proc and the environment.
 */
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/size.h"
#include "core/api/api.h"
#include "core/environment.h"

enum key_type { KEY_SIZE, KEY_COUNT, KEY_FLAG, KEY_CHOICE, KEY_TEXT };

/* CUDA: remapping costs by the chunk, so that smaller ones bind the link: copies both ways reach
 * 87, 93, 100 % of it with 16, 32, 64 MiB (docs/design/cuda.md). */
#define CUDA_CHUNK_BYTES   (32u << 20)
#define CUDA_BUDGET_CHUNKS 32u

struct key {
	const char *name;
	enum key_type type;
	size_t offset;
	const char *const *choices; /* NULL-terminated */
	const char *text;
};

static const char *const device_names[] = {"auto", "soft", "cuda", NULL};
static const char *const policy_names[] = {"lru", "dragon", "uvm", "plan", NULL};
static const struct sl_policy *const policies[SLUICE_POLICY_COUNT] = {
	[SLUICE_POLICY_LRU] = &sl_policy_lru,
	[SLUICE_POLICY_DRAGON] = &sl_policy_dragon,
	[SLUICE_POLICY_UVM] = &sl_policy_uvm,
	[SLUICE_POLICY_PLAN] = &sl_policy_plan,
};
static const char *const population_names[] = {"chunk", "grow", "page", NULL};
static const char *const miss_names[] = {"serve", "fail", NULL};
static const char *const measure_names[] = {"0", "1", "auto", NULL};
static const char *const host_pin_names[] = {"late", "early", NULL};
static const char *const reach_names[] = {"declared", "any", NULL};
static const char *const faults_names[] = {"auto", "thread", "signal", NULL};
static const char *const store_io_names[] = {"auto", "uring", "file", NULL};

static const char *const compress_names[] = {"never", "auto", "always", NULL};
static const char *const share_names[] = {"off", "auto", NULL};

#define AT(field) offsetof(struct sluice_config, field)
static const struct key keys[] = {
	{"device", KEY_CHOICE, AT(device), device_names, "which device runs kernels"},
	{"device_budget", KEY_SIZE, AT(device_budget_bytes), NULL,
	 "resident on the device at most"},
	{"host_budget", KEY_SIZE, AT(host_budget_bytes), NULL, "host tier at most; 0: off"},
	{"host_reserve", KEY_SIZE, AT(host_reserve_bytes), NULL,
	 "part of the host budget that volatile data must leave free"},
	{"store_budget", KEY_SIZE, AT(store_budget_bytes), NULL,
	 "spilled at most; -1: no limit"},
	{"staging", KEY_SIZE, AT(staging_bytes), NULL, "host memory for I/O in flight"},
	{"address", KEY_SIZE, AT(address_bytes), NULL, "addresses reserved"},
	{"chunk", KEY_SIZE, AT(chunk_bytes), NULL, "unit of residency: 2M to 64M"},
	{"large_chunk", KEY_SIZE, AT(large_chunk_bytes), NULL,
	 "chunk of large regions; 0: the device's choice"},
	{"device_number", KEY_COUNT, AT(device_number), NULL, "which of several GPUs"},
	{"workers", KEY_COUNT, AT(workers), NULL, "kernel threads; 0: one per CPU"},
	{"readahead_chunks", KEY_COUNT, AT(readahead_chunks), NULL,
	 "read ahead at most; 0: off"},
	{"writeback", KEY_SIZE, AT(writeback_bytes),
	 NULL, "dirty file data before background write-back; -1: a quarter of the host budget"},
	{"policy", KEY_CHOICE, AT(policy), policy_names, "who chooses victims"},
	{"population", KEY_CHOICE, AT(population), population_names,
	 "what one fault brings in"},
	{"miss", KEY_CHOICE, AT(miss), miss_names, "touch of what a launch did not declare"},
	{"reach", KEY_CHOICE, AT(reach), reach_names,
	 "what kernels of a CUDA device may touch"},
	{"faults", KEY_CHOICE, AT(faults), faults_names, "which thread serves a fault"},
	{"store_io", KEY_CHOICE, AT(store_io), store_io_names,
	 "how files are read and written"},
	{"checking", KEY_FLAG, AT(checking), NULL, "report wrong intents; slow"},
	{"measure", KEY_CHOICE, AT(measure), measure_names,
	 "find out by hashing what kernels have written (CUDA); auto: where that pays"},
	{"host_pin", KEY_CHOICE, AT(host_pin), host_pin_names,
	 "when host memory is pinned (CUDA)"},
	{"publish", KEY_FLAG, AT(publish), NULL, "let `sluice stat` read the counters"},
	{"spill_dirs", KEY_TEXT, AT(spill_dirs), NULL, "directories for spill files"},
	{"compress", KEY_CHOICE, AT(compress), compress_names,
	 "compress what leaves a GPU, and what is spilled"},
	{"share", KEY_CHOICE, AT(share), share_names, "share the device with other programs"},
	{"soft_memory", KEY_SIZE, AT(soft_memory_bytes), NULL,
	 "what the software device has for all that share it; 0: half of the memory"},
	{"host_room", KEY_SIZE, AT(host_room_bytes), NULL,
	 "host memory of all programs that share it; 0: three quarters of what there is"},
};
#undef AT

static const struct key *
key_find(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strlen(keys[i].name) == length && !strncmp(keys[i].name, name, length))
			return &keys[i];
	}
	return NULL;
}

static int
choice_set(const struct key *key, int *field, const char *value)
{
	for (int i = 0; key->choices[i]; i++) {
		if (!strcmp(key->choices[i], value)) {
			*field = i;
			return 0;
		}
	}
	return sl_fail(-EINVAL, "config: %s=%s: not one of the choices (see sluice(7)); the first is %s",
		       key->name, value, key->choices[0]);
}

static int
key_set(struct sluice_config *config, const struct key *key, const char *value)
{
	char *field = (char *)config + key->offset;
	uint64_t n;

	switch (key->type) {
	case KEY_CHOICE:
		return choice_set(key, (int *)(void *)field, value);
	case KEY_SIZE:
		if (!strcmp(value, "-1"))
			n = UINT64_MAX;
		else if (sl_size_parse(value, &n))
			return sl_fail(-EINVAL,
				       "config: %s=%s: not a size such as 512M or 4G",
				       key->name, value);
		*(uint64_t *)(void *)field = n;
		return 0;
	case KEY_COUNT:
		if (sl_size_parse(value, &n) || n > 65536)
			return sl_fail(-EINVAL, "config: %s=%s: not a number from 0 to 65536",
				       key->name, value);
		*(uint32_t *)(void *)field = (uint32_t)n;
		return 0;
	case KEY_FLAG:
		if (strcmp(value, "0") && strcmp(value, "1"))
			return sl_fail(-EINVAL, "config: %s=%s: 0 or 1 wanted", key->name,
				       value);
		*(int *)(void *)field = value[0] == '1';
		return 0;
	case KEY_TEXT:
		if (strlen(value) >= sizeof(config->spill_dirs))
			return sl_fail(-EINVAL, "config: %s: longer than %zu bytes",
				       key->name, sizeof(config->spill_dirs) - 1);
		memcpy(field, value, strlen(value) + 1);
		return 0;
	}
	return -EINVAL;
}

int
sluice_config_parse(struct sluice_config *config, const char *text)
{
	struct sluice_config changed = *config;
	char value[sizeof(config->spill_dirs) + 1];

	while (*text) {
		size_t length = strcspn(text, ",");
		const char *equals = memchr(text, '=', length);
		const struct key *key;
		size_t n;
		int rc;

		if (!equals)
			return sl_fail(-EINVAL, "config: \"%.*s\" is not key=value",
				       length > 64 ? 64 : (int)length, text);
		key = key_find(text, (size_t)(equals - text));
		if (!key)
			return sl_fail(-EINVAL, "config: unknown key \"%.*s\" (sluice(7) lists them)",
				       equals - text > 64 ? 64 : (int)(equals - text), text);
		n = length - (size_t)(equals + 1 - text);
		if (n >= sizeof(value))
			return sl_fail(-EINVAL, "config: %s: value too long", key->name);
		memcpy(value, equals + 1, n);
		value[n] = '\0';
		rc = key_set(&changed, key, value);
		if (rc)
			return rc;
		text += length;
		if (*text == ',')
			text++;
	}
	*config = changed;
	return 0;
}

int
sl_config_variable(size_t i, char name[SL_CONFIG_VARIABLE_BYTES])
{
	size_t n = strlen("SLUICE_");

	if (i >= sizeof(keys) / sizeof(keys[0]))
		return 0;
	memcpy(name, "SLUICE_", n);
	for (const char *p = keys[i].name; *p; p++)
		name[n++] = (char)toupper((unsigned char)*p);
	name[n] = '\0';
	return 1;
}

static int
environment_read(struct sluice_config *config)
{
	char name[SL_CONFIG_VARIABLE_BYTES];

	for (size_t i = 0; sl_config_variable(i, name); i++) {
		const char *value = getenv(name);
		int rc;

		if (!value || !*value)
			continue;
		rc = key_set(config, &keys[i], value);
		if (rc)
			return sl_fail_in(rc, "%s", name);
	}
	sl_environment_warn();
	return 0;
}

int
sluice_config_init(struct sluice_config *config)
{
	uint64_t memory = sl_memory_available();
	const char *tmp = getenv("TMPDIR");
	uint64_t quarter = memory / 4 / SL_GRANULE_BYTES * SL_GRANULE_BYTES;

	memset(config, 0, sizeof(*config));
	config->struct_bytes = sizeof(*config);
	config->device_budget_bytes = quarter > 2 * SL_GRANULE_BYTES ? quarter
								     : 2 * SL_GRANULE_BYTES;
	config->host_budget_bytes = quarter;
	config->store_budget_bytes = UINT64_MAX;
	config->staging_bytes = 64u << 20;
	config->address_bytes = (uint64_t)1 << 40;
	config->chunk_bytes = SL_GRANULE_BYTES;
	config->readahead_chunks = 8;
	config->writeback_bytes = UINT64_MAX;
	snprintf(config->spill_dirs, sizeof(config->spill_dirs), "%s",
		 tmp && *tmp && strlen(tmp) < sizeof(config->spill_dirs) ? tmp : "/var/tmp");
	return environment_read(config);
}

/* The chunk of large regions, and what it asks of other fields. 0 or -EINVAL. */
static int
large_chunk_resolve(struct sluice_config *c)
{
	uint64_t chunk = c->chunk_bytes;

	if (!c->large_chunk_bytes) {
		c->large_chunk_bytes = chunk;
		if (c->device == SLUICE_DEVICE_CUDA) {
			uint64_t large = CUDA_CHUNK_BYTES;

			while (large > chunk &&
			       large * CUDA_BUDGET_CHUNKS > c->device_budget_bytes)
				large /= 2;
			c->large_chunk_bytes = large > chunk ? large : chunk;
		}
	}
	chunk = c->large_chunk_bytes;
	if (chunk < c->chunk_bytes || chunk > SL_CHUNK_BYTES_MAX || (chunk & (chunk - 1)))
		return sl_fail(
			-EINVAL,
			"config: large_chunk of %llu bytes: must be a power of two from "
			"chunk to 64 MiB",
			(unsigned long long)chunk);
	return 0;
}

const struct sl_policy *
sl_policy_find(enum sluice_policy policy)
{
	return (unsigned)policy < SLUICE_POLICY_COUNT ? policies[policy] : NULL;
}

int
sl_config_round(struct sluice_config *c)
{
	uint64_t chunk = c->chunk_bytes, host_budget = c->host_budget_bytes;

	if (c->struct_bytes != sizeof(*c))
		return sl_fail(
			-EINVAL,
			"config: not filled by sluice_config_init() of this version");
	if (chunk < SL_GRANULE_BYTES || chunk > SL_CHUNK_BYTES_MAX || (chunk & (chunk - 1)))
		return sl_fail(-EINVAL,
			       "config: chunk of %llu bytes: must be 2 MiB times a power "
			       "of two, "
			       "at most 64 MiB",
			       (unsigned long long)chunk);
	if (!sl_policy_find(c->policy) || (unsigned)c->population >= SLUICE_POPULATE_COUNT ||
	    (unsigned)c->miss >= SLUICE_MISS_COUNT ||
	    (unsigned)c->reach >= SLUICE_REACH_COUNT ||
	    (unsigned)c->faults >= SLUICE_FAULTS_COUNT ||
	    (unsigned)c->host_pin >= SLUICE_HOST_PIN_COUNT ||
	    (unsigned)c->store_io >= SLUICE_STORE_IO_COUNT ||
	    (unsigned)c->compress >= SLUICE_COMPRESS_COUNT ||
	    (unsigned)c->share >= SLUICE_SHARE_COUNT ||
	    (unsigned)c->device >= SLUICE_DEVICE_COUNT)
		return sl_fail(-EINVAL,
			       "config: a choice has a value that is not in its enum");
	if (c->checking)
		c->population = SLUICE_POPULATE_PAGE;
	if (large_chunk_resolve(c))
		return -EINVAL;
	chunk = c->large_chunk_bytes;
	c->device_budget_bytes = c->device_budget_bytes / chunk * chunk;
	c->host_budget_bytes = c->host_budget_bytes / chunk * chunk;
	if (c->device_budget_bytes < 2 * chunk)
		return sl_fail(-ENOBUFS,
			       "config: the device budget is below two chunks of %llu "
			       "bytes (one "
			       "access may touch two): raise device_budget or use "
			       "smaller chunks",
			       (unsigned long long)chunk);
	c->staging_bytes = c->staging_bytes / chunk * chunk;
	if (c->staging_bytes < 8 * chunk)
		c->staging_bytes = 8 * chunk;
	if (c->device == SLUICE_DEVICE_CUDA && c->staging_bytes < 32 * chunk)
		c->staging_bytes = 32 * chunk; /* copies both ways and I/O at once */
	if (c->host_reserve_bytes > host_budget)
		return sl_fail(-EINVAL, "config: host_reserve (%llu) is larger than host_budget (%llu)",
			       (unsigned long long)c->host_reserve_bytes,
			       (unsigned long long)host_budget);
	if (c->host_reserve_bytes > c->host_budget_bytes)
		c->host_reserve_bytes = c->host_budget_bytes;
	if (c->writeback_bytes == UINT64_MAX)
		c->writeback_bytes = c->host_budget_bytes / 4;
	if (c->address_bytes < 16 * chunk || c->address_bytes > (uint64_t)1 << 46)
		return sl_fail(-EINVAL, "config: address of %llu bytes: 16 chunks to 64T",
			       (unsigned long long)c->address_bytes);
	c->address_bytes = sl_round_up(c->address_bytes, chunk);
	if (c->device == SLUICE_DEVICE_CUDA)
		c->population = SLUICE_POPULATE_CHUNK;
	return 0;
}

int
sl_config_resolve(struct sluice_config *c)
{
	uint64_t memory = sl_memory_limit(), wanted;
	int rc;

	if (c->share == SLUICE_SHARE_AUTO && c->device != SLUICE_DEVICE_CUDA) {
		if (!c->soft_memory_bytes)
			c->soft_memory_bytes = memory / 2;
		if (c->device_budget_bytes > c->soft_memory_bytes)
			c->device_budget_bytes = c->soft_memory_bytes;
	}
	rc = sl_config_round(c);
	if (rc)
		return rc;
	wanted = c->device_budget_bytes + c->host_budget_bytes + c->staging_bytes;
	if (c->device == SLUICE_DEVICE_CUDA) /* the device's budget is memory of its own */
		wanted -= c->device_budget_bytes;
	if (wanted > memory)
		return sl_fail(-ENOBUFS,
			       "config: device, host and staging budgets add up to %llu "
			       "bytes, this "
			       "process may use %llu (memory or cgroup limit): lower "
			       "device_budget or "
			       "host_budget",
			       (unsigned long long)wanted, (unsigned long long)memory);
	return 0;
}
