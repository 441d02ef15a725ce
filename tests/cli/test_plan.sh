#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice plan`: a trace is planned, simulated and reported; the plan that is written is the plan
# that is read; a sweep marks the smallest machines and more is never less; what cannot be done is
# said with the launch, the option or the line.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_PAPERS_BIN:?}" "${SLUICE_SOURCE_DIR:?}"
failed=0
data=$SLUICE_SOURCE_DIR/tests/data/g10

fail()
{
	echo "FAIL $*"
	failed=1
}

# has FILE WORDS
has()
{
	grep -qF -- "$2" "$1" || fail "no '$2' in $1: $(head -c 600 "$1")"
}

# value FILE KEY: of a JSON object as the tool prints it
value()
{
	sed -n "s/^ *\"$2\": \([^,]*\),*\$/\1/p" "$1" | head -1
}

# refused STATUS WORDS ARGUMENTS...
refused()
{
	refused_by "$SLUICE_BIN" "$@"
}

# refused_by PROGRAM STATUS WORDS ARGUMENTS...
refused_by()
{
	local program=$1 status=$2 words=$3

	shift 3
	"$program" plan "$@" >out 2>err
	[ $? = "$status" ] || fail "plan $*: exit code is not $status"
	has err "$words"
}

"$SLUICE_PAPERS_BIN" import "$data" BERT_Base 256 -o bert || fail "import"

# What fits runs as with unlimited memory, and nothing moves.
"$SLUICE_BIN" plan bert --device-memory 400G --json >fits || fail "plan that fits"
[ "$(value fits kept)" = 1 ] || fail "what fits is slower"
[ "$(value fits device_to_host_bytes)" = 0 ] || fail "what fits moves"
[ "$(value fits host_to_device_bytes)" = 0 ] || fail "what fits moves"

# What does not: between the bound and the published planner. The papers' program knows their rules.
set -- bert --host-memory 0 --as-published
"$SLUICE_PAPERS_BIN" plan "$@" --json -o bert.plan --svg run.svg >ours || fail "plan"
"$SLUICE_PAPERS_BIN" plan "$@" --json --policy g10 >g10 || fail "plan --policy g10"
"$SLUICE_PAPERS_BIN" plan "$@" --json --policy ideal >ideal || fail "plan --policy ideal"
[ "$(value ours bound_ticks)" -le "$(value ours period_ticks)" ] || fail "under the bound"
[ "$(value ours bound_ticks)" = "$(value ours moving_bound_ticks)" ] || fail "bounds as published"
[ "$(value ours period_ticks)" -le "$(value g10 period_ticks)" ] || fail "slower than g10"
[ "$(value ideal period_ticks)" = "$(value ours unlimited_ticks)" ] || fail "ideal"
[ "$(value ours device_to_store_bytes)" -gt 0 ] || fail "nothing moved"
[ "$(value ours device_to_host_bytes)" = 0 ] || fail "there is no host memory"
head -1 bert.plan | grep -qx 'sluice-plan 1' || fail "plan file"
grep -q '^<svg ' run.svg && tail -1 run.svg | grep -qx '</svg>' || fail "run.svg"

# The plan that was written does the same.
"$SLUICE_PAPERS_BIN" plan "$@" --json --plan bert.plan >again || fail "plan --plan"
[ "$(value again period_ticks)" = "$(value ours period_ticks)" ] || fail "--plan differs"
set -- bert --host-memory 0
"$SLUICE_BIN" plan "$@" --json -o own.plan --svg own.svg >ours || fail "sluice plan"
"$SLUICE_BIN" plan "$@" --json --planner g10 >g10 || fail "sluice plan --planner g10"
"$SLUICE_BIN" plan "$@" --json --plan own.plan >again || fail "sluice plan --plan"
[ "$(value ours bound_ticks)" -le "$(value ours period_ticks)" ] || fail "under the bound"
[ "$(value ours period_ticks)" -le "$(value g10 period_ticks)" ] || fail "slower than g10"
[ "$(value again period_ticks)" = "$(value ours period_ticks)" ] || fail "own --plan differs"
grep -q '^<svg ' own.svg && tail -1 own.svg | grep -qx '</svg>' || fail "own.svg"
"$SLUICE_BIN" plan bert >table || fail "table"
has table "unlimited"
has table "at least"
has table "device to host"

