#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice run --timeline` around a program that trains, on the stand-in driver: the file by the rules of
# its format and against the counters of the same run (timeline_rules.py), with memory that is ample,
# short, and short enough for the disk; its bound, full disks, files that cannot be, killed and several
# processes, programs that never use CUDA.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${CC:?}"
if ! command -v python3 >/dev/null; then
	echo "skip: there is no python3"
	exit 77
fi
. "$SLUICE_SOURCE_DIR/tests/cli/training.sh"

# timeline OPTIONS -- ARGUMENTS of the program: its output in out and err.
timeline()
{
	local options=()

	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	LD_PRELOAD=$PWD/twin.so "$SLUICE_BIN" run "${options[@]}" ./training "$@" >out 2>err
}
rules()
{
	python3 "$SLUICE_SOURCE_DIR/tests/cli/timeline_rules.py" "$@" || fail "the rules of $*"
}

# Ample: kernels, copies and fills alone. Short: moves, what they wait for, arrows. The disk as well.
timeline --timeline t.json --stats s.json --device-memory 200M --host-memory 384M -- 8 rest ||
	fail "ample: $(cat err)"
[ "$(cat out)" = "8 steps" ] || fail "ample: said $(cat out)"
grep -q "^sluice: the timeline is in $PWD/t.json: open it" err || fail "ample: not said: $(cat err)"
rules t.json --stats s.json kernel copy fill step "the program ends"
timeline --timeline t.json --stats s.json --device-memory 64M --host-memory 384M -- 8 rest || fail "short"
rules t.json --stats s.json kernel copy fill move wait arrows eviction launch "room, nothing to copy"
if [ "$(stat -f -c %T .)" != tmpfs ]; then
	timeline --timeline t.json --stats s.json --device-memory 32M --host-memory 32M --spill-dir . -- 4 rest ||
		fail "disk: $(cat err)"
	rules t.json --stats s.json kernel move disk wait arrows spill demand
fi
python3 - t.json <<'END' || fail "trace processor"
import json, os, sys
path = os.environ.get("TRACE_PROCESSOR_SHELL")
try:
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
except ImportError:
    path = None
if not path:
    print("not counted by Perfetto: no package perfetto, or no TRACE_PROCESSOR_SHELL=PROGRAM")
    sys.exit(0)
events = json.load(open(sys.argv[1]))["traceEvents"]
tp = TraceProcessor(trace=sys.argv[1], config=TraceProcessorConfig(bin_path=path))
count = lambda table: next(iter(tp.query("select count(*) as n from " + table))).n
slices = sum(e["ph"] in "Xi" for e in events)
arrows = sum(e["ph"] == "s" for e in events)
sys.exit(not (count("slice") == slices and count("flow") == arrows and count("counter")))
END

# With --record, which takes the same times; and a child that is no other program.
timeline --timeline t.json --record r.trace --stats s.json --device-memory 64M --host-memory 384M -- 8 fork ||
	fail "with --record: $(cat err)"
rules t.json --stats s.json kernel move
grep -q '208 launches recorded' err || fail "--record: $(cat err)"
grep -q 'without a time' err && fail "--record: $(cat err)"
[ "$(ls t.json* | wc -l)" = 1 ] || fail "a forked child: $(ls)"

# The bound: the file is complete, and says so. The program goes on.
timeline --timeline t.json --timeline-size 1M --device-memory 64M --host-memory 384M -- 44 || fail "bound: $(cat err)"
[ "$(cat out)" = "44 steps" ] || fail "bound: said $(cat out)"
rules t.json "no events from here on: the file is full"
[ "$(stat -c %s t.json)" -le 1048576 ] || fail "bound: $(ls -l t.json)"
grep -q "^sluice: the timeline $PWD/t.json is full (1 MiB) and ends after [0-9]* s; --timeline-size" err ||
	fail "bound: not said: $(cat err)"

