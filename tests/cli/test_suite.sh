#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# papers/suite.py and `sluice-papers suite`: wrong command lines are refused; rows come from the table of workloads;
# parts can be run one by one, and rows that are there are kept, or left out with --resume; those that
# are compared within a percent are run in turn, and again all of them; bytes by
# cause are in every row and those that follow from sizes and policy are what they must be; explicit
# copies give the reference's bytes, too; the page and its pictures follow from the rows alone, and
# show rows of another device beside ours.
#
# Needs SLUICE_BIN and SLUICE_PAPERS_BIN. Skipped where the software device cannot run.
set -u

: "${SLUICE_PAPERS_BIN:?set SLUICE_PAPERS_BIN to the built sluice-papers}" "${SLUICE_SOURCE_DIR:?}"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
bin=$SLUICE_SOURCE_DIR/papers/suite.py
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/test_suite.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

fail() {
	echo "FAIL: $*"
	failed=1
}

suite() { # runs into $dir/out and $dir/err, exit code in $code
	timeout -k 1 600 "$bin" "$@" >"$dir/out" 2>"$dir/err"
	code=$?
}

refused() { # text of the message, then the arguments
	local text=$1
	shift
	suite "$@"
	[ "$code" = 2 ] || fail "$*: exit $code, not 2: $(cat "$dir/err")"
	grep -qF -- "$text" "$dir/err" || fail "$*: no '$text' in: $(cat "$dir/err")"
}