# The two bounds: one for all schedules, one for those that move what leaves.
"$SLUICE_BIN" plan bert --device-memory 30G >table || fail "plan --device-memory 30G"
has table "by any schedule"
has table "if all that leaves is moved"

# A policy that does not keep to the machine's rules has no bound.
"$SLUICE_BIN" plan bert --policy ideal >table || fail "plan --policy ideal"
grep -q "by any schedule" table && fail "a bound for what has no memory limit"
[ "$(value ideal bound_ticks)" = null ] || fail "a bound in JSON for ideal"

# The planners of the paper's variants make plans, too.
"$SLUICE_PAPERS_BIN" plan bert --planner g10-gds --device-memory 24G --json >gds || fail "g10-gds"
[ "$(value gds device_to_host_bytes)" = 0 ] || fail "g10-gds uses host memory"
[ "$(value gds device_to_store_bytes)" -gt 0 ] || fail "g10-gds moves nothing"
"$SLUICE_PAPERS_BIN" plan bert --planner g10-host --device-memory 24G --json >host || fail "g10-host"
[ "$(value host device_to_host_bytes)" -gt 0 ] || fail "g10-host does not use host memory"

# What the store holds is kept to.
small="--host-memory 0 --store capacity="
# shellcheck disable=SC2086
refused 1 "store" bert ${small}1G
for policy in plan lru uvm flashneuron g10-gds; do
	# shellcheck disable=SC2086
	[ $policy = plan ] || "$SLUICE_PAPERS_BIN" plan bert --policy $policy ${small}1T >out 2>err ||
		fail "1T: $(cat err)"
	# shellcheck disable=SC2086
	refused_by "$SLUICE_PAPERS_BIN" 1 "" bert --policy $policy ${small}1G
	grep -q "store" err || fail "$policy: not the store: $(cat err)"
done

# A sweep: more is never less, and the smallest that keeps enough is marked.
"$SLUICE_BIN" plan bert --sweep device-memory=8G..48G:4,host-memory=0..32G:2 --svg s.svg \
	--keep 0.9 >sweep || fail "sweep"
[ "$(grep -c ' GiB .*%' sweep)" = 8 ] || fail "not eight machines"
grep -q 'smallest that keep 90 %:$' sweep || fail "no smallest"
tail -1 s.svg | grep -qx '</svg>' || fail "s.svg"
"$SLUICE_BIN" plan bert --sweep device-memory=8G..48G:6 --json | sed -n 's/^ *"kept": //p' |
	tr -d , >kept
[ "$(wc -l <kept)" = 6 ] || fail "not six machines"
sort -g kept | cmp -s - kept || fail "more memory is slower: $(tr '\n' ' ' <kept)"

# Lists, ranges by a factor, both; each value once, rising; bytes to the last one in JSON.
"$SLUICE_BIN" plan bert --sweep device-memory=24G,8G..32G*2,20000000001,8G,host-memory=0,1P --json >list ||
	fail "sweep of a list"
sed -n 's/^ *"device-memory": \([^,]*\),$/\1/p' list | uniq | tr '\n' ' ' |
	grep -qx '8589934592 17179869184 20000000001 25769803776 34359738368 ' || fail "list: $(cat list)"
[ "$(grep -c '"host-memory": 1125899906842624,' list)" = 5 ] || fail "1P: $(cat list)"

# A drive's life, in days where it is short.
"$SLUICE_BIN" plan bert --host-memory 0 --store endurance=1P >table || fail "life"
grep -q '^drives last  *[0-9.]* days' table || fail "no days: $(cat table)"
"$SLUICE_BIN" plan bert --host-memory 0 --store endurance=10P >table || fail "life"
grep -q '^drives last  *[0-9.]* years' table && fail "years: $(cat table)"

