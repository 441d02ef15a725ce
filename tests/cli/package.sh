# SPDX-License-Identifier: Apache-2.0
#
# Shared by the tests of packages (test_package*.sh), which read it in their empty directory: the
# version, and README's first command, the program being one on the stand-in driver.
: "${SLUICE_SOURCE_DIR:?}" "${CC:?}" "${SLUICE_STANDIN_PLAIN:?}"
unset LD_PRELOAD LD_LIBRARY_PATH PYTHONPATH SLUICE_PRELOAD_LIBRARY
version=$(sed -n 's/^project(sluice VERSION \([0-9.]*\).*/\1/p' "$SLUICE_SOURCE_DIR/CMakeLists.txt")
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

skip()
{
	echo "skip: $*"
	exit 77
}

# program_runs SLUICE: an unmodified program runs under this command, with less memory than it needs.
program_runs()
{
	local driver=$SLUICE_STANDIN_PLAIN

	ln "$driver" standin.so && cp "$SLUICE_SOURCE_DIR/tests/cli/cuda_subset.h" cuda.h || exit 1
	"$CC" -O1 -I. "$SLUICE_SOURCE_DIR/examples/run/oversubscribed.c" "$driver" \
		"-Wl,-rpath,$(dirname "$driver")" -o oversubscribed || exit 1
	"$CC" -O3 -D_GNU_SOURCE -shared -fPIC -I"$SLUICE_SOURCE_DIR/tests" \
		"$SLUICE_SOURCE_DIR/tests/cli/oversubscribed_twin.c" -o twin.so || exit 1
	SLUICE_CUDA_LIBRARY=$driver STANDIN_TABLE=$PWD/standin.so LD_PRELOAD=$PWD/twin.so TMPDIR=$PWD \
		CUDA_STANDIN_QUIET=1 CUDA_STANDIN_DEVICE_BYTES=256M "$1" run --device-memory 64M \
		--host-memory 384M ./oversubscribed 128 >out 2>err || fail "sluice run ends with $?: $(cat err)"
	[ "$(cat out)" = "128 MiB: all words right" ] || fail "the program said: $(cat out)"
	grep -q '^sluice: GPU 0: .* moved in, .* out; ' err || fail "nothing was managed: $(cat err)"
}
