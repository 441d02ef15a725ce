/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking live processes for `sluice stat` and `sluice top` (stat.h). The process itself answers
 * (src/core/publish.h). This side finds its sockets in /proc/net/unix, asks each for its one JSON
 * document, and checks the sender. All waits end after ANSWER_MS: a stopped process costs a clear
 * message, not a hang. A document is untrusted text: bounded in size, checked in full, control
 * characters replaced.
 *
 * Threads: one.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "commands.h"
#include "core/publish.h"
#include "json_read.h"
#include "stat.h"

#define ANSWER_MS        2000
#define ANSWER_BYTES_MAX ((size_t)16 << 20)
#define INTERVAL_MAX_S   86400.0

const char *const stat_tiers[SLUICE_TIER_COUNT] = {"device", "host", "store"};

/* ---- the rhythm of looking ---- */

int
stat_rhythm_take(const char *command, const struct option *option, double *interval_s,
		 uint64_t *count)
{
	char *end;

	if (option->val == 'c')
		return command_number(optarg, 1, UINT64_MAX, count)
			       ? command_usage(command, "--count '%s': a number from 1", optarg)
			       : 0;
	*interval_s = strtod(optarg, &end);
	if (end == optarg || *end || !(*interval_s >= 0.1) ||
	    !(*interval_s <= INTERVAL_MAX_S))
		return command_usage(command,
				     "--interval '%s': seconds from 0.1 to 86400", optarg);
	return 0;
}

struct timespec
stat_pause(double interval_s)
{
	struct timespec pause = {.tv_sec = (time_t)interval_s};

	pause.tv_nsec = (int64_t)((interval_s - (double)pause.tv_sec) * 1e9);
	return pause;
}

/* ---- the processes ---- */

/* Name of a process as the kernel has it; "?" when it is gone. */
void
stat_process_name(int pid, char *name, size_t name_bytes)
{
	char path[64];
	FILE *file;

	snprintf(name, name_bytes, "?");
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(name, (int)name_bytes, file))
		name[strcspn(name, "\n")] = '\0';
	fclose(file);
}

/* The kernel's letter for what a process is doing ('T': stopped); 0 when it is gone. */
static char
process_state(int pid)
{
	char path[64], line[512], *after_name;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	after_name = strrchr(line, ')'); /* the name may hold anything */
	return after_name && after_name[1] == ' ' ? after_name[2] : 0;
}

/* Was the process started with SLUICE_PUBLISH=1? 0 also where its environment may not be read. */
static int
process_is_to_publish(int pid)
{
	SL_CLEANUP(free) char *variable = NULL;
	size_t room = 0;
	char path[64];
	int found = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (!found && getdelim(&variable, &room, '\0', file) > 0)
		found = strcmp(variable, "SLUICE_PUBLISH=1") == 0;
	fclose(file);
	return found;
}

static int
target_order(const void *a, const void *b)
{
	const struct stat_target *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/*
 * The published spaces of pid, or of all processes (0), in order. How many, at most STAT_TARGETS_MAX;
 * -errno when the kernel's table cannot be read.
 */
int
stat_targets_find(int pid, struct stat_target *targets)
{
	SL_CLEANUP(free) char *line = NULL;
	size_t room = 0, n = 0, unique = 0;
	FILE *table = fopen("/proc/net/unix", "re");

	if (!table)
		return -errno;
	while (n < STAT_TARGETS_MAX && getline(&line, &room, table) > 0) {
		struct stat_target target = {.number = 1};
		char *name = strstr(line, " @" SL_PUBLISH_NAME), *dash, after;
		int matched;

		if (!name)
			continue;
		name += strlen(" @" SL_PUBLISH_NAME);
		name[strcspn(name, "\n")] = '\0';
		dash = strchr(name, '-');
		matched = dash ? sscanf(name, "%d-%u%c", &target.pid, &target.number,
					&after) == 2
			       : sscanf(name, "%d%c", &target.pid, &after) == 1;
		if (!matched || target.pid <= 0 || target.number < 1 ||
		    target.number > SL_PUBLISH_MAX || (pid && target.pid != pid))
			continue;
		targets[n++] = target;
	}
	fclose(table);
	qsort(targets, n, sizeof(*targets), target_order);
	/* A connection being served shows up under the name of its listener. */
	for (size_t i = 0; i < n; i++)
		if (!unique || target_order(&targets[unique - 1], &targets[i]) != 0)
			targets[unique++] = targets[i];
	return (int)unique;
}

/* ---- asking ---- */

/* Milliseconds until a deadline, at least 0. */
static int
left_ms(uint64_t deadline_ns)
{
	uint64_t now_ns = sl_now_ns();

	return now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / 1000000) + 1 : 0;
}

