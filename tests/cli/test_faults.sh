#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a user of the command line sees when the world fails: a disk that refuses to be read, to be
# written, or that is full; threads and memory that are refused; a setting that is none. Exit code 1, one line that
# says which file, what and what to do, no wrong results, no files left behind.
set -u
: "${SLUICE_BIN:?path of the program sluice}"
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/test_faults.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/files"
failed=0

fail() {
	echo "FAILED: $*"
	failed=1
}

bench() { # environment assignments, --, arguments: into $dir/out and $dir/err, exit code in $code
	local environment=()

	while [ "$1" != -- ]; do
		environment+=("$1")
		shift
	done
	shift
	env "${environment[@]}" "$SLUICE_BIN" bench "$@" --footprint 32M --device-memory 8M \
		--host-memory 4M --threads 2 --dir "$dir/files" --verify >"$dir/out" 2>"$dir/err"
	code=$?
}

refused() { # what, words that the error must have
	local what=$1 word

	shift
	[ "$code" = 1 ] || fail "$what: exit $code, not 1: $(cat "$dir/err")"
	for word in "$@"; do
		grep -q -- "$word" "$dir/err" || fail "$what: no \"$word\" in: $(cat "$dir/err")"
	done
	[ -z "$(ls -A "$dir/files")" ] || fail "$what: left behind: $(ls -A "$dir/files")"
}

bench -- hotspot
if [ "$code" != 0 ]; then
	grep -qi "userfaultfd" "$dir/err" && { echo "skipped: $(cat "$dir/err")"; exit 77; }
	fail "without failures: exit $code: $(cat "$dir/err")"
fi

bench SLUICE_FAULT=store.read:3:EIO+ -- hotspot
refused "reads that fail" "$dir/files" "read" "EIO\|Input/output error"

bench SLUICE_FAULT=store.write:3:EIO+ -- vectoradd
refused "writes that fail" "$dir/files" "write" "EIO\|Input/output error"

bench SLUICE_FAULT=store.write:3:ENOSPC+ -- vectoradd
refused "a disk that is full" "$dir/files" "No space left\|ENOSPC" "free space"

bench SLUICE_FAULT=store.extend:1:ENOSPC+ -- vectoradd
refused "a disk that is full at creation" "No space left\|ENOSPC" "$dir/files"

bench SLUICE_FAULT=thread.create:2:EAGAIN -- hotspot
refused "a thread that cannot be started" "EAGAIN\|unavailable"

bench SLUICE_FAULT=mem.alloc:1:ENOMEM -- hotspot
refused "no memory" "out of memory"

bench -- hotspot --set store_budget=nonsense
[ "$code" = 2 ] || [ "$code" = 1 ] || fail "a setting that is none: exit $code"
grep -q "store_budget=nonsense" "$dir/err" || fail "a setting that is none: $(cat "$dir/err")"

exit "$failed"
