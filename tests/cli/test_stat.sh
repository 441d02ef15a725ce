#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice stat`: a process that opted in is listed, and its tiers, counters and regions are what
# the process itself sees; one that did not, has ended, is stopped or belongs to somebody else is
# told apart; nothing stale remains after kill -9.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}" "${SLUICE_LIB:?}" "${CC:?}"
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

# has TEXT WORD WHAT
has()
{
	case $1 in
	*"$2"*) ;;
	*) fail "$3: no '$2' in: $1" ;;
	esac
}

# The list of processes as one line without space between its values.
list()
{
	"$SLUICE_BIN" stat --json | sed -E 's/^ +//; s/": /":/' | tr -d '\n'
}

# A program with a region of 8 MiB touched in its first half, which prints "ready", how much it
# sees on the device and its child, and ends when its standard input does. With an argument: a
# second space; with two: a child.
cat >program.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sluice/sluice.h>

/* As daemons do: every socket that it does not know is closed, and its number is a pipe's then. */
static int
sockets_close(int fds[2])
{
	int n = 0;

	if (pipe(fds))
		return -1;
	for (int fd = fds[1] - 20 > 3 ? fds[1] - 20 : 3; fd < fds[0]; fd++) {
		struct stat now;

		if (fstat(fd, &now) == 0 && S_ISSOCK(now.st_mode) && dup2(fds[1], fd) == fd)
			n++;
	}
	return n;
}

int
main(int argc, char **argv)
{
	struct sluice_space *space, *second = NULL;
	struct sluice_config config;
	struct sluice_stats stats;
	volatile char *bytes;
	void *addr, *other;
	pid_t child = 0;
	int fds[2] = {-1, -1};
	char byte;

	(void)argv;
	if (sluice_config_init(&config) ||
	    sluice_config_parse(&config, "device_budget=8M,host_budget=8M,chunk=2M") ||
	    sluice_space_create(&config, &space) ||
	    (argc > 1 && sluice_space_create(&config, &second)) ||
	    sluice_map(space, "data \"file\"", 0, 8 << 20,
		       SLUICE_READ | SLUICE_WRITE | SLUICE_CREATE, &addr) ||
	    sluice_alloc(space, 4 << 20, 0, &other)) {
		fprintf(stderr, "%s\n", sluice_last_error());
		return 77;
	}
	bytes = addr;
	for (size_t i = 0; i < 4 << 20; i += 4096)
		bytes[i] = 1;
	/* With two arguments a child stays behind that has this process's descriptors. */
	if (argc > 2 && (child = fork()) == 0) {
		fclose(stdin);
		fclose(stdout);
		pause();
	}
	if (getenv("CLOSE_SOCKETS") && sockets_close(fds) != 1)
		return 78;
	sluice_stats_get(space, &stats);
	printf("ready %llu %d\n",
	       (unsigned long long)stats.resident_bytes[SLUICE_TIER_DEVICE], (int)child);
	fflush(stdout);
	getchar();
	if (sluice_space_destroy(second) || sluice_space_destroy(space))
		return 1;
	/* Nobody wrote to the program's own descriptor, or closed it. */
	if (fds[0] >= 0 && (write(fds[1], "x", 1) != 1 || read(fds[0], &byte, 1) != 1 || byte != 'x'))
		return 79;
	return 0;
}
END
# Asks as user 65534 without looking who answers, as `sluice stat` itself would not.
cat >asker.c <<'END'
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char answer[512];
	ssize_t bytes;
	int chars = snprintf(addr.sun_path + 1, 64, "sluice-%s", argv[argc - 1]);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (setuid(65534))
		return 77;
	if (connect(fd, (struct sockaddr *)&addr,
		    offsetof(struct sockaddr_un, sun_path) + 1 + chars))
		return 1;
	while ((bytes = read(fd, answer, sizeof(answer))) > 0)
		fwrite(answer, 1, bytes, stdout);
	return 0;
}
END
lib_dir=$(dirname "$SLUICE_LIB")
flags=(-g)
[ -z "${SLUICE_SANITIZE:-}" ] || flags+=("-fsanitize=$SLUICE_SANITIZE")
"$CC" "${flags[@]}" "-I$SLUICE_SOURCE_DIR/include" program.c -o program "-L$lib_dir" \
	"-Wl,-rpath,$lib_dir" -lsluice || exit 1
"$CC" asker.c -o asker || exit 1

# start ARGUMENTS: run the program; its process is $pid, what it sees on the device $resident, its
# child $child.
start()
{
	rm -f input output
	mkfifo input output
	./program "$@" <input >output &
	pid=$!
	exec 3>input 4<output
	if ! read -r ready resident child <&4; then
		wait $pid
		[ $? = 77 ] || exit 1
		echo "skip: no space can be made here (sluice doctor says why)"
		exit 77
	fi
	[ "$ready" = ready ] || exit 1
}

