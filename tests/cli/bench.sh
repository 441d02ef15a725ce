#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What tests of `sluice-papers bench` share: a verified run within its budgets, what it moved, and a refused
# command line. Sourced, with $bin and $dir set; a failure sets $failed.

fail() {
	echo "FAIL: $*"
	failed=1
}

value() { # of the first "key": NUMBER in the JSON of the last run
	sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" "$dir/out" | head -n 1
}

runs() { # device MiB, then the workload and more
	local device=$1
	shift
	timeout -k 1 600 "$bin" bench "$@" --device-memory "${device}M" --host-memory 256M \
		--dir "$dir" --threads 2 --verify --keep --json >"$dir/out" 2>"$dir/err"
	code=$?
	[ "$code" = 0 ] || fail "$*: exit $code: $(cat "$dir/err")"
	grep -q '^  "verified": true' "$dir/out" || fail "$*: not verified"
	[ "$(value device_peak_bytes)" -le $((device << 20)) ] || fail "$*: over the device budget"
	moved=$(($(value h2d_bytes) + $(value d2h_bytes)))
}

refused() { # text of the message, then the arguments
	local text=$1
	shift
	timeout -k 1 600 "$bin" bench "$@" --dir "$dir" >"$dir/out" 2>"$dir/err"
	code=$?
	[ "$code" = 2 ] || fail "$*: exit $code, not 2: $(cat "$dir/err")"
	grep -qF -- "$text" "$dir/err" || fail "$*: no '$text' in: $(cat "$dir/err")"
}
