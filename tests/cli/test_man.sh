#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The manual pages say what the program does: each option of a command's --help is in its page and
# the other way round, each setting of a space and each counter is explained, each public function
# is named in libsluice(3), and the examples compile and run.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${SLUICE_LIB:?}" "${CC:?}"
man=$SLUICE_SOURCE_DIR/man
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

# same WHAT: the sorted lists in files "help" and "page" are equal.
same()
{
	local missing extra
	[ -s help ] || fail "$1: nothing found to compare"
	missing=$(comm -23 help page)
	extra=$(comm -13 help page)
	[ -z "$missing" ] || fail "$1: not in the page:" $missing
	[ -z "$extra" ] || fail "$1: in the page alone:" $extra
}

# Options are what begins a line of the help, or of the page after a '*'.
page_options()
{
	grep -E '^\*-' "$1" | grep -oE -- '\*--?[A-Za-z][a-z-]*\*' | tr -d '*' | sort -u
}

help_options()
{
	grep -E '^ +-' | sed -E 's/^ +//; s/(  |=| [A-Z]).*//; s/, /\n/' | sort -u
}

"$SLUICE_BIN" --help | help_options >help
page_options "$man/sluice.1.scd" >page
same "sluice(1)"
"$SLUICE_BIN" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' | sort >help
sed -n '/^# COMMANDS/,/^# OPTIONS/s/^\*\([a-z]*\)\*.*/\1/p' "$man/sluice.1.scd" |
	grep -v '^help$' | sort >page
same "sluice(1), commands"

for command in $(cat help); do
	page=$man/sluice-$command.1.scd
	if [ "$command" = version ]; then # so small that it is in sluice(1)
		grep -q '^\*version\* \[\*--json\*\]' "$man/sluice.1.scd" || fail "version's option"
		continue
	fi
	[ -f "$page" ] || { fail "no page for $command"; continue; }
	"$SLUICE_BIN" "$command" --help | help_options >help
	page_options "$page" >page
	same "sluice-$command(1)"
done

# Each field of struct sluice_config is a variable in sluice(7).
sed -n '/^struct sluice_config {/,/^};/p' "$SLUICE_SOURCE_DIR/include/sluice/space.h" |
	tr '\n' ' ' | sed -E 's@/\*([^*]|\*[^/])*\*/@@g' | grep -oE '[a-z_]+(\[[0-9]+\])?;' |
	sed -E 's/(\[[0-9]+\])?;//; s/_bytes$//' | grep -v '^struct$' |
	tr a-z A-Z | sed 's/^/SLUICE_/' | sort >help
sed -n '/^# ENVIRONMENT/,/^These have no field/s/^\*\(SLUICE_[A-Z_]*\)\*$/\1/p' \
	"$man/sluice.7.scd" | sort >page
same "sluice(7), settings"

# Each counter is in sluice-stat(1), with its unit.
grep -oE 'M\([A-Z0-9_]+, *"[a-z0-9_]+", *"[a-z]+"' "$SLUICE_SOURCE_DIR/include/sluice/stats.h" |
	sed -E 's/.*"([a-z0-9_]+)", *"([a-z]+)"/\1 (\2)/' | sort >help
sed -n '/^# COUNTERS/,/^# EXIT/s/^\*\([a-z0-9_]*\)\* \(([a-z]*)\)$/\1 \2/p' \
	"$man/sluice-stat.1.scd" | sort >page
same "sluice-stat(1), counters"

# Each public function, declared with SLUICE_API, is in libsluice(3).
for file in error space region launch move stats; do
	tr '\n\t' '  ' <"$SLUICE_SOURCE_DIR/include/sluice/$file.h"
done | grep -oE 'SLUICE_API [^;(]*\(' | grep -oE 'sluice_[a-z0-9_]+\($' | tr -d '(' |
	sort -u >help
grep -oE '\*sluice_[a-z0-9_]+\*\(\)' "$man/libsluice.3.scd" | tr -d '*()' | sort -u >page
same "libsluice(3)"

# Examples: blocks of code compile, and the one of libsluice(3) does what it says.
lib_dir=$(dirname "$SLUICE_LIB")
flags=(-std=c99 -Wall -Wextra -Werror "-I$SLUICE_SOURCE_DIR/include")
[ -z "${SLUICE_SANITIZE:-}" ] || flags+=("-fsanitize=$SLUICE_SANITIZE")
examples=0
for page in "$man"/*.scd; do
	awk -v name="$(basename "$page" .scd)" '
		/^```/ { inside = !inside; if (inside) n++; next }
		inside { print > ("example-" name "-" n ".c") }' "$page"
done
for example in example-*.c; do
	grep -q '#include' "$example" || continue
	examples=$((examples + 1))
	"$CC" "${flags[@]}" "$example" -o "${example%.c}" "-L$lib_dir" "-Wl,-rpath,$lib_dir" \
		-lsluice || fail "$example does not compile"
done
[ $examples -ge 1 ] || fail "no example found"

# Commands shown in examples exist and take the options shown.
for example in example-*.c; do
	grep -oE '^sluice [a-z]+.*' "$example" | sed 's/ |.*//' | while read -r _ command words; do
		known=$("$SLUICE_BIN" "$command" --help) || { echo "$command"; continue; }
		for word in $words; do
			case $word in
			--*) grep -q -- " $word" <<<"$known" || echo "$command $word" ;;
			esac
		done
	done
done >wrong
[ -s wrong ] && fail "examples use what is not there:" $(cat wrong)

if [ $failed = 0 ] && "$SLUICE_BIN" doctor --dir . >doctor; then
	# 100001 times the float 1.5 doubled is 100001 times 3.
	for i in {1..100001}; do printf '\0\0\300\077'; done >numbers
	for i in {1..100001}; do printf '\0\0\100\100'; done >doubled
	./example-libsluice.3-1 numbers || fail "the example of libsluice(3) does not run"
	cmp numbers doubled || fail "the example of libsluice(3) does not double"
elif [ $failed = 0 ]; then
	echo "the example is compiled but not run: the software device cannot work here"
fi
exit $failed
