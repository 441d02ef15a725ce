#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice ps`, `suspend`, `resume` and `limit` on programs of `sluice run` that share a stand-in device,
# and the options --alone and --suspended. preload/test_share has how memory is shared.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${CC:?}" "${SLUICE_SHARE_DIR:?}"
# shellcheck source=tests/cli/needs.sh
. "$SLUICE_SOURCE_DIR/tests/cli/needs.sh"
needs_preload
needs_disk
failed=0
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
unset SLUICE_RUN LD_PRELOAD

fail()
{
	echo "FAIL $*"
	failed=1
}

# A program of argv[1] MiB in blocks of 16 MiB. It runs a kernel over all of them for each line of its
# input, and at the end looks at each word.
cat >rounds.c <<'END'
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#define TRY(call) if (call) return puts(#call " failed"), 1
enum { WORDS = 4 << 20, BLOCKS_MAX = 64 };
static const char image[] = ".version 7.0\n.target sm_52\n.visible .entry step(.param "
			    ".u64 p, .param .u32 n) { ret; }\n";
int
main(int argc, char **argv)
{
	unsigned n = (unsigned)atoi(argv[argc - 1]) / 16, words = WORDS, factor = 1, sum = 0;
	static CUdeviceptr block[BLOCKS_MAX];
	static unsigned got[WORDS];
	char line[16];
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction step;

	TRY(cuInit(0) || cuDeviceGet(&device, 0) || n > BLOCKS_MAX);
	TRY(cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context));
	TRY(cuModuleLoadData(&module, image) || cuModuleGetFunction(&step, module, "step"));
	for (unsigned i = 0; i < n; i++)
		TRY(cuMemAlloc(&block[i], sizeof(got)) || cuMemsetD32(block[i], i, WORDS));
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (unsigned i = 0; i < n; i++)
			TRY(cuLaunchKernel(step, 64, 1, 1, 256, 1, 1, 0, NULL,
					   (void *[]){&block[i], &words}, NULL));
		TRY(cuCtxSynchronize());
		sum = 3 * sum + 1;
		factor *= 3;
		puts("round");
		fflush(stdout);
	}
	for (unsigned i = 0; i < n; i++) {
		TRY(cuMemcpyDtoH(got, block[i], sizeof(got)) || cuMemFree(block[i]));
		for (unsigned k = 0; k < WORDS; k++)
			TRY(got[k] != factor * i + sum * k);
	}
	return puts("right") < 0;
}
END
cp "$SLUICE_SOURCE_DIR/tests/cli/cuda_subset.h" cuda.h || exit 1
driver=$SLUICE_STANDIN_PLAIN
ln "$driver" standin.so || exit 1 # the library would see where a symbolic link leads
"$CC" -O1 -I. rounds.c "$driver" "-Wl,-rpath,$(dirname "$driver")" -o rounds &&
	"$CC" -O3 -D_GNU_SOURCE -DTWIN_PROGRAM='"rounds"' -shared -fPIC -I"$SLUICE_SOURCE_DIR/tests" \
		"$SLUICE_SOURCE_DIR/tests/cli/oversubscribed_twin.c" -o twin.so || exit 1
export SLUICE_CUDA_LIBRARY=$driver STANDIN_TABLE=$PWD/standin.so
export CUDA_STANDIN_QUIET=1 CUDA_STANDIN_DEVICE_BYTES=512M CUDA_STANDIN_SHARED=$PWD/device TMPDIR=$PWD

# await FILE WORD N: the file has the word N times. Something hangs after two minutes.
await()
{
	local tries=0 found
	# A program that is only being started has no file yet.
	while found=$(grep -c "$2" "$1" 2>/dev/null) || :; [ "${found:-0}" -lt "$3" ]; do
		tries=$((tries + 1))
		[ $tries -lt 1200 ] || {
			fail "$1: no $2 number $3: $(cat "$1" "${1%.out}.err")"
			exit 1
		}
		sleep 0.1
	done
}

# ps_await WORDS: sluice ps has a line of these words. Something hangs after two minutes.
ps_await()
{
	local tries=0
	until "$SLUICE_BIN" ps | grep -q "$1"; do
		tries=$((tries + 1))
		[ $tries -lt 1200 ] || {
			fail "ps: no $1 in: $("$SLUICE_BIN" ps)"
			exit 1
		}
		sleep 0.1
	done
}

