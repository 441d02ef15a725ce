#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# docs/operators.md, containers: a program under `sluice run` in a root that cannot be written, with the
# driver where NVIDIA's runtime may put it, 64 MiB of /dev/shm, little locked memory, no capabilities, and
# neither userfaultfd nor io_uring. Its memory limit is kept to. It is seen from the machine, and not in
# another name space of networks. Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_PRELOAD_LIBRARY:?}" "${SLUICE_STANDIN_PLAIN:?}"
. "${SLUICE_SOURCE_DIR:?}/tests/cli/root.sh"
command -v setpriv >/dev/null || { echo "skip: no setpriv"; exit 77; }

cp "$SLUICE_SOURCE_DIR/tests/cli/cuda_subset.h" cuda.h
mkdir driver disk
cp "$SLUICE_STANDIN_PLAIN" driver/libcuda.so.1
ln driver/libcuda.so.1 driver/standin.so
"$CC" -O1 -I. "$SLUICE_SOURCE_DIR/examples/run/oversubscribed.c" driver/libcuda.so.1 \
	-Wl,-rpath,/usr/local/nvidia/lib64 -o oversubscribed || exit 1
"$CC" -O3 -D_GNU_SOURCE -shared -fPIC -I"$SLUICE_SOURCE_DIR/tests" \
	"$SLUICE_SOURCE_DIR/tests/cli/oversubscribed_twin.c" -o twin.so || exit 1
# A program of ours that is built with a sanitizer runs under other libraries, too.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
unset SLUICE_CUDA_LIBRARY LD_PRELOAD LD_LIBRARY_PATH SLUICE_RUN TMPDIR ${!SLUICE_SPILL_@}
export CUDA_STANDIN_QUIET=1 CUDA_STANDIN_DEVICE_BYTES=256M STANDIN_TABLE=/usr/local/nvidia/lib64/standin.so

# The root: what is mounted below it stays as it is; itself, it is read-only.
here=$PWD
setup='
	mount -t tmpfs -o size=64m none "$root/dev/shm"
	mount -t tmpfs none "$root/usr/local"
	mkdir -p "$root/usr/local/nvidia/lib64"
	mount --bind "'$here'/driver" "$root/usr/local/nvidia/lib64"
	mount --bind "'$here'/disk" "$root/var/tmp"
	[ ! -e "$root/dev/userfaultfd" ] || mount --bind /dev/null "$root/dev/userfaultfd"
	mount -o remount,ro "$root"
'
# contained COMMAND...
contained()
{
	in_root "$setup" prlimit --memlock=65536 ./refuse /usr/bin/env setpriv --bounding-set=-all \
		--inh-caps=-all env LD_PRELOAD="$PWD/twin.so" "$@"
}
run=("$SLUICE_BIN" run)

contained "${run[@]}" --device-memory 64M --host-memory 384M ./oversubscribed 128 >out 2>err ||
	fail "sluice run ends with $?: $(cat err)"
[ "$(cat out)" = "128 MiB: all words right" ] || fail "the program said: $(cat out err)"
grep -q '^sluice: GPU 0: 64 MiB of its memory, 384 MiB of host memory, .* in /var/tmp; mode paged$' err ||
	fail "no line on the limits: $(cat err)"
grep -q '^sluice: GPU 0: .* moved in, .* out; ' err || fail "nothing was managed: $(cat err)"
grep -q 'ENOSYS' err || fail "io_uring was not refused: $(cat err)"
contained "${run[@]}" --device-memory 64M --host-memory 64M ./oversubscribed 256 >out 2>err ||
	fail "with a disk: ends with $?: $(cat err)"
[ "$(cat out)" = "256 MiB: all words right" ] || fail "with a disk: $(cat out err)"
grep -qE 'moved in, .* [1-9][0-9.]* [MG]iB read from disk' err || fail "nothing came from the disk: $(cat err)"
[ -z "$(ls -A disk)" ] || fail "left behind: $(ls -A disk)"

# Seen from here, where the network is the same; not from another one, as a container usually has.
cat >stay.c <<'END'
#include <stdio.h>
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
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	return getchar() != EOF;
}
END
"$CC" -O1 -I. stay.c driver/libcuda.so.1 -Wl,-rpath,/usr/local/nvidia/lib64 -o stay || exit 1
mkfifo in
contained "${run[@]}" --device-memory 64M --host-memory 64M ./stay <in >ready 2>err &
outer=$!
exec 3>in
trap 'exec 3>&-; kill -9 $outer 2>/dev/null' EXIT # it ends with its input
until grep -q ready ready; do
	kill -0 $outer 2>/dev/null || { fail "it does not stay: $(cat err)"; exit 1; }
	sleep 0.05
done
read -r _ pid <ready
"$SLUICE_BIN" stat | grep -qE "^ *$pid +1 +stay " || fail "not seen: $("$SLUICE_BIN" stat)"
grep -q 'libsluice-preload.so' /proc/$pid/maps || fail "its maps do not show the library"
unshare -rn "$SLUICE_BIN" stat 2>&1 | grep -qE "^ *$pid " && fail "seen from another network"
exec 3>&-
wait $outer || fail "it ends with $?: $(cat err)"

# A limit of the control group, if one can be made: the default of host memory is within it.
v1=$(awk '$(NF-2) == "cgroup" && $NF ~ /(^|,)memory(,|$)/ {print $5; exit}' /proc/self/mountinfo)
v2=$(awk '$(NF-2) == "cgroup2" {print $5; exit}' /proc/self/mountinfo)
of_v1=$(sed -n 's/^[0-9]*:memory:\(.*\)/\1/p' /proc/self/cgroup)
of_v2=$(sed -n 's/^0::\(.*\)/\1/p' /proc/self/cgroup)
for parent in ${v1:+"$v1$of_v1" "$v1"} ${v2:+"$v2$of_v2" "$v2"}; do
	group=$parent/sluice-test-$$
	limit=$group/memory.limit_in_bytes
	mkdir "$group" 2>/dev/null || continue
	[ -e "$limit" ] || limit=$group/memory.max
	if [ ! -e "$limit" ]; then
		rmdir "$group"
		continue
	fi
	if echo 629145600 >"$limit" 2>/dev/null; then
		contained sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" \
			"${run[@]}" --device-memory 64M ./oversubscribed 128 >out 2>err || fail "in a group: $(cat err)"
		host=$(sed -n 's/.* of its memory, \([0-9.]*\) MiB of host memory.*/\1/p' err)
		[ "${host%.*}" -lt 600 ] || fail "host memory beyond the group's limit: $(cat err)"
		echo "in a group of 600 MiB: $host MiB of host memory"
	fi
	rmdir "$group"
	break
done

[ $failed -eq 0 ] && echo "all right"
exit $failed
