#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `sluice doctor` in a container, in WSL, in a job of Slurm and on a part of a GPU: it names what it is in
# and by which sign, and the advice is what is missing there. The container is a root of its own (root.sh).
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_STANDIN_LIBRARY:?}"
. "${SLUICE_SOURCE_DIR:?}/tests/cli/root.sh"

# What the machine of this test happens to be in is not looked at.
for name in container KUBERNETES_SERVICE_HOST APPTAINER_CONTAINER SINGULARITY_CONTAINER \
	${!SLURM_@}; do
	unset "$name"
done
export SLUICE_CUDA_LIBRARY=$SLUICE_STANDIN_LIBRARY CUDA_STANDIN_QUIET=1
mkdir data

# has NAME STATUS TEXT [ADVICE]: a finding of the last report, in $text.
has()
{
	local line
	line=$(grep -A 1 -E "^(ok|limited|missing) +$1 " <<<"$text") || { fail "no line '$1': $text"; return; }
	[[ $line == $2" "*"$3"* ]] || fail "$1: not $2 with '$3': $line"
	[ $# = 3 ] || [[ $line == *"-> "*"$4"* ]] || fail "$1: no advice '$4': $line"
}
has_not()
{
	grep -E "^(ok|limited|missing) +$1 " <<<"$text" && fail "a line '$1' where there is no reason"
}

# Nothing special.
text=$(in_root : "$SLUICE_BIN" doctor --dir data)
for name in container wsl slurm mig; do
	cgroup=$(grep -E 'docker|kubepods|libpod|lxc' /proc/self/cgroup)
	[ $name = container ] && [ -n "$cgroup" ] || has_not $name
done

# Containers, by their signs. Each option that is missing is named, and no other.
text=$(in_root 'touch "$root/.dockerenv"' "$SLUICE_BIN" doctor --dir data)
has container "*" "docker, by /.dockerenv"
grep -q -- '--gpus all' <<<"$text" && fail "docker: a GPU is missing, it says"
text=$(in_root 'touch "$root/.dockerenv"' env SLUICE_CUDA_LIBRARY=/nonexistent "$SLUICE_BIN" doctor --dir data)
has container limited "docker" "--gpus all"
bare='mount -t tmpfs -o size=64m none "$root/dev/shm"; mount -t tmpfs none "$root/var/tmp"
	[ ! -e "$root/dev/userfaultfd" ] || mount --bind /dev/null "$root/dev/userfaultfd"'
text=$(in_root "$bare"'; touch "$root/.dockerenv"' prlimit --memlock=65536 ./refuse "$SLUICE_BIN" doctor --dir /var/tmp)
[ $? = 1 ] || fail "without userfaultfd: not exit status 1"
has userfaultfd missing ""
[ ! -e /proc/sys/kernel/io_uring_disabled ] || has io_uring missing "" "seccomp profile"
has io_uring missing ""
has "memlock limit" limited "64 KiB"
for option in "--ulimit memlock=-1" "--device /dev/userfaultfd" "--security-opt seccomp=FILE" \
	"-v /DISK:/var/tmp" "--shm-size 1g"; do
	has container limited "docker" "$option"
done
text=$(in_root "$bare"'; touch "$root/.dockerenv" "$root/run/.containerenv"' ./refuse "$SLUICE_BIN" doctor --dir /var/tmp)
has container limited "podman, by /run/.containerenv" "--device /dev/userfaultfd"
text=$(KUBERNETES_SERVICE_HOST=10.0.0.1 in_root "$bare" ./refuse "$SLUICE_BIN" doctor --dir /var/tmp)
has container limited "Kubernetes, by KUBERNETES_SERVICE_HOST" "a volume on a disk at /var/tmp"
text=$(APPTAINER_CONTAINER=/x.sif in_root : env SLUICE_CUDA_LIBRARY=/nonexistent "$SLUICE_BIN" doctor --dir data)
has container limited "Apptainer, by APPTAINER_CONTAINER" "--nv"
text=$(container=lxc in_root : "$SLUICE_BIN" doctor --dir data)
has container "*" "a container, by the variable container"
echo '0::/kubepods.slice/pod1' >group
text=$(in_root 'mount --bind group "$root/proc/$$/cgroup"' "$SLUICE_BIN" doctor --dir data)
has container "*" "Kubernetes, by /proc/self/cgroup"

# A root without a list of mounts.
text=$(in_root 'mount --bind /dev/null "$root/proc/$$/mountinfo"' "$SLUICE_BIN" doctor --dir data)
has "files in data" "*" "unknown file system"

# The device, where the runtime gives it, takes the place of the system call that is refused.
if [ -w /dev/userfaultfd ]; then
	text=$(in_root 'touch "$root/.dockerenv"' ./refuse "$SLUICE_BIN" doctor --dir data)
	has userfaultfd ok "/dev/userfaultfd"
	has "software device" ok ""
fi

# WSL.
echo 'Linux version 5.15.153.1-microsoft-standard-WSL2 (root@x)' >version
text=$(in_root 'mount --bind version "$root/proc/version"' "$SLUICE_BIN" doctor --dir data)
has wsl limited "WSL, by /proc/version" ".wslconfig"

# Slurm: a job whose limit nobody enforces, several tasks, a job without limit.
text=$(SLURM_JOB_ID=17 SLURM_MEM_PER_NODE=64 "$SLUICE_BIN" doctor --dir data)
has slurm limited "job 17, 64 MiB of memory for 1 task" "sluice run --host-memory 48M (48 MiB)"
text=$(SLURM_JOB_ID=17 SLURM_MEM_PER_CPU=32 SLURM_CPUS_ON_NODE=2 SLURM_TASKS_PER_NODE='2(x3)' \
	"$SLUICE_BIN" doctor --dir data)
has slurm limited "64 MiB of memory for 2 tasks" "--host-memory 24M"
text=$(SLURM_JOB_ID=17 SLURM_MEM_PER_NODE=999999999 "$SLUICE_BIN" doctor --dir data)
has slurm ok "keeps to it"
text=$(SLURM_JOB_ID=17 "$SLUICE_BIN" doctor --dir data)
has slurm ok "whose variables name no limit of memory"

# A part of a GPU.
text=$(CUDA_STANDIN_MIG=1g.10gb "$SLUICE_BIN" doctor --dir data)
has mig ok "GPU 0 is a part of a GPU"
has gpu ok "MIG 1g.10gb, 256 MiB"
text=$(CUDA_VISIBLE_DEVICES=MIG-1-2-3 SLUICE_CUDA_LIBRARY=/nonexistent "$SLUICE_BIN" doctor --dir data)
has mig limited "the driver shows none: MIG-1-2-3" "nvidia-smi -L"

[ $failed -eq 0 ] && echo "all right"
exit $failed