# start NAME MIB OPTIONS...: a program with its input open as descriptor in $name_in.
start()
{
	local name=$1 mib=$2
	shift 2
	[[ " $* " == *" --alone "* ]] || set -- --share 1 "$@"
	mkfifo "$name.in"
	( # without the inputs of the others, which it would keep open
		for descriptor in "${inputs[@]}"; do
			exec {descriptor}>&-
		done
		export LD_PRELOAD=$PWD/twin.so
		exec "$SLUICE_BIN" run --host-memory 512M --quiet "$@" ./rounds "$mib" \
			<"$name.in" >"$name.out" 2>"$name.err"
	) &
	pids[$name]=$!
	exec {descriptor}>"$name.in"
	inputs[$name]=$descriptor
}
declare -A pids inputs

# end NAME: its input ends, and all was right.
end()
{
	local descriptor=${inputs[$1]}
	exec {descriptor}>&-
	wait "${pids[$1]}" || fail "$1: exit status $?: $(cat "$1.out" "$1.err")"
	grep -q right "$1.out" || fail "$1: $(cat "$1.out" "$1.err")"
}

[ "$("$SLUICE_BIN" ps)" = "no program of this user shares a GPU or host memory" ] || fail "ps of nothing: $("$SLUICE_BIN" ps)"
start first 96
start other 48 --alone
await first.out ready 1
await other.out ready 1
"$SLUICE_BIN" ps >ps.txt || fail "ps: exit status $?"
grep -qE "^GPU-[0-9a-f-]+: [0-9.]+ MiB for programs$" ps.txt || fail "ps: no line of the GPU: $(cat ps.txt)"
grep -qE "^ *${pids[first]}  rounds  .*  [0-9.]+ MiB  +[0-9.]+ MiB  +96 MiB" ps.txt || fail "ps: $(cat ps.txt)"
# Its first budget is little, since the first program has the rest. It says how much it may have.
LD_PRELOAD=$PWD/twin.so "$SLUICE_BIN" run --host-memory 512M ./rounds 16 </dev/null >late.out 2>late.err ||
	fail "a late program: exit status $?: $(cat late.out late.err)"
grep -qE "^sluice: GPU 0: up to [0-9.]+ MiB of its memory, beside other programs$" late.err ||
	fail "a late program: $(cat late.err)"
grep -qE "^sluice: GPU 0: [0-9.]+ MiB of its memory, 512 MiB of host memory, " late.err ||
	fail "a late program's host memory: $(cat late.err)"
grep -q "${pids[other]}" ps.txt && fail "ps lists a program that is alone: $(cat ps.txt)"

"$SLUICE_BIN" limit "${pids[first]}" --device-memory 32M >said || fail "limit: exit status $?"
grep -qE "^process ${pids[first]} holds (32|2[0-9]|1[0-9]) MiB of GPU-[0-9a-f-]+$" said || fail "limit: $(cat said)"
"$SLUICE_BIN" ps | grep -q "${pids[first]} .* its limit$" || fail "ps of a limit: $("$SLUICE_BIN" ps)"
echo >&"${inputs[first]}"
await first.out round 1

"$SLUICE_BIN" suspend "${pids[first]}" >said || fail "suspend: exit status $?"
grep -qE "^process ${pids[first]} holds (16|[0-9]) MiB of GPU-[0-9a-f-]+$" said || fail "suspend: $(cat said)"
echo >&"${inputs[first]}"
"$SLUICE_BIN" ps | grep -q "${pids[first]}  rounds .* suspended .*: sluice resume$" ||
	fail "ps of a suspended one: $("$SLUICE_BIN" ps)"
# A limit leaves it suspended.
"$SLUICE_BIN" limit "${pids[first]}" --device-memory auto >said || fail "limit auto: exit status $?"
"$SLUICE_BIN" ps | grep -q "${pids[first]}  rounds .* suspended " || fail "a limit resumes: $("$SLUICE_BIN" ps)"
[ "$(grep -c round first.out)" = 1 ] || fail "a suspended program runs"
"$SLUICE_BIN" resume "${pids[first]}" || fail "resume: exit status $?"
await first.out round 2

start late 32 --suspended
ps_await "${pids[late]}  rounds .* suspended "
[ -s late.out ] && fail "it was started suspended, and runs: $(cat late.out)"
"$SLUICE_BIN" resume "${pids[late]}" || fail "resume of one that was started suspended: exit status $?"
await late.out ready 1

kill -STOP "${pids[late]}"
ps_await "${pids[late]}  rounds .* stopped .*: it keeps what it holds$"
kill -CONT "${pids[late]}"
if command -v python3 >/dev/null; then
	"$SLUICE_BIN" ps --json | python3 -c '
