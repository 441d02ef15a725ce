#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# docs/operators.md: its lines of shell run as they stand, beside a program under `sluice run`; options,
# variables and files that it names are there; its manifest for Kubernetes agrees with the schema
# (kubernetes-validate of PyPI, where that can be had). Containers: test_container.sh.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_PRELOAD_LIBRARY:?}" "${SLUICE_STANDIN_PLAIN:?}" "${SLUICE_SOURCE_DIR:?}" "${CC:?}"
page=$SLUICE_SOURCE_DIR/docs/operators.md
failed=0
unset LD_PRELOAD LD_LIBRARY_PATH SLUICE_RUN ${!SLUICE_SPILL_@}

fail()
{
	echo "FAIL $*"
	failed=1
}

# block LANGUAGE: the lines of the page's code in that language.
block()
{
	awk -v "first=\`\`\`$1" '$0 == first { inside = 1; next } /^```/ { inside = 0 } inside' "$page"
}

# What it links to.
for link in $(grep -oE '\]\([^)]+\)' "$page" | tr -d '()' | tr -d ']'); do
	case $link in
	'#'*) sed -n 's/^##* //p' "$page" | tr 'A-Z ' 'a-z-' | grep -qx "${link#?}" || fail "$link: no such heading" ;;
	*) [ -e "$SLUICE_SOURCE_DIR/docs/$link" ] || fail "$link is not there" ;;
	esac
done
grep -q '(docs/operators.md)' "$SLUICE_SOURCE_DIR/README.md" || fail "README.md does not lead to it"
[ -e "$SLUICE_SOURCE_DIR/share/grafana-dashboard.json" ] || fail "no dashboard"
# Options of ours, in the command's help or in a manual page.
"$SLUICE_BIN" run --help >help
cat "$SLUICE_SOURCE_DIR"/man/sluice-{run,doctor,stat,top}.1.scd "$SLUICE_SOURCE_DIR/man/sluice.7.scd" >>help
for option in $(grep -oE '`(sluice [a-z ]*)?--[a-z-]+' "$page" | grep -oE -- '--[a-z-]+' | sort -u); do
	case $option in
	# Docker's, node_exporter's, Slurm's
	--gpus | --device | --ulimit | --security-opt | --shm-size | --memory | --network | --collector) continue ;;
	esac
	grep -q -- "$option" help || fail "$option is no option"
done
for name in $(grep -oE 'SLUICE_[A-Z_]+' "$page" | sort -u); do
	grep -q "$name" help || fail "$name is no variable"
done

# A program on the stand-in driver, that stays.
cp "$SLUICE_SOURCE_DIR/tests/cli/cuda_subset.h" cuda.h
cat >program.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cuda.h>
int
main(void)
{
	CUdevice device;
	CUcontext context;
	CUdeviceptr p;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context) || cuMemAlloc(&p, 16 << 20))
		return 1;
	if (!getenv("STAY"))
		return 0;
	puts("ready");
	fflush(stdout);
	return getchar() != EOF;
}
END
"$CC" -O1 -I. program.c "$SLUICE_STANDIN_PLAIN" "-Wl,-rpath,$(dirname "$SLUICE_STANDIN_PLAIN")" -o program || exit 1
export SLUICE_CUDA_LIBRARY=$SLUICE_STANDIN_PLAIN CUDA_STANDIN_QUIET=1 TMPDIR=$PWD
mkdir bin
ln -s "$SLUICE_BIN" bin/sluice
export PATH=$PWD/bin:$PATH
mkfifo in
STAY=1 sluice run --quiet --device-memory 64M --host-memory 64M ./program <in >said 2>err &
export PID=$!
exec 3>in
trap 'exec 3>&-; kill -9 $PID 2>/dev/null' EXIT
until grep -q ready said; do
	kill -0 $PID 2>/dev/null || { cat err; exit 1; }
	sleep 0.05
done

# What is not there when it is switched off.
sluice run -- ./program 2>err.on || fail "sluice run ends with $?: $(cat err.on)"
grep -q 'moved in' err.on || fail "sluice run says nothing: $(cat err.on)"

n=0
while read -r line <&5; do
	n=$((n + 1))
	bash -c "$line" >out.$n 2>err.$n </dev/null 5<&- 3>&- || fail "'$line' ends with $?: $(cat out.$n err.$n)"
	case $line in
	"sluice stat" | "sluice top "*) grep -qE "^ *$PID " out.$n || fail "'$line' does not show it: $(cat out.$n)" ;;
	'sluice stat $PID') grep -q "^process $PID (program)" out.$n || fail "'$line': $(cat out.$n)" ;;
	*--json) grep -q '"store":{"resident_bytes":0,' out.$n || fail "'$line': $(cat out.$n)" ;;
	*--openmetrics*) grep -q "sluice_up{pid=\"$PID\",.*UUID=\"GPU-" sluice.prom || fail "'$line': $(cat sluice.prom)" ;;
	*--dry-run*) grep -q '^SLUICE_HOST_BUDGET=268435456$' out.$n || fail "'$line': $(cat out.$n)" ;;
	# Nothing of ours is said where it is switched off.
	*"--baseline off"* | *"env -u LD_PRELOAD"*)
		grep -q 'moved in' err.$n && fail "'$line' does not switch it off: $(cat err.$n)" ;;
	esac
done 5< <(block sh)
[ $n -ge 11 ] || fail "$n lines of shell"
exec 3>&-
wait $PID || fail "the program ends with $?: $(cat err)"

# The manifest.
if python3 -m venv venv >/dev/null 2>&1 && venv/bin/python -m pip install -q kubernetes-validate >/dev/null 2>&1; then
	block yaml >pod.yaml
	venv/bin/kubernetes-validate --strict pod.yaml >out 2>&1 || fail "the manifest: $(cat out)"
	sed 's/restartPolicy:/restartPolicies:/' pod.yaml >wrong.yaml
	venv/bin/kubernetes-validate --strict wrong.yaml >out 2>&1 && fail "a wrong manifest is not seen"
else
	echo "left out: the manifest: kubernetes-validate cannot be had from PyPI"
fi

[ $failed -eq 0 ] && echo "all right"
exit $failed
