/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of `sluice doctor` for a direct path between store and GPU (cuFile), tried on a file
 * of the first directory. Nothing depends on it: files go through pinned host memory at the
 * disk's rate. So a missing path is only "limited". Without a GPU there is no finding.
 *
 * Leaves nothing behind: the file has no name, and cuFile's log goes nowhere.
 *
 * Threads: one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "device/cuda/gds.h"
#include "doctor.h"

#define PROBE_BYTES (1 << 20)

/* 0 or -errno; with text. */
static int
direct_try(const struct sl_cuda_driver *driver, const char *dir)
{
	struct sl_cuda_device_info info;
	SL_CLEANUP(close)
	int fd = open(dir, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
	int rc;

	if (fd < 0)
		return sl_fail(-errno, "%s: no nameless file with O_DIRECT: %s", dir,
			       strerror(errno));
	if (ftruncate(fd, PROBE_BYTES))
		return sl_fail(-errno, "%s: %s", dir, strerror(errno));
	rc = sl_cuda_device_probe(driver, 0, &info);
	return rc ? rc : sl_cuda_gds_probe(driver, info.device, fd);
}

void
doctor_check_direct(struct doctor *doctor)
{
	const struct sl_cuda_driver *driver;

	if (!doctor->dir_n || sl_cuda_driver_open(&driver))
		return; /* the line on the GPU has said so */
	setenv("CUFILE_LOGFILE_PATH", "/dev/null", 0); /* else a file in the current directory */
	if (!direct_try(driver, doctor->dirs[0])) {
		finding_add(doctor, LEVEL_OK, "direct store to device",
			    NULL, "cuFile takes files in %.100s; Sluice reads through pinned host memory",
			    doctor->dirs[0]);
		return;
	}
	finding_add(doctor, LEVEL_LIMITED, "direct store to device",
		    "nothing: pinned host memory takes files at the disk's rate",
		    "%.200s: files go through pinned host memory", sluice_last_error());
}