row() { # PART WORKLOAD VARIANT POINT KEY: its value in the rows of the last --json
	awk -v want="$1|$2|$3|$4" -v key="\"$5\":" '
		function value(line) { sub(/^[^:]*: */, "", line); gsub(/[",]/, "", line); return line }
		/"part":/ { part = value($0) }
		/"workload":/ { workload = value($0) }
		/"variant":/ { variant = value($0) }
		/"point":/ { at = part "|" workload "|" variant "|" value($0) }
		$1 == key && at == want { print value($0); exit }' "$dir/out"
}

equal() { # WHAT HAVE WANT
	[ "$2" = "$3" ] || fail "$1: \"$2\", not \"$3\""
}

near() { # WHAT POINT KEY: bytes of srad_v2 are the closed form's, but for its tolerance
	local have want off

	equal "$1: there is a closed form" "$(row fig3 srad_v2 sluice "$2" expected)" true
	have=$(row fig3 srad_v2 sluice "$2" "$3")
	want=$(row fig3 srad_v2 sluice "$2" "expected_$3")
	off=$((have > want ? have - want : want - have))
	[ $off -le "$(row fig3 srad_v2 sluice "$2" expected_tolerance_bytes)" ] ||
		fail "$1: $3 is $have, not $want"
}

wrong_command_lines_are_refused() {
	refused "--only fig4: fits, fig3, fig5, fig6, tables or batches" --only fig4
	refused "--device gpu: soft or cuda" --device gpu
	refused "no workload 'hotspott'" --workload hotspott
	refused "unexpected argument 'fig3'" fig3
	refused "--report and --resume need rows" --resume
	refused "exclude each other" --out x --update
	refused "a GPU has a link of its own" --device cuda --link 1G
	refused "--repeat: '0'" --repeat 0
	refused "unknown option" --figure 3
	suite --scale 2M --only fig3 --list
	[ "$code" = 1 ] || fail "a scale of 2M: exit $code"
	grep -q "is too small" "$dir/err" || fail "a scale of 2M: $(cat "$dir/err")"
}

the_readme_has_every_option() {
	local options='s/^ +//; s/(  |=| [A-Z]).*//; s/, /\n/'

	"$bin" --help | grep -E '^ +-' | sed -E "$options" | sort -u >"$dir/help"
	sed -n '/^## suite/,/^## plan/p' "$SLUICE_SOURCE_DIR/papers/README.md" |
		grep -E '^- `-' | grep -oE -- '`--?[A-Za-z][a-z-]*' | tr -d '`' | sort -u >"$dir/page"
	diff "$dir/help" "$dir/page" || fail "help (<) and papers/README.md (>) have other options"
}

rows_come_from_the_table_of_workloads() {
	local app

	suite --list
	[ "$code" = 0 ] || fail "--list: exit $code"
	cp "$dir/out" "$dir/list"
	for app in vectorAdd hotspot pathfinder srad_v2; do
		equal "$app: rows of figure 3" "$(grep -c "^fig3 *$app " "$dir/list")" 35
	done
	equal "fir: rows of the tables" "$(grep -c '^tables *fir ' "$dir/list")" 20
	equal "srad_v2: rows of figure 6" "$(grep -c '^fig6 *srad_v2 ' "$dir/list")" 10
	equal "hotspot: rows of figure 5" "$(grep -c '^fig5 *hotspot ' "$dir/list")" 12
	equal "minibatch: rows" "$(grep -c '^batches *minibatch ' "$dir/list")" 3
	suite --list --device cuda --only fig3 --workload hotspot
	equal "on a GPU: rows of figure 3" "$(grep -c '^fig3 *hotspot ' "$dir/out")" 35
	# What the claims are about stays in a quick run.
	suite --list --quick
	for app in sluice copies; do
		equal "quick: points of srad_v2, $app" \
			"$(grep -cE "^fig3 *srad_v2 +[0-9/]+ +$app " "$dir/out")" 7
	done
	equal "quick: rows of hashJoin" "$(grep -c '^tables *hashJoin ' "$dir/out")" 6
	equal "quick: rows of fir" "$(grep -c '^tables *fir ' "$dir/out")" 12
	suite --list --quick --device cuda
	equal "quick, on a GPU: rows of hotspot" "$(grep -c '^fig3 *hotspot ' "$dir/out")" 8
}

figure_3_is_run_and_kept() {
	local variant point

	suite --scale 24M --repeat 2 --only fig3 --workload srad --point 1/3 --point 4/3 \
		--dir "$dir" --out "$dir/rows" --json
	[ "$code" = 0 ] || fail "figure 3: exit $code: $(cat "$dir/err")"
	for variant in sluice dragon uvm copies mmap; do
		for point in 1/3 4/3; do
			equal "srad_v2 $variant at $point: verified" \
				"$(row fig3 srad_v2 $variant $point verified)" true
		done
	done
	awk -v a="$(row fig3 srad_v2 sluice 1/3 ended_s)" \
		-v b="$(row fig3 srad_v2 mmap 1/3 began_s)" 'BEGIN { exit !(b > 0 && b < a) }' ||
		fail "figure 3: a point's variants were not run in turn"
	# In the device J goes there and back once; nothing is spilled.
	equal "in the device: bytes" "$(row fig3 srad_v2 copies 1/3 h2d_bytes)" \
		"$(row fig3 srad_v2 copies 1/3 input_bytes)"
	# Static flags move more than launch intents, as the reference for both devices has it.
	[ "$(row fig3 srad_v2 dragon 4/3 d2h_bytes)" -gt "$(row fig3 srad_v2 sluice 4/3 d2h_bytes)" ] ||
		fail "4/3: intents save nothing"
	for point in 1/3 4/3; do
		near "srad_v2 at $point" "$point" h2d_bytes
		near "srad_v2 at $point" "$point" d2h_bytes
	done
	[ -z "$(find "$dir" -maxdepth 1 -name 'sluice-*')" ] || fail "figure 3 left its files"
	for name in suite.md rows-soft.json fig3-soft-srad_v2.svg; do
		[ -s "$dir/rows/$name" ] || fail "no $name"
	done
}

# Its host code writes the first row to an array that only the device has.
explicit_copies_give_the_reference() {
	suite --scale 24M --repeat 1 --only fits --workload pathfinder --point 1/3 --dir "$dir" --json
	[ "$code" = 0 ] || fail "pathfinder: exit $code: $(cat "$dir/err")"
	equal "pathfinder, copies: verified" "$(row fits pathfinder copies 1/3 verified)" true
}

rows_that_are_there_are_left_out() {
	suite --scale 24M --repeat 2 --only fig3 --workload srad --point 1/3 --point 4/3 \
		--dir "$dir" --out "$dir/rows" --resume
	[ "$code" = 0 ] || fail "--resume: exit $code: $(cat "$dir/err")"
	! grep -q '^\[' "$dir/err" || fail "--resume ran rows: $(cat "$dir/err")"
}

tables_are_run_beside_them() {
	local over="400 %" variant

	suite --scale 4M --repeat 1 --link 0 --only tables --workload fir \
		--point "$over" --dir "$dir" --out "$dir/rows" --json
	[ "$code" = 0 ] || fail "tables: exit $code: $(cat "$dir/err")"
	for variant in none eager lazy; do
		equal "fir $variant: verified" "$(row tables fir $variant "$over" verified)" true
	done
	equal "fir: eager and lazy discard move the same" \
		"$(row tables fir eager "$over" d2h_bytes)" \
		"$(row tables fir lazy "$over" d2h_bytes)"
	# The input goes in once, whatever the device's memory.
	equal "fir: in" "$(row tables fir none "$over" h2d_bytes)" \
		"$(row tables fir none "$over" input_bytes)"
	! grep -q 'not met: table 4' "$dir/err" || fail "$(cat "$dir/err")"
	equal "rows of figure 3 are kept" "$(row fig3 srad_v2 sluice 4/3 status)" done
}

# A repetition of each, so that a machine that becomes slower does so for all of them.
rows_within_a_percent_are_run_in_turn() {
	local all="<100 %" variant
	local run=(--scale 1M --repeat 1 --link 0 --only tables --workload fir
		--point "$all" --dir "$dir" --out "$dir/rows" --json)

	suite "${run[@]}"
	[ "$code" = 0 ] || fail "in turn: exit $code: $(cat "$dir/err")"
	for variant in none eager lazy intents intents-lazy; do
		equal "fir $variant in turn: verified" "$(row tables fir $variant "$all" verified)" true
		awk -v a="$(row tables fir none "$all" ended_s)" \
			-v b="$(row tables fir $variant "$all" began_s)" 'BEGIN { exit !(b > 0 && b < a) }' ||
			fail "fir $variant: began after fir none had ended"
	done
	suite "${run[@]}" --resume
	! grep -q '^\[' "$dir/err" || fail "in turn, --resume ran rows: $(cat "$dir/err")"
	# With one of them missing, times of now beside times of then would be compared.
	awk '/"variant":/ { v = $2 } /"point":/ { at = v $0 }
		at ~ /"lazy".*<100 %/ && /"status":/ { sub(/done/, "failed") } { print }' \
		"$dir/rows/rows-soft.json" >"$dir/rows/new" &&
		mv "$dir/rows/new" "$dir/rows/rows-soft.json"
	suite "${run[@]}" --resume
	equal "one failed: rows that are run again" "$(grep -c '^\[' "$dir/err")" 5
	equal "one failed: of another point" "$(row tables fir none "400 %" status)" done
}

the_page_follows_from_the_rows() {
	local heading

	cp "$dir/rows/suite.md" "$dir/page.md"
	# What another machine measured, under its own heading.
	sed 's/"device": "soft"/"device": "cuda"/; s/"machine": ".*"/"machine": "elsewhere"/' \
		"$dir/rows/rows-soft.json" >"$dir/rows/rows-cuda.json"
	suite --report --out "$dir/rows"
	[ "$code" = 0 ] || fail "--report: exit $code: $(cat "$dir/err")"
	for heading in "How near, on the software device" "How near, on a GPU" \
		"DRAGON, figure 3, on a GPU" "UVM Discard, tables 3 and 4: FIR on a GPU" \
		"Every row on the software device"; do
		grep -q "^## $heading" "$dir/rows/suite.md" || fail "no heading \"$heading\""
	done
	grep -q '^elsewhere$' "$dir/rows/suite.md" || fail "the other machine is not named"
	rm "$dir/rows/rows-cuda.json"
	suite --report --out "$dir/rows"
	cmp "$dir/page.md" "$dir/rows/suite.md" || fail "the same rows give another page"
	while read -r picture; do
		[ -s "$dir/rows/$picture" ] || fail "the page shows $picture, which is not there"
	done < <(grep -o '](.*\.svg)' "$dir/rows/suite.md" | tr -d '])(')
	echo '{"format": "something else", "rows": []}' >"$dir/rows/rows-soft.json"
	suite --report --out "$dir/rows"
	[ "$code" = 1 ] || fail "rows that are none: exit $code"
}

wrong_command_lines_are_refused
the_readme_has_every_option
rows_come_from_the_table_of_workloads
if ! "${SLUICE_BIN:?}" doctor --dir "$dir" >"$dir/doctor" 2>&1; then
	[ $failed = 0 ] || exit 1
	echo "skipped: the software device cannot work here:"
	cat "$dir/doctor"
	exit 77
fi
figure_3_is_run_and_kept
explicit_copies_give_the_reference
rows_that_are_there_are_left_out
tables_are_run_beside_them
rows_within_a_percent_are_run_in_turn
the_page_follows_from_the_rows
exit $failed
