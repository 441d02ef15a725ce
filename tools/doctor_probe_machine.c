/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of `sluice doctor` for the machine and this process's limits: kernel, CPUs, GPU,
 * memory, locked memory and mappings; and the sum of all tiers.
 *
 * The kernel tells all but the GPU. The back end's own loader (device/cuda/cuda_driver.h) asks
 * the GPU's driver, so a space would find the same. Nothing found here makes the software device
 * unusable, so none of these checks clears doctor->usable.
 *
 * Threads: one, and those that a GPU driver may start.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/size.h"
#include "commands.h"
#include "device/cuda/cuda_driver.h"
#include "doctor.h"

/* ---- memory ---- */

void
doctor_check_huge_pages(struct doctor *doctor)
{
	char line[128];
	int rc = doctor_line_read("/sys/kernel/mm/transparent_hugepage/enabled", line,
				  sizeof(line));

	if (rc) {
		finding_add(doctor, LEVEL_LIMITED, "huge pages",
			    "use a kernel built with CONFIG_TRANSPARENT_HUGEPAGE",
			    "setting unreadable (%s); chunks may be moved in 4 KiB pages",
			    strerror(-rc));
	} else if (strstr(line, "[never]")) {
		finding_add(doctor, LEVEL_LIMITED, "huge pages",
			    "echo madvise > "
			    "/sys/kernel/mm/transparent_hugepage/enabled",
			    "switched off: chunks are moved in 4 KiB pages, slower");
	} else {
		finding_add(doctor, LEVEL_OK, "huge pages", NULL,
			    "transparent huge pages: %s",
			    strstr(line, "[always]") ? "always" : "madvise");
	}
}

/* Whether the limit of locked memory binds this process: root's capability frees of it, but root in a
 * container often has it not, or only over the container's own name space. */
static int
memlock_binds(void)
{
	uint64_t effective = 0, first, outside, n = 0;
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "CapEff: %" SCNx64, &effective) == 1)
			break;
	if (status)
		fclose(status);
	if (!(effective >> CAP_IPC_LOCK & 1))
		return 1;
	if (doctor_line_read("/proc/self/uid_map", line, sizeof(line)))
		return 0; /* a kernel without such name spaces */
	return sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64, &first, &outside, &n) != 3 ||
	       n != UINT32_MAX;
}

void
doctor_check_memlock(struct doctor *doctor)
{
	struct rlimit limit;
	char text[32];

	if (getrlimit(RLIMIT_MEMLOCK, &limit)) {
		finding_add(doctor, LEVEL_LIMITED, "memlock limit", NULL, "%s",
			    strerror(errno));
		return;
	}
	if (limit.rlim_cur == RLIM_INFINITY || !memlock_binds()) {
		finding_add(doctor, LEVEL_OK, "memlock limit", NULL, "%s",
			    limit.rlim_cur == RLIM_INFINITY
				    ? "none"
				    : "does not bind this process");
		return;
	}
	sl_size_format(limit.rlim_cur, text, sizeof(text));
	if (limit.rlim_cur >= 64 * MIB) {
		finding_add(doctor, LEVEL_OK, "memlock limit", NULL, "%s", text);
		return;
	}
	finding_add(doctor, LEVEL_LIMITED, "memlock limit",
		    "ulimit -l unlimited, or memlock in /etc/security/limits.conf",
		    "%s: buffers may not be registered for I/O; a little slower", text);
}

void
doctor_check_map_count(struct doctor *doctor)
{
	uint64_t count;
	char line[64];

	if (doctor_line_read("/proc/sys/vm/max_map_count", line, sizeof(line)) ||
	    command_number(line, 0, UINT64_MAX, &count)) {
		finding_add(doctor, LEVEL_LIMITED, "max_map_count", NULL, "unreadable");
		return;
	}
	if (count >= 65530) {
		finding_add(doctor, LEVEL_OK, "max_map_count", NULL, "%" PRIu64, count);
		return;
	}
	finding_add(doctor, LEVEL_LIMITED, "max_map_count",
		    "set sysctl vm.max_map_count=65530 or more",
		    "%" PRIu64 ": many regions may use up the process's mappings", count);
}

