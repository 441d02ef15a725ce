# SPDX-License-Identifier: Apache-2.0
#
# Shared by the tests of containers, which read it in their empty directory: a root of their own, made by
# unshare, and a program that refuses system calls as the runtimes' default profiles do. Where unshare is
# refused, they are skipped.
: "${CC:?}"
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

# Starts a program to which the kernel refuses userfaultfd(), and io_uring_setup() as if it had none:
# Docker's profile says EPERM to it, Podman's ENOSYS.
cat >refuse.c <<'END'
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 2),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 126;
	execv(argv[1], argv + 1);
	return 127;
}
END
"$CC" refuse.c -o refuse || exit 1

# A root with all of this machine but what runtimes leave in it: in $root/run and beside it.
cat >in_root <<'END'
set -e
root=$PWD/root
mkdir -p "$root"
mount -t tmpfs none "$root"
for path in /*; do
	case $path in
	/run) mkdir "$root/run" ;;
	*)
		if [ -L "$path" ]; then
			cp -a "$path" "$root$path"
		elif [ -d "$path" ]; then
			mkdir "$root$path"
			mount --rbind "$path" "$root$path"
		fi
		;;
	esac
done
eval "$SETUP"
exec chroot "$root" /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$PWD" "$@"
END

# in_root SETUP COMMAND...: SETUP changes the root before.
in_root()
{
	SETUP=$1 unshare -rm bash in_root "${@:2}"
}
in_root : true 2>said || { echo "skip: no root of our own: $(cat said)"; exit 77; }
