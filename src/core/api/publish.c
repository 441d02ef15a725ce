/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The in-process side of `sluice stat` (see publish.h).
 *
 * One thread per published space waits for connections, checks the peer's user, writes one JSON
 * document and closes. Readers are served one after the other. Each has SEND_MS to take its
 * document, so a reader that stops delays the others only shortly. It never delays the program:
 * the thread takes only the space's own lock, within the public calls it makes.
 *
 * A forked child must not keep its parent's name alive: readers would connect and wait for ever.
 * So the child closes all listening sockets at once. Their table is atomic, because the child
 * may not take a lock.
 *
 * Programs close descriptors that they do not know, daemons do so with all. Then there are no more
 * answers, and nothing of the program's that has the number is touched.
 *
 * The document is written by hand here and not by the tool's JSON writer: the library does not
 * depend on the tool.
 */
#include "core/publish.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/thread.h"
#include "sluice/sluice.h"

#define BACKLOG 16
#define SEND_MS 2000

struct sl_publisher {
	struct sluice_space *space; /* set once */
	const char *device_uuid;    /* set once */
	int listen_fd;              /* set once */
	ino_t listen_ino; /* set once: the program may close it, or have its number */
	atomic_int stops; /* atomic: set by destroy, read by the thread */
	unsigned number;  /* set once: 1 for the process's first published space */
	pthread_t thread;
	int thread_runs;
	uint64_t start_ns;
};

/*
 * Listening sockets by number - 1, plus one so that 0 means none. Atomic: written by create and
 * destroy of different spaces at once, read by the child of a fork.
 */
static atomic_int listen_fds[SL_PUBLISH_MAX];
static ino_t listen_inos[SL_PUBLISH_MAX]; /* theirs, set before */

/* Programs close descriptors that they do not know, and then have others of the same number. */
static int
fd_is_ours(int fd, ino_t ino)
{
	struct stat now;

	return fd >= 0 && !fstat(fd, &now) && S_ISSOCK(now.st_mode) && now.st_ino == ino;
}

static void
publish_fork_child(void)
{
	for (size_t i = 0; i < SL_PUBLISH_MAX; i++) {
		int fd = atomic_exchange(&listen_fds[i], 0) - 1;

		if (fd_is_ours(fd, listen_inos[i]))
			close(fd);
	}
}

static void
publish_fork_register(void)
{
	int rc = pthread_atfork(NULL, NULL, publish_fork_child);

	if (rc)
		sl_log(SL_WARN, "publish",
		       "children of fork keep this process's name for `sluice stat` (%s)",
		       sl_errno_name(rc));
}

/* Bytes of the UTF-8 character at text; 0 when there is none (overlong forms are none). */
static size_t
utf8_bytes(const unsigned char *text)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t value;
	size_t n;

	if (text[0] < 0x80)
		return 1;
	n = (text[0] & 0xe0) == 0xc0   ? 2
	    : (text[0] & 0xf0) == 0xe0 ? 3
	    : (text[0] & 0xf8) == 0xf0 ? 4
				       : 0;
	value = n ? text[0] & (0x7fu >> n) : 0;
	for (size_t i = 1; i < n; i++) {
		if ((text[i] & 0xc0) != 0x80) /* also at the end of the text */
			return 0;
		value = value << 6 | (text[i] & 0x3f);
	}
	return n && value >= least[n] && value <= 0x10ffff && value >> 11 != 0x1b ? n : 0;
}

static void
json_text(FILE *to, const char *text)
{
	const unsigned char *c = (const unsigned char *)text;

	fputc('"', to);
	while (*c) {
		size_t n = utf8_bytes(c);

		if (!n) {
			fputs("\\ufffd", to); /* paths may be any bytes, JSON may not */
			n = 1;
		} else if (*c == '"' || *c == '\\') {
			fprintf(to, "\\%c", *c);
		} else if (*c < 0x20 || *c == 0x7f) {
			fprintf(to, "\\u%04x", *c);
		} else {
			fwrite(c, 1, n, to);
		}
		c += n;
	}
	fputc('"', to);
}

