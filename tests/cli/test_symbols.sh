#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# libsluice.so exports exactly the functions that the public headers mark with SLUICE_API: all of
# them, and nothing else (no sl_*, no helper of a workload).
set -u
failed=0

# Names of the functions declared with SLUICE_API, comments taken out.
"${CC:-cc}" -E -P -x c -I"$SLUICE_SOURCE_DIR/include" - >declared.i <<END || exit 1
$(for path in "$SLUICE_SOURCE_DIR"/include/sluice/*.h; do
	echo "#include \"sluice/$(basename "$path")\""
done)
END
tr '\n' ' ' <declared.i | tr ';{}' '\n\n\n' |
	grep -F '__attribute__((visibility("default")))' |
	grep -oE '\<(sluice|dragon|uvm)_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u >declared

# Defined dynamic symbols; what the linker and the sanitizers put there is not ours.
nm -D --defined-only "$SLUICE_LIB" | awk '{ print $NF }' |
	grep -vE '^(_init|_fini|__bss_start|_edata|_end|__(asan|ubsan|tsan|odr_asan|sanitizer).*)$' |
	sed 's/@.*//' | sort -u >exported

# Its handlers of signals point into it. A program that closed it ends by the next SIGBUS as it would
# without it, not by a jump into memory that is gone.
cat >closer.c <<'END'
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sluice/sluice.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIND(name) __typeof__(name) *name##_ = (__typeof__(name) *)dlsym(library, #name)

static int
use_and_close(const char *path)
{
	void *library = dlopen(path, RTLD_NOW), *memory;
	struct sluice_config config;
	struct sluice_space *space;

	if (!library)
		return 1;
	FIND(sluice_config_init);
	FIND(sluice_config_parse);
	FIND(sluice_space_create);
	FIND(sluice_alloc);
	FIND(sluice_space_destroy);
	if (sluice_config_init_(&config) ||
	    sluice_config_parse_(&config, "device_budget=8M,faults=signal,spill_dirs=.") ||
	    sluice_space_create_(&config, &space))
		return 77;
	if (sluice_alloc_(space, 32 << 20, 0, &memory))
		return 2;
	for (int i = 0; i < 32 << 20; i += 4096)
		((volatile char *)memory)[i] = 1;
	return sluice_space_destroy_(space) || dlclose(library) ? 3 : 0;
}

int
main(int argc, char **argv)
{
	int status = use_and_close(argv[argc - 1]);
	struct sigaction action;
	pid_t child;

	if (status)
		return status;
	sigaction(SIGBUS, NULL, &action);
	if (action.sa_handler == SIG_DFL)
		return 0;
	child = fork();
	if (!child) {
		raise(SIGBUS);
		_exit(4);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS)
		return 0;
	printf("after dlclose() a SIGBUS ends the program with status %#x\n", (unsigned)status);
	return 5;
}
END
${CC:-cc} ${SLUICE_SANITIZE:+-fsanitize=$SLUICE_SANITIZE} -std=gnu17 -I"$SLUICE_SOURCE_DIR/include" \
	-o closer closer.c -ldl || exit 1
./closer "$SLUICE_LIB" >closed 2>&1
status=$?
if [ $status != 0 ] && [ $status != 77 ]; then
	echo "a program that closes the library: exit status $status: $(cat closed)"
	failed=1
fi
if [ ! -s declared ] || [ ! -s exported ]; then
	echo "nothing found: $(wc -l <declared) declared, $(wc -l <exported) exported"
	exit 1
fi
if grep -qvE '^(sluice|dragon|uvm)_' exported; then
	echo "exported, but neither sluice_* nor dragon_* nor uvm_*:"
	grep -vE '^(sluice|dragon|uvm)_' exported
	failed=1
fi
if [ -n "$(comm -13 declared exported)" ]; then
	echo "exported, but in no public header:"
	comm -13 declared exported
	failed=1
fi
if [ -n "$(comm -23 declared exported)" ]; then
	echo "in a public header, but not exported:"
	comm -23 declared exported
	failed=1
fi
echo "$(wc -l <exported) symbols"
exit $failed
