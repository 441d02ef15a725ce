/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's modules and functions. A kernel is a C function that was registered under
 * the name that the program asks for (standin.h says what images there are). Registered kernels are
 * copied and kept for ever; a function keeps the kernel it was got with.
 *
 * Threads: any; the.lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define KERNELS_MAX 512

struct global {
	char name[64];
	uint64_t addr;
	size_t bytes;
	struct global *next;
};

struct module {
	struct object object;
	struct cu_context *context;
	char *text; /* PTX: only what it names can be got; NULL: anything registered */
	struct global *globals;
	struct module *next; /* modules, the.lock */
};

struct function {
	struct object object;
	struct module *module;
	const struct sl_standin_kernel *kernel;
	struct function *next; /* functions, the.lock */
};

static const struct sl_standin_kernel *kernels[KERNELS_MAX]; /* the.lock, so all below */
static size_t n_kernels;
static struct module *modules;
static struct function *functions;

/* ---- kernels ---- */

void
kernel_register(const struct sl_standin_kernel *kernel)
{
	struct sl_standin_kernel *copy = must_alloc(1, sizeof(*copy));

	*copy = *kernel;
	pthread_mutex_lock(&the.lock);
	if (n_kernels == KERNELS_MAX) {
		fputs("stand-in driver: too many kernels\n", stderr);
		abort();
	}
	kernels[n_kernels++] = copy;
	pthread_mutex_unlock(&the.lock);
}

static const struct sl_standin_kernel *
kernel_find(const char *name)
{
	for (size_t i = n_kernels; i-- > 0;)
		if (!strcmp(kernels[i]->name, name))
			return kernels[i];
	return own_kernel_find(name);
}

/* ---- modules ---- */

static struct module *
module_find(const struct cu_module *handle)
{
	return (struct module *)object_find(handle, OBJECT_MODULE);
}

static void
module_free(struct module *module)
{
	struct function **slot = &functions, *function;
	struct module **at = &modules;
	struct global *global;

	while ((function = *slot)) {
		if (function->module != module) {
			slot = &function->next;
			continue;
		}
		*slot = function->next;
		object_remove(&function->object);
		free(function);
	}
	while ((global = module->globals)) {
		struct reservation *reservation = reservation_find(global->addr);

		module->globals = global->next;
		if (reservation)
			plain_free(reservation);
		free(global);
	}
	while (*at != module)
		at = &(*at)->next;
	*at = module->next;
	object_remove(&module->object);
	the.live.modules--;
	free(module->text);
	free(module);
}

void
context_modules_free(struct cu_context *context)
{
	struct module *module, *next;

	for (module = modules; module; module = next) {
		next = module->next;
		if (module->context == context)
			module_free(module);
	}
}

static int
global_add(struct module *module, const char *name, size_t bytes)
{
	struct global *global;
	uint64_t addr = bytes ? plain_alloc(module->context, bytes) : 0;

	if (!addr)
		return CU_ERROR_OUT_OF_MEMORY;
	global = must_alloc(1, sizeof(*global));
	snprintf(global->name, sizeof(global->name), "%s", name);
	global->addr = addr;
	global->bytes = bytes;
	global->next = module->globals;
	module->globals = global;
	memset(view_pointer(addr), 0, bytes);
	return CU_SUCCESS;
}

/* Read our own kind of image, a line at a time. Without the lock. */
static int
image_read(struct module *module, const char *text)
{
	char line[512], name[64];
	size_t bytes;
	int code = CU_SUCCESS;

	while (!code && *text) {
		size_t length = strcspn(text, "\n");

		if (length >= sizeof(line))
			return violate(CU_ERROR_INVALID_IMAGE,
				       "cuModuleLoadData: a line too long");
		memcpy(line, text, length);
		line[length] = '\0';
		text += length + (text[length] == '\n');
		if (sscanf(line, "global %63s %zu", name, &bytes) == 2) {
			pthread_mutex_lock(&the.lock);
			code = global_add(module, name, bytes);
			pthread_mutex_unlock(&the.lock);
		} else if (*line) {
			code = violate(CU_ERROR_INVALID_IMAGE,
				       "cuModuleLoadData: cannot read '%s'", line);
		}
	}
	return code;
}

