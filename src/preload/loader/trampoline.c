/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points that C cannot express. For each unwrapped name of api.tbl the exported symbol
 * is a jump to the driver's function in pl_real[]. Until the driver is open, pl_real[] leads to
 * code that keeps all argument registers, opens it, and jumps on. dlopen(), dlmopen() and
 * dlsym() end in a jump, not in a call. So the C library sees the program as its caller
 * (RTLD_NEXT and RUNPATH depend on it).
 *
 * One block of assembly for the whole file: it counts the names in the order of enum sl_api.
 * x86-64 only; CMake builds the library nowhere else.
 *
 * entry.c opens the driver, loader.c has paths and handles. Threads: any.
 */
#include "preload/preload.h"

/* What is saved around a call from a stub: six integer registers, rax, r11, eight vectors. 16 bytes
 * aligned, as at the call. Exactly one word of the caller (the return address) is below. */
/* clang-format off */
#define SAVE                                   \
	"push %rbp\n"                          \
	".cfi_adjust_cfa_offset 8\n"           \
	".cfi_rel_offset %rbp, 0\n"            \
	"mov %rsp, %rbp\n"                     \
	".cfi_def_cfa_register %rbp\n"         \
	"push %rdi\n push %rsi\n push %rdx\n"  \
	"push %rcx\n push %r8\n push %r9\n"    \
	"push %rax\n push %r11\n"              \
	"sub $128, %rsp\n"                     \
	"movups %xmm0, 0(%rsp)\n"              \
	"movups %xmm1, 16(%rsp)\n"             \
	"movups %xmm2, 32(%rsp)\n"             \
	"movups %xmm3, 48(%rsp)\n"             \
	"movups %xmm4, 64(%rsp)\n"             \
	"movups %xmm5, 80(%rsp)\n"             \
	"movups %xmm6, 96(%rsp)\n"             \
	"movups %xmm7, 112(%rsp)\n"

/* r11 comes back as it was; a result to keep must be in r10. */
#define RESTORE                                \
	"movups 0(%rsp), %xmm0\n"              \
	"movups 16(%rsp), %xmm1\n"             \
	"movups 32(%rsp), %xmm2\n"             \
	"movups 48(%rsp), %xmm3\n"             \
	"movups 64(%rsp), %xmm4\n"             \
	"movups 80(%rsp), %xmm5\n"             \
	"movups 96(%rsp), %xmm6\n"             \
	"movups 112(%rsp), %xmm7\n"            \
	"add $128, %rsp\n"                     \
	"pop %r11\n pop %rax\n"                \
	"pop %r9\n pop %r8\n pop %rcx\n"       \
	"pop %rdx\n pop %rsi\n pop %rdi\n"     \
	"pop %rbp\n"                           \
	".cfi_def_cfa %rsp, 8\n"

#define FUNCTION(name)                         \
	".globl " #name "\n"                   \
	".type " #name ", @function\n"         \
	".p2align 4\n"                         \
	#name ":\n"                            \
	".cfi_startproc\n"

#define END(name)                              \
	".cfi_endproc\n"                       \
	".size " #name ", . - " #name "\n"

/* A name that is not wrapped. .set at the end: the next one's number. */
#define ENTRY_FORWARD(name)                    \
	FUNCTION(name)                         \
	"jmp *pl_real + 8 * pl_n(%rip)\n"      \
	END(name)
#define ENTRY_WRAP(name)

__asm__(
	".text\n"
	".hidden pl_real\n"
	".hidden pl_first_call\n"
	".hidden pl_open_path\n"
	".hidden pl_mopen_path\n"
	".hidden pl_own_symbol\n"
	".hidden pl_next_find\n"
	".hidden pl_next_dlopen\n"
	".hidden pl_next_dlmopen\n"
	".hidden pl_next_dlsym\n"
	".hidden pl_own_handle\n"

	".set pl_n, 0\n"
#define PL_API(exported, base, version, flavour, class, group) \
	ENTRY_##class(exported) ".set pl_n, pl_n + 1\n"
#include "preload/api.tbl"
#undef PL_API

	/* Before the driver is open: number to r11, then all together. */
	".set pl_n, 0\n"
#define PL_API(exported, base, version, flavour, class, group)      \
	".Lfirst_" #exported ":\n"                                  \
	"mov $pl_n, %r11d\n"                                        \
	"jmp .Lfirst\n"                                             \
	".set pl_n, pl_n + 1\n"
#include "preload/api.tbl"
#undef PL_API
	".p2align 4\n"
	".Lfirst:\n"
	".cfi_startproc\n"
	SAVE
	"mov %r11d, %edi\n"
	"call pl_first_call\n"
	"mov %rax, %r10\n"
	RESTORE
	"jmp *%r10\n"
	".cfi_endproc\n"

	/* void *dlopen(const char *path, int flags) */
	FUNCTION(dlopen)
	SAVE
	"call pl_open_path\n"
	"mov %rax, %r10\n"
	RESTORE
	"mov %r10, %rdi\n"
	"jmp *pl_next_dlopen(%rip)\n"
	END(dlopen)

	/* void *dlmopen(Lmid_t namespace, const char *path, int flags) */
	FUNCTION(dlmopen)
	SAVE
	"call pl_mopen_path\n"
	"mov %rax, %r10\n"
	RESTORE
	"mov %r10, %rsi\n"
	"jmp *pl_next_dlmopen(%rip)\n"
	END(dlmopen)

	/* void *dlsym(void *handle, const char *name) */
	FUNCTION(dlsym)
	"cmp pl_own_handle(%rip), %rdi\n"
	"je pl_own_symbol\n"
	"mov pl_next_dlsym(%rip), %r11\n"
	"test %r11, %r11\n"
	"jz 1f\n"
	"jmp *%r11\n"
	"1:\n"
	SAVE
	"call pl_next_find\n"
	RESTORE
	"jmp *pl_next_dlsym(%rip)\n"
	END(dlsym)

	".data\n"
	".p2align 5\n"
	".globl pl_real\n"
	".type pl_real, @object\n"
	"pl_real:\n"
#define PL_API(exported, base, version, flavour, class, group) \
	".quad .Lfirst_" #exported "\n"
#include "preload/api.tbl"
#undef PL_API
	".size pl_real, . - pl_real\n"
	".text\n");
/* clang-format on */