static int
no_answer(int pid)
{
	char state = process_state(pid);

	if (state == 'T' || state == 't')
		return sl_fail(-ETIMEDOUT,
			       "process %d is stopped: kill -CONT %d lets it answer", pid,
			       pid);
	return sl_fail(-ETIMEDOUT, "process %d does not answer within %d s", pid,
		       ANSWER_MS / 1000);
}

/* A connection to the target that its own process holds the other end of. fd or -errno. */
static int
target_connect(const struct stat_target *target, uint64_t deadline_ns)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct ucred peer = {0};
	socklen_t peer_bytes = sizeof(peer);
	char name[64], state;
	int chars, fd, rc;

	chars = target->number == 1
			? snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1,
				   SL_PUBLISH_NAME "%d", target->pid)
			: snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1,
				   SL_PUBLISH_NAME "%d-%u", target->pid, target->number);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return sl_fail(-errno, "socket: %s", sl_errno_name(errno));
	while (connect(fd, (struct sockaddr *)&addr,
		       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				   (size_t)chars))) {
		struct timespec pause = {.tv_nsec = 20000000};

		if (errno == EAGAIN && left_ms(deadline_ns)) {
			nanosleep(&pause, NULL); /* its queue of readers is full */
			continue;
		}
		rc = -errno;
		close(fd);
		if (rc == -EAGAIN)
			return no_answer(target->pid);
		if (rc != -ECONNREFUSED)
			return sl_fail(rc, "process %d: %s", target->pid, sl_errno_name(rc));
		state = process_state(target->pid);
		if (!state || state == 'Z') /* 'Z': ended, its parent has not looked yet */
			return sl_fail(-ESRCH, "no process %d", target->pid);
		stat_process_name(target->pid, name, sizeof(name));
		if (process_is_to_publish(target->pid))
			return sl_fail(
				-ENOENT,
				"process %d (%s) has no space now, so there are no "
				"counters: it was started with SLUICE_PUBLISH=1, ask "
				"again when its program has made a space",
				target->pid, name);
		return sl_fail(
			-ENOENT,
			"process %d (%s) does not publish its counters: start it with "
			"SLUICE_PUBLISH=1 in its environment, or set publish in its "
			"sluice_config (a process in another container is not seen)",
			target->pid, name);
	}
	/* Anyone may take a name of this kind: look who has it. 0: a process that this name space
	 * of processes does not show. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0 &&
	    peer.pid && peer.pid != target->pid) {
		close(fd);
		return sl_fail(-EPERM,
			       "process %d answers in place of process %d: not believed",
			       (int)peer.pid, target->pid);
	}
	if (geteuid() != 0 && peer.uid != geteuid()) {
		close(fd);
		return sl_fail(-EACCES,
			       "permission denied: process %d belongs to user %u; ask as "
			       "that user "
			       "or as root",
			       target->pid, (unsigned)peer.uid);
	}
	return fd;
}

/* The target's document, to be freed by the caller. 0 or -errno. */
static int
target_ask(const struct stat_target *target, char **document)
{
	uint64_t deadline_ns = sl_now_ns() + (uint64_t)ANSWER_MS * 1000000;
	SL_CLEANUP(close) int fd = target_connect(target, deadline_ns);
	SL_CLEANUP(free) char *text = NULL;
	size_t used = 0, room = 0;

	if (fd < 0)
		return fd;
	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		ssize_t got;

		if (used + 1 >= room) {
			char *more;

			room = room ? 2 * room : 16384;
			if (room > ANSWER_BYTES_MAX)
				return sl_fail(-EFBIG, "process %d answers without end",
					       target->pid);
			more = realloc(text, room);
			if (!more)
				return sl_fail(-ENOMEM, "out of memory");
			text = more;
		}
		got = recv(fd, text + used, room - used - 1, 0);
		if (got > 0) {
			used += (size_t)got;
			continue;
		}
		if (got == 0)
			break;
		if (errno == EINTR)
			continue;
		if (errno == ECONNRESET)
			break; /* it closed its space with us still in the queue */
		if (errno != EAGAIN)
			return sl_fail(-errno, "process %d: %s", target->pid,
				       sl_errno_name(errno));
		if (!left_ms(deadline_ns))
			return no_answer(target->pid);
		if (poll(&wait, 1, left_ms(deadline_ns)) < 0 && errno != EINTR)
			return sl_fail(-errno, "poll: %s", sl_errno_name(errno));
	}
	if (!used)
		return sl_fail(-ESRCH, "process %d ended, or closed its space, while it was asked",
			       target->pid);
	text[used] = '\0';
	if (strlen(text) != used)
		return sl_fail(-EINVAL, "process %d: its answer is not text", target->pid);
	*document = text;
	text = NULL;
	return 0;
}

