#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice run --record` around a program that trains, on the stand-in driver: the steady step of it as a
# trace, launch by launch and byte by byte, whether memory is ample or short; what `sluice plan` says of it;
# recordings that end early, processes that are killed, several processes, and what is refused.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${CC:?}"
. "$SLUICE_SOURCE_DIR/tests/cli/training.sh"
export LD_PRELOAD=$PWD/twin.so

# tool ...: sluice, without what is for the program.
tool()
{
	env -u LD_PRELOAD "$SLUICE_BIN" "$@"
}

# The step as it must be told, each launch with a time of 1 ms.
launches=0
launch()
{
	printf 'launch %d %d 1000000 0 0 %s\n\tuse %d %s\n' $launches $((launches * 1000000)) "$@"
	launches=$((launches + 1))
}
expected()
{
	launches=0
	printf 'sluice-trace 1\nclock 1000000000\nsource sluice run training, GPU 0\n'
	printf 'tensor 0 4096 global small blocks\n'
	printf 'tensor %d 8388608 global\n' 1 2 3 4
	printf 'tensor %d 16777216 local\n' 5 6 7 8
	printf 'tensor %d 8388608 local\n' 9 10 11 12
	echo 'period 0'
	for i in 1 2 3 4; do
		launch step $i read-write
		echo "alloc $((4 + i))"
		launch step $((4 + i)) write-all
	done
	launch step 0 read-write
	for i in 1 2 3 4; do
		echo "alloc $((8 + i))"
		[ $i = 1 ] || printf 'free %d\n' $((10 - i)) $((7 + i))
		launch fill $((8 + i)) write-all
		launch step $((9 - i)) read-write
		launch step $((8 + i)) read-write
		launch step $((5 - i)) read-write
	done
	printf 'copy-out 1 4096\nfree 5\nfree 12\nend 25 13 25\n'
}
expected >expected.txt

# One time is as good as another here: what the text is without those of this machine.
plain()
{
	grep -v '^#' "$1" | awk '/^launch/ { if ($4 < 1) bad = 1; $3 = $2 * 1000000; $4 = 1000000 } { print } END { exit bad }'
}

# Ample; short: moved in and out all along.
for memory in 200M 64M; do
	"$SLUICE_BIN" run --device-memory $memory --host-memory 384M --record r.trace ./training 8 >out 2>err ||
		fail "$memory: exit status $?: $(cat err)"
	[ "$(cat out)" = "8 steps" ] || fail "$memory: said $(cat out)"
	grep -q "^sluice: GPU 0: 208 launches recorded in $PWD/r.trace: 8 times the same 25\$" err ||
		fail "$memory: not said: $(cat err)"
	grep -q 'without a time' err && fail "$memory: launches without a time: $(cat err)"
	tool trace period r.trace -o p.txt --as-text || fail "$memory: no period"
	plain p.txt >p.plain || fail "$memory: a launch that took no time"
	# What was moved out has a ratio; where all fits nothing has.
	ratios=$(grep -c '^ratio' p.plain)
	case $memory:$ratios in
	200M:0) head -n 1 p.plain | grep -qx 'sluice-trace 1' || fail "a trace without ratios is not of version 1" ;;
	200M:* | 64M:0) fail "$memory: $ratios ratios" ;;
	64M:*) tool plan r.trace --device-memory 72M --host-memory 1G --codec 600G >told || fail "plan --codec of a recording"
		grep -q '^compression' told || fail "ratios that plan does not see: $(cat told)" ;;
	esac
	sed -e 's/ $//' -e '/^ratio/d' -e '1s/2/1/' p.plain | diff - expected.txt || fail "$memory: another trace"
done
tool trace period r.trace -o first.txt --as-text --period 0 || fail "the first period"
[ "$(grep -c '^launch' first.txt)" = 5 ] || fail "the fills of the begin: $(cat first.txt)"
tool trace period r.trace -o last.txt --as-text --period 9 || fail "the last period"
[ "$(grep -c '^launch' last.txt)" = 3 ] || fail "the end: $(cat last.txt)"

