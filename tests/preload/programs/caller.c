/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that reaches the driver, in one way for each word on its command line, and prints
 * its findings. The tests run it under the preload library and compare. It links no driver, and
 * nothing of Sluice. Ways that look into tables (replay, rules, forward) compare themselves and
 * print errors.
 *
 * Exit status: 0, or 1 when something that every way needs is missing.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_driver/standin.h"

#define OWN_FILE "libsluice-preload.so"

struct row {
	const char *exported, *base;
	int version, thread, wrapped;
};

enum { LEGACY = 0, PTDS = 1, PTSZ = 1, FORWARD = 0, WRAP = 1 };

static const struct row rows[] = {
#define PL_API(exported, base, version, flavour, class, group) \
	{#exported, #base, (version), (flavour), (class)},
#include "preload/api.tbl"
#undef PL_API
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

typedef int (*init_function)(unsigned flags);
typedef int (*version_function)(int *version);
typedef int (*count_function)(int *count);
typedef int (*name_function)(int result, const char **name);
typedef int (*resolve4_function)(const char *symbol, void **function, int version,
				 uint64_t flags);
typedef int (*resolve5_function)(const char *symbol, void **function, int version,
				 uint64_t flags, int *status);
typedef int (*any_function)(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
			    uint64_t f, uint64_t g, uint64_t h, double real);

static int failures;

/* The last part of the path of the file that holds an address. */
static const char *
file_of(const void *address)
{
	Dl_info info;
	const char *slash;

	if (!address || !dladdr(address, &info) || !info.dli_fname)
		return "nothing";
	slash = strrchr(info.dli_fname, '/');
	return slash ? slash + 1 : info.dli_fname;
}

static void *
must_open(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		printf("dlopen: %s\n", dlerror());
		exit(1);
	}
	return handle;
}

static void *
must_find(void *handle, const char *name)
{
	void *symbol = dlsym(handle, name);

	if (!symbol) {
		printf("dlsym: %s\n", dlerror());
		exit(1);
	}
	return symbol;
}

static void
report(void *handle)
{
	init_function init;
	version_function version;
	int number = -1, result;

	*(void **)&init = must_find(handle, "cuInit");
	*(void **)&version = must_find(handle, "cuDriverGetVersion");
	result = init(0);
	printf("cuInit of %s: %d\n", file_of(*(void **)&init), result);
	result = version(&number);
	printf("cuDriverGetVersion: %d, %d\n", result, number);
}

/* The driver behind the library, to compare with. dlopen() of its path would not give it. */
static void *
driver_open(void)
{
	const char *path = getenv("SLUICE_CUDA_LIBRARY");
	struct link_map *map;

	/* A name that only the driver has makes the library open it. */
	must_find(must_open("libcuda.so.1"), "sl_standin_table");
	if (!path || dlinfo(dlopen(NULL, RTLD_NOW), RTLD_DI_LINKMAP, &map))
		exit(1);
	while (map && strcmp(map->l_name, path) != 0)
		map = map->l_next;
	if (!map) {
		printf("%s is not loaded\n", path);
		exit(1);
	}
	return map;
}

/* ---- ways of opening ---- */

static int
way_open(char **argv)
{
	report(must_open(argv[0]));
	return 0;
}

static int
way_missing(char **argv)
{
	printf("%s\n", dlopen(argv[0], RTLD_NOW | RTLD_LOCAL) ? "found" : dlerror());
	return 0;
}

static int
way_namespace(char **argv)
{
	void *handle = dlmopen(LM_ID_NEWLM, argv[0], RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		printf("dlmopen: %s\n", dlerror());
		return 1;
	}
	report(handle);
	return 0;
}

/* A plugin that does its own opening, bound to the C library's functions or not. */
static int
way_plugin(char **argv)
{
	void *plugin = dlopen(argv[0], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	void *(*plugin_symbol)(const char *path, const char *name);
	init_function init;

	if (!plugin) {
		printf("dlopen: %s\n", dlerror());
		return 1;
	}
	*(void **)&plugin_symbol = must_find(plugin, "plugin_symbol");
	*(void **)&init = plugin_symbol("libcuda.so.1", "cuInit");
	if (!init)
		return 1;
	printf("cuInit of %s: %d\n", file_of(*(void **)&init), init(0));
	return 0;
}

/* A library that only its opener's RUNPATH leads to. */
static int
way_runpath(char **argv)
{
	void *plugin = must_open(argv[0]);
	void *(*plugin_symbol)(const char *path, const char *name);

	*(void **)&plugin_symbol = must_find(plugin, "plugin_symbol");
	printf("found in %s\n", file_of(plugin_symbol("libpreload_hidden.so", "hidden")));
	return 0;
}

/* ---- names ---- */

static int
way_names(char **argv)
{
	void *handle = must_open("libcuda.so.1"), *function;
	resolve5_function resolve;
	int status = -1, result;
	const char *text;

	(void)argv;
	printf("cuStandinFuture of %s\n", file_of(dlsym(handle, "cuStandinFuture")));
	function = dlsym(handle, "cuNoSuchName");
	text = dlerror();
	printf("cuNoSuchName of %s, %s\n", file_of(function), text ? "said" : "not said");
	function = dlsym(handle, "malloc");
	printf("malloc of %s\n",
	       function == dlsym(RTLD_DEFAULT, "malloc") ? "all" : "another");
	*(void **)&resolve = must_find(handle, "cuGetProcAddress_v2");
	result = resolve("cuStandinFuture", &function, 13000, 0, &status);
	printf("cuStandinFuture: %d, of %s, status %d\n", result, file_of(function), status);
	result = resolve("cuNoSuchName", &function, 13000, 0, &status);
	printf("cuNoSuchName: %d, of %s, status %d\n", result, file_of(function), status);
	result = resolve("cuMemAllocAsync", &function, 10000, 0, NULL);
	printf("cuMemAllocAsync before its time: %d, of %s\n", result, file_of(function));
	result = resolve("cuInit", &function, 99000, 0, &status);
	printf("cuInit after the driver's: %d\n", result);
	printf("no place for the answer: %d\n", resolve("cuInit", NULL, 13000, 0, &status));
	return 0;
}

/* What the environment makes of some answers. */
static int
way_resolve(char **argv)
{
	void *handle = must_open("libcuda.so.1"), *function = NULL;
	resolve5_function resolve;
	int result = 0;

	/* Twice: what is said of a name is said once. */
	*(void **)&resolve = must_find(handle, "cuGetProcAddress_v2");
	for (int i = 0; i < 2; i++)
		result = resolve(argv[0], &function, atoi(argv[1]), 0, NULL);
	printf("%s at %s: %d, of %s\n", argv[0], argv[1], result, file_of(function));
	return 0;
}

static int
way_no_driver(char **argv)
{
	void *handle = must_open("libcuda.so.1"), *function = handle;
	resolve4_function resolve4;
	resolve5_function resolve5;
	name_function name;
	count_function count;
	const char *text = "?";
	int n = -1, status = -1, result;

	(void)argv;
	*(void **)&count = must_find(handle, "cuDeviceGetCount");
	printf("cuDeviceGetCount: %d\n", count(&n));
	report(handle);
	*(void **)&resolve4 = must_find(handle, "cuGetProcAddress");
	result = resolve4("cuInit", &function, 12000, 0);
	printf("cuGetProcAddress: %d, of %s\n", result, file_of(function));
	*(void **)&resolve5 = must_find(handle, "cuGetProcAddress_v2");
	function = handle;
	result = resolve5("cuInit", &function, 12000, 0, &status);
	printf("cuGetProcAddress_v2: %d, of %s, status %d\n", result, file_of(function),
	       status);
	*(void **)&name = must_find(handle, "cuGetErrorName");
	result = name(100, &text);
	printf("cuGetErrorName: %d, %s\n", result, text);
	return 0;
}

/* ---- processes ---- */

static void
child_end(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
	    WEXITSTATUS(status))
		printf("the child failed\n");
}

/* A child before and one after the parent has started CUDA. */
static int
way_fork(char **argv)
{
	void *handle = must_open("libcuda.so.1");
	count_function count;
	pid_t child;
	int n = -1, result;

	(void)argv;
	fflush(stdout);
	child = fork();
	if (!child) {
		report(handle);
		fflush(stdout);
		_exit(0);
	}
	child_end(child);
	report(handle);
	*(void **)&count = must_find(handle, "cuDeviceGetCount");
	fflush(stdout);
	child = fork();
	if (!child) {
		printf("after fork: cuDeviceGetCount: %d\n", count(&n));
		fflush(stdout);
		_exit(0);
	}
	child_end(child);
	result = count(&n);
	printf("parent: cuDeviceGetCount: %d, %d\n", result, n);
	return 0;
}

static int
way_exec(char **argv)
{
	char *const arguments[] = {argv[0], "open", "libcuda.so.1", NULL};

	report(must_open("libcuda.so.1"));
	fflush(stdout);
	execv(argv[0], arguments);
	printf("execv: %s\n", strerror(errno));
	return 1;
}

static void *
init_run(void *handle)
{
	init_function init;

	*(void **)&init = must_find(handle, "cuInit");
	return (void *)(intptr_t)init(0);
}

/* Threads that are all the first. */
static int
way_threads(char **argv)
{
	void *handle = must_open("libcuda.so.1"), *result;
	pthread_t threads[16];
	int wrong = 0;

	(void)argv;
	for (int i = 0; i < 16; i++)
		if (pthread_create(&threads[i], NULL, init_run, handle))
			return 1;
	for (int i = 0; i < 16; i++) {
		pthread_join(threads[i], &result);
		wrong += result != NULL;
	}
	printf("%d of 16 failed\n", wrong);
	report(handle);
	return 0;
}

/* ---- programs without CUDA ---- */

static int
entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n - 2;
}

