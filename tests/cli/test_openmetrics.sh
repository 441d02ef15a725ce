#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice stat --openmetrics`: the labels of a GPU, of a part of one and of the software device. The
# dashboard for Grafana names metrics and labels that are printed. Parsers of PyPI take both:
# prometheus-client, which is strict, and promql-parser. Where these cannot be had, the test is skipped
# after the rest. Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${SLUICE_LIB:?}" "${SLUICE_STANDIN_LIBRARY:?}" "${CC:?}"
check=$SLUICE_SOURCE_DIR/tests/cli/metrics_check.py
board=$SLUICE_SOURCE_DIR/share/grafana-dashboard.json
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

command -v python3 >/dev/null || { echo "skip: no python3"; exit 77; }

cat >program.c <<'END'
#include <stdio.h>
#include <sluice/binding.h>
#include <sluice/sluice.h>

int
main(int argc, char **argv)
{
	struct sluice_space *space;
	void *addr;

	if (argc != 2 || sluice_space_open(argv[1], &space) ||
	    sluice_alloc(space, 16 << 20, 0, &addr)) {
		fprintf(stderr, "%s\n", sluice_last_error());
		return 77;
	}
	puts("ready");
	fflush(stdout);
	getchar();
	return sluice_space_destroy(space) ? 1 : 0;
}
END
"$CC" ${SLUICE_SANITIZE:+-fsanitize=$SLUICE_SANITIZE} -I"$SLUICE_SOURCE_DIR/include" program.c \
	"$SLUICE_LIB" "-Wl,-rpath,$(dirname "$SLUICE_LIB")" -o 'pro"gram' || exit 1

pids=()
trap 'kill -9 "${pids[@]}" 2>/dev/null' EXIT
mkfifo in
exec 3<>in
# start SETTINGS: a process with a space; it ends when nothing writes to its input any more.
start()
{
	local n=${#pids[@]}
	./'pro"gram' "$1,device_budget=8M,host_budget=32M,publish=1" <in >said.$n 2>err.$n 3>&- &
	pids+=($!)
	until grep -q ready said.$n; do
		kill -0 $! 2>/dev/null || { echo "skip: $(cat err.$n)"; exit 77; }
		sleep 0.05
	done
}
export SLUICE_CUDA_LIBRARY=$SLUICE_STANDIN_LIBRARY CUDA_STANDIN_QUIET=1 CUDA_STANDIN_DEVICES=2
start device=soft
start device=cuda
start device=cuda,device_number=1
CUDA_STANDIN_MIG=1g.10gb start device=cuda

"$SLUICE_BIN" stat --openmetrics >metrics || fail "it ends with $?"
# labels N KEY=VALUE...: of the process started as number N.
labels()
{
	python3 "$check" labels metrics "${pids[$1]}" 'command=pro\"gram' "${@:2}" || fail "labels of process $1"
}
tail=a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae
labels 0 device=soft
labels 1 gpu=0 UUID=GPU-${tail}00
labels 2 gpu=1 UUID=GPU-${tail}01
labels 3 gpu=0 UUID=MIG-${tail}00
"$SLUICE_BIN" stat "${pids[2]}" --json | grep -q "\"device_uuid\":\"GPU-${tail}01\"" || fail "--json has no UUID"

# The dashboard. What is wrong in one is seen.
python3 "$check" dashboard metrics "$board" || fail "the dashboard"
# wrong WHAT SED: the dashboard changed so.
wrong()
{
	sed "$2" "$board" >wrong.json
	cmp -s wrong.json "$board" && fail "$1: nothing was changed"
	python3 "$check" dashboard metrics wrong.json >said 2>&1 && fail "$1 is not seen"
}
wrong "a metric that nobody prints" '0,/sluice_io_errors_total/s//sluice_io_error_total/'
wrong "a label that nobody prints" '0,/by (instance, gpu, UUID, device)/s//by (instance, gpu, uuid)/'
wrong "a data source of one machine" '0,/\${datasource}/s//P1809F7CD0C75ACF3/'
wrong "no JSON" '$d'

# The parsers: those that are here, or from PyPI.
python=python3
if ! python3 -c 'import prometheus_client, promql_parser' 2>/dev/null; then
	python=venv/bin/python
	python3 -m venv venv >/dev/null 2>&1 &&
		$python -m pip install -q prometheus-client promql-parser >/dev/null 2>&1 ||
		{ [ $failed = 0 ] && echo "skip: the parsers cannot be had from PyPI" && exit 77; exit 1; }
fi
$python "$check" promql "$board" || fail "an expression of the dashboard is no PromQL"
$python "$check" parse metrics || fail "the parser refuses it"
kill -STOP "${pids[0]}"
"$SLUICE_BIN" stat --openmetrics >metrics || fail "one does not answer: it ends with $?"
kill -CONT "${pids[0]}"
$python "$check" parse metrics || fail "one does not answer: the parser refuses it"
# It is strict: what is wrong is seen.
sed 's/^sluice_evictions_total/sluice_evictions/' metrics >wrong
$python "$check" parse wrong >said 2>&1 && fail "the parser takes anything"

[ $failed -eq 0 ] && echo "all right"
exit $failed
