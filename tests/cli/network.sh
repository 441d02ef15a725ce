#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the tests of the workload network share: runs with their weights' checksum, and the test of one
# model on the software device: it learns; its weights are the same bit for bit where everything fits
# and with less device memory, with each mode of discard, as those of the oracle in memory of its own;
# what fits goes in once and not out; discarding saves at least 60 % of the bytes over the link at
# twice the device memory.
#
# Sourced. Needs SLUICE_PAPERS_BIN. Skipped where the software device cannot run, or OpenBLAS is missing.
set -u

bin=${SLUICE_PAPERS_BIN:?set SLUICE_PAPERS_BIN to the built sluice-papers}
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/test_bench_network.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
footprint=${footprint:-40}

fail() {
	echo "FAIL: $*"
	failed=1
}

value() { # of the first "key": NUMBER in the JSON of the last run
	sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*\$/\1/p" "$dir/out" | head -n 1
}

runs() { # device MiB, then more; the weights are left
	local device=$1
	shift
	timeout -k 1 600 "$bin" bench network --footprint "${footprint}M" --size 32 --width 12 "$@" \
		--device-memory "${device}M" --host-memory 128M --dir "$dir" --keep --json \
		>"$dir/out" 2>"$dir/err"
	code=$?
	[ "$code" = 0 ] || { fail "$*: exit $code: $(cat "$dir/err")"; moved=0; weights=; return; }
	[ "$(value device_peak_bytes)" -le $((device << 20)) ] || fail "$*: over the device budget"
	moved=$(($(value h2d_bytes) + $(value d2h_bytes)))
	weights=$(cksum <"$dir/sluice-network/weights.bin")
}

skip_where_it_cannot_run() {
	"$bin" bench network --footprint 16M --size 32 --width 5 --batch 2 --steps 1 \
		--device-memory 32M --dir "$dir" >"$dir/out" 2>"$dir/err" && return
	if grep -qi "userfaultfd" "$dir/err"; then
		echo "skipped: $(cat "$dir/err")"
		exit 77
	fi
	if grep -q "libopenblas.so.0" "$dir/err"; then
		grep -q "Debian: libopenblas0" "$dir/err" || fail "it does not say what to install"
		echo "skipped: $(cat "$dir/err")"
		exit "$((failed ? 1 : 77))"
	fi
	fail "a first run: $(cat "$dir/err")"
}

what_fits_goes_in_once_and_not_out() { # after a run with everything on the device
	local extra

	[ "$(value d2h_bytes)" = 0 ] || fail "$(value d2h_bytes) bytes out"
	extra=$(($(value h2d_bytes) - $(value expected_h2d_bytes)))
	if [ "$extra" -lt 0 ] || [ "$extra" -gt "$(value expected_tolerance_bytes)" ]; then
		fail "$(value h2d_bytes) bytes in, expected $(value expected_h2d_bytes)"
	fi
}

learns() { # permille by which the last loss is at least below the first
	awk -v first="$(value loss_first)" -v last="$(value loss_last)" -v want="$1" \
		'BEGIN { exit !(first > 0 && last > 0 && last < first * (1 - want / 1000)) }' ||
		fail "the loss went from $(value loss_first) to $(value loss_last)"
	echo "the loss went from $(value loss_first) to $(value loss_last)"
}

# Model; device MiB: half of the footprint, and less.
model() {
	local half=$2 less=$3 want none mode permille
	local more=(--model "$1" --steps 2)

	runs 64 "${more[@]}" --verify
	grep -q '^  "verified": true' "$dir/out" || fail "other weights than the oracle's"
	want=$weights
	what_fits_goes_in_once_and_not_out
	for mode in none lazy eager; do
		runs "$half" "${more[@]}" --policy uvm --discard $mode
		[ "$weights" = "$want" ] || fail "$half MiB, $mode: other weights"
		[ $mode = none ] && none=$moved && continue
		permille=$(((none - moved) * 1000 / none))
		echo "$half MiB of $footprint: $((none >> 20)) MiB over the link, with $mode" \
			"discard $((moved >> 20)): $permille of 1000 saved"
		[ $permille -ge 600 ] || fail "$mode: $permille of 1000 saved, not 600"
	done
	runs "$less" "${more[@]}" --discard lazy
	[ "$weights" = "$want" ] || fail "$less MiB: other weights"
}

finish() {
	[ "$failed" = 0 ] && echo "ok"
	exit "$failed"
}
