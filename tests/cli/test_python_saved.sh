#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What sluice.torch.last_resort() moves to the host, and what comes back: python/sluice/_saved.py with a
# library in place of PyTorch. Run in an empty directory.
set -u
: "${SLUICE_SOURCE_DIR:?}"
# shellcheck source=tests/cli/needs.sh
. "$SLUICE_SOURCE_DIR/tests/cli/needs.sh"
needs_python
exec python3 -B "$SLUICE_SOURCE_DIR/tests/cli/python_saved_try.py" "$SLUICE_SOURCE_DIR/python/sluice/_saved.py"