# What cannot be done.
refused 1 "at least" bert --device-memory 1G
refused 1 "launch" bert --device-memory 1G
refused 1 "No such file" nothing
refused 1 "--store read=3.2G is faster than --link in=2G" bert --link 2G
refused 1 "--store write=3.2G is faster than --link out=2G" bert --link in=8G,out=2G
refused 1 "--device-memory: 0 bytes" bert --device-memory 0
refused 1 "--store capacity=" bert --store capacity=2000T
refused_by "$SLUICE_PAPERS_BIN" 1 "one GPU" bert --gpus 2 --policy g10-host
refused_by "$SLUICE_PAPERS_BIN" 1 "one GPU" bert --gpus 2 --policy flashneuron
refused 1 "is too much" bert --device-memory 900T
refused 1 "too fast" bert --link 900T
refused 1 "Is a directory" .
# A compressed link: half the bytes by a codec that is faster is twice the link. Nothing is said of it without
# ratios, and nothing is given without rates.
"$SLUICE_BIN" trace show bert --text |
	awk 'NR == 1 { $2 = 2 } { print } $1 == "tensor" { print "ratio", $2, 5000 }' >half
"$SLUICE_BIN" plan bert --device-memory 8G --json >raw || fail "plan without ratios"
[ "$(value raw ratio)" = null ] && [ "$(value raw compression)" = null ] || fail "ratios of none"
"$SLUICE_BIN" plan bert --device-memory 8G | grep -q '^ratio' && fail "a ratio of none"
"$SLUICE_BIN" plan half --device-memory 8G >told || fail "plan of ratios"
has told "ratio            0.500 of 148 GiB in 1463 of 1463 tensors: --codec says"
grep -q '^compression' told && fail "compression at rates that nobody gave"
set -- half --device-memory 8G --codec encode=600G,decode=1200G
"$SLUICE_BIN" plan "$@" >told || fail "plan --codec"
has told "codec            encodes 600 GB/s, decodes 1200 GB/s: as given"
grep -q '^compression  *without  *with$' told || fail "no table: $(cat told)"
"$SLUICE_BIN" plan "$@" --json -o half.plan >coded || fail "plan --codec --json"
"$SLUICE_BIN" plan bert --device-memory 8G --link 31.508G --json >twice || fail "twice the link"
[ "$(value coded raw_period_ticks)" = "$(value raw period_ticks)" ] || fail "without is another"
[ "$(value coded raw_bound_ticks)" = "$(value raw bound_ticks)" ] || fail "another bound without"
[ "$(value coded raw_moving_bound_ticks)" = "$(value raw moving_bound_ticks)" ] ||
	fail "another bound of moves without"
[ "$(value coded bound_ticks)" -lt "$(value raw bound_ticks)" ] || fail "the bound is no lower"
[ "$(value coded period_ticks)" -ge "$(value coded bound_ticks)" ] || fail "below the bound"
# near A B: less than 2 % apart
near()
{
	awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < 1.02 * b && b < 1.02 * a) }'
}
near "$(value coded period_ticks)" "$(value twice period_ticks)" || fail "not as twice the link"
near "$(value coded bound_ticks)" "$(value twice bound_ticks)" || fail "not the bound of twice the link"
near $(($(value coded link_out_bytes) * 2)) "$(value coded device_to_host_bytes)" ||
	fail "not half the bytes"
