# SPDX-License-Identifier: Apache-2.0
"""The report of a run, by the command `sluice report` of this package."""

import errno
import json
import os
import subprocess
from typing import Any, Dict, List, Optional

from sluice import command_path
from sluice._library import Error


def report(timeline: Any, trace: Optional[Any] = None, html: Optional[Any] = None) -> Dict[str, Any]:
    """Where the time of a run went: its parts for each GPU, functions that waited, what to change.

    timeline: of `sluice run --timeline`. trace: of `--record` of the same program: then the report
    says how much device memory gives what. html: a page is written there as well.
    Returns what `sluice report --json` prints. Blocks while the files are read.
    Raises Error (EINVAL: a file that is missing, cut or none of these) with the command's text.
    """
    words: List[str] = [str(command_path()), "report", os.fspath(timeline), "--json"]
    for option, path in (("--trace", trace), ("--html", html)):
        if path is not None:
            words += [option, os.fspath(path)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Error(errno.EINVAL, done.stderr.strip() or f"sluice report: exit status {done.returncode}")
    return json.loads(done.stdout)
