#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice doctor`: each check is there and has a verdict, what is wrong is told with advice, the
# exit code follows the verdict on the software device, and nothing is left behind.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}"
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

# compact: JSON from standard input, one check to a line, without space between values.
compact()
{
	sed -E 's/^ +//; s/": /":/' | tr -d '\n' | sed 's/{"name"/\n&/g'
}

# status NAME: the verdict of a check in $json.
status()
{
	grep -F "{\"name\":\"$1\"" <<<"$json" |
		sed -n 's/.*"status":"\([a-z]*\)".*/\1/p'
}

mkdir data
json=$("$SLUICE_BIN" doctor --json --dir data)
code=$?
if command -v python3 >/dev/null && python3 -c 'import json' 2>/dev/null; then
	python3 -c 'import json, sys; json.loads(sys.argv[1])' "$json" || fail "not JSON: $json"
fi
json=$(compact <<<"$json")
for check in kernel cpus memory "cgroup memory" "huge pages" "memlock limit" max_map_count \
	userfaultfd io_uring "files in data" gpu capacity "software device"; do
	case $(status "$check") in
	ok | limited | missing) ;;
	*) fail "no verdict on '$check'" ;;
	esac
done
if [ "$(status userfaultfd)" != missing ]; then
	for feature in missing wp move sigbus "thread id" poison; do
		case $(status "userfaultfd $feature") in
		ok | limited | missing) ;;
		*) fail "no verdict on 'userfaultfd $feature'" ;;
		esac
	done
fi

# The exit code is the verdict on the software device.
case $json in
*'"software_device":true'*) [ $code = 0 ] || fail "works, but exit status $code" ;;
*'"software_device":false'*) [ $code = 1 ] || fail "does not work, but exit status $code" ;;
*) fail "no verdict on the whole" ;;
esac

# What is not ok comes with advice; the absence of a GPU needs none.
while read -r line; do
	case $line in
	*'"name":"gpu"'* | *'"name":"cpus"'*) ;;
	*'"status":"limited"'* | *'"status":"missing"'*)
		case $line in
		*'"advice":"'*) ;;
		*) fail "no advice: $line" ;;
		esac
		;;
	esac
done <<<"$json"

[ -z "$(ls -A data)" ] || fail "left behind: $(ls -A data)"
[ "$(ls -A)" = data ] || fail "left behind: $(ls -A)"

# Directories that cannot be used are told apart.
touch file
json=$("$SLUICE_BIN" doctor --json --dir nowhere --dir file --dir data | compact)
[ "$(status "files in nowhere")" = missing ] || fail "a directory that is not there"
[ "$(status "files in file")" = missing ] || fail "a file given as directory"
case $json in
*"not a directory"*) ;;
*) fail "a file given as directory is not called one" ;;
esac
if [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] && [ -w /dev/shm ]; then
	json=$("$SLUICE_BIN" doctor --json --dir /dev/shm | compact)
	[ "$(status "files in /dev/shm")" = limited ] || fail "tmpfs is not flagged"
	case $json in
	*"memory themselves"*) ;;
	*) fail "tmpfs: no reason" ;;
	esac
fi

# A setting that cannot be read is found, by its name.
json=$(SLUICE_DEVICE_BUDGET=much "$SLUICE_BIN" doctor --json --dir data)
[ $? = 1 ] || fail "a wrong setting: not exit status 1"
case $json in
*SLUICE_DEVICE_BUDGET*) ;;
*) fail "a wrong setting is not named: $json" ;;
esac

# The GPU's line: what is missing, or what is there. The stand-in driver shows both.
# gpu_is STATUS PART [SETTINGS ...]: the verdict, and a part of the text.
gpu_is()
{
	local want=$1 part=$2
	shift 2
	json=$(env "$@" "$SLUICE_BIN" doctor --json --dir data | compact)
	[ "$(status gpu)" = "$want" ] || fail "gpu with $*: not $want: $(grep '"gpu"' <<<"$json")"
	grep '"gpu"' <<<"$json" | grep -qF "$part" || fail "gpu with $*: no '$part'"
}
gpu_is missing "no GPU driver" SLUICE_CUDA_LIBRARY=/nonexistent/libcuda.so.1
gpu_is missing "software device" SLUICE_CUDA_LIBRARY=/nonexistent/libcuda.so.1
if [ -n "${SLUICE_STANDIN_LIBRARY:-}" ]; then
	standin=(SLUICE_CUDA_LIBRARY="$SLUICE_STANDIN_LIBRARY")
	gpu_is ok "1 device (Stand-in GPU 0, 256 MiB), driver for CUDA 13.0" "${standin[@]}"
	gpu_is ok "2 devices (" "${standin[@]}" CUDA_STANDIN_DEVICES=2
	gpu_is missing "finds no device" "${standin[@]}" CUDA_STANDIN_DEVICES=0
	gpu_is missing "too old" "${standin[@]}" CUDA_STANDIN_VERSION=11080
	gpu_is missing "virtual memory management" "${standin[@]}" CUDA_STANDIN_NO_VMM=1
	gpu_is limited "must fit its memory" "${standin[@]}" CUDA_STANDIN_NO_HOST_VMM=1
fi

