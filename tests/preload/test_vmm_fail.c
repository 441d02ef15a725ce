/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures with memory that a program maps itself: the driver has no memory for its own part, or
 * a copy or a mapping fails while a handle becomes native. The program gets an error, its
 * contents stay in place, nothing is left behind, and the same call succeeds later. Then two
 * threads that map and use at once, a second GPU, and the settings that choose managed memory.
 */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmm_test.h"

#define BYTES  (4 * MIB)
#define SWEEP  200u /* driver calls of one conversion, at most */
#define ROUNDS 40u

static struct vmm v;

static void
fail(const char *call, unsigned nth, const char *more, int code)
{
	char spec[96];

	snprintf(spec, sizeof(spec), "%s:%u%s:%d", call, nth, more, code);
	CHECK(!v.w.standin->fail_set(spec));
}

/* How often a failure was met. */
static uint64_t
fail_end(void)
{
	uint64_t n = v.w.standin->fail_fired();

	CHECK(!v.w.standin->fail_set(NULL));
	return n;
}

struct pair {
	uint64_t handle, addr, alias;
};

static void
pair_make(struct pair *p, uint64_t value)
{
	p->addr = vmm_alloc(&v, BYTES, &p->handle);
	p->alias = vmm_reserve(&v, BYTES);
	vmm_write(&v, p->addr, BYTES, value);
}

static void
pair_end(const struct pair *p)
{
	(void)v.w.cuMemUnmap(p->alias, BYTES);
	OK(v.w.cuMemAddressFree(p->alias, BYTES));
	vmm_free(&v, p->addr, BYTES, p->handle);
}

static void
a_failed_alias_leaves_the_memory_as_it_was(int at_ease)
{
	static const struct {
		const char *call;
		int code, result;
	} cases[] = {
		{"cuMemAddressReserve", CU_ERROR_OUT_OF_MEMORY, CU_ERROR_OUT_OF_MEMORY},
		{"cuMemcpyDtoDAsync_v2", CU_ERROR_OPERATING_SYSTEM, CU_ERROR_UNKNOWN},
		{"cuMemMap", CU_ERROR_OPERATING_SYSTEM, CU_ERROR_OPERATING_SYSTEM},
		{"cuMemCreate", CU_ERROR_OUT_OF_MEMORY, CU_ERROR_OUT_OF_MEMORY},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t before = vmm_free_bytes(&v);
		struct sl_standin_live live[2];
		struct pair p;

		pair_make(&p, 60 + i);
		v.w.standin->live(&live[0]);
		fail(cases[i].call, 1, "+", cases[i].code);
		CHECK(v.w.cuMemMap(p.alias, BYTES, 0, p.handle, 0) == cases[i].result);
		CHECK(fail_end());
		v.w.standin->live(&live[1]);
		/* Under pressure the library makes frames meanwhile. */
		CHECK(!at_ease || strcmp(cases[i].call, "cuMemCreate") == 0 ||
		      (live[0].handles == live[1].handles &&
		       live[0].mappings == live[1].mappings &&
		       live[0].reservations == live[1].reservations));
		vmm_add(&v, p.addr, BYTES, 1);
		vmm_expect(&v, p.addr, BYTES, 61 + i);
		vmm_map(&v, p.alias, BYTES, p.handle);
		vmm_expect(&v, p.alias, BYTES, 61 + i);
		pair_end(&p);
		if (strcmp(cases[i].call, "cuMemCreate") == 0)
			continue; /* the budget has made way */
		CHECK(vmm_free_bytes(&v) == before);
	}
}

