#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice-papers bench --device cuda` on the stand-in driver: every workload gives the reference's bytes on
# a space and on what one writes without it (explicit copies, streaming by hand, host-mapped memory),
# larger than the device budget and within it; the bytes that cross the link are those that must; the
# driver sees no rule broken and nothing leaks; without a driver or kernels the reason is told.
#
# Needs SLUICE_PAPERS_BIN and SLUICE_STANDIN_LIBRARY.
set -u

bin=${SLUICE_PAPERS_BIN:?set SLUICE_PAPERS_BIN to the built sluice-papers}
standin=${SLUICE_STANDIN_LIBRARY:?set SLUICE_STANDIN_LIBRARY to the stand-in driver}
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/test_bench_cuda.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

fail() {
	echo "FAIL: $*"
	failed=1
}

bench() { # runs into $dir/out and $dir/err, exit code in $code
	SLUICE_CUDA_LIBRARY=${library-$standin} CUDA_STANDIN_STRICT=1 \
		timeout -k 1 600 "$bin" bench --dir "$dir" "$@" >"$dir/out" 2>"$dir/err"
	code=$?
}

value() { # of "key": NUMBER in the object of a memory, in the JSON of the last run
	sed -n "/\"memory\": \"$1\",\$/,/}/s/^ *\"$2\": \([0-9.e-]*\),*\$/\1/p" "$dir/out" |
		tail -n 1
}

near() { # name, measured, expected, tolerance
	[ -n "$2" ] || { fail "$1: not in the report"; return; }
	local off=$(($2 - $3))
	[ "${off#-}" -le "$4" ] || fail "$1: $2 bytes, expected $3 to within $4"
}

refused() { # text of the message, then the arguments
	local text=$1
	shift
	bench "$@"
	[ "$code" = 2 ] || fail "$*: exit $code, not 2: $(cat "$dir/err")"
	grep -qF -- "$text" "$dir/err" || fail "$*: no '$text' in: $(cat "$dir/err")"
}

wrong_command_lines_are_refused() {
	refused "needs --device cuda" hotspot --memory streaming
	refused "--memory mmap:" hotspot --device cuda --memory mmap
	refused "--memory :" hotspot --device cuda --memory sluice,
	refused "copies is there twice" hotspot --device cuda --memory copies,copies
	refused "--presence launch" hotspot --device cuda --memory mapped --presence fault
	refused "both set device" hotspot --device cuda --set device=soft
	refused "--files mmap: direct or cached" hotspot --device cuda --files mmap
	refused "for --memory copies and streaming, not sluice" hotspot --device cuda \
		--memory copies,sluice --files cached
}

runs_right() { # footprint, device memory, memories, workload and more
	local footprint=$1 device=$2 memory=$3
	shift 3
	bench "$@" --footprint "$footprint" --device-memory "$device" --device cuda \
		--memory "$memory" --verify --json
	[ "$code" = 0 ] || fail "$* $footprint: exit $code: $(cat "$dir/err")"
	! grep '"verified":' "$dir/out" | grep -vq true ||
		fail "$* $footprint: not verified with each memory"
	[ -z "$(find "$dir" -mindepth 1 -name 'sluice-*')" ] || fail "$* $footprint: left files"
}

peak() {
	sed -n 's/^ *"device_peak_bytes": \([0-9]*\),*$/\1/p' "$dir/out"
}

field() { # of the whole report
	sed -n "s/^  \"$1\": \([0-9]*\),*\$/\1/p" "$dir/out" | head -n 1
}

bytes_are_those_that_must_move() { # of the last run, which has all memories
	local app=$1 memory

	for memory in copies sluice; do
		near "$app, $memory: in" "$(value $memory h2d_bytes)" \
			"$(field input_bytes)" $((6 << 20))
	done
	# What streaming copies out as it goes, a space copies out then or at the end.
	near "$app, streaming: out" "$(value streaming d2h_bytes)" "$(field output_bytes)" 0
	near "$app, sluice: out" \
		$(($(value sluice d2h_bytes) + $(value sluice collect_bytes))) \
		"$(field output_bytes)" $((2 << 20))
	near "$app, copies: out" "$(value copies collect_bytes)" "$(field output_bytes)" 0
}

every_workload_is_right_with_every_memory() {
	local app footprint

	for app in vectorAdd hotspot pathfinder srad_v2 fir; do
		footprint=28M # larger than the device budget
		[ "$app" != hotspot ] || footprint=48M
		runs_right $footprint 20M all "$app"
		[ "$(field footprint_bytes)" -gt $((20 << 20)) ] || fail "$app: it fits"
		[ "$(peak)" -le $((20 << 20)) ] || fail "$app: over the device budget"
		case $app in
		vectorAdd | hotspot) bytes_are_those_that_must_move "$app" ;;
		esac
	done
	runs_right 13M 20M sluice,streaming pathfinder --rows-per-launch 1 --wait each
	runs_right 28M 20M sluice pathfinder --rows-per-launch 64
	runs_right 28M 20M sluice,streaming fir --discard eager --taps 3
	runs_right 28M 20M sluice fir --discard lazy --taps 3
}

what_fits_goes_in_once_and_comes_out_at_the_end() {
	runs_right 13M 64M sluice,copies srad_v2
	near "srad_v2: in" "$(value sluice h2d_bytes)" "$(field input_bytes)" $((2 << 20))
	near "srad_v2: out" "$(value sluice d2h_bytes)" 0 0
	runs_right 13M 64M sluice,copies hotspot
	near "hotspot: in" "$(value sluice h2d_bytes)" "$(field input_bytes)" $((4 << 20))
	near "hotspot: out" "$(value sluice d2h_bytes)" 0 0
}

