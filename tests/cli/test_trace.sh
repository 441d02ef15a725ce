#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice trace` and `sluice-papers import`: show, check, period and vitality, between files and pipes, what is refused with
# which exit status, and that the example of sluice-trace(5) is a trace.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_PAPERS_BIN:?}" "${SLUICE_SOURCE_DIR:?}"
data=$SLUICE_SOURCE_DIR/tests/data/g10
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

# expect STATUS TEXT ARGUMENTS...: exit status, and TEXT in the output of both kinds.
expect()
{
	local want=$1 text=$2 output status
	shift 2
	if [ "${1:-}" = import ]; then
		output=$("$SLUICE_PAPERS_BIN" "$@" 2>&1)
	else
		output=$("$SLUICE_BIN" trace "$@" 2>&1)
	fi
	status=$?
	[ $status = "$want" ] || fail "trace $*: exit status $status instead of $want: $output"
	case $output in
	*"$text"*) ;;
	*) fail "trace $*: no '$text' in: $output" ;;
	esac
}

# Both forms hold the same, whichever way they are made.
"$SLUICE_PAPERS_BIN" import "$data" BERT_Base 256 -o bert.trace || fail "import"
"$SLUICE_PAPERS_BIN" import "$data" BERT_Base 256 --as-text -o bert.txt || fail "import as text"
"$SLUICE_BIN" trace show bert.trace --text >shown.txt || fail "show --text"
cmp bert.txt shown.txt || fail "the text forms differ"
[ "$(wc -c <bert.trace)" -lt $(($(wc -c <bert.txt) / 2)) ] || fail "the binary form is not compact"
"$SLUICE_PAPERS_BIN" import "$data" BERT_Base 256 -o - | cmp - bert.trace || fail "import to a pipe"
"$SLUICE_BIN" trace show - <bert.trace >piped || fail "show of a pipe"
"$SLUICE_BIN" trace show bert.txt >direct || fail "show of text"
cmp piped direct || fail "show differs between forms"
grep -q '8742558777 ticks' direct || fail "the sum of the times: $(cat direct)"
grep -q '1463 tensors, 148 GiB (158958346240 bytes)' direct || fail "the sum of the sizes"
[ -z "$("$SLUICE_BIN" trace check bert.trace bert.txt 2>&1)" ] || fail "check prints for good files"

# A model that is none of the paper's: the known ones are said.
expect 1 "(BERT_Base, VIT, Inceptionv3, ResNet152, SENet154)" import "$data" BERT 256 -o none
expect 1 "did you mean ResNet152?" import "$data" resnet125 256 -o none
[ -e none ] && fail "a trace of no model"

# JSON parses, and says the same.
if command -v python3 >/dev/null; then
	"$SLUICE_BIN" trace show bert.trace --json | python3 -c '
import json, sys
t = json.load(sys.stdin)
assert t["launches"] == 1369 and t["forward_launches"] == 477, t
assert t["busy_ticks"] == 8742558777 and t["tensors"]["global"]["bytes"] == 17823494144, t
' || fail "show --json"
	"$SLUICE_BIN" trace vitality bert.trace --json --svg picture.svg | python3 -c '
import json, sys, xml.dom.minidom
v = json.load(sys.stdin)
assert len(v["active_bytes"]) == len(v["alive_bytes"]) == v["launches"] == 1369
assert all(a <= b for a, b in zip(v["active_bytes"], v["alive_bytes"]))
assert max(v["alive_bytes"]) == v["peak_alive_bytes"]
assert sum(v["idle_number_by_length"]) == v["idle_times"] > 0
assert sum(map(sum, v["idle_number_by_size_and_length"])) == v["idle_times"]
assert sum(v["bytes_by_size"]) == v["total_bytes"] == 158958346240
xml.dom.minidom.parse("picture.svg")
' || fail "vitality --json or its picture"
else
	"$SLUICE_BIN" trace vitality bert.trace --svg picture.svg >/dev/null || fail "vitality"
fi
grep -q '</svg>' picture.svg || fail "no picture"
[ "$(wc -c <picture.svg)" -lt 500000 ] || fail "the picture is large"
expect 0 "active, of all" vitality bert.trace --period 0
expect 1 "no period 1" vitality bert.trace --period 1
expect 1 "/nowhere/x.svg" vitality bert.trace --svg /nowhere/x.svg

# A period by itself: of three the one that takes neither longest nor least.
printf '%s\n' 'sluice-trace 1' 'clock 1000' 'tensor 0 100 global w' 'tensor 1 200 global idle' 'tensor 2 50 local' \
	'tensor 3 50 local' 'tensor 4 50 local' 'period 0' 'alloc 2' 'launch 0 0 9 0 0 a' 'use 0 read' 'use 2 write-all' 'free 2' \
	'period 1' 'alloc 3' 'launch 1 9 5 0 0 a' 'use 0 read' 'use 3 write-all' 'free 3' \
	'period 2' 'alloc 4' 'launch 2 20 7 0 0 a' 'use 0 read' 'use 4 write-all' 'free 4' 'end 3 5 6' >three.txt
