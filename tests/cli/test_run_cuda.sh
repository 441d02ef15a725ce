#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice run` and `sluice doctor -- PROGRAM` around a CUDA program, on the stand-in driver: the example
# with twice the device memory that it is given and with more than device and host memory, what is said
# at start and exit, --stats, --explain, settings by hand, processes that end in other ways, and the
# verdicts of doctor. test_run.sh has the launcher without CUDA.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${CC:?}"
# shellcheck source=tests/cli/needs.sh
. "$SLUICE_SOURCE_DIR/tests/cli/needs.sh"
needs_preload
if [ ! -e "$SLUICE_PRELOAD_LIBRARY" ]; then
	echo "FAIL $SLUICE_PRELOAD_LIBRARY is not built"
	exit 1
fi
needs_disk
failed=0
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
unset SLUICE_RUN LD_PRELOAD

fail()
{
	echo "FAIL $*"
	failed=1
}

# The driver's header, as far as the example needs it: the toolkit need not be there.
cp "$SLUICE_SOURCE_DIR/tests/cli/cuda_subset.h" cuda.h || exit 1
cat >init.c <<'END'
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int cuInit(unsigned);
int
main(int argc, char **argv)
{
	printf("%d\n", cuInit(0));
	fflush(stdout);
	if (argc > 1 && argv[1][0] == 'k')
		kill(getpid(), SIGKILL);
	if (argc > 1 && argv[1][0] == '_')
		_exit(0);
	return argc > 1 ? atoi(argv[1]) : 0;
}
END
# As JAX takes its memory: handles that could be shared, three times.
cat >mapper.c <<'END'
#include <stddef.h>
#include <stdio.h>
#define TRY(call)                                         \
	do {                                              \
		int result = call;                        \
		if (result) {                             \
			printf("%s: %d\n", #call, result); \
			return 1;                         \
		}                                         \
	} while (0)
typedef unsigned long long number;
struct what {
	int type, handles, location, device;
	void *other;
	unsigned char flags[8];
};
struct access {
	int location, device, flags;
};
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuCtxSynchronize(void);
int cuMemAlloc_v2(number *, size_t), cuMemFree_v2(number);
int cuMemCreate(number *, size_t, const struct what *, number), cuMemRelease(number);
int cuMemAddressReserve(number *, size_t, size_t, number, number), cuMemAddressFree(number, size_t);
int cuMemMap(number, size_t, size_t, number, number), cuMemUnmap(number, size_t);
int cuMemSetAccess(number, size_t, const struct access *, size_t);
int cuMemsetD8_v2(number, unsigned char, size_t);
int
main(void)
{
	const size_t bytes = 4 << 20;
	const struct what what = {1, 1, 1, 0, NULL, {0}};
	const struct access access = {1, 0, 3};
	number small, addr, handle;
	void *context;

	TRY(cuInit(0));
	TRY(cuDevicePrimaryCtxRetain(&context, 0));
	TRY(cuCtxSetCurrent(context));
	TRY(cuMemAlloc_v2(&small, 4096));
	for (int i = 0; i < 3; i++) {
		TRY(cuMemAddressReserve(&addr, bytes, 0, 0, 0));
		TRY(cuMemCreate(&handle, bytes, &what, 0));
		TRY(cuMemMap(addr, bytes, 0, handle, 0));
		TRY(cuMemSetAccess(addr, bytes, &access, 1));
		TRY(cuMemsetD8_v2(addr, 1, bytes));
		TRY(cuCtxSynchronize());
		TRY(cuMemUnmap(addr, bytes));
		TRY(cuMemRelease(handle));
		TRY(cuMemAddressFree(addr, bytes));
	}
	TRY(cuMemFree_v2(small));
	return 0;
}
END
driver=$SLUICE_STANDIN_PLAIN
ln "$driver" standin.so || exit 1 # the library would see where a symbolic link leads
link=("$driver" "-Wl,-rpath,$(dirname "$driver")")
"$CC" -O1 -I. "$SLUICE_SOURCE_DIR/examples/run/oversubscribed.c" "${link[@]}" -o oversubscribed &&
	"$CC" init.c "${link[@]}" -o init && "$CC" mapper.c "${link[@]}" -o mapper &&
	"$CC" -O3 -D_GNU_SOURCE -shared -fPIC -I"$SLUICE_SOURCE_DIR/tests" \
		"$SLUICE_SOURCE_DIR/tests/cli/oversubscribed_twin.c" -o twin.so || exit 1

export SLUICE_CUDA_LIBRARY=$driver STANDIN_TABLE=$PWD/standin.so LD_PRELOAD=$PWD/twin.so
export CUDA_STANDIN_QUIET=1 CUDA_STANDIN_DEVICE_BYTES=256M TMPDIR=$PWD
budgets=(--device-memory 64M --host-memory 384M)

# number NAME FILE: the number that is NAME's in a file of statistics, the first of that name.
number()
{
	sed -n 's/.*"'"$1"'": \([0-9]*\).*/\1/p' "$2" | head -n 1
}

# Without us; then with a half, and with a store.
[ "$(./oversubscribed 128)" = "128 MiB: all words right" ] || fail "the example does not run by itself"
"$SLUICE_BIN" run "${budgets[@]}" --stats s.json --explain ./oversubscribed 128 >out 2>err ||
	fail "twice the device memory: exit status $?: $(cat err)"
[ "$(cat out)" = "128 MiB: all words right" ] || fail "said: $(cat out)"
grep -q '^sluice: GPU 0: 64 MiB of its memory, 384 MiB of host memory, ' err ||
	fail "no line of what was chosen: $(cat err)"
grep -q '^sluice: GPU 0: .* moved in, .* out; ' err || fail "no line of what was done: $(cat err)"
grep -q '^sluice: 40 launches ' err || fail "launches are not counted: $(cat err)"
grep -q 'launches *took all .*function$' err || fail "--explain: no table: $(cat err)"
grep -q ' 40 .* step$' err || fail "--explain: the kernel is not there: $(cat err)"
grep -vq '^sluice: ' err && fail "lines that are not ours: $(grep -v '^sluice: ' err)"
if command -v python3 >/dev/null && python3 -c 'import json' 2>/dev/null; then
	env -u LD_PRELOAD python3 - <<-'END' || fail "statistics are not what was promised: $(cat s.json)"
		import json
		s = json.load(open("s.json"))
		assert s["schema"] == 1 and s["ended"] and s["cuinit"] == 0 and s["program"] == "oversubscribed"
		assert s["road"] == "linking" and s["driver_version"] == 13000
		assert s["counters"]["allocations"] == 8 and s["counters"]["launches"] == 40
		gpu = s["gpus"][0]
		assert gpu["device"]["peak_bytes"] <= gpu["device"]["budget_bytes"] == 64 << 20
		assert gpu["counters"]["d2h_evict"] > 0
		step = [f for f in s["functions"] if f["name"] == "step"]
		assert step and step[0]["launches"] == 40
	END
fi
# More than the GPU has: its size is said, and what is used instead. A store of any size is the disk's.
"$SLUICE_BIN" run --device-memory 9999G --host-memory 384M --stats s.json ./oversubscribed 128 >out 2>err ||
	fail "more than the GPU has: exit status $?: $(cat err)"
[ "$(cat out)" = "128 MiB: all words right" ] || fail "more than the GPU has, said: $(cat out)"
grep -q '^sluice: GPU 0 has 256 MiB of memory, not 9.8 TiB (--device-memory): 128 MiB are used' err ||
	fail "more than the GPU has: not said: $(cat err)"
grep -q '^sluice: GPU 0: 128 MiB of its memory' err || fail "more than the GPU has: chosen: $(cat err)"
"$SLUICE_BIN" run "${budgets[@]}" --store-memory 18014398509481983K --stats s.json ./oversubscribed 512 >out 2>err ||
	fail "a store of 2^64 bytes: exit status $?: $(cat err)"
[ "$(cat out)" = "512 MiB: all words right" ] || fail "a store of 2^64 bytes, said: $(cat out) $(cat err)"
grep -q 'GPU 0 has' err && fail "less than the GPU has: $(cat err)"
# That nobody used CUDA is said where the driver found no device, not here.
if command -v script >/dev/null; then
	script -qefc "'$SLUICE_BIN' run ${budgets[*]} ./init" /dev/null </dev/null >typed 2>&1 ||
		fail "on a terminal: $(cat typed)"
	grep -q 'no process used CUDA' typed && fail "it was used: $(cat typed)"
	CUDA_STANDIN_INIT=100 script -qefc "'$SLUICE_BIN' run ${budgets[*]} ./init" /dev/null </dev/null >typed 2>&1
	grep -q 'no process used CUDA' typed || fail "there was no device: $(cat typed)"
fi
"$SLUICE_BIN" run --device-memory 32M --host-memory 32M --quiet --stats s.json ./oversubscribed 128 \
	>out 2>err || fail "with a store: exit status $?: $(cat err)"
[ "$(cat out)" = "128 MiB: all words right" ] || fail "with a store, said: $(cat out)"
[ -s err ] && fail "--quiet is not: $(cat err)"
[ "$(number store_write_spill s.json)" -gt 0 ] || fail "nothing was spilled: $(cat s.json)"
[ "$(number allocations s.json)" = 8 ] || fail "the first statistics were not replaced"
# Its staging would be too small.
[ "$(number compress_write_saved s.json)" = 0 ] || fail "compressed by threads: $(cat s.json)"
"$SLUICE_BIN" run --device-memory 32M --host-memory 32M --compress always --stats s.json \
	./oversubscribed 128 >out 2>err || fail "--compress always: exit status $?: $(cat err)"
[ "$(cat out)" = "128 MiB: all words right" ] || fail "--compress always, said: $(cat out)"
[ "$(number compress_write_saved s.json)" -gt 0 ] || fail "--compress always: nothing saved: $(cat s.json)"
[ "$(number compress_read_saved s.json)" -gt 0 ] || fail "--compress always: nothing saved: $(cat s.json)"

# Whatever it is told, the result is the same.
for options in "--baseline naive" "--baseline opt" "--kernel-args all" "--kernel-args trust" "--prefetch off" \
	"--managed sluice --report-memory physical" "--set policy=plan --verbose"; do
	"$SLUICE_BIN" run --device-memory 32M --host-memory 128M $options ./oversubscribed 64 \
		>out 2>err || fail "$options: exit status $?: $(cat err)"
	[ "$(cat out)" = "64 MiB: all words right" ] || fail "$options: said $(cat out)"
	case $options in
	--baseline*) grep -q "; mode ${options#--baseline }\$" err || fail "$options: $(cat err)" ;;
	*--verbose) grep -q "driver $driver, reached by linking\$" err || fail "$options: $(cat err)" ;;
	esac
