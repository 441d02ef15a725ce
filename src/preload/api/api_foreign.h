/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's calls that take device memory of its own, or deal with unmanaged memory: modules,
 * host memory, arrays, sharing between processes. These are the wrapped ones, as the driver for
 * CUDA 13.0 exports them. Pointers to the driver's own structures that are only passed on are
 * void * here.
 */
#ifndef SL_PRELOAD_API_FOREIGN_H
#define SL_PRELOAD_API_FOREIGN_H

#include "preload/api/driver_api.h"

struct cu_green_context;

/* Passed by value. */
struct cu_ipc_handle {
	char bytes[64];
};

/*
 * room.c: nothing is done but to make room and try again when the driver is out of memory.
 * R(name, (parameters), (arguments))
 */
/* clang-format off */
#define PL_ROOM_CALLS(R)                                                                               \
	R(cuCtxCreate, (struct cu_context **context, unsigned flags, int device),                      \
	  (context, flags, device))                                                                    \
	R(cuCtxCreate_v2, (struct cu_context **context, unsigned flags, int device),                   \
	  (context, flags, device))                                                                    \
	R(cuCtxCreate_v3, (struct cu_context **context, void *affinity, int n, unsigned flags,         \
	  int device), (context, affinity, n, flags, device))                                          \
	R(cuCtxCreate_v4, (struct cu_context **context, void *params, unsigned flags, int device),     \
	  (context, params, flags, device))                                                            \
	R(cuDevicePrimaryCtxRetain, (struct cu_context **context, int device), (context, device))      \
	R(cuGreenCtxCreate, (struct cu_green_context **context, void *resources, int device,           \
	  unsigned flags), (context, resources, device, flags))                                        \
	R(cuCtxSetLimit, (int limit, size_t value), (limit, value))                                    \
	R(cuCtxEnablePeerAccess, (struct cu_context *peer, unsigned flags), (peer, flags))             \
	R(cuStreamCreate, (struct cu_stream **stream, unsigned flags), (stream, flags))                \
	R(cuStreamCreateWithPriority, (struct cu_stream **stream, unsigned flags, int priority),       \
	  (stream, flags, priority))                                                                   \
	R(cuGreenCtxStreamCreate, (struct cu_stream **stream, struct cu_green_context *context,        \
	  unsigned flags, int priority), (stream, context, flags, priority))                           \
	R(cuEventCreate, (struct cu_event **event, unsigned flags), (event, flags))                    \
	R(cuModuleLoad, (struct cu_module **module, const char *path), (module, path))                 \
	R(cuModuleLoadData, (struct cu_module **module, const void *image), (module, image))           \
	R(cuModuleLoadDataEx, (struct cu_module **module, const void *image, unsigned n,               \
	  int *options, void **values), (module, image, n, options, values))                           \
	R(cuModuleLoadFatBinary, (struct cu_module **module, const void *image), (module, image))      \
	R(cuModuleGetFunction, (struct cu_function **function, struct cu_module *module,               \
	  const char *name), (function, module, name))                                                 \
	R(cuLibraryLoadData, (struct cu_library **library, const void *code, int *jit,                 \
	  void **jit_values, unsigned n_jit, int *options, void **values, unsigned n),                 \
	  (library, code, jit, jit_values, n_jit, options, values, n))                                 \
	R(cuLibraryLoadFromFile, (struct cu_library **library, const char *path, int *jit,             \
	  void **jit_values, unsigned n_jit, int *options, void **values, unsigned n),                 \
	  (library, path, jit, jit_values, n_jit, options, values, n))                                 \
	R(cuLibraryGetModule, (struct cu_module **module, struct cu_library *library),                 \
	  (module, library))                                                                           \
	R(cuLibraryGetManaged, (uint64_t *addr, size_t *bytes, struct cu_library *library,             \
	  const char *name), (addr, bytes, library, name))                                             \
	R(cuKernelGetFunction, (struct cu_function **function, struct cu_kernel *kernel),              \
	  (function, kernel))                                                                          \
	R(cuModuleGetGlobal_v2, (uint64_t *addr, size_t *bytes, struct cu_module *module,              \
	  const char *name), (addr, bytes, module, name))                                              \
	R(cuLibraryGetGlobal, (uint64_t *addr, size_t *bytes, struct cu_library *library,              \
	  const char *name), (addr, bytes, library, name))                                             \
	R(cuFuncLoad, (struct cu_function *function), (function))                                      \
	R(cuMemAllocHost, (void **data, unsigned bytes), (data, bytes))                                \
	R(cuMemAllocHost_v2, (void **data, size_t bytes), (data, bytes))                               \
	R(cuMemHostAlloc, (void **data, size_t bytes, unsigned flags), (data, bytes, flags))           \
	R(cuMemHostRegister, (void *data, size_t bytes, unsigned flags), (data, bytes, flags))         \
	R(cuMemHostRegister_v2, (void *data, size_t bytes, unsigned flags), (data, bytes, flags))      \
	R(cuArrayCreate, (struct cu_array **array, const void *what), (array, what))                   \
	R(cuArray3DCreate, (struct cu_array **array, const void *what), (array, what))                 \
	R(cuMemImportFromShareableHandle, (uint64_t *handle, void *shared, int type),                  \
	  (handle, shared, type))                                                                      \
	R(cuMulticastCreate, (uint64_t *handle, const void *what), (handle, what))                     \
	R(cuIpcOpenMemHandle, (uint64_t *addr, struct cu_ipc_handle handle, unsigned flags),           \
	  (addr, handle, flags))                                                                       \
	R(cuIpcOpenMemHandle_v2, (uint64_t *addr, struct cu_ipc_handle handle, unsigned flags),        \
	  (addr, handle, flags))                                                                       \
	R(cuImportExternalMemory, (void **memory, const void *what), (memory, what))                   \
	R(cuExternalMemoryGetMappedBuffer, (uint64_t *addr, void *memory, const void *what),           \
	  (addr, memory, what))                                                                        \
	R(cuExternalMemoryGetMappedMipmappedArray, (void **array, void *memory, const void *what),     \
	  (array, memory, what))                                                                       \
	R(cuGraphicsMapResources, (unsigned n, void **resources, struct cu_stream *stream),            \
	  (n, resources, stream))                                                                      \
	R(cuGraphicsMapResources_ptsz, (unsigned n, void **resources, struct cu_stream *stream),       \
	  (n, resources, stream))
