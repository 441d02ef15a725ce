#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# radixSort, hashJoin and minibatch on the stand-in driver: right with each kind of memory, larger than the
# device budget; discarding saves bytes over the link; no rule of the driver is broken, nothing leaks;
# minibatch moves every record once, also streamed by hand, and each batch but the first is there in time.
#
# Needs SLUICE_PAPERS_BIN and SLUICE_STANDIN_LIBRARY.
set -u

bin=${SLUICE_PAPERS_BIN:?set SLUICE_PAPERS_BIN to the built sluice-papers}
standin=${SLUICE_STANDIN_LIBRARY:?set SLUICE_STANDIN_LIBRARY to the stand-in driver}
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/test_bench_discard_cuda.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

fail() {
	echo "FAIL: $*"
	failed=1
}

value() { # of the first "key": NUMBER in the JSON of the last run
	sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" "$dir/out" | head -n 1
}

runs() { # device MiB, memories, workload and more
	local device=$1 memory=$2
	shift 2
	SLUICE_CUDA_LIBRARY=$standin CUDA_STANDIN_STRICT=1 timeout -k 1 600 "$bin" bench "$@" \
		--device cuda --memory "$memory" --device-memory "${device}M" --dir "$dir" \
		--verify --keep --json >"$dir/out" 2>"$dir/err"
	code=$?
	[ "$code" = 0 ] || fail "$*: exit $code: $(cat "$dir/err")"
	! grep '"verified":' "$dir/out" | grep -vq true || fail "$*: not verified with each memory"
	moved=$(($(value h2d_bytes) + $(value d2h_bytes)))
}

saves() { # device MiB, memories, workload and more
	local none
	runs "$@"
	none=$moved
	set -- "$1" "${@:3}"
	runs "$1" sluice "${@:2}" --discard lazy
	echo "${*:2}: $((none >> 20)) MiB over the link without discard, $((moved >> 20)) with it"
	[ "$moved" -lt "$none" ] || fail "${*:2}: discarding saved nothing"
}

saves 16 all radixSort --footprint 18M --key-bits 4
saves 24 sluice,streaming hashJoin --footprint 45M --joins 1
runs 16 all minibatch --footprint 24M
# Ten records; weights and sums, of which some may be there.
[ "$(value h2d_bytes)" -ge $((10 << 21)) ] && [ "$(value h2d_bytes)" -le $((12 << 21)) ] ||
	fail "minibatch: $(value h2d_bytes) bytes in"
[ "$(value batches)" = 5 ] || fail "minibatch: $(value batches) batches, not 5"
# By hand, too, a batch is copied once, however many steps are made with it.
runs 16 streaming minibatch --footprint 24M --steps 8
hand=$(sed -n 's/^ *"h2d_bytes": \([0-9]*\),*$/\1/p' "$dir/out" | tail -n 1)
[ "$hand" -ge $((10 << 21)) ] && [ "$hand" -le $((12 << 21)) ] ||
	fail "minibatch, streaming: $hand bytes in with 8 steps"
[ "$failed" = 0 ] && echo "ok"
exit "$failed"
