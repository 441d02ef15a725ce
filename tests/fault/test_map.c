/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong calls of map, alloc and remap. Each is refused with its code and a text with a remedy,
 * leaves the out-parameter alone, and costs the space nothing. Permissions are tried as another
 * user and on a read-only mount, since root's own are never refused.
 */
#include <sys/mount.h>
#include <sys/stat.h>

#include "fault.h"

#define RW (SLUICE_READ | SLUICE_WRITE)

static struct sluice_space *space;

/* A map call that must fail: code, text, *addr untouched, invariants. */
#define MAP_FAILS(path, offset, size, flags, code, ...)                                 \
	do {                                                                            \
		void *addr_ = (void *)0x5a5a;                                           \
		CHECK_FAILS(sluice_map(space, path, offset, size, flags, &addr_), code, \
			    __VA_ARGS__);                                               \
		CHECK(addr_ == (void *)0x5a5a);                                         \
		CHECK_OK(sluice_space_check(space));                                    \
	} while (0)

#define ALLOC_FAILS(size, flags, code, ...)                                               \
	do {                                                                              \
		void *addr_ = (void *)0x5a5a;                                             \
		CHECK_FAILS(sluice_alloc(space, size, flags, &addr_), code, __VA_ARGS__); \
		CHECK(addr_ == (void *)0x5a5a);                                           \
		CHECK_OK(sluice_space_check(space));                                      \
	} while (0)

static void
missing_file_is_enoent_and_not_created(void)
{
	space = fault_space(NULL);
	MAP_FAILS("missing", 0, PAGE, SLUICE_READ, -ENOENT, "missing", "path");
	MAP_FAILS("missing", 0, PAGE, RW, -ENOENT, "missing", "path");
	CHECK(access("missing", F_OK) != 0);
	MAP_FAILS("no/such/dir/file", 0, PAGE, RW | SLUICE_CREATE, -ENOENT,
		  "no/such/dir/file", "directory");
	fault_space_end(space);
}

static void
directory_is_eisdir(void)
{
	space = fault_space(NULL);
	CHECK(!mkdir("dir", 0755));
	MAP_FAILS("dir", 0, PAGE, SLUICE_READ, -EISDIR, "dir", "give a file");
	MAP_FAILS("dir", 0, PAGE, RW, -EISDIR, "dir", "give a file");
	MAP_FAILS("dir", 0, PAGE, RW | SLUICE_CREATE, -EISDIR, "dir", "give a file");
	fault_space_end(space);
}

static void
what_is_no_file_is_einval(void)
{
	space = fault_space(NULL);
	CHECK(!mkfifo("fifo", 0600));
	MAP_FAILS("fifo", 0, PAGE, SLUICE_READ, -EINVAL, "fifo", "regular file");
	MAP_FAILS("/dev/null", 0, PAGE, SLUICE_READ, -EINVAL, "/dev/null", "regular file");
	MAP_FAILS("", 0, PAGE, SLUICE_READ, -EINVAL, "no path");
	MAP_FAILS(NULL, 0, PAGE, SLUICE_READ, -EINVAL, "no path");
	fault_space_end(space);
}

static void
shorter_file_is_efbig_and_keeps_its_length(void)
{
	struct stat st;

	space = fault_space(NULL);
	fault_file_make("data", 3 * PAGE, 1);
	MAP_FAILS("data", 0, 4 * PAGE, SLUICE_READ, -EFBIG, "data", "12288", "16384",
		  "SLUICE_CREATE");
	MAP_FAILS("data", 2 * PAGE, 2 * PAGE, RW, -EFBIG, "data", "12288", "16384");
	MAP_FAILS("data", 8 * PAGE, PAGE, SLUICE_READ, -EFBIG, "data", "12288");
	CHECK(!stat("data", &st) && st.st_size == 3 * (off_t)PAGE);
	CHECK(fault_file_has("data", 0, 3 * PAGE, 1, 0));
	fault_space_end(space);
}

