/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between places that their parameters do not show: managed memory that the library owns,
 * given as host memory; and memory of two GPUs, each with a space of its own. Memory is short,
 * so data have to move first.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy_test.h"

#define BYTES ((size_t)5 << 20)

struct cu_array_shape {
	size_t width, height;
	int format;
	unsigned n_channels;
};

int cuArrayCreate_v2(struct cu_array **array, const struct cu_array_shape *shape);
int cuArrayDestroy(struct cu_array *array);
int cuMemAllocManaged(uint64_t *addr, size_t bytes, unsigned flags);
int cuDevicePrimaryCtxRetain(struct cu_context **context, int device);
int cuCtxSetCurrent(struct cu_context *context);
int cuStreamSynchronize(struct cu_stream *stream);

static const struct sl_standin *standin;

static int
rules_were_broken(void)
{
	char text[256];

	if (!standin->violations())
		return 0;
	printf("%llu rules broken, the last: %s\n",
	       (unsigned long long)standin->violations(),
	       standin->last_violation(text, sizeof(text)));
	return 1;
}

/* ---- managed memory ---- */

static void
all_are(const unsigned char *p, int value, const char *after)
{
	for (size_t i = 0; i < BYTES; i++)
		if (p[i] != value) {
			printf("after %s: byte %zu is %#x and should be %#x\n", after, i,
			       p[i], (unsigned)value);
			exit(1);
		}
}

static int
managed_memory_is_taken_for_host_memory(void)
{
	const struct cu_array_shape shape = {.width = BYTES, .format = 1, .n_channels = 1};
	struct cu_copy_2d flat = {.from_type = CU_MEMORY_TYPE_HOST,
				  .to_type = CU_MEMORY_TYPE_DEVICE,
				  .from_pitch = 1 << 20,
				  .to_pitch = 1 << 20,
				  .width_bytes = 1 << 20,
				  .height = 5};
	struct cu_stream *stream;
	struct cu_array *array;
	uint64_t device, managed[2];
	unsigned char *host[2];

	setenv("SLUICE_RUN", "quiet=1,managed=ours", 1);
	standin = copy_test_open("8M");
	stream = copy_test_stream();
	MUST(DRIVER(cuMemAlloc_v2)(&device, BYTES));
	for (int i = 0; i < 2; i++) {
		MUST(DRIVER(cuMemAllocManaged)(&managed[i], BYTES, 1));
		host[i] = (unsigned char *)(uintptr_t)managed[i];
	}

	memset(host[0], 1, BYTES);
	MUST(DRIVER(cuMemcpyHtoD_v2)(device, host[0], BYTES));
	memset(host[1], 0, BYTES);
	MUST(DRIVER(cuMemcpyDtoH_v2)(host[1], device, BYTES));
	all_are(host[1], 1, "a copy there and back");

	memset(host[0], 2, BYTES);
	MUST(DRIVER(cuMemcpyHtoDAsync_v2)(device, host[0], BYTES, stream));
	MUST(DRIVER(cuMemcpyDtoHAsync_v2)(host[1], device, BYTES, stream));
	MUST(DRIVER(cuStreamSynchronize)(stream));
	all_are(host[1], 2, "the same on a stream");

	memset(host[0], 3, BYTES);
	flat.from_host = host[0];
	flat.to_device = device;
	MUST(DRIVER(cuMemcpy2D_v2)(&flat));
	flat.from_type = CU_MEMORY_TYPE_DEVICE;
	flat.from_device = device;
	flat.to_type = CU_MEMORY_TYPE_HOST;
	flat.to_host = host[1];
	MUST(DRIVER(cuMemcpy2DAsync_v2)(&flat, stream));
	MUST(DRIVER(cuStreamSynchronize)(stream));
	all_are(host[1], 3, "rectangles");

	MUST(DRIVER(cuArrayCreate_v2)(&array, &shape));
	memset(host[0], 4, BYTES);
	MUST(DRIVER(cuMemcpyHtoA_v2)(array, 0, host[0], BYTES));
	MUST(DRIVER(cuMemcpyAtoH_v2)(host[1], array, 0, BYTES));
	all_are(host[1], 4, "an array");
	memset(host[0], 5, BYTES);
	MUST(DRIVER(cuMemcpyHtoAAsync_v2)(array, 0, host[0], BYTES, stream));
	MUST(DRIVER(cuMemcpyAtoHAsync_v2)(host[1], array, 0, BYTES, stream));
	MUST(DRIVER(cuStreamSynchronize)(stream));
	all_are(host[1], 5, "an array on a stream");
	MUST(DRIVER(cuArrayDestroy)(array));

	memset(host[0], 6, BYTES);
	MUST(DRIVER(cuMemcpy)(managed[1], managed[0], BYTES));
	MUST(DRIVER(cuCtxSynchronize)());
	all_are(host[1], 6, "a copy of one to the other");
	for (int i = 0; i < 2; i++)
		MUST(DRIVER(cuMemFree_v2)(managed[i]));
	MUST(DRIVER(cuMemFree_v2)(device));
	return rules_were_broken();
}

