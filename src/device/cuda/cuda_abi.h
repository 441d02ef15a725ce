/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA driver's binary interface that the back end uses: values and layouts, as
 * drivers for CUDA 12 and 13 have them on 64-bit Linux. Written for this library; the toolkit's
 * header is needed neither to build nor to run.
 *
 * Names are not the toolkit's (CU_ERROR_..., CU_ATTR_..., struct cu_...), so one file may
 * include both. Results are plain ints: a newer driver returns codes outside the list. Device
 * addresses and handles of physical memory are uint64_t. A device is an int. Everything else is
 * a pointer to an opaque structure.
 *
 * The calls, and their exported names: cuda_symbols.def.
 */
#ifndef SL_DEVICE_CUDA_CUDA_ABI_H
#define SL_DEVICE_CUDA_CUDA_ABI_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* Opaque objects of the driver. */
struct cu_context;
struct cu_stream;
struct cu_event;
struct cu_module;
struct cu_function;
struct cu_graph;
struct cu_graph_node;
struct cu_graph_exec;

/* Handles that stand for streams which always exist; NULL is CU_LEGACY_STREAM. */
#define CU_LEGACY_STREAM     ((struct cu_stream *)1)
#define CU_PER_THREAD_STREAM ((struct cu_stream *)2)

/* ---- results ---- */

/*
 * R(name, code, errno, lost): CUDA_ERROR_<name>, the errno it becomes, and whether the
 * context is of no use after it (every later call returns the same).
 */
/* clang-format off */
#define CU_RESULTS(R)                                  \
	R(INVALID_VALUE,                   1, EINVAL,    0) \
	R(OUT_OF_MEMORY,                   2, ENOMEM,    0) \
	R(NOT_INITIALIZED,                 3, ENOTSUP,   0) \
	R(DEINITIALIZED,                   4, ECANCELED, 1) \
	R(STUB_LIBRARY,                   34, ENOTSUP,   0) \
	R(DEVICE_UNAVAILABLE,             46, EBUSY,     0) \
	R(NO_DEVICE,                     100, ENOTSUP,   0) \
	R(INVALID_DEVICE,                101, EINVAL,    0) \
	R(DEVICE_NOT_LICENSED,           102, EPERM,     0) \
	R(INVALID_IMAGE,                 200, EINVAL,    0) \
	R(INVALID_CONTEXT,               201, EINVAL,    0) \
	R(MAP_FAILED,                    205, EIO,       0) \
	R(UNMAP_FAILED,                  206, EIO,       0) \
	R(ALREADY_MAPPED,                208, EINVAL,    0) \
	R(NO_BINARY_FOR_GPU,             209, ENOTSUP,   0) \
	R(NOT_MAPPED,                    211, EINVAL,    0) \
	R(ECC_UNCORRECTABLE,             214, EIO,       1) \
	R(PEER_ACCESS_UNSUPPORTED,       217, ENOTSUP,   0) \
	R(INVALID_PTX,                   218, EINVAL,    0) \
	R(NVLINK_UNCORRECTABLE,          220, EIO,       1) \
	R(JIT_COMPILER_NOT_FOUND,        221, ENOTSUP,   0) \
	R(UNSUPPORTED_PTX_VERSION,       222, ENOTSUP,   0) \
	R(JIT_COMPILATION_DISABLED,      223, ENOTSUP,   0) \
	R(CONTAINED,                     226, EIO,       1) \
	R(OPERATING_SYSTEM,              304, EIO,       0) \
	R(INVALID_HANDLE,                400, EINVAL,    0) \
	R(ILLEGAL_STATE,                 401, EINVAL,    0) \
	R(NOT_FOUND,                     500, ENOENT,    0) \
	R(NOT_READY,                     600, EAGAIN,    0) \
	R(ILLEGAL_ADDRESS,               700, EFAULT,    1) \
	R(LAUNCH_OUT_OF_RESOURCES,       701, EINVAL,    0) \
	R(LAUNCH_TIMEOUT,                702, EIO,       1) \
	R(PEER_ACCESS_ALREADY_ENABLED,   704, EINVAL,    0) \
	R(PEER_ACCESS_NOT_ENABLED,       705, EINVAL,    0) \
	R(PRIMARY_CONTEXT_ACTIVE,        708, EBUSY,     0) \
	R(CONTEXT_IS_DESTROYED,          709, ECANCELED, 1) \
	R(ASSERT,                        710, EFAULT,    1) \
	R(TOO_MANY_PEERS,                711, ENOBUFS,   0) \
	R(HOST_MEMORY_ALREADY_REGISTERED, 712, EBUSY,    0) \
	R(HOST_MEMORY_NOT_REGISTERED,    713, EINVAL,    0) \
	R(HARDWARE_STACK_ERROR,          714, EFAULT,    1) \
	R(ILLEGAL_INSTRUCTION,           715, EFAULT,    1) \
	R(MISALIGNED_ADDRESS,            716, EFAULT,    1) \
	R(INVALID_ADDRESS_SPACE,         717, EFAULT,    1) \
	R(INVALID_PC,                    718, EFAULT,    1) \
	R(LAUNCH_FAILED,                 719, EIO,       1) \
	R(COOPERATIVE_LAUNCH_TOO_LARGE,  720, EINVAL,    0) \
	R(NOT_PERMITTED,                 800, EPERM,     0) \
	R(NOT_SUPPORTED,                 801, ENOTSUP,   0) \
	R(SYSTEM_NOT_READY,              802, EAGAIN,    0) \
	R(SYSTEM_DRIVER_MISMATCH,        803, ENOTSUP,   0) \
	R(COMPAT_NOT_SUPPORTED_ON_DEVICE, 804, ENOTSUP,  0) \
	R(MPS_CONNECTION_FAILED,         805, EIO,       0) \
	R(STREAM_CAPTURE_UNSUPPORTED,    900, EBUSY,     0) \
	R(STREAM_CAPTURE_INVALIDATED,    901, ECANCELED, 0) \
	R(STREAM_CAPTURE_MERGE,          902, EINVAL,    0) \
	R(STREAM_CAPTURE_UNMATCHED,      903, EINVAL,    0) \
	R(STREAM_CAPTURE_UNJOINED,       904, EINVAL,    0) \
	R(STREAM_CAPTURE_ISOLATION,      905, EINVAL,    0) \
	R(STREAM_CAPTURE_IMPLICIT,       906, EBUSY,     0) \
	R(CAPTURED_EVENT,                907, EINVAL,    0) \
	R(STREAM_CAPTURE_WRONG_THREAD,   908, EINVAL,    0) \
	R(TIMEOUT,                       909, EIO,       0) \
	R(EXTERNAL_DEVICE,               911, EIO,       1) \
	R(UNKNOWN,                       999, EIO,       1)
