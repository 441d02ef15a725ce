/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a fault to events.touched() and back.
 *
 * SIGNAL delivery: the fault is a SIGBUS on the touching thread, and the handler serves it
 * there. The machine's error code tells its kind (page present or not, read or write) without a
 * system call. THREAD delivery: handler threads read messages. They start as two. When all are
 * busy another one starts, up to SL_SOFT_HANDLERS_MAX.
 *
 * A touch that cannot be served ends the block of a kernel. The thread leaves by siglongjmp to
 * the start of its worker. With THREAD delivery it must do so only at that touch. Another move
 * may have woken it, and leaving malloc() half-way would be a disaster:
 * 1. A signal is sent. The thread notes where it was interrupted, and returns.
 * 2. If it was really stuck, it touches again.
 * 3. The second signal finds it at the same instruction, and it leaves.
 *
 * Host code gets its SIGBUS in the same way; its touch is refused twice before. No signal
 * reaches a thread that touches inside a system call. There the page is poisoned for a moment,
 * and the call fails with EFAULT. A kernel that made the call goes on, but has failed. Meanwhile
 * no thread moves pages there (sl_soft_refuse_begin()). User code that meets the poison tries
 * again later.
 *
 * A message may be read just before another touch's move wakes its thread. It is served all the
 * same, for the launch that made it (message_read()); that launch does not end before. Core
 * finds the page present and does nothing. The touch may be refused because chunk or region have
 * gone. Then the thread is elsewhere, perhaps in a system call that touches nothing. If the
 * kernel tells that it sleeps in one, it is left alone.
 *
 * SIGSEGV and SIGBUS handlers belong to the process. The first device installs them. They are
 * never removed, since others may have chained to them. They pass foreign faults on as if they
 * were not there. All other signals are blocked while a touch is served, so no handler of the
 * program can touch and wait for itself. Handlers read the list of devices, a fixed array of
 * ranges, without a lock. A forked child passes everything on. Its handlers know it by a page
 * that fork clears, without asking for the process's number.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/log.h"
#include "device/soft/soft.h"
#include "device/soft/uffd.h"

#define DEVICES_MAX 64u
#define GUARD_TRIES 100 /* of 2 ms */
#define PLACE_TRIES 50  /* of 20 us */
#define MET_TRIES   8   /* touches in a row that meet poison which is gone by then */

/* A device that the handlers know; a free one has soft NULL. */
struct listed_device {
	/* atomic: relaxed: written before soft, which orders them. */
	_Atomic uintptr_t base, end;
	_Atomic(struct soft *) soft; /* atomic: pairs with the acquire of the handlers */
};

/* atomic: relaxed: the kernel orders reading a message and waking its thread, which lies between the two
 * counts that are compared. */
_Atomic uint64_t sl_touch_clock;

static struct listed_device listed[DEVICES_MAX];
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* leaf: changes of the list */
static pid_t list_pid; /* process that installed the handlers; under list_lock, then constant */
static struct sigaction before_segv, before_bus; /* set once, before the handlers stand */
/* On a page that fork clears: not 0 in the process that list_pid names. NULL: the system has
 * no such pages. Changed under list_lock.
 * atomic: pairs with the acquire of the handlers. */
static _Atomic(_Atomic int *) list_mark;

/*
 * Codes of the signals that handler threads send (a thread may send another one only
 * codes that no processor makes). si_value is the address of the touch.
 */
enum {
	CODE_LEAVE = -100,  /* to a worker: leave the block */
	CODE_REFUSED = -101 /* to host code: have SIGBUS */
};

/* Host code: where the last CODE_REFUSED interrupted this thread. */
static _Thread_local uintptr_t refused_pc __attribute__((tls_model("initial-exec")));
/* User code: the touch that met poison last, and how often in a row none was left to be seen. */
static _Thread_local uintptr_t met_addr __attribute__((tls_model("initial-exec")));
static _Thread_local unsigned met_n __attribute__((tls_model("initial-exec")));