static const char *
policy_name(enum sluice_policy policy)
{
	switch (policy) {
	case SLUICE_POLICY_LRU:
		return "lru";
	case SLUICE_POLICY_DRAGON:
		return "dragon";
	case SLUICE_POLICY_UVM:
		return "uvm";
	case SLUICE_POLICY_PLAN:
		return "plan";
	case SLUICE_POLICY_COUNT:
		break;
	}
	return "unknown";
}

static const char *
tier_name(enum sluice_tier tier)
{
	switch (tier) {
	case SLUICE_TIER_DEVICE:
		return "device";
	case SLUICE_TIER_HOST:
		return "host";
	case SLUICE_TIER_STORE:
		return "store";
	case SLUICE_TIER_COUNT:
		break;
	}
	return "unknown";
}

static void
write_flags(FILE *to, unsigned flags)
{
	static const struct {
		unsigned flag;
		const char *name;
	} names[] = {
		{SLUICE_READ, "read"},
		{SLUICE_WRITE, "write"},
		{SLUICE_VOLATILE, "volatile"},
		{SLUICE_CREATE, "create"},
		{SLUICE_NO_READAHEAD, "no_readahead"},
	};
	const char *comma = "";

	fputc('[', to);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!(flags & names[i].flag))
			continue;
		fprintf(to, "%s\"%s\"", comma, names[i].name);
		comma = ",";
	}
	fputc(']', to);
}

static void
write_region(FILE *to, const struct sluice_region_info *info)
{
	fprintf(to, "{\"addr\":\"0x%" PRIxPTR "\",\"name\":", (uintptr_t)info->addr);
	json_text(to, info->name);
	fprintf(to, ",\"size_bytes\":%" PRIu64 ",\"chunk_bytes\":%" PRIu64 ",\"flags\":",
		info->size_bytes, info->chunk_bytes);
	write_flags(to, info->flags);
	fprintf(to,
		",\"device_bytes\":%" PRIu64 ",\"host_bytes\":%" PRIu64
		",\"store_bytes\":%" PRIu64 ",\"empty_bytes\":%" PRIu64
		",\"dirty_bytes\":%" PRIu64 "}",
		info->bytes.device, info->bytes.host, info->bytes.store,
		info->bytes.empty, info->bytes.dirty);
}

static void
write_regions(FILE *to, struct sluice_space *space)
{
	SL_CLEANUP(free) struct sluice_region_info *infos = NULL;
	size_t n = 0, room;

	/* One region more than there are now: none is missed unless several come at once. */
	if (sluice_regions(space, NULL, 0, &n))
		n = 0;
	room = n < SL_PUBLISH_REGION_MAX ? n + 1 : SL_PUBLISH_REGION_MAX;
	infos = sl_calloc(room, sizeof(*infos));
	if (!infos || sluice_regions(space, infos, room, &n))
		room = 0;
	fprintf(to, "\"region_count\":%zu,\"regions\":[", n);
	for (size_t i = 0; i < n && i < room; i++) {
		if (i)
			fputc(',', to);
		write_region(to, &infos[i]);
	}
	fputs("]", to);
}