void
doctor_check_cgroup(struct doctor *doctor)
{
	char limit_text[32], left_text[32];
	struct sl_cgroup_memory memory;
	uint64_t want;

	sl_cgroup_memory_read(&memory);
	doctor->limit_bytes = memory.left_bytes;
	if (memory.left_bytes == UINT64_MAX) {
		finding_add(doctor, LEVEL_OK, "cgroup memory", NULL, "%s",
			    memory.seen ? "no limit" : "no memory controller: no limit");
		return;
	}
	sl_size_format(memory.limit_bytes, limit_text, sizeof(limit_text));
	sl_size_format(memory.left_bytes, left_text, sizeof(left_text));
	want = doctor->config_ok ? doctor->config.device_budget_bytes +
					   doctor->config.host_budget_bytes +
					   doctor->config.staging_bytes
				 : 0;
	if (want <= memory.left_bytes) {
		finding_add(doctor, LEVEL_OK, "cgroup memory", NULL,
			    "limit %s at %.200s, %s left", limit_text, memory.at, left_text);
		return;
	}
	finding_add(doctor, LEVEL_LIMITED, "cgroup memory",
		    "set SLUICE_DEVICE_BUDGET and SLUICE_HOST_BUDGET to fit, or raise "
		    "the limit",
		    "limit %s at %.200s, %s left: less than the default budgets",
		    limit_text, memory.at, left_text);
}

void
doctor_check_memory(struct doctor *doctor)
{
	char line[128], total_text[32] = "?", available_text[32], want_text[32];
	uint64_t kib, want;
	FILE *file = fopen("/proc/meminfo", "re");

	if (file) {
		while (fgets(line, sizeof(line), file)) {
			if (sscanf(line, "MemTotal: %" SCNu64, &kib) == 1)
				sl_size_format(kib * 1024, total_text, sizeof(total_text));
			else if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
				doctor->available_bytes = kib * 1024;
		}
		fclose(file);
	}
	if (!doctor->available_bytes) {
		finding_add(doctor, LEVEL_LIMITED, "memory", NULL,
			    "/proc/meminfo: unreadable");
		return;
	}
	sl_size_format(doctor->available_bytes, available_text, sizeof(available_text));
	if (!doctor->config_ok) {
		finding_add(doctor, LEVEL_OK, "memory", NULL, "%s of %s available",
			    available_text, total_text);
		return;
	}
	want = doctor->config.device_budget_bytes + doctor->config.host_budget_bytes +
	       doctor->config.staging_bytes;
	sl_size_format(want, want_text, sizeof(want_text));
	if (want <= doctor->available_bytes) {
		finding_add(doctor, LEVEL_OK, "memory", NULL,
			    "%s of %s available; the default budgets take %s",
			    available_text, total_text, want_text);
		return;
	}
	finding_add(doctor, LEVEL_LIMITED, "memory",
		    "set SLUICE_DEVICE_BUDGET and SLUICE_HOST_BUDGET lower",
		    "%s of %s available, less than the budgets in force (%s)",
		    available_text, total_text, want_text);
}

/* ---- machine ---- */

void
doctor_check_kernel(struct doctor *doctor)
{
	unsigned major = 0, minor = 0;
	struct utsname name;

	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2) {
		finding_add(doctor, LEVEL_LIMITED, "kernel", NULL, "version unreadable");
		return;
	}
	if (major > 6 || (major == 6 && minor >= 8)) {
		finding_add(doctor, LEVEL_OK, "kernel", NULL, "Linux %s %s", name.release,
			    name.machine);
		return;
	}
	if (major > 5 || (major == 5 && minor >= 7)) {
		finding_add(doctor, LEVEL_LIMITED, "kernel",
			    "use 6.8 or later for full speed",
			    "Linux %s %s: works, moves by copying", name.release,
			    name.machine);
		return;
	}
	finding_add(doctor, LEVEL_MISSING, "kernel", "use 5.7 or later, 6.8 for full speed",
		    "Linux %s %s is too old", name.release, name.machine);
}

