#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice run` up to the program: what it sets and says, wrong input, exit codes, the library that is
# missing or wrong, spill directories, programs that do not use CUDA. What happens inside a CUDA program
# is in test_run_cuda.sh.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}"
failed=0
unset SLUICE_RUN SLUICE_SPILL_DIRS SLUICE_DEVICE_BUDGET SLUICE_HOST_BUDGET SLUICE_STORE_BUDGET LD_PRELOAD
unset PYTORCH_NO_CUDA_MEMORY_CACHING PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF
unset XLA_PYTHON_CLIENT_PREALLOCATE TF_FORCE_GPU_ALLOW_GROWTH
# A program of ours that is built with a sanitizer runs under other libraries, too.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0

fail()
{
	echo "FAIL $*"
	failed=1
}

# A library that does nothing: all of this but the last part is about the launcher.
mkdir libs spill
echo 'int nothing;' | "$CC" -x c -shared -fPIC - -o libs/libsluice-preload.so || exit 1
library=$PWD/libs/libsluice-preload.so
# Spilling needs a real disk: where this directory is one, the defaults need no help.
export TMPDIR=$PWD/spill
disk=yes
case $(stat -f -c %T .) in
tmpfs | ramfs) disk=no ;;
esac

# run STATUS PART ARGUMENTS...: exit status, and a part of what is said; the output is in $output.
run()
{
	local want=$1 part=$2 status
	shift 2
	output=$("$SLUICE_BIN" run --library "$library" "$@" 2>&1)
	status=$?
	[ $status = "$want" ] || fail "run $*: exit status $status, not $want: $output"
	case $output in
	*"$part"*) ;;
	*) fail "run $*: no '$part' in: $output" ;;
	esac
}

# Wrong input: nothing is run, 125, and the text names it.
run 125 "no program" --quiet
run 125 "no program" --
for option in --device-memory --host-memory --store-memory; do
	run 125 "$option 'much'" $option much true
	run 125 "$option '-1'" $option -1 true
	run 125 "$option ''" $option "" true
	run 125 "needs a value" $option
done
run 125 "less than 8M" --device-memory 1M true
run 125 "--device-memory 99999G: more than 64T" --device-memory 99999G true
run 125 "this process can have" --host-memory 900T true
SLUICE_CHUNK=3M run 125 "chunk of 3145728 bytes: must be" true
SLUICE_LARGE_CHUNK=128M run 125 "large_chunk of 134217728 bytes: must be" true
SLUICE_READAHEAD_CHUNKS=few run 125 "readahead_chunks=few: not a number" true
run 125 "--baseline 'fast'" --baseline fast true
run 125 "naive|opt|off" --baseline "" true
run 125 "--kernel-args 'some'" --kernel-args some true
run 125 "--report-memory 'real'" --report-memory real true
run 125 "--managed 'me'" --managed me true
run 125 "--vmm-memory 'me'" --vmm-memory me true
run 125 "--compress 'some'" --compress some true
run 125 "auto|always|never" --compress "" true
run 125 "it is --compress" --set compress=auto true
run 125 "--no-framework 'caffe'" --no-framework caffe true
run 125 "--quiet and --verbose" --quiet --verbose true
run 125 "--json goes with" --json true
run 125 "takes no value" --quiet=1 true
run 125 'unknown key "nothing"' --set nothing=1 true
run 125 "not key=value" --set checking true
run 125 "0 or 1 wanted" --set checking=7 true
run 125 "one setting each" --set checking=0,publish=1 true
run 125 "it is --device-memory" --set device_budget=64M true
run 125 "it is --spill-dir" --set spill_dirs=/ true
run 125 "--kernel-rules nowhere" --kernel-rules nowhere true
run 125 "--stats nowhere/s.json" --stats nowhere/s.json true
run 125 "a directory" --stats spill/ true
run 125 "not a plain file" --stats spill true
many=()
for i in {1..17}; do many+=(--spill-dir spill); done
run 125 "more than 16 times --spill-dir" "${many[@]}" true
[ -e s.json ] && fail "something was written"