# What a machine would give. 104 MiB and 4 KiB are alive at once: of 72 MiB, 32 MiB and 4 KiB are over,
# which in tensors of 8 and 16 MiB are 40 MiB; those go and come once a step.
tool plan expected.txt --device-memory 72M --host-memory 1G --link 54G --json >p.json || fail "plan"
# Which of the plans that reach the bound wins is the planner's business, and so are its bytes.
for want in '"period": 0' '"period_ticks": 25000000' '"unlimited_ticks": 25000000' \
	'"bound_ticks": 25000000'; do
	grep -qF -- "$want" p.json || fail "plan: no $want: $(cat p.json)"
done
tool plan r.trace --device-memory 72M --host-memory 1G --link 54G --json >r.json || fail "plan of the recording"
grep -q '"period_ticks": [1-9]' r.json || fail "plan of the recording: $(cat r.json)"
tool plan r.trace --device-memory 200M --period 9 >out || fail "plan of the end"
grep -q '3 launches, period 9 of 0 to 9' out || fail "plan of the end: $(cat out)"
tool plan r.trace --device-memory 200M --period 10 >out 2>err && fail "plan of no period"
grep -q 'no period 10' err || fail "no period 10: $(cat err)"
tool plan r.trace --device-memory 12M >out 2>err && fail "a launch that does not fit"

# Recordings that end early are there while the program runs, and when it is killed.
{ "$SLUICE_BIN" run --record r.trace --record-launches 90 ./training 8 kill >/dev/null 2>err; } 2>/dev/null
grep -q "90 launches recorded in $PWD/r.trace: 3 times the same 25\$" err || fail "90 launches: $(cat err)"
tool trace period r.trace -o p.txt --as-text --period 2 && plain p.txt | sed 's/ $//' | diff - expected.txt ||
	fail "90 launches: another trace"
{ "$SLUICE_BIN" run --record r.trace ./training 8 kill >/dev/null 2>&1; } 2>/dev/null
[ ! -e r.trace ] || fail "a program that was killed has left a trace"
tool plan r.trace >/dev/null 2>err && fail "a trace that is not there"
grep -q 'r.trace: No such file' err || fail "a trace that is not there: $(cat err)"

# Several processes.
"$SLUICE_BIN" run --record m.trace sh -c './training 2; exec ./training 3' >out 2>err
[ "$(ls m.trace* | wc -l)" = 2 ] || fail "two processes: $(ls)"
grep -q '^sluice: the trace is in .*m\.trace\.[0-9]*: .* is another process' err || fail "not said: $(cat err)"
tool trace check m.trace* || fail "traces of two processes"
"$SLUICE_BIN" run --quiet --record q%p.trace ./training 2 >/dev/null 2>err
[ -s err ] && fail "quiet: $(cat err)"
ls q[0-9]*.trace >/dev/null || fail "%p: $(ls)"

# refused WORDS ...: the command line that follows is refused, and says so.
refused()
{
	local words=$1

	shift
	"$SLUICE_BIN" run "$@" ./training 1 >out 2>err && fail "$*: not refused"
	grep -qF -- "$words" err || fail "$*: $(cat err)"
}
refused "--record-launches goes with --record" --record-launches 5
refused "--stats and --record name the same file, 'x'" --stats x --record x
refused "--record-launches 0 is not a number of 1 to 16777216" --record x --record-launches 0
refused "--record nowhere/x: nowhere/" --record nowhere/x
LD_PRELOAD=$SLUICE_PRELOAD_LIBRARY:$LD_PRELOAD SLUICE_RUN=record_launches=many ./training 1 >out 2>err &&
	fail "record_launches=many"
grep -q 'record_launches=many: a number from 1 to 16777216 wanted' err || fail "by hand: $(cat err)"

exit $failed
