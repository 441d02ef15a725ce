#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice demo`: both programs work on files of the promised size in the promised memory, give
# mmap's result, and are drawn; no file stays, not even after Ctrl-C. A picture that cannot be
# written, or not safely, is said and fails nothing.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}"
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

# numbers KEY: every value of a key in $json, in order.
numbers()
{
	grep -o "\"$1\":[0-9.]*" <<<"$json" | cut -d: -f2
}

if ! "$SLUICE_BIN" doctor --dir . >doctor; then
	echo "skip: the software device cannot work here:"
	cat doctor
	exit 77
fi
rm doctor
room=$(df -P -B1M . | awk 'NR == 2 { print $4 }')
if [ "$room" -lt 1024 ]; then
	echo "skip: needs 1 GiB of disk, $room MiB are free"
	exit 77
fi

json=$("$SLUICE_BIN" demo --quick --dir . --picture picture.svg --json) || fail "exit status $?"
echo "$json"
json=$(sed -E 's/^ +//; s/": /":/' <<<"$json" | tr -d '\n')
device=$(numbers device_budget_bytes)
host=$(numbers host_budget_bytes)
for footprint in $(numbers footprint_bytes); do
	[ "$footprint" -ge $((8 * device)) ] || fail "$footprint is not 8 times $device"
	[ "$footprint" -ge $((2 * (device + host))) ] || fail "$footprint is not twice both"
done
[ "$(numbers footprint_bytes | wc -l)" = 2 ] || fail "not two programs"
for peak in $(numbers device_peak_bytes); do
	[ "$peak" -le "$device" ] && [ "$peak" -gt 0 ] || fail "device held $peak of $device"
done
for peak in $(numbers host_peak_bytes); do
	[ "$peak" -le "$host" ] || fail "host held $peak of $host"
done
[ "$(grep -o '"same_result":true' <<<"$json" | wc -l)" = 2 ] || fail "results were not both equal"
[ "$(numbers misses)" = "$(printf '0\n0')" ] || fail "launches that declare all have misses"
for samples in $(numbers samples); do
	[ "$samples" -ge 3 ] || fail "only $samples samples"
done
# Every byte of the inputs has to come from the files at least once.
for read in $(numbers h2d_launch); do
	[ "$read" -gt "$device" ] || fail "only $read bytes went to the device"
done

# The picture: three tiers and four directions for each of two programs, and nothing odd.
if command -v xmllint >/dev/null; then
	xmllint --noout picture.svg || fail "the picture is not XML"
fi
[ "$(grep -c 'class="tier"' picture.svg)" = 6 ] || fail "the picture's tiers"
[ "$(grep -c 'class="move"' picture.svg)" = 8 ] || fail "the picture's moves"
grep -qiE '\b(nan|inf)\b' picture.svg && fail "the picture has numbers that are none"
for word in hotspot srad_v2 "device memory" "file reads" seconds GB/s; do
	grep -q "$word" picture.svg || fail "the picture does not say '$word'"
done
[ "$(ls -A)" = picture.svg ] || fail "left behind: $(ls -A)"

# The picture's file. A planted link, and another user's file (who is not root cannot make one: a
# file with a second name): left as they are. The demonstration works all the same, and says which
# file it did not write.
# refused NAME: a demonstration with this picture leaves ./precious as it is.
refused()
{
	local out

	echo precious >precious
	out=$("$SLUICE_BIN" demo --quick --dir . --picture "$1" --json) ||
		fail "picture $1: exit status $?"
	grep -q '"picture_error": ".*'"$1" <<<"$out" || fail "picture $1: not said: $out"
	grep -q '"picture":' <<<"$out" && fail "picture $1: said to be written"
	[ "$(cat precious)" = precious ] || fail "picture $1: written through"
	rm -f precious
}
ln -s precious planted.svg
refused planted.svg
rm planted.svg
if [ "$(id -u)" = 0 ]; then
	echo foreign >foreign.svg
	chown 12345 foreign.svg
	refused foreign.svg
	[ "$(cat foreign.svg)" = foreign ] || fail "another user's file is written"
	rm foreign.svg
