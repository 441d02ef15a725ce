#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice-papers bench`: wrong command lines are refused with the reason and exit code 2; every workload
# gives the reference's bytes however its data become present and whoever chooses victims; the
# bytes that crossed the link are those of the closed form; wrong results give exit code 3; files
# are removed, kept, used again and cleaned up after a signal.
#
# Needs SLUICE_BIN and SLUICE_PAPERS_BIN. Skipped where the software device cannot run.
set -u

bin=${SLUICE_PAPERS_BIN:?set SLUICE_PAPERS_BIN to the built sluice-papers}
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/test_bench.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

fail() {
	echo "FAIL: $*"
	failed=1
}

bench() { # runs into $dir/out and $dir/err, exit code in $code
	timeout -k 1 600 "$bin" bench "$@" >"$dir/out" 2>"$dir/err"
	code=$?
}

value() { # of the first "key": NUMBER in the JSON of the last run
	sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" "$dir/out" | head -n 1
}

refused() { # text of the message, then the arguments
	local text=$1
	shift
	bench "$@"
	[ "$code" = 2 ] || fail "$*: exit $code, not 2: $(cat "$dir/err")"
	grep -qF -- "$text" "$dir/err" || fail "$*: no '$text' in: $(cat "$dir/err")"
	[ ! -s "$dir/out" ] || fail "$*: printed a result"
}

wrong_command_lines_are_refused() {
	refused "which workload" --json
	refused "no workload 'hotspott'" hotspott
	refused "one argument too many" hotspot srad
	refused "unknown option '--footprin-size'" hotspot --footprin-size 1M
	refused "needs a value" hotspot --footprint
	refused "--footprint 12X" hotspot --footprint 12X
	refused "--footprint 0: must be more than 0" hotspot --footprint 0
	refused "--tile 0: must be more than 0" hotspot --tile 0
	refused "--footprint 99999999999T: too large" hotspot --footprint 99999999999T
	refused "footprint must be at least" hotspot --footprint 1M
	refused "--presence maybe" hotspot --presence maybe
	refused "--policy" hotspot --policy mru
	refused "--population" hotspot --population word
	refused "times a power of two" hotspot --chunk 3M
	refused "at most" hotspot --dir "$dir" --chunk 1024M --device-memory 4G --footprint 16M
	refused "--repeat 0" hotspot --repeat 0
	refused "--set" hotspot --set nonsense=1
	refused "not of the form KEY=VALUE" hotspot --set nonsense
	refused "without a comma" hotspot --device-memory 64M,policy=uvm
	refused "both set policy" hotspot --policy uvm --set policy=lru
	refused "both set device_budget" hotspot --device-memory 64M --device-memory 32M
	refused "--discard is an option of fir, radixSort, hashJoin, network, not of hotspot" hotspot --discard eager
	refused "--discard later: no such choice" fir --discard later
	refused "--taps 1: not a number from 2" fir --taps 1
	refused "cannot be filtered again" fir --passes 2 --discard lazy
	refused "a footprint of at least" train --footprint 64M --device-memory 32M
	refused "--tile does not apply to pathfinder" pathfinder --tile 8M
	refused "does not fit in" hotspot --tile 64M --device-memory 32M
	refused "less than one chunk" hotspot --device-memory 1M
	refused "host reserve" hotspot --host-memory 32M --host-reserve 64M
	refused "--list takes no workload" --list hotspot
	[ -z "$(find "$dir" -mindepth 1 -name 'sluice-*')" ] || fail "a refused run left files"
}

every_workload_is_listed() {
	local word

	bench --list
	[ "$code" = 0 ] || fail "--list: exit $code"
	for word in vectorAdd hotspot pathfinder srad_v2 fir train backprop binomialOptions BlackScholes \
		lavaMD radixSort hashJoin minibatch; do
		grep -q "^$word " "$dir/out" || fail "--list does not name $word"
	done
	bench --help
	[ "$code" = 0 ] || fail "--help: exit $code"
	grep -q "Usage: sluice-papers bench APP" "$dir/out" || fail "--help: $(cat "$dir/out")"
}

# The installed command has the smaller list, and says its own name.
the_command_has_four_workloads() {
	local bin=$SLUICE_BIN

	bench --list
	[ "$(grep -o '^[A-Za-z]\S*' "$dir/out" | tr '\n' ' ')" = "vectorAdd hotspot pathfinder srad_v2 " ] ||
		fail "sluice bench --list: $(cat "$dir/out")"
	bench fir
	[ "$code" = 2 ] || fail "sluice bench fir: exit $code"
	grep -q "^sluice bench: no workload 'fir'" "$dir/err" || fail "sluice bench fir: $(cat "$dir/err")"
	bench srad --footprint 16M --verify --dir "$dir"
	[ "$code" = 0 ] || fail "sluice bench srad: $(cat "$dir/err")"
}

