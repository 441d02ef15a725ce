#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The programs of the study of discarding, radixSort and hashJoin: right when they fit and at
# several times the device memory, by policy, with and without discard. What fits goes in once and
# not out; discarding saves bytes over the link, eagerly as many as lazily; hashJoin at twice the
# device memory saves what the study says.
#
# Needs SLUICE_PAPERS_BIN and SLUICE_SOURCE_DIR. Skipped where the software device cannot run.
set -u

bin=${SLUICE_PAPERS_BIN:?set SLUICE_PAPERS_BIN to the built sluice-papers}
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/test_bench_discard.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# shellcheck source=tests/cli/bench.sh
. "${SLUICE_SOURCE_DIR:?}/tests/cli/bench.sh"

wrong_command_lines_are_refused() {
	refused "of fir, radixSort, hashJoin, network, not of minibatch" minibatch --discard lazy
	refused "--discard soon: no such choice" radixSort --discard soon
	refused "--key-bits 33: not a number from 1 to 32" radixSort --key-bits 33
	refused "--joins 0: not a number from 1" hashJoin --joins 0
	refused "radixSort: a footprint of 1048576 bytes" radixSort --footprint 1M
	refused "hashJoin: a footprint of 33554432 bytes" hashJoin --footprint 32M
}

what_fits_goes_in_once_and_not_out() { # workload and more
	local extra

	runs 112 "$@"
	[ "$(value d2h_bytes)" = 0 ] || fail "$*: $(value d2h_bytes) bytes out"
	[ -n "$(value expected_h2d_bytes)" ] || { fail "$*: no closed form"; return; }
	extra=$(($(value h2d_bytes) - $(value expected_h2d_bytes)))
	if [ "$extra" -lt 0 ] || [ "$extra" -gt "$(value expected_tolerance_bytes)" ]; then
		fail "$*: $(value h2d_bytes) bytes in, expected $(value expected_h2d_bytes)"
	fi
}

# Name, MiB of device memory: half of the footprint, workload and more: how much of 1000 is saved.
saving() {
	local name=$1 device=$2
	shift 2
	runs "$device" "$@" --discard none
	none=$moved
	runs "$device" "$@" --discard lazy
	lazy=$moved
	permille=$(((none - lazy) * 1000 / none))
	echo "$name at 200 %: $((none >> 20)) MiB over the link without discard," \
		"$((lazy >> 20)) MiB with it: $permille of 1000 saved"
	[ "$permille" -gt 0 ] || fail "$name at 200 %: discarding saved nothing"
}

radix_sort_saves_what_is_dead() {
	local permille none lazy

	saving radixSort 68 radixSort --footprint 136M --key-bits 4
	runs 68 radixSort --footprint 136M --key-bits 4 --discard eager
	[ $((50 * (moved - lazy))) -le "$none" ] && [ $((50 * (lazy - moved))) -le "$none" ] ||
		fail "radixSort: eager $moved bytes, lazy $lazy: not the same to 2 % of $none"
}

hash_join_saves_what_is_dead() {
	local permille none lazy

	saving hashJoin 86 hashJoin --footprint 172M
	[ "$permille" -ge 858 ] || fail "hashJoin at 200 %: $permille of 1000 saved, not 858"
}

results_are_right_by_policy_and_by_faults() {
	runs 24 radixSort --footprint 34M --key-bits 4 --policy uvm --discard eager
	runs 32 hashJoin --footprint 90M --joins 1 --policy uvm --discard lazy
	runs 24 radixSort --footprint 34M --key-bits 4 --presence fault
	runs 32 hashJoin --footprint 90M --joins 1 --presence fault
	runs 40 radixSort --footprint 20M --key-bits 9 --tile 8M --seed 7
}

"$bin" bench vectorAdd --footprint 4M --device-memory 32M --dir "$dir" >"$dir/out" 2>"$dir/err" || {
	if grep -qi "userfaultfd" "$dir/err"; then
		echo "skipped: $(cat "$dir/err")"
		exit 77
	fi
	fail "a first run: $(cat "$dir/err")"
}
wrong_command_lines_are_refused
what_fits_goes_in_once_and_not_out radixSort --footprint 34M --key-bits 8 --discard lazy
what_fits_goes_in_once_and_not_out hashJoin --footprint 90M --joins 1 --discard eager
radix_sort_saves_what_is_dead
hash_join_saves_what_is_dead
results_are_right_by_policy_and_by_faults

[ "$failed" = 0 ] && echo "ok"
exit "$failed"