/* Whatever driver call of it fails: it succeeds with the right contents, or says that it did not. */
static void
any_call_of_a_conversion_may_fail(void)
{
	unsigned n, failed = 0;

	for (n = 1; n < SWEEP; n++) {
		uint64_t before = vmm_free_bytes(&v), fired;
		struct pair p;
		int result;

		pair_make(&p, n);
		fail("*", n, "", CU_ERROR_OUT_OF_MEMORY);
		result = v.w.cuMemMap(p.alias, BYTES, 0, p.handle, 0);
		fired = fail_end();
		failed += result != 0;
		if (!result) {
			OK(v.w.cuMemSetAccess(p.alias, BYTES, &vmm_read_write, 1));
			vmm_expect(&v, p.alias, BYTES, n);
		}
		pair_end(&p);
		CHECK(vmm_free_bytes(&v) <= before); /* the budget may have made way */
		if (!fired)
			break;
	}
	printf("a conversion is %u driver calls, %u of which end in an error\n", n - 1,
	       failed);
	CHECK(n < SWEEP && failed);
	v.w.standin->violations_reset(); /* what was mapped by none of its calls was unmapped */
}

/* The driver has none left, since the budget is nearly all there is: the budget makes way. */
static void
what_becomes_the_drivers_gets_its_room(void)
{
	enum { N = 30 };
	struct pair p;
	uint64_t addr[N], handle[N];

	for (unsigned i = 0; i < N; i++) {
		addr[i] = vmm_alloc(&v, BYTES, &handle[i]);
		vmm_write(&v, addr[i], BYTES, i);
	}
	pair_make(&p, 5);
	v.w.standin->memory_taken_set(0, 72 * MIB);
	vmm_map(&v, p.alias, BYTES, p.handle);
	v.w.standin->memory_taken_set(0, 0);
	vmm_expect(&v, p.alias, BYTES, 5);
	for (unsigned i = 0; i < N; i++) {
		vmm_add(&v, addr[i], BYTES, 1);
		vmm_expect(&v, addr[i], BYTES, i + 1);
		vmm_free(&v, addr[i], BYTES, handle[i]);
	}
	pair_end(&p);
}

/* ---- threads ---- */

struct worker {
	pthread_t thread;
	struct cu_stream *stream;
	uint64_t value;
};

static void *
worker_run(void *arg)
{
	struct worker *me = arg;
	struct cu_stream *stream = me->stream;

	OK(v.w.cuCtxSetCurrent(v.w.context));
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t handle, addr = vmm_alloc(&v, BYTES, &handle), got[4], word;

		OK(v.w.cuMemsetD8Async(addr, (unsigned char)me->value, BYTES, stream));
		work_launch(&v.w, WORK_ADD, stream, addr, BYTES / sizeof(uint64_t), 1);
		OK(v.w.cuMemcpyDtoHAsync_v2(got, addr + BYTES - sizeof(got), sizeof(got),
					    stream));
		OK(v.w.cuStreamSynchronize(stream));
		memset(&word, (int)me->value, sizeof(word));
		CHECK(got[0] == word + 1 && got[3] == word + 1);
		vmm_free(&v, addr, BYTES, handle);
	}
	return NULL;
}

static void
threads_map_at_once(void)
{
	struct worker workers[4];

	for (unsigned i = 0; i < 4; i++) {
		workers[i].value = 10 + i;
		OK(v.w.cuStreamCreate(&workers[i].stream, CU_STREAM_NONBLOCKING));
		CHECK(!pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]));
	}
	for (unsigned i = 0; i < 4; i++)
		CHECK(!pthread_join(workers[i].thread, NULL));
	for (unsigned i = 0; i < 4; i++)
		OK(v.w.cuStreamDestroy_v2(workers[i].stream));
}

/* ---- in processes of their own: settings are read once ---- */

