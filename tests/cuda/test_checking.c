/* SPDX-License-Identifier: Apache-2.0 */
/* Checking mode on a device whose kernels do not fault: host code that does not wait is found. */
#include "cuda/cuda_test.h"

static struct cuda_test t;

int
main(void)
{
	struct sluice_space *s;
	uint64_t *p;

	cuda_test_open(&t);
	s = cuda_test_space(16, 64, "checking=1");
	CHECK_OK(sluice_alloc(s, 8 * MIB, 0, (void **)&p));
	p[0] = 1;
	cuda_test_run(&t, s, NULL, TEST_ADD, p, MIB, 1, SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(p[0] == 2); /* waited: right */
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_INTENT_ERRORS) == 0);
	{
		struct sluice_use use = {p, 8 * MIB, SLUICE_USE_READ_WRITE};
		struct sluice_launch *l;

		CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
		cuda_test_launch(&t, s, NULL, TEST_DELAY, p, MIB, 300 * 1000 * 1000);
		cuda_test_launch(&t, s, NULL, TEST_ADD, p, MIB, 1);
		sluice_launch_end(l);
	}
	CHECK(p[0] == 3); /* not waited: served all the same, after the launch, and reported */
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_INTENT_ERRORS) >= 1); /* a touch may be seen again */
	CHECK_OK(sluice_unmap(s, p));
	cuda_test_close(&t, s);
	return 0;
}
