#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# README.md: its example compiles without a warning; the lines below it install the library, compile
# the example and run it, as they stand, and it prints the right sum; the files and the commands it
# names are there.
# Run in an empty directory.
set -u
: "${SLUICE_SOURCE_DIR:?}" "${SLUICE_BUILD_DIR:?}" "${SLUICE_BIN:?}" "${CC:?}"
readme=$SLUICE_SOURCE_DIR/README.md
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

# block LANGUAGE: the lines of README.md's code in that language.
block()
{
	awk -v "first=\`\`\`$1" '$0 == first { inside = 1; next } /^```/ { inside = 0 } inside' "$readme"
}

block c >words.c
[ -s words.c ] || fail "no example"
"$CC" -std=c99 -O2 -Wall -Wextra -Werror "-I$SLUICE_SOURCE_DIR/include" -c words.c -o /dev/null ||
	fail "the example does not compile without a warning"

# Files that are linked to.
for file in $(grep -oE '\]\([^)]+\)' "$readme" | tr -d '()' | tr -d ']'); do
	case $file in
	'#'*) sed -n 's/^##* //p' "$readme" | tr 'A-Z ' 'a-z-' | tr -d '?' | grep -qx "${file#?}" ||
		fail "$file: no such heading" ;;
	*) [ -e "$SLUICE_SOURCE_DIR/$file" ] || fail "$file is not there" ;;
	esac
done
for header in $(grep -oE 'include/sluice/[a-z_]+\.h' "$readme"); do
	[ -e "$SLUICE_SOURCE_DIR/$header" ] || fail "$header is not there"
done
for verb in $(grep -oE '\./dev [a-z]+' "$readme" | cut -d' ' -f2 | sort -u); do
	"$SLUICE_SOURCE_DIR/dev" help | grep -qE "^ +$verb\b" || fail "./dev has no '$verb'"
done
grep -q '<!-- bench:summary -->' "$readme" && grep -q '<!-- /bench:summary -->' "$readme" ||
	fail "no place for the measured table"

[ $failed = 0 ] || exit 1
if ! "$SLUICE_BIN" doctor --dir . >doctor; then
	echo "skip: compiled, not run: the software device cannot work here"
	exit 77
fi
# The lines as they stand: this build is build/release, and the only compiler is cc.
block sh >lines
grep -q pkg-config lines || fail "no lines that install and compile"
mkdir -p build home bin
ln -s "$SLUICE_BUILD_DIR" build/release
printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$CC" "${SLUICE_SANITIZE:+-fsanitize=$SLUICE_SANITIZE}" >bin/cc
chmod +x bin/cc
HOME=$PWD/home PATH=$PWD/bin:$PATH bash -e lines >out || fail "its lines end with $?: $(cat out)"
sum=$(tail -n 1 out)
n=$((256 * 1024 * 1024 / 8))
[ "$sum" = $((n * (n - 1) / 2)) ] || fail "the sum is '$sum'"
# What the last line says: the file holds the words.
[ "$(stat -c %s words.bin)" = $((256 * 1024 * 1024)) ] || fail "the file's size"
[ "$(od -A n -t u8 -j $((256 * 1024 * 1024 - 8)) words.bin | tr -d ' ')" = $((n - 1)) ] ||
	fail "the file's last word"
exit $failed
