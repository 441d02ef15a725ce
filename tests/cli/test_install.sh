#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install --prefix` puts down serves programs outside the tree: in C, in C++ and
# through CMake, with the shared and with the static library. The same holds after the installed
# tree was moved. No file of it is changed here.
# Run in an empty directory.
set -u
: "${SLUICE_BUILD_DIR:?}" "${SLUICE_SOURCE_DIR:?}" "${CC:?}"
sanitize=${SLUICE_SANITIZE:+-fsanitize=$SLUICE_SANITIZE}
failed=0
unset LD_LIBRARY_PATH
# The build tool that is here for certain: the build's own.
CMAKE_GENERATOR=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$SLUICE_BUILD_DIR/CMakeCache.txt")
export CMAKE_GENERATOR

fail()
{
	echo "FAIL $*"
	failed=1
}

make_sources()
{
	mkdir -p user
	cat >user/user.c <<-'END'
		#include <stdio.h>
		#include <sluice/sluice.h>
		int
		main(void)
		{
			struct sluice_config config;

			if (sluice_config_init(&config))
				return 1;
			puts(sluice_version());
			return 0;
		}
	END
	cp user/user.c user/user.cc
	cat >user/CMakeLists.txt <<-'END'
		cmake_minimum_required(VERSION 3.25)
		project(user LANGUAGES ${LANGUAGE})
		find_package(Sluice ${WANTED} REQUIRED)
		if(LANGUAGE STREQUAL C)
			set(source user.c)
		else()
			set(source user.cc)
		endif()
		add_executable(user_shared ${source})
		target_link_libraries(user_shared PRIVATE Sluice::sluice)
		add_executable(user_static ${source})
		target_link_libraries(user_static PRIVATE Sluice::sluice_static)
	END
}

# prints_version WHAT PROGRAM: it runs, and prints the installed version.
prints_version()
{
	local out

	out=$("$2") || fail "$1: ends with $?"
	[ "$out" = "$version" ] || fail "$1: prints '$out', not $version"
}

# needs_no_library WHAT PROGRAM
needs_no_library()
{
	ldd "$2" | grep -q libsluice && fail "$1: needs the shared library all the same"
}

# by_pkg_config TREE: a program in each language, as README.md says it.
by_pkg_config()
{
	local tree=$1 libdir flags language compiler source

	libdir=$(dirname "$(find "$tree" -name 'libsluice.so')")
	export PKG_CONFIG_PATH=$libdir/pkgconfig
	version=$(pkg-config --modversion sluice) || { fail "$tree: no sluice.pc"; return; }
	[ "$version" = "$built_version" ] || fail "$tree: sluice.pc says $version"
	flags=$(pkg-config --cflags --libs sluice)
	for language in c cc; do
		compiler=$CC source=user/user.$language
		[ $language = c ] || compiler=${CXX:-}
		[ -n "$compiler" ] || continue
		rm -f user_shared
		# shellcheck disable=SC2086
		"$compiler" $sanitize $source $flags -o user_shared ||
			fail "$tree: $source does not compile with: $flags"
		LD_LIBRARY_PATH=$libdir prints_version "$tree: $source" ./user_shared
	done

	# Without the shared library the linker takes the archive, and needs all that it needs.
	rm -rf archive
	cp -r "$tree" archive
	find archive -name 'libsluice.so*' -delete
	export PKG_CONFIG_PATH=${libdir/#"$tree"/$PWD/archive}/pkgconfig
	flags=$(pkg-config --static --cflags --libs sluice)
	# shellcheck disable=SC2086
	"$CC" $sanitize user/user.c $flags -o user_static ||
		fail "$tree: static: does not link with: $flags"
	prints_version "$tree: static" ./user_static
	needs_no_library "$tree: static" ./user_static
	unset PKG_CONFIG_PATH
}

# configure TREE LANGUAGE WANTED: the CMake project user/ in ./user_build.
configure()
{
	rm -rf user_build
	cmake -S user -B user_build -DLANGUAGE="$2" -DWANTED="$3" -DCMAKE_PREFIX_PATH="$1" \
		-DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="${CXX:-c++}" \
		-DCMAKE_C_FLAGS="$sanitize" -DCMAKE_CXX_FLAGS="$sanitize" \
		>cmake.log 2>&1
}

by_cmake()
{
	local tree=$1 language

	for language in C CXX; do
		[ $language = C ] || [ -n "${CXX:-}" ] || continue
		if ! configure "$tree" $language "${built_version%.*}" ||
			! cmake --build user_build >>cmake.log 2>&1; then
			fail "$tree: a CMake project in $language cannot be built:"
			cat cmake.log
			continue
		fi
		prints_version "$tree: CMake, $language, shared" user_build/user_shared
		prints_version "$tree: CMake, $language, static" user_build/user_static
		needs_no_library "$tree: CMake, $language, static" user_build/user_static
		ldd user_build/user_shared | grep -q "libsluice.so.0 => $tree/" ||
			fail "$tree: CMake, $language: the shared library of another place"
	done
	configure "$tree" C 99.0 && fail "$tree: version 99.0 is found, too"
}

# The file below a library directory of several names leads to the prefix, too.
deep_library_directory()
{
	local dir=lib/some-linux/deep prefix

	cmake -S "$SLUICE_SOURCE_DIR" -B deep -DCMAKE_INSTALL_LIBDIR=$dir -DBUILD_TESTING=OFF \
		-DCMAKE_C_COMPILER="$CC" >cmake.log 2>&1 || { cat cmake.log; fail "configuring"; }
	mkdir -p tree/$dir/pkgconfig tree/include
	cp deep/cmake/sluice.pc tree/$dir/pkgconfig/
	for prefix in prefix= includedir=/include libdir=/$dir; do
		[ "$(realpath -m "$(PKG_CONFIG_PATH=$PWD/tree/$dir/pkgconfig \
			pkg-config --variable="${prefix%=*}" sluice)")" = "$PWD/tree${prefix#*=}" ] ||
			fail "$dir: ${prefix%=*} of sluice.pc"
	done
}

make_sources
built_version=$("$SLUICE_BIN" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
# A list of files as root's installation leaves it: one that cannot be written.
ln -sf /dev/full "$SLUICE_BUILD_DIR/install_manifest.txt"
cmake --install "$SLUICE_BUILD_DIR" --prefix "$PWD/prefix" >install.log ||
	{ cat install.log; exit 1; }
[ ! -L "$SLUICE_BUILD_DIR/install_manifest.txt" ] ||
	fail "an installation by root keeps others from installing"
cmp -s prefix/share/sluice/grafana-dashboard.json "$SLUICE_SOURCE_DIR/share/grafana-dashboard.json" ||
	fail "no dashboard"
libdir=$(dirname "$(find "$PWD/prefix" -name 'libsluice.so')")
grep -q "LD_LIBRARY_PATH=$libdir" install.log ||
	fail "the installation does not say how programs find the library"

by_pkg_config "$PWD/prefix"
by_cmake "$PWD/prefix"
mkdir elsewhere
mv prefix elsewhere/moved
by_pkg_config "$PWD/elsewhere/moved"
by_cmake "$PWD/elsewhere/moved"
grep -rIl "$PWD/prefix" elsewhere/moved && fail "these files name the prefix"
deep_library_directory
[ $failed = 0 ] && echo "sluice $built_version from $PWD/prefix, and moved"
exit $failed