int
cuModuleLoadData(struct cu_module **module, const void *image)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuModuleLoadData, NEEDS_CONTEXT, &context);
	int ours, elf, ptx;
	struct module *new;

	if (code)
		return code;
	if (!image)
		return violate(CU_ERROR_INVALID_VALUE, "cuModuleLoadData: no image");
	ours = !strncmp(image, SL_STANDIN_IMAGE, strlen(SL_STANDIN_IMAGE));
	elf = !memcmp(image, "\177E", 2);
	ptx = !ours && !elf && strstr(image, ".version") && strstr(image, ".target");
	if (!ours && !elf && !ptx)
		return violate(CU_ERROR_INVALID_IMAGE, "cuModuleLoadData: unknown image");
	new = must_alloc(1, sizeof(*new));
	new->context = context;
	if (ptx) {
		new->text = strdup(image);
		if (!new->text)
			abort();
	}
	pthread_mutex_lock(&the.lock);
	object_add(&new->object, OBJECT_MODULE);
	new->next = modules;
	modules = new;
	the.live.modules++;
	pthread_mutex_unlock(&the.lock);
	if (ours)
		code = image_read(new, (const char *)image + strlen(SL_STANDIN_IMAGE));
	if (code) {
		pthread_mutex_lock(&the.lock);
		module_free(new);
		pthread_mutex_unlock(&the.lock);
		return code;
	}
	*module = (struct cu_module *)new->object.id;
	return CU_SUCCESS;
}

int
cuModuleUnload(struct cu_module *handle)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuModuleUnload, NEEDS_CONTEXT, &context);
	struct module *module;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	module = module_find(handle);
	if (module) {
		code = context_drain(context);
		if (!code && module_find(handle) == module)
			module_free(module);
	}
	pthread_mutex_unlock(&the.lock);
	return module ? code : violate(CU_ERROR_INVALID_HANDLE, "cuModuleUnload: no module");
}

/* Does PTX text define an entry of this name? */
static int
text_has_entry(const char *text, const char *name)
{
	size_t length = strlen(name);

	while ((text = strstr(text, ".entry"))) {
		text += strlen(".entry");
		text += strspn(text, " \t\n");
		if (!strncmp(text, name, length) && strchr(" \t\n(", text[length]))
			return 1;
	}
	return 0;
}

