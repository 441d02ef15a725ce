#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Names that readers follow lead somewhere, and mean one thing:
# - the functions that src/core/chunk_state.h names for a move exist and make it, and no other does;
# - a struct, union or enum tag has one definition in src/;
# - a static function has a name of its own in src/, or is on the list below;
# - a declaration in the header of a storey of src/core stands under the file that defines it;
# - an atomic that is used with a memory order says at its declaration which use it pairs with, or why
#   relaxed is enough;
# - docs/design/locking.md names every rank of src/base/lock.h, in its order.
# Each check is tried on a planted fault, too.
set -euo pipefail
root=${SLUICE_SOURCE_DIR:?}
failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# states_made <files ...>: "function STATE" for each call of sl_chunk_set_state(); ANY where the state
# is a variable, which restores what the function found.
states_made()
{
	awk '
	FNR == 1 { function_name = ""; call = "" }
	/^[a-z_0-9]+\(/ { function_name = substr($0, 1, index($0, "(") - 1); next }
	/^}/ { function_name = "" }
	function_name != "" {
		at = index($0, "sl_chunk_set_state(")
		if (call == "" && !at) next
		call = call " " (call == "" ? substr($0, at) : $0)
		if (call !~ /;/) next
		n = 0
		while (match(call, /SL_CHUNK_[A-Z]+/)) {
			print function_name, substr(call, RSTART + 9, RLENGTH - 9)
			call = substr(call, RSTART + RLENGTH)
			n++
		}
		if (!n) print function_name, "ANY"
		call = ""
	}' "$@" | sort -u
}

