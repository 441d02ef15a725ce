#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# papers/figures.py on one model: tables beside published values, pictures that are XML, the same
# bytes whatever the number of threads, models without data named, bars judged, and a failing bar
# seen as such. Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_PAPERS_BIN:?}" "${SLUICE_SOURCE_DIR:?}"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
figures=$SLUICE_SOURCE_DIR/papers/figures.py
data=$SLUICE_SOURCE_DIR/tests/data/g10
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

[ -d "$data/results/BERT_Base" ] || { echo "no traces in $data"; exit 77; }

# One model only, so that the rest is missing.
mkdir -p one/results
cp -r "$data/frontend" "$data/expected" one/
cp -r "$data/results/BERT_Base" one/results/

"$figures" --data one --figure 2 --figure 11 --figure 12 --figure 13 --figure 14 \
	--jobs 2 --out first --check 2>err || fail "figures: $(cat err)"
cp err first.err
grep -q '^ResNet152: no kernel times' err || fail "a missing model is not named on stderr"
grep -q 'left out: ViT, Inceptionv3, ResNet152, SENet154' first/figures.md ||
	fail "missing models are not named in the tables"
grep -q '| BERT-256 | 8.743 / 8.743 (+0.00 %) | 23.580 / ' first/figures.md ||
	fail "published values are not beside ours"
grep -q '| FlashNeuron, times and failures | .* | pass |' first/figures.md ||
	fail "no verdict on FlashNeuron"
grep -q '^## Figure 15' first/figures.md && fail "a figure that was not asked for"
for picture in figure2-BERT_Base figure11 figure12 figure13 figure14; do
	[ -s "first/$picture.svg" ] || fail "no picture $picture"
	grep -q "$picture.svg" first/figures.md || fail "$picture is not in the tables"
	python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "first/$picture.svg" ||
		fail "$picture is not XML"
done

# The same on one thread and on a terminal: work of more than two seconds shows that it goes on there.
on_terminal="$figures --data one --figure 2 --figure 11 --figure 12 --figure 13 --figure 14 \
	--jobs 1 --out second"
if command -v script >/dev/null; then
	script -qefc "$on_terminal" err >/dev/null 2>&1 </dev/null || fail "figures on one thread: $(cat err)"
	seconds=$(grep -oE 'configurations in [0-9]+' err | grep -oE '[0-9]+$')
	[ "${seconds:-0}" -lt 4 ] || grep -q 'simulating: *[0-9]* %' err || fail "no progress: $(cat err)"
else
	$on_terminal 2>err || fail "figures on one thread: $(cat err)"
fi
grep -q simulating first.err && fail "progress in a log: $(cat first.err)"
diff -r first second || fail "the number of threads changes the figures"

# A published value that ours cannot meet is seen.
sed -i 's/^11,BERT_Base,256,128,3.2,15.754,uvm,.*/11,BERT_Base,256,128,3.2,15.754,uvm,1/' \
	one/expected/cycles.csv
"$figures" --data one --figure 11 --check >out 2>err && fail "a wrong value passes"
grep -q '^not met: Base UVM and DeepUM+' err || fail "the bar is not named: $(cat err)"
"$figures" --data one --figure 11 --json >out.json 2>err || fail "json: $(cat err)"
python3 - <<'PY' || fail "the JSON object"
import json
d = json.load(open("out.json"))
assert "VIT" in d["missing_models"]
cells = {c["policy"]: c for c in d["cells"]}
assert cells["ideal"]["cycles"] == 8742558777
assert cells["uvm"]["published_cycles"]["11"] == 1
assert not [b for b in d["bars"] if b["what"].startswith("Base UVM and DeepUM+, times")][0]["passed"]
PY

# Outside the source tree, without a name for the data.
"$SLUICE_PAPERS_BIN" figures --figure 2 2>err && fail "no source tree, no error"
grep -q 'tests/data/g10: .*run it in the source tree, or name .* --data DIR' err ||
	fail "the way out is not named: $(cat err)"

# What cannot be.
"$figures" --data nowhere 2>err && fail "no data, no error"
grep -q 'nowhere/expected/cycles.csv' err || fail "the missing file is not named: $(cat err)"
mkdir -p empty
cp -r "$data/expected" empty/
"$figures" --data empty --figure 2 2>err && fail "no traces, no error"
echo "11,BERT_Base,256" >>one/expected/cycles.csv
"$figures" --data one --figure 2 2>err && fail "a cut row passes"
grep -q 'cycles.csv: line [0-9]*: 3 fields' err || fail "the cut row is not named: $(cat err)"
"$SLUICE_PAPERS_BIN" figures --figure 5 2>err && fail "figure 5 is taken"
grep -q "is not one of 2-4, 11-19" err || fail "the figures are not named: $(cat err)"
for wrong in "--figure 5" "--figure x" "--jobs 0" "--out a --update" "--update --figure 2" "extra" \
	"--nonsense"; do
	# shellcheck disable=SC2086
	"$figures" $wrong >out 2>err
	[ $? -eq 2 ] || fail "'$wrong' is taken"
done
exit $failed