int
cuModuleGetFunction(struct cu_function **function, struct cu_module *handle, const char *name)
{
	int code = call_enter(CALL_cuModuleGetFunction, NEEDS_CONTEXT, NULL);
	const struct sl_standin_kernel *kernel;
	struct module *module;
	struct function *new;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	module = module_find(handle);
	if (!module) {
		code = violate(CU_ERROR_INVALID_HANDLE, "cuModuleGetFunction: no module");
	} else if (module->text && !text_has_entry(module->text, name)) {
		code = CU_ERROR_NOT_FOUND;
	} else if (!(kernel = kernel_find(name))) {
		code = CU_ERROR_NOT_FOUND;
		if (module->text)
			violate(code, "cuModuleGetFunction: %s has no C twin", name);
	} else {
		new = must_alloc(1, sizeof(*new));
		new->module = module;
		new->kernel = kernel;
		new->next = functions;
		functions = new;
		*function = (struct cu_function *)object_add(&new->object, OBJECT_FUNCTION);
	}
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuModuleGetGlobal_v2(uint64_t *addr, size_t *bytes, struct cu_module *handle, const char *name)
{
	int code = call_enter(CALL_cuModuleGetGlobal, NEEDS_CONTEXT, NULL);
	struct global *global = NULL;
	struct module *module;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	module = module_find(handle);
	for (global = module ? module->globals : NULL; global; global = global->next)
		if (!strcmp(global->name, name))
			break;
	if (global) {
		if (addr)
			*addr = global->addr;
		if (bytes)
			*bytes = global->bytes;
	}
	pthread_mutex_unlock(&the.lock);
	if (!module)
		return violate(CU_ERROR_INVALID_HANDLE, "cuModuleGetGlobal: no module");
	return global ? CU_SUCCESS : CU_ERROR_NOT_FOUND;
}

/* ---- functions ---- */

/* The kernel of a function; NULL with a violation when there is no such function. */
const struct sl_standin_kernel *
function_kernel(enum call call, const struct cu_function *handle)
{
	const struct sl_standin_kernel *kernel = NULL;
	struct function *function;

	pthread_mutex_lock(&the.lock);
	function = (struct function *)object_find(handle, OBJECT_FUNCTION);
	if (function)
		kernel = function->kernel;
	pthread_mutex_unlock(&the.lock);
	if (!kernel)
		violate(CU_ERROR_INVALID_HANDLE, "%s: no such function", call_name(call));
	return kernel;
}

int
cuFuncGetAttribute(int *value, int attr, struct cu_function *function)
{
	int code = call_enter(CALL_cuFuncGetAttribute, NEEDS_CONTEXT, NULL);

	if (code)
		return code;
	if (!function_kernel(CALL_cuFuncGetAttribute, function))
		return CU_ERROR_INVALID_HANDLE;
	switch (attr) {
	case CU_FUNCTION_MAX_THREADS_PER_BLOCK:
		*value = BLOCK_THREADS;
		return CU_SUCCESS;
	case CU_FUNCTION_REGISTERS:
		*value = 32;
		return CU_SUCCESS;
	case CU_FUNCTION_SHARED_BYTES:
	case CU_FUNCTION_CONST_BYTES:
	case CU_FUNCTION_LOCAL_BYTES:
		*value = 0;
		return CU_SUCCESS;
	}
	return violate(CU_ERROR_INVALID_VALUE, "cuFuncGetAttribute: attribute %d", attr);
}

/* Where the i-th argument lies in the parameter buffer: each at a multiple of its size, as
 * far as that is a power of two up to 16. */
size_t
kernel_param_offset(const struct sl_standin_kernel *kernel, size_t index)
{
	size_t offset = 0;

	for (size_t i = 0;; i++) {
		size_t align = kernel->param_bytes[i] & -kernel->param_bytes[i];

		if (align > 16)
			align = 16;
		if (align)
			offset = (offset + align - 1) / align * align;
		if (i == index)
			return offset;
		offset += kernel->param_bytes[i];
	}
}

int
cuFuncGetParamInfo(struct cu_function *function, size_t index, size_t *offset, size_t *bytes)
{
	int code = call_enter(CALL_cuFuncGetParamInfo, NEEDS_CONTEXT, NULL);
	const struct sl_standin_kernel *kernel;

	if (code)
		return code;
	kernel = function_kernel(CALL_cuFuncGetParamInfo, function);
	if (!kernel)
		return CU_ERROR_INVALID_HANDLE;
	if (index >= kernel->n_params)
		return CU_ERROR_INVALID_VALUE; /* how one finds out how many there are */
	*offset = kernel_param_offset(kernel, index);
	if (bytes)
		*bytes = kernel->param_bytes[index];
	return CU_SUCCESS;
}

int
cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n_blocks, struct cu_function *function,
					    int block_threads, size_t shared_bytes)
{
	int code = call_enter(CALL_cuOccupancyMaxActiveBlocksPerMultiprocessor,
			      NEEDS_CONTEXT, NULL);

	(void)shared_bytes;
	if (code)
		return code;
	if (!function_kernel(CALL_cuOccupancyMaxActiveBlocksPerMultiprocessor, function))
		return CU_ERROR_INVALID_HANDLE;
	if (block_threads < 1)
		return violate(CU_ERROR_INVALID_VALUE, "cuOccupancy...: %d threads",
			       block_threads);
	*n_blocks = block_threads > BLOCK_THREADS ? 0
		    : block_threads < 64          ? 32
						  : 2048 / block_threads;
	return CU_SUCCESS;
}
