/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice COMMAND [ARGUMENTS]`: finds the command and hands over.
 *
 * Holds the table of commands, `sluice help`, `--help` and `--version`, and the few functions by
 * which commands report a wrong command line or a failure in one form (commands.h). What a
 * command does is in its own file, cmd_NAME.c, including its --help text.
 *
 * A mistyped command is answered with the nearest one and exit code 2; nothing is guessed and
 * run. Threads: one.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "sluice/sluice.h"

struct command {
	const char *name;
	const char *text;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
	{"bench", "run a workload over files and measure it", cmd_bench},
	{"demo", "show two programs working on files larger than memory", cmd_demo},
	{"doctor", "say what works on this machine, and why not", cmd_doctor},
	{"figures", "make the figures of the paper G10 from its traces", cmd_figures},
	{"plan", "plan a trace's moves for a machine, and say what that gives", cmd_plan},
	{"run", "run a CUDA program with more memory than its GPU has", cmd_run},
	{"stat", "show where a live process's data are and what moved", cmd_stat},
	{"trace", "make, show, check and describe traces of launches", cmd_trace},
	{"version", "print the version", cmd_version},
};

#define COMMAND_N      (sizeof(commands) / sizeof(commands[0]))
#define NAME_MAX_CHARS 31 /* longer words are not compared with the commands */

static void
main_help(FILE *to)
{
	fputs("Usage: sluice COMMAND [ARGUMENTS]\n"
	      "       sluice help COMMAND\n"
	      "\n"
	      "One memory space over device memory, host memory and NVMe.\n"
	      "\n"
	      "Commands:\n",
	      to);
	for (size_t i = 0; i < COMMAND_N; i++)
		fprintf(to, "  %-10s%s\n", commands[i].name, commands[i].text);
	fputs("\n"
	      "Options:\n"
	      "  -h, --help     print this and exit\n"
	      "  -V, --version  print the version and exit\n"
	      "\n"
	      "Exit codes: 0 done, 1 failed, 2 wrong command line. See sluice(1), "
	      "sluice(7).\n",
	      to);
}

int
command_usage(const char *command, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "sluice%s%s: ", command ? " " : "", command ? command : "");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\nTry 'sluice %s%s--help'.\n", command ? command : "",
		command ? " " : "");
	return SL_EXIT_USAGE;
}

int
command_bad_option(const char *command, int c, char **argv)
{
	const char *word = argv[optind - 1];

	if (c == ':')
		return command_usage(command, "option '%s' needs a value", word);
	/* A value given to an option that takes none leaves its number in optopt. */
	if (optopt && strncmp(word, "--", 2) == 0)
		return command_usage(command, "option '%s' takes no value", word);
	if (optopt && optopt < 128)
		return command_usage(command, "unknown option '-%c'", optopt);
	return command_usage(command, "unknown option '%s'", word);
}

int
command_fail(const char *command, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "sluice %s: ", command);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	return SL_EXIT_FAILED;
}

int
command_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t value;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || value < min || value > max)
		return -EINVAL;
	*out = value;
	return 0;
}

/* Letters to insert, drop, change or swap with a neighbour to make one word of the other. */
static size_t
word_distance(const char *a, const char *b)
{
	size_t row[3][NAME_MAX_CHARS + 1];
	size_t a_chars = strlen(a), b_chars = strlen(b);

	if (a_chars > NAME_MAX_CHARS || b_chars > NAME_MAX_CHARS)
		return NAME_MAX_CHARS;
	for (size_t j = 0; j <= b_chars; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= a_chars; i++) {
		size_t *now = row[i % 3], *above = row[(i + 2) % 3],
		       *above2 = row[(i + 1) % 3];

		now[0] = i;
		for (size_t j = 1; j <= b_chars; j++) {
			size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);

			if (above[j] + 1 < best)
				best = above[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best)
				best = above2[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[a_chars % 3][b_chars];
}

static const struct command *
command_find(const char *name)
{
	for (size_t i = 0; i < COMMAND_N; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static int
command_unknown(const char *name)
{
	const struct command *nearest = NULL;
	size_t nearest_distance = NAME_MAX_CHARS;

	for (size_t i = 0; i < COMMAND_N; i++) {
		size_t distance = word_distance(name, commands[i].name);

		if (distance < nearest_distance) {
			nearest_distance = distance;
			nearest = &commands[i];
		}
	}
	/* Half the letters wrong is another word, not a slip. */
	if (nearest && nearest_distance * 2 <= strlen(nearest->name))
		return command_usage(NULL, "no command '%s'; did you mean '%s'?", name,
				     nearest->name);
	return command_usage(NULL, "no command '%s'", name);
}

static int
main_help_command(int argc, char **argv)
{
	static char option[] = "--help";
	const struct command *command;
	char *help_argv[3];

	if (argc < 2) {
		main_help(stdout);
		return SL_EXIT_OK;
	}
	if (argc > 2)
		return command_usage(NULL, "help takes one command");
	command = command_find(argv[1]);
	if (!command)
		return command_unknown(argv[1]);
	help_argv[0] = argv[1];
	help_argv[1] = option;
	help_argv[2] = NULL;
	return command->run(2, help_argv);
}

static int
main_run(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2) {
		main_help(stderr);
		return SL_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		main_help(stdout);
		return SL_EXIT_OK;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		printf("sluice %s\n", sluice_version());
		return SL_EXIT_OK;
	}
	if (argv[1][0] == '-')
		return command_usage(NULL, "unknown option '%s'", argv[1]);
	if (strcmp(argv[1], "help") == 0)
		return main_help_command(argc - 1, argv + 1);
	command = command_find(argv[1]);
	if (!command)
		return command_unknown(argv[1]);
	return command->run(argc - 1, argv + 1);
}

int
main(int argc, char **argv)
{
	int rc = main_run(argc, argv);

	/* A result that did not reach its reader (full disk, closed pipe) is not a success. */
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "sluice: writing the output: %s\n", strerror(errno));
		if (rc == SL_EXIT_OK)
			rc = SL_EXIT_FAILED;
	}
	return rc;
}