failures_say_what_to_do() {
	bench hotspot --dir "$dir/missing" --footprint 16M
	[ "$code" = 1 ] || fail "missing directory: exit $code"
	grep -qF "$dir/missing" "$dir/err" || fail "the missing directory is not named"
	bench hotspot --dir "$dir/err" --footprint 16M
	[ "$code" = 1 ] || fail "a file as directory: exit $code"
	grep -q "not a directory" "$dir/err" || fail "a file as directory: $(cat "$dir/err")"

	bench vectorAdd --dir "$dir" --footprint 60T --device-memory 32M --host-memory 32M
	[ "$code" = 1 ] || fail "60 TiB: exit $code"
	grep -q "more on disk" "$dir/err" || fail "60 TiB: $(cat "$dir/err")"
	[ ! -e "$dir/sluice-vectorAdd" ] || fail "a run without room left files"

	mkdir "$dir/sluice-hotspot"
	(
		exec 9>"$dir/sluice-hotspot/lock"
		flock 9
		"$bin" bench hotspot --dir "$dir" --footprint 16M >"$dir/out" 2>"$dir/err" 9>&-
		echo $? >"$dir/code"
	)
	[ "$(cat "$dir/code")" = 1 ] || fail "a locked directory: exit $(cat "$dir/code")"
	grep -q "another run" "$dir/err" || fail "a locked directory: $(cat "$dir/err")"
	rm -rf "$dir/sluice-hotspot"
}

# Sizes: every footprint is several times the device memory, so data leave and come back.
sizes=(--dir "$dir" --footprint 48M --device-memory 20M --threads 2)

runs_right() {
	case " $* " in
	*" --host-memory "*) ;;
	*) set -- "$@" --host-memory 64M ;;
	esac
	bench "$@" "${sizes[@]}" --verify --json
	[ "$code" = 0 ] || fail "$*: exit $code: $(cat "$dir/err")"
	grep -q '^  "verified": true' "$dir/out" || fail "$*: not verified"
	[ -z "$(find "$dir" -mindepth 1 -name 'sluice-*')" ] || fail "$*: left files"
	[ "$(value device_peak_bytes)" -le $((20 << 20)) ] || fail "$*: over the device budget"
	[ "$(value host_peak_bytes)" -le $((64 << 20)) ] || fail "$*: over the host budget"
}

near() { # name, measured, expected, tolerance
	local off=$(($2 - $3))
	[ "${off#-}" -le "$4" ] || fail "$1: $2 bytes, expected $3 to within $4"
}

traffic_is_the_closed_form() { # of the last run
	local what=$*

	[ -n "$(value expected_h2d_bytes)" ] || { fail "$what: no closed form"; return; }
	near "$what: host to device" "$(value h2d_bytes)" "$(value expected_h2d_bytes)" \
		"$(value expected_tolerance_bytes)"
	near "$what: device to host" "$(value d2h_bytes)" "$(value expected_d2h_bytes)" \
		"$(value expected_tolerance_bytes)"
}

results_and_traffic_are_right() {
	local policy app mode

	for policy in lru dragon; do
		for app in vectorAdd hotspot pathfinder srad_v2 fir; do
			runs_right "$app" --policy "$policy"
			traffic_is_the_closed_form "$app" --policy "$policy"
		done
	done
	for app in vectorAdd hotspot pathfinder; do
		runs_right "$app" --policy uvm
	done
	for app in srad_v2 fir; do
		runs_right "$app" --policy uvm
		traffic_is_the_closed_form "$app" --policy uvm
	done
	for mode in eager lazy; do
		runs_right fir --discard "$mode"
		traffic_is_the_closed_form fir --discard "$mode"
		runs_right fir --discard "$mode" --policy uvm
		traffic_is_the_closed_form fir --discard "$mode" --policy uvm
	done
	runs_right pathfinder --rows-per-launch 7
	traffic_is_the_closed_form pathfinder --rows-per-launch 7
	runs_right srad_v2 --iterations 3
	traffic_is_the_closed_form srad_v2 --iterations 3
	runs_right fir --taps 63
}

