/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NVTX's interface to tools that is needed here (version 3, see NVIDIA's documentation of
 * NVTX). A tool is a library with InitializeInjectionNvtx2(). It gets a function that tells of tables by
 * number, and puts its own functions into them.
 *
 * A program has its own NVTX as well, which does the same. Tools take several of them.
 */
#include "base/nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/log.h"

enum { EXPORT_CALLBACKS = 1, EXPORT_VERSION = 3 }; /* tables that a tool asks for */
enum { MODULE_DOMAINS = 5, MODULES = 7 };          /* of functions; 1 to 6 */
enum {
	MARK = 1,
	PUSH = 4,
	POP = 5,
	DOMAIN_CREATE = 12,
	SLOTS = 16
}; /* functions of domains */

#define VERSION    3u
#define TEXT_ASCII 1
#define PAYLOAD_U8 1 /* an unsigned number of 8 bytes */

typedef void (*tool_function)(void);
struct nvtx_domain;

/* What a range or a mark is. */
struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t text_type;
	const char *text;
};

struct callbacks {
	size_t bytes;
	int (*table)(unsigned module, tool_function ***table, unsigned *slots);
};

struct version {
	size_t bytes;
	uint32_t version, reserved;
	void (*tool_version)(uint32_t version);
};

_Atomic int sl_nvtx_tool;

static tool_function functions[MODULES][SLOTS];
static tool_function *tables[MODULES][SLOTS + 1];
static struct nvtx_domain *domain;

static int
module_table(unsigned module, tool_function ***table, unsigned *slots)
{
	if (module == 0 || module >= MODULES)
		return 0;
	for (unsigned i = 0; i < SLOTS; i++)
		tables[module][i] = &functions[module][i];
	*table = tables[module];
	*slots = SLOTS;
	return 1;
}

static void
version_of_tool(uint32_t version)
{
	(void)version;
}

static const void *
export_table(uint32_t number)
{
	static const struct callbacks callbacks = {sizeof(callbacks), module_table};
	static const struct version version = {sizeof(version), VERSION, 0, version_of_tool};

	return number == EXPORT_CALLBACKS ? (const void *)&callbacks
	       : number == EXPORT_VERSION ? (const void *)&version
					  : NULL;
}

static void
tool_load(void)
{
	const char *path = secure_getenv("NVTX_INJECTION64_PATH");
	struct nvtx_domain *(*create)(const char *);
	int (*initialize)(const void *(*)(uint32_t));
	void *tool;

	if (!path || !*path)
		return;
	tool = dlopen(path, RTLD_LAZY);
	if (!tool) {
		sl_log(SL_INFO, "nvtx", "NVTX_INJECTION64_PATH: %s", dlerror());
		return;
	}
	*(void **)&initialize = dlsym(tool, "InitializeInjectionNvtx2");
	if (!initialize || !initialize(export_table)) {
		sl_log(SL_INFO, "nvtx", "%s takes no ranges", path);
		return; /* it may have begun threads: it stays loaded */
	}
	create = (struct nvtx_domain * (*)(const char *))
		functions[MODULE_DOMAINS][DOMAIN_CREATE];
	domain = create ? create("sluice") : NULL;
	atomic_store_explicit(&sl_nvtx_tool, domain != NULL, memory_order_release);
}

void
sl_nvtx_open(void)
{
	static pthread_once_t loaded = PTHREAD_ONCE_INIT;

	pthread_once(&loaded, tool_load);
}

static struct attributes
event_of(const char *text, uint64_t bytes)
{
	return (struct attributes){.version = VERSION,
				   .size = sizeof(struct attributes),
				   .payload_type = PAYLOAD_U8,
				   .payload = bytes,
				   .text_type = TEXT_ASCII,
				   .text = text};
}

void
sl_nvtx_push(const char *text, uint64_t bytes)
{
	const struct attributes event = event_of(text, bytes);
	int (*push)(struct nvtx_domain *, const struct attributes *) =
		(int (*)(struct nvtx_domain *,
			 const struct attributes *))functions[MODULE_DOMAINS][PUSH];

	if (push)
		(void)push(domain, &event); /* its depth */
}

void
sl_nvtx_mark(const char *text, uint64_t bytes)
{
	const struct attributes event = event_of(text, bytes);
	void (*mark)(struct nvtx_domain *, const struct attributes *) =
		(void (*)(struct nvtx_domain *,
			  const struct attributes *))functions[MODULE_DOMAINS][MARK];

	if (mark)
		mark(domain, &event);
}

void
sl_nvtx_pop(void)
{
	int (*pop)(struct nvtx_domain *) = (int (*)(
		struct nvtx_domain *))functions[MODULE_DOMAINS][POP];

	if (pop)
		(void)pop(domain);
}
