#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The table of moves in docs/design/states.md is the one in src/core/chunk_state.h; every file that
# ARCHITECTURE.md names exists, every file of src/core and src/preload is named there, and links between the design
# pages lead somewhere.
set -euo pipefail
root=${SLUICE_SOURCE_DIR:?}
failed=0

table_of_header()
{
	{
		sed -n '/^#define SL_CHUNK_MOVES/,/^\/\* clang-format on/p' \
			"$root/src/core/chunk_state.h" | tr -d '\\\n'
		echo
	} | sed 's/M(/\nM(/g' |
		sed -n 's/^M(\([A-Z]*\), *\([A-Z]*\), *\([a-z_| ]*\), *"\(.*\)")[^)]*$/\1,\2,\3,\4/p' |
		while IFS=, read -r from to by why; do
			echo "| $from | $to | \`${by// | /\`, \`}\` | $why |"
		done
}

table_of_page()
{
	sed -n '/^<!-- moves -->/,/^<!-- \/moves -->/p' "$root/docs/design/states.md" | grep '^| [A-Z]'
}

rows=$(table_of_header | wc -l)
moves=$(grep -c '^	M(' "$root/src/core/chunk_state.h")
if [ "$rows" -ne "$moves" ] || [ "$rows" -eq 0 ]; then
	echo "chunk_state.h has $moves moves, $rows could be read"
	failed=1
fi
diff <(table_of_header) <(table_of_page) || {
	echo "docs/design/states.md differs from src/core/chunk_state.h (< header, > page)"
	failed=1
}

# Every rank of a lock.
ranks=$(sed -n '/^enum sl_lock_rank/,/^}/s/^\tSL_RANK_\([A-Z_]*\),$/\1/p' "$root/src/base/lock.h" | grep -v COUNT)
for rank in $ranks; do
	word=$(echo "${rank#PL_}" | tr A-Z a-z)
	grep -qw "$word" "$root/docs/design/locking.md" || {
		echo "docs/design/locking.md does not name the rank $word"
		failed=1
	}
done

# The rules of victim.c as the table of docs/design/eviction.md.
victims_of_source()
{
	sed -n '/^const struct sl_victim_rule/,/^const char/p' "$root/src/core/state/victim.c" | tr '\n\t' '  ' |
		awk '{
		source = $0
		while (match(source, /\[SL_STEP_[A-Z_]*\] = "[^"]*"/)) {
			entry = substr(source, RSTART, RLENGTH)
			source = substr(source, RSTART + RLENGTH)
			split(entry, part, "\"")
			gsub(/.*\[|\].*/, "", part[1])
			text[part[1]] = part[2]
		}
		use["WAIT"] = "waits"; use["PASS"] = "passes"; use["TAKE"] = "takes"
		source = $0
		while (match(source, /\[SL_ROOM_[A-Z_]*\] = \{"[^}]*\}\}/)) {
			row = substr(source, RSTART, RLENGTH)
			source = substr(source, RSTART + RLENGTH)
			split(row, part, "\"")
			asker = part[2]
			match(row, /SL_IN_USE_[A-Z]*/)
			in_use = use[substr(row, RSTART + 10, RLENGTH - 10)]
			rest = substr(row, RSTART + RLENGTH + 2)
			wait = substr(rest, 1, index(rest, ",") - 1)
			wait = wait == "0" ? "not at all" : wait == "SL_WAIT_ROOM" ? "until there is room" : "`" wait "`"
			steps = ""
			while (match(rest, /SL_STEP_[A-Z_]*/)) {
				steps = steps (steps == "" ? "" : "; ") text[substr(rest, RSTART, RLENGTH)]
				rest = substr(rest, RSTART + RLENGTH)
			}
			print "| " asker " | " steps " | " in_use " | " wait " |"
		}
	}'
}

victims_of_page()
{
	sed -n '/^<!-- victims -->/,/^<!-- \/victims -->/p' "$root/docs/design/eviction.md" |
		grep '^| [a-z]' | grep -v '^| requester'
}

rows=$(victims_of_source | wc -l)
modes=$(grep -c '^	\[SL_ROOM_' "$root/src/core/state/victim.c")
if [ "$rows" -ne "$modes" ] || [ "$rows" -eq 0 ]; then
	echo "victim.c has $modes rules, $rows could be read"
	failed=1
fi
diff <(victims_of_source) <(victims_of_page) || {
	echo "docs/design/eviction.md differs from src/core/state/victim.c (< source, > page)"
	failed=1
}

# Files of the core and of the preload library, and the page that leads to them.
for path in "$root"/src/core/*/*.c; do
	name=${path#"$root/src/core/"}
	grep -q "\`$name\`" "$root/ARCHITECTURE.md" || {
		echo "ARCHITECTURE.md does not name src/core/$name"
		failed=1
	}
done
for path in "$root"/src/preload/*.[ch] "$root"/src/preload/*/*.[ch]; do
	name=$(basename "$path")
	grep -q "\`$name\`" "$root/ARCHITECTURE.md" || {
		echo "ARCHITECTURE.md does not name ${path#"$root"/}"
		failed=1
	}
done
for name in $(grep -o '`\(core\|device/soft\|store\)/[a-z_/]*\.[ch]`' "$root/ARCHITECTURE.md" | tr -d '`'); do
	[ -e "$root/src/$name" ] || {
		echo "ARCHITECTURE.md names src/$name, which is not there"
		failed=1
	}
done

# Code in HACKING.md behind "<!-- from:FILE -->" stands in that file, and so is built.
# code_check <page>: prints what is not there; fails if the page has no such code.
code_check()
{
	local page=$1 file block bad=0 found=0
	while read -r file; do
		found=1
		block=$(awk -v from="<!-- from:$file -->" '
			$0 == from { wanted = 1; next }
			wanted && /^```/ { if (inside) exit; inside = 1; next }
			inside' "$page")
		[[ -n $block && $(cat "$root/$file") == *"$block"* ]] || {
			echo "$page: the code from $file is not in it"
			bad=1
		}
	done < <(sed -n 's/^<!-- from:\(.*\) -->$/\1/p' "$page")
	[ $found = 1 ] || echo "$page: no code from a file"
	return $((bad || !found))
}
code_check "$root/HACKING.md" || failed=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sed 's/MRU_CLOCK - uses - k/MRU_CLOCK - uses/' "$root/HACKING.md" >"$scratch/page.md"
if code_check "$scratch/page.md" >"$scratch/out"; then
	echo "code that differs from its file was not seen"
	failed=1
fi

# Relative links.
for page in "$root/ARCHITECTURE.md" "$root"/docs/design/*.md; do
	for link in $(grep -o '](\([^)#]*\))' "$page" | sed 's/^](//; s/)$//' | grep -v '^http' || true); do
		[ -e "$(dirname "$page")/$link" ] || {
			echo "$page: $link leads nowhere"
			failed=1
		}
	done
done

for text in $(grep -oh '`\(tests\|src\)/[A-Za-z0-9_/]*\.[a-z]*`' "$root/ARCHITECTURE.md" "$root"/docs/design/*.md |
	tr -d '`' | sort -u); do
	[ -e "$root/$text" ] || {
		echo "a design page names $text, which is not there"
		failed=1
	}
done
exit $failed