# moves_listed <chunk_state.h>: "function FROM TO" for each maker of each move.
moves_listed()
{
	sed -n 's/^\tM(\([A-Z]*\), *\([A-Z]*\), *\([a-z_| ]*\), *".*/\1 \2 \3/p' "$1" |
		while read -r from to makers; do
			for maker in ${makers//|/ }; do
				echo "$maker $from $to"
			done
		done
}

# makers_check <chunk_state.h> <files ...>
makers_check()
{
	local table=$1 bad=0 made listed maker from to
	shift
	made=$(states_made "$@")
	listed=$(moves_listed "$table")
	[ "$(wc -l <<< "$made")" -ge 3 ] || {
		echo "no calls of sl_chunk_set_state() were found"
		return 1
	}
	while read -r maker from to; do
		grep -qx "$maker \($to\|ANY\)" <<< "$made" || {
			echo "$table: $from -> $to is not made by $maker()"
			bad=1
		}
	done <<< "$listed"
	while read -r maker to; do
		[ "$to" = ANY ] && to='[A-Z]*'
		grep -qx "$maker [A-Z]* $to" <<< "$listed" || {
			echo "$maker() moves a chunk to $to, and $table does not name it there"
			bad=1
		}
	done <<< "$made"
	return $bad
}

# tags_check <folder>: tags with a prefix of ours, which are the names that files share. Each device
# defines what the contract leaves open.
tags_check()
{
	local twice
	twice=$(find "$1" -name '*.[ch]' -print0 | xargs -0 sed -n \
		's/^\(typedef \|static \|const \)*\(struct\|union\|enum\) \(\(sl\|pl\|sluice\)_[a-z0-9_]*\) {.*/\3/p' |
		sort | uniq -d | grep -vx 'sl_stream\|sl_event' || true)
	[ -z "$twice" ] || {
		echo "$1: defined twice:" $twice
		return 1
	}
}

# Static functions that mean the same in each of their files.
statics_shared=(
	must_be_zero # a call of pthreads that cannot fail
	sleep_until  # until a moment of the monotonic clock
)

# statics_check <folder>: who searches for a name finds one function.
statics_check()
{
	local twice
	twice=$(find "$1" -name '*.c' -print0 | xargs -0 awk '
		head && /^[a-z_][a-z_0-9]*\(/ {
			name = substr($0, 1, index($0, "(") - 1)
			if (!((FILENAME, name) in seen)) print name
			seen[FILENAME, name] = 1
		}
		{ head = /^(SL_[A-Z_]+ )?static [^;={}()]*$/ }' | sort | uniq -d |
		grep -vxF "$(printf '%s\n' "${statics_shared[@]}")" || true)
	[ -z "$twice" ] || {
		echo "$1: static functions of one name in several files:" $twice
		return 1
	}
}

# headings_check <header> <folder>: a declaration below "/* x.c" is defined in folder/x.c.
headings_check()
{
	local bad=0 n=0 file name
	while read -r file name; do
		n=$((n + 1))
		grep -q "^$name(" "$2/$file" 2>/dev/null || {
			echo "$1: $name() stands under $file, which does not define it"
			bad=1
		}
	done < <(awk '
		/^\/\* [a-z_]+\.c/ { file = $2; sub(/[:,]$/, "", file) }
		file != "" && /^[a-z].*[ *]sl_[a-z0-9_]+\(/ && !/^static/ {
			match($0, /sl_[a-z0-9_]+\(/)
			print file, substr($0, RSTART, RLENGTH - 1)
		}' "$1")
	[ "$n" -ge 1 ] || {
		echo "$1: no declarations were read"
		return 1
	}
	return $bad
}

# orders_check <folder>: the last name of each &object that is given with an order has a declaration
# with "atomic: pairs with" or "atomic: relaxed" on its line or in the three lines above it.
orders_check()
{
	local bad=0 n=0 name
	while read -r name; do
		n=$((n + 1))
		grep -rhE --include='*.[ch]' -B3 "(_Atomic|atomic_u?int\\b).*[ *]$name(\[[^]]*\])?( = [^;]*)?[;,]" "$1" |
			grep -qE 'atomic: (pairs with|relaxed:)' || {
			echo "$1: $name has a memory order, and its declaration does not say why"
			bad=1
		}
	done < <(grep -rhoE --include='*.[ch]' '_explicit\(&[^,]*,' "$1" |
		sed -E 's/\[[^]]*,$/,/; s/\[[^]]*\],$/,/; s/.*[&.>]([A-Za-z_0-9]+),$/\1/' | sort -u)
	[ "$n" -ge 1 ] || {
		echo "$1: no memory orders were read"
		return 1
	}
	return $bad
}

# ranks_check <lock.h> <page>: the page has the ranks as one list, in the order of the enum.
ranks_check()
{
	local ranks
	ranks=$(sed -n 's/^\tSL_RANK_\([A-Z]*\),.*/\1/p' "$1" | tr 'A-Z\n' 'a-z ' | sed 's/ $//; s/ /, /g')
	[ -n "$ranks" ] && tr '\n' ' ' < "$2" | tr -s ' ' | grep -qF "$ranks." || {
		echo "$2: the ranks are not: $ranks."
		return 1
	}
}

makers_check "$root/src/core/chunk_state.h" "$root"/src/core/*/*.c || failed=1
tags_check "$root/src" || failed=1
statics_check "$root/src" || failed=1
for storey in state transfer launch api; do
	headings_check "$root/src/core/$storey/$storey.h" "$root/src/core/$storey" || failed=1
done
for part in base core device preload store; do
	orders_check "$root/src/$part" || failed=1
done
ranks_check "$root/src/base/lock.h" "$root/docs/design/locking.md" || failed=1

# planted <what> <command ...>: it must fail.
planted()
{
	local what=$1
	shift
	if "$@" > /dev/null; then
		echo "not seen: $what"
		failed=1
	fi
}

core=("$root"/src/core/*/*.c)
sed 's/sl_read_begin, /read_begin, /' "$root/src/core/chunk_state.h" > "$scratch/chunk_state.h"
planted "a maker that does not exist" makers_check "$scratch/chunk_state.h" "${core[@]}"
sed 's/sl_host_let_go, /sl_evict, /' "$root/src/core/chunk_state.h" > "$scratch/chunk_state.h"
planted "a maker of another move" makers_check "$scratch/chunk_state.h" "${core[@]}"
sed 's/ | pages_begin//' "$root/src/core/chunk_state.h" > "$scratch/chunk_state.h"
planted "a maker that the table omits" makers_check "$scratch/chunk_state.h" "${core[@]}"
mkdir "$scratch/tags"
printf 'struct sl_one {\n};\n' | tee "$scratch/tags/a.h" > "$scratch/tags/b.c"
planted "a tag with two definitions" tags_check "$scratch/tags"
mkdir "$scratch/statics"
printf 'static int\none_make(int x)\n{\n' | tee "$scratch/statics/a.c" > "$scratch/statics/b.c"
planted "a static function in two files" statics_check "$scratch/statics"
printf '/* chunk.c */\nint sl_evict(struct sl_chunk *c);\n' > "$scratch/state.h"
planted "a declaration under another file" headings_check "$scratch/state.h" "$root/src/core/state"
mkdir "$scratch/orders"
printf '_Atomic int one;\nint x = atomic_load_explicit(&one, memory_order_relaxed);\n' \
	> "$scratch/orders/a.c"
planted "an order without a reason" orders_check "$scratch/orders"
sed 's/ moves,//' "$root/docs/design/locking.md" > "$scratch/locking.md"
planted "a rank that the page omits" ranks_check "$root/src/base/lock.h" "$scratch/locking.md"
exit $failed