# Directories to spill to.
touch file
run 125 "No such file" --spill-dir nowhere true
run 125 "not a directory" --spill-dir file true
if [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] && [ -w /dev/shm ]; then
	run 125 "memory themselves (tmpfs)" --spill-dir /dev/shm true
	SLUICE_SPILL_DIRS=/dev/shm run 125 "SLUICE_SPILL_DIRS: /dev/shm" true
	# Of the defaults one in memory is passed over, and that is said.
	TMPDIR=/dev/shm run 0 "nothing is spilled to /dev/shm" true
fi
if [ "$(id -u)" != 0 ]; then
	mkdir closed && chmod 500 closed
	run 125 "no file can be made there" --spill-dir closed true
fi
if [ $disk = yes ]; then
	run 0 "SLUICE_SPILL_DIRS=$PWD/spill" --dry-run true
	mkdir more
	run 0 "SLUICE_SPILL_DIRS=$PWD/more:$PWD/spill" --dry-run --spill-dir more --spill-dir ./spill true
	SLUICE_SPILL_DIRS=more run 0 "SLUICE_SPILL_DIRS=$PWD/more" --dry-run true
	[ -z "$(ls -A spill; ls -A more)" ] || fail "left behind: $(ls -A spill more)"
fi

# What leaves the GPU is compressed, unless that is not wanted.
run 0 "compress auto" sh -c 'echo compress $SLUICE_COMPRESS'
run 0 "compress never" --compress never sh -c 'echo compress $SLUICE_COMPRESS'
SLUICE_COMPRESS=always run 0 "compress always" sh -c 'echo compress $SLUICE_COMPRESS'

# `sluice stat` may look, unless that is forbidden.
run 0 "published 1" sh -c 'echo published $SLUICE_PUBLISH'
run 0 "published 0" --set publish=0 sh -c 'echo published $SLUICE_PUBLISH'
SLUICE_PUBLISH=0 run 0 "published 0" sh -c 'echo published $SLUICE_PUBLISH'

# The library.
library=nowhere.so run 125 "nowhere.so: No such file" true
output=$(SLUICE_PRELOAD_LIBRARY=$library "$SLUICE_BIN" run --dry-run true) || fail "by environment: $output"
grep -qxF "library  $library" <<<"$output" || fail "by environment: $output"
echo "no library" >libs/text.so
library=$PWD/libs/text.so run 125 "not a shared library" true
head -c 18 "$library" >libs/other.so && printf '\xb7\x00' >>libs/other.so &&
	tail -c +21 "$library" >>libs/other.so # of another machine
[ "$(uname -m)" = aarch64 ] || library=$PWD/libs/other.so run 125 "another architecture" true
mkdir "libs/a b" && cp "$library" "libs/a b"
library="$PWD/libs/a b/libsluice-preload.so" run 125 "LD_PRELOAD cannot hold" true
mkdir -p alone/bin && cp "$SLUICE_BIN" alone/bin/sluice
if output=$(env -u SLUICE_PRELOAD_LIBRARY alone/bin/sluice run true 2>&1); then
	fail "found a library where there is none"
else
	case $output in
	*"neither in the build tree nor in the installation"*) ;;
	*) fail "no library: $output" ;;
	esac
fi

# Exit codes: the program's own; ours only where nothing ran.
run 0 "" true
run 1 "" false
run 3 "" sh -c 'exit 3'
run 125 "" sh -c 'exit 125'
run 127 "not found in PATH" no-such-program
run 127 "No such file" ./no-such-program
run 126 "cannot be executed" "$PWD/file"
run 126 "cannot be executed" ./libs
bash -c '"$@" 2>/dev/null; exit $?' - "$SLUICE_BIN" run --library "$library" sh -c 'kill -TERM $$' 2>/dev/null
[ $? = 143 ] || fail "killed by SIGTERM is not 143"
PATH=$PWD/libs:$PATH run 126 "not a shared" sh -c 'echo not a shared; exit 126'