static uintptr_t
context_pc(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (uintptr_t)context->uc_mcontext.pc;
#else
	(void)context;
	return 0;
#endif
}

#if defined(__aarch64__)
/* The exception syndrome, from the list of records behind the registers; 0: not there. */
static uint64_t
context_syndrome(const ucontext_t *context)
{
	const unsigned char *record = context->uc_mcontext.__reserved;
	const unsigned char *end = record + sizeof(context->uc_mcontext.__reserved);

	while (record + 16 <= end) {
		uint32_t magic;
		uint32_t size;
		uint64_t esr;

		memcpy(&magic, record, 4);
		memcpy(&size, record + 4, 4);
		memcpy(&esr, record + 8, 8);
		if (magic == 0x45535201)
			return esr;
		if (!magic || size < 16)
			break;
		record += size;
	}
	return 0;
}
#endif

/* Read or write, absent or guarded, as the processor reported it. */
static void
context_cause(const struct soft *soft, const ucontext_t *context, struct sl_touch *touch)
{
	int present;
	int write;
#if defined(__x86_64__)
	greg_t error = context->uc_mcontext.gregs[REG_ERR];

	(void)soft;
	present = (int)(error & 1);
	write = (int)(error >> 1 & 1);
#elif defined(__aarch64__)
	uint64_t syndrome = context_syndrome(context);

	(void)soft;
	present = (syndrome & 0x3c) == 0x0c; /* a permission fault, at any level */
	write = (int)(syndrome >> 6 & 1);
#else
	uint64_t map[1];
	uintptr_t page = (uintptr_t)touch->addr & ~(uintptr_t)(SL_PAGE_BYTES - 1);

	(void)context;
	present = !sl_soft_pages_present(soft, (void *)page, SL_PAGE_BYTES, map) &&
		  (map[0] & 1);
	write = present; /* an absent page: a guess */
#endif
	touch->guarded = present && write;
	touch->access = write ? SL_ACCESS_WRITE : SL_ACCESS_READ;
}

/* As if our handler were not there. */
static void
signal_pass_on(int sig, siginfo_t *info, void *context)
{
	struct sigaction *before = sig == SIGSEGV ? &before_segv : &before_bus;
	const ucontext_t *interrupted = context;
	sigset_t mask;

	if (before->sa_handler == SIG_IGN && info->si_code <= 0)
		return; /* sent by somebody; a fault of one's own cannot be ignored */
	if (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN) {
		struct sigaction fatal = {.sa_handler = SIG_DFL};

		/* Pending until this handler returns, then as fatal as it would have been. */
		sigaction(sig, &fatal, NULL);
		syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), sig, info);
		return;
	}
	sigorset(&mask, &interrupted->uc_sigmask, &before->sa_mask);
	if (!(before->sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (before->sa_flags & SA_SIGINFO)
		before->sa_sigaction(sig, info, context);
	else
		before->sa_handler(sig);
}

static struct soft *
device_of(uintptr_t addr)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		struct soft *soft = atomic_load_explicit(&listed[i].soft,
							 memory_order_acquire);

		if (soft &&
		    addr >= atomic_load_explicit(&listed[i].base, memory_order_relaxed) &&
		    addr < atomic_load_explicit(&listed[i].end, memory_order_relaxed))
			return soft;
	}
	return NULL;
}

/* Leave the block; the interrupted thread's signal mask comes back. */
__attribute__((noreturn)) static void
block_leave(struct soft_worker *worker, const ucontext_t *context)
{
	pthread_sigmask(SIG_SETMASK, &context->uc_sigmask, NULL);
	siglongjmp(worker->leave, 1);
}

/*
 * A signal from a handler thread: to be obeyed only where the thread is stuck at a touch,
 * which is where the signal before found it too (see above).
 */
