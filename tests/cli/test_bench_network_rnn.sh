#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# network, the recurrent one: what network.sh says of a model.
#
# Needs SLUICE_PAPERS_BIN and SLUICE_SOURCE_DIR.
set -u

footprint=48
# shellcheck source=tests/cli/network.sh
. "${SLUICE_SOURCE_DIR:?}/tests/cli/network.sh"
skip_where_it_cannot_run
model rnn 24 12
runs 64 --model rnn --batch 64 --steps 8
learns 200
finish
