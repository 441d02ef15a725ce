#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Pages and public headers have no line over 100 columns and no sentence over 25 words
# (scripts/prose). It sees both where they are planted.
# Run in an empty directory.
set -u
: "${SLUICE_SOURCE_DIR:?}"
cd "$SLUICE_SOURCE_DIR" || exit 1
failed=0
command -v python3 >/dev/null || { echo "skip: python3 is not here"; exit 77; }

scripts/prose README.md ARCHITECTURE.md HACKING.md CHANGELOG.md docs/{run,operators,cuda,python,figures,suite}.md \
	docs/benchmarks{,-cuda,-run}.md papers/README.md \
	docs/design/*.md \
	man/*.scd include/sluice/*.h || failed=1

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
words=$(printf 'word %.0s' {1..26})

# seen WHAT FILE NUMBER: so many findings in what standard input puts into FILE.
seen()
{
	local n
	cat >"$scratch/$2"
	n=$(scripts/prose "$scratch/$2" | grep -c "^$scratch/$2:")
	[ "$n" = "$3" ] || { echo "$1: $n findings, not $3"; failed=1; }
}

seen "a long sentence" a.md 1 < <(echo "$words" | fold -sw 80)
seen "two sentences" b.md 0 < <(echo "${words:0:75}. ${words:0:75}" | fold -sw 80)
seen "a long line" c.md 1 < <(printf 'x%.0s' {1..101})
seen "code, tables and what programs write" d.md 0 < <(
	printf '```\n%s\n```\n\n| %s |\n\n<!-- a:b -->\n%s\n<!-- /a:b -->\n' "$words" "$words" "$words")
seen "an item of a list" e.1.scd 2 < <(printf -- '- short\n- %s\n- short\n' "$words")
seen "a comment, and code beside it" f.h 2 < <(
	printf '/*\n * %s\n * %s\n */\nint %s;\n' "${words:0:80}" "${words:80}" "$words")
seen "lines of a contract" g.h 0 < <(
	printf '/*\n * Purpose %s.\n * Errors: %s.\n * Threads: any.\n */\n' "${words:0:60}" "${words:0:60}")
exit $failed
