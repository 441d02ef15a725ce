/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way in which programs reach the driver ends in the preload library. Every other use of
 * the loader is unchanged. programs/caller.c has the ways, and prints its findings.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"

#define OURS                                  \
	"cuInit of libsluice-preload.so: 0\n" \
	"cuDriverGetVersion: 0, 13000\n"

static char driver[PATH_MAX + 32]; /* SLUICE_CUDA_LIBRARY=... */
static int failed;

static void
caller_expect(const char *title, const char *const *arguments, const char *output)
{
	struct child child = {.environment = {driver, "SLUICE_RUN=quiet=1"}};

	child_run(&child, "preload_caller", arguments);
	failed |= child_expect(&child, title, output);
}

#define CALLER(title, output, ...) \
	caller_expect(title, (const char *const[]){__VA_ARGS__, NULL}, output)

static void
every_spelling_leads_to_the_library(void)
{
	CALLER("by its name", OURS, "open", "libcuda.so.1");
	CALLER("by its development name", OURS, "open", "libcuda.so");
	CALLER("by a path", OURS, "open", "/usr/lib/x86_64-linux-gnu/libcuda.so.1");
	CALLER("by a path that is not there", OURS, "open", "/nowhere/libcuda.so");
	CALLER("by a relative path", OURS, "open", "./libcuda.so.1");
	CALLER("by the driver's version", OURS, "open", "libcuda.so.580.65.06");
	CALLER("by a path with the version", OURS, "open", "/nowhere/lib64/libcuda.so.1.1");
}

static void
what_only_looks_like_the_driver_is_the_loaders(void)
{
	static const char *const names[] = {"libcuda.so.11",      "libcuda.so.580.",
					    "libcuda.so.580.65x", "libcuda.so.580..6",
					    "libcuda.so_580.65",  "libcuda.so.1.old"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char text[128];

		snprintf(text,
			 sizeof(text), "%s: cannot open shared object file: No such file or directory\n",
			 names[i]);
		CALLER(names[i], text, "missing", names[i]);
	}
}

/* Under a name of its own: what counts is where it leads. */
static void
links_to_the_driver_lead_to_the_library(void)
{
	char dir[] = "/tmp/sluice-preload-XXXXXX", text[3 * PATH_MAX];
	char first[PATH_MAX], second[PATH_MAX], other[PATH_MAX], plugin[PATH_MAX];

	if (!mkdtemp(dir)) {
		printf("no directory for links\n");
		failed = 1;
		return;
	}
	snprintf(first, sizeof(first), "%s/gpu.so", dir);
	snprintf(second, sizeof(second), "%s/again.so", dir);
	snprintf(other, sizeof(other), "%s/nothing.so", dir);
	snprintf(plugin, sizeof(plugin), "%s/libpreload_interposer.so",
		 child_setting("SLUICE_PRELOAD_PROGRAMS"));
	snprintf(text, sizeof(text),
		 "%s: cannot open shared object file: No such file or directory\n", other);
	if (symlink(child_setting("SLUICE_STANDIN_LIBRARY"), first) ||
	    symlink("gpu.so", second) || symlink("nowhere.so", other)) {
		printf("no links\n");
		failed = 1;
	}
	CALLER("by a link", OURS, "open", first);
	CALLER("by a link to a link", OURS, "open", second);
	CALLER("by a link, in another namespace", OURS, "namespace", second);
	CALLER("a link to nothing", text, "missing", other);
	unlink(other);
	if (symlink(plugin, other))
		failed = 1;
	CALLER("a link to another library", "found\n", "missing", other);
	unlink(first);
	unlink(second);
	unlink(other);
	rmdir(dir);
}

static void
plugins_and_namespaces_lead_to_the_library(void)
{
	char plugin[PATH_MAX];

	snprintf(plugin, sizeof(plugin), "%s/libpreload_plugin.so",
		 child_setting("SLUICE_PRELOAD_PROGRAMS"));
	CALLER("plugin with RTLD_DEEPBIND", "cuInit of libsluice-preload.so: 0\n",
	       "plugin", plugin);
	CALLER("the RUNPATH of who opens", "found in libpreload_hidden.so\n", "runpath",
	       plugin);
	CALLER("another namespace", OURS, "namespace", "libcuda.so.1");
	CALLER("another namespace, by a path", OURS, "namespace", "/nowhere/libcuda.so.1");
}

static void
linked_programs_lead_to_the_library_and_the_next_one_is_next(void)
{
	struct child child = {.environment = {driver, "SLUICE_RUN=quiet=1"}};

	child_run(&child, "preload_linked", NULL);
	failed |= child_expect(&child, "linked", OURS "order 21\n");
}

static void
names_are_those_of_the_driver(void)
{
	CALLER("names",
	       "cuStandinFuture of libcuda.so.1\n"
	       "cuNoSuchName of nothing, said\n"
	       "malloc of all\n"
	       "cuStandinFuture: 0, of libcuda.so.1, status 0\n"
	       "cuNoSuchName: 0, of nothing, status 1\n"
	       "cuMemAllocAsync before its time: 0, of nothing\n"
	       "cuInit after the driver's: 1\n"
	       "no place for the answer: 1\n",
	       "names");
}

static void
processes_are_told_apart(void)
{
	char caller[PATH_MAX];

	snprintf(caller, sizeof(caller), "%s/preload_caller",
		 child_setting("SLUICE_PRELOAD_PROGRAMS"));
	CALLER("fork",
	       OURS OURS
	       "after fork: cuDeviceGetCount: 3\nparent: cuDeviceGetCount: 0, 1\n",
	       "fork");
	CALLER("exec", OURS OURS, "exec", caller);
	CALLER("threads", "0 of 16 failed\n" OURS, "threads");
}