# Launches that repeat: planned, the same results, and no more bytes than with lru.
repeating_launches_are_planned() {
	local app lru plan
	local -A more=([train]="--steps 6" [srad_v2]="--iterations 6" [fir]="--passes 6")

	for app in train srad_v2 fir; do
		# shellcheck disable=SC2086
		bench "$app" --footprint 80M --device-memory 40M --host-memory 32M --dir "$dir" \
			--verify --json ${more[$app]}
		[ "$code" = 0 ] || fail "$app, lru: exit $code: $(cat "$dir/err")"
		lru=$(($(value h2d_bytes) + $(value d2h_bytes)))
		# shellcheck disable=SC2086
		bench "$app" --footprint 80M --device-memory 40M --host-memory 32M --dir "$dir" \
			--verify --json --policy plan ${more[$app]}
		[ "$code" = 0 ] || fail "$app, plan: exit $code: $(cat "$dir/err")"
		grep -q '^  "verified": true' "$dir/out" || fail "$app, plan: not verified"
		grep -q '"plans": 1,' "$dir/out" || fail "$app: not one plan"
		plan=$(($(value h2d_bytes) + $(value d2h_bytes)))
		[ "$plan" -lt "$lru" ] || fail "$app: $plan bytes with a plan, $lru with lru"
	done
}

results_are_right_by_faults() {
	local app population

	for app in vectorAdd hotspot pathfinder srad_v2 fir; do
		runs_right "$app" --presence fault
	done
	for population in grow page; do
		runs_right hotspot --presence fault --population "$population"
	done
	runs_right hotspot --presence fault --host-memory 0 --set readahead_chunks=0
}

kept_inputs_are_used_again_and_wrong_results_are_found() {
	local file="$dir/sluice-hotspot/temp.bin"

	bench hotspot "${sizes[@]}" --keep --verify
	[ "$code" = 0 ] || fail "--keep: exit $code: $(cat "$dir/err")"
	[ -s "$file" ] || fail "--keep: no input kept"
	bench hotspot "${sizes[@]}" --keep --verify --repeat 2 --json
	[ "$code" = 0 ] || fail "second --keep: exit $code: $(cat "$dir/err")"
	grep -q '"repeat": 2' "$dir/out" || fail "--repeat 2: not in the report"

	# One changed byte in an input whose stamp is valid: the run takes it as it is, and the
	# check against what was generated has to see it.
	printf '\x55' | dd of="$file" bs=1 seek=4098 conv=notrunc status=none
	bench hotspot "${sizes[@]}" --keep --verify
	[ "$code" = 3 ] || fail "a changed input: exit $code, not 3"
	grep -q "temp.bin: element 1024 " "$dir/err" || fail "a changed input: $(cat "$dir/err")"

	# Another seed is another input: the kept ones do not fit and are made again.
	bench hotspot "${sizes[@]}" --verify --seed 2
	[ "$code" = 0 ] || fail "another seed: exit $code: $(cat "$dir/err")"
	[ ! -e "$dir/sluice-hotspot" ] || fail "without --keep files stay"
}

a_signal_ends_the_run_and_leaves_nothing() {
	local pid tries=0

	"$bin" bench hotspot "${sizes[@]}" --repeat 1000 >/dev/null 2>"$dir/err" &
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

# In a directory that users share each has files of his own, and nobody's link leads them away.
a_shared_directory_has_files_of_each_user() {
	local shared=$dir/shared mine

	mine=$shared/sluice-hotspot-$(id -u)
	mkdir "$shared" "$dir/target"
	chmod 1777 "$shared"
	bench hotspot "${sizes[@]}" --dir "$shared" --keep
	[ "$code" = 0 ] || fail "a shared directory: exit $code: $(cat "$dir/err")"
	[ "$(ls "$shared")" = "${mine##*/}" ] || fail "a shared directory has: $(ls "$shared")"
	rm -r "$mine"
	ln -s "$dir/target" "$mine"
	bench hotspot "${sizes[@]}" --dir "$shared"
	[ "$code" = 1 ] || fail "a planted link: exit $code"
	grep -qF "$mine: not a directory of this user" "$dir/err" || fail "a planted link: $(cat "$dir/err")"
	[ -z "$(ls "$dir/target")" ] || fail "a planted link is followed"
	if [ "$(id -u)" = 0 ]; then
		rm "$mine"
		mkdir "$mine"
		chown 12345 "$mine"
		bench hotspot "${sizes[@]}" --dir "$shared"
		[ "$code" = 1 ] || fail "another user's directory: exit $code"
		[ -z "$(ls "$mine")" ] || fail "another user's directory is written to"
	fi
	rm -r "$shared" "$dir/target"
}

wrong_command_lines_are_refused
every_workload_is_listed
the_command_has_four_workloads
failures_say_what_to_do

bench vectorAdd "${sizes[@]}"
if [ "$code" != 0 ] && grep -qE "userfaultfd" "$dir/err"; then
	echo "SKIP: $(cat "$dir/err")"
	[ "$failed" = 0 ] && exit 77
	exit 1
fi
results_and_traffic_are_right
repeating_launches_are_planned
results_are_right_by_faults
kept_inputs_are_used_again_and_wrong_results_are_found
a_shared_directory_has_files_of_each_user
a_signal_ends_the_run_and_leaves_nothing

[ "$failed" = 0 ] && echo "ok"
exit "$failed"
