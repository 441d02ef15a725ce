/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces of several processes that share a GPU (share_test.h): a stand-in device of 512 MiB, of which
 * programs may have half.
 */
#include "cuda/cuda_test.h"
#include "share_test.h"

static struct cuda_test t;

static void
gpu_open(void)
{
	cuda_test_open(&t);
	if (!t.standin) {
		printf("SKIP: the sizes are those of the stand-in device\n");
		exit(77);
	}
}

static struct sluice_space *
gpu_space(const char *more)
{
	char settings[160];

	snprintf(settings, sizeof(settings),
		 "share=auto,device_budget=-1,large_chunk=2M%s%s", *more ? "," : "", more);
	return cuda_test_space(16, 512, settings);
}

static int
gpu_add(struct sluice_space *space, uint64_t *p, uint64_t words)
{
	const struct sluice_use use = {p, words * 8, SLUICE_USE_READ_WRITE};
	struct sluice_launch *launch;
	int rc = sluice_launch_begin(space, NULL, &use, 1, &launch);

	if (rc)
		return rc;
	cuda_test_launch(&t, space, NULL, TEST_ADD, p, words, 1);
	sluice_launch_end(launch);
	return 0;
}

int
main(void)
{
	static const struct share_device gpu = {256 * SHARE_MIB, 24 * SHARE_MIB, gpu_open,
						gpu_space, gpu_add};
	char path[] = "/tmp/sluice-device-XXXXXX";
	int fd, rc;

	if (!getenv("SLUICE_CUDA_LIBRARY")) {
		printf("SKIP: the sizes are those of the stand-in device\n");
		return 77;
	}
	fd = mkstemp(path);
	EXPECT(fd >= 0);
	close(fd);
	EXPECT(!setenv("CUDA_STANDIN_DEVICE_BYTES", "512M", 1));
	EXPECT(!setenv("CUDA_STANDIN_SHARED", path, 1));
	EXPECT(!setenv("CUDA_STANDIN_QUIET", "1", 1));
	rc = share_tests_run(&gpu);
	(void)unlink(path);
	return rc;
}
