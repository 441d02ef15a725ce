#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice top`: programs with their bytes and rates, the busiest first; a program that is idle, stopped
# or ends meanwhile; a narrow terminal; JSON; wrong options. Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${SLUICE_LIB:?}" "${CC:?}"
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

# A region of 16 MiB under 4 MiB of device memory. With an argument it is read again and again;
# without one it says that it is ready when it has read for the last time.
cat >program.c <<'END'
#include <stdio.h>
#include <unistd.h>
#include <sluice/binding.h>
#include <sluice/sluice.h>

int
main(int argc, char **argv)
{
	struct sluice_space *space;
	volatile char *bytes;
	void *addr;
	char sum = 0;

	(void)argv;
	if (sluice_space_open("device_budget=4M,host_budget=32M,publish=1", &space) ||
	    sluice_alloc(space, 16 << 20, 0, &addr)) {
		fprintf(stderr, "%s\n", sluice_last_error());
		return 77;
	}
	bytes = addr;
	for (unsigned round = 0; round < 2 || argc > 1; round++)
		for (size_t i = 0; i < 16 << 20; i += 4096) {
			bytes[i] = (char)round;
			sum += bytes[i];
			if (argc > 1 && round == 1 && i == 0) {
				puts("ready");
				fflush(stdout);
			}
		}
	puts("ready");
	fflush(stdout);
	getchar();
	return sluice_space_destroy(space) || sum == 99;
}
END
"$CC" ${SLUICE_SANITIZE:+-fsanitize=$SLUICE_SANITIZE} -I"$SLUICE_SOURCE_DIR/include" program.c \
	"$SLUICE_LIB" "-Wl,-rpath,$(dirname "$SLUICE_LIB")" -o idle && cp idle busy || exit 1

trap 'kill -9 $idle $busy 2>/dev/null; exec 3>&- 4>&-' EXIT
idle=0 busy=0
mkfifo in1 in2
./idle <in1 >said1 2>err1 &
idle=$!
exec 3>in1
./busy busy <in2 >said2 2>err2 &
busy=$!
exec 4>in2
for file in said1 said2; do
	until grep -q ready $file; do
		kill -0 $idle $busy 2>/dev/null || { cat err1 err2; exit 77; }
		sleep 0.05
	done
done

# The busy one moves something, and stands first; the idle one stands still.
for try in {1..20}; do # on a machine that lets it run
	"$SLUICE_BIN" top --interval 0.5 >table || fail "top ends with $?"
	grep -qE "^ *$busy busy .* [0-9.]+ [KMG]iB +[0-9.]+ [KMG]iB +-" table && break
done
[ "$(head -n 1 table | awk '{print $1, $2, $3}')" = "PID COMMAND GPU" ] || fail "no head: $(cat table)"
grep -E "^ *($idle|$busy) " table >ours
[ "$(awk '{print $1}' ours | tr '\n' ' ')" = "$busy $idle " ] || fail "not both, or not in order: $(cat table)"
grep -q "^ *$busy busy  *- .*4 MiB of 4 MiB" ours || fail "busy: $(cat ours)"
[ "$(grep -c "^ *$idle idle .* -  *-  *-  *-  *0  *0$" ours)" = 1 ] || fail "idle moves: $(cat ours)"

cat >check.py <<-'END'
	import json, sys
	programs = {p["pid"]: p for p in json.load(open("json"))["programs"]}
	busy, idle = programs[int(sys.argv[1])], programs[int(sys.argv[2])]
	assert busy["command"] == "busy" and busy["space"] == 1 and busy["device"]["budget_bytes"] == 4 << 20
	assert busy["in_bytes_per_second"] > 0 and busy["out_bytes_per_second"] > 0
	assert idle["in_bytes_per_second"] == idle["faults_per_second"] == 0
END
if command -v python3 >/dev/null; then
	for try in {1..20}; do
		"$SLUICE_BIN" top --json --interval 0.5 >json || fail "--json ends with $?"
		python3 check.py $busy $idle 2>said && break
	done
	python3 check.py $busy $idle 2>said || fail "JSON: $(cat said json)"
fi

# Two tables where two are wanted; on a terminal lines end at its edge.
[ "$("$SLUICE_BIN" top --interval 0.1 --count 2 | grep -c '^ *PID')" = 2 ] || fail "not two tables"
if command -v script >/dev/null; then
	script -qec "stty cols 40; '$SLUICE_BIN' top --interval 0.1 --count 1" /dev/null </dev/null >screen
	tr -d '\r' <screen | sed 's/\x1b\[[HJ]//g' | awk 'length > 40 {exit 1}' || fail "wider than 40: $(cat screen)"
	grep -q "$busy busy" screen || fail "nothing on a terminal: $(cat screen)"
fi

# Interrupted, it ends in order.
"$SLUICE_BIN" top --interval 60 --count 5 >table &
top=$!
# It catches SIGINT, and is not the shell any more, which does, too.
until [ "$(cat /proc/$top/comm)" = sluice ] && grep -q 'SigCgt.*[2367abef]$' /proc/$top/status; do sleep 0.02; done
kill -INT $top
wait $top || fail "interrupted: exit status $?"

# What does not answer is counted; what has ended is gone.
kill -STOP $idle
"$SLUICE_BIN" top --interval 0.1 >table || fail "a stopped program: $?"
grep -q "did not answer" table || fail "a stopped program is not counted: $(cat table)"
kill -9 $idle $busy
wait $idle $busy 2>/dev/null
"$SLUICE_BIN" top --interval 0.1 >table || fail "programs that have ended: $?"
grep -qE "^ *($idle|$busy) " table && fail "still there: $(cat table)"

for wrong in "--interval 0" "--interval x" "--count 0" "4711" "--no-such"; do
	# shellcheck disable=SC2086
	"$SLUICE_BIN" top $wrong >/dev/null 2>&1
	[ $? = 2 ] || fail "$wrong: not exit status 2"
done

[ $failed -eq 0 ] && echo "all right"
exit $failed
