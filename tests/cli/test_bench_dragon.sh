#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice bench` with backprop, binomialOptions, BlackScholes and lavaMD: the reference's bytes whoever
# chooses victims, however data become present and on both devices (the GPU's stand-in); the bytes
# over the link that theory determines; what flags alone cost beside intents, what a discard saves.
#
# Needs SLUICE_BIN and SLUICE_STANDIN_LIBRARY. Skipped where the software device cannot run.
set -u

bin=${SLUICE_BIN:?set SLUICE_BIN to the built sluice}
standin=${SLUICE_STANDIN_LIBRARY:?set SLUICE_STANDIN_LIBRARY to the stand-in driver}
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/test_bench_dragon.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

fail() {
	echo "FAIL: $*"
	failed=1
}

bench() { # runs into $dir/out and $dir/err, exit code in $code
	SLUICE_CUDA_LIBRARY=$standin CUDA_STANDIN_STRICT=1 \
		timeout -k 1 100 "$bin" bench --dir "$dir" "$@" >"$dir/out" 2>"$dir/err"
	code=$?
}

value() { # of the first "key": NUMBER in the JSON of the last run
	sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" "$dir/out" | head -n 1
}

chunk=$((2 << 20))
device=$((20 << 20))

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
			runs_right $app 30000020 --policy $policy
			near "$app, $policy: in" "$(value h2d_bytes)" "$(value expected_h2d_bytes)" 0
			near "$app, $policy: out" "$(value d2h_bytes)" \
				"$(value expected_d2h_bytes)" "$(value expected_tolerance_bytes)"
			[ "$(value expected_d2h_bytes)" -gt 0 ] || fail "$app: nothing has to go out"
			[ -z "$d2h" ] || near "$app: out by flags and by intents" \
				"$(value d2h_bytes)" "$d2h" 0
			d2h=$(value d2h_bytes)
		done
	done
}

# Flags alone: the weights go back after a pass that only read them.
backprop_moves_what_theory_says() {
	local policy mode d2h weights=$((32 << 20)) with without

	for policy in lru dragon; do
		for mode in keep lazy eager; do
			runs_right backprop 64M --policy $policy --previous $mode
			near "backprop, $policy, $mode: in" "$(value h2d_bytes)" \
				"$(value expected_h2d_bytes)" $((6 * chunk))
			near "backprop, $policy, $mode: out" "$(value d2h_bytes)" \
				"$(value expected_d2h_bytes)" "$(value expected_tolerance_bytes)"
			case $policy-$mode in
			lru-keep) without=$(value d2h_bytes) ;;
			dragon-keep) with=$(value d2h_bytes) ;;
			*-lazy) d2h=$(value d2h_bytes) ;;
			*-eager) near "backprop, $policy: out, eager and lazy" \
				"$(value d2h_bytes)" "$d2h" $chunk ;;
			esac
		done
	done
	near "backprop: out by flags beyond intents" $((with - without)) $weights $((2 * chunk))
}

what_fits_goes_in_once() {
	runs_right backprop 9M
	near "backprop: in" "$(value h2d_bytes)" "$(value expected_h2d_bytes)" 0
	near "backprop: out" "$(value d2h_bytes)" "$(value expected_d2h_bytes)" 0
	runs_right lavaMD 10M
	near "lavaMD: in" "$(value h2d_bytes)" "$(value expected_h2d_bytes)" 0
	near "lavaMD: out" "$(value d2h_bytes)" 0 0
}

results_are_right_in_every_way() {
	local app

	for app in backprop binomialOptions BlackScholes lavaMD; do
		runs_right $app 30M --presence fault
		runs_right $app 30M --policy uvm
	done
	runs_right backprop 30M --epochs 3
	runs_right backprop 30M --sums together --seed 7
	runs_right binomialOptions 64K --tree-steps 257
	runs_right lavaMD 240K --partners 100
	runs_right lavaMD 8000 --partners 100 # one box: no neighbours
	runs_right BlackScholes 60            # three options: a pair and one that stays 0
	# Not even the smallest tile fits beside the planes around it.
	device=$((10 << 20))
	runs_right lavaMD 30M
	[ "$(value h2d_fault)" -gt 0 ] || fail "lavaMD: tiles fit in five chunks"
	device=$((20 << 20))
}

both_devices_give_the_same_bytes() {
	local app

	for app in backprop binomialOptions BlackScholes lavaMD; do
		runs_right $app 30000020 --device cuda --memory all
	done
	runs_right backprop 30M --device cuda --memory all --epochs 2
	runs_right backprop 30M --device cuda --memory sluice,streaming --previous lazy
	runs_right backprop 12M --device cuda --memory sluice,copies --sums each
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
both_devices_give_the_same_bytes

[ "$failed" = 0 ] && echo "ok"
exit "$failed"
