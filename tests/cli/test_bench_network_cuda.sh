#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# network on the stand-in driver: each model right with each kind of memory, larger than the device
# budget; the same weights as on the software device where one loop serves both; discarding saves
# bytes over the link; no rule of the driver is broken, nothing leaks.
#
# Needs SLUICE_PAPERS_BIN, SLUICE_SOURCE_DIR and SLUICE_STANDIN_LIBRARY.
set -u

footprint=16
# shellcheck source=tests/cli/network.sh
. "${SLUICE_SOURCE_DIR:?}/tests/cli/network.sh"
export SLUICE_CUDA_LIBRARY=${SLUICE_STANDIN_LIBRARY:?} CUDA_STANDIN_STRICT=1
skip_where_it_cannot_run

on_cuda() { # device MiB, memories, then more
	runs "$1" --device cuda --memory "$2" --verify "${@:3}"
	! grep '"verified":' "$dir/out" | grep -vq true || fail "$*: not verified with each memory"
}

on_cuda 22 sluice --model vgg16 --batch 4 --steps 1
on_cuda 22 sluice --model darknet19 --batch 4 --steps 1
on_cuda 22 sluice --model resnet53 --batch 4 --steps 1
on_cuda 22 all --model rnn --batch 16 --size 8 --steps 2
want=$weights
runs 64 --model rnn --batch 16 --size 8 --steps 2
[ "$weights" = "$want" ] || fail "rnn: other weights than on the software device"
footprint=32
runs 22 --device cuda --model resnet53 --batch 40 --steps 1
none=$moved want=$weights
runs 22 --device cuda --model resnet53 --batch 40 --steps 1 --discard lazy
[ "$weights" = "$want" ] || fail "resnet53: other weights with discard"
echo "resnet53: $((none >> 20)) MiB over the link without discard, $((moved >> 20)) with it"
[ "$moved" -lt "$none" ] || fail "discarding saved nothing"
finish
