/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of `sluice run`: the preload library, the program behind a name, and whether a program
 * accepts LD_PRELOAD at all. The loader is silent when it leaves a library out. So the files are
 * checked before anything is started.
 *
 * The library is not in a directory that the loader searches. Its SONAME is the driver's, and
 * ldconfig would make it the machine's driver. It is found relative to this program, in a build
 * tree or after an installation, or by --library or SLUICE_PRELOAD_LIBRARY.
 *
 * Threads: one.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "run.h"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE
#endif

#define SCRIPTS_MAX 4 /* interpreters that are scripts themselves */

#ifndef SLUICE_LIBDIR
#define SLUICE_LIBDIR "../lib"
#endif

/* Read up to n bytes at offset. How many, or -errno. */
static ssize_t
file_read(const char *path, void *to, size_t n, off_t offset)
{
	SL_CLEANUP(close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = pread(fd, to, n, offset);
	return got < 0 ? -errno : got;
}

/* The header of an ELF file of this machine and word size. 0, -ENOEXEC: an ELF file of another,
 * -EINVAL: no ELF file, -errno. */
static int
elf_read(const char *path, Elf64_Ehdr *header)
{
	ssize_t got;

	memset(header, 0, sizeof(*header));
	got = file_read(path, header, sizeof(*header), 0);
	if (got < 0)
		return (int)got;
	if (got < (ssize_t)EI_NIDENT || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return -EINVAL;
	if (got < (ssize_t)sizeof(*header) || header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_machine != MACHINE)
		return -ENOEXEC;
	return 0;
}

/* ---- the library ---- */

static int
library_check(const char *path)
{
	Elf64_Ehdr header;
	int rc = elf_read(path, &header);

	if (!rc && header.e_type != ET_DYN)
		rc = -EINVAL;
	if (rc == -ENOEXEC)
		return sl_fail(rc,
			       "%s: a library of another architecture: build it for this "
			       "machine",
			       path);
	if (rc == -EINVAL)
		return sl_fail(rc, "%s: not a shared library", path);
	if (rc)
		return sl_fail(rc, "%s: %s", path, strerror(-rc));
	if (strpbrk(path, ": \t\n"))
		return sl_fail(-EINVAL,
			       "%s: LD_PRELOAD cannot hold a path with colons or space: "
			       "put the library elsewhere",
			       path);
	return 0;
}

int
run_library_find(const char *wanted, char path[PATH_MAX])
{
	/* From this program's directory: a build tree, then an installation. */
	static const char *const places[] = {
		"../src/preload/plain/" RUN_LIBRARY, /* beside one with sanitizers */
		"../src/preload/" RUN_LIBRARY,
		SLUICE_LIBDIR "/sluice/" RUN_LIBRARY,
	};
	char self[PATH_MAX], candidate[PATH_MAX];
	ssize_t n;
	char *slash;

	if (!wanted || !*wanted)
		wanted = getenv("SLUICE_PRELOAD_LIBRARY");
	if (wanted && *wanted) {
		if (!realpath(wanted, path))
			return sl_fail(-errno, "%s: %s", wanted, strerror(errno));
		return library_check(path);
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return sl_fail(-errno, "/proc/self/exe: %s", strerror(errno));
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if ((size_t)snprintf(candidate, sizeof(candidate), "%s/%s", self,
				     places[i]) < sizeof(candidate) &&
		    realpath(candidate, path))
			return library_check(path);
	}
	return sl_fail(-ENOENT,
		       "%s is neither in the build tree nor in the installation of %s: "
		       "build it (it needs x86-64), or pass --library FILE",
		       RUN_LIBRARY, self);
}

/* ---- the program ---- */

int
run_program_find(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH");
	int rc = -ENOENT;

	if (!name[0])
		return sl_fail(-ENOENT, "the program's name is empty");
	if (strchr(name, '/')) {
		struct stat st;

		if (stat(name, &st))
			return sl_fail(-errno, "%s: %s", name, strerror(errno));
		if (!S_ISREG(st.st_mode) || access(name, X_OK))
			return sl_fail(-EACCES, "%s: cannot be executed", name);
		snprintf(path, PATH_MAX, "%s", name);
		return 0;
	}
	for (const char *dir = dirs ? dirs : "/bin:/usr/bin"; dir;) {
		size_t chars = strcspn(dir, ":");
		struct stat st;

		if ((size_t)snprintf(path, PATH_MAX, "%.*s%s%s", (int)chars, dir,
				     chars ? "/" : "./", name) < PATH_MAX &&
		    !stat(path, &st) && S_ISREG(st.st_mode)) {
			if (!access(path, X_OK))
				return 0;
			rc = -EACCES;
		}
		dir = dir[chars] ? dir + chars + 1 : NULL;
	}
	return rc == -EACCES
		       ? sl_fail(rc, "%s: found in PATH, but cannot be executed", name)
		       : sl_fail(rc, "%s: not found in PATH", name);
}

/* "#!interpreter argument": the interpreter; 0 when it is no script. env's argument is looked for in
 * PATH, since it is what runs in the end. */
static int
script_interpreter(const char *path, char interpreter[PATH_MAX])
{
	char line[PATH_MAX + 64] = "";
	ssize_t got = file_read(path, line, sizeof(line) - 1, 0);
	char *save = NULL, *word, *base;

	if (got < 3 || line[0] != '#' || line[1] != '!')
		return 0;
	line[got] = '\0';
	line[strcspn(line, "\n")] = '\0';
	word = strtok_r(line + 2, " \t", &save);
	if (!word || strlen(word) >= PATH_MAX)
		return 0;
	snprintf(interpreter, PATH_MAX, "%s", word);
	base = strrchr(word, '/');
	word = base && strcmp(base, "/env") == 0 ? strtok_r(NULL, " \t", &save) : NULL;
	if (word && word[0] != '-' && !strchr(word, '=')) {
		char found[PATH_MAX];

		if (!run_program_find(word, found))
			snprintf(interpreter, PATH_MAX, "%s", found);
	}
	return 1;
}

/* Is the file linked to be loaded by ld.so? */
static int
elf_is_dynamic(const char *path, const Elf64_Ehdr *header)
{
	for (unsigned i = 0; i < header->e_phnum && i < PN_XNUM; i++) {
		Elf64_Phdr segment = {0};
		off_t at = (off_t)header->e_phoff + (off_t)i * header->e_phentsize;

		if (file_read(path, &segment, sizeof(segment), at) != (ssize_t)sizeof(segment))
			return 0;
		if (segment.p_type == PT_INTERP)
			return 1;
	}
	return 0;
}

/* Does execution of the file raise rights, so that the loader drops LD_PRELOAD? */
static int
file_is_secure(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return 0;
	if ((st.st_mode & S_ISUID) && st.st_uid != geteuid())
		return 1;
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid())
		return 1;
	return geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

enum run_loads
run_program_look(const char *path, char file[PATH_MAX])
{
	char interpreter[PATH_MAX];
	Elf64_Ehdr header;
	int rc;

	snprintf(file, PATH_MAX, "%s", path);
	for (int i = 0; i < SCRIPTS_MAX && script_interpreter(file, interpreter); i++)
		memcpy(file, interpreter, sizeof(interpreter));
	rc = elf_read(file, &header);
	if (rc == -ENOEXEC)
		return RUN_LOADS_FOREIGN;
	if (rc == -EACCES)
		return file_is_secure(file) ? RUN_LOADS_SECURE : RUN_LOADS_UNKNOWN;
	if (rc)
		return RUN_LOADS_UNKNOWN;
	if (!elf_is_dynamic(file, &header))
		return RUN_LOADS_STATIC;
	return file_is_secure(file) ? RUN_LOADS_SECURE : RUN_LOADS;
}

char *
run_loads_text(enum run_loads loads, const char *file, char *buf, size_t buf_bytes)
{
	const char *text = "";

	switch (loads) {
	case RUN_LOADS:
	case RUN_LOADS_COUNT:
		buf[0] = '\0';
		return buf;
	case RUN_LOADS_STATIC:
		text = "statically linked: no library can be loaded into it";
		break;
	case RUN_LOADS_SECURE:
		text = "runs with other rights than its caller's (set-uid, set-gid or "
		       "capabilities): the loader drops LD_PRELOAD";
		break;
	case RUN_LOADS_FOREIGN:
		text = "a program of another architecture: the library cannot be loaded "
		       "into it";
		break;
	case RUN_LOADS_UNKNOWN:
		text = "neither an ELF file that can be read nor a script";
		break;
	}
	snprintf(buf, buf_bytes, "%s: %s", file, text);
	return buf;
}
