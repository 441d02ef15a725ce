#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# network, VGG-16: what network.sh says of a model.
#
# Needs SLUICE_PAPERS_BIN and SLUICE_SOURCE_DIR.
set -u

footprint=48
# shellcheck source=tests/cli/network.sh
. "${SLUICE_SOURCE_DIR:?}/tests/cli/network.sh"
skip_where_it_cannot_run
model vgg16 24 12
runs 64 --model vgg16 --batch 8 --steps 16
learns 20
finish
