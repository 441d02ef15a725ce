#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each public header compiles alone, as C99 and as C++, without a warning, and twice in one file.
set -u
cc=${CC:-cc} cxx=${CXX:-}
flags=(-Wall -Wextra -pedantic -Werror -fsyntax-only -I"$SLUICE_SOURCE_DIR/include")
failed=0 seen=0

for path in "$SLUICE_SOURCE_DIR"/include/sluice/*.h; do
	header=sluice/$(basename "$path")
	printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' \
		"$header" "$header" >one.c
	cp one.c one.cpp
	seen=$((seen + 1))
	for std in c99 gnu17; do
		"$cc" -std=$std "${flags[@]}" one.c || { echo "$header: not $std"; failed=1; }
	done
	if [ -n "$cxx" ]; then
		for std in c++11 c++17; do
			"$cxx" -std=$std "${flags[@]}" one.cpp ||
				{ echo "$header: not $std"; failed=1; }
		done
	fi
done
if [ $seen -eq 0 ]; then
	echo "no headers under $SLUICE_SOURCE_DIR/include/sluice"
	exit 1
fi
[ -n "$cxx" ] || echo "no C++ compiler here: only C was tried"
echo "$seen headers"
exit $failed
