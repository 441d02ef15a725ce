/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software device: creation, destruction, the table of operations.
 *
 * Creation reserves the addresses (inaccessible, no memory), opens three userfaultfd descriptors
 * and starts the threads. Workers run blocks of kernels, handlers serve faults, and each stream
 * has a thread. A descriptor has one way to deliver faults, so there are three: one with
 * messages, one with signals, and one for the arena, which only receives moves.
 *
 * A forked child has neither the addresses nor the threads. The descriptors close on exec.
 */
#include "device/soft/soft.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/log.h"
#include "base/size.h"
#include "device/soft/uffd.h"

#define BASE_ALIGN (1ul << 30)

int
sl_soft_thread_start(pthread_t *thread, void *(*run)(void *), void *arg, const char *name)
{
	static const int own_faults[] = {SIGSEGV, SIGBUS,  SIGFPE,
					 SIGILL,  SIGTRAP, SIGSYS};
	sigset_t blocked;
	sigset_t before;
	int rc = sl_fault_point("thread.create");

	if (rc)
		return rc;
	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof(own_faults) / sizeof(own_faults[0]); i++)
		sigdelset(&blocked, own_faults[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	rc = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return sl_fail(-rc, "device: starting thread %s: %s (limits of processes or memory)",
			       name, sl_errno_name(rc));
	pthread_setname_np(*thread, name);
	return 0;
}

static void
soft_destroy(struct sl_device *dev)
{
	struct soft *soft = sl_soft_of(dev);

	if (!soft)
		return;
	/* Handlers first: one may still serve a touch that somebody else's move has ended, and
	 * looks for its thread among the pool's. */
	sl_soft_touch_stop(soft);
	sl_soft_pool_stop(soft);
	sl_soft_frames_stop(soft);
	if (soft->mapping)
		munmap(soft->mapping, soft->mapping_bytes);
	sl_soft_frames_fini(soft);
	sl_soft_spare_maps_give(soft);
	if (soft->zeros)
		munmap(soft->zeros, SL_GRANULE_BYTES);
	if (soft->granule)
		munmap((void *)soft->granule, soft->n_granules * sizeof(*soft->granule));
	if (soft->thread_fd >= 0)
		close(soft->thread_fd);
	if (soft->signal_fd >= 0)
		close(soft->signal_fd);
	if (soft->arena_fd >= 0)
		close(soft->arena_fd);
	if (soft->pagemap_fd >= 0)
		close(soft->pagemap_fd);
	free(soft);
}

static const struct sl_device_ops soft_ops = {
	.name = "soft",
	.destroy = soft_destroy,
	.attach = sl_soft_attach,
	.detach = sl_soft_detach,
	.frame_get = sl_soft_frame_get,
	.frame_put = sl_soft_frame_put,
	.present = sl_soft_present,
	.absent = sl_soft_absent,
	.snapshot = sl_soft_snapshot,
	.stream_create = sl_soft_stream_create,
	.stream_destroy = sl_soft_stream_destroy,
	.stream_submit = sl_soft_stream_submit,
	.stream_synchronize = sl_soft_stream_synchronize,
};

static const struct sl_device_kernels soft_kernels = {
	.run = sl_soft_grid_run,
};

static const struct sl_device_events soft_events = {
	.create = sl_soft_event_create,
	.destroy = sl_soft_event_destroy,
	.record = sl_soft_event_record,
	.wait = sl_soft_event_wait,
	.synchronize = sl_soft_event_synchronize,
	.query = sl_soft_event_query,
};

static const struct sl_device_faults soft_faults = {
	.page_fill = sl_soft_page_fill,
	.page_drop = sl_soft_page_drop,
	.stream_now = sl_soft_stream_now,
};

static const struct sl_device_guards soft_guards = {
	.guard = sl_soft_guard,
	.unguard = sl_soft_unguard,
};

/* Addresses without memory; trims to BASE_ALIGN are left mapped, they cost nothing. */
static int
soft_reserve(struct soft *soft, void *base, size_t bytes)
{
	uintptr_t start;
	void *p;

	if (!bytes || bytes % SL_GRANULE_BYTES || bytes > SIZE_MAX / 2)
		return sl_fail(-EINVAL, "device: address range of %zu bytes: must be a multiple of %u",
			       bytes, SL_GRANULE_BYTES);
	if (base)
		p = mmap(base, bytes, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	else
		p = mmap(NULL, bytes + BASE_ALIGN, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return sl_fail(-ENOMEM,
			       "device: reserving %zu bytes of addresses: %s: lower the "
			       "address range or raise ulimit -v",
			       bytes, sl_errno_name(errno));
	if (!base)
		soft->mapping = p;
	soft->mapping_bytes = base ? bytes : bytes + BASE_ALIGN;
	(void)madvise(p, soft->mapping_bytes, MADV_DONTFORK);
	start = base ? (uintptr_t)base
		     : ((uintptr_t)p + BASE_ALIGN - 1) & ~(uintptr_t)(BASE_ALIGN - 1);
	soft->dev.base = (void *)start;
	soft->dev.bytes = bytes;

	soft->n_granules = bytes / SL_GRANULE_BYTES;
	p = mmap(NULL, soft->n_granules * sizeof(*soft->granule), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return sl_fail(-ENOMEM, "device: table of %zu granules: %s",
			       soft->n_granules, sl_errno_name(errno));
	soft->granule = p;
	p = mmap(NULL, SL_GRANULE_BYTES, PROT_READ,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return sl_fail(-ENOMEM, "device: page of zeros: %s", sl_errno_name(errno));
	soft->zeros = p;
	return 0;
}

static int
soft_open(struct soft *soft)
{
	const char *way = getenv("SLUICE_SOFT_MOVE");
	uint64_t had;
	uint64_t wanted;
	int user_only;
	int rc;

	if (way && strcmp(way, "copy") && strcmp(way, "move") && *way)
		return sl_fail(-EINVAL,
			       "device: SLUICE_SOFT_MOVE=%s: must be move or copy", way);
	rc = sl_uffd_probe(&had, &user_only);
	if (rc)
		return rc;
	if (!(had & SL_UFFD_FEATURE_WP) || !(had & SL_UFFD_FEATURE_SIGBUS) ||
	    !(had & SL_UFFD_FEATURE_THREAD_ID))
		return sl_fail(
			-ENOTSUP,
			"device: userfaultfd of this kernel lacks %s: Linux 5.7 or "
			"newer with CONFIG_HAVE_ARCH_USERFAULTFD_WP is needed",
			had & SL_UFFD_FEATURE_WP ? "signals or thread numbers"
						 : "write protection");
	soft->dev.kernel_touches = !user_only;
	if (user_only)
		sl_log_once("soft.user_only", SL_INFO, "device",
			    "userfaultfd serves user code only: a system call that is "
			    "given an "
			    "absent managed address fails with EFAULT; set "
			    "/proc/sys/vm/unprivileged_userfaultfd to 1 to allow it");
	soft->can_move = (had & SL_UFFD_FEATURE_MOVE) && !(way && !strcmp(way, "copy"));
	if (!soft->can_move)
		sl_log_once("soft.copy", SL_INFO, "device",
			    "pages are copied, not moved (%s): several times slower",
			    had & SL_UFFD_FEATURE_MOVE ? "SLUICE_SOFT_MOVE=copy"
						       : "moving needs Linux 6.8");

	wanted = SL_UFFD_FEATURE_WP | (soft->can_move ? SL_UFFD_FEATURE_MOVE : 0u);
	soft->can_poison = (had & SL_UFFD_FEATURE_POISON) != 0;
	rc = sl_uffd_open(wanted | SL_UFFD_FEATURE_THREAD_ID |
				  (had &
				   (SL_UFFD_FEATURE_EXACT_ADDR | SL_UFFD_FEATURE_POISON)),
			  &soft->thread_fd);
	if (!rc)
		rc = sl_uffd_open(wanted | SL_UFFD_FEATURE_SIGBUS, &soft->signal_fd);
	if (!rc && soft->can_move)
		rc = sl_uffd_open(wanted, &soft->arena_fd);
	if (rc)
		return rc;

	soft->pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (soft->pagemap_fd < 0)
		return sl_fail(
			-ENOTSUP,
			"device: /proc/self/pagemap: %s: /proc must be mounted and "
			"readable (after setuid: PR_SET_DUMPABLE)",
			sl_errno_name(errno));
	soft->drops_tables = soft->can_move && sl_soft_tables_probe(soft);
	return 0;
}

static int
soft_create(const struct sl_device_config *config, struct sl_device **out)
{
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	struct soft *soft;
	int rc;

	if (config->workers > SL_SOFT_WORKERS_MAX)
		return sl_fail(-EINVAL, "device: %u workers: at most %u", config->workers,
			       SL_SOFT_WORKERS_MAX);
	soft = sl_calloc(1, sizeof(*soft));
	if (!soft)
		return sl_fail(-ENOMEM, "device: out of memory");
	soft->dev.ops = &soft_ops;
	soft->dev.kernels = &soft_kernels;
	soft->dev.events = &soft_events;
	soft->dev.faults = &soft_faults;
	soft->dev.guards = &soft_guards;
	soft->dev.progress = &soft->progress;
	soft->dev.workers = config->workers ? config->workers
					    : (uint32_t)(cpus > 0 ? cpus : 1);
	soft->touch_server = config->touch_server;
	soft->thread_fd = -1;
	soft->signal_fd = -1;
	soft->arena_fd = -1;
	soft->pagemap_fd = -1;
	soft->touch.epoll_fd = -1;
	soft->touch.stop_fd = -1;
	sl_soft_frames_init(soft, config->frame_cache_bytes);
	sl_mutex_init(&soft->pool.lock, SL_RANK_STREAM);
	sl_cond_init(&soft->pool.work); /* from here soft_destroy() is always safe */

	rc = soft_open(soft);
	if (!rc)
		rc = soft_reserve(soft, config->address_base, config->address_bytes);
	if (!rc && sl_soft_spare_maps_take(soft))
		rc = sl_fail(-ENOMEM, "device: too few mappings are left to the process: "
				      "raise vm.max_map_count, or free memory");
	if (!rc)
		rc = sl_soft_frames_start(soft);
	if (!rc)
		rc = sl_soft_touch_start(soft);
	if (!rc)
		rc = sl_soft_pool_start(soft);
	if (rc) {
		soft_destroy(&soft->dev);
		return rc;
	}
	*out = &soft->dev;
	return 0;
}

/* Put the device behind the link that the environment asks for. On failure it is destroyed. */
static int
link_wrap(struct sl_device *dev, struct sl_device **out)
{
	const char *link = getenv("SLUICE_SOFT_LINK");
	uint64_t delay_ns, bytes_per_s;
	int rc;

	*out = dev;
	if (!link || !*link)
		return 0;
	rc = sl_delay_parse(link, &delay_ns, &bytes_per_s);
	if (rc) {
		sl_fail(rc,
			"device: SLUICE_SOFT_LINK=%.64s; write nanoseconds[:bytes per "
			"second], "
			"as in 10000:12G",
			link);
		soft_destroy(dev);
		return rc;
	}
	return sl_device_wrap_delay(dev, delay_ns, bytes_per_s, out);
}

int
sl_device_soft_create(const struct sl_device_config *config, struct sl_device **out)
{
	struct sl_device *dev = NULL;
	int rc = soft_create(config, &dev);

	if (!rc)
		rc = link_wrap(dev, &dev);
	if (rc)
		return rc;
	/* Always wrapped: a disarmed fault point is one load, and tests arm at any time. */
	return sl_device_wrap_fault(dev, out);
}
