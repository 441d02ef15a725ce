#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/programs/share on the stand-in driver, with share_steps.c in place of PyTorch: each part
# runs, results are those of native runs, and the table says so. Times are not looked at.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${SLUICE_BUILD_DIR:?}" "${CC:?}"
# shellcheck source=tests/cli/needs.sh
. "$SLUICE_SOURCE_DIR/tests/cli/needs.sh"
needs_preload
needs_python
needs_disk
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
unset SLUICE_RUN LD_PRELOAD
cp "$SLUICE_SOURCE_DIR/tests/cli/cuda_subset.h" cuda.h || exit 1
driver=$SLUICE_STANDIN_PLAIN
ln "$driver" standin.so || exit 1 # the library would see where a symbolic link leads
"$CC" -O1 -I. "$SLUICE_SOURCE_DIR/tests/cli/share_steps.c" "$driver" "-Wl,-rpath,$(dirname "$driver")" \
	-o share_steps &&
	"$CC" -O1 -I. -x c "$SLUICE_SOURCE_DIR/bench/programs/launches.cu" -x none "$driver" -pthread \
		"-Wl,-rpath,$(dirname "$driver")" -o launches || exit 1
for name in share_steps launches; do
	"$CC" -O3 -D_GNU_SOURCE "-DTWIN_PROGRAM=\"$name\"" -shared -fPIC -I"$SLUICE_SOURCE_DIR/tests" \
		"$SLUICE_SOURCE_DIR/tests/cli/oversubscribed_twin.c" -o "twin-$name.so" || exit 1
done
export SLUICE_CUDA_LIBRARY=$driver STANDIN_TABLE=$PWD/standin.so TMPDIR=$PWD
export CUDA_STANDIN_QUIET=1 CUDA_STANDIN_DEVICE_BYTES=256M CUDA_STANDIN_SHARED=$PWD/device
export LD_PRELOAD=$PWD/twin-share_steps.so:$PWD/twin-launches.so SLUICE_HOST_ROOM=1G
exec python3 -B "$SLUICE_SOURCE_DIR/tests/cli/bench_share_try.py" "$SLUICE_BUILD_DIR"