else
	echo foreign >foreign.svg
	ln foreign.svg second.svg
	refused second.svg
	[ "$(cat foreign.svg)" = foreign ] || fail "a file with a second name is written"
	rm foreign.svg second.svg
fi

# Without --picture: a new file in the current directory each time, which only we can read. Here
# no memory group can be made: the table says so before its first figure, and compares nothing.
# as_table: sets $table; in a mount name space without control groups, where one can be made.
as_table()
{
	if unshare -m true 2>/dev/null; then
		table=$(unshare -m sh -c 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"' sh \
			"$SLUICE_BIN" demo --quick --dir ..) || fail "the table: exit status $?"
	else
		table=$("$SLUICE_BIN" demo --quick --dir ..) || fail "the table: exit status $?"
	fi
}
mkdir here
cd here || exit 1
as_table
cd .. || exit 1
made=$(ls here)
case $made in
sluice-demo-??????.svg) ;;
*) fail "the picture without a name is '$made'" ;;
esac
[ "$(stat -c %a "here/$made")" = 600 ] || fail "the picture's mode is $(stat -c %a "here/$made")"
grep -q "^picture: $made\$" <<<"$table" || fail "the table does not name $made"
rm -r here
if grep -q "^mmap: had ALL memory" <<<"$table"; then
	head=$(sed '/^mmap: had ALL memory/q' <<<"$table")
	grep -q "^time with" <<<"$head" && fail "that mmap had all memory is not said first"
	grep -q "mmap over Sluice's" <<<"$table" && fail "compares with an mmap that had all memory"
elif unshare -m true 2>/dev/null; then
	fail "without control groups the table does not say that mmap had all memory"
fi
for step in "making the files" "with Sluice" "with mmap" "comparing the results"; do
	grep -qE "^  $step +[0-9.]+ s +[0-9.]+ s\$" <<<"$table" || fail "no seconds of: $step"
done
grep -qE "measuring the disk [0-9.]+ s, everything [0-9.]+ s" <<<"$table" || fail "no seconds of all"
for percent in $(grep "disk's rate" <<<"$table" | grep -oE '[0-9]+ %' | tr -d ' %'); do
	[ "$percent" -le 100 ] || fail "$percent % of the disk's rate"
done

# Ctrl-C in the middle: everything goes, and the caller sees the signal. (A shell lets background
# programs ignore SIGINT; the demonstration waits for it all the same.)
"$SLUICE_BIN" demo --quick --dir . --picture picture.svg >/dev/null 2>&1 &
pid=$!
for i in {1..2000}; do
	ls -d sluice-demo-*/sluice-hotspot >/dev/null 2>&1 && break
	sleep 0.05
done
ls -d sluice-demo-*/sluice-hotspot >/dev/null 2>&1 || fail "no files to be seen while it runs"
kill -INT $pid
wait $pid
[ $? = 130 ] || fail "interrupted: exit status is not that of SIGINT"
[ "$(ls -A)" = picture.svg ] || fail "left behind after Ctrl-C: $(ls -A)"

# Wrong command lines and places.
for arguments in "--size 1M" "--size x" "--quick --size 1G" "more"; do
	"$SLUICE_BIN" demo $arguments >/dev/null 2>&1
	[ $? = 2 ] || fail "demo $arguments: not exit status 2"
done
message=$("$SLUICE_BIN" demo --quick --dir nowhere 2>&1)
[ $? = 1 ] || fail "a directory that is not there: not exit status 1"
case $message in
*nowhere*) ;;
*) fail "a directory that is not there is not named: $message" ;;
esac
[ "$(ls -A)" = picture.svg ] || fail "left behind: $(ls -A)"
exit $failed