/* ---- the document ---- */

void
stat_sample_fini(struct stat_sample *sample)
{
	for (size_t i = 0; i < sample->region_n; i++) {
		free(sample->regions[i].name);
		free(sample->regions[i].addr);
	}
	free(sample->regions);
	free(sample->command);
	free(sample->policy);
	free(sample->device);
	free(sample->device_uuid);
	memset(sample, 0, sizeof(*sample));
}

/* A copy that is safe on a terminal: control characters become '?'. */
static char *
text_copy(const char *text)
{
	char *copy = strdup(text);

	for (char *c = copy; c && *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return copy;
}

static void
text_replace(char **to, const char *text)
{
	char *copy = text_copy(text);

	free(*to);
	memcpy(to, &copy, sizeof(copy)); /* gcc's analyzer sees a leak in an assignment */
}

/* Where a value of an object goes, by its key. */
struct field {
	const char *key;
	size_t offset;
	int is_text; /* a char *, owned; else a uint64_t */
};

static const struct field sample_fields[] = {
	{"command", offsetof(struct stat_sample, command), 1},
	{"policy", offsetof(struct stat_sample, policy), 1},
	{"device", offsetof(struct stat_sample, device), 1},
	{"device_uuid", offsetof(struct stat_sample, device_uuid), 1},
	{"device_number", offsetof(struct stat_sample, device_number), 0},
	{"pid", offsetof(struct stat_sample, pid), 0},
	{"space", offsetof(struct stat_sample, space), 0},
	{"now_ns", offsetof(struct stat_sample, now_ns), 0},
	{"chunk_bytes", offsetof(struct stat_sample, chunk_bytes), 0},
	{"staging_bytes", offsetof(struct stat_sample, staging_bytes), 0},
	{"region_count", offsetof(struct stat_sample, region_count), 0},
	{NULL, 0, 0},
};

static const struct field region_fields[] = {
	{"name", offsetof(struct stat_region, name), 1},
	{"addr", offsetof(struct stat_region, addr), 1},
	{"size_bytes", offsetof(struct stat_region, size_bytes), 0},
	{"device_bytes", offsetof(struct stat_region, device_bytes), 0},
	{"host_bytes", offsetof(struct stat_region, host_bytes), 0},
	{"store_bytes", offsetof(struct stat_region, store_bytes), 0},
	{"empty_bytes", offsetof(struct stat_region, empty_bytes), 0},
	{"dirty_bytes", offsetof(struct stat_region, dirty_bytes), 0},
	{NULL, 0, 0},
};

static void
fields_take(void *object, const struct field *field, const struct json_token *token)
{
	while (field->key && strcmp(field->key, token->key))
		field++;
	if (!field->key || field->is_text != (token->kind == JSON_STRING))
		return;
	if (field->is_text)
		text_replace((char **)((char *)object + field->offset), token->text);
	else
		memcpy((char *)object + field->offset, &token->u64, sizeof(token->u64));
}

static void
tier_take(struct sluice_stats *stats, const char *tier, const struct json_token *token)
{
	for (int i = 0; i < SLUICE_TIER_COUNT; i++) {
		if (!tier || strcmp(tier, stat_tiers[i]) != 0)
			continue;
		if (strcmp(token->key, "resident_bytes") == 0)
			stats->resident_bytes[i] = token->u64;
		else if (strcmp(token->key, "peak_bytes") == 0)
			stats->resident_peak_bytes[i] = token->u64;
		else if (strcmp(token->key, "budget_bytes") == 0)
			stats->budget_bytes[i] = token->u64;
	}
}

static void
counter_take(struct sluice_stats *stats, const struct json_token *token)
{
	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++)
		if (strcmp(token->key, sluice_counter_name((enum sluice_counter)i)) == 0)
			stats->counter[i] = token->u64;
}