/* ---- two GPUs ---- */

static int
peers_have_spaces_of_their_own(void)
{
	struct cu_context *contexts[2];
	struct buffer here, there, host;
	struct cu_stream *stream;
	struct cu_copy_3d box;

	setenv("CUDA_STANDIN_DEVICES", "2", 1);
	standin = copy_test_open("8M");
	contexts[0] = copy_test_context();
	stream = copy_test_stream();
	buffer_make(&here, KIND_OURS, BYTES);
	buffer_make(&host, KIND_OURS, BYTES); /* together more than a GPU takes */
	MUST(DRIVER(cuDevicePrimaryCtxRetain)(&contexts[1], 1));
	MUST(DRIVER(cuCtxSetCurrent)(contexts[1]));
	buffer_make(&there, KIND_OURS, BYTES);
	buffer_free(&host);
	buffer_make(&host, KIND_OURS, BYTES);
	for (int round = 0; round < 4; round++) {
		struct work to = {.to = &there,
				  .from = &here,
				  .width = BYTES - 100,
				  .to_at = 60,
				  .from_at = 20,
				  .height = 1,
				  .depth = 1};
		struct work back = {.to = &here,
				    .from = &there,
				    .width = BYTES - 4096,
				    .to_at = 4000,
				    .from_at = 16,
				    .height = 1,
				    .depth = 1};

		/* Take what was used last off the second GPU. */
		MUST(DRIVER(cuMemsetD8_v2)(host.addr, 1, BYTES));
		MUST(DRIVER(cuCtxSynchronize)());
		MUST(DRIVER(cuCtxSetCurrent)(contexts[0]));
		if (round % 2)
			MUST(DRIVER(cuMemcpyPeerAsync)(there.addr + to.to_at, contexts[1],
						       here.addr + to.from_at,
						       contexts[0], to.width, stream));
		else
			MUST(DRIVER(cuMemcpyPeer)(there.addr + to.to_at, contexts[1],
						  here.addr + to.from_at, contexts[0],
						  to.width));
		work_shadow(&to);
		MUST(DRIVER(cuCtxSynchronize)());
		MUST(DRIVER(cuCtxSetCurrent)(contexts[1]));
		MUST(DRIVER(cuMemsetD8_v2)(host.addr, 2, BYTES));
		MUST(DRIVER(cuCtxSynchronize)());
		MUST(DRIVER(cuCtxSetCurrent)(contexts[0]));
		box = (struct cu_copy_3d){.from_type = CU_MEMORY_TYPE_DEVICE,
					  .from_device = there.addr + back.from_at,
					  .from_context = contexts[1],
					  .to_type = CU_MEMORY_TYPE_DEVICE,
					  .to_device = here.addr + back.to_at,
					  .to_context = contexts[0],
					  .width_bytes = back.width,
					  .height = 1,
					  .depth = 1};
		if (round % 2)
			MUST(DRIVER(cuMemcpy3DPeerAsync)(&box, stream));
		else
			MUST(DRIVER(cuMemcpy3DPeer)(&box));
		work_shadow(&back);
		buffer_check(&here, "a copy from the other GPU");
		MUST(DRIVER(cuCtxSetCurrent)(contexts[1]));
		buffer_check(&there, "a copy to the other GPU");
	}
	buffer_free(&host);
	buffer_free(&there);
	MUST(DRIVER(cuCtxSetCurrent)(contexts[0]));
	buffer_free(&here);
	return rules_were_broken();
}

int
main(void)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} parts[] = {
		{"managed memory", managed_memory_is_taken_for_host_memory},
		{"two GPUs", peers_have_spaces_of_their_own},
	};
	int failed = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		int status;
		pid_t child;

		fflush(stdout);
		child = fork();
		if (!child)
			exit(parts[i].run());
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 1;
		status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (status == 77)
			return 77;
		printf("%s: %s\n", parts[i].name, status ? "failed" : "ok");
		failed |= status != 0;
	}
	return failed;
}