done

# An interpreter that finds the driver by name, and says nothing of ours when it did nothing with it.
if command -v python3 >/dev/null && python3 -c 'import ctypes' 2>/dev/null; then
	got=$("$SLUICE_BIN" run --stats python.json python3 -c \
		'import ctypes; print(ctypes.CDLL("libcuda.so.1").cuInit(0))' 2>err)
	[ "$got" = 0 ] && [ ! -s err ] || fail "python: '$got', $(cat err)"
	grep -q '"road": "dlsym"' python.json || fail "python: $(cat python.json)"
fi

# Settings for frameworks are told where the framework is, and in no other process.
mkdir -p jaxlib fake
for file in jaxlib/any.so fake/libtorch_cuda.so; do
	echo 'int nothing;' | "$CC" -x c -shared -fPIC - -o $file || exit 1
done
grep -q 'PyTorch\|JAX\|TensorFlow\|memory queries' err && fail "a framework that is not there: $(cat err)"
LD_PRELOAD=$LD_PRELOAD:$PWD/fake/libtorch_cuda.so "$SLUICE_BIN" run "${budgets[@]}" \
	./oversubscribed 32 >/dev/null 2>err || fail "with a framework: $(cat err)"
grep -q '^sluice: PyTorch: .*--no-framework pytorch' err || fail "PyTorch is not told: $(cat err)"
grep -q 'JAX\|TensorFlow\|memory queries' err && fail "too many frameworks: $(cat err)"
LD_PRELOAD=$LD_PRELOAD:$PWD/fake/libtorch_cuda.so "$SLUICE_BIN" run "${budgets[@]}" \
	--no-framework pytorch ./oversubscribed 32 >/dev/null 2>err
