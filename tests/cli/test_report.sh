#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice report`: a timeline made by hand, whose parts are known to the nanosecond; timelines of a program
# that trains on the stand-in driver, against the counters of the same run (report_rules.py); cut
# timelines; files that are none; narrow terminals; a large file in little memory.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${CC:?}"
if ! command -v python3 >/dev/null; then
	echo "skip: there is no python3"
	exit 77
fi
failed=0
unset SLUICE_RUN LD_PRELOAD

fail()
{
	echo "FAIL $*"
	failed=1
}
# rules WORDS ...: what report.json must say.
rules()
{
	python3 "$SLUICE_SOURCE_DIR/tests/cli/report_rules.py" report.json "$@" || fail "the rules of $*"
}
report()
{
	"$SLUICE_BIN" report "$@" --json >report.json || fail "report $*"
}

# One part after the other, of 100 us each, and what overlaps them.
cat >hand.py <<'END'
import json, sys
PID = 77
names = ["GPU 0 stream 1", "GPU 0 copies in", "GPU 0 copies out", "GPU 0 disk reads", "GPU 0 disk writes",
         "waits of thread 9: python3", "waits of thread 8: other", "GPU 0 without a copy"]
STREAM, IN, OUT, READ, WRITE, WAITS, OTHER, PLACE = (5000000 + i for i in range(8))
events = [{"ph": "M", "pid": PID, "tid": PID, "name": "process_name", "args": {"name": "by \"hand\" \u001b\u009b"}},
          {"ph": "M", "pid": PID, "tid": PID, "name": "thread_name", "args": {"name": "sluice"}}]
events += [{"ph": "M", "pid": PID, "tid": 5000000 + i, "name": "thread_name", "args": {"name": name}}
           for i, name in enumerate(names)]
def put(track, category, name, ts, dur, **args):
    events.append({"ph": "X", "pid": PID, "tid": track, "cat": category, "name": name,
                   "ts": 5000000 + ts, "dur": dur, "args": args})
def memory(ts, **tiers):
    for tier, (used, budget) in tiers.items():
        args = {"used_bytes": used}
        if budget:
            args["budget_bytes"] = budget
        events.append({"ph": "C", "pid": PID, "name": "GPU 0 %s memory" % tier, "ts": 5000000 + ts, "args": args})
MIB = 1 << 20
memory(0, device=(MIB, 64 * MIB), host=(0, 32 * MIB), store=(0, 0))
put(STREAM, "kernel", "first", 0, 100, thread=9, behind_call_us=0)                       # kernels 100
put(STREAM, "fill", "fill", 50, 150, thread=9, behind_call_us=0, bytes=MIB)              # copies 100 (100..200)
put(IN, "move", "launch", 250, 150, bytes=6 * MIB, counter="h2d_launch", address=4096, launch=5)  # 300..400
put(READ, "disk", "demand", 350, 150, bytes=2 * MIB, counter="store_read_demand", address=4096)   # 400..500
put(OUT, "move", "eviction", 450, 150, bytes=3 * MIB, counter="d2h_evict", address=8192)          # 500..600
put(WRITE, "disk", "spill", 550, 150, bytes=1 * MIB, counter="store_write_spill", address=8192)   # 600..700
put(WAITS, "wait", "room on the device", 700, 100)                                       # no move 40
put(OTHER, "wait", "mapping", 690, 30)                                                   # mapping 20
put(WAITS, "wait", "pinning", 715, 45)                                                   # pinning 40
put(OTHER, "wait", "launches", 800, 1000)                                                # calls no work: host
put(STREAM, "kernel", "second", 800, 200, thread=9, behind_call_us=500, launch=5)        # kernels 200
memory(900, device=(64 * MIB, 64 * MIB), host=(32 * MIB, 32 * MIB), store=(5 * MIB, 0))
put(IN, "move", "prefetch", 1100, 100, bytes=4 * MIB, counter="h2d_prefetch", address=4096)  # host: nothing called
put(STREAM, "graph", "graph", 1300, 100, thread=9, behind_call_us=0)                     # kernels 100
if "end" in sys.argv:
    events.append({"ph": "i", "pid": PID, "tid": PID, "s": "t", "name": "the program ends", "ts": 5002000, "args": {}})
if "merged" in sys.argv: # another profiler's events, which are none of ours
    events[2:2] = [{"ph": "M", "pid": "other", "tid": "x", "name": "thread_name", "args": {"name": "stream 7"}}]
    events += [{"ph": "X", "cat": "kernel", "name": "theirs", "pid": 0, "tid": 7, "ts": 1.5, "dur": 1e9, "args": {
        "grid": [1, 2, {"deep": None}], "name": 3}}, {"ph": "f", "bp": "e", "id": 1}, 17, "word", [1, [2]]]