/* clang-format on */

enum cu_result {
	CU_SUCCESS = 0,
#define CU_RESULT_VALUE(name, code, errno_value, lost) CU_ERROR_##name = (code),
	CU_RESULTS(CU_RESULT_VALUE)
#undef CU_RESULT_VALUE
};

/* ---- devices and contexts ---- */

enum cu_attr {
	CU_ATTR_MAX_THREADS_PER_BLOCK = 1,
	CU_ATTR_MULTIPROCESSOR_COUNT = 16,
	CU_ATTR_CAN_MAP_HOST_MEMORY = 19,
	CU_ATTR_PCI_BUS_ID = 33,
	CU_ATTR_PCI_DEVICE_ID = 34,
	CU_ATTR_ASYNC_ENGINE_COUNT = 40,
	CU_ATTR_UNIFIED_ADDRESSING = 41,
	CU_ATTR_PCI_DOMAIN_ID = 50,
	CU_ATTR_COMPUTE_CAPABILITY_MAJOR = 75,
	CU_ATTR_COMPUTE_CAPABILITY_MINOR = 76,
	CU_ATTR_STREAM_PRIORITIES_SUPPORTED = 78,
	CU_ATTR_MANAGED_MEMORY = 83,
	CU_ATTR_PAGEABLE_MEMORY_ACCESS = 88,
	CU_ATTR_CONCURRENT_MANAGED_ACCESS = 89,
	CU_ATTR_HOST_REGISTER_SUPPORTED = 99,
	CU_ATTR_VMM_SUPPORTED = 102, /* virtual memory management */
	CU_ATTR_HOST_NUMA_ID = 134,
	CU_ATTR_HOST_NUMA_VMM_SUPPORTED = 141 /* unknown to drivers before CUDA 12.8 */
};

struct cu_uuid {
	unsigned char bytes[16];
};

/* ---- virtual memory management ---- */

enum cu_location_type {
	CU_LOCATION_INVALID = 0,
	CU_LOCATION_DEVICE = 1,
	CU_LOCATION_HOST = 2,
	CU_LOCATION_HOST_NUMA = 3,
	CU_LOCATION_HOST_NUMA_CURRENT = 4
};

