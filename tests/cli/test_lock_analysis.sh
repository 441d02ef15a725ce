#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# clang's lock analysis really checks: small functions that forget a lock, take it twice, keep it or work
# where it is held must each be reported, and the same function done well must not.
set -euo pipefail
root=${SLUICE_SOURCE_DIR:?}
failed=0

command -v clang >/dev/null || {
	echo "skipped: there is no clang"
	exit 77
}

# analyze <body>: what clang says about a file with that function in it
analyze()
{
	printf '#include "core/transfer/transfer.h"\nint f(struct sl_chunk *c, struct sl_spill *spill);\n%s\n' "$1" >f.c
	clang -std=gnu17 -D_GNU_SOURCE -I"$root/include" -I"$root/src" -Wthread-safety \
		-fsyntax-only f.c 2>&1
}

# reported <what> <words of clang> <body>
reported()
{
	local said
	said=$(analyze "$3")
	[[ $said == *"$2"*thread-safety* ]] || {
		echo "$1: not reported; clang says: ${said:-nothing}"
		failed=1
	}
}

good='int f(struct sl_chunk *c, struct sl_spill *spill)
{
	struct sluice_space *s = c->region->space;
	(void)spill;
	sl_space_lock(s);
	sl_chunk_touch(c);
	sl_space_unlock(s);
	return 0;
}'
said=$(analyze "$good")
[ -z "$said" ] || {
	echo "a correct function is reported: $said"
	failed=1
}
reported "a missing lock" "requires holding" "${good/sl_space_lock(s);/}"
reported "a lock taken twice" "already held" "${good/sl_chunk_touch(c);/sl_space_lock(s);}"
reported "a lock kept" "still held" "${good/sl_space_unlock(s);/}"
reported "a lock given back that was not held" "was not held" \
	"${good/sl_space_lock(s);/}"
reported "a path without the lock" "not held on every path" \
	"${good/sl_space_lock(s);/if (c->pins) sl_space_lock(s);}"
reported "an entry whose result nobody looked at" "requires holding" \
	"${good/sl_space_lock(s);/int rc = sl_space_enter(s); sl_ignore(rc);}"
reported "I/O under the lock" "while space lock" \
	"${good/sl_chunk_touch(c);/sl_ignore(sl_page_read(c, 0, 1, NULL));}"
reported "another mutex that is not held" "requires holding" \
	'int f(struct sl_chunk *c, struct sl_spill *spill)
{
	struct { struct sl_mutex lock; struct sl_cond wake; } x;
	(void)c; (void)spill;
	sl_cond_wait(&x.wake, &x.lock);
	return 0;
}'

exit $failed
