/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace events as JSON: trace_events.h. Events are printed into a buffer, and the buffer goes to the
 * file in one write with the closing brackets. Numbers are integers only: printf's %f has the
 * program's decimal point.
 *
 * Threads: an object is one thread's.
 */
#include "preload/report/trace_events.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "preload/report/json_char.h"

#define BUFFER_BYTES ((size_t)256 << 10)
#define EVENT_BYTES  4096u /* of the longest event */
#define TEXT_CHARS   160u  /* of a name or a text: longer ones are cut */
#define LAST_BYTES   4096u /* kept free for the last words */

static const char tail[] = "\n]}\n";

struct pl_trace_events {
	int fd, pid;
	uint64_t limit, written; /* bytes; of the file, without the tail */
	uint64_t flows;
	uint64_t last_ns;    /* the latest time that was told */
	uint64_t dropped_ns; /* of the first event that was dropped */
	int full;            /* the limit is reached */
	int error;           /* of the write that failed */
	size_t used;
	char buffer[BUFFER_BYTES + sizeof(tail)];
};

static void __attribute__((format(printf, 2, 3)))
print(struct pl_trace_events *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->buffer + t->used, BUFFER_BYTES - t->used, format, args);
	va_end(args);
	assert(n >= 0 && (size_t)n < BUFFER_BYTES - t->used); /* EVENT_BYTES is enough for each */
	t->used += (size_t)n;
}

static void
string_print(struct pl_trace_events *t, const char *text)
{
	char one[PL_JSON_CHAR_BYTES];

	print(t, "\"");
	for (size_t left = TEXT_CHARS; *text && left; text++, left--)
		print(t, "%s", pl_json_char(one, (unsigned char)*text));
	print(t, "\"");
}

static void
time_print(struct pl_trace_events *t, const char *key, uint64_t ns)
{
	print(t, ",\"%s\":%" PRIu64 ".%03" PRIu64, key, ns / 1000, ns % 1000);
}

static void
args_print(struct pl_trace_events *t, const struct pl_trace_arg *args, size_t n)
{
	print(t, ",\"args\":{");
	for (size_t i = 0; i < n; i++) {
		print(t, "%s\"%s\":", i ? "," : "", args[i].key);
		if (args[i].text)
			string_print(t, args[i].text);
		else
			print(t, "%" PRId64, args[i].number);
	}
	print(t, "}");
}

/* All of it at this place of the file. */
static int
bytes_write(int fd, const char *bytes, size_t n, uint64_t at)
{
	int rc = sl_fault_point("timeline.write");

	while (n && !rc) {
		ssize_t done = pwrite(fd, bytes, n, (off_t)at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			rc = done < 0 ? -errno : -EIO;
			break;
		}
		bytes += done;
		n -= (size_t)done;
		at += (uint64_t)done;
	}
	return rc;
}

void
pl_trace_flush(struct pl_trace_events *t)
{
	size_t n = t->used;

	if (!n || t->error)
		return;
	memcpy(t->buffer + n, tail, sizeof(tail) - 1);
	t->error = bytes_write(t->fd, t->buffer, n + sizeof(tail) - 1, t->written);
	t->used = 0;
	if (!t->error) {
		t->written += n;
		return;
	}
	/* The old tail may be written over: the room of it is still the file's. */
	if (!t->written || pwrite(t->fd, tail, sizeof(tail) - 1, (off_t)t->written) < 0 ||
	    ftruncate(t->fd, (off_t)(t->written + sizeof(tail) - 1)))
		return;
}

/* Room for so many events, told of at ns. 1: there is. */
static int
events_room(struct pl_trace_events *t, unsigned n, uint64_t ns)
{
	size_t bytes = n * EVENT_BYTES;

	if (!t->error && t->written + t->used + bytes + LAST_BYTES + sizeof(tail) > t->limit)
		t->full = 1;
	if (ns > t->last_ns)
		t->last_ns = ns;
	if (t->full || t->error) {
		if (!t->dropped_ns) /* names have no time */
			t->dropped_ns = ns ? ns : t->last_ns;
		return 0;
	}
	if (t->used + bytes > BUFFER_BYTES)
		pl_trace_flush(t);
	return 1;
}

/* The first words of an event. */
static void
event_begin(struct pl_trace_events *t, char phase)
{
	print(t, ",\n{\"ph\":\"%c\",\"pid\":%d", phase, t->pid);
}

