/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loaded libraries tell the frameworks of a process. This file reports the settings of
 * `sluice run` that met a framework, each in a line with the way to refuse it. It knows programs
 * that size their memory by memory queries, so these return the physical size. It knows programs
 * that map all of their memory themselves, so it is paged even where it could be shared.
 *
 * The launcher sets the variables before it knows the program's frameworks
 * (tools/run_frameworks.c). So they are announced here, and a program without the framework sees
 * no line.
 *
 * Threads: any. Blocks on the loader's lock.
 */
#include <link.h>
#include <stdbool.h>
#include <string.h>

#include "preload/calls/touch.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/announce.h"
#include "preload/report/report.h"

struct framework {
	const char *name;    /* in the setting "frameworks" */
	const char *library; /* part of the path of one of its libraries */
	const char *text;
};

#define PYTORCH "/libtorch_cuda"

static const struct framework frameworks[] = {
	{"pytorch", PYTORCH,
	 "PyTorch: its caching of allocations is off, so that each tensor is moved by "
	 "itself "
	 "(CUDA graphs need it: sluice run --no-framework pytorch)"},
	{"jax", "/jaxlib/",
	 "JAX: preallocation is off (sluice run --no-framework jax leaves it on)"},
	{"jax-allocator", "/jaxlib/",
	 "JAX: each array is an allocation of its own, so that it is moved by itself "
	 "(sluice "
	 "run --no-framework jax leaves it its pool)"},
	{"tensorflow", "/libtensorflow",
	 "TensorFlow: memory is taken as needed, not all at the start (sluice run "
	 "--no-framework tensorflow)"},
};

#define FRAMEWORKS (sizeof(frameworks) / sizeof(frameworks[0]))

/* Programs that size a cache or an arena by what memory queries tell, and would take all of it. */
static const char *const sizers[] = {"/jaxlib/", "/jax_plugins/", "xla_extension", "/vllm/"};

/* Programs that map all of their memory themselves, and ask for handles to share it which they seldom use. */
static const char *const mappers[] = {"/jaxlib/", "/jax_plugins/", "xla_extension"};

/* Whether one of these has been loaded: asked again only when something has been loaded since. */
struct look {
	const char *const *parts; /* of paths */
	size_t n;
	_Atomic int found;
	_Atomic unsigned long long adds; /* libraries loaded so far in this process */
};

struct loaded {
	const struct look *look;
	unsigned long long adds;
	int found, begun;
	unsigned frameworks; /* bit of each that is there */
};

static int
library_look(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct loaded *loaded = arg;

	(void)bytes;
	if (!loaded->begun) {
		loaded->begun = 1;
		if (info->dlpi_adds == loaded->adds)
			return 1; /* nothing new since the last look */
		loaded->adds = info->dlpi_adds;
	}
	for (size_t i = 0; i < loaded->look->n; i++) {
		if (info->dlpi_name && strstr(info->dlpi_name, loaded->look->parts[i])) {
			loaded->found = 1;
			return 1;
		}
	}
	return 0;
}

static int
is_loaded(struct look *look)
{
	struct loaded loaded = {.look = look};

	if (atomic_load(&look->found))
		return 1;
	loaded.adds = atomic_load(&look->adds);
	dl_iterate_phdr(library_look, &loaded);
	if (loaded.found)
		atomic_store(&look->found, 1);
	atomic_store(&look->adds, loaded.adds);
	return loaded.found;
}

/* Is name among the words of list, "a+b"? */
static int
names_have(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (;;) {
		size_t chars = strcspn(list, "+");

		if (chars == n && strncmp(list, name, n) == 0)
			return 1;
		if (!list[chars])
			return 0;
		list += chars + 1;
	}
}

bool
pl_meminfo_physical(void)
{
	static struct look look = {sizers, sizeof(sizers) / sizeof(sizers[0]), 0, 0};
	const struct pl_settings *s = pl_settings();

	return s->meminfo_auto ? is_loaded(&look) : s->meminfo_physical;
}

static int
mapper_is_loaded(void)
{
	static struct look look = {mappers, sizeof(mappers) / sizeof(mappers[0]), 0, 0};

	return is_loaded(&look);
}

enum pl_mapped
pl_mapped(void)
{
	enum pl_mapped mapped = pl_settings()->mapped;

	if (mapped != PL_MAPPED_AUTO)
		return mapped;
	return mapper_is_loaded() && pl_device_is_only_one() ? PL_MAPPED_ALL : PL_MAPPED_OURS;
}

bool
pl_pytorch_uncached(void)
{
	static const char *const parts[] = {PYTORCH};
	static struct look look = {parts, 1, 0, 0};

	return names_have(pl_settings()->frameworks, "pytorch") && is_loaded(&look);
}

static int
framework_look(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct loaded *loaded = arg;

	(void)bytes;
	for (size_t i = 0; i < FRAMEWORKS; i++)
		if (info->dlpi_name && strstr(info->dlpi_name, frameworks[i].library))
			loaded->frameworks |= 1u << i;
	return 0;
}

void
pl_frameworks_announce(void)
{
	const struct pl_settings *s = pl_settings();
	struct loaded loaded = {0};

	if (s->mapped == PL_MAPPED_AUTO && mapper_is_loaded())
		pl_note(pl_device_is_only_one()
				? "JAX: memory that it maps itself is "
				  "paged, though it could be "
				  "shared (sluice run --vmm-memory sluice "
				  "leaves it to the driver)"
				: "JAX on several GPUs: memory that it "
				  "maps itself is left to the "
				  "driver, for kernels may reach it from "
				  "another GPU (sluice run "
				  "--vmm-memory all)");
	if (!s->frameworks[0])
		return;
	dl_iterate_phdr(framework_look, &loaded);
	for (size_t i = 0; i < FRAMEWORKS; i++)
		if ((loaded.frameworks & 1u << i) &&
		    names_have(s->frameworks, frameworks[i].name))
			pl_note("%s", frameworks[i].text);
	if (s->meminfo_auto && pl_meminfo_physical())
		pl_note("memory queries tell what the GPU has: this program would fill "
			"what they "
			"tell (sluice run --report-memory virtual)");
}