import json, sys
gpus = json.load(sys.stdin)["gpus"]
assert len(gpus) == 1 and gpus[0]["gpu"].startswith("GPU-")
programs = {p["pid"]: p for p in gpus[0]["programs"]}
first, late = (programs[int(pid)] for pid in sys.argv[1:])
assert first["command"] == "rounds" and first["is_pid_of_here"] and first["limit_bytes"] is None
assert first["want_bytes"] >= 96 << 20 and first["launches"] >= 12 and first["weight"] == 1
assert sum(p["share_bytes"] for p in programs.values()) <= gpus[0]["room_bytes"]
' "${pids[first]}" "${pids[late]}" || fail "ps --json: $("$SLUICE_BIN" ps --json)"
fi

end first
end other
end late
[ "$("$SLUICE_BIN" ps)" = "no program of this user shares a GPU or host memory" ] || fail "ps of those that ended: $("$SLUICE_BIN" ps)"

# Two that do not fit together take turns.
start large 192 --turn 2
start wide 192 --share 2 --turn 2
await large.out ready 1
await wide.out ready 1
printf '\n%.0s' $(seq 150) >&"${inputs[large]}"
printf '\n%.0s' $(seq 150) >&"${inputs[wide]}"
ps_await " runs .*  has the turn: [0-9.]* s of [0-9.]* s so far$"
ps_await " waits .*  waits for its turn: [0-9.]* s so far$"
if command -v python3 >/dev/null; then
	"$SLUICE_BIN" ps --json | python3 -c '
import json, sys
programs = json.load(sys.stdin)["gpus"][0]["programs"]
assert len(programs) == 2 and sum(p["has_turn"] for p in programs) <= 1
for p in programs:
    assert not (p["has_turn"] and p["waits_for_turn"])
    assert p["has_turn"] or not p["turn_had_s"]
    assert p["waits_for_turn"] or not p["turn_wait_s"]
' || fail "ps --json of turns: $("$SLUICE_BIN" ps --json)"
fi
end large
end wide

# Where host memory and disk are full, orders are followed as far as they can be. It is said, and the program
# goes on.
start tight 160 --host-memory 16M --store-memory 16M
await tight.out ready 1
"$SLUICE_BIN" suspend "${pids[tight]}" >said || fail "suspend of one that cannot give all: exit status $?"
grep -qE "^process ${pids[tight]} holds [0-9]+ MiB of GPU-[0-9a-f-]+$" said || fail "suspend of one that cannot give all: $(cat said)"
await tight.err "not all that other programs need of its memory can be given up: .*store budget" 1
echo >&"${inputs[tight]}"
"$SLUICE_BIN" resume "${pids[tight]}" || fail "resume of one that could not give all: exit status $?"
await tight.out round 1
"$SLUICE_BIN" limit "${pids[tight]}" --device-memory 8M >said || fail "limit of one that cannot give all: exit status $?"
ps_await "${pids[tight]} .* its limit: it can give no more$"
printf '\n%.0s' $(seq 4) >&"${inputs[tight]}"
await tight.out round 5
end tight

# What is wrong is said.
# wrong STATUS WORDS COMMAND...
wrong()
{
	local status=$1 words=$2 got
	shift 2
	"$SLUICE_BIN" "$@" >out 2>err
	got=$?
	[ $got = "$status" ] && grep -q -- "$words" err || fail "$*: exit status $got: $(cat out err)"
}
wrong 1 "shares no GPU" suspend $$
wrong 1 "shares no GPU" resume $$
wrong 1 "shares no GPU" limit $$ --device-memory 1G
wrong 2 "is not a process number" suspend first
wrong 2 "one process number wanted" suspend
wrong 2 "one process number wanted" resume 1 2
wrong 2 "SIZE is missing" limit 1
wrong 2 "at least 8M" limit 1 --device-memory 1M
wrong 2 "unexpected argument" ps 1
wrong 125 "--alone goes without" run --alone --share 2 true
wrong 125 "--alone goes without" run --alone --turn 2 true
wrong 125 "--turn 0 is not a number of seconds" run --turn 0 true
wrong 125 "--leave 1K is not a size" run --leave 1K true
wrong 125 "--share 0 is not a number" run --share 0 true
book=$(ls "$SLUICE_SHARE_DIR"/book-GPU-*)
chmod 644 "$book"
wrong 1 "is not this user's alone" ps
chmod 600 "$book"
printf 'damaged!' | dd of="$book" conv=notrunc 2>/dev/null
wrong 1 "is damaged: the next program that shares makes it anew" ps
rm "$book" && mkdir "$book"
wrong 1 "it is no file: remove it" ps
exit $failed
