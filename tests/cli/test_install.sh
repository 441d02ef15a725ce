#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts down is enough to build and run a program that was written to it:
# headers, both libraries, sluice.pc.
set -u
prefix=$PWD/prefix

cmake --install "$SLUICE_BUILD_DIR" --prefix "$prefix" >install.log || { cat install.log; exit 1; }
pc=$(find "$prefix" -name sluice.pc) || exit 1
if [ -z "$pc" ]; then
	echo "no sluice.pc installed"
	exit 1
fi
libdir=$(dirname "$(dirname "$pc")")
cat >user.c <<'END'
#include <stdio.h>
#include <sluice/sluice.h>
int
main(void)
{
	puts(sluice_version());
	return 0;
}
END
# The file names the prefix that was configured; this test installed elsewhere.
export PKG_CONFIG_PATH=$libdir/pkgconfig

sed -i "s|^prefix=.*|prefix=$prefix|; s|^libdir=.*|libdir=$libdir|; s|^includedir=.*|includedir=$prefix/include|" "$pc"
sanitize=${SLUICE_SANITIZE:+-fsanitize=$SLUICE_SANITIZE}
version=$(pkg-config --modversion sluice) || exit 1

"${CC:-cc}" $sanitize user.c -o user_shared $(pkg-config --cflags --libs sluice) \
	-Wl,-rpath,"$libdir" || exit 1
[ "$(./user_shared)" = "$version" ] || { echo "shared: $(./user_shared), not $version"; exit 1; }

"${CC:-cc}" $sanitize user.c -o user_static $(pkg-config --cflags sluice) \
	"$libdir/libsluice.a" $(pkg-config --static --libs-only-l sluice | sed 's/-lsluice//') || exit 1
[ "$(./user_static)" = "$version" ] || { echo "static: $(./user_static), not $version"; exit 1; }
ldd ./user_static | grep -q libsluice && { echo "static: still needs the shared library"; exit 1; }
echo "sluice $version from $prefix"