static int
name_count(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *slash = strrchr(info->dlpi_name, '/');

	(void)size;
	*(int *)arg += slash && !strncmp(slash + 1, "libcuda", 7);
	return 0;
}

static int
way_nothing(char **argv)
{
	int drivers = 0;

	(void)argv;
	if (dlopen("libno_such_library.so", RTLD_NOW))
		return 1;
	dl_iterate_phdr(name_count, &drivers);
	/* Of the open files one is the directory that is being read. */
	printf("threads %d, files %d, drivers %d\n", entries("/proc/self/task"),
	       entries("/proc/self/fd") - 1, drivers);
	return 0;
}

/* ---- tables ---- */

/* The rule of cuGetProcAddress(), by another way than the library's. NULL: nothing. */
static const struct row *
row_of_rule(const char *symbol, int version, uint64_t flags)
{
	const struct row *best = NULL;

	for (size_t i = 0; i < N_ROWS; i++) {
		const struct row *row = &rows[i];

		if (strcmp(row->base, symbol) != 0 || row->version > version ||
		    (row->thread && !(flags & 2)))
			continue;
		if (!best || row->thread > best->thread ||
		    (row->thread == best->thread && row->version > best->version))
			best = row;
	}
	return best;
}

static void
wrong(const char *what, const char *symbol, int version, uint64_t flags, const void *is,
      const void *should)
{
	if (failures++ < 20)
		printf("%s \"%s\" %d %" PRIu64 ": %p of %s, not %p of %s\n", what, symbol,
		       version, flags, is, file_of(is), should, file_of(should));
}