json.dump({"displayTimeUnit": "ns", "traceEvents": events, "more": {"traceEvents": [1]}}, sys.stdout)
END
parts="gpus.0.parts_ns.kernels=400000 gpus.0.parts_ns.copies_and_fills=100000 gpus.0.parts_ns.wait_in=100000
	gpus.0.parts_ns.wait_read=100000 gpus.0.parts_ns.wait_out=100000 gpus.0.parts_ns.wait_write=100000
	gpus.0.parts_ns.wait_map=20000 gpus.0.parts_ns.wait_pin=40000 gpus.0.parts_ns.wait_other=40000 gpus.0.parts_ns.host=1000000 wall_ns=2000000 end=whole
	gpus.0.binds=host gpus.0.link_in.bytes=10485760 gpus.0.link_in.busy_ns=250000
	functions.0.name=second functions.0.waited_ns=500000 functions.0.copied_in_bytes=6291456
	chunks.0.address=4096 chunks.0.copied_in_bytes=10485760 chunks.1.copied_out_bytes=3145728
	gpus.0.memory.store.used_most_bytes=5242880 gpus.0.memory.host.budget_bytes=33554432"
for how in end "end merged"; do
	# shellcheck disable=SC2086 # words
	python3 hand.py $how >hand.json
	report hand.json
	# shellcheck disable=SC2086
	rules $parts
done
"$SLUICE_BIN" report hand.json >text || fail "as text"
grep -q '^Program:  by "hand" ??$' text || fail "control characters: $(cat -v text)"
grep -q '^  waits: disk writes     0.000 s   5.0 %' text || fail "a part: $(cat text)"
grep -q 'device-memory). The GPU waited 0.000 s for copies (10.0' text || fail "advice: $(cat text)"
tr -s '\n ' ' ' <text | grep -q 'Up to 5 MiB were on disk, beyond 32 MiB of host memory' || fail "disk: $(cat text)"
python3 hand.py >hand.json
"$SLUICE_BIN" report hand.json | grep -q '^The timeline is cut: its end is missing' || fail "an end is not missed"

# On terminals of 80 and 40 columns no line is longer.
cat >terminal.py <<'END'
import fcntl, os, pty, struct, sys, termios
columns, command = int(sys.argv[1]), sys.argv[2:]
child, fd = pty.fork()
if not child:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.execv(command[0], command)
text = b""
try:
    while True:
        text += os.read(fd, 65536)
except OSError:
    pass
status = os.waitpid(child, 0)[1]
long = [line for line in text.decode().splitlines() if len(line) > columns]
print("\n".join(long))
sys.exit(bool(long) or not text or status != 0)
END
for columns in 40 60 80; do
	python3 terminal.py $columns "$SLUICE_BIN" report hand.json || fail "wider than $columns columns"
done

# refused WORDS FILE: it is none, and standard error says so.
refused()
{
	"$SLUICE_BIN" report "$2" >out 2>err
	[ $? = 1 ] || fail "$2: not refused"
	[ -s out ] && fail "$2: a report: $(cat out)"
	grep -qF -- "sluice report: $2: $1" err || fail "$2: $(cat err)"
}
mkdir directory
: >empty
head -c 2000 hand.json >part
head -c 2000 hand.json | tr : ';' >wrong
{ head -c 1000 hand.json; printf '\0'; tail -c +1002 hand.json; } >zero
echo '[{"ph":"X","pid":1,"tid":1,"name":"a","ts":1,"dur":1}]' >array
echo '{"traceEvents":[{"ph":"X","pid":1,"tid":1,"cat":"kernel","name":"a","ts":1,"dur":1}]}' >other
echo '{"schema":1}' >stats
printf '{"traceEvents":[%s' "$(printf '[%.0s' {1..100})" >deep
printf '{"traceEvents":[{"name":"%s' "$(printf 'x%.0s' {1..70000})" >long
refused "it is a directory" directory
refused "No such file or directory" missing
refused "it is empty" empty
refused "it ends in the middle, at byte 2000" part
refused "byte " wrong
refused "not JSON: there is a zero byte in it" zero
refused "no timeline of \`sluice run\`: the document is no object" array
refused "trace events of another program" other
refused "no timeline: there are no \"traceEvents\" in it" stats
refused "byte " deep
refused "byte " long
"$SLUICE_BIN" report 2>err && fail "no file: accepted"
grep -q "which timeline?" err || fail "no file: $(cat err)"

