/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole file in memory, with a bound. Pipes are read like files: a trace may come from
 * another program. What the bytes mean is the reader's business.
 *
 * Threads: no state.
 */
#include "trace/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM_FIRST ((size_t)256 << 10)

static int
fd_load(int fd, const char *path, size_t max_bytes, char **out, size_t *bytes)
{
	size_t room = ROOM_FIRST, n = 0;
	char *data = malloc(room + 1);
	int rc;

	if (!data)
		goto no_memory;
	for (;;) {
		ssize_t got;

		if (n == room) {
			char *grown = realloc(data, room * 2 + 1);

			if (!grown)
				goto no_memory;
			data = grown;
			room *= 2;
		}
		got = read(fd, data + n, room - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			rc = sl_fail(-errno, "%s: read: %s", path, strerror(errno));
			goto fail;
		}
		if (got == 0)
			break;
		n += (size_t)got;
		if (n > max_bytes) {
			rc = sl_fail(-EFBIG, "%s: larger than %zu bytes", path, max_bytes);
			goto fail;
		}
	}
	data[n] = '\0';
	*out = data;
	*bytes = n;
	return 0;

no_memory:
	rc = sl_fail(-ENOMEM, "%s: no memory to read it (%zu bytes so far)", path, n);
fail:
	free(data);
	return rc;
}

int
sl_trace_file_load(const char *path, size_t max_bytes, char **out, size_t *bytes)
{
	int fd, rc;

	if (strcmp(path, "-") == 0)
		return fd_load(STDIN_FILENO, "standard input", max_bytes, out, bytes);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return sl_fail(-errno, "%s: %s", path, strerror(errno));
	rc = fd_load(fd, path, max_bytes, out, bytes);
	close(fd);
	return rc;
}