struct cu_location {
	int type; /* enum cu_location_type */
	int id;   /* device ordinal, or NUMA node */
};

enum { CU_ALLOCATION_PINNED = 1 };
enum { CU_GRANULARITY_MINIMUM = 0, CU_GRANULARITY_RECOMMENDED = 1 };
enum { CU_ACCESS_NONE = 0, CU_ACCESS_READ = 1, CU_ACCESS_READ_WRITE = 3 };

/* Properties of physical memory, for cuMemCreate(). Unused fields are zero. */
struct cu_allocation {
	int type;             /* CU_ALLOCATION_PINNED */
	int requested_handle; /* 0: not to be shared with other processes */
	struct cu_location location;
	void *windows_only;
	unsigned char compression;
	unsigned char gpu_direct_rdma;
	unsigned short usage;
	unsigned char reserved[4];
};

/* Who may do what, for cuMemSetAccess(). */
struct cu_access {
	struct cu_location location;
	int flags; /* CU_ACCESS_... */
};

_Static_assert(sizeof(struct cu_location) == 8, "ABI");
_Static_assert(sizeof(struct cu_allocation) == 32, "ABI");
_Static_assert(offsetof(struct cu_allocation, location) == 8, "ABI");
_Static_assert(offsetof(struct cu_allocation, compression) == 24, "ABI");
_Static_assert(sizeof(struct cu_access) == 12, "ABI");
_Static_assert(sizeof(struct cu_uuid) == 16, "ABI");

/* ---- host memory ---- */

enum {
	CU_HOST_ALLOC_PORTABLE = 1,
	CU_HOST_ALLOC_DEVICE_MAP = 2,
	CU_HOST_ALLOC_WRITE_COMBINED = 4
};
enum {
	CU_HOST_REGISTER_PORTABLE = 1,
	CU_HOST_REGISTER_DEVICE_MAP = 2,
	CU_HOST_REGISTER_IO_MEMORY = 4,
	CU_HOST_REGISTER_READ_ONLY = 8
};

/* ---- streams, events, launches ---- */

enum { CU_STREAM_PLAIN = 0, CU_STREAM_NONBLOCKING = 1 };
enum { CU_CAPTURE_NONE = 0, CU_CAPTURE_ACTIVE = 1, CU_CAPTURE_INVALIDATED = 2 };
/* Of a capture: whose calls may end it. Of a thread: which captures it respects. */
enum {
	CU_CAPTURE_MODE_GLOBAL = 0,
	CU_CAPTURE_MODE_THREAD_LOCAL = 1,
	CU_CAPTURE_MODE_RELAXED = 2
};
enum { CU_EVENT_PLAIN = 0, CU_EVENT_BLOCKS = 1, CU_EVENT_UNTIMED = 2 };

/* cuStreamWaitValue32(): wait until the word is >= (cyclically), ==, has a bit of, or
 * with ~(word | value) != 0. */
enum {
	CU_WAIT_VALUE_GEQ = 0,
	CU_WAIT_VALUE_EQ = 1,
	CU_WAIT_VALUE_AND = 2,
	CU_WAIT_VALUE_NOR = 3
};
enum { CU_WRITE_VALUE_DEFAULT = 0, CU_WRITE_VALUE_NO_MEMORY_BARRIER = 1 };

typedef void (*cu_host_function)(void *argument);

/* Keys of cuLaunchKernel()'s extra list: key, value, ..., END. */
#define CU_LAUNCH_EXTRA_END    ((void *)0)
#define CU_LAUNCH_EXTRA_BUFFER ((void *)1)
#define CU_LAUNCH_EXTRA_BYTES  ((void *)2)

enum cu_function_attr {
	CU_FUNCTION_MAX_THREADS_PER_BLOCK = 0,
	CU_FUNCTION_SHARED_BYTES = 1,
	CU_FUNCTION_CONST_BYTES = 2,
	CU_FUNCTION_LOCAL_BYTES = 3,
	CU_FUNCTION_REGISTERS = 4
};

enum cu_pointer_attr {
	CU_POINTER_CONTEXT = 1,
	CU_POINTER_MEMORY_TYPE = 2,
	CU_POINTER_DEVICE_POINTER = 3,
	CU_POINTER_HOST_POINTER = 4,
	CU_POINTER_IS_MANAGED = 8,
	CU_POINTER_DEVICE_ORDINAL = 9,
	CU_POINTER_RANGE_START = 11,
	CU_POINTER_RANGE_BYTES = 12,
	CU_POINTER_MAPPED = 13
};

enum { CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE = 2 };

#endif