# A large file: memory stays little.
python3 - >large.json <<'END'
import sys
head = open("hand.json").read()
assert head.endswith('], "more": {"traceEvents": [1]}}')
parts = [head[:-len('], "more": {"traceEvents": [1]}}')]]
for i in range(60000):
    parts.append(',\n{"ph":"X","pid":77,"tid":5000000,"cat":"kernel","name":"kernel %d","ts":%d.125,"dur":7.500,'
                 '"args":{"launch":%d,"thread":9,"behind_call_us":3}}' % (i % 7, 6000000 + 10 * i, i + 10))
    parts.append(',\n{"ph":"X","pid":77,"tid":5000001,"cat":"move","name":"launch","ts":%d.125,"dur":1.500,'
                 '"args":{"bytes":4096,"counter":"h2d_launch","address":%d,"launch":%d}}' % (6000002 + 10 * i, 4096 * i, i))
sys.stdout.write("".join(parts) + "]}")
END
if [ -z "${SLUICE_SANITIZE:-}" ]; then
	(ulimit -v 65536; exec "$SLUICE_BIN" report large.json --json) >report.json || fail "large"
else
	report large.json
fi
rules gpus.0.link_in.bytes=$((60000 * 4096 + 10485760))

if [ -z "${SLUICE_PRELOAD_LIBRARY:-}" ]; then
	[ $failed = 0 ] || exit 1
	echo "skip: the preload library is not for this machine: only timelines made by hand were read"
	exit 77
fi
. "$SLUICE_SOURCE_DIR/tests/cli/training.sh"

# run OPTIONS -- ARGUMENTS: t.json and s.json of the program.
run()
{
	local options=()

	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	LD_PRELOAD=$PWD/twin.so "$SLUICE_BIN" run --quiet --timeline t.json --stats s.json "${options[@]}" \
		./training "$@" >out 2>err
}

run --device-memory 200M --host-memory 384M -- 8 rest || fail "ample: $(cat err)"
report t.json
rules --stats s.json end=whole program=training gpus.0.link_in.bytes=0 gpus.0.memory.device.budget_bytes=209715200
run --device-memory 64M --host-memory 384M --record r.trace -- 20 rest || fail "short: $(cat err)"
report t.json --trace r.trace
rules --stats s.json end=whole functions.0.name=step plan.own_device_memory_bytes=67108864 plan.sizes.2.device_memory_bytes=67108864 \
	plan.reversed_tensors=4 plan.reversed_bytes=67108864
python3 - <<'END' || fail "the plan: $(cat report.json)"
import json
plan = json.load(open("report.json"))["plan"]
seconds = [size["seconds"] for size in plan["sizes"]]
assert seconds == sorted(seconds, reverse=True) and seconds[-1] >= plan["unlimited_seconds"] > 0, seconds
END
# The planner of `sluice plan --sweep` says the same of the same machine.
read -r seconds rates <<<"$(python3 -c '
import json
plan = json.load(open("report.json"))["plan"]
print(plan["sizes"][2]["seconds"] / plan["unlimited_seconds"],
      "in=%.0f,out=%.0f" % (plan["link_in_bytes_per_s"], plan["link_out_bytes_per_s"]))')"
"$SLUICE_BIN" plan r.trace --host-memory 384M --link "$rates" --store read=1M,write=1M \
	--sweep device-memory=64M --json >plan.json || fail "plan"
python3 -c '
import json, sys
kept = json.load(open("plan.json"))["machines"][0]["kept"]
sys.exit(not abs(1 / kept - float(sys.argv[1])) < 0.02 * float(sys.argv[1]))' "$seconds" ||
	fail "plan says $(cat plan.json), report $seconds"
"$SLUICE_BIN" report t.json --trace r.trace >text || fail "short, as text"
grep -q '64 MiB .* s  <- this run$' text || fail "the plan as text: $(cat text)"
"$SLUICE_BIN" report t.json --trace t.json 2>err && fail "a trace that is none is accepted"
grep -q '^sluice report: t.json' err || fail "a trace that is none: $(cat err)"
if [ "$(stat -f -c %T .)" != tmpfs ]; then
	run --device-memory 32M --host-memory 32M --spill-dir . -- 4 rest || fail "disk: $(cat err)"
	report t.json
	rules --stats s.json end=whole
fi

# Cut: at its size, and by the end of the program.
run --timeline-size 1M --device-memory 64M --host-memory 384M -- 44 || fail "full: $(cat err)"
report t.json
rules end=full
run --device-memory 64M --host-memory 384M -- 8 kill 2>/dev/null
report t.json
rules end=missing

[ $failed -eq 0 ] && echo "all right"
exit $failed
