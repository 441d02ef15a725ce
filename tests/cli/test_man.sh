#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The manual pages say what the program does: each option of a command's --help is in its page and
# the other way round, each setting of a space and each counter is explained, each public function
# is named in libsluice(3). As they are shown to a reader, not as they are written: nothing is
# explained twice, each page that one names is there, each public function has one, and the
# examples compile and run.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${SLUICE_BUILD_DIR:?}" "${SLUICE_LIB:?}" "${CC:?}"
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
for file in "$SLUICE_SOURCE_DIR"/include/sluice/*.h; do
	grep -v '^#' "$file" | tr '\n\t' '  '
done | grep -oE 'SLUICE_API [^;(]*\(' | grep -oE '[a-z0-9_]+\($' | tr -d '(' | sort -u >help
cp help functions
grep -oE '\*[a-z0-9_]+\*\(\)' "$man/libsluice.3.scd" | tr -d '*()' | sort -u >page
same "libsluice(3)"

# From here on the pages are read as they are shown.
if ! command -v groff >/dev/null || [ ! -e "$SLUICE_BUILD_DIR/man/libsluice.3" ]; then
	[ $failed = 0 ] || exit 1
	echo "skip: groff (Debian: groff-base) and scdoc show the pages; one of them is not here"
	exit 77
fi
# show PAGE: plain text in 100 columns. .so names a page from the folder above.
show()
{
	groff -man -Tutf8 -P-c -P-b -P-u -rLL=100n -I pages "$1"
}

mkdir -p pages/man{1,3,5,7} shown
for file in "$SLUICE_BUILD_DIR"/man/*.[1357]; do
	cp "$file" "pages/man${file##*.}/"
done
for source in "$man"/*.scd; do
	name=$(basename "$source" .scd)
	show "pages/man${name##*.}/$name" >"shown/$name" 2>complaints || fail "$name is not shown"
	[ -s complaints ] && fail "$name: $(cat complaints)"
	# A variable or an option that begins an explanation does so once.
	twice=$(grep -E '^ {7}(-|SLUICE_)' "shown/$name" | sort | uniq -d)
	[ -z "$twice" ] || fail "$name explains twice: $twice"
done
[ "$(grep -cE '^ {7}SLUICE_' shown/sluice.7)" -ge 30 ] || fail "no variables are seen in sluice(7)"
[ "$(grep -cE '^ {7}--' shown/sluice-run.1)" -ge 20 ] || fail "no options are seen in sluice-run(1)"

# Each value of an option of choices is explained by itself: "value:" or "value (default)".
for option in baseline:naive,opt,off kernel-args:learn,all,trust report-memory:virtual,physical,auto \
	managed:driver,sluice vmm-memory:auto,sluice,all,driver prefetch:on,off,auto compress:never,auto,always; do
	sed -n "/^ \{7\}--${option%%:*} /,/^\$/p" shown/sluice-run.1 | sed 1d |
		tr -s '\n ' ' ' | sed 's/^ //' >explained
	for value in $(tr , ' ' <<<"${option#*:}"); do
		grep -qE "(^|[.:;] )$value( \(default\))?[.:]" explained ||
			fail "sluice-run(1): --${option%%:*} does not explain $value: $(cat explained)"
	done
done

# Each public function has a page, and pages of ours that one names are there.
for function in $(cat functions); do
	page=pages/man3/$function.3
	[ -e "$page" ] || { fail "no page for $function"; continue; }
	[ "$(cat "$page")" = ".so man3/libsluice.3" ] || fail "$page: $(cat "$page")"
done
show pages/man3/sluice_map.3 | cmp - shown/libsluice.3 || fail "sluice_map(3) does not show libsluice(3)"
[ "$(ls pages/man3 | wc -l)" = $(($(wc -l <functions) + 1)) ] || fail "pages of no function: $(ls pages/man3)"
cat shown/* | grep -oE '(lib)?sluice[a-z_-]*\([1-8]\)' | sort -u >named
[ "$(wc -l <named)" -ge 10 ] || fail "few pages are named: $(cat named)"
while IFS='()' read -r name section _; do
	[ -e "pages/man$section/$name.$section" ] || fail "$name($section) is named and not there"
done <named

# Examples, as a reader copies them: from the first #include to the end of their section.
lib_dir=$(dirname "$SLUICE_LIB")
flags=(-std=c99 -Wall -Wextra -Werror "-I$SLUICE_SOURCE_DIR/include")
[ -z "${SLUICE_SANITIZE:-}" ] || flags+=("-fsanitize=$SLUICE_SANITIZE")
examples=0
for page in shown/*; do
	example=example-$(basename "$page")
	awk '/^[A-Z]/ { inside = /^EXAMPLE/; code = 0 } /^ *#include/ { code = 1 }
		inside && code' "$page" >"$example.c"
	[ -s "$example.c" ] || continue
	examples=$((examples + 1))
	"$CC" "${flags[@]}" "$example.c" -o "$example" "-L$lib_dir" "-Wl,-rpath,$lib_dir" \
		-lsluice || fail "$example does not compile"
done
[ $examples -ge 1 ] || fail "no example found"
grep -q 'fprintf(stderr, "%s\\n"' example-libsluice.3.c || fail "a backslash is lost in libsluice(3)"

# Commands shown in examples exist and take the options shown.
for page in shown/*; do
	awk '/^[A-Z]/ { inside = /^EXAMPLE/ } inside' "$page" | grep -oE '^ +sluice [a-z]+ .*' |
		sed 's/ |.*//' | while read -r _ command words; do
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
	./example-libsluice.3 numbers || fail "the example of libsluice(3) does not run"
	cmp numbers doubled || fail "the example of libsluice(3) does not double"
elif [ $failed = 0 ]; then
	echo "the example is compiled but not run: the software device cannot work here"
fi
exit $failed