# end: let the program end by itself.
end()
{
	exec 3>&- 4<&-
	wait $pid || fail "the program ends with $?"
}

child=0
trap 'kill -9 $pid 2>/dev/null; [ $child = 0 ] || kill -9 $child 2>/dev/null' EXIT

# Not opted in.
unset SLUICE_PUBLISH
start
message=$("$SLUICE_BIN" stat $pid 2>&1)
[ $? = 1 ] || fail "not opted in: not exit status 1"
has "$message" "SLUICE_PUBLISH=1" "not opted in"
case $(list) in
*"\"pid\":$pid,"*) fail "listed though not opted in" ;;
esac
end

# Opted in, but there is no space yet: that is said, not that it did not opt in.
export SLUICE_PUBLISH=1
sleep 600 &
pid=$!
until [ "$(cat /proc/$pid/comm)" = sleep ]; do sleep 0.02; done
message=$("$SLUICE_BIN" stat $pid 2>&1)
[ $? = 1 ] || fail "no space yet: not exit status 1"
has "$message" "process $pid (sleep) has no space now" "no space yet"
case $message in
*"does not publish"*) fail "no space yet: $message" ;;
esac
kill $pid
wait $pid 2>/dev/null

# A program that closes the socket is not disturbed: no answer, no thread that spins, and it ends.
export CLOSE_SOCKETS=1
start
message=$(timeout 600 "$SLUICE_BIN" stat $pid 2>&1)
[ $? = 1 ] || fail "socket closed: not exit status 1: $message"
end
unset CLOSE_SOCKETS

# The numbers are the process's own.
start
has "$("$SLUICE_BIN" stat)" "$pid" "the list"
has "$(list)" "\"pid\":$pid,\"space\":1,\"command\":\"program\"" "the list"
json=$("$SLUICE_BIN" stat $pid --json) || fail "stat of a live process fails"
[ "$(wc -l <<<"$json")" = 1 ] || fail "not one line: $json"
if command -v python3 >/dev/null && python3 -c 'import json' 2>/dev/null; then
	python3 -c 'import json, sys; json.loads(sys.argv[1])' "$json" || fail "not JSON: $json"
fi
has "$json" "\"pid\":$pid," "pid"
has "$json" "\"device\":{\"resident_bytes\":$resident," "what the program sees on the device"
has "$json" '"budget_bytes":8388608}' "budget"
has "$json" '"region_count":2' "regions"
has "$json" '\"file\"","size_bytes":8388608,"chunk_bytes":2097152,"flags":["read","write"' "file"
has "$json" '"name":"anonymous","size_bytes":4194304' "anonymous"
# Two of the file's four chunks were touched.
sed 's/{"addr"/\n&/g' <<<"$json" | grep -F 'data \"file\"' >region
device=$(sed -n 's/.*"device_bytes":\([0-9]*\).*/\1/p' region)
[ "$device" -ge 4194304 ] || fail "of 4 MiB touched, $device bytes are on the device"
faults=$(sed -n 's/.*"cpu_faults":\([0-9]*\).*/\1/p' <<<"$json")
[ "${faults:-0}" -ge 1 ] || fail "no fault counted"
text=$("$SLUICE_BIN" stat $pid)
has "$text" "process $pid (program)" "text"
has "$text" "cpu_faults" "text"
has "$text" 'data "file"' "text"

# Several samples; a count ends them.
samples=$("$SLUICE_BIN" stat $pid --json --interval 0.1 --count 3 | wc -l)
[ "$samples" = 3 ] || fail "$samples samples instead of 3"
has "$("$SLUICE_BIN" stat $pid --interval 0.1 --count 2)" "per second" "second sample"