struct libraries {
	void *own, *driver;
	resolve4_function resolve4;
	resolve5_function resolve5;
};

static struct libraries
libraries_open(void)
{
	struct libraries l;

	l.own = must_open("libcuda.so.1");
	*(void **)&l.resolve4 = must_find(l.own, "cuGetProcAddress");
	*(void **)&l.resolve5 = must_find(l.own, "cuGetProcAddress_v2");
	l.driver = driver_open();
	return l;
}

static void *
should_be(const struct libraries *l, const char *symbol, int version, uint64_t flags)
{
	const struct row *row = row_of_rule(symbol, version, flags);

	if (!row)
		return NULL;
	return must_find(row->wrapped ? l->own : l->driver, row->exported);
}

static void
lookup_compare(const struct libraries *l, const char *road, const char *symbol,
	       int version, uint64_t flags)
{
	void *should = should_be(l, symbol, version, flags), *is = l->own;
	int result, status = -1;

	if (!strcmp(road, "proc4"))
		result = l->resolve4(symbol, &is, version, flags);
	else
		result = l->resolve5(symbol, &is, version, flags, &status);
	if (result || is != should)
		wrong(road, symbol, version, flags, result ? NULL : is, should);
}

/* A recorded list of look-ups: each answer, and that it is the one that was recorded. */
static int
way_replay(char **argv)
{
	struct libraries l = libraries_open();
	FILE *list = fopen(argv[0], "r");
	char line[512], road[16], symbol[256], answer[256];
	const struct row *row;
	unsigned long long flags;
	int version, n = 0;

	if (!list) {
		printf("%s: %s\n", argv[0], strerror(errno));
		return 1;
	}
	while (fgets(line, sizeof(line), list)) {
		if (line[0] == '#')
			continue;
		symbol[0] = '\0';
		n++;
		if (sscanf(line, "dlsym \"%255[^\"]\" - - %*d %255s", symbol, answer) == 2) {
			void *is = dlsym(l.own, symbol);

			if (!strcmp(answer, symbol) && strcmp(file_of(is), OWN_FILE) != 0)
				wrong("dlsym", symbol, 0, 0, is, l.own);
			continue;
		}
		if (sscanf(line, "%15s \"%255[^\"]\" %d %llu %*d %255s", road, symbol,
			   &version, &flags, answer) != 5 &&
		    sscanf(line, "%15s \"\" %d %llu %*d %255s", road, &version, &flags,
			   answer) != 4) {
			printf("%s: cannot be read: %s", argv[0], line);
			failures++;
			continue;
		}
		lookup_compare(&l, road, symbol, version, flags);
		row = row_of_rule(symbol, version, flags);
		if (strcmp(answer, "?") != 0 &&
		    strcmp(answer, row ? row->exported : "-") != 0) {
			printf("%s: recorded %s, by the rule %s\n", symbol, answer,
			       row ? row->exported : "-");
			failures++;
		}
	}
	fclose(list);
	printf("%s, %d wrong\n", n >= 50 ? "replayed" : "too few look-ups", failures);
	return 0;
}

