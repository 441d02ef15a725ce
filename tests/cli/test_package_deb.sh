#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Debian packages of scripts/package-deb: what is in each, and that the command, the preload
# library and the C library work from an unpacked root. Run in an empty directory.
set -u
. "${SLUICE_SOURCE_DIR:?}/tests/cli/package.sh"

for tool in dpkg-buildpackage dh dpkg-deb; do
	command -v $tool >/dev/null || skip "no $tool"
done
pkg-config --exists liburing || skip "no liburing-dev"
dpkg-query -W build-essential >/dev/null 2>&1 || skip "no build-essential"
"$SLUICE_SOURCE_DIR/scripts/package-deb" made >said 2>&1 || { cat said; exit 1; }
[ "$(ls made/*.deb | wc -l)" = 3 ] || fail "not three packages: $(ls made)"
for package in made/*.deb; do
	dpkg-deb -x "$package" root || fail "$package cannot be unpacked"
done
libdir=root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)

# has PACKAGE FILE...: each is there once, in that package.
has()
{
	local package=$1 file
	shift
	dpkg-deb -c made/"$package"_*.deb >list
	for file in "$@"; do
		grep -q "$file" list || fail "$package has no $file"
	done
}
has sluice-gpu /usr/bin/sluice /sluice/libsluice-preload.so man1/sluice-run.1 man7/sluice.7 \
	share/sluice/grafana-dashboard.json \
	bash-completion/completions/sluice zsh/vendor-completions/_sluice fish/vendor_completions.d/sluice.fish
has libsluice0 '/libsluice.so.0 '
has libsluice-dev include/sluice/sluice.h /libsluice.a '/libsluice.so ' sluice.pc SluiceConfig.cmake \
	man3/sluice_map.3
[ "$(dpkg-deb -f made/sluice-gpu_*.deb Conflicts)" = sluice ] || fail "no conflict with Debian's sluice"
[ "$(dpkg-deb -f made/libsluice-dev_*.deb Depends | grep -c "libsluice0 (= $version)")" = 1 ] ||
	fail "libsluice-dev does not want its own libsluice0"
# Nobody may think that a package has the driver.
dpkg-deb --ctrl-tarfile made/sluice-gpu_*.deb | tar -tf - | grep -q shlibs &&
	fail "sluice-gpu offers libcuda.so.1"

[ "$(root/usr/bin/sluice version)" = "sluice $version" ] || fail "sluice version"
root/usr/bin/sluice doctor >out 2>&1 || fail "doctor ends with $?: $(cat out)"
program_runs root/usr/bin/sluice

cat >own.c <<-'END'
	#include <stdio.h>
	#include <sluice/sluice.h>
	int main(void) { puts(sluice_version()); return 0; }
END
export PKG_CONFIG_PATH=$PWD/$libdir/pkgconfig
# shellcheck disable=SC2046
"$CC" own.c $(pkg-config --cflags --libs sluice) -o own || fail "own.c cannot be built"
[ "$(LD_LIBRARY_PATH=$libdir ./own)" = "$version" ] || fail "own.c does not run"

[ $failed -eq 0 ] && echo "all right"
exit $failed
