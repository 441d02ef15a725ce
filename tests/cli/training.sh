# SPDX-License-Identifier: Apache-2.0
#
# Shared by the tests of what `sluice run` writes about a program (test_run_record.sh,
# test_run_timeline.sh, test_report.sh, test_nvtx.sh), which read it in their empty directory. It makes
# ./training, a program on the stand-in driver, and twin.so, its kernels; to be loaded before the program.
# It skips the test where there is no preload library, and has fail().
: "${SLUICE_SOURCE_DIR:?}" "${CC:?}" "${SLUICE_STANDIN_PLAIN:?}"
# shellcheck source=tests/cli/needs.sh
. "$SLUICE_SOURCE_DIR/tests/cli/needs.sh"
needs_preload
failed=${failed:-0} # test_report.sh has begun before
unset SLUICE_RUN LD_PRELOAD

fail()
{
	echo "FAIL $*"
	failed=1
}

export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
cp "$SLUICE_SOURCE_DIR/tests/cli/cuda_subset.h" cuda.h || exit 1
driver=$SLUICE_STANDIN_PLAIN
ln "$driver" standin.so || exit 1 # the library would see where a symbolic link leads
"$CC" -O1 -I. "$SLUICE_SOURCE_DIR/tests/cli/training.c" "$driver" "-Wl,-rpath,$(dirname "$driver")" -o training &&
	"$CC" -O3 -D_GNU_SOURCE -DTWIN_PROGRAM='"training"' -shared -fPIC -I"$SLUICE_SOURCE_DIR/tests" \
		"$SLUICE_SOURCE_DIR/tests/cli/oversubscribed_twin.c" -o twin.so || exit 1
export CUDA_STANDIN_QUIET=1 CUDA_STANDIN_DEVICE_BYTES=256M TMPDIR=$PWD
export SLUICE_CUDA_LIBRARY=$driver STANDIN_TABLE=$PWD/standin.so