static int
thread_is_stuck(uintptr_t *before_pc, const ucontext_t *context)
{
	uintptr_t pc = context_pc(context);
	int stuck = !pc || *before_pc == pc;

	*before_pc = stuck ? 0 : pc;
	return stuck;
}

static void
leave_asked(struct soft_worker *worker, const ucontext_t *context)
{
	if (worker && worker->in_block && worker->grid &&
	    atomic_load(&worker->doomed) == worker->grid->serial &&
	    thread_is_stuck(&worker->doomed_pc, context))
		block_leave(worker, context);
}

/* Turn the signal of a handler thread into what the touch would have raised by itself. */
static void
refused_arrived(siginfo_t *info, void *context)
{
	siginfo_t real;

	if (!thread_is_stuck(&refused_pc, context))
		return;
	memset(&real, 0, sizeof(real));
	real.si_signo = SIGBUS;
	real.si_code = BUS_ADRERR;
	real.si_addr = info->si_value.sival_ptr;
	signal_pass_on(SIGBUS, &real, context);
}

/* Whether the handlers were installed by this process and not by one that it was forked from. */
static int
process_is_ours(void)
{
	const _Atomic int *mark = atomic_load_explicit(&list_mark, memory_order_acquire);

	return mark ? atomic_load_explicit(mark, memory_order_relaxed) : getpid() == list_pid;
}

static uint16_t
granule_at(const struct soft *soft, uintptr_t addr)
{
	return atomic_load_explicit(
		&soft->granule[(addr - (uintptr_t)soft->dev.base) / SL_GRANULE_BYTES],
		memory_order_relaxed);
}

/* A SIGBUS in a range with SIGNAL delivery. 0: served. */
static int
signal_serve(struct soft *soft, struct soft_worker *worker, siginfo_t *info,
	     const ucontext_t *context)
{
	struct sl_touch touch = {
		.addr = info->si_addr,
		.launch = worker ? worker->grid->launch : NULL,
		.in_thread = 1,
	};

	(void)atomic_load_explicit(&soft->touch.n_attached, memory_order_acquire);
	context_cause(soft, context, &touch);
	return soft->touch_server.touched(soft->touch_server.core, &touch);
}

/*
 * SIGBUS of a range with THREAD delivery, by the kernel (as a bad page or, where it was built without
 * the handling of those, as a bad address): most likely poison that is meant for somebody's system
 * call. 1: try again, it is gone or going. 0: memory that really is bad.
 */
static int
poison_met(const struct soft *soft, uintptr_t addr)
{
	static const struct timespec pause = {0, 100000};

	if (met_addr != addr) {
		met_addr = addr;
		met_n = 0;
	}
	if (granule_at(soft, addr) & SL_SOFT_GRANULE_REFUSED) {
		met_n = 0;
		nanosleep(&pause, NULL);
		return 1;
	}
	return ++met_n <= MET_TRIES;
}

