# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What a test of unmodified programs cannot do without: each of these ends it as skipped, and says why.

needs_preload()
{
	[ -n "${SLUICE_PRELOAD_LIBRARY:-}" ] && return
	echo "skip: the preload library is not for this machine"
	exit 77
}

needs_python()
{
	command -v python3 >/dev/null && python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' && return
	echo "skip: no python3 of version 3.10 or newer"
	exit 77
}

# To spill to: in the current directory.
needs_disk()
{
	case $(stat -f -c %T .) in
	tmpfs | ramfs)
		echo "skip: this directory is in memory, there is nothing to spill to"
		exit 77
		;;
	esac
}