static void
size_0_of_nothing_is_einval(void)
{
	space = fault_space(NULL);
	fault_file_make("empty", 0, 1);
	fault_file_make("page", PAGE, 1);
	MAP_FAILS("empty", 0, 0, SLUICE_READ, -EINVAL, "empty", "0 bytes");
	MAP_FAILS("page", PAGE, 0, SLUICE_READ, -EINVAL, "page", "4096 bytes");
	MAP_FAILS("fresh", 0, 0, RW | SLUICE_CREATE, -EINVAL, "SLUICE_CREATE", "size");
	CHECK(access("fresh", F_OK) != 0);
	ALLOC_FAILS(0, 0, -EINVAL, "size 0");
	fault_space_end(space);
}

static void
unaligned_offset_is_einval_and_says_the_alignment(void)
{
	space = fault_space(NULL);
	fault_file_make("data", 4 * PAGE, 1);
	MAP_FAILS("data", 1, PAGE, SLUICE_READ, -EINVAL, "data", "offset 1 ",
		  "multiple of 4096");
	MAP_FAILS("data", PAGE + 512, PAGE, SLUICE_READ, -EINVAL, "offset 4608", "4096");
	fault_space_end(space);
}

static void
size_beyond_the_addresses_is_efbig_until_some_are_free(void)
{
	void *most, *addr;

	space = fault_space("address=64M");
	fault_file_make("data", PAGE, 1);
	MAP_FAILS("data", 0, 65 * MIB, RW | SLUICE_CREATE, -EFBIG, "data", "address");
	MAP_FAILS("data", 0, SIZE_MAX, SLUICE_READ, -EFBIG, "data");
	MAP_FAILS("data", (uint64_t)INT64_MAX / PAGE * PAGE, PAGE * 2, SLUICE_READ,
		  -EFBIG, "data");
	MAP_FAILS("data", UINT64_MAX / PAGE * PAGE, PAGE, SLUICE_READ, -EFBIG, "data");
	ALLOC_FAILS(65 * MIB, 0, -EFBIG, "address");
	ALLOC_FAILS(SIZE_MAX, 0, -EFBIG, "address");
	CHECK_OK(sluice_alloc(space, 60 * MIB, 0, &most));
	ALLOC_FAILS(16 * MIB, 0, -EFBIG, "address");
	MAP_FAILS("data", 0, 16 * MIB, RW | SLUICE_CREATE, -EFBIG, "address");
	CHECK_OK(sluice_unmap(space, most));
	CHECK_OK(sluice_alloc(space, 16 * MIB, 0, &addr));
	CHECK_OK(sluice_unmap(space, addr));
	fault_space_end(space);
}

static void
contradicting_flags_are_einval_and_named(void)
{
	void *file, *anonymous;

	space = fault_space(NULL);
	fault_file_make("data", 4 * PAGE, 1);
	MAP_FAILS("data", 0, PAGE, 0, -EINVAL, "SLUICE_READ", "SLUICE_WRITE");
	MAP_FAILS("data", 0, PAGE, SLUICE_NO_READAHEAD, -EINVAL, "SLUICE_READ");
	MAP_FAILS("data", 0, PAGE, SLUICE_READ | SLUICE_CREATE, -EINVAL, "SLUICE_CREATE",
		  "SLUICE_WRITE");
	MAP_FAILS("data", 0, PAGE, SLUICE_READ | SLUICE_VOLATILE, -EINVAL,
		  "SLUICE_VOLATILE", "SLUICE_WRITE");
	MAP_FAILS("data", 0, PAGE, SLUICE_READ | 0x4000, -EINVAL, "0x4000");
	ALLOC_FAILS(PAGE, SLUICE_READ, -EINVAL, "0x1");
	ALLOC_FAILS(PAGE, SLUICE_CREATE | SLUICE_VOLATILE, -EINVAL, "SLUICE_NO_READAHEAD");

	CHECK_OK(sluice_map(space, "data", 0, 0, SLUICE_READ, &file));
	CHECK_OK(sluice_alloc(space, PAGE, 0, &anonymous));
	CHECK_FAILS(sluice_remap(space, file, 0), -EINVAL, "SLUICE_READ");
	CHECK_FAILS(sluice_remap(space, file, SLUICE_READ | SLUICE_VOLATILE), -EINVAL,
		    "SLUICE_VOLATILE");
	CHECK_FAILS(sluice_remap(space, file, RW), -EACCES, "data", "SLUICE_WRITE");
	CHECK_FAILS(sluice_remap(space, anonymous, SLUICE_READ), -EINVAL, "anonymous");
	CHECK_FAILS(sluice_remap(space, (char *)file + PAGE, SLUICE_READ), -ENOENT,
		    "no region");
	CHECK(fault_has(file, 4 * PAGE, 1));
	fault_space_end(space);
}

