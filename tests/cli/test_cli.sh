#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The command line itself: help, version, exit codes, and the answer to a mistyped command.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}"
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

# expect STATUS WORDS... -- ARGUMENTS...: run, compare the exit status, find each word in the output.
expect()
{
	local want=$1 words=() status output
	shift
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	output=$("$SLUICE_BIN" "$@" 2>&1)
	status=$?
	[ $status = "$want" ] || fail "sluice $*: exit status $status instead of $want: $output"
	for word in "${words[@]}"; do
		case $output in
		*"$word"*) ;;
		*) fail "sluice $*: no '$word' in: $output" ;;
		esac
	done
}

commands=$("$SLUICE_BIN" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
[ "$(echo $commands)" = "bench demo doctor limit plan ps report resume run stat suspend top trace version" ] ||
	fail "commands listed: $commands"

expect 0 "Usage:" -- --help
expect 0 "Usage:" -- -h
expect 0 "Usage:" -- help
expect 2 "Usage:" --
expect 0 "sluice " -- --version
expect 0 "sluice " -- version
[ "$("$SLUICE_BIN" --version)" = "$("$SLUICE_BIN" version)" ] || fail "two different versions"

# The usage for a wrong command line goes to standard error, and nothing to standard output.
[ -z "$("$SLUICE_BIN" 2>/dev/null)" ] || fail "sluice without a command prints to standard output"

# Each command explains itself, both ways alike, and refuses what it does not know.
for command in $commands; do
	expect 0 "Usage: sluice $command" -- "$command" --help
	[ "$("$SLUICE_BIN" "$command" --help)" = "$("$SLUICE_BIN" help "$command")" ] ||
		fail "help $command differs from $command --help"
	wrong=2
	[ "$command" = run ] && wrong=125 # 2 may be the program's
	expect $wrong "no-such-option" -- "$command" --no-such-option
	expect $wrong -- "$command" -Z
done

# A slip is answered with the command that was meant; a different word is not.
expect 2 "did you mean 'doctor'" -- docter
expect 2 "did you mean 'doctor'" -- dcotor
expect 2 "did you mean 'stat'" -- stats
expect 2 "did you mean 'bench'" -- bnech
expect 2 "did you mean 'demo'" -- help dmeo
expect 2 "no command 'xyzzy'" -- xyzzy
case $("$SLUICE_BIN" xyzzy 2>&1) in
*"did you mean"*) fail "xyzzy is taken for a command" ;;
esac
expect 2 "no command" -- "$(printf 'x%.0s' {1..500})"
expect 2 "unknown option" -- --doctor

# So is an option, of each command; one that is another tool's word for ours, too.
slip() # OPTION MEANT COMMAND...
{
	local option=$1 meant=$2 want=2
	shift 2
	[ "$1" = run ] && want=125
	expect $want "unknown option '$option'; did you mean '$meant'?" -- "$@" "$option"
}
slip --footprnit --footprint bench vectorAdd
slip --quikc --quick demo
slip --jsno --json doctor
slip --device-memroy --device-memory plan
slip --device_memory=16G --device-memory run
slip --gpu --device-memory run
slip --vram=16G --device-memory plan
slip --intervall --interval stat
slip --as-txt --as-text trace show
slip --jason --json version
case $("$SLUICE_BIN" stat --gpu 2>&1) in
*"did you mean"*) fail "an option of other commands is suggested" ;;
esac
expect 2 "one command" -- help stat doctor
expect 2 "one argument too many" -- version 1
expect 2 "needs a value" -- doctor --dir
expect 2 "takes no value" -- doctor --json=1

# Output that cannot be written is a failure, said.
if [ -w /dev/full ]; then
	message=$("$SLUICE_BIN" version 2>&1 >/dev/full)
	[ $? = 1 ] || fail "version to a full device: not exit status 1"
	case $message in
	*"writing the output"*) ;;
	*) fail "version to a full device: said '$message'" ;;
	esac
fi

case $("$SLUICE_BIN" version --json | tr -d ' \n') in
'{"version":"'[0-9]*'"}') ;;
*) fail "version --json" ;;
esac
exit $failed