grep -q 'PyTorch' err && fail "refused, and told: $(cat err)"
LD_PRELOAD=$LD_PRELOAD:$PWD/jaxlib/any.so "$SLUICE_BIN" run "${budgets[@]}" \
	./oversubscribed 32 >/dev/null 2>err || fail "with JAX: $(cat err)"
grep -q '^sluice: JAX: ' err && grep -q '^sluice: memory queries tell what the GPU has' err ||
	fail "JAX is not told: $(cat err)"
grep -q '^sluice: JAX: each array' err && grep -q '^sluice: JAX: memory that it maps' err ||
	fail "JAX is not told all: $(cat err)"

# Memory that is mapped by the program and could be shared: paged for JAX on one GPU alone.
# mapped WHAT LIBRARY OPTION ...: the counter is WHAT with that library loaded
mapped()
{
	local what=$1 with=$LD_PRELOAD${2:+:$PWD/$2}
	shift 2
	LD_PRELOAD=$with "$SLUICE_BIN" run "${budgets[@]}" "$@" --stats mapped.json ./mapper >out 2>err ||
		fail "mapper $*: exit status $?: $(cat out err)"
	[ "$(number mapped mapped.json)" = "$what" ] ||
		fail "mapper $*: $(number mapped mapped.json) mapped, not $what: $(cat err)"
}
mapped 3 jaxlib/any.so
mapped 0 ""
mapped 0 fake/libtorch_cuda.so
mapped 0 jaxlib/any.so --vmm-memory sluice
mapped 0 jaxlib/any.so --no-framework jax
mapped 0 jaxlib/any.so --keep-frameworks
mapped 3 "" --vmm-memory all
CUDA_STANDIN_DEVICES=2 mapped 0 jaxlib/any.so
grep -q '^sluice: JAX on several GPUs: ' err || fail "several GPUs: not said: $(cat err)"
CUDA_STANDIN_DEVICES=2 mapped 3 jaxlib/any.so --vmm-memory all

