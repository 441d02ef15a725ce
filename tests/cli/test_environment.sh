#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# SLUICE_ variables that nothing reads are said once, with the one that was meant: by the library, by
# the command, by `sluice run`. Every variable that the tree reads is known.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${SLUICE_LIB:?}" "${CC:?}"
failed=0
unset SLUICE_RUN SLUICE_LOG

fail()
{
	echo "FAIL $*"
	failed=1
}

# has TEXT PART WHAT
has()
{
	case $1 in
	*"$2"*) ;;
	*) fail "$3: no '$2' in: $1" ;;
	esac
}

cat >program.c <<'EOF'
#include <sluice/sluice.h>

int
main(void)
{
	struct sluice_config config;

	return sluice_config_init(&config) || sluice_config_init(&config);
}
EOF
lib_dir=$(dirname "$SLUICE_LIB")
flags=()
[ -z "${SLUICE_SANITIZE:-}" ] || flags+=("-fsanitize=$SLUICE_SANITIZE")
"$CC" "${flags[@]}" "-I$SLUICE_SOURCE_DIR/include" program.c -o program "-L$lib_dir" \
	"-Wl,-rpath,$lib_dir" -lsluice || exit 1

# The library.
said=$(./program 2>&1) || fail "the program ends with $?: $said"
[ -z "$said" ] || fail "said though all are known: $said"
said=$(SLUICE_DEVICE_BUGDET=1G SLUICE_XYZZY=1 ./program 2>&1) || fail "the program ends with $?: $said"
has "$said" "SLUICE_DEVICE_BUGDET is no variable of Sluice" "a slip"
has "$said" "did you mean SLUICE_DEVICE_BUDGET?" "a slip"
has "$said" "SLUICE_XYZZY is no variable of Sluice and changes nothing" "another word"
[ "$(wc -l <<<"$said")" = 2 ] || fail "not one line for each: $said"
case $said in
*"nothing; did you mean"*"nothing; did you mean"*) fail "another word is taken for a slip: $said" ;;
esac
has "$(SLUICE_FALUT=x ./program 2>&1)" "did you mean SLUICE_FAULT?" "one without a key"
[ -z "$(SLUICE_LOG=config=error SLUICE_XYZZY=1 ./program 2>&1)" ] || fail "SLUICE_LOG does not silence it"
[ -z "$(SLUICE=1 SLUICED_BREAD=1 ./program 2>&1)" ] || fail "a variable of somebody else is said"
[ -z "$(env "SLUICE_$(printf 'X%.0s' {1..300})=1" ./program 2>&1)" ] || fail "a long name is said"

# `sluice run`: before it becomes the program, which does not say it again.
if [ -n "${SLUICE_PRELOAD_LIBRARY:-}" ]; then
	# A program of ours that is built with a sanitizer runs under other libraries, too.
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 TMPDIR=$PWD
	said=$(SLUICE_DEVICE_BUGDET=1G "$SLUICE_BIN" run ./program 2>&1)
	[ "$(grep -c 'did you mean SLUICE_DEVICE_BUDGET?' <<<"$said")" = 1 ] || fail "sluice run: $said"
	said=$(SLUICE_DEVICE_BUGDET=1G "$SLUICE_BIN" run --dry-run true 2>&1)
	has "$said" "did you mean SLUICE_DEVICE_BUDGET?" "sluice run --dry-run"
	said=$(SLUICE_DEVICE_BUGDET=1G "$SLUICE_BIN" run --quiet true 2>&1)
	[ -z "$said" ] || fail "--quiet is not: $said"

	# What the tree reads, the tests are given and the pages explain.
	cd "$SLUICE_SOURCE_DIR" || exit 1
	names=$({
		grep -rhoE 'getenv\("SLUICE_[A-Z0-9_]+' src tools papers workloads bench tests
		grep -rhoE 'environ[a-z.]*[[(]"SLUICE_[A-Z0-9_]+' bench scripts tests
		grep -hoE '"SLUICE_[A-Z0-9_]+=' tests/CMakeLists.txt tests/preload/preload.cmake
		grep -hoE '\$\{SLUICE_[A-Z0-9_]+:' tests/cli/*.sh
		grep -hoE '^\*SLUICE_[A-Z0-9_]+\*' man/*.scd
	} | grep -oE 'SLUICE_[A-Z0-9_]+' | sort -u)
	cd - >/dev/null || exit 1
	[ "$(wc -w <<<"$names")" -ge 40 ] || fail "too few variables found: $names"
	given=()
	for name in $names; do
		[ "$name" = SLUICE_PRELOAD_LIBRARY ] || given+=("$name=")
	done
	said=$(env "${given[@]}" "$SLUICE_BIN" run --dry-run true 2>&1) || fail "all variables empty: $said"
	unknown=$(grep -o 'SLUICE_[A-Z0-9_]* is no variable' <<<"$said")
	[ -z "$unknown" ] || fail "not in the list: $unknown"
fi
exit $failed
