/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device from creation to the end: ranges attached and detached, two devices at once, failures at
 * every step, the delay wrapper, and life without privilege. See device_suite.h.
 */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "device_suite.h"

static void
ranges_are_attached_and_detached(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	char *other;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	other = chunk_addr(&core, CHUNKS + 1);
	CHECK(ops->attach(core.dev, other + PAGE, CHUNK, SL_DELIVER_SIGNAL) == -EINVAL);
	CHECK(ops->attach(core.dev, chunk_addr(&core, 2), CHUNK, SL_DELIVER_SIGNAL) ==
	      -EINVAL);
	CHECK(ops->attach(core.dev, (char *)core.dev->base + ADDRESS_BYTES, CHUNK,
			  SL_DELIVER_SIGNAL) == -EINVAL);
	CHECK(ops->present(core.dev, other, CHUNK, NULL, 0) == -EINVAL);
	for (int i = 0; i < 20; i++) {
		CHECK(ops->attach(core.dev, other, CHUNK, deliveries[i % 2]) == 0);
		CHECK(ops->present(core.dev, other, CHUNK, NULL, 0) == 0);
		CHECK(device_all_zero(&core, other, CHUNK)); /* nothing left of the one before */
		device_pattern_write(&core, other, CHUNK, 1);
		ops->detach(core.dev, other, CHUNK);
	}
	host_touch(other, SIGSEGV);
	CHECK(core.n_touches == 0);
	core_fini(&core);
}

static void
two_devices_do_not_meet(void)
{
	struct core a;
	struct core b;
	volatile char *in_a;
	volatile char *in_b;

	core_init(&a, CHUNK, SL_DELIVER_SIGNAL);
	core_init(&b, CHUNK, SL_DELIVER_SIGNAL);
	in_a = chunk_addr(&a, 0);
	in_b = chunk_addr(&b, 0);
	*in_a = 1;
	*in_b = 2;
	CHECK(a.n_touches == 1 && b.n_touches == 1);
	CHECK(*in_a == 1 && *in_b == 2);
	core_fini(&a);
	in_b[CHUNK] = 1;
	CHECK(b.n_touches == 2);
	core_fini(&b);
}

static void
injected_failures_change_nothing(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_frame *frame;
	struct sl_frame *none = NULL;
	char *addr;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	ops = core.dev->ops;
	addr = chunk_addr(&core, 0);
	frame = frame_get(&core);
	pattern_write(frame->data, CHUNK, 1);

	CHECK(sl_fault_point_set("device.present:1,device.absent:1,frame.get:1:ENOMEM,"
				 "device.page:1,device.guard:1,device.map:1:ENOMEM,"
				 "thread.create:1:EAGAIN") == 0);
	CHECK(ops->present(core.dev, addr, CHUNK, frame, 0) == -EIO);
	CHECK(pattern_is(frame->data, CHUNK, 1));
	CHECK(ops->present(core.dev, addr, CHUNK, frame, SL_PRESENT_KEEP) == 0);
	CHECK(ops->absent(core.dev, addr, CHUNK, frame, SL_ABSENT_KEPT) == -EIO);
	CHECK(pattern_is(addr, CHUNK, 1));
	CHECK(ops->frame_get(core.dev, CHUNK, &none) == -ENOMEM && !none);
	CHECK(core.dev->faults->page_fill(core.dev, chunk_addr(&core, 1), PAGE, NULL, 0) ==
	      -EIO);
	CHECK(core.dev->guards->guard(core.dev, addr, CHUNK) == -EIO);
	CHECK(ops->attach(core.dev, chunk_addr(&core, CHUNKS), CHUNK, SL_DELIVER_THREAD) ==
	      -ENOMEM);
	{
		struct sl_stream *stream = NULL;

		CHECK(ops->stream_create(core.dev, &stream) == -EAGAIN && !stream);
	}
	CHECK(sl_fault_point_fired() == 7);
	CHECK(sl_fault_point_set(NULL) == 0);
	CHECK(ops->absent(core.dev, addr, CHUNK, frame, SL_ABSENT_KEPT) == 0);
	CHECK(pattern_is(frame->data, CHUNK, 1));
	CHECK(core.n_touches == 0);
	ops->frame_put(core.dev, frame);
	core_fini(&core);
}

