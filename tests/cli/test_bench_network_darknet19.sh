#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# network, Darknet-19: what network.sh says of a model.
#
# Needs SLUICE_PAPERS_BIN and SLUICE_SOURCE_DIR.
set -u

footprint=48
# shellcheck source=tests/cli/network.sh
. "${SLUICE_SOURCE_DIR:?}/tests/cli/network.sh"
skip_where_it_cannot_run
model darknet19 24 22
runs 64 --model darknet19 --batch 32 --steps 8
learns 100
finish
