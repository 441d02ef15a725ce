#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The codec's kernels make the host's bytes and refuse what the host refuses, and neither order of the
# lanes matters: compiled for the CPU (warp_threads.h), with contexts for threads. tests/gpu runs them
# on a GPU.
# Needs CC and CXX; skipped without a C++ compiler. Run in an empty directory.
set -euo pipefail
root=${SLUICE_SOURCE_DIR:?}
command -v "${CXX:-none}" > /dev/null || { echo "skip: there is no C++ compiler"; exit 77; }

include=(-I"$root/src" -I"$root/include" -I"$root/tests" -I"$root/tests/cli")
# The codec knows of base only its errors, and these a name of the version; the data need the numbers.
"${CC:-cc}" -std=gnu17 -O2 -D_GNU_SOURCE -DSLUICE_VERSION='"test"' "${include[@]}" -c \
	"$root"/src/codec/*.c "$root"/src/base/{error,rng}.c "$root/tests/cli/codec_twin.c"
"$CXX" -std=c++17 -O2 -Wno-attributes "${include[@]}" "$root/tests/cli/codec_kernels.cc" ./*.o -o kernels
./kernels 150 1
WARP_BACKWARDS=1 ./kernels 60 2
# The test itself sees other bytes: a kernel that considers sparse elsewhere.
mkdir -p broken/codec
sed "s/SPARSE_ONE_IN 16u/SPARSE_ONE_IN 1u/" "$root/src/codec/plan.cuh" > broken/codec/plan.cuh
"$CXX" -std=c++17 -O2 -Wno-attributes -Ibroken "${include[@]}" "$root/tests/cli/codec_kernels.cc" ./*.o -o broken/kernels
if ./broken/kernels 150 1 > broken/out; then
	echo "a kernel that makes other bytes was not seen"
	exit 1
fi
grep -q "other encoded bytes" broken/out