static void
creation_fails_cleanly_wherever_it_fails(void)
{
	static const char *const names[] = {"mem.alloc", "thread.create"};

	for (int p = 0; p < 2; p++) {
		for (int n = 1;; n++) {
			struct core core = {0};
			struct sl_device *dev = NULL;
			char spec[64];
			int rc;

			snprintf(spec, sizeof(spec), "%s:%d:ENOMEM", names[p], n);
			CHECK(sl_fault_point_set(spec) == 0);
			rc = device_create(&core, &dev);
			if (!sl_fault_point_fired()) {
				CHECK(rc == 0 && n > 2);
				CHECK(sl_fault_point_set(NULL) == 0);
				dev->ops->destroy(dev);
				break;
			}
			CHECK(rc == -ENOMEM);
			CHECK(sl_fault_point_set(NULL) == 0);
		}
	}
}

static void
the_delay_wrapper_is_never_faster_than_its_link(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_device *slow;
	struct sl_frame *frame;
	uint64_t start_ns;
	int rc;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	rc = sl_device_wrap_delay(core.dev, 1000000, CHUNK * 500, &slow); /* 2 ms a chunk */
	CHECK(rc == 0);
	core.dev = slow;
	ops = slow->ops;
	frame = frame_get(&core);
	memset(frame->data, 1, CHUNK);
	start_ns = sl_now_ns();
	CHECK(ops->present(core.dev, chunk_addr(&core, 0), CHUNK, frame, SL_PRESENT_KEEP) ==
	      0);
	CHECK(ops->absent(core.dev, chunk_addr(&core, 0), CHUNK, frame, SL_ABSENT_COPY) == 0);
	CHECK(sl_now_ns() - start_ns >= 4000000);
	start_ns = sl_now_ns();
	CHECK(core.dev->faults->page_fill(core.dev, chunk_addr(&core, 1), PAGE,
					  frame->data, 0) == 0);
	CHECK(sl_now_ns() - start_ns >= 1000000);
	ops->frame_put(core.dev, frame);
	core_fini(&core);
}

/* In a child without privilege: user-mode faults are enough for kernels and host code. */
static void
works_without_privilege_or_says_why_not(void)
{
	int status = 0;
	pid_t pid;

	if (geteuid())
		return; /* the whole run is without privilege */
	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct sluice_grid grid = {512, 1, 1};
		struct kernel_args args = {0};
		struct core core = {0};
		struct sl_device *dev;

		if (syscall(SYS_setresgid, 65534, 65534, 65534) ||
		    syscall(SYS_setresuid, 65534, 65534, 65534))
			_exit(3);
		prctl(PR_SET_DUMPABLE, 1); /* lost with the identity; pagemap needs it */
		switch (device_create(&core, &dev)) {
		case 0:
			break;
		case -EPERM:
			_exit(strstr(sluice_last_error(), "unprivileged_userfaultfd") ? 0
										      : 4);
		case -ENOTSUP:
			_exit(0); /* the parent will be told the same, and skip */
		default:
			_exit(5);
		}
		dev->ops->destroy(dev);
		core_init(&core, CHUNK, SL_DELIVER_THREAD);
		args.addr = chunk_addr(&core, 0);
		CHECK(core.dev->kernels->run(core.dev, kernel_sum_pages, grid, &args,
					     NULL) == 0);
		CHECK(core.n_touches >= 1);
		core_fini(&core);
		fflush(stdout);
		_exit(device_failed());
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static const struct device_test tests[] = {
	TEST(ranges_are_attached_and_detached),
	TEST_ROLES(two_devices_do_not_meet, ROLE_TOUCHES),
	TEST_ROLES(injected_failures_change_nothing, ROLE_FAULTS | ROLE_GUARDS),
	TEST_ROLES(creation_fails_cleanly_wherever_it_fails, ROLE_TOUCHES),
	{"the_delay_wrapper_is_never_faster_than_its_link",
	 the_delay_wrapper_is_never_faster_than_its_link, DEVICE_PROMPT, ROLE_FAULTS, 0},
	TEST_BEFORE(works_without_privilege_or_says_why_not, DEVICE_USERFAULT | DEVICE_PROMPT),
};

DEVICE_MAIN(tests)
