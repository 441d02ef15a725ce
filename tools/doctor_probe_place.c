/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of `sluice doctor` for where it runs: in a container, in WSL, in a job of Slurm, on a part of
 * a GPU (MIG). Each is known by signs that its makers document: files that a runtime leaves, variables,
 * the version of the kernel, names of control groups. A finding names the sign.
 *
 * In a container the advice is the options that the runtime was not given, as far as the checks before
 * this one show that they are missing.
 *
 * Threads: one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/size.h"
#include "commands.h"
#include "doctor.h"

#define SHM_LEAST \
	(1024 * MIB) /* PyTorch's workers and NCCL use more than a runtime's 64 MiB */

/* ---- containers ---- */

enum runtime { DOCKER, PODMAN, KUBERNETES, APPTAINER, OTHER, RUNTIME_COUNT };

/* What a container may lack, and the option that gives it. "": the runtime does not take it away. */
enum lack {
	LACK_GPU,
	LACK_MEMLOCK,
	LACK_FAULTS,
	LACK_URING,
	LACK_DISK,
	LACK_SHM,
	LACK_COUNT
};

static const struct {
	const char *name;
	const char *options[LACK_COUNT];
} runtimes[RUNTIME_COUNT] = {
	[DOCKER] = {"docker",
		    {"--gpus all", "--ulimit memlock=-1", "--device /dev/userfaultfd",
		     "--security-opt seccomp=FILE (one that allows io_uring)",
		     "-v /DISK:/var/tmp", "--shm-size 1g"}},
	[PODMAN] = {"podman",
		    {"--device nvidia.com/gpu=all", "--ulimit memlock=-1",
		     "--device /dev/userfaultfd",
		     "--security-opt seccomp=FILE (one that allows io_uring)",
		     "-v /DISK:/var/tmp", "--shm-size 1g"}},
	[KUBERNETES] = {"Kubernetes",
			{"a limit nvidia.com/gpu", "LimitMEMLOCK=infinity for the node's runtime",
			 "a seccomp profile that allows userfaultfd",
			 "a seccomp profile that allows io_uring",
			 "a volume on a disk at /var/tmp",
			 "an emptyDir of medium Memory at /dev/shm"}},
	[APPTAINER] = {"Apptainer",
		       {"--nv", "ulimit -l unlimited before it", "", "",
			"--bind /DISK:/var/tmp", ""}},
	[OTHER] = {"a container",
		   {"the GPU's devices and driver", "no limit of memlock",
		    "/dev/userfaultfd, or a seccomp profile that allows userfaultfd",
		    "a seccomp profile that allows io_uring",
		    "a directory on a disk at /var/tmp", "a larger /dev/shm"}},
};

static int
file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* A word of the names of this process's control groups: where the runtimes put their containers. */
static int
cgroup_has(const char *word)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[1024];
	int found = 0;

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, word) != NULL;
	if (file)
		fclose(file);
	return found;
}

/* Which runtime this is, and by which sign. RUNTIME_COUNT: none. The inner one counts. */
static enum runtime
runtime_find(const char **sign)
{
	static const struct {
		const char *sign;
		int is_variable;
		const char *name;
		enum runtime runtime;
	} signs[] = {
		{"APPTAINER_CONTAINER", 1, NULL, APPTAINER},
		{"SINGULARITY_CONTAINER", 1, NULL, APPTAINER},
		{"KUBERNETES_SERVICE_HOST", 1, NULL, KUBERNETES},
		{"/run/.containerenv", 0, NULL, PODMAN},
		{"/.dockerenv", 0, NULL, DOCKER},
	};
	static const struct {
		const char *word;
		enum runtime runtime;
	} groups[] = {
		{"kubepods", KUBERNETES},
		{"libpod", PODMAN},
		{"docker", DOCKER},
		{"lxc", OTHER},
	};

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		*sign = signs[i].sign;
		if (signs[i].is_variable ? getenv(*sign) != NULL : file_exists(*sign))
			return signs[i].runtime;
	}
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		*sign = "/proc/self/cgroup";
		if (cgroup_has(groups[i].word))
			return groups[i].runtime;
	}
	*sign = "the variable container";
	return getenv("container") ? OTHER : RUNTIME_COUNT;
}

static int
is_lacking(const struct doctor *doctor, enum lack lack)
{
	struct statvfs shm;

	switch (lack) {
	case LACK_GPU:
		return finding_level(doctor, "gpu") == LEVEL_MISSING;
	case LACK_MEMLOCK:
		return finding_level(doctor, "memlock limit") == LEVEL_LIMITED;
	case LACK_FAULTS:
		return finding_level(doctor, "userfaultfd") == LEVEL_MISSING;
	case LACK_URING:
		return finding_level(doctor, "io_uring") == LEVEL_MISSING;
	case LACK_DISK: /* the container's own file system is a stack of layers */
		return !doctor->store_dir || !strcmp(doctor->store_type, "overlay");
	case LACK_SHM:
		return !statvfs("/dev/shm", &shm) &&
		       (uint64_t)shm.f_blocks * shm.f_frsize < SHM_LEAST;
	case LACK_COUNT:
		break;
	}
	return 0;
}

