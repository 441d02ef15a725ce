/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For scripts/hops: notes the functions that one launch enters. A library for LD_PRELOAD under a program
 * whose libraries were compiled with -finstrument-functions; HOPS_FILE is where it writes, at exit, the
 * functions of the launch that entered the most: a line each, its library and its offset there.
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

struct launch {
	const void *outer; /* the wrapper that began it; NULL: none is going on */
	size_t n;
	const void *function[FUNCTIONS_MAX];
};

static _Thread_local struct launch own;
static _Thread_local int busy;
static struct launch largest;
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
		own.n = 0;
	}
	if (own.outer) {
		size_t k = 0;

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
	if (busy || own.outer != function)
		return;
	busy = 1;
	pthread_mutex_lock(&lock);
	if (own.n > largest.n)
		largest = own;
	pthread_mutex_unlock(&lock);
	own.outer = NULL;
	busy = 0;
}

__attribute__((destructor)) static void
largest_write(void)
{
	const char *path = getenv("HOPS_FILE");
	FILE *file = largest.n && path ? fopen(path, "w") : NULL;
	Dl_info info;

	if (!file)
		return;
	for (size_t k = 0; k < largest.n; k++)
		if (dladdr(largest.function[k], &info))
			fprintf(file, "%s %#lx\n", info.dli_fname,
				(unsigned long)((const char *)largest.function[k] -
						(const char *)info.dli_fbase));
	fclose(file);
}