/* Access of another GPU is noted, and no reason to leave the memory to the driver. */
static void
another_gpu_is_given_access(void)
{
	const struct cu_access both[] = {
		vmm_read_write,
		{.location = {.type = CU_LOCATION_DEVICE, .id = 1}, .flags = CU_ACCESS_READ},
	};
	struct cu_allocation what = vmm_on_device;
	unsigned long long flags;
	uint64_t handle, addr, other;

	addr = vmm_alloc(&v, BYTES, &handle);
	OK(v.w.cuMemSetAccess(addr, BYTES, both, 2));
	OK(v.cuMemGetAccess(&flags, &both[1].location, addr));
	CHECK(flags == CU_ACCESS_READ);
	vmm_write(&v, addr, BYTES, 9);
	vmm_add(&v, addr, BYTES, 1);
	vmm_expect(&v, addr, BYTES, 10);
	vmm_free(&v, addr, BYTES, handle);
	/* Memory of a GPU that has no space is that GPU's driver's, also in a range of ours. */
	addr = vmm_reserve(&v, BYTES);
	what.location.id = 1;
	OK(v.w.cuMemCreate(&other, BYTES, &what, 0));
	CHECK(!vmm_is_ours(other));
	OK(v.w.cuMemMap(addr, BYTES, 0, other, 0));
	OK(v.w.cuMemSetAccess(addr, BYTES, both, 2));
	vmm_write(&v, addr, BYTES, 9);
	vmm_expect(&v, addr, BYTES, 9);
	vmm_free(&v, addr, BYTES, other);
}

static void
the_driver_is_left_all_of_it(void)
{
	uint64_t before = vmm_free_bytes(&v), handle, addr;

	OK(v.w.cuMemCreate(&handle, BYTES, &vmm_on_device, 0));
	CHECK(!vmm_is_ours(handle));
	CHECK(vmm_free_bytes(&v) == before);
	addr = vmm_reserve(&v, BYTES);
	vmm_map(&v, addr, BYTES, handle);
	vmm_write(&v, addr, BYTES, 3);
	vmm_add(&v, addr, BYTES, 1);
	vmm_expect(&v, addr, BYTES, 4);
	vmm_free(&v, addr, BYTES, handle);
}

/* What may be shared is paged, too, until it is. */
static void
memory_is_ours_until_it_is_shared(void)
{
	struct cu_allocation what = vmm_on_device, got;
	const struct sl_standin_filled *filled;
	uint64_t handle, addr;
	unsigned types = 0;
	int fd;

	what.requested_handle = 1;
	OK(v.w.cuMemCreate(&handle, BYTES, &what, 0));
	CHECK(vmm_is_ours(handle));
	OK(v.cuMemGetAllocationPropertiesFromHandle(&got, handle));
	CHECK(!memcmp(&got, &what, sizeof(got)));
	addr = vmm_reserve(&v, BYTES);
	vmm_map(&v, addr, BYTES, handle);
	OK(v.cuPointerGetAttribute(&types, CU_POINTER_HANDLE_TYPES, addr));
	CHECK(types == 1);
	vmm_write(&v, addr, BYTES, 3);
	CHECK(v.cuMemExportToShareableHandle(&fd, handle, 1, 0) == CU_ERROR_NOT_SUPPORTED);
	filled = v.filled();
	CHECK(!strcmp(filled->name, "cuMemExportToShareableHandle") &&
	      !vmm_is_ours(filled->words[1]) && filled->words[2] == 1);
	vmm_add(&v, addr, BYTES, 1);
	vmm_expect(&v, addr, BYTES, 4);
	vmm_free(&v, addr, BYTES, handle);
}

static void
child(void (*test)(void), const char *run, const char *devices)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		CHECK(!setenv("SLUICE_RUN", run, 1) &&
		      !setenv("CUDA_STANDIN_DEVICES", devices, 1));
		vmm_start(&v, 64, 256);
		test();
		work_end(&v.w);
		exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		exit(77);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

int
main(void)
{
	child(the_driver_is_left_all_of_it, "quiet=1,mapped=driver", "1");
	child(memory_is_ours_until_it_is_shared, "quiet=1,mapped=all", "1");
	child(another_gpu_is_given_access, "quiet=1", "2");
	vmm_start(&v, 128, 512);
	a_failed_alias_leaves_the_memory_as_it_was(1);
	any_call_of_a_conversion_may_fail();
	threads_map_at_once();
	what_becomes_the_drivers_gets_its_room();
	a_failed_alias_leaves_the_memory_as_it_was(0);
	threads_map_at_once();
	work_end(&v.w);
	return 0;
}
