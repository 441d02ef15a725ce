#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice doctor` on the direct path between store and GPU: each step at which cuFile can refuse is told
# apart, by a cuFile made here that refuses as it is told. Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${CC:?}"
[ -n "${SLUICE_STANDIN_LIBRARY:-}" ] || { echo "no stand-in driver: without a GPU no check"; exit 77; }
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

cat >cufile.c <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
struct result { int own, driver; };
struct descriptor { int type; union { int fd; void *handle; } of; const void *ops; };
static int opened, taken;
static int told(const char *what)
{
	const char *code = getenv(what);
	return code ? atoi(code) : 0;
}
struct result cuFileDriverOpen(void)
{
	opened++;
	return (struct result){told("FAKE_OPEN"), 0};
}
struct result cuFileHandleRegister(void **handle, struct descriptor *d)
{
	struct stat st;
	int flags = fcntl(d->of.fd, F_GETFL);
	if (d->type != 1 || d->ops || !(flags & O_DIRECT) || fstat(d->of.fd, &st) || !st.st_size)
		return (struct result){4999, 0};
	taken++;
	*handle = &taken;
	return (struct result){told("FAKE_REGISTER"), 1};
}
void cuFileHandleDeregister(void *handle)
{
	if (handle == &taken)
		taken--;
}
#ifndef LACKING
struct result cuFileDriverClose(void)
{
	fprintf(stderr, "closed, %d left\n", taken);
	return (struct result){0, 0};
}
#endif
END
"$CC" -D_GNU_SOURCE -shared -fPIC -o cufile.so cufile.c || { fail "the stand-in for cuFile is not built"; exit 1; }
"$CC" -D_GNU_SOURCE -shared -fPIC -DLACKING -o lacking.so cufile.c || exit 1
mkdir data

# direct_is PART [SETTINGS ...]: a part of the line; the rest of the output is in $text.
direct_is()
{
	local part=$1
	shift
	text=$(env SLUICE_CUDA_LIBRARY="$SLUICE_STANDIN_LIBRARY" "$@" "$SLUICE_BIN" doctor --json \
		--dir data 2>&1 | sed -E 's/^ +//; s/": /":/' | tr -d '\n' | sed 's/{"name"/\n&/g')
	grep -F '"direct store to device"' <<<"$text" | grep -qF "$part" ||
		fail "with $*: no '$part': $(grep -F direct <<<"$text")"
}

direct_is "direct" SLUICE_CUFILE_LIBRARY=/nonexistent/cufile.so
case $text in
*"no nameless file with O_DIRECT"*) echo "no O_DIRECT in $PWD"; exit 77 ;;
esac
direct_is "not installed: /nonexistent/cufile.so" SLUICE_CUFILE_LIBRARY=/nonexistent/cufile.so
direct_is "no cuFileDriverClose" SLUICE_CUFILE_LIBRARY="$PWD/lacking.so"
direct_is "does not start: error 5001" SLUICE_CUFILE_LIBRARY="$PWD/cufile.so" FAKE_OPEN=5001
direct_is "does not take a file of this directory: error 5027 (driver's: 1)" \
	SLUICE_CUFILE_LIBRARY="$PWD/cufile.so" FAKE_REGISTER=5027
direct_is '"status":"limited"' SLUICE_CUFILE_LIBRARY="$PWD/cufile.so" FAKE_REGISTER=5027
direct_is "pinned host memory" SLUICE_CUFILE_LIBRARY="$PWD/cufile.so"
case $text in
*"closed, 0 left"*) ;;
*) fail "cuFile was not closed, or holds a file" ;;
esac
if [ -e /proc/driver/nvidia-fs/version ]; then
	direct_is "cuFile takes files in data" SLUICE_CUFILE_LIBRARY="$PWD/cufile.so"
else
	direct_is "nvidia-fs is not loaded" SLUICE_CUFILE_LIBRARY="$PWD/cufile.so"
fi

# Without a GPU there is no line at all.
text=$(SLUICE_CUDA_LIBRARY=/nonexistent/libcuda.so.1 "$SLUICE_BIN" doctor --dir data)
grep -q "direct store" <<<"$text" && fail "a line without a GPU"
[ -z "$(ls -A data)" ] || fail "left behind: $(ls -A data)"
[ ! -e cufile.log ] || fail "left behind: cufile.log"
exit $failed