# Too much for all three: out of memory as the program knows it, explained.
"$SLUICE_BIN" run --device-memory 32M --host-memory 32M --store-memory 0 ./oversubscribed 128 >out 2>err
[ $? = 1 ] || fail "too much: exit status is not 1: $(cat out err)"
grep -q 'cuMemAlloc.* failed' out || fail "too much: said $(cat out)"
grep -q '^sluice: .*memory' err || fail "too much: not explained: $(cat err)"

# Statistics of several processes: none is lost, none is written over.
"$SLUICE_BIN" run --stats many.json sh -c './init; ./init; exec ./init 6' >out 2>err
[ $? = 6 ] || fail "three processes: $(cat err)"
[ "$(cat many.json* | grep -c '"schema"')" = 3 ] || fail "three processes: $(ls)"
grep -q "many.json is another process's" err || fail "not said: $(cat err)"
"$SLUICE_BIN" run --quiet --stats p%p.json sh -c './init; ./init' >/dev/null 2>err
[ "$(ls p[0-9]*.json | wc -l)" = 2 ] && [ ! -s err ] || fail "%p: $(ls) $(cat err)"
# Written at the start, and again at the end: the same file, and nobody else's.
echo other >twice.json
env LD_PRELOAD="$SLUICE_PRELOAD_LIBRARY" SLUICE_RUN="doctor=1,quiet=1,stats=$PWD/twice.json" \
	./init >/dev/null || fail "written twice"
