/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many streams and several threads over arrays that are handed from one to the next by events: each
 * kernel adds to every word what only it adds, so that a write too early, too late, lost or twice is
 * seen in the sums. Half of the arrays go by streams of their own, half by the default stream, which
 * is one for all threads or, with --default-stream per-thread, one for each. Knows nothing of Sluice.
 * Prints one line of JSON.
 *
 *	nvcc -o streams streams.cu [--default-stream per-thread]
 *	streams [ARRAYS [MEBIBYTES [ROUNDS]]]
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                           \
	do {                                                                                  \
		cudaError_t code_ = (call);                                                   \
		if (code_ != cudaSuccess) {                                                   \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,         \
				cudaGetErrorString(code_));                                   \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

enum { THREADS = 4, STREAMS = 3 };

/* Not the same from both sides: the order of two of them shows. */
__global__ void step(unsigned *a, const unsigned *b, size_t n, unsigned salt)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		a[i] = a[i] * 3u + (b[i] ^ salt) + (unsigned)i;
}

static size_t words;
static int arrays, rounds;

/* What a word of each array should be, for a few words: each word is independent of the others. */
static std::vector<std::vector<unsigned>> expected(unsigned salt, const std::vector<size_t> &where)
{
	std::vector<std::vector<unsigned>> a(arrays, std::vector<unsigned>(where.size()));

	for (int k = 0; k < arrays; k++)
		for (unsigned &v : a[k])
			v = 0x01010101u * (unsigned)(k & 0xff);
	for (int r = 0; r < rounds; r++)
		for (int k = 0; k < arrays; k++)
			for (size_t w = 0; w < where.size(); w++)
				a[k][w] = a[k][w] * 3u +
					  (a[(k + arrays - 1) % arrays][w] ^ (salt + (unsigned)r)) +
					  (unsigned)where[w];
	return a;
}

static void thread_run(int id, int *wrong)
{
	unsigned salt = 1000u * (unsigned)(id + 1);
	std::vector<unsigned *> a(arrays);
	std::vector<cudaEvent_t> done(arrays);
	std::vector<size_t> where;
	cudaStream_t stream[STREAMS];
	std::vector<unsigned> got(words);

	for (int s = 0; s < STREAMS - 1; s++)
		CHECK(cudaStreamCreateWithFlags(&stream[s], s ? cudaStreamNonBlocking : cudaStreamDefault));
	stream[STREAMS - 1] = 0; /* the default stream, whichever that is */
	for (int k = 0; k < arrays; k++) {
		CHECK(cudaMalloc(&a[k], words * 4));
		CHECK(cudaEventCreateWithFlags(&done[k], cudaEventDisableTiming));
		CHECK(cudaMemsetAsync(a[k], k & 0xff, words * 4, stream[k % STREAMS]));
		CHECK(cudaEventRecord(done[k], stream[k % STREAMS]));
	}
	for (int r = 0; r < rounds; r++) {
		for (int k = 0; k < arrays; k++) {
			int before = (k + arrays - 1) % arrays, after = (k + 1) % arrays;
			cudaStream_t s = stream[(k + r) % STREAMS];

			/* What it reads and what it writes was written; what reads it has read. */
			CHECK(cudaStreamWaitEvent(s, done[before], 0));
			CHECK(cudaStreamWaitEvent(s, done[k], 0));
			CHECK(cudaStreamWaitEvent(s, done[after], 0));
			step<<<256, 256, 0, s>>>(a[k], a[before], words, salt + (unsigned)r);
			CHECK(cudaGetLastError());
			CHECK(cudaEventRecord(done[k], s));
		}
	}
	for (size_t w = 0; w < 1000; w++)
		where.push_back((w * 2654435761u + 12345u * (unsigned)id) % words);
	where[0] = 0;
	where[1] = words - 1;
	auto want = expected(salt, where);
	for (int k = 0; k < arrays; k++) {
		CHECK(cudaEventSynchronize(done[k]));
		CHECK(cudaMemcpyAsync(got.data(), a[k], words * 4, cudaMemcpyDeviceToHost, stream[k % STREAMS]));
		CHECK(cudaStreamSynchronize(stream[k % STREAMS]));
		for (size_t w = 0; w < where.size(); w++)
			*wrong += got[where[w]] != want[k][w];
		CHECK(cudaFree(a[k]));
		CHECK(cudaEventDestroy(done[k]));
	}
	for (int s = 0; s < STREAMS - 1; s++)
		CHECK(cudaStreamDestroy(stream[s]));
}

int main(int argc, char **argv)
{
	int wrong[THREADS] = {0}, all = 0;
	std::vector<std::thread> threads;

	arrays = argc > 1 ? atoi(argv[1]) : 8;
	words = (size_t)(argc > 2 ? atoi(argv[2]) : 32) << 18;
	rounds = argc > 3 ? atoi(argv[3]) : 6;
	for (int t = 0; t < THREADS; t++)
		threads.emplace_back(thread_run, t, &wrong[t]);
	for (auto &t : threads)
		t.join();
	CHECK(cudaDeviceSynchronize());
	for (int w : wrong)
		all += w;
	printf("{\"answers\": {\"wrong words\": %d}, \"peak_bytes\": %zu}\n", all,
	       (size_t)THREADS * (size_t)arrays * words * 4);
	return all != 0;
}
