/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The in-process side of `sluice stat`: a thread answers each connection to an abstract unix
 * socket with one JSON document about a space, and closes it.
 *
 * The socket's name is "\0sluice-PID"; further spaces of the process get "\0sluice-PID-2" and so
 * on. Abstract sockets end with the process, so nothing stale is left. Only root and the
 * process's user are answered. Others get {"error": ...}.
 *
 * The document is made from public calls only (sluice_stats_get, sluice_regions,
 * sluice_space_config): a reader sees the same as the program. Only the GPU's UUID is handed in.
 */
#ifndef SL_CORE_PUBLISH_H
#define SL_CORE_PUBLISH_H

#include "base/error.h"

struct sluice_space;
struct sl_publisher;

/*
 * Start answering for a space. device_uuid: of its GPU, valid as long as the space; "": it has none.
 * *out: owned by the caller, who destroys it before the space.
 * Errors: -ENOMEM, -EADDRINUSE (this process publishes SL_PUBLISH_MAX spaces already), and what
 * socket(2) and pthread_create(3) return. Any thread. Does not block.
 */
int sl_publisher_create(struct sluice_space *space, const char *device_uuid,
			struct sl_publisher **out) SL_MUST_CHECK;

/*
 * Stop answering; the name is free at once. A document being sent is cut off. NULL is fine.
 * Not in a forked child. Blocks until the thread has ended: at most on the space lock. A thread whose
 * socket the program has closed is not waited for.
 */
void sl_publisher_destroy(struct sl_publisher *publisher);

#define SL_PUBLISH_MAX        64   /* spaces of one process */
#define SL_PUBLISH_REGION_MAX 4096 /* regions listed in a document; the rest is counted */
#define SL_PUBLISH_NAME       "sluice-" /* after the leading zero byte; then the process id */

#endif