[ "$(cat twice.json)" = other ] && [ "$(ls twice.json.*[0-9] | wc -l)" = 1 ] || fail "twice: $(ls twice*)"
grep -q '"ended": true' twice.json.*[0-9] || fail "twice: $(cat twice.json.*[0-9])"
"$SLUICE_BIN" run --stats killed.json ./init _ >/dev/null 2>err
[ ! -e killed.json ] && [ ! -s err ] || fail "_exit() says something: $(cat err)"

# Off: the library is there and does nothing.
"$SLUICE_BIN" run --baseline off --stats off.json ./oversubscribed 128 >out 2>err || fail "off: $(cat err)"
[ "$(cat out)" = "128 MiB: all words right" ] || fail "off: $(cat out)"
[ "$(number allocations off.json)" = 0 ] || fail "off: allocations were served"

# Settings by hand: what cannot be read is an error of cuInit(), said in one line.
# by_hand RESULT SETTINGS PART
by_hand()
{
	local got
	got=$(env LD_PRELOAD="$SLUICE_PRELOAD_LIBRARY" SLUICE_RUN="$2" ./init 2>err)
	[ "$got" = "$1" ] || fail "SLUICE_RUN='$2': cuInit() returns $got, not $1"
	if [ "$1" = 0 ]; then
		[ -s err ] && fail "SLUICE_RUN='$2': $(cat err)"
	elif [ "$(wc -l <err)" != 1 ] || ! grep -qF "sluice: SLUICE_RUN: $3" err; then
		fail "SLUICE_RUN='$2': no '$3' in: $(cat err)"
	fi
}
by_hand 0 "" ""
by_hand 0 "quiet=1,mode=naive,arguments=trust,meminfo=auto,managed=ours,mapped=driver,follow=never,stats=,policies=" ""
by_hand 0 'stats=a\,b\\c,frameworks=jax+pytorch' ""
by_hand 1 "mode" '"mode" is not key=value'
by_hand 1 "=paged" '"" is not key=value'
by_hand 1 "mode=paged,," '"" is not key=value'
by_hand 1 "mode=quick" 'mode=quick: not one of paged|naive|opt|off'
by_hand 1 "mode=" 'mode=: not one of'
by_hand 1 "mode=paged|naive" 'mode=paged|naive: not one of'
by_hand 1 "arguments=none" 'arguments=none: not one of learn|all|trust'
by_hand 1 "meminfo=x" 'meminfo=x: not one of virtual|physical|auto'
by_hand 1 "managed=x" 'managed=x: not one of driver|ours'
by_hand 1 "mapped=x" 'mapped=x: not one of ours|all|driver|auto'
by_hand 1 "quiet=2" 'quiet=2: 0 or 1 wanted'
by_hand 1 "colour=red" 'unknown key "colour"'
by_hand 1 "$(printf 'k%.0s' {1..80})=1" '"kkkkkkkk'
by_hand 1 "stats=$(printf 'x%.0s' {1..1100})" 'stats: value longer than 1023 bytes'

