/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA device lacks something: a suitable driver, device memory that another program holds, or
 * host memory that can be pinned. Each error names a remedy, and existing data stay.
 */
#include <errno.h>

#include "cuda/failure.h"

static struct cuda_test t;

/* ---- no driver, or none that does --------------------------------------------------------- */

static void
creation_is_refused(int rc, const char *why)
{
	struct sluice_config config;
	struct sluice_space *space = NULL;

	CHECK_OK(sluice_config_init(&config));
	config.device = SLUICE_DEVICE_CUDA;
	config.address_bytes = 1 << 30;
	CHECK(sluice_space_create(&config, &space) == rc);
	CHECK(!space);
	CHECK(error_has(why));
	CHECK(error_has("device=soft"));
}

static void
no_driver(void)
{
	creation_is_refused(-ENOTSUP, "no GPU driver");
}

static void
old_driver(void)
{
	creation_is_refused(-ENOTSUP, "too old");
	CHECK(error_has("11.8"));
	CHECK(error_has("12.2"));
}

static void
no_device(void)
{
	creation_is_refused(-ENOTSUP, "finds no device");
}

static void
driver_that_does_not_start(void)
{
	creation_is_refused(-ENOTSUP, "does not start");
	CHECK(error_has("(999)"));
}

static void
no_virtual_memory_management(void)
{
	creation_is_refused(-ENOTSUP, "no virtual memory management");
}

static void
device_number_that_is_not_there(void)
{
	struct sluice_config config;
	struct sluice_space *space = NULL;

	CHECK_OK(sluice_config_init(&config));
	CHECK_OK(sluice_config_parse(&config, "device=cuda,address=1G"));
	config.device_number = 7;
	CHECK(sluice_space_create(&config, &space) == -EINVAL && !space);
	CHECK(error_has("CUDA device 7: there are 1"));
}

/* ---- memory ------------------------------------------------------------------------------- */

static void
out_of_device_memory_below_the_budget(void)
{
	struct sluice_space *s;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t *p;
	unsigned refused = 0;

	cuda_test_open(&t);
	s = cuda_test_space(64, 128, NULL);
	CHECK_OK(sluice_alloc(s, 48 * MIB, 0, (void **)&p));
	t.standin->memory_taken_set(0, 256 * MIB - 12 * MIB);
	for (uint64_t at = 0; at < 48 * MIB; at += TILE) {
		int rc;

		use = (struct sluice_use){(char *)p + at, TILE, SLUICE_USE_WRITE_ALL};
		rc = sluice_launch_begin(s, NULL, &use, 1, &l);
		if (rc) {
			CHECK(rc == -ENOMEM);
			CHECK(error_has("lower the budget"));
			CHECK(error_has("268435456"));
			refused++;
			CHECK_OK(sluice_space_check(s));
			continue;
		}
		cuda_test_launch(&t, s, NULL, TEST_FILL, (char *)p + at, WORDS, at);
		sluice_launch_end(l);
	}
	CHECK(refused > 0 && refused < 24);
	/* What was written is there, what was refused is not, and then it goes on. */
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(p[5] == 5 * K);
	CHECK(p[23 * WORDS] == 0);
	t.standin->memory_taken_set(0, 0);
	for (uint64_t at = 0; at < 48 * MIB; at += TILE)
		cuda_test_run(&t, s, NULL, TEST_FILL, (char *)p + at, WORDS, at,
			      SLUICE_USE_WRITE_ALL);
	for (uint64_t at = 0; at < 48 * MIB; at += TILE)
		fill_check(p + at / 8, WORDS, at);
	CHECK_OK(sluice_unmap(s, p));
	cuda_test_close(&t, s);
}

static void
pinned_memory_is_refused(void)
{
	struct sluice_space *s;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t *p, value;
	unsigned refused = 0;

	cuda_test_open(&t);
	log_catch();
	s = cuda_test_space(8, 128, NULL); /* the stand-in lets 24 MiB be pinned */
	CHECK_OK(sluice_alloc(s, 64 * MIB, 0, (void **)&p));
	for (uint64_t at = 0; at < 64 * MIB; at += TILE) {
		int rc;

		use = (struct sluice_use){(char *)p + at, TILE, SLUICE_USE_WRITE_ALL};
		rc = sluice_launch_begin(s, NULL, &use, 1, &l);
		if (rc) {
			CHECK(rc == -ENOMEM);
			CHECK(error_has("pinning 2097152 bytes of host memory"));
			CHECK_OK(sluice_space_check(s));
			refused++;
			continue;
		}
		cuda_test_launch(&t, s, NULL, TEST_FILL, (char *)p + at, WORDS, at);
		sluice_launch_end(l);
	}
	CHECK(refused > 0);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	for (uint64_t at = 0; at < 64 * MIB; at += TILE) {
		/* It is there, or was never written, or cannot be shown for lack of a frame. */
		if (!word_read((uint64_t *)((char *)p + at + 80), &value))
			CHECK(value == 10 * K + at || value == 0);
	}
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_unmap(s, p));
	cuda_test_close(&t, s);
}

static const struct failure_case cases[] = {
	{"no_driver", no_driver, 0, "SLUICE_CUDA_LIBRARY", "/nowhere/libcuda.so.1", NULL, NULL},
	{"old_driver", old_driver, 1, "CUDA_STANDIN_VERSION", "11080", NULL, NULL},
	{"no_device", no_device, 1, "CUDA_STANDIN_DEVICES", "0", NULL, NULL},
	{"driver_that_does_not_start", driver_that_does_not_start, 1, "CUDA_STANDIN_INIT",
	 "999", NULL, NULL},
	{"no_virtual_memory_management", no_virtual_memory_management, 1,
	 "CUDA_STANDIN_NO_VMM", "1", NULL, NULL},
	{"device_number_that_is_not_there", device_number_that_is_not_there, 1, NULL,
	 NULL, NULL, NULL},
	{"out_of_device_memory_below_the_budget", out_of_device_memory_below_the_budget,
	 1, NULL, NULL, NULL, NULL},
	{"pinned_memory_is_refused", pinned_memory_is_refused, 1,
	 "CUDA_STANDIN_HOST_BYTES", "24M", NULL, NULL},
	{"pinned_memory_is_refused (no host VMM)", pinned_memory_is_refused, 1,
	 "CUDA_STANDIN_HOST_BYTES", "24M", "CUDA_STANDIN_NO_HOST_VMM", "1"},
};

int
main(int argc, char **argv)
{
	return failure_main(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