# A disk that becomes full, injected and real.
SLUICE_FAULT=timeline.write:4:ENOSPC+ timeline --timeline t.json --device-memory 64M --host-memory 384M -- 14 ||
	fail "full disk: exit status $?: $(cat err)"
[ "$(cat out)" = "14 steps" ] || fail "full disk: said $(cat out)"
grep -q "^sluice: the timeline $PWD/t.json ends after [0-9]* s: No space left on device: free space" err ||
	fail "full disk: not said: $(cat err)"
rules t.json kernel
mkdir small
if unshare -rm mount -t tmpfs none small 2>/dev/null; then
	export -f timeline
	unshare -rm bash -c 'mount -t tmpfs -o size=256k none small
		timeline --timeline small/t.json --device-memory 64M --host-memory 384M -- 14; status=$?
		cp small/t.json small.json; exit $status' || fail "small disk: exit status $?: $(cat err)"
	[ "$(cat out)" = "14 steps" ] || fail "small disk: said $(cat out)"
	grep -q "small/t.json ends after [0-9]* s: No space left on device" err || fail "small disk: not said: $(cat err)"
	rules small.json kernel move
else
	echo "no small disk was tried: no file system can be mounted here"
fi
SLUICE_FAULT=timeline.write:1:ENOSPC timeline --timeline t.json -- 1 || fail "no first write: exit status $?"
grep -q "^sluice: no timeline can be written to $PWD/t.json: No space left on device: " err || fail "no first write: $(cat err)"
[ -z "$(ls t.json* 2>/dev/null)" ] || fail "no first write: $(ls)"

# A directory that is not there any more, by hand: the program runs.
SLUICE_RUN=timeline=/nowhere/t.json LD_PRELOAD=$SLUICE_PRELOAD_LIBRARY:$PWD/twin.so ./training 1 >out 2>err ||
	fail "by hand: exit status $?"
grep -q "no timeline can be written to /nowhere/t.json: No such file or directory" err || fail "by hand: $(cat err)"

# A program that is killed leaves what was written: all but the last half second.
timeline --timeline t.json --device-memory 64M --host-memory 384M -- 8 kill 2>/dev/null
rules t.json kernel move arrows

# Several processes; one that runs another program in its place; and one that uses no CUDA.
LD_PRELOAD=$PWD/twin.so "$SLUICE_BIN" run --timeline m.json sh -c './training 2; exec ./training 3' >out 2>err
[ "$(ls m.json* | wc -l)" = 2 ] || fail "two processes: $(ls)"
for file in m.json*; do
	rules "$file" kernel
done
grep -q '^sluice: the timeline is in .*m\.json\.[0-9]*: .* is another process' err || fail "not said: $(cat err)"
timeline --quiet --timeline q%p.json -- 2
[ -s err ] && fail "quiet: $(cat err)"
ls q[0-9]*.json >/dev/null || fail "%p: $(ls)"
"$SLUICE_BIN" run --timeline n.json true || fail "a program without CUDA: exit status $?"
[ -z "$(ls n.json* 2>/dev/null)" ] || fail "a program without CUDA has a timeline"

# refused WORDS ...: the command line that follows is refused with 125, and says so.
refused()
{
	local words=$1

	shift
	"$SLUICE_BIN" run "$@" ./training 1 >out 2>err
	[ $? = 125 ] || fail "$*: not refused"
	grep -qF -- "$words" err || fail "$*: $(cat err)"
}
mkdir directory
refused "--timeline directory: is there, and not a plain file" --timeline directory
refused "--timeline /dev/full: is there, and not a plain file" --timeline /dev/full
refused "--timeline nowhere/x: nowhere/" --timeline nowhere/x
refused "--timeline-size goes with --timeline" --timeline-size 1M
refused "--timeline-size 5K is not a size of 1M to 1T" --timeline x --timeline-size 5K
refused "--timeline-size much is not a size" --timeline x --timeline-size much
refused "--record and --timeline name the same file, 'x'" --record x --timeline x

exit $failed