/* clang-format on */

#define PL_ROOM_DECLARE(name, parameters, arguments) PL_EXPORT int name parameters;
PL_ROOM_CALLS(PL_ROOM_DECLARE)
#undef PL_ROOM_DECLARE

/* code.c */
PL_EXPORT int cuModuleUnload(struct cu_module *module);
PL_EXPORT int cuLibraryUnload(struct cu_library *library);

/* foreign.c */
struct cu_array_description { /* of cuArrayCreate_v2() */
	size_t width, height;
	int format;
	unsigned channels;
};

struct cu_array_description_3d { /* of cuArray3DCreate_v2() and cuMipmappedArrayCreate() */
	size_t width, height, depth;
	int format;
	unsigned channels, flags;
};

struct cu_mipmapped_array;

PL_EXPORT int cuArrayCreate_v2(struct cu_array **array,
			       const struct cu_array_description *what);
PL_EXPORT int cuArray3DCreate_v2(struct cu_array **array,
				 const struct cu_array_description_3d *what);
PL_EXPORT int cuArrayDestroy(struct cu_array *array);
PL_EXPORT int cuMipmappedArrayCreate(struct cu_mipmapped_array **array,
				     const struct cu_array_description_3d *what,
				     unsigned levels);
PL_EXPORT int cuMipmappedArrayDestroy(struct cu_mipmapped_array *array);

/* ipc.c */
PL_EXPORT int cuIpcGetMemHandle(struct cu_ipc_handle *handle, uint64_t addr);
PL_EXPORT int cuMemGetHandleForAddressRange(void *handle, uint64_t addr, size_t bytes,
					    int type, unsigned long long flags);
PL_EXPORT int cuMemPoolExportPointer(void *data, uint64_t addr);
PL_EXPORT int cuCheckpointProcessCheckpoint(int process, void *arguments);

_Static_assert(sizeof(struct cu_ipc_handle) == 64, "ABI");
_Static_assert(sizeof(struct cu_array_description) == 24, "ABI");
_Static_assert(sizeof(struct cu_array_description_3d) == 40, "ABI");

#endif