[ "$(value coded raw_link_out_bytes)" = "$(value raw device_to_host_bytes)" ] || fail "raw bytes"
# The plan is for that machine; a codec slower than the link is left out.
"$SLUICE_BIN" plan "$@" --plan half.plan --json >again || fail "the plan of a compressed link"
[ "$(value again period_ticks)" -ge "$(value coded bound_ticks)" ] || fail "faster than possible"
"$SLUICE_BIN" plan half --device-memory 8G --codec 15G --policy lru --json >slow || fail "slow codec"
[ "$(value slow period_ticks)" = "$(value slow raw_period_ticks)" ] || fail "a slow codec is used"
[ "$(value slow link_in_bytes)" = "$(value slow raw_link_in_bytes)" ] || fail "and saves bytes"
"$SLUICE_BIN" plan "$@" --sweep device-memory=8G,16G >swept || fail "sweep with a codec"
refused 1 "bert: no tensor has a ratio, which --codec needs" bert --codec 600G
refused 2 "both encode= and decode=" half --codec encode=600G
refused 2 "'fast' is not a rate" half --codec fast
refused 2 "is no value for decode" half --codec encode=1G,decode=0
refused 2 "--codec has no 'in'" half --codec in=1G,out=1G
refused 2 "--link has no 'encode'" half --link encode=1G
refused 2 "--codec is not for --policy ideal" half --codec 600G --policy ideal
refused_by "$SLUICE_PAPERS_BIN" 2 "goes not with --as-published" half --codec 600G --as-published
refused_by "$SLUICE_PAPERS_BIN" 2 "--codec is not for --policy uvm" half --codec 600G --policy uvm

refused 2 "carries out no plan" bert --policy lru -o x
refused 2 "which trace" --json
refused 2 "no planner 'none'" bert --planner none
refused 2 "no policy 'none'" bert --policy none
refused 2 "no planner 'g10-gds'" bert --planner g10-gds # of the papers
refused 2 "no policy 'uvm'" bert --policy uvm
refused 2 "unknown option '--as-published'" bert --as-published
# It takes a while: on a terminal that is seen, and never on standard output.
if command -v script >/dev/null; then
	# The faster the machine and the build, the more.
	for many in 6 16,host-memory=1G..64G:3 16,host-memory=1G..64G:8 32,host-memory=1G..64G:16; do
		many=device-memory=4G..40G:$many
		script -qec "'$SLUICE_BIN' plan bert --sweep $many >list.out" /dev/null </dev/null >screen
		grep -q 'trying machines: .* %' screen && break
	done
	grep -q 'trying machines: .* %' screen || fail "no progress on a terminal: $(cat screen)"
	"$SLUICE_BIN" plan bert --sweep $many >plain.out 2>err || fail "a large sweep"
	cmp -s list.out plain.out || fail "a sweep on a terminal prints something else"
	[ -s err ] && fail "progress without a terminal: $(cat err)"
fi

refused 2 "no axis 'depth'" bert --sweep depth=1..2
refused 2 "is not AXIS=VALUES" bert --sweep 8G,device-memory=8G
refused 2 "device-memory: 'much' is no value" bert --sweep device-memory=8G,much
refused 2 "device-memory: 16G..8G is not a range" bert --sweep device-memory=16G..8G
refused 2 "'*1' is not a factor" bert --sweep device-memory=8G..16G*1
refused 2 "not both" bert --sweep device-memory=8G..16G*2:3
refused 2 "host-memory twice" bert --sweep host-memory=1G,2G,host-memory=3G
refused 2 "--keep is of --sweep" bert --keep 0.9
refused 2 "--device-memory: 'much' is not a size" bert --device-memory much
refused 2 "is no value for read" bert --store read=fast
refused 2 "goes neither" bert --sweep device-memory=8G..16G -o x
refused 2 "is not a share" bert --keep 2
if [ -w /dev/full ]; then
	for full in "--svg /dev/full" "-o /dev/full"; do
		# shellcheck disable=SC2086
		refused 1 "No space left" bert $full
	done
	"$SLUICE_BIN" plan bert --json >/dev/full 2>err && fail "a full disk is not seen"
	[ "$(wc -l <err)" = 1 ] || fail "a full disk is said twice: $(cat err)"
	has err "No space left"
fi
sed 's/^end.*//' bert.plan >short
refused 1 "short:" bert --plan short
"$SLUICE_PAPERS_BIN" import "$data" BERT_Base 384 -o other || fail "import"
sed 's/^period 1369/period 1368/' bert.plan >wrong
refused 1 "1368" other --plan wrong

exit $failed
