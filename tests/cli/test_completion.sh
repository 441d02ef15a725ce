#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Completion in bash, and in zsh and fish where they are: commands, options, files behind options that
# take one, the program behind `run`. Words are those of --help. Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}"
failed=0
files=$SLUICE_SOURCE_DIR/completions

fail()
{
	echo "FAIL $*"
	failed=1
}

mkdir bin folder && ln -s "$SLUICE_BIN" bin/sluice && touch file.trace || exit 1
PATH=$PWD/bin:$PATH
# shellcheck source=/dev/null
. "$files/sluice.bash"

# gives WANTED WORDS...: completing the last word gives these, among others.
gives()
{
	local wanted=$1 word
	shift
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	_sluice
	for word in $wanted; do
		[[ " ${COMPREPLY[*]} " == *" $word "* ]] || fail "$*: no $word in: ${COMPREPLY[*]}"
	done
}
# only WANTED WORDS...: these and no others.
only()
{
	gives "$@"
	[ "$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')" = "$(printf '%s\n' $1 | sort | tr '\n' ' ')" ] ||
		fail "$*: ${COMPREPLY[*]}"
}

only "$(sluice --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p') --help --version" sluice ""
only "report resume run" sluice r
only "--device-memory" sluice run --dev
only "--json --interval --count --help" sluice top --
for command in $(sluice --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'); do
	gives "--help" sluice "$command" --h
done
only "folder bin" sluice run --spill-dir ""
only "file.trace" sluice run --stats fi
only "" sluice run --device-memory 1
gives "file.trace show" sluice trace ""
gives "sluice" sluice run --device-memory 1G slui
gives "sluice" sluice run -- slui
gives "file.trace" sluice run -- cat fi
gives "file.trace" sluice run --prefetch on cat fi
gives "sluice" sluice doctor -- slui

if command -v zsh >/dev/null; then
	zsh -n "$files/_sluice" || fail "zsh cannot read it"
fi
if command -v fish >/dev/null; then
	fish -c "source '$files/sluice.fish'; complete -C 'sluice r'" | grep -q '^run' || fail "fish: no run"
	fish -c "source '$files/sluice.fish'; complete -C 'sluice top --j'" | grep -q '^--json' || fail "fish: no --json"
fi
[ $failed -eq 0 ] && echo "all right"
exit $failed