static void
check_container(struct doctor *doctor)
{
	const char *sign;
	enum runtime runtime = runtime_find(&sign);
	char advice[320] = "";
	size_t used = 0;

	if (runtime == RUNTIME_COUNT)
		return;
	for (int i = 0; i < LACK_COUNT; i++) {
		const char *option = runtimes[runtime].options[i];

		if (!*option || !is_lacking(doctor, (enum lack)i) || used >= sizeof(advice))
			continue;
		used += (size_t)snprintf(advice + used, sizeof(advice) - used, "%s%s",
					 used ? ", " : "start it with: ", option);
	}
	finding_add(doctor, used ? LEVEL_LIMITED : LEVEL_OK, "container", advice,
		    "%s, by %s: %s", runtimes[runtime].name, sign,
		    used ? "it lacks what an option would give it"
			 : "it has what Sluice uses");
}

/* ---- the others ---- */

static void
check_wsl(struct doctor *doctor)
{
	char line[512];

	if (doctor_line_read("/proc/version", line, sizeof(line)) ||
	    !strcasestr(line, "microsoft"))
		return;
	finding_add(
		doctor, LEVEL_LIMITED, "wsl",
		"memory= in .wslconfig gives it more memory; keep spill files on its own "
		"disk, not below /mnt",
		"WSL, by /proc/version: Sluice has not been tried there");
}

/* A number in a variable of Slurm's; missing: there is none. */
static uint64_t
slurm_number(const char *name, uint64_t missing)
{
	const char *text = getenv(name);
	uint64_t value;

	if (!text || sscanf(text, "%" SCNu64, &value) != 1)
		return missing;
	return value;
}

/* Memory of the job on this node, which Slurm gives in MiB; 0: it sets none. */
static uint64_t
slurm_bytes(void)
{
	uint64_t mib = slurm_number("SLURM_MEM_PER_NODE", 0);

	if (!mib)
		mib = slurm_number("SLURM_MEM_PER_CPU", 0) *
		      slurm_number("SLURM_CPUS_ON_NODE", 1);
	return mib < UINT64_MAX / MIB ? mib * MIB : 0;
}

static void
check_slurm(struct doctor *doctor)
{
	const char *job = getenv("SLURM_JOB_ID");
	uint64_t bytes, host_bytes = doctor_host_bytes(doctor), tasks;
	char memory[32], share[32], advice[160];

	if (!job)
		return;
	bytes = slurm_bytes();
	/* "4(x2)": of the first node; a step has its own. */
	tasks = slurm_number("SLURM_STEP_TASKS_PER_NODE",
			     slurm_number("SLURM_TASKS_PER_NODE", 1));
	if (!tasks)
		tasks = 1;
	if (!bytes) {
		finding_add(doctor, LEVEL_OK, "slurm", NULL,
			    "job %.32s, whose variables name no limit of memory", job);
		return;
	}
	sl_size_format(bytes, memory, sizeof(memory));
	if (tasks == 1 && host_bytes && host_bytes <= bytes) {
		finding_add(doctor, LEVEL_OK, "slurm",
			    NULL, "job %.32s, %s of memory: the default of --host-memory keeps to it",
			    job, memory);
		return;
	}
	/* A part is left for the program itself. */
	sl_size_format(bytes / tasks / 4 * 3 / MIB * MIB, share, sizeof(share));
	snprintf(advice, sizeof(advice), "sluice run --host-memory %" PRIu64 "M (%s)",
		 bytes / tasks / 4 * 3 / MIB, share);
	finding_add(doctor, LEVEL_LIMITED, "slurm", advice,
		    "job %.32s, %s of memory for %" PRIu64 " task%s on this node: %s",
		    job, memory, tasks, tasks == 1 ? "" : "s",
		    tasks == 1 ? "no control group holds it to that"
			       : "each would take it for its own");
}

static void
check_mig(struct doctor *doctor)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	char memory[32];
	size_t n = 0;

	for (size_t i = 0; i < doctor->gpu_n; i++) {
		if (!doctor->gpus[i].is_mig)
			continue;
		n++;
		finding_add(doctor, LEVEL_OK, "mig",
			    NULL, "GPU %zu is a part of a GPU, by its name: for Sluice a GPU with %s",
			    i,
			    sl_size_format(doctor->gpus[i].memory_bytes, memory,
					   sizeof(memory)));
	}
	if (!n && visible && !strncmp(visible, "MIG-", 4))
		finding_add(doctor, LEVEL_LIMITED, "mig",
			    "nvidia-smi -L lists those that there are",
			    "CUDA_VISIBLE_DEVICES names a part of a GPU, and the driver "
			    "shows "
			    "none: %.100s",
			    visible);
}

void
doctor_check_place(struct doctor *doctor)
{
	check_container(doctor);
	check_wsl(doctor);
	check_slurm(doctor);
	check_mig(doctor);
}
