#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Ranges and marks for tools that listen by NVTX: a small tool writes down what it is told of a program
# under `sluice run`, on the stand-in driver. Tools that are no tools change nothing.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${CC:?}"
. "$SLUICE_SOURCE_DIR/tests/cli/training.sh"

# A tool, by NVIDIA's description of the interface. It checks that ranges of a thread nest.
cat >tool.c <<'END'
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct event {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t text_type;
	const char *text;
};
struct callbacks {
	size_t bytes;
	int (*table)(unsigned, void ***[], unsigned *);
};
static FILE *file;
static _Thread_local int depth;
static void *create(const char *name)
{
	fprintf(file, "domain %s\n", name);
	return strcmp(name, "sluice") ? NULL : file;
}
static void wrong(const char *what)
{
	fprintf(file, "wrong %s\n", what);
}
static void check(void *domain, const struct event *e)
{
	if (domain != file || e->version != 3 || e->size != sizeof(*e) || e->text_type != 1 || e->payload_type != 1)
		wrong("event");
}
static void mark(void *domain, const struct event *e)
{
	check(domain, e);
	fprintf(file, "mark %s %llu\n", e->text, (unsigned long long)e->payload);
}
static int push(void *domain, const struct event *e)
{
	check(domain, e);
	fprintf(file, "push %s\n", e->text);
	return depth++;
}
static int pop(void *domain)
{
	if (domain != file || depth == 0)
		wrong("pop");
	fprintf(file, "pop\n");
	return --depth;
}
int InitializeInjectionNvtx2(const void *(*tables)(uint32_t))
{
	const struct callbacks *callbacks = tables(1);
	void ***table;
	unsigned n = 0;
	file = fopen(getenv("TOOL_FILE"), "a");
	if (!file || tables(2) || !tables(3) || callbacks->table(0, &table, &n) || callbacks->table(7, &table, &n) ||
	    !callbacks->table(1, &table, &n) || n < 16 || !callbacks->table(5, &table, &n) || n < 16)
		return 0;
	*table[12] = (void *)create;
	if (getenv("TOOL_DEAF"))
		return 1;
	*table[1] = (void *)mark;
	*table[4] = (void *)push;
	*table[5] = (void *)pop;
	return 1;
}
END
"$CC" -O1 -shared -fPIC tool.c -o tool.so && echo 'int nothing;' | "$CC" -x c -shared -fPIC - -o no_tool.so ||
	exit 1

# under NAME=VALUE...: the program, with too little memory.
under()
{
	env "$@" LD_PRELOAD="$PWD/twin.so" "$SLUICE_BIN" run --device-memory 24M --host-memory 384M ./training 3 \
		>out 2>err || fail "$*: exit status $?: $(cat err)"
}
under TOOL_FILE="$PWD/told" NVTX_INJECTION64_PATH="$PWD/tool.so"
cp out first
[ "$(grep -c '^domain sluice$' told)" = 1 ] || fail "not one domain: $(head -3 told)"
grep -q '^wrong' told && fail "$(grep -m 1 '^wrong' told)"
[ "$(grep -c '^push' told)" = "$(grep -c '^pop$' told)" ] || fail "ranges are left open"
grep -q '^push step$' told || fail "no range of a kernel: $(grep '^push' told | sort | uniq -c | head)"
for direction in in out; do
	bytes=$(awk -v d=$direction '$1 == "mark" && $3 == d { sum += $4 } END { print sum + 0 }' told)
	[ "$bytes" -gt $((16 << 20)) ] || fail "copies $direction: $bytes bytes"
done

# A tool without functions for ranges, a library that is no tool, a file that is none, and nothing.
under TOOL_FILE="$PWD/deaf" TOOL_DEAF=1 NVTX_INJECTION64_PATH="$PWD/tool.so"
[ "$(cat deaf)" = "domain sluice" ] || fail "a deaf tool: $(cat deaf)"
for path in "$PWD/no_tool.so" "$PWD/nowhere.so" ""; do
	under NVTX_INJECTION64_PATH="$path"
	cmp -s out first || fail "'$path' changes the results"
done

[ "$failed" = 0 ] && echo "ok"
exit "$failed"
