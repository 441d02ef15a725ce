/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For scripts/hops: notes the functions that one launch enters. A library for LD_PRELOAD under a program
 * whose libraries were compiled with -finstrument-functions. At exit it writes two files, a line for each
 * function: its library and its offset there.
 *
 *	HOPS_FILE        the functions of the launch that entered the most
 *	HOPS_FILE.chain  the longest chain of calls in any launch, outermost function first
 *
 * A launch begins when cuLaunchKernel() of the preload library is entered and ends when it is left.
 * Threads: what a launch notes is its thread's; the largest is replaced under a lock.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTIONS_MAX 4096
#define CHAIN_MAX     256

struct chain {
	size_t n;
	const void *function[CHAIN_MAX];
};

struct launch {
	const void *outer; /* the wrapper that began it; NULL: none is going on */
	size_t n;
	const void *function[FUNCTIONS_MAX];
	struct chain now, longest;
};

static _Thread_local struct launch own;
static _Thread_local int busy;
static struct launch largest;
static struct chain longest;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

static int
is_launch(const void *function)
{
	Dl_info info;

	return dladdr(function, &info) && info.dli_sname &&
	       !strncmp(info.dli_sname, "cuLaunchKernel", 14) &&
	       strstr(info.dli_fname, "sluice-preload");
}

void
__cyg_profile_func_enter(void *function, void *caller)
{
	(void)caller;
	if (busy)
		return;
	busy = 1;
	if (!own.outer && is_launch(function)) {
		own.outer = function;
		own.n = own.now.n = own.longest.n = 0;
	}
	if (own.outer) {
		size_t k = 0;

		if (own.now.n < CHAIN_MAX)
			own.now.function[own.now.n++] = function;
		if (own.now.n > own.longest.n)
			own.longest = own.now;

		while (k < own.n && own.function[k] != function)
			k++;
		if (k == own.n && k < FUNCTIONS_MAX)
			own.function[own.n++] = function;
	}
	busy = 0;
}

void
__cyg_profile_func_exit(void *function, void *caller)
{
	(void)caller;
	if (busy || !own.outer)
		return;
	if (own.now.n > 0 && own.now.function[own.now.n - 1] == function)
		own.now.n--;
	if (own.outer != function)
		return;
	busy = 1;
	pthread_mutex_lock(&lock);
	if (own.n > largest.n)
		largest = own;
	if (own.longest.n > longest.n)
		longest = own.longest;
	pthread_mutex_unlock(&lock);
	own.outer = NULL;
	busy = 0;
}

static void
functions_write(const char *path, const void *const *function, size_t n)
{
	FILE *file = fopen(path, "w");
	Dl_info info;

	if (!file)
		return;
	for (size_t k = 0; k < n; k++)
		if (dladdr(function[k], &info))
			fprintf(file, "%s %#lx\n", info.dli_fname,
				(unsigned long)((const char *)function[k] -
						(const char *)info.dli_fbase));
	fclose(file);
}

__attribute__((destructor)) static void
largest_write(void)
{
	const char *path = getenv("HOPS_FILE");
	char chain[4096];

	if (!path || !largest.n)
		return;
	functions_write(path, largest.function, largest.n);
	snprintf(chain, sizeof(chain), "%s.chain", path);
	functions_write(chain, longest.function, longest.n);
}
