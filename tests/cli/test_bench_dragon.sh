#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice-papers bench` with backprop, binomialOptions, BlackScholes and lavaMD: the reference's bytes whoever
# chooses victims, however data become present; the bytes over the link that theory determines;
# what flags alone cost beside intents, what a discard saves.
#
# Needs SLUICE_PAPERS_BIN. Skipped where the software device cannot run.
set -u

bin=${SLUICE_PAPERS_BIN:?set SLUICE_PAPERS_BIN to the built sluice-papers}
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/test_bench_dragon.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

fail() {
	echo "FAIL: $*"
	failed=1
}

bench() { # runs into $dir/out and $dir/err, exit code in $code
	timeout -k 1 600 "$bin" bench --dir "$dir" "$@" >"$dir/out" 2>"$dir/err"
	code=$?
}

value() { # of the first "key": NUMBER in the JSON of the last run
	sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" "$dir/out" | head -n 1
}

chunk=$((2 << 20))
device=$((16 << 20))

# Little to compute: what is tested is what moves.
declare -A light=([backprop]="" [binomialOptions]="--tree-steps 3" [BlackScholes]=""
	[lavaMD]="--partners 1")

runs_right() { # app, footprint and more
	local app=$1 footprint=$2
	shift 2
	# shellcheck disable=SC2086
	bench "$app" ${light[$app]} --footprint "$footprint" --device-memory $device \
		--host-memory 64M --threads 2 "$@" --verify --json
	[ "$code" = 0 ] || fail "$app $footprint $*: exit $code: $(cat "$dir/err")"
	! grep '"verified":' "$dir/out" | grep -vq true || fail "$app $footprint $*: not verified"
	[ -z "$(find "$dir" -mindepth 1 -name 'sluice-*')" ] || fail "$app $*: left files"
	[ "$(value device_peak_bytes)" -le $device ] || fail "$app $*: over the device budget"
}

near() { # name, measured, expected, tolerance
	[ -n "$2" ] && [ -n "$3" ] || { fail "$1: not in the report"; return; }
	local off=$(($2 - $3))
	[ "${off#-}" -le "$4" ] || fail "$1: $2 bytes, expected $3 to within $4"
}

# Streams: every input goes in exactly once, whatever the policy knows of the launches.
streams_move_what_theory_says() {
	local app policy d2h

	for app in binomialOptions BlackScholes lavaMD; do
		d2h=
		for policy in lru dragon; do
			runs_right $app 20000020 --policy $policy # an odd number of options
			near "$app, $policy: in" "$(value h2d_bytes)" "$(value expected_h2d_bytes)" 0
			near "$app, $policy: out" "$(value d2h_bytes)" \
				"$(value expected_d2h_bytes)" "$(value expected_tolerance_bytes)"
			[ -z "$d2h" ] || near "$app: out by flags and by intents" \
				"$(value d2h_bytes)" "$d2h" 0
			d2h=$(value d2h_bytes)
		done
	done
}

backprop_is_near() { # name of the case
	near "backprop, $1: in" "$(value h2d_bytes)" "$(value expected_h2d_bytes)" $((6 * chunk))
	near "backprop, $1: out" "$(value d2h_bytes)" "$(value expected_d2h_bytes)" \
		"$(value expected_tolerance_bytes)"
}

# Flags alone: the weights go back after a pass that only read them. A discard: the changes do not.
backprop_moves_what_theory_says() {
	local kept lazy weights=$((16 << 20))

	runs_right backprop 32M
	backprop_is_near keep
	kept=$(value d2h_bytes)
	runs_right backprop 32M --policy dragon
	backprop_is_near dragon
	near "backprop: out by flags beyond intents" $(($(value d2h_bytes) - kept)) \
		$weights $((2 * chunk))
	runs_right backprop 32M --previous lazy
	backprop_is_near lazy
	lazy=$(value d2h_bytes)
	[ "$lazy" -lt $((kept - weights / 2)) ] || fail "backprop: $lazy bytes out, $kept without discard"
	runs_right backprop 32M --previous eager
	near "backprop: out, eager and lazy" "$(value d2h_bytes)" "$lazy" $chunk
}

what_fits_goes_in_once() {
	device=$((20 << 20))
	runs_right backprop 6M
	near "backprop: in" "$(value h2d_bytes)" "$(value expected_h2d_bytes)" 0
	near "backprop: out" "$(value d2h_bytes)" "$(value expected_d2h_bytes)" 0
	runs_right lavaMD 6M
	near "lavaMD: in" "$(value h2d_bytes)" "$(value expected_h2d_bytes)" 0
	near "lavaMD: out" "$(value d2h_bytes)" 0 0
	device=$((16 << 20))
}

results_are_right_in_every_way() {
	local app

	for app in backprop binomialOptions BlackScholes lavaMD; do
		runs_right $app 18M --presence fault --policy uvm
		runs_right $app 4000020 --set checking=1 # no intent is wrong
	done
	runs_right backprop 4M --epochs 3 --sums together --seed 7
	runs_right binomialOptions 6K --tree-steps 257
	runs_right lavaMD 64K --partners 100
	runs_right lavaMD 8000 --partners 100 # one box: no neighbours
	runs_right BlackScholes 60            # three options: a pair and one that stays 0
	# Not even the smallest tile fits beside the planes around it.
	device=$((10 << 20))
	runs_right lavaMD 18M
	[ "$(value h2d_fault)" -gt 0 ] || fail "lavaMD: tiles fit in five chunks"
	device=$((16 << 20))
}

bench vectorAdd --footprint 4M --device-memory $device
if [ "$code" != 0 ] && grep -qE "userfaultfd" "$dir/err"; then
	echo "SKIP: $(cat "$dir/err")"
	exit 77
fi
streams_move_what_theory_says
backprop_moves_what_theory_says
what_fits_goes_in_once
results_are_right_in_every_way

[ "$failed" = 0 ] && echo "ok"
exit "$failed"