static void
kernel_outside(struct soft_worker *worker, const siginfo_t *info)
{
	char text[SL_ERROR_TEXT_BYTES];

	/* SI_KERNEL: the processor refused the address as such and does not say which. */
	if (info->si_code == SI_KERNEL)
		(void)sl_fail(-EFAULT, "kernel touched an address that cannot exist");
	else
		(void)sl_fail(-EFAULT, "kernel touched %p outside any region", info->si_addr);
	strncpy(text, sluice_last_error(), sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	sl_soft_grid_fail(worker->grid, -EFAULT, text);
}

static void
on_signal(int sig, siginfo_t *info, void *context)
{
	int saved_errno = errno;
	struct soft_worker *worker = sl_soft_worker_current();
	uintptr_t addr = (uintptr_t)info->si_addr;
	struct soft *soft;
	int rc;

	if (!process_is_ours()) {
		signal_pass_on(sig, info, context);
		goto out;
	}
	if (info->si_code == CODE_LEAVE || info->si_code == CODE_REFUSED) {
		if (info->si_code == CODE_LEAVE)
			leave_asked(worker, context);
		else
			refused_arrived(info, context);
		goto out;
	}
	if (worker && !worker->in_block)
		worker = NULL;

	soft = info->si_code > 0 ? device_of(addr) : NULL;
	if (soft && sig == SIGBUS && (granule_at(soft, addr) & SL_SOFT_GRANULE_SIGNAL)) {
		rc = signal_serve(soft, worker, info, context);
		if (!rc)
			goto out;
		if (worker) {
			sl_soft_grid_fail(worker->grid, rc, sluice_last_error());
			block_leave(worker, context);
		}
		sl_log(SL_ERROR, "device", "touch of %p by host code cannot be served: %s",
		       info->si_addr, sluice_last_error());
	} else if (soft && sig == SIGBUS &&
		   (granule_at(soft, addr) & SL_SOFT_GRANULE_THREAD) &&
		   poison_met(soft, addr)) {
		goto out;
	} else if (worker && info->si_code > 0) {
		kernel_outside(worker, info);
		block_leave(worker, context);
	}
	signal_pass_on(sig, info, context);
out:
	errno = saved_errno;
}

/* This process is the one from now on. */
static void
list_own_locked(void)
{
	_Atomic int *mark = atomic_load(&list_mark);

	if (!mark) {
		void *p = mmap(NULL, SL_PAGE_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p != MAP_FAILED && madvise(p, SL_PAGE_BYTES, MADV_WIPEONFORK)) {
			munmap(p, SL_PAGE_BYTES);
			p = MAP_FAILED;
		}
		if (p != MAP_FAILED)
			mark = p;
	}
	list_pid = getpid();
	if (mark) {
		atomic_store(mark, 1);
		atomic_store_explicit(&list_mark, mark, memory_order_release);
	}
}

static int
handlers_install_locked(void)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	struct sigaction on_stack;
	int rc = 0;

	if (list_pid == getpid())
		return 0;
	sigfillset(&action.sa_mask);
	/* A program may have its own SIGSEGV handler for full stacks, on another stack. SIGBUS
	 * stays on the thread's stack: serving a touch needs more than such stacks
	 * have. */
	on_stack = action;
	on_stack.sa_flags |= SA_ONSTACK;
	if (!list_pid) {
		if (sigaction(SIGSEGV, NULL, &before_segv) ||
		    sigaction(SIGBUS, NULL, &before_bus))
			rc = -errno;
		list_own_locked();
		if (!rc && (sigaction(SIGSEGV, &on_stack, NULL) ||
			    sigaction(SIGBUS, &action, NULL)))
			rc = -errno;
		if (rc) {
			list_pid = 0;
			return sl_fail(rc, "device: signal handlers: %s", sl_errno_name(rc));
		}
		return 0;
	}
	/* A child that makes a device of its own: the handlers stand already, the parent's devices
	 * are not here. */
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		atomic_store(&listed[i].soft, NULL);
	list_own_locked();
	return 0;
}

static int
list_add(struct soft *soft)
{
	int rc;

	pthread_mutex_lock(&list_lock);
	rc = handlers_install_locked();
	for (unsigned i = 0; !rc && !soft->touch.listed && i < DEVICES_MAX; i++) {
		if (atomic_load(&listed[i].soft))
			continue;
		atomic_store(&listed[i].base, (uintptr_t)soft->dev.base);
		atomic_store(&listed[i].end, (uintptr_t)soft->dev.base + soft->dev.bytes);
		atomic_store_explicit(&listed[i].soft, soft, memory_order_release);
		soft->touch.listed = 1;
	}
	pthread_mutex_unlock(&list_lock);
	if (!rc && !soft->touch.listed)
		return sl_fail(-ENOMEM, "device: more than %u devices in one process",
			       DEVICES_MAX);
	return rc;
}

static void
list_remove(struct soft *soft)
{
	pthread_mutex_lock(&list_lock);
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (atomic_load(&listed[i].soft) == soft)
			atomic_store(&listed[i].soft, NULL);
	soft->touch.listed = 0;
	pthread_mutex_unlock(&list_lock);
}