# The program is this process: same number, no parent of ours.
echo 'echo $$; exec sh -c "exit 5"' >self.sh
output=$("$SLUICE_BIN" run --library "$library" --quiet sh self.sh & echo "pid $!"; wait $!; echo "rc $?")
case $(echo $output | tr '\n' ' ') in
*"rc 5"*) ;;
*) fail "the shell's exit code: $output" ;;
esac
[ "$(grep -o 'pid [0-9]*' <<<"$output" | cut -d' ' -f2)" = "$(grep -x '[0-9]*' <<<"$output")" ] ||
	fail "another process: $output"

# LD_PRELOAD: ours first, the user's kept; a run inside a run has one.
echo 'int other;' | "$CC" -x c -shared -fPIC - -o libs/other_preload.so
other=$PWD/libs/other_preload.so
LD_PRELOAD=$other run 0 "$library:$other" sh -c 'echo "$LD_PRELOAD"'
LD_PRELOAD="$other $other" run 0 "$library:$other:$other" sh -c 'echo "$LD_PRELOAD"'
run 0 "<$library>" "$SLUICE_BIN" run --library "$library" sh -c 'echo "<$LD_PRELOAD>"'
run 0 "<mode=off>" --explain "$SLUICE_BIN" run --library "$library" --baseline off sh -c 'echo "<$SLUICE_RUN>"'

# What options become.
run 0 "SLUICE_RUN=mode=naive,arguments=all,meminfo=physical,managed=ours,mapped=driver,follow=never,explain=1,verbose=1" \
	--dry-run --baseline naive --kernel-args all --report-memory physical --managed sluice --vmm-memory driver --prefetch off \
	--explain --verbose --keep-frameworks true
# The earlier names of these options.
run 0 "SLUICE_RUN=mode=naive,arguments=all,meminfo=physical,managed=ours,mapped=ours,follow=never,explain=1" \
	--dry-run --mode naive --arguments all --meminfo physical --managed ours --mapped ours --no-follow \
	--explain --keep-frameworks true
run 0 "SLUICE_RUN=mode=paged,managed=driver,mapped=ours,follow=always,explain=1" \
	--dry-run --mode paged --managed driver --mapped sluice --follow always --explain --keep-frameworks true
run 125 "--kernel-rules nowhere" --policies nowhere true
run 0 "SLUICE_DEVICE_BUDGET=67108864" --dry-run --device-memory 64M true
run 0 "SLUICE_HOST_BUDGET=1048576" --dry-run --host-memory 1M true
run 0 "SLUICE_STORE_BUDGET=0" --dry-run --store-memory 0 true
case $(run 0 "" --dry-run --device-memory auto true; echo "$output") in
*SLUICE_DEVICE_BUDGET*) fail "auto is passed as a size" ;;
esac
run 0 "SLUICE_CHECKING=1" --dry-run --set checking=1 --set readahead_chunks=3 true
run 0 "SLUICE_READAHEAD_CHUNKS=3" --dry-run --set checking=1 --set readahead_chunks=3 true
mkdir "odd, name"
run 0 "stats=$PWD/odd\\, name/s\\\\t%p.json" --dry-run --stats "odd, name/s\\t%p.json" true
echo old >s.json
run 0 "" --stats s.json true
[ -e s.json ] && fail "old statistics are still there"

# Frameworks: told unless they are set, or refused.
all="frameworks=pytorch+jax+jax-allocator+tensorflow"
run 0 "$all" --dry-run true
run 0 "PYTORCH_NO_CUDA_MEMORY_CACHING=1" --dry-run true
run 0 "1 false true" sh -c \
	'echo "$PYTORCH_NO_CUDA_MEMORY_CACHING $XLA_PYTHON_CLIENT_PREALLOCATE $TF_FORCE_GPU_ALLOW_GROWTH"'
