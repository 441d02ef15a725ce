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

# Its handlers of signals point into it, so dlclose() must leave it where it is.
if ! readelf -d "$SLUICE_LIB" | grep -q NODELETE; then
	echo "dlclose() unloads the library: it is linked without -z nodelete"
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