static void
thread_signal(pid_t tid, int code, void *addr)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = SIGBUS;
	info.si_code = code;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = addr;
	/* ESRCH: the thread is gone, and its touch with it. */
	(void)syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, SIGBUS, &info);
}

/* What a handler has read. */
struct message {
	struct uffd_msg msg;
	uint64_t number; /* struct sl_touch */
	struct soft_grid *grid; /* that its thread worked for when it touched; kept until put; NULL: none */
	enum soft_toucher who;
};

/* The touch of a message, by the core. 0: served. */
static int
message_touched(struct soft *soft, const struct message *message)
{
	const struct uffd_msg *msg = &message->msg;
	const struct soft_grid *grid = message->grid;
	uint64_t flags = msg->arg.pagefault.flags;
	int guarded = (flags & UFFD_PAGEFAULT_FLAG_WP) != 0;
	int write = guarded || (flags & UFFD_PAGEFAULT_FLAG_WRITE);
	struct sl_touch touch = {
		.addr = (void *)(uintptr_t)msg->arg.pagefault.address,
		.access = write ? SL_ACCESS_WRITE : SL_ACCESS_READ,
		.guarded = guarded,
		.launch = grid ? grid->launch : NULL,
		.thread = (pid_t)msg->arg.pagefault.feat.ptid,
		.number = message->number,
	};

	(void)atomic_load_explicit(&soft->touch.n_attached, memory_order_acquire);
	return soft->touch_server.touched(soft->touch_server.core, &touch);
}

enum thread_place {
	PLACE_RUNNING, /* waits for nothing: somebody else's move has woken it */
	PLACE_USER,    /* waits for a touch in user code */
	PLACE_SYSCALL /* waits inside a system call: no signal gets it out of a touch there */
};

/*
 * Whether a thread sleeps in a touch of somebody's userfaultfd, as far as the kernel tells in which
 * of its functions a thread sleeps (it may not: "0"): 0 only if it certainly does not.
 */
static int
thread_may_touch(pid_t tid)
{
	char path[64];
	char text[64] = "";
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/wchan", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 1;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	return got <= 0 || text[0] == '0' || strstr(text, "userfault");
}

/* Where a thread is whose touch was refused. It may be a moment from going to sleep. */
static enum thread_place
thread_place(pid_t tid)
{
	static const struct timespec pause = {0, 20000};
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	for (int tries = 0; tries < PLACE_TRIES; tries++) {
		char text[16] = "";
		ssize_t got = -1;
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			return PLACE_USER; /* gone (then nothing happens), or not told */
		got = read(fd, text, sizeof(text) - 1);
		close(fd);
		if (got > 0 && text[0] == '-')
			return PLACE_USER;
		if (got > 0 && text[0] >= '0' && text[0] <= '9')
			return thread_may_touch(tid) ? PLACE_SYSCALL : PLACE_RUNNING;
		nanosleep(&pause, NULL);
	}
	return PLACE_RUNNING;
}

/*
 * Make touches of an absent page by system calls fail: by poison or, where the kernel has none, let
 * them have a page that is thrown away. Not if somebody moves there: then the touch is made again.
 */
static void
absent_refuse(struct soft *soft, void *page)
{
	static const struct timespec pause = {0, 2000000};
	size_t done;
	int rc;

	if (!sl_soft_refuse_begin(soft, page)) {
		sl_uffd_wake(soft->thread_fd, page, SL_PAGE_BYTES);
		return;
	}
	rc = soft->can_poison ? sl_uffd_poison(soft->thread_fd, page, SL_PAGE_BYTES)
			      : sl_uffd_copy(soft->thread_fd, page, soft->zeros,
					     SL_PAGE_BYTES, SL_UFFD_NO_WAKE, &done);
	sl_uffd_wake(soft->thread_fd, page, SL_PAGE_BYTES);
	if (!rc) { /* else -EEXIST: present by now */
		nanosleep(&pause, NULL);
		(void)madvise(page, SL_PAGE_BYTES, MADV_DONTNEED);
	}
	sl_soft_refuse_end(soft, page);
	if (!rc && !soft->can_poison)
		sl_log(SL_ERROR, "device", "what a system call did at %p is lost", page);
}