run 0 "frameworks=jax+jax-allocator+tensorflow" --dry-run --no-framework pytorch true
run 0 "frameworks=tensorflow" --dry-run --no-framework pytorch --no-framework jax true
XLA_PYTHON_CLIENT_PREALLOCATE=true run 0 "frameworks=pytorch+tensorflow" --dry-run true
XLA_PYTHON_CLIENT_PREALLOCATE=false run 0 "frameworks=pytorch+jax-allocator+tensorflow" --dry-run true
XLA_PYTHON_CLIENT_ALLOCATOR=bfc run 0 "frameworks=pytorch+jax+tensorflow" --dry-run true
CUDA_VISIBLE_DEVICES= run 0 "<platform>" sh -c 'echo "<$XLA_PYTHON_CLIENT_ALLOCATOR>"'
CUDA_VISIBLE_DEVICES=0,1 run 0 "<platform>" sh -c 'echo "<$XLA_PYTHON_CLIENT_ALLOCATOR>"'
CUDA_VISIBLE_DEVICES=1 run 0 "<cuda_async>" sh -c 'echo "<$XLA_PYTHON_CLIENT_ALLOCATOR>"'
XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async run 0 "<cuda_async>" sh -c 'echo "<$XLA_PYTHON_CLIENT_ALLOCATOR>"'
XLA_PYTHON_CLIENT_PREALLOCATE=true run 0 "<>" sh -c 'echo "<${XLA_PYTHON_CLIENT_ALLOCATOR-}>"'
# What is mapped by the program: by what it has loaded, unless that is said or refused.
run 0 "mapped=auto" --dry-run true
run 0 "mapped=ours" --dry-run --vmm-memory sluice true
for options in --keep-frameworks "--baseline off" "--no-framework jax"; do
	run 0 "SLUICE_RUN" --dry-run $options true
	case $output in *mapped=*) fail "$options: $output" ;; esac
done
XLA_PYTHON_CLIENT_PREALLOCATE=true run 0 "<true>" sh -c 'echo "<$XLA_PYTHON_CLIENT_PREALLOCATE>"'
for options in --keep-frameworks "--baseline off"; do
	run 0 "<>" $options sh -c 'echo "<$PYTORCH_NO_CUDA_MEMORY_CACHING$TF_FORCE_GPU_ALLOW_GROWTH>"'
done
for variable in PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF; do
	export $variable="a:1,expandable_segments:True,b:2"
	run 0 "<a:1,expandable_segments:False,b:2>" sh -c "echo \"<\$$variable>\""
	case $output in
	*"sluice: $variable: expandable_segments"*) ;;
	*) fail "not said: $output" ;;
	esac
	run 0 "<a:1,expandable_segments:True,b:2>" --no-framework expandable-segments \
		sh -c "echo \"<\$$variable>\""
	export $variable="expandable_segments:False"
	run 0 "<expandable_segments:False>" sh -c "echo \"<\$$variable>\""
	[ "$output" = "<expandable_segments:False>" ] || fail "something is said: $output"
	unset $variable
done

# Files that no library is loaded into: said, and run all the same.
if echo 'int main(void) { return 7; }' | "$CC" -x c -static - -o static 2>/dev/null; then
	run 7 "statically linked" ./static
	run 0 "statically linked" --dry-run ./static
	[ -z "$("$SLUICE_BIN" run --library "$library" --quiet ./static 2>&1)" ] || fail "--quiet is not"
	printf '#!%s\n' "$PWD/static" >script && chmod +x script
	run 7 "statically linked" ./script
	"$SLUICE_BIN" doctor --json -- ./static >verdict 2>&1 && fail "a static program is covered"
	grep -q '"verdict": "not covered"' verdict || fail "doctor on a static program: $(cat verdict)"
fi
if [ "$(id -u)" = 0 ] && echo 'int main(void) { return 0; }' | "$CC" -x c - -o setuid; then
	chown 1 setuid && chmod 4755 setuid
	run 0 "other rights" ./setuid
fi