# doctor.
# verdict STATUS VERDICT PART ARGUMENTS...
verdict()
{
	local want=$1 name=$2 part=$3 status
	shift 3
	"$SLUICE_BIN" doctor --json -- "$@" >verdict 2>/dev/null
	status=$?
	[ $status = "$want" ] || fail "doctor $*: exit status $status, not $want: $(cat verdict)"
	grep -qF "\"verdict\": \"$name\"" verdict || fail "doctor $*: not '$name': $(cat verdict)"
	grep -qF -- "$part" verdict || fail "doctor $*: no '$part': $(cat verdict)"
}
verdict 0 covered "8, all served" ./oversubscribed 128
grep -q '"40 launches, ' verdict || fail "doctor: launches: $(cat verdict)"
# Memory that a program makes and maps itself; with an argument so that it could be shared.
cat >mapped.c <<'END'
#include "cuda.h"
int cuMemCreate(uint64_t *, size_t, const void *, unsigned long long);
int cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
int cuMemMap(CUdeviceptr, size_t, size_t, uint64_t, unsigned long long);
int cuMemSetAccess(CUdeviceptr, size_t, const void *, size_t);
int
main(int argc, char **argv)
{
	/* Type and handle types, location, nothing on Windows, flags; location and access. */
	const int what[8] = {1, argc > 1, 1, 0}, access[3] = {1, 0, 3};
	const size_t bytes = 4 << 20;
	CUcontext context;
	CUdeviceptr addr;
	uint64_t handle;

	(void)argv;
	return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	       cuMemCreate(&handle, bytes, what, 0) || cuMemAddressReserve(&addr, bytes, 0, 0, 0) ||
	       cuMemMap(addr, bytes, 0, handle, 0) || cuMemSetAccess(addr, bytes, access, 1) ||
	       cuMemsetD32(addr, 1, bytes / 4);
}
END
"$CC" -I. mapped.c "${link[@]}" -o mapped || fail "mapped.c does not compile"
verdict 0 covered "1, all served (1 mapped by the program itself)" ./mapped
verdict 1 "not covered" "4 MiB went past the library" ./mapped shared
verdict 0 "covered with limits" "none was served" ./init
verdict 0 "covered with limits" "exit code 3" sh -c './oversubscribed 128; exit 3'
verdict 0 "covered with limits" "1 did not end by exit()" sh -c './oversubscribed 128; ./init _'
verdict 1 unknown "no process called it" true
CUDA_STANDIN_INIT=999 verdict 1 "not covered" "cuInit() fails with 999" ./init
SLUICE_CUDA_LIBRARY=/nonexistent verdict 1 unknown "there is none here" ./init
# A child that drops the library loads the driver past it.
"$CC" -x c - -ldl -o past <<'END'
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
int
main(int argc, char **argv)
{
	if (argc == 1 && !unsetenv("LD_PRELOAD"))
		execl(argv[0], argv[0], "again", (char *)0);
	if (!dlopen(getenv("SLUICE_CUDA_LIBRARY"), RTLD_NOW))
		return 1;
	return sleep(1) != 0;
}
END
verdict 1 "not covered" "without the library: past" sh -c './oversubscribed 128; ./past'
"$SLUICE_BIN" doctor -- ./oversubscribed 128 >text 2>/dev/null || fail "doctor in text"
tail -n 1 text | grep -qx './oversubscribed: covered' || fail "doctor's last line: $(tail -n 1 text)"
"$SLUICE_BIN" doctor -- ./no-such-program >/dev/null 2>err && fail "doctor of nothing"
grep -q 'no-such-program' err || fail "doctor of nothing: $(cat err)"
ls -d sluice-doctor-* >/dev/null 2>&1 && fail "doctor left a directory behind"

# Pinning takes seconds: told on a terminal, in lines of their own, and with --quiet not.
if command -v script >/dev/null; then
	export CUDA_STANDIN_PIN_BYTES_PER_S=12M
	told='^sluice: GPU 0: pins host memory, [0-9.]* MiB of about [0-9]* MiB so far: '
	for options in "" --quiet; do
		script -qec "'$SLUICE_BIN' run ${budgets[*]} $options ./oversubscribed 128 >out" /dev/null </dev/null >screen
		[ "$(cat out)" = "128 MiB: all words right" ] || fail "slow pinning: $(cat out screen)"
		if [ -z "$options" ]; then
			grep -q "$told" screen || fail "pinning is not told: $(cat screen)"
		else
			grep -q 'pins host memory' screen && fail "--quiet: pinning is told: $(cat screen)"
		fi
	done
	"$SLUICE_BIN" run "${budgets[@]}" ./oversubscribed 128 >out 2>err || fail "slow pinning: $(cat err)"
	grep -q 'pins host memory' err && fail "pinning is told without a terminal: $(cat err)"
	unset CUDA_STANDIN_PIN_BYTES_PER_S
fi
exit $failed