# OpenMetrics: each metric once with its type, no sample twice, an end; the numbers are the same.
metrics=$("$SLUICE_BIN" stat $pid --openmetrics) || fail "--openmetrics fails"
awk '
	/^# TYPE / { if ($3 in type) { print "twice: " $3; bad = 1 } type[$3] = $4; family = $3; next }
	/^# (HELP|UNIT) / { if ($3 != family) { print "not of " family ": " $0; bad = 1 } next }
	/^# EOF$/ { ended = NR; next }
	{
		name = $1
		sub(/[{].*/, "", name)
		if (name != family (type[family] == "counter" ? "_total" : "")) { print "not of " family ": " $0; bad = 1 }
		if ($1 in seen || NF != 2) { print "twice, or more than a value: " $0; bad = 1 }
		seen[$1] = 1
	}
	END { exit bad || ended != NR || !length(seen) }' <<<"${metrics//, /,}" || fail "no OpenMetrics: $metrics"
labels="pid=\"$pid\",space=\"1\",command=\"program\",device=\"soft\""
has "$metrics" "sluice_up{$labels} 1" "up"
has "$metrics" "sluice_resident_bytes{$labels,tier=\"device\"} $resident" "device bytes"
has "$metrics" "sluice_budget_bytes{$labels,tier=\"host\"} 8388608" "budget"
has "$metrics" "sluice_cpu_faults_total{$labels} $faults" "a counter"
has "$metrics" "sluice_h2d_cpu_bytes_total{$labels} " "a counter of bytes"
has "$("$SLUICE_BIN" stat --openmetrics)" "sluice_up{$labels} 1" "all processes"
echo old >sluice.prom
"$SLUICE_BIN" stat $pid --openmetrics --output sluice.prom || fail "--output fails"
[ "$(cat sluice.prom)" = "$metrics" ] || fail "--output: $(cat sluice.prom)"
[ "$(echo sluice.prom*)" = sluice.prom ] || fail "--output leaves $(echo sluice.prom*)"
message=$("$SLUICE_BIN" stat $pid --openmetrics --output nowhere/sluice.prom 2>&1)
[ $? = 1 ] || fail "--output into no directory: not exit status 1"
has "$message" "nowhere/sluice.prom" "--output into no directory"
for wrong in "--openmetrics --json" "--openmetrics --count 2" "--output file"; do
	# shellcheck disable=SC2086
	"$SLUICE_BIN" stat $pid $wrong >/dev/null 2>&1
	[ $? = 2 ] || fail "$wrong: not exit status 2"
done

# Somebody else is refused, by the answering side too.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	cp "$SLUICE_BIN" ./other && chmod 755 . other
	if setpriv --reuid 65534 --clear-groups ./other --version >/dev/null 2>&1; then
		message=$(setpriv --reuid 65534 --clear-groups ./other stat $pid 2>&1)
		[ $? = 1 ] || fail "another user: not exit status 1"
		has "$message" "permission denied" "another user"
	fi
fi

if [ "$(id -u)" = 0 ]; then
	answer=$(./asker $pid)
	[ $? != 1 ] || fail "another user: cannot even connect"
	case $answer in
	*counters*) fail "another user is answered" ;;
	"") ;; # this container has no user 65534
	*"permission denied"*) ;;
	*) fail "another user: $answer" ;;
	esac
fi

# A stopped process costs a message, not a hang.
kill -STOP $pid
for i in {1..3000}; do # until all its threads have stopped
	grep -hoE '\) [A-Z] ' /proc/$pid/task/*/stat | grep -qv T || break
	sleep 0.02
done
message=$(timeout 600 "$SLUICE_BIN" stat $pid 2>&1)
[ $? = 1 ] || fail "stopped: not exit status 1"
has "$message" "kill -CONT $pid" "stopped"
has "$("$SLUICE_BIN" stat --openmetrics)" "sluice_up{pid=\"$pid\",space=\"1\"} 0" "stopped"
kill -CONT $pid
"$SLUICE_BIN" stat $pid >/dev/null || fail "continued, but not answering"

# Watching ends with the process, and that is no failure.
"$SLUICE_BIN" stat $pid --json --interval 0.1 >watched 2>message 3>&- 4<&- &
watcher=$!
for i in {1..600}; do
	[ -s watched ] && break
	sleep 0.1
done
end
wait $watcher || fail "watching a process that ends: exit status $?"
has "$(cat message)" "has ended" "watching"
message=$("$SLUICE_BIN" stat $pid 2>&1)
[ $? = 1 ] || fail "ended: not exit status 1"
has "$message" "no process $pid" "ended"

# Two spaces of one process; nothing stale after kill -9.
start two
[ "$("$SLUICE_BIN" stat $pid --json | wc -l)" = 2 ] || fail "two spaces are not two lines"
has "$(list)" "\"pid\":$pid,\"space\":2" "second space"
kill -9 $pid
wait $pid 2>/dev/null
exec 3>&- 4<&-
case $(list) in
*"\"pid\":$pid,"*) fail "listed after kill -9" ;;
esac

# A child of the process does not keep its name alive.
start two child
kill -9 $pid
wait $pid 2>/dev/null
exec 3>&- 4<&-
kill -0 $child || fail "the child has ended as well"
case $(list) in
*"\"pid\":$pid,"*) fail "listed after kill -9 because of a child" ;;
esac
kill -9 $child
child=0

# Wrong command lines.
for arguments in 0 -1 abc "1 2" "--interval 1" "1 --interval 0" "1 --interval nan" "1 --count 0"; do
	"$SLUICE_BIN" stat $arguments >/dev/null 2>&1
	[ $? = 2 ] || fail "stat $arguments: not exit status 2"
done
exit $failed