int
pl_trace_events_create(int fd, uint64_t limit_bytes, int pid, const char *process,
		       uint64_t zero_unix_ns, struct pl_trace_events **out)
{
	struct pl_trace_events *t = sl_calloc(1, sizeof(*t));
	int rc;

	if (!t) {
		close(fd);
		return -ENOMEM;
	}
	t->fd = fd;
	t->pid = pid;
	t->limit = limit_bytes < PL_TRACE_LIMIT_MIN ? PL_TRACE_LIMIT_MIN : limit_bytes;
	print(t,
	      "{\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":%" PRIu64
	      ",\"traceEvents\":[\n"
	      "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"process_name\"",
	      zero_unix_ns, pid, pid);
	args_print(t, &(struct pl_trace_arg){"name", process, 0}, 1);
	print(t, "}");
	pl_trace_flush(t);
	if (!t->error) {
		*out = t;
		return 0;
	}
	rc = t->error;
	close(t->fd);
	free(t);
	return rc;
}

/* An event without a time. */
static void
metadata(struct pl_trace_events *t, unsigned track, const char *name,
	 const struct pl_trace_arg *arg)
{
	if (!events_room(t, 1, 0))
		return;
	event_begin(t, 'M');
	print(t, ",\"tid\":%u,\"name\":\"%s\"", track, name);
	args_print(t, arg, 1);
	print(t, "}");
}

void
pl_trace_track(struct pl_trace_events *t, unsigned track, int order, const char *name)
{
	metadata(t, track, "thread_name", &(struct pl_trace_arg){"name", name, 0});
	metadata(t, track, "thread_sort_index",
		 &(struct pl_trace_arg){"sort_index", NULL, order});
}

void
pl_trace_slice(struct pl_trace_events *t, unsigned track, const char *category,
	       const char *name, uint64_t begin_ns, uint64_t end_ns,
	       const struct pl_trace_arg *args, size_t n)
{
	if (!events_room(t, 1, begin_ns))
		return;
	event_begin(t, 'X');
	print(t, ",\"tid\":%u,\"cat\":\"%s\",\"name\":", track, category);
	string_print(t, name);
	time_print(t, "ts", begin_ns);
	time_print(t, "dur", end_ns > begin_ns ? end_ns - begin_ns : 0);
	args_print(t, args, n);
	print(t, "}");
}

static void
instant_print(struct pl_trace_events *t, unsigned track, const char *name, uint64_t ns,
	      const struct pl_trace_arg *args, size_t n)
{
	event_begin(t, 'i');
	print(t, ",\"tid\":%u,\"s\":\"t\",\"name\":", track);
	string_print(t, name);
	time_print(t, "ts", ns);
	args_print(t, args, n);
	print(t, "}");
}

void
pl_trace_instant(struct pl_trace_events *t, unsigned track, const char *name, uint64_t ns,
		 const struct pl_trace_arg *args, size_t n)
{
	if (events_room(t, 1, ns))
		instant_print(t, track, name, ns, args, n);
}

void
pl_trace_counter(struct pl_trace_events *t, const char *name, uint64_t ns,
		 const struct pl_trace_arg *values, size_t n)
{
	if (!events_room(t, 1, ns))
		return;
	event_begin(t, 'C');
	print(t, ",\"name\":");
	string_print(t, name);
	time_print(t, "ts", ns);
	args_print(t, values, n);
	print(t, "}");
}

void
pl_trace_flow(struct pl_trace_events *t, const char *name, unsigned from_track,
	      uint64_t from_ns, unsigned to_track, uint64_t to_ns)
{
	static const char phases[] = {'s', 'f'};

	if (!events_room(t, 2, from_ns)) /* both or none */
		return;
	t->flows++;
	for (int end = 0; end < 2; end++) {
		event_begin(t, phases[end]);
		print(t, ",\"tid\":%u,\"cat\":\"flow\",\"id\":%" PRIu64 "%s,\"name\":",
		      end ? to_track : from_track, t->flows, end ? ",\"bp\":\"e\"" : "");
		string_print(t, name);
		time_print(t, "ts", end ? to_ns : from_ns);
		print(t, "}");
	}
}

int
pl_trace_events_state(const struct pl_trace_events *t)
{
	if (t->error)
		return t->error;
	return t->full ? -EFBIG : 0;
}

int
pl_trace_events_destroy(struct pl_trace_events *t)
{
	int rc;

	if (!t)
		return 0;
	if (t->full && !t->error) {
		const struct pl_trace_arg limit = {"limit_bytes", NULL, (int64_t)t->limit};

		pl_trace_flush(t);
		instant_print(t, (unsigned)t->pid, "no events from here on: the file is full",
			      t->dropped_ns, &limit, 1);
	}
	pl_trace_flush(t);
	rc = t->error;
	if (close(t->fd) && !rc)
		rc = -errno;
	free(t);
	return rc;
}
