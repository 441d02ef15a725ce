/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios of the preload library's tests: see scenario.h. */
#include "scenario.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/sluice-scenario-XXXXXX";
static int failed;

void
scenario_open(void)
{
	if (!mkdtemp(folder)) {
		perror(folder);
		exit(1);
	}
}

void
scenario_path(char path[64], const char *name)
{
	snprintf(path, 64, "%s/%s", folder, name);
}

int
scenario(const char *name, int (*run)(void), const char *settings)
{
	char path[64], text[256];
	int status;
	pid_t child;

	scenario_path(path, name);
	snprintf(text, sizeof(text), "quiet=1,stats=%s,%s", path, settings);
	fflush(stdout);
	child = fork();
	if (!child) {
		setenv("SLUICE_RUN", text, 1);
		exit(run());
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		exit(1);
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	printf("%s: %s\n", name, status == 77 ? "skipped" : status ? "failed" : "ok");
	failed |= status && status != 77;
	return status;
}

uint64_t
scenario_number(const char *name, const char *after, const char *member)
{
	static char text[1 << 16];
	char path[64], key[64];
	const char *at = NULL;
	size_t n = 0;
	FILE *f;

	scenario_path(path, name);
	f = fopen(path, "r");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		(void)fclose(f);
	}
	text[n] = '\0';
	at = strstr(text, after);
	snprintf(key, sizeof(key), "\"%s\": ", member);
	at = at ? strstr(at, key) : NULL;
	if (!at) {
		printf("%s: no %s of %s\n", name, member, after);
		exit(1);
	}
	at += strlen(key);
	return !strncmp(at, "true", 4) ? 1 : strtoull(at, NULL, 10);
}

void
scenario_expect(const char *name, const char *after, const char *member, uint64_t least,
		uint64_t most)
{
	uint64_t n = scenario_number(name, after, member);

	if (n >= least && n <= most)
		return;
	printf("%s: %s of %s is %" PRIu64 ", not %" PRIu64 " to %" PRIu64 "\n", name,
	       member, after, n, least, most);
	failed = 1;
}

int
scenario_close(void)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		(void)unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		(void)closedir(dir);
	(void)rmdir(folder);
	return failed;
}