void
doctor_check_cpus(struct doctor *doctor)
{
	cpu_set_t set;
	int may = sched_getaffinity(0, sizeof(set), &set) ? 0 : CPU_COUNT(&set);
	int online = (int)sysconf(_SC_NPROCESSORS_ONLN);

	if (!may)
		may = online; /* more CPUs than the set holds */
	finding_add(doctor, may > 1 ? LEVEL_OK : LEVEL_LIMITED, "cpus", NULL,
		    "%d of %d may be used%s", may, online,
		    may > 1 ? "" : ": kernels and moves share one");
}

void
doctor_check_gpu(struct doctor *doctor)
{
	const struct sl_cuda_driver *driver;
	struct sl_cuda_device_info info;
	char names[256] = "", memory[32];
	int rc = sl_cuda_driver_open(&driver), capability = INT_MAX;
	const char *lacks;

	/* Both failures say themselves what to do, and that the software device remains. */
	if (rc) {
		finding_add(doctor, LEVEL_MISSING, "gpu", NULL, "%s", sluice_last_error());
		return;
	}
	for (int i = 0; i < driver->n_devices && i < GPU_MAX; i++) {
		size_t used = strlen(names);

		rc = sl_cuda_device_probe(driver, i, &info);
		if (rc) {
			finding_add(doctor, LEVEL_MISSING, "gpu", NULL, "%s",
				    sluice_last_error());
			return;
		}
		if (info.capability < capability)
			capability = info.capability;
		doctor->gpus[doctor->gpu_n++] = (struct doctor_gpu){
			.memory_bytes = info.memory_bytes, .is_mig = info.is_mig};
		sl_size_format(info.memory_bytes, memory, sizeof(memory));
		snprintf(names + used, sizeof(names) - used, "%s%s, %s", i ? "; " : "",
			 info.name, memory);
		if (!info.host_vmm) {
			finding_add(
				doctor, LEVEL_LIMITED, "gpu",
				"use a driver for CUDA 12.2 or later on x86-64",
				"device %d (%s) cannot map host memory at addresses of "
				"ours: launches must fit its memory",
				i, info.name);
			return;
		}
	}
	lacks = sl_cuda_codec_lacks(capability);
	finding_add(doctor, LEVEL_OK, "gpu", NULL,
		    "%d device%s (%.200s), driver for CUDA %d.%d; %scompression on "
		    "the link%s%s",
		    driver->n_devices, driver->n_devices == 1 ? "" : "s", names,
		    driver->version / 1000, driver->version % 1000 / 10,
		    lacks ? "no " : "", lacks ? ": " : "", lacks ? lacks : "");
}

/* ---- all tiers ---- */

uint64_t
doctor_host_bytes(const struct doctor *doctor)
{
	return doctor->limit_bytes < doctor->available_bytes ? doctor->limit_bytes
							     : doctor->available_bytes;
}

void
doctor_check_capacity(struct doctor *doctor)
{
	uint64_t device_bytes = 0, host_bytes = doctor_host_bytes(doctor);
	char all[32], device[32], host[32], store[32], gpu_text[64] = "", disk_text[300] = "";

	for (size_t i = 0; i < doctor->gpu_n; i++)
		device_bytes += doctor->gpus[i].memory_bytes;
	sl_size_format(device_bytes + host_bytes + doctor->store_bytes, all, sizeof(all));
	sl_size_format(device_bytes, device, sizeof(device));
	sl_size_format(host_bytes, host, sizeof(host));
	sl_size_format(doctor->store_bytes, store, sizeof(store));
	if (doctor->gpu_n)
		snprintf(gpu_text, sizeof(gpu_text), "%s on the GPU%s, ", device,
			 doctor->gpu_n == 1 ? "" : "s");
	if (doctor->store_bytes)
		snprintf(disk_text, sizeof(disk_text), ", %s on the disk of %.200s",
			 store, doctor->dirs[0]);
	if (doctor->store_bytes)
		finding_add(doctor, LEVEL_OK, "capacity", NULL,
			    "programs can hold %s: %s%s of host memory%s", all, gpu_text,
			    host, disk_text);
	else
		finding_add(
			doctor, LEVEL_LIMITED, "capacity",
			"name a directory on a disk with --dir, and then with "
			"SLUICE_SPILL_DIRS",
			"programs can hold %s: %s%s of host memory; no disk to spill to",
			all, gpu_text, host);
}
