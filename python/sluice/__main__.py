# SPDX-License-Identifier: Apache-2.0
"""`python -m sluice ARGUMENTS`: the command `sluice`, in this process's place."""

import os
import sys

import sluice


def main() -> None:
    try:
        command = str(sluice.command_path())
    except FileNotFoundError as error:
        sys.exit(f"sluice: {error}")
    os.execv(command, ["sluice", *sys.argv[1:]])


if __name__ == "__main__":
    main()