static void
write_document(FILE *to, const struct sl_publisher *publisher)
{
	struct sluice_config config;
	struct sluice_stats stats;
	char command[64] = "";
	FILE *comm = fopen("/proc/self/comm", "re");

	if (comm) {
		if (fgets(command, sizeof(command), comm))
			command[strcspn(command, "\n")] = '\0';
		fclose(comm);
	}
	sluice_space_config(publisher->space, &config);
	sluice_stats_get(publisher->space, &stats);

	fprintf(to, "{\"pid\":%d,\"command\":", (int)getpid());
	json_text(to, command);
	fprintf(to,
		",\"version\":\"%s\",\"space\":%u,\"now_ns\":%" PRIu64
		",\"age_ns\":%" PRIu64 ",\"policy\":\"%s\",\"device\":\"%s\""
		",\"device_number\":%u,\"device_uuid\":\"%s\",\"chunk_bytes\":%" PRIu64
		",\"tiers\":{",
		sluice_version(), publisher->number, sl_now_ns(),
		sl_now_ns() - publisher->start_ns, policy_name(config.policy),
		config.device == SLUICE_DEVICE_CUDA ? "cuda" : "soft",
		config.device_number, publisher->device_uuid, config.chunk_bytes);
	for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++)
		fprintf(to,
			"%s\"%s\":{\"resident_bytes\":%" PRIu64 ",\"peak_bytes\":%" PRIu64
			",\"budget_bytes\":%" PRIu64 "}",
			tier ? "," : "", tier_name((enum sluice_tier)tier),
			stats.resident_bytes[tier], stats.resident_peak_bytes[tier],
			stats.budget_bytes[tier]);
	fprintf(to, "},\"staging_bytes\":%" PRIu64 ",\"counters\":{", stats.staging_bytes);
	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++)
		fprintf(to, "%s\"%s\":%" PRIu64, i ? "," : "",
			sluice_counter_name((enum sluice_counter)i), stats.counter[i]);
	fputs("},", to);
	write_regions(to, publisher->space);
	fputs("}\n", to);
}

/* Send all, within SEND_MS, unless told to stop. */
static void
document_send(const struct sl_publisher *publisher, int fd, const char *text, size_t bytes)
{
	uint64_t deadline_ns = sl_now_ns() + (uint64_t)SEND_MS * 1000000;

	while (bytes) {
		struct pollfd wait = {.fd = fd, .events = POLLOUT};
		ssize_t sent = send(fd, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent > 0) {
			text += sent;
			bytes -= (size_t)sent;
			continue;
		}
		if (sent < 0 && errno != EAGAIN && errno != EINTR)
			return; /* the reader has gone */
		if (sl_now_ns() >= deadline_ns || atomic_load(&publisher->stops))
			return;
		if (poll(&wait, 1, 100) < 0 && errno != EINTR)
			return;
	}
}

static void
reader_serve(const struct sl_publisher *publisher, int fd)
{
	static const char refused[] = "{\"error\":\"permission denied: only root and the "
				      "process's own user may ask\"}\n";
	SL_CLEANUP(free) char *text = NULL;
	struct ucred peer = {0};
	socklen_t peer_bytes = sizeof(peer);
	size_t bytes = 0;
	FILE *to;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes))
		return;
	if (peer.uid != 0 && peer.uid != geteuid()) {
		document_send(publisher, fd, refused, sizeof(refused) - 1);
		return;
	}
	to = open_memstream(&text, &bytes);
	if (!to)
		return;
	write_document(to, publisher);
	if (fclose(to) == 0)
		document_send(publisher, fd, text, bytes);
}

static void *
publisher_main(void *arg)
{
	const struct sl_publisher *publisher = arg;

	for (;;) {
		struct pollfd wait = {.fd = publisher->listen_fd, .events = POLLIN};
		int fd;

		if (poll(&wait, 1, -1) < 0) {
			if (errno == EINTR)
				continue;
			sl_log(SL_WARN, "publish",
			       "`sluice stat` is not answered any more: poll: %s",
			       sl_errno_name(errno));
			return NULL;
		}
		if (atomic_load(&publisher->stops))
			return NULL;
		if (!fd_is_ours(publisher->listen_fd, publisher->listen_ino)) {
			sl_log(SL_INFO, "publish",
			       "`sluice stat` is not answered any more: the program has "
			       "closed the socket");
			return NULL;
		}
		fd = accept4(publisher->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0) {
			/* Out of descriptors: the reader stays queued; do not spin on it. */
			if (errno == EMFILE || errno == ENFILE)
				poll(NULL, 0, 100);
			continue;
		}
		reader_serve(publisher, fd);
		close(fd);
	}
}

