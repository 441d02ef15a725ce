#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice-papers bench --device cuda` with backprop, binomialOptions, BlackScholes and lavaMD on the stand-in
# driver: the reference's bytes on a space and on what one writes without it, larger than the device
# budget and within it; what must move does; the driver sees no rule broken.
#
# Needs SLUICE_PAPERS_BIN and SLUICE_STANDIN_LIBRARY. Skipped where a space cannot be made.
set -u

bin=${SLUICE_PAPERS_BIN:?set SLUICE_PAPERS_BIN to the built sluice-papers}
standin=${SLUICE_STANDIN_LIBRARY:?set SLUICE_STANDIN_LIBRARY to the stand-in driver}
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/test_bench_dragon_cuda.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

fail() {
	echo "FAIL: $*"
	failed=1
}

bench() { # runs into $dir/out and $dir/err, exit code in $code
	SLUICE_CUDA_LIBRARY=$standin CUDA_STANDIN_STRICT=1 \
		timeout -k 1 600 "$bin" bench --dir "$dir" --device cuda "$@" >"$dir/out" 2>"$dir/err"
	code=$?
}

value() { # of "key": NUMBER in the object of a memory, in the JSON of the last run
	sed -n "/\"memory\": \"$1\",\$/,/}/s/^ *\"$2\": \([0-9.e-]*\),*\$/\1/p" "$dir/out" |
		tail -n 1
}

field() { # of the whole report
	sed -n "s/^  \"$1\": \([0-9]*\),*\$/\1/p" "$dir/out" | head -n 1
}

near() { # name, measured, expected, tolerance
	[ -n "$2" ] && [ -n "$3" ] || { fail "$1: not in the report"; return; }
	local off=$(($2 - $3))
	[ "${off#-}" -le "$4" ] || fail "$1: $2 bytes, expected $3 to within $4"
}

chunk=$((2 << 20))

# Little to compute: what is tested is what moves.
declare -A light=([backprop]="" [binomialOptions]="--tree-steps 3" [BlackScholes]=""
	[lavaMD]="--partners 1")

runs_right() { # app, footprint, memories and more
	local app=$1 footprint=$2 memory=$3
	shift 3
	# shellcheck disable=SC2086
	bench "$app" ${light[$app]} --footprint "$footprint" --device-memory 16M \
		--memory "$memory" "$@" --verify --json
	[ "$code" = 0 ] || fail "$app $footprint $*: exit $code: $(cat "$dir/err")"
	! grep '"verified":' "$dir/out" | grep -vq true ||
		fail "$app $footprint $*: not verified with each memory"
	[ -z "$(find "$dir" -mindepth 1 -name 'sluice-*')" ] || fail "$app $*: left files"
	[ "$(sed -n 's/^ *"device_peak_bytes": \([0-9]*\),*$/\1/p' "$dir/out")" -le $((16 << 20)) ] ||
		fail "$app $*: over the device budget"
}

every_memory_gives_the_reference_bytes() {
	local app

	for app in binomialOptions BlackScholes lavaMD; do
		runs_right $app 3000020 streaming,copies,mapped # an odd number of options
		runs_right $app 17000020 sluice
		near "$app: in" "$(field h2d_bytes)" "$(field input_bytes)" $((4 * chunk))
		near "$app: out" \
			$(($(field d2h_bytes) + $(value sluice collect_bytes))) \
			"$(field output_bytes)" $((4 * chunk))
	done
	runs_right backprop 17M sluice,streaming
}

options_give_the_reference_bytes() {
	runs_right backprop 3M copies,mapped,sluice --epochs 2 --sums each
	runs_right backprop 17M sluice --previous lazy
	runs_right lavaMD 64K sluice --partners 100
	runs_right binomialOptions 3K sluice --tree-steps 300
	runs_right BlackScholes 60 sluice,copies # three options: a pair and one that stays 0
}

bench vectorAdd --footprint 4M --device-memory 16M
if [ "$code" != 0 ] && grep -qE "userfaultfd" "$dir/err"; then
	echo "SKIP: $(cat "$dir/err")"
	exit 77
fi
every_memory_gives_the_reference_bytes
options_give_the_reference_bytes

[ "$failed" = 0 ] && echo "ok"
exit "$failed"