/* Every base at every version at which one of its ABIs began or was about to, with all flags. */
static int
way_rules(char **argv)
{
	struct libraries l = libraries_open();

	(void)argv;
	for (size_t i = 0; i < N_ROWS; i++)
		for (uint64_t flags = 0; flags <= 3; flags++)
			for (int step = -10; step <= 10; step += 10) {
				int version = rows[i].version + step;

				if (version > 13000)
					continue;
				lookup_compare(&l, "proc4", rows[i].base, version, flags);
				lookup_compare(&l, "proc5", rows[i].base, version, flags);
			}
	printf("%d wrong\n", failures);
	return 0;
}

/* The name's function of the driver is one that only notes what it is called with. */
static int
is_filler(void *driver, const char *name)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	return dladdr1(dlsym(driver, name), &info, (void **)&symbol, RTLD_DL_SYMENT) &&
	       symbol && ELF64_ST_BIND(symbol->st_info) == STB_WEAK;
}

static void
filled_check(const char *name, int result, const struct sl_standin_filled *filled)
{
	int same = 1;

	for (uint64_t i = 0; i < 8; i++)
		same = same && filled->words[i] == i + 1;
	if (result == 801 && filled->name && !strcmp(filled->name, name) && same &&
	    filled->real == 0.5)
		return;
	if (failures++ < 20)
		printf("%s: %d, came to %s\n", name, result,
		       filled->name ? filled->name : "nothing");
}

/* The first call of the driver is that of a name of the command line, with all that it is called
 * with. */
static int
way_first(char **argv)
{
	/* Not on the library's handle: that would open the driver. */
	void *symbol = dlsym(RTLD_DEFAULT, argv[0]);
	const struct sl_standin_filled *(*filled)(void);
	struct sl_standin_filled none = {.name = "nothing"};
	any_function function;
	void *driver;

	*(void **)&function = symbol;
	if (!function || function(1, 2, 3, 4, 5, 6, 7, 8, 0.5) != 801) {
		printf("%s: not forwarded\n", argv[0]);
		return 1;
	}
	driver = driver_open();
	*(void **)&filled = must_find(driver, "sl_standin_filled");
	filled_check(argv[0], 801, is_filler(driver, argv[0]) ? filled() : &none);
	printf("%d wrong\n", failures);
	return 0;
}

/* All names whose calls pass. */
static int
way_forward(char **argv)
{
	const struct sl_standin_filled *(*filled)(void);
	void *own = must_open("libcuda.so.1"), *driver = driver_open();
	any_function function;
	int n = 0, result;

	(void)argv;
	*(void **)&filled = must_find(driver, "sl_standin_filled");
	for (size_t i = 0; i < N_ROWS; i++) {
		if (rows[i].wrapped || !is_filler(driver, rows[i].exported))
			continue;
		*(void **)&function = must_find(own, rows[i].exported);
		result = function(1, 2, 3, 4, 5, 6, 7, 8, 0.5);
		filled_check(rows[i].exported, result, filled());
		n++;
	}
	printf("%s, %d wrong\n", n > 50 ? "forwarded" : "too few names", failures);
	return 0;
}

static const struct way {
	const char *name;
	int n_arguments;
	int (*run)(char **argv);
} ways[] = {
	{"open", 1, way_open},           {"missing", 1, way_missing},
	{"namespace", 1, way_namespace}, {"plugin", 1, way_plugin},
	{"runpath", 1, way_runpath},     {"names", 0, way_names},
	{"resolve", 2, way_resolve},     {"no-driver", 0, way_no_driver},
	{"fork", 0, way_fork},           {"exec", 1, way_exec},
	{"threads", 0, way_threads},     {"nothing", 0, way_nothing},
	{"replay", 1, way_replay},       {"rules", 0, way_rules},
	{"first", 1, way_first},         {"forward", 0, way_forward},
};

int
main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && argc > 1; i++)
		if (!strcmp(argv[1], ways[i].name) && argc == ways[i].n_arguments + 2)
			return ways[i].run(argv + 2);
	fprintf(stderr, "usage: caller WAY [ARGUMENT ...]\n");
	return 1;
}
