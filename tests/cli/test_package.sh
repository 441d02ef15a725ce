#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The wheel of scripts/package: what is in it, which C library it needs, and what a user does with it
# in an empty virtual environment: the command, `python -m sluice`, a program on the stand-in driver,
# the Python module and its tutorial, a C program against the installed library, removal.
# Without PyPI, from which the tools come, this is skipped. Run in an empty directory.
set -u
. "${SLUICE_SOURCE_DIR:?}/tests/cli/package.sh"

command -v python3 >/dev/null || skip "no python3"
pkg-config --exists liburing || skip "no liburing-dev"
python3 -m venv try 2>/dev/null || skip "python3 makes no virtual environment (python3-venv)"
try/bin/python -m pip download -q --no-deps -d try scikit-build-core >/dev/null 2>&1 ||
	skip "PyPI cannot be reached"

"$SLUICE_SOURCE_DIR/scripts/package" made >said 2>&1
case $? in
0) ;;
69) skip "the tools cannot be had from PyPI" ;;
*) cat said; exit 1 ;;
esac
wheel=$(echo made/sluice_gpu-*-py3-none-manylinux_2_28_x86_64.whl)
[ -f "$wheel" ] || { fail "no wheel: $(ls made)"; exit 1; }
[ "$(stat -c %s "$wheel")" -le 8388608 ] || fail "more than 8 MiB: $(stat -c %s "$wheel")"

# No network, nothing else installed.
python3 -m venv user || exit 1
user/bin/python -m pip install -q --no-index "$wheel" || { fail "it cannot be installed"; exit 1; }
for file in bin/sluice lib/libsluice.so.0 lib/libsluice.a lib/sluice/libsluice-preload.so \
	include/sluice/sluice.h lib/pkgconfig/sluice.pc share/man/man1/sluice-run.1 \
	share/bash-completion/completions/sluice share/sluice/grafana-dashboard.json; do
	[ -e "user/$file" ] || fail "$file is missing"
done
for file in user/bin/sluice user/lib/libsluice.so.0 user/lib/sluice/libsluice-preload.so; do
	newest=$(objdump -T "$file" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
	[ "$(printf '%s\nGLIBC_2.28\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.28 ] ||
		fail "$file needs $newest"
	objdump -p "$file" | grep NEEDED | grep -vE 'lib(c|m|dl|pthread|rt)\.so|ld-linux' &&
		fail "$file needs another library"
done

[ "$(user/bin/sluice version)" = "sluice $version" ] || fail "sluice version"
[ "$(user/bin/python -m sluice version)" = "sluice $version" ] || fail "python -m sluice version"
user/bin/python -m sluice no-such-command >out 2>&1 && fail "a wrong command ends with 0"
grep -q no-such-command out || fail "a wrong command is not named: $(cat out)"
user/bin/python - <<-END || fail "the module"
	import os, sluice
	assert sluice.__version__ == "$version", sluice.__version__
	assert str(sluice.command_path()) == os.path.realpath("user/bin/sluice")
	assert (sluice.prefix_path() / "include" / "sluice" / "sluice.h").is_file()
	try:
	    sluice.nothing
	except AttributeError:
	    pass
	else:
	    raise SystemExit("sluice.nothing exists")
END
user/bin/sluice doctor >out 2>&1 || fail "doctor ends with $?: $(cat out)"
grep -q '^ok *software device' out || fail "the software device does not run: $(cat out)"

# README's first command, the program being one on the stand-in driver.
program_runs user/bin/sluice

# A program of the user's own.
cat >own.c <<-'END'
	#include <stdio.h>
	#include <sluice/sluice.h>
	int
	main(void)
	{
		struct sluice_config config;
		struct sluice_space *space;
		void *addr;

		puts(sluice_version());
		if (sluice_config_init(&config) ||
		    sluice_config_parse(&config, "device_budget=16M,host_budget=0") ||
		    sluice_space_create(&config, &space) ||
		    !sluice_map(space, "own.c/file", 0, 0, SLUICE_READ, &addr))
			return 1;
		puts(sluice_last_error());
		return sluice_space_destroy(space) ? 1 : 0;
	}
END
export PKG_CONFIG_PATH=$PWD/user/lib/pkgconfig
# shellcheck disable=SC2046
"$CC" own.c $(pkg-config --cflags --libs sluice) -o own || fail "own.c cannot be built"
LD_LIBRARY_PATH=user/lib ./own >out || fail "own.c ends with $?: $(cat out)"
grep -qx "$version" out || fail "own.c: no version: $(cat out)"
grep -q 'Not a directory (ENOTDIR)' out || fail "own.c: the error has no name: $(cat out)"

# The module; NumPy is no dependency of the wheel.
user/bin/python -c 'import sluice, sys; sys.exit("numpy" in sys.modules)' || fail "import sluice loads NumPy"
mkdir python
if user/bin/python -m pip install -q numpy >said 2>&1; then
	(cd python && TMPDIR=$PWD ../user/bin/python "$SLUICE_SOURCE_DIR/tests/cli/python_try.py" \
		"$SLUICE_SOURCE_DIR/docs/python.md") || fail "the module"
	# On a GPU, which is the stand-in driver.
	"$CC" -O1 -D_GNU_SOURCE -shared -fPIC -I"$SLUICE_SOURCE_DIR/tests" \
		"$SLUICE_SOURCE_DIR/tests/cli/python_kernels.c" -o python/kernels.so || fail "kernels"
	(cd python && SLUICE_CUDA_LIBRARY=$SLUICE_STANDIN_PLAIN CUDA_STANDIN_QUIET=1 TMPDIR=$PWD \
		../user/bin/python "$SLUICE_SOURCE_DIR/tests/cli/python_gpu_try.py" kernels.so \
		"$SLUICE_SOURCE_DIR/docs/python.md") ||
		fail "the module with a GPU"
	(cd python && SLUICE_CUDA_LIBRARY=$SLUICE_STANDIN_PLAIN CUDA_STANDIN_QUIET=1 TMPDIR=$PWD \
		../user/bin/sluice run --device-memory 64M --host-memory 128M -- ../user/bin/python \
		"$SLUICE_SOURCE_DIR/tests/cli/python_gpu_try.py" kernels.so) ||
		fail "the module with a GPU under sluice run"
else
	echo "left out: the module's arrays: NumPy cannot be had from PyPI"
fi

# It leaves nothing behind.
user/bin/python -m pip uninstall -q -y sluice-gpu || fail "it cannot be removed"
left=$(find user -path '*sluice*' -not -name '__pycache__' | head -n 3)
[ -z "$left" ] || fail "left behind: $left"

[ $failed -eq 0 ] && echo "all right"
exit $failed