expect 0 "" check three.txt
expect 0 "" period three.txt -o one.trace
[ "$("$SLUICE_BIN" trace show one.trace --text | grep -v '^#' | tr '\n\t' '; ')" = "sluice-trace 1;clock 1000;tensor 0 100 global w;\
tensor 1 200 global idle;tensor 2 50 local;period 0;alloc 2;launch 0 0 7 0 0 a; use 0 read; use 2 write-all;free 2;end 1 3 2;" ] ||
	fail "the period in the middle: $("$SLUICE_BIN" trace show one.trace --text)"
expect 0 "launch 0 0 9 0 0 a" period three.txt -o - --as-text --period 0
expect 1 "no period 3" period three.txt -o x.trace --period 3
expect 2 "period needs -o FILE" period three.txt
expect 2 "period takes one file" period -o x.trace

# A network of one's own, by its options.
mkdir -p own/frontend/Nets own/results/Net
cat >own/frontend/Nets/Net.txt <<'END'
Net(
  (conv): Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)
  (relu): ReLU(inplace=True)
)
END
for i in 0 1 2 3 4 5 6 7; do
	[ $i = 7 ] || echo "$i 0.5 ms" >>times
done
for suffix in "" InputPF PF; do cp times "own/results/Net/cudnn4$suffix.txt"; done
sed 's/0.5 ms/0 B/' times >own/results/Net/cudnn4Workspace.txt
expect 1 "say its family" import own Net 4 -o own.trace
expect 1 "height and width" import own Net 4 --family plain -o own.trace
expect 1 "ends after 7 lines; the network has 8" import own Net 4 --family plain --input 8x8 -o own.trace
[ ! -e own.trace ] || fail "a failed import leaves a file"
for suffix in "" InputPF PF; do echo "7 0.5 ms" >>"own/results/Net/cudnn4$suffix.txt"; done
echo "7 0 B" >>own/results/Net/cudnn4Workspace.txt
expect 0 "" import own Net 4 --family plain --input 8x8 -o own.trace
expect 0 "8, 3 forward" show own.trace

# Wrong files: which, where, why; exit status 1.
head -c 2000 bert.trace >cut.trace
expect 1 "cut.trace: record" check cut.trace
expect 1 "incomplete" check bert.trace cut.trace
grep -v '^tensor 5 ' bert.txt >lost.txt
expect 1 "the tensor's number is 6; the next is 5" check lost.txt
sed 's/^tensor 3 [0-9]*/tensor 3 9223372036854775808/' bert.txt >huge.txt
expect 1 "huge.txt: line 9: " check huge.txt
sed '1s/1/3/' bert.txt >future.txt
expect 1 "version 3 of the trace format" check future.txt

# Ratios: kept by a period, summed up, and refused where they cannot be.
sed -e '1s/1/2/' -e '/^tensor 0 /a ratio 0 5000' -e '/^tensor 2 /a ratio 2 10000' \
	three.txt >ratio.txt
expect 0 "" check ratio.txt
expect 0 "ratio     0.667 of 150 B (2 tensors)" show ratio.txt
expect 0 "" period ratio.txt -o ratio.trace --period 0
[ "$("$SLUICE_BIN" trace show ratio.trace --text | grep '^[sr][la]' | tr '\n' ';')" = \
	"sluice-trace 2;ratio 0 5000;ratio 2 10000;" ] || fail "ratios of a period"
"$SLUICE_BIN" trace show three.txt | grep -q '^ratio' && fail "a ratio of nothing"
if command -v python3 >/dev/null; then
	"$SLUICE_BIN" trace show ratio.txt --json | python3 -c '
import json, sys
t = json.load(sys.stdin)
assert t["ratio_tensors"] == 2 and t["ratio_bytes"] == 150 and abs(t["ratio"] - 2 / 3) < 1e-6, t
' || fail "show --json of ratios"
	"$SLUICE_BIN" trace show three.txt --json | python3 -c '
import json, sys
t = json.load(sys.stdin)
assert t["ratio_tensors"] == 0 and t["ratio"] is None, t
' || fail "show --json without ratios"
fi
sed 's/^ratio 0 5000/ratio 0 10001/' ratio.txt >large.txt
expect 1 "large.txt: line 4: a ratio of 10001 of tensor 0" check large.txt
sed '1s/2/1/' ratio.txt >early.txt
expect 1 "early.txt: line 4: a ratio in a file of version 1" check early.txt
expect 1 "not a trace" check "$0"
expect 1 "No such file" check nothing.trace
expect 1 "/nowhere" import /nowhere VIT 256 -o x.trace

# Wrong command lines: exit status 2, nothing done.
expect 2 "show, check, period or vitality?"
expect 2 "'shows' is not one of" shows bert.trace
expect 2 "show does not take --svg" show bert.trace --svg x
expect 2 "check does not take --json" check bert.trace --json
expect 2 "two forms" show bert.trace --text --json
expect 2 "import: needs -o" import "$data" VIT 256
expect 2 "a model and a batch size" import "$data" VIT -o x
expect 2 "'0' is not a batch size" import "$data" VIT 0 -o x
expect 2 "write it like 224x224" import own Net 4 --input 8y8 -o x
expect 2 "takes one file" show
expect 2 "at least one file" check

# The example of the manual.
awk '/^```/ { inside = !inside; next } inside' "$SLUICE_SOURCE_DIR/man/sluice-trace.5.scd" >manual.txt
expect 0 "" check manual.txt
expect 0 "two launches" show manual.txt

exit $failed
