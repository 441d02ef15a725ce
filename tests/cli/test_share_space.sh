#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice ps`, `suspend`, `resume` and `limit` on a program with two spaces of the library that share the
# software device. contract/test_space_share has how memory is shared. Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${SLUICE_LIB:?}" "${CC:?}"
failed=0
export SLUICE_SHARE_DIR=$PWD/books
mkdir -m 700 books
unset SLUICE_RUN SLUICE_LOG

fail()
{
	echo "FAIL $*"
	failed=1
}

# Two spaces, of 24 MiB each. A kernel over all of them for each line of input.
cat >spaces.c <<'END'
#include <sluice/sluice.h>
#include <stdio.h>
#define TRY(call) if (call) return printf("%s: %s\n", #call, sluice_last_error()), 1
enum { SPACES = 2, WORDS = 3 << 20 };
static void
step(const struct sluice_block *block, void *args)
{
	uint64_t *p = *(uint64_t **)args;

	(void)block;
	for (int i = 0; i < WORDS; i++)
		p[i]++;
}
int
main(void)
{
	struct sluice_space *space[SPACES];
	struct sluice_config config;
	uint64_t *p[SPACES], rounds = 0;
	char line[16];

	TRY(sluice_config_init(&config));
	TRY(sluice_config_parse(&config, "share=auto,soft_memory=64M,device_budget=-1,"
					 "host_budget=64M,staging=16M,address=4G,workers=1"));
	for (int i = 0; i < SPACES; i++) {
		int rc = sluice_space_create(&config, &space[i]);

		if (rc == -EPERM || rc == -ENOTSUP)
			return printf("%s\n", sluice_last_error()), 77;
		TRY(rc);
		TRY(sluice_alloc(space[i], WORDS * 8, 0, (void **)&p[i]));
	}
	puts("ready");
	fflush(stdout);
	for (; fgets(line, sizeof(line), stdin); rounds++) {
		for (int i = 0; i < SPACES; i++) {
			struct sluice_use use = {p[i], WORDS * 8, SLUICE_USE_READ_WRITE};

			TRY(sluice_launch(space[i], NULL, step, (struct sluice_grid){1, 1, 1}, &p[i],
					  sizeof(p[i]), &use, 1));
			TRY(sluice_stream_synchronize(space[i], NULL));
		}
		puts("round");
		fflush(stdout);
	}
	for (int i = 0; i < SPACES; i++) {
		for (int k = 0; k < WORDS; k++)
			if (p[i][k] != rounds)
				return printf("wrong: space %d, word %d\n", i, k), 1;
		TRY(sluice_space_destroy(space[i]));
	}
	puts("right");
	return 0;
}
END
sed -i '1i #include <errno.h>' spaces.c
lib_dir=$(dirname "$SLUICE_LIB")
flags=()
[ -z "${SLUICE_SANITIZE:-}" ] || flags+=("-fsanitize=$SLUICE_SANITIZE")
"$CC" -O1 "${flags[@]}" "-I$SLUICE_SOURCE_DIR/include" spaces.c -o spaces "-L$lib_dir" \
	"-Wl,-rpath,$lib_dir" -lsluice || exit 1

# line_await WORD COUNT: the program has said it so often.
line_await()
{
	for _ in $(seq 600); do
		[ "$(grep -c "^$1" out.txt)" -ge "$2" ] && return
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	fail "no '$1': $(cat out.txt)"
}

# ps_await REGEX COUNT: `sluice ps` has so many lines of it.
ps_await()
{
	for _ in $(seq 600); do
		[ "$("$SLUICE_BIN" ps | grep -cE "$1")" = "$2" ] && return
		sleep 0.1
	done
	fail "no '$1': $("$SLUICE_BIN" ps)"
}

mkfifo in.pipe
./spaces <in.pipe >out.txt 2>&1 &
pid=$!
exec 3>in.pipe
for _ in $(seq 600); do
	[ -s out.txt ] && break
	sleep 0.1
done
if ! grep -q '^ready' out.txt; then
	cat out.txt
	wait $pid
	exit $?
fi
echo >&3
line_await round 1
"$SLUICE_BIN" ps | grep -q '^software-64M: 64 MiB for programs$' || fail "ps: $("$SLUICE_BIN" ps)"
ps_await "^ *$pid  spaces  .*  28 MiB " 2
"$SLUICE_BIN" suspend $pid >said || fail "suspend: $(cat said)"
grep -q "^process $pid holds " said || fail "suspend says: $(cat said)"
ps_await "^ *$pid  spaces  .*suspended: sluice resume$" 2
echo >&3
"$SLUICE_BIN" resume $pid || fail "resume"
line_await round 2
"$SLUICE_BIN" limit $pid --device-memory 24M >said || fail "limit: $(cat said)"
echo >&3
line_await round 3
exec 3>&-
wait $pid || fail "the program ends with $?"
grep -q '^right' out.txt || fail "$(cat out.txt)"
[ "$("$SLUICE_BIN" ps)" = "no program of this user shares a GPU or host memory" ] || fail "ps at the end: $("$SLUICE_BIN" ps)"

# Who cannot join says so, and is alone.
said=$(SLUICE_SHARE_DIR=$PWD/nowhere ./spaces </dev/null 2>&1) || fail "alone: $said"
case $said in
*"the device is not shared with other programs: "*"right"*) ;;
*) fail "alone: $said" ;;
esac
exit $failed