/* Run as somebody without rights; back to root afterwards. */
static void
rights_drop(void)
{
	if (geteuid() == 0)
		CHECK(!seteuid(65534));
}

static void
rights_take(void)
{
	if (getuid() == 0)
		CHECK(!seteuid(0));
}

static void
no_permission_is_eacces(void)
{
	space = fault_space(NULL);
	CHECK(!chmod(".", 0755));
	fault_file_make("read_only", 4 * PAGE, 1);
	fault_file_make("secret", 4 * PAGE, 1);
	CHECK(!chmod("read_only", 0444) && !chmod("secret", 0));
	CHECK(!mkdir("locked", 0555));
	rights_drop();
	MAP_FAILS("read_only", 0, PAGE, RW, -EACCES, "read_only", "write permission");
	MAP_FAILS("read_only", 0, PAGE, SLUICE_WRITE, -EACCES, "read_only",
		  "write permission");
	MAP_FAILS("secret", 0, PAGE, SLUICE_READ, -EACCES, "secret", "read permission");
	MAP_FAILS("locked/fresh", 0, PAGE, RW | SLUICE_CREATE, -EACCES, "locked/fresh",
		  "permission");
	{
		void *addr;

		CHECK_OK(sluice_map(space, "read_only", 0, 0, SLUICE_READ, &addr));
		CHECK(fault_has(addr, 4 * PAGE, 1));
		CHECK_OK(sluice_unmap(space, addr));
	}
	rights_take();
	fault_space_end(space);
}

static void
read_only_mount_is_eacces_for_writing_only(void)
{
	void *addr;

	fault_mounts_own();
	CHECK(!mkdir("disk", 0755));
	fault_file_make("disk/data", 4 * PAGE, 1);
	if (mount("disk", "disk", NULL, MS_BIND, NULL) ||
	    mount(NULL, "disk", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL))
		fault_skip("a read-only mount: %s", strerror(errno));
	space = fault_space(NULL);
	MAP_FAILS("disk/data", 0, 0, RW, -EACCES, "disk/data", "read-only", "without write");
	MAP_FAILS("disk/fresh", 0, PAGE, RW | SLUICE_CREATE, -EACCES, "disk/fresh",
		  "read-only");
	CHECK_OK(sluice_map(space, "disk/data", 0, 0, SLUICE_READ, &addr));
	CHECK(fault_has(addr, 4 * PAGE, 1));
	CHECK_OK(sluice_unmap(space, addr));
	fault_space_end(space);
}

int
main(int argc, char **argv)
{
	static const struct fault_case cases[] = {
		CASE(missing_file_is_enoent_and_not_created),
		CASE(directory_is_eisdir),
		CASE(what_is_no_file_is_einval),
		CASE(shorter_file_is_efbig_and_keeps_its_length),
		CASE(size_0_of_nothing_is_einval),
		CASE(unaligned_offset_is_einval_and_says_the_alignment),
		CASE(size_beyond_the_addresses_is_efbig_until_some_are_free),
		CASE(contradicting_flags_are_einval_and_named),
		CASE(no_permission_is_eacces),
		CASE(read_only_mount_is_eacces_for_writing_only),
	};

	return fault_main(argc, argv, cases, COUNT_OF(cases));
}
