#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# minibatch: the same weights however batches are fetched (by index, by launches, by hand), drawn with
# whole or cut records and by faults; every record goes in once; batches are counted, and those that
# are on the device when they are needed: all of them where all fit.
#
# Needs SLUICE_PAPERS_BIN and SLUICE_SOURCE_DIR. Skipped where the software device cannot run.
set -u

bin=${SLUICE_PAPERS_BIN:?set SLUICE_PAPERS_BIN to the built sluice-papers}
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/test_bench_minibatch.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# shellcheck source=tests/cli/bench.sh
. "${SLUICE_SOURCE_DIR:?}/tests/cli/bench.sh"

wrong_command_lines_are_refused() {
	refused "a batch of 16 records of 2097152 bytes" minibatch --footprint 16M --records 16
	refused "on a GPU --memory streaming" minibatch --device cuda --fetch hand
	refused "--ahead 0: not a number from 1" minibatch --ahead 0
}

batches_are_fetched_by_index() {
	local fetch

	for fetch in index launch hand; do
		runs 24 minibatch --footprint 48M --fetch $fetch --ahead 1
		[ "$(value batches)" = 11 ] || fail "minibatch: $(value batches) batches, not 11"
		[ "$(value batches_resident)" -le 11 ] || fail "minibatch: more than there are"
		case $fetch in
		index)
			[ "$(value h2d_prefetch)" -gt 0 ] || fail "index: nothing was prefetched"
			;;
		launch)
			[ "$(value h2d_prefetch)" = 0 ] || fail "launch: it was prefetched"
			;;
		hand)
			[ "$(value h2d_bytes)" = 0 ] || fail "hand: $(value h2d_bytes) bytes in"
			[ "$(value hand_bytes)" = $((11 * 4 << 20)) ] ||
				fail "hand: $(value hand_bytes) bytes were read"
			continue
			;;
		esac
		[ "$(value h2d_bytes)" = "$(value expected_h2d_bytes)" ] ||
			fail "$fetch: $(value h2d_bytes) bytes in, expected" \
				"$(value expected_h2d_bytes)"
	done
	# All of it fits: in the second epoch every batch is there when it is needed.
	runs 64 minibatch --footprint 24M --records 1 --epochs 2 --steps 2
	[ $((2 * $(value batches_resident))) -ge "$(value batches)" ] ||
		fail "minibatch: $(value batches_resident) of $(value batches) batches were there"
	[ "$(value h2d_bytes)" = $((11 * 2 << 20)) ] || fail "minibatch: $(value h2d_bytes) bytes in"
	runs 24 minibatch --footprint 48M --presence fault
	runs 24 minibatch --footprint 48M --record-chunks 2 --records 3 --ahead 1
}

"$bin" bench vectorAdd --footprint 4M --device-memory 32M --dir "$dir" >"$dir/out" 2>"$dir/err" || {
	if grep -qi "userfaultfd" "$dir/err"; then
		echo "skipped: $(cat "$dir/err")"
		exit 77
	fi
	fail "a first run: $(cat "$dir/err")"
}
wrong_command_lines_are_refused
batches_are_fetched_by_index

[ "$failed" = 0 ] && echo "ok"
exit "$failed"