/*
 * Make a touch from a system call fail (EFAULT): poison the page long enough for the call
 * to meet it. If it comes later it is refused again. A guarded page is there and cannot
 * be poisoned: core is asked again, since lifting a guard needs no I/O.
 */
static void
syscall_refuse(struct soft *soft, const struct message *message)
{
	const struct uffd_msg *msg = &message->msg;
	void *page = (void *)((uintptr_t)msg->arg.pagefault.address &
			      ~(uintptr_t)(SL_PAGE_BYTES - 1));
	static const struct timespec pause = {0, 2000000};

	if (!(msg->arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP)) {
		absent_refuse(soft, page);
		return;
	}
	for (int tries = 0; message_touched(soft, message); tries++) {
		nanosleep(&pause, NULL);
		if (tries < GUARD_TRIES)
			continue;
		sl_log(SL_ERROR, "device", "the guard of %p was lifted unseen: %s", page,
		       sluice_last_error());
		/* Refused: the page has been detached, and nobody waits on it. */
		sl_ignore(sl_uffd_protect(soft->thread_fd, page, SL_PAGE_BYTES, 0));
		break;
	}
	sl_uffd_wake(soft->thread_fd, page, SL_PAGE_BYTES);
}

/* A touch that was refused, or that a worker made in a block that is ended already. */
static void
message_refuse(struct soft *soft, const struct message *message, int rc)
{
	const struct uffd_msg *msg = &message->msg;
	struct soft_grid *grid = message->grid;
	void *addr = (void *)(uintptr_t)msg->arg.pagefault.address;
	pid_t tid = (pid_t)msg->arg.pagefault.feat.ptid;
	uintptr_t mark = (uintptr_t)addr + (uintptr_t)tid;
	char text[SL_ERROR_TEXT_BYTES] = "";

	if (rc)
		strncpy(text, sluice_last_error(), sizeof(text) - 1);
	switch (thread_place(tid)) {
	case PLACE_RUNNING:
		/* It has what it wanted; if not, it touches again. */
		sl_uffd_wake(soft->thread_fd,
			     (void *)((uintptr_t)addr & ~(uintptr_t)(SL_PAGE_BYTES - 1)),
			     SL_PAGE_BYTES);
		return;
	case PLACE_USER:
		if (grid && rc)
			sl_soft_grid_doom(soft, grid, tid, rc, text);
		else if (!grid && atomic_exchange(&soft->touch.refused, mark) == mark)
			/* Refused once more: now the signal will be obeyed. */
			sl_log(SL_ERROR, "device",
			       "touch of %p by host code cannot be served: %s", addr, text);
		thread_signal(tid, grid ? CODE_LEAVE : CODE_REFUSED, addr);
		return;
	case PLACE_SYSCALL:
		if (grid && rc)
			sl_soft_grid_doom(soft, grid, tid, rc, text);
		syscall_refuse(soft, message);
		return;
	}
}

/*
 * The next message: 1, or 0 when another handler was faster. Read under the pool's lock: what can be
 * read waits, so until the lock is dropped its thread is in the block that touched. Asked later, another thread's move may
 * have woken it, and it may be in a block of another launch, to be blamed for this touch.
 */
static int
message_read(struct soft *soft, struct message *message)
{
	struct uffd_msg *msg = &message->msg;
	int got;

	message->number = atomic_fetch_add_explicit(&sl_touch_clock, 1, memory_order_relaxed) +
			  1;
	sl_mutex_lock(&soft->pool.lock);
	got = read(soft->thread_fd, msg, sizeof(*msg)) == (ssize_t)sizeof(*msg) &&
	      msg->event == UFFD_EVENT_PAGEFAULT;
	if (got)
		message->grid = sl_soft_grid_get_by_tid_locked(
			&soft->pool, (pid_t)msg->arg.pagefault.feat.ptid, &message->who);
	sl_mutex_unlock(&soft->pool.lock);
	return got;
}