# JSON.
json=$("$SLUICE_BIN" run --library "$library" --dry-run --json --device-memory 64M true)
if command -v python3 >/dev/null && python3 -c 'import json' 2>/dev/null; then
	python3 - "$json" <<-'END' || fail "not the JSON that was promised: $json"
		import json, sys
		plan = json.loads(sys.argv[1])
		names = {v["name"]: v["value"] for v in plan["environment"]}
		assert all(v["why"] for v in plan["environment"])
		assert names["SLUICE_DEVICE_BUDGET"] == "67108864" and names["LD_PRELOAD"] == plan["library"]
		assert plan["problem"] is None and isinstance(plan["notes"], list)
	END
fi

# Programs that do not use CUDA, with the real library: output and exit code as without.
if [ -n "${SLUICE_PRELOAD_LIBRARY:-}" ]; then
	library=$SLUICE_PRELOAD_LIBRARY
	printf 'all:\n\t@echo made; exit 2\n' >Makefile
	for command in "make -s" "git --version" "python3 -c print(6*7)" "git no-such-command" \
		"python3 -c raise(SystemExit(9))" "cat nowhere" "env -i sh -c :" "ls -l"; do
		command -v "${command%% *}" >/dev/null || continue
		$command >plain 2>&1
		plain=$?
		"$SLUICE_BIN" run --library "$library" $command >covered 2>&1
		covered=$?
		[ $plain = $covered ] || fail "$command: exit code $covered, not $plain"
		# What is listed changes between the two: sizes of the files that are written.
		[ "${command%% *}" = ls ] && continue
		cmp -s plain covered || fail "$command: $(diff plain covered)"
	done
	# On a terminal the end of such a program says so, once, and its exit code stays.
	if command -v script >/dev/null; then
		# terminal STATUS TIMES ARGUMENTS...: exit status, and how often it is said.
		terminal()
		{
			local want=$1 times=$2 said
			shift 2
			script -qefc "$(printf '%q ' "$SLUICE_BIN" run --library "$library" "$@")" \
				/dev/null </dev/null >typed 2>&1
			[ $? = "$want" ] || fail "on a terminal: $*: not exit status $want: $(cat typed)"
			said=$(grep -c 'no process used CUDA; `sluice doctor' typed)
			[ "$said" = "$times" ] || fail "on a terminal: $*: said $said times: $(cat typed)"
		}
		terminal 0 1 true
		terminal 1 1 false
		terminal 1 1 sh -c 'exec false'
		terminal 1 1 --baseline off false
		terminal 0 0 --quiet true
		cat >ends.c <<-'END'
			#include <signal.h>
			#include <stdlib.h>
			#include <string.h>
			#include <sys/wait.h>
			#include <unistd.h>

			int
			main(int argc, char **argv)
			{
				const char *how = argv[argc - 1];

				if (!strcmp(how, "killed"))
					raise(SIGTERM);
				if (!strcmp(how, "redirected"))
					close(2);
				if (!strcmp(how, "ignored"))
					signal(SIGCHLD, SIG_IGN);
				if (strcmp(how, "alone") && strcmp(how, "redirected") && fork() == 0)
					exit(0); /* a child says nothing */
				if (strcmp(how, "left") && strcmp(how, "alone"))
					wait(NULL);
				return 7;
			}
		END
		"$CC" ends.c -o ends || exit 1
		terminal 7 1 ./ends alone
		terminal 7 0 ./ends redirected
		terminal 143 0 ./ends killed
		for how in reaped left ignored; do
			terminal 7 0 ./ends $how # of a child nothing is known
		done
		run 0 "" true
		[ -z "$output" ] || fail "said though it is no terminal: $output"
	fi
	"$SLUICE_BIN" doctor --json -- sh -c 'exit 4' >verdict 2>/dev/null && fail "not used, and covered"
	grep -q '"verdict": "unknown"' verdict || fail "no CUDA: $(cat verdict)"
	grep -q 'exit code 4' verdict || fail "doctor does not tell the exit code: $(cat verdict)"
fi
exit $failed