# Four batches on the device: the one that trains, two that come, and one that is done with, which is
# what goes: a batch goes in once, also where it is needed before its fetch has ended. How many are there
# in time depends on the machine: 18 and more of 23 on a quiet one.
batches_that_were_fetched_ahead_go_in_once() {
	runs_right 96M 18M sluice minibatch --host-memory 18M --steps 16
	[ "$(field batches)" = 23 ] || fail "minibatch: $(field batches) batches, not 23"
	[ "$(field batches_resident)" -ge 1 ] || fail "minibatch: none of 23 batches was there"
	near "minibatch: in" "$(value sluice h2d_bytes)" $((23 * 4 << 20)) $((6 << 20))
}

files_are_read_through_the_page_cache() {
	local memory

	for memory in copies streaming; do
		runs_right 48M 20M $memory vectorAdd --files cached
		runs_right 48M 20M $memory srad --files cached
	done
	bench vectorAdd --device cuda --footprint 96M --device-memory 8M --host-memory 24M \
		--memory streaming --files cached
	[ "$code" = 1 ] || fail "files beyond the host budget: exit $code"
	grep -q "host memory for all arrays: 96 MiB are needed, the budget is 24 MiB" "$dir/err" ||
		fail "files beyond the host budget: $(cat "$dir/err")"
	[ ! -e "$dir/sluice-vectorAdd" ] || fail "a failed run left files"
}

failures_say_what_to_do() {
	library=$dir/none.so bench hotspot --device cuda --footprint 16M
	[ "$code" = 1 ] || fail "no driver: exit $code"
	grep -q "no GPU driver" "$dir/err" || fail "no driver: $(cat "$dir/err")"

	# Device memory for the tiles, but not for whole arrays.
	CUDA_STANDIN_DEVICE_BYTES=96M bench vectorAdd --device cuda --footprint 100M \
		--device-memory 16M --memory copies
	[ "$code" = 1 ] || fail "arrays larger than the device: exit $code"
	grep -q "device memory for it" "$dir/err" || fail "no memory: $(cat "$dir/err")"
	[ ! -e "$dir/sluice-vectorAdd" ] || fail "a failed run left files"

	bench vectorAdd --device cuda --footprint 48M --device-memory 8M --tile 8M \
		--chunk 4M --memory streaming
	[ "$code" = 1 ] || fail "a tile beyond the budget: exit $code"
	grep -q "smaller --tile" "$dir/err" || fail "a tile beyond the budget: $(cat "$dir/err")"
}

kernels_come_from_a_file() {
	local ptx=$dir/kernels.ptx

	printf '.version 7.0\n.target sm_80\n.visible .entry workload_vectoradd(\n)\n' >"$ptx"
	SLUICE_KERNELS=$ptx bench vectorAdd --device cuda --footprint 24M --verify
	[ "$code" = 0 ] || fail "kernels of a file: exit $code: $(cat "$dir/err")"
	SLUICE_KERNELS=$ptx bench hotspot --device cuda --footprint 24M --memory copies
	[ "$code" = 1 ] || fail "a kernel that the file has not: exit $code"
	grep -q "the workload's kernels: cuModuleGetFunction" "$dir/err" ||
		fail "a kernel that the file has not: $(cat "$dir/err")"
	SLUICE_KERNELS=$dir/none.ptx bench vectorAdd --device cuda --footprint 24M
	[ "$code" = 1 ] || fail "no such file: exit $code"
	grep -q "none.ptx cannot be read" "$dir/err" || fail "no such file: $(cat "$dir/err")"
}

a_signal_ends_the_run_and_leaves_nothing() {
	local pid tries=0

	SLUICE_CUDA_LIBRARY=$standin CUDA_STANDIN_STRICT=1 "$bin" bench hotspot --dir "$dir" \
		--device cuda --memory all --footprint 48M --device-memory 20M --repeat 1000 \
		>/dev/null 2>"$dir/err" &
	pid=$!
	until [ -e "$dir/sluice-hotspot/power.stamp" ]; do
		sleep 0.05
		tries=$((tries + 1))
		[ "$tries" -lt 6000 ] || { fail "the run does not start"; break; }
	done
	kill -TERM "$pid"
	wait "$pid"
	code=$?
	[ "$code" = 143 ] || fail "SIGTERM: exit $code: $(cat "$dir/err")"
	[ ! -e "$dir/sluice-hotspot" ] || fail "SIGTERM: files stay"
}

table_tells_all_memories() {
	local memory

	bench vectorAdd --device cuda --footprint 24M --device-memory 20M --memory all --repeat 2
	[ "$code" = 0 ] || fail "table: exit $code: $(cat "$dir/err")"
	for memory in sluice copies streaming mapped; do
		grep -qE "^$memory +[-0-9]" "$dir/out" || fail "table: no line for $memory"
	done
	grep -qE "^link [0-9.]+ GB/s in" "$dir/out" || fail "table: no link"
}

wrong_command_lines_are_refused
bench vectorAdd --device cuda --footprint 24M --device-memory 20M
if [ "$code" != 0 ] && grep -qE "userfaultfd" "$dir/err"; then
	echo "SKIP: $(cat "$dir/err")"
	[ "$failed" = 0 ] && exit 77
	exit 1
fi
every_workload_is_right_with_every_memory
what_fits_goes_in_once_and_comes_out_at_the_end
batches_that_were_fetched_ahead_go_in_once
files_are_read_through_the_page_cache
failures_say_what_to_do
kernels_come_from_a_file
table_tells_all_memories
a_signal_ends_the_run_and_leaves_nothing

[ "$failed" = 0 ] && echo "ok"
exit "$failed"
