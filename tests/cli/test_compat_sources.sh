#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sources written to the DRAGON paper, to DRAGON's library and to UVM Discard (tests/compat)
# compile without a warning as C and as C++, link with the shared library, and run.
# Run in an empty directory. CXX empty: C++ is left out, and said.
set -u
: "${SLUICE_SOURCE_DIR:?}" "${SLUICE_LIB:?}" "${CC:?}"
export SLUICE_DEVICE=soft SLUICE_DEVICE_BUDGET=16M SLUICE_HOST_BUDGET=16M
unset SLUICE_HOST_RESERVE DRAGON_NR_RESERVED_PAGES DRAGON_READAHEAD_TYPE

lib_dir=$(dirname "$SLUICE_LIB")
flags=(-Wall -Wextra -pedantic -Werror "-I$SLUICE_SOURCE_DIR/include")
link=("-L$lib_dir" "-Wl,-rpath,$lib_dir" -lsluice)
if [ -n "${SLUICE_SANITIZE:-}" ]; then
	flags+=("-fsanitize=$SLUICE_SANITIZE")
fi
failed=0 skipped=0

# try NAME LABEL COMPILER...: build tests/compat/NAME.c with the compiler, run it.
try()
{
	local name=$1 label="$1 as $2" status
	shift 2
	if ! "$@" "${flags[@]}" -o program "$SLUICE_SOURCE_DIR/tests/compat/$name.c" \
		-x none "${link[@]}"; then
		echo "FAIL $label: does not compile"
		failed=1
		return
	fi
	rm -f data new
	truncate -s 4M data
	if [ "$name" = dragon_library_source ]; then
		./program new
	elif [ "$name" = dragon_paper_source ]; then
		./program data
	else
		./program
	fi
	status=$?
	case $status in
	0) echo "ok   $label" ;;
	77)
		echo "skip $label"
		skipped=1
		;;
	*)
		echo "FAIL $label: exit status $status"
		failed=1
		;;
	esac
}

for name in dragon_paper_source dragon_library_source; do
	try $name C99 "$CC" -std=c99
	try $name C17 "$CC" -std=c17
done
try uvm_discard_source C17 "$CC" -std=c17
if [ -n "${CXX:-}" ]; then
	for name in dragon_paper_source dragon_library_source uvm_discard_source; do
		try $name C++11 "$CXX" -std=c++11 -x c++
		try $name C++17 "$CXX" -std=c++17 -x c++
	done
else
	echo "no C++ compiler: tried as C only"
fi
[ $failed = 0 ] || exit 1
[ $skipped = 0 ] || exit 77