static int
region_add(struct stat_sample *sample)
{
	struct stat_region *more;

	if (sample->region_n == SL_PUBLISH_REGION_MAX)
		return sl_fail(-EINVAL, "more regions than a process lists");
	if (sample->region_n % 64 == 0) {
		more = realloc(sample->regions, (sample->region_n + 64) * sizeof(*more));
		if (!more)
			return sl_fail(-ENOMEM, "out of memory");
		sample->regions = more;
	}
	memset(&sample->regions[sample->region_n++], 0, sizeof(*sample->regions));
	return 0;
}

static void
flag_add(struct stat_region *region, const char *flag)
{
	size_t used = strlen(region->flags);

	snprintf(region->flags + used, sizeof(region->flags) - used, "%s%.15s",
		 used ? "," : "", flag);
}

/* Where a value of the document goes, by the names of the objects around it. */
static int
token_take(struct stat_sample *sample, const char *const section[],
	   const struct json_token *token)
{
	int is_value = token->kind != JSON_OBJECT && token->kind != JSON_ARRAY;
	const char *outer = token->depth > 1 && section[1] ? section[1] : "";

	if (token->depth == 1 && is_value && token->key) {
		if (token->kind == JSON_STRING && strcmp(token->key, "error") == 0)
			return sl_fail(-EACCES, "the process answers: %.200s", token->text);
		fields_take(sample, sample_fields, token);
	} else if (token->depth == 2 && is_value && token->key &&
		   strcmp(outer, "counters") == 0) {
		counter_take(&sample->stats, token);
	} else if (token->depth == 3 && is_value && token->key &&
		   strcmp(outer, "tiers") == 0) {
		tier_take(&sample->stats, section[2], token);
	} else if (token->depth == 2 && token->kind == JSON_OBJECT &&
		   strcmp(outer, "regions") == 0) {
		return region_add(sample);
	} else if (token->depth == 3 && is_value && token->key && sample->region_n &&
		   strcmp(outer, "regions") == 0) {
		fields_take(&sample->regions[sample->region_n - 1], region_fields, token);
	} else if (token->depth == 4 && token->kind == JSON_STRING && sample->region_n &&
		   strcmp(outer, "regions") == 0) {
		flag_add(&sample->regions[sample->region_n - 1], token->text);
	}
	return 0;
}

/* Take a document apart, which changes it. stat_sample_fini() is safe after all. */
static int
document_read(char *document, struct stat_sample *sample)
{
	const char *section[JSON_READ_DEPTH_MAX + 1] = {NULL};
	struct json_reader reader;
	struct json_token token;
	int rc;

	memset(sample, 0, sizeof(*sample));
	json_read_begin(&reader, document);
	while ((rc = json_read_next(&reader, &token)) > 0) {
		if (token.kind == JSON_OBJECT || token.kind == JSON_ARRAY)
			section[token.depth] = token.key;
		if (token.kind == JSON_CLOSE)
			continue;
		rc = token_take(sample, section, &token);
		if (rc)
			return rc;
	}
	if (rc)
		return rc;
	if (!sample->pid || !sample->command || !sample->policy)
		return sl_fail(-EINVAL, "an answer without pid, command or policy");
	return 0;
}

/* Ask a target and take its answer apart. as_json: print it too, in one line. */
int
stat_target_sample(const struct stat_target *target, struct stat_sample *sample, int as_json)
{
	SL_CLEANUP(free) char *document = NULL, *line = NULL;
	int rc;

	memset(sample, 0, sizeof(*sample));
	rc = target_ask(target, &document);
	if (rc || !document)
		return rc;
	if (as_json) {
		line = strdup(document);
		if (!line)
			return sl_fail(-ENOMEM, "out of memory");
	}
	rc = document_read(document, sample);
	if (rc == -EINVAL || rc == -E2BIG)
		return sl_fail_in(rc, "process %d", target->pid);
	if (rc || !line)
		return rc;
	/* It is JSON, so control characters can only stand between values. */
	for (char *c = line; *c; c++)
		putchar((unsigned char)*c < 0x20 ? ' ' : *c);
	putchar('\n');
	return 0;
}
