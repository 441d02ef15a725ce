#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The scripts that judge unmodified programs on a GPU, bench/programs/acceptance and table: on the
# stand-in driver, with a driver program that they come with and with programs that answer wrong, fail,
# hang, or need no memory. What they report must be so.
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

# The driver's header, as far as the program needs it, and a compiler that takes nvcc's arguments.
mkdir include toolkit
cp "$SLUICE_SOURCE_DIR/tests/cli/cuda_subset.h" include/cuda.h || exit 1
driver=$SLUICE_STANDIN_PLAIN
cat >toolkit/nvcc <<END
#!/bin/bash
words=()
for word in "\$@"; do
	case \$word in
	-arch=* | -Xlinker | -rpath=*) ;;
	*.cu) words+=(-x c "\$word" -x none) ;; # what is compiled here is C as well
	-lcuda) words+=("$driver" "-Wl,-rpath,$(dirname "$driver")") ;;
	*) words+=("\$word") ;;
	esac
done
exec $CC -I"$PWD/include" "\${words[@]}"
END
chmod +x toolkit/nvcc
ln "$driver" standin.so || exit 1 # the library would see where a symbolic link leads
"$CC" -O3 -D_GNU_SOURCE -shared -fPIC -I"$SLUICE_SOURCE_DIR/tests" \
	"$SLUICE_SOURCE_DIR/tests/cli/driver_twin.c" -o twin.so || exit 1
export PATH=$PWD/toolkit:$PATH SLUICE_CUDA_LIBRARY=$driver STANDIN_TABLE=$PWD/standin.so TMPDIR=$PWD
export LD_LIBRARY_PATH=$(dirname "$driver")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export CUDA_STANDIN_QUIET=1 CUDA_STANDIN_DEVICE_BYTES=256M
exec python3 -B "$SLUICE_SOURCE_DIR/tests/cli/acceptance_try.py" "$SLUICE_BUILD_DIR"