# What can be held: the sum of what the tiers have.
cat >capacity.py <<-'END'
	import json, sys
	report = json.loads(sys.argv[1])
	capacity = report["capacity"]
	assert capacity["host_bytes"] > 0 and capacity["store_bytes"] >= 0
	assert capacity["device_bytes"] == sum(gpu["memory_bytes"] for gpu in report["gpus"])
	assert capacity["device_bytes"] == int(sys.argv[2])
	assert "disk" not in report and not any(gpu.get("in_bytes_per_second") for gpu in report["gpus"])
END
# The rates: as the stand-in driver keeps to one, and as a disk can have.
cat >rates.py <<-'END'
	import json, sys
	report = json.loads(sys.argv[1])
	for gpu in report["gpus"]:
	    for rate in gpu["in_bytes_per_second"], gpu["out_bytes_per_second"]:
	        assert 0.2 * (128 << 20) < rate < 1.05 * (128 << 20), rate
	disk = report["disk"]
	assert disk["dir"] == "data" and disk["direct"] in (True, False)
	assert 1e5 < disk["read_bytes_per_second"] < 1e12 and 1e5 < disk["write_bytes_per_second"] < 1e12
	names = [check["name"] for check in report["checks"]]
	assert names.count("link") == len(report["gpus"]) == 2, names
	assert names.index("link") < names.index("disk rate") < names.index("kernel"), names
END
"$SLUICE_BIN" doctor --measure -- true >/dev/null 2>&1
[ $? = 2 ] || fail "--measure with a program: not exit status 2"
if command -v python3 >/dev/null && [ -n "${SLUICE_STANDIN_LIBRARY:-}" ]; then
	json=$(env "${standin[@]}" CUDA_STANDIN_DEVICES=2 "$SLUICE_BIN" doctor --json --dir data)
	python3 capacity.py "$json" $((512 << 20)) || fail "what can be held: $json"
	json=$(env "${standin[@]}" CUDA_STANDIN_DEVICES=2 CUDA_STANDIN_COPY_BYTES_PER_S=128M CUDA_STANDIN_STRICT=1 \
		"$SLUICE_BIN" doctor --measure --json --dir data)
	[ $? = 97 ] && fail "--measure breaks a rule of the driver, or leaves something"
	python3 rates.py "$json" || fail "the rates: $json"
	[ -z "$(ls -A data)" ] || fail "--measure leaves: $(ls -A data)"
	# A link that fails is said, and the disk is measured all the same.
	json=$(env "${standin[@]}" CUDA_STANDIN_FAIL=cuMemHostAlloc:1:2 "$SLUICE_BIN" doctor --measure --json \
		--dir data | compact)
	[ "$(status link)" = limited ] && [ "$(status "disk rate")" = ok ] || fail "a link that fails: $json"
fi
# Progress is for a terminal, and never on standard output.
if command -v script >/dev/null && [ -n "${SLUICE_STANDIN_LIBRARY:-}" ]; then
	env "${standin[@]}" CUDA_STANDIN_COPY_BYTES_PER_S=48M script -qec "'$SLUICE_BIN' doctor --measure --dir data >out" \
		/dev/null </dev/null >screen
	grep -q 'sluice doctor, .*: .* %, ' screen || fail "no progress on a terminal: $(cat screen)"
	grep -q $'\r\|\x1b' out && fail "progress on standard output: $(cat out)"
	env "${standin[@]}" CUDA_STANDIN_COPY_BYTES_PER_S=48M "$SLUICE_BIN" doctor --measure --dir data \
		>/dev/null 2>err
	[ -s err ] && fail "progress without a terminal: $(cat err)"
	# A program of its own: lines that stay, since the program writes there, too.
	script -qec "'$SLUICE_BIN' doctor -- sleep 3 >out" /dev/null </dev/null >screen
	grep -q $'^sluice doctor, the program runs, .*: 2 s\r$' screen || fail "a program: no progress: $(cat screen)"
	grep -q 'the program runs' out && fail "a program: progress on standard output: $(cat out)"
	"$SLUICE_BIN" doctor -- sleep 3 2>&1 | grep -q 'the program runs' && fail "a program: progress without a terminal"
fi

# The same for people: a line for each check, and the verdict last.
text=$("$SLUICE_BIN" doctor --dir data)
grep -q '^\(ok\|limited\|missing\) *userfaultfd ' <<<"$text" || fail "no line on userfaultfd"
tail -n 2 <<<"$text" | grep -q 'the software device' || fail "no verdict in the last lines"
head -n 1 <<<"$text" | grep -qE '^(ok|limited|missing) *gpu ' || fail "the GPU is not the first line: $text"
[ "$(env SLUICE_CUDA_LIBRARY=/nonexistent "$SLUICE_BIN" doctor --dir data | tail -n 1)" = "next: sluice demo" ] ||
	fail "no next line without a GPU"
if [ -n "${SLUICE_STANDIN_LIBRARY:-}" ]; then
	[ "$(env "${standin[@]}" "$SLUICE_BIN" doctor --dir data | tail -n 1)" = "next: sluice run -- PROGRAM" ] ||
		fail "no next line with a GPU"
fi

dirs=()
for i in {1..17}; do dirs+=(--dir data); done
"$SLUICE_BIN" doctor "${dirs[@]}" >/dev/null 2>&1
[ $? = 2 ] || fail "17 directories: not exit status 2"
exit $failed