/* Bind the first free name of this process. */
static int
name_bind(struct sl_publisher *publisher)
{
	for (unsigned number = 1; number <= SL_PUBLISH_MAX; number++) {
		struct sockaddr_un addr = {.sun_family = AF_UNIX};
		int chars;

		if (number == 1)
			chars = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1,
					 SL_PUBLISH_NAME "%d", (int)getpid());
		else
			chars = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1,
					 SL_PUBLISH_NAME "%d-%u", (int)getpid(), number);
		if (bind(publisher->listen_fd, (struct sockaddr *)&addr,
			 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				     (size_t)chars)) == 0) {
			publisher->number = number;
			return 0;
		}
		if (errno != EADDRINUSE)
			return sl_fail(-errno, "publish: bind @%s: %s", addr.sun_path + 1,
				       sl_errno_name(errno));
	}
	return sl_fail(-EADDRINUSE, "publish: this process publishes %d spaces already",
		       SL_PUBLISH_MAX);
}

static int
thread_start(struct sl_publisher *publisher)
{
	int rc = sl_thread_begin(&publisher->thread, "sl-publish", publisher_main, publisher);

	if (rc)
		return sl_fail(rc, "publish: starting the thread: %s", sl_errno_name(rc));
	publisher->thread_runs = 1;
	return 0;
}

int
sl_publisher_create(struct sluice_space *space, const char *device_uuid,
		    struct sl_publisher **out)
{
	static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
	struct sl_publisher *publisher = sl_calloc(1, sizeof(*publisher));
	struct stat made;
	int rc;

	if (!publisher)
		return sl_fail(-ENOMEM, "publish: out of memory");
	publisher->space = space;
	publisher->device_uuid = device_uuid;
	publisher->start_ns = sl_now_ns();
	publisher->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (publisher->listen_fd < 0) {
		rc = sl_fail(-errno, "publish: socket: %s", sl_errno_name(errno));
		goto fail;
	}
	if (fstat(publisher->listen_fd, &made)) {
		rc = sl_fail(-errno, "publish: socket: %s", sl_errno_name(errno));
		goto fail;
	}
	publisher->listen_ino = made.st_ino;
	rc = name_bind(publisher);
	if (rc)
		goto fail;
	pthread_once(&fork_once, publish_fork_register);
	listen_inos[publisher->number - 1] = publisher->listen_ino;
	atomic_store(&listen_fds[publisher->number - 1], publisher->listen_fd + 1);
	if (listen(publisher->listen_fd, BACKLOG)) {
		rc = sl_fail(-errno, "publish: listen: %s", sl_errno_name(errno));
		goto fail;
	}
	rc = thread_start(publisher);
	if (rc)
		goto fail;
	*out = publisher;
	return 0;

fail:
	sl_publisher_destroy(publisher);
	return rc;
}

void
sl_publisher_destroy(struct sl_publisher *publisher)
{
	int is_ours;

	if (!publisher)
		return;
	is_ours = fd_is_ours(publisher->listen_fd, publisher->listen_ino);
	atomic_store(&publisher->stops, 1);
	if (publisher->number)
		atomic_store(&listen_fds[publisher->number - 1], 0);
	if (publisher->thread_runs && !is_ours) {
		/* It may wait for the socket that the program has closed, and nothing wakes it: it
		 * keeps its record, and ends when somebody asks. */
		pthread_detach(publisher->thread);
		return;
	}
	if (publisher->thread_runs) {
		shutdown(publisher->listen_fd, SHUT_RDWR); /* wakes it */
		pthread_join(publisher->thread, NULL);
	}
	if (is_ours)
		close(publisher->listen_fd);
	free(publisher);
}