static void
message_serve(struct soft *soft, const struct message *message)
{
	uintptr_t addr = (uintptr_t)message->msg.arg.pagefault.address;
	int rc = 0;

	if (message->who != SOFT_TOUCHER_DOOMED)
		rc = message_touched(soft, message);
	if (rc || message->who == SOFT_TOUCHER_DOOMED)
		message_refuse(soft, message, rc);
	else
		sl_uffd_wake(soft->thread_fd,
			     (void *)(addr & ~(uintptr_t)(SL_PAGE_BYTES - 1)),
			     SL_PAGE_BYTES);
	if (message->grid)
		sl_soft_grid_put(soft, message->grid);
}

static void *handler_run(void *arg);

/* One more handler thread, unless one is being started or there are enough. */
static int
handler_start(struct soft *soft)
{
	struct soft_touch *touch = &soft->touch;
	unsigned n;
	int rc = 0;

	if (atomic_exchange(&touch->growing, 1))
		return 0;
	n = atomic_load(&touch->n_threads);
	if (n < SL_SOFT_HANDLERS_MAX) {
		rc = sl_soft_thread_start(&touch->threads[n], handler_run, soft, "sl-fault");
		if (!rc)
			atomic_store(&touch->n_threads, n + 1);
	}
	atomic_store(&touch->growing, 0);
	return rc;
}

static void *
handler_run(void *arg)
{
	struct soft *soft = arg;
	struct soft_touch *touch = &soft->touch;

	for (;;) {
		struct epoll_event event;
		struct message message;

		if (epoll_wait(touch->epoll_fd, &event, 1, -1) != 1)
			continue; /* EINTR, as when a debugger attaches */
		if (event.data.fd == touch->stop_fd)
			break;
		if (!message_read(soft, &message))
			continue;
		if (atomic_fetch_add(&touch->n_busy, 1) + 1 >= atomic_load(&touch->n_threads) &&
		    handler_start(soft))
			sl_log_once("soft.handler", SL_WARN, "device",
				    "faults are served by %u threads only: %s",
				    atomic_load(&touch->n_threads), sluice_last_error());
		message_serve(soft, &message);
		atomic_fetch_sub(&touch->n_busy, 1);
	}
	return NULL;
}

static int
epoll_add(int epoll_fd, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int
sl_soft_touch_start(struct soft *soft)
{
	struct soft_touch *touch = &soft->touch;
	int rc;

	touch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	touch->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (touch->epoll_fd < 0 || touch->stop_fd < 0 ||
	    epoll_add(touch->epoll_fd, touch->stop_fd) ||
	    epoll_add(touch->epoll_fd, soft->thread_fd)) {
		rc = -errno;
		return sl_fail(rc, "device: epoll: %s (ulimit -n)", sl_errno_name(rc));
	}
	rc = list_add(soft);
	for (unsigned i = 0; !rc && i < SL_SOFT_HANDLERS_MIN; i++)
		rc = handler_start(soft);
	return rc;
}

void
sl_soft_touch_stop(struct soft *soft)
{
	struct soft_touch *touch = &soft->touch;

	if (touch->stop_fd >= 0)
		(void)!eventfd_write(touch->stop_fd, 1);
	/* A handler may start another one until it stops itself: count again each time. */
	for (unsigned i = 0; i < atomic_load(&touch->n_threads); i++)
		pthread_join(touch->threads[i], NULL);
	if (touch->listed)
		list_remove(soft);
	if (touch->epoll_fd >= 0)
		close(touch->epoll_fd);
	if (touch->stop_fd >= 0)
		close(touch->stop_fd);
}
