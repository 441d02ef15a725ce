/* SPDX-License-Identifier: Apache-2.0 */
/* See common.h. */
#include "stress/common.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct stress stress;

#if defined(__SANITIZE_THREAD__)
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

/* Faults of managed memory are served in signal handlers, which allocate: a touch of managed memory never
 * interrupts malloc(), which does not use any. */
const char *
__tsan_default_options(void)
{
	return "report_signal_unsafe=0";
}
#endif

#define PRINTED_MAX  10
#define SEED_DEFAULT 20261122u

void
stress_fail(const char *file, int line, const char *fmt, ...)
{
	int n = atomic_fetch_add(&stress.failures, 1);
	char text[1024];
	va_list ap;

	atomic_store(&stress.stop, 1);
	if (n >= PRINTED_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	printf("FAIL %s:%d [%s] %s (last error: %s)\n", file, line, stress.config, text,
	       sluice_last_error());
	fflush(stdout);
}

void
stress_begin(int argc, char **argv, double seconds)
{
	const char *seed = argc > 1 ? argv[1] : getenv("SEED");
	char cwd[256];

	if (seed && strcmp(seed, "random") == 0)
		stress.seed = sl_now_ns() ^ (uint64_t)getpid();
	else
		stress.seed = seed && *seed ? strtoull(seed, NULL, 0) : SEED_DEFAULT;
	stress.run_ns = (uint64_t)((argc > 2 ? atof(argv[2]) : seconds) * 1e9);
	stress.filter = argc > 3 ? argv[3] : "";
	printf("seed %llu\n", (unsigned long long)stress.seed);
	fflush(stdout);
	if (!getcwd(cwd, sizeof(cwd)))
		strcpy(cwd, "/var/tmp");
	snprintf(stress.dir, sizeof(stress.dir), "%s/stress.XXXXXX", cwd);
	if (!mkdtemp(stress.dir)) {
		printf("cannot make a directory in %s: %s\n", cwd, strerror(errno));
		exit(1);
	}
}

int
stress_end(void)
{
	DIR *dir = opendir(stress.dir);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
	rmdir(stress.dir);
	printf("%s: %d failures\n", stress.failures ? "FAIL" : "pass", stress.failures);
	return stress.failures ? 1 : 0;
}

int
stress_wants(const char *config)
{
	if (!strstr(config, stress.filter))
		return 0;
	snprintf(stress.config, sizeof(stress.config), "%s", config);
	printf("%s\n", config);
	fflush(stdout);
	return 1;
}

struct sluice_space *
stress_space(const char *text)
{
	static const char copy[] = ",move=copy";
	const char *at = strstr(text, copy);
	struct sluice_config config;
	struct sluice_space *space;
	char rest[512];
	int rc;

	if (at) {
		snprintf(rest, sizeof(rest), "%.*s%s", (int)(at - text), text,
			 at + sizeof(copy) - 1);
		setenv("SLUICE_SOFT_MOVE", "copy", 1);
	} else {
		snprintf(rest, sizeof(rest), "%s", text);
		unsetenv("SLUICE_SOFT_MOVE");
	}
	atomic_store(&stress.stop, stress.failures != 0);
	rc = sluice_config_init(&config);
	if (!rc) {
		config.address_bytes = (uint64_t)1 << 32;
		snprintf(config.spill_dirs, sizeof(config.spill_dirs), "%s", stress.dir);
		rc = sluice_config_parse(&config, rest);
	}
	if (!rc)
		rc = sluice_space_create(&config, &space);
	if (!rc)
		return space;
	printf("%s: %s: %s\n", rc == -EPERM || rc == -ENOTSUP ? "skip" : "FAIL", text,
	       sluice_last_error());
	rmdir(stress.dir);
	exit(rc == -EPERM || rc == -ENOTSUP ? 77 : 1);
}

void
stress_space_end(struct sluice_space *space)
{
	OK(sluice_space_check(space));
	OK(sluice_space_destroy(space));
}

void
stress_sleep_until(uint64_t end_ns)
{
	while (!atomic_load(&stress.stop)) {
		uint64_t now_ns = sl_now_ns();
		struct timespec pause = {0};

		if (now_ns >= end_ns)
			return;
		pause.tv_nsec = end_ns - now_ns < 20000000 ? (long)(end_ns - now_ns)
							   : 20000000;
		nanosleep(&pause, NULL);
	}
}