static void
static_programs_are_not_reached(void)
{
	struct child child = {.environment = {driver}};
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/preload_static",
		 child_setting("SLUICE_PRELOAD_PROGRAMS"));
	if (access(path, X_OK)) {
		printf("no static C library: static programs are not looked at\n");
		return;
	}
	child_run(&child, path, NULL);
	failed |= child_expect(&child, "static", "static\n");
}

static void
without_a_driver_nothing_is_found(void)
{
	struct child child = {.environment = {"SLUICE_CUDA_LIBRARY=/nowhere/libcuda.so.1",
					      "SLUICE_RUN"}};

	child_run(&child, "preload_caller", (const char *const[]){"no-driver", NULL});
	failed |= child_expect(&child, "no driver",
			       "sluice: SLUICE_CUDA_LIBRARY: /nowhere/libcuda.so.1 is "
			       "not a driver that can be "
			       "loaded\n"
			       "cuDeviceGetCount: 3\n"
			       "cuInit of libsluice-preload.so: 100\n"
			       "cuDriverGetVersion: 0, 0\n"
			       "cuGetProcAddress: 500, of nothing\n"
			       "cuGetProcAddress_v2: 500, of nothing, status 1\n"
			       "cuGetErrorName: 0, CUDA_ERROR_NO_DEVICE\n");
}

/* In the loader's path list: first what is the library itself under the driver's name, then the
 * driver. */
static void
the_driver_is_found_where_the_loader_looks(void)
{
	char dir[] = "/tmp/sluice-preload-XXXXXX", decoy[PATH_MAX];
	char lists[3 * PATH_MAX], found[PATH_MAX];
	struct child child = {
		.environment = {"SLUICE_CUDA_LIBRARY", "SLUICE_RUN=quiet=1", lists}};
	char *slash;

	snprintf(found, sizeof(found), "%s", child_setting("SLUICE_STANDIN_LIBRARY"));
	slash = strrchr(found, '/');
	if (!slash || !mkdtemp(dir)) {
		printf("no directory for links\n");
		failed = 1;
		return;
	}
	*slash = '\0';
	snprintf(decoy, sizeof(decoy), "%s/libcuda.so.1", dir);
	snprintf(lists, sizeof(lists), "LD_LIBRARY_PATH=%s:%s", dir, found);
	if (symlink(child_setting("SLUICE_PRELOAD_LIBRARY"), decoy)) {
		printf("no link\n");
		failed = 1;
	}
	child_run(&child, "preload_caller",
		  (const char *const[]){"open", "libcuda.so.1", NULL});
	failed |= child_expect(&child, "driver in LD_LIBRARY_PATH", OURS);
	unlink(decoy);
	rmdir(dir);
}

static void
sluice_cuda_library_may_not_be_the_library_itself(void)
{
	char own[PATH_MAX + 32], text[2 * PATH_MAX];
	const char *library = child_setting("SLUICE_PRELOAD_LIBRARY");
	struct child child = {.environment = {own, "SLUICE_RUN"}};

	snprintf(own, sizeof(own), "SLUICE_CUDA_LIBRARY=%s", library);
	snprintf(text, sizeof(text),
		 "sluice: SLUICE_CUDA_LIBRARY: %s is not a driver that can be loaded\n"
		 "cuInit of libsluice-preload.so: 100\n"
		 "cuDriverGetVersion: 0, 0\n",
		 library);
	child_run(&child, "preload_caller",
		  (const char *const[]){"open", "libcuda.so.1", NULL});
	failed |= child_expect(&child, "itself", text);
}

static void
another_library_in_between_is_said(void)
{
	const char *library = child_setting("SLUICE_PRELOAD_LIBRARY");
	char other[PATH_MAX], order[3 * PATH_MAX], text[4 * PATH_MAX];
	struct child child = {.environment = {driver, "SLUICE_RUN=quiet=1", order}};

	snprintf(other, sizeof(other), "%s/libpreload_interposer.so",
		 child_setting("SLUICE_PRELOAD_PROGRAMS"));
	snprintf(order, sizeof(order), "LD_PRELOAD=%s:%s", other, library);
	snprintf(text, sizeof(text),
		 "sluice: %s also stands between this program and the driver, and comes "
		 "first: "
		 "what it catches is not ours (take it out of LD_PRELOAD)\n" OURS,
		 other);
	child_run(&child, "preload_caller",
		  (const char *const[]){"open", "libcuda.so.1", NULL});
	failed |= child_expect(&child, "another one before", text);

	/* One behind us catches nothing: it is not asked. */
	snprintf(order, sizeof(order), "LD_PRELOAD=%s:%s", library, other);
	child_run(&child, "preload_caller",
		  (const char *const[]){"open", "libcuda.so.1", NULL});
	failed |= child_expect(&child, "another one behind", OURS);
}

int
main(void)
{
	snprintf(driver, sizeof(driver), "SLUICE_CUDA_LIBRARY=%s",
		 child_setting("SLUICE_STANDIN_LIBRARY"));
	every_spelling_leads_to_the_library();
	what_only_looks_like_the_driver_is_the_loaders();
	links_to_the_driver_lead_to_the_library();
	plugins_and_namespaces_lead_to_the_library();
	linked_programs_lead_to_the_library_and_the_next_one_is_next();
	names_are_those_of_the_driver();
	processes_are_told_apart();
	static_programs_are_not_reached();
	without_a_driver_nothing_is_found();
	the_driver_is_found_where_the_loader_looks();
	sluice_cuda_library_may_not_be_the_library_itself();
	another_library_in_between_is_said();
	return failed;
}
