/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of commands: `PROGRAM COMMAND [ARGUMENTS]` finds the command and hands over.
 *
 * Holds `PROGRAM help`, `--help` and `--version`, and the functions by which commands report a wrong
 * command line or a failure in one form (commands.h). The table of commands is the program's own
 * (main.c); the --help text of a command is in the command's file.
 *
 * A mistyped command or option is answered with the nearest one and exit code 2; nothing is
 * guessed and run. Threads: one.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/nearest.h"
#include "commands.h"
#include "sluice/sluice.h"

static const struct command_program *program; /* set by command_main() */

/* What other tools call our options. Suggested where the command has the option. */
static const struct {
	const char *word, *option;
} other_words[] = {
	{"gpu", "device-memory"},  {"gpu-memory", "device-memory"},
	{"vram", "device-memory"}, {"cpu-memory", "host-memory"},
	{"ram", "host-memory"},    {"disk", "store-memory"},
	{"nvme", "store-memory"},
};

static void
main_help(FILE *to)
{
	fprintf(to,
		"Usage: %s COMMAND [ARGUMENTS]\n"
		"       %s help COMMAND\n"
		"\n"
		"%s\n"
		"\n"
		"Commands:\n",
		program->name, program->name, program->text);
	for (size_t i = 0; i < program->n_commands; i++)
		fprintf(to, "  %-10s%s\n", program->commands[i].name,
			program->commands[i].text);
	fprintf(to,
		"\n"
		"Options:\n"
		"  -h, --help     print this and exit\n"
		"  -V, --version  print the version and exit\n"
		"\n"
		"Exit codes: 0 done, 1 failed, 2 wrong command line. See %s.\n",
		program->see);
}

const char *
command_program_name(void)
{
	return program->name;
}

void
command_signals_catch(void (*note)(int number))
{
	struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESETHAND | SA_RESTART};

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

int
command_usage(const char *command, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "%s%s%s: ", program->name, command ? " " : "",
		command ? command : "");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\nTry '%s %s%s--help'.\n", program->name, command ? command : "",
		command ? " " : "");
	return SL_EXIT_USAGE;
}

/* The known option that was meant by name: a slip, or another tool's word. NULL: none. */
static const char *
option_meant(const char *name, const struct option *table, struct sl_nearest *nearest)
{
	const char *known = name;

	for (size_t i = 0; i < sizeof(other_words) / sizeof(other_words[0]); i++)
		if (strcmp(name, other_words[i].word) == 0)
			known = other_words[i].option;
	nearest->word = name;
	for (; table->name; table++) {
		if (strcmp(table->name, known) == 0)
			return table->name;
		sl_nearest_offer(nearest, table->name);
	}
	return sl_nearest_name(nearest);
}

int
command_bad_option(const char *command, const struct option *table, int c, char **argv)
{
	const char *word = argv[optind - 1], *meant = NULL;
	struct sl_nearest nearest = {0};
	char name[64];

	if (c == ':')
		return command_usage(command, "option '%s' needs a value", word);
	/* A value given to an option that takes none leaves its number in optopt. */
	if (optopt && strncmp(word, "--", 2) == 0)
		return command_usage(command, "option '%s' takes no value", word);
	if (optopt && optopt < 128)
		return command_usage(command, "unknown option '-%c'", optopt);
	if (strncmp(word, "--", 2) == 0) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
		meant = option_meant(name, table, &nearest);
	}
	if (meant)
		return command_usage(command, "unknown option '%s'; did you mean '--%s'?",
				     word, meant);
	return command_usage(command, "unknown option '%s'", word);
}

int
command_options_read(const struct command_syntax *syntax, int argc, char **argv, void *into)
{
	int c, rc = 0;

	opterr = 0;
	optind = 0;
	while (!rc &&
	       (c = getopt_long(argc, argv, syntax->letters, syntax->options, NULL)) != -1) {
		const struct option *option = syntax->options;
		char *member = (char *)into + (c - COMMAND_MEMBERS);

		while (option->name && option->val != c)
			option++;
		if (c == '?' || c == ':') {
			rc = command_bad_option(syntax->name, syntax->options, c, argv);
		} else if (c == 'h' && syntax->help) {
			fputs(syntax->help, stdout);
			rc = -1;
		} else if (c < COMMAND_MEMBERS) {
			rc = syntax->take(option, into);
		} else if (option->has_arg) {
			memcpy(member, &optarg, sizeof(optarg));
		} else {
			*(int *)(void *)member = 1;
		}
	}
	return rc;
}

int
command_fail(const char *command, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "%s %s: ", program->name, command);
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

static const struct command *
command_find(const char *name)
{
	for (size_t i = 0; i < program->n_commands; i++)
		if (strcmp(program->commands[i].name, name) == 0)
			return &program->commands[i];
	return NULL;
}

static int
command_unknown(const char *name)
{
	struct sl_nearest nearest = {.word = name};

	for (size_t i = 0; i < program->n_commands; i++)
		sl_nearest_offer(&nearest, program->commands[i].name);
	if (sl_nearest_name(&nearest))
		return command_usage(NULL, "no command '%s'; did you mean '%s'?", name,
				     sl_nearest_name(&nearest));
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
		printf("%s %s\n", program->name, sluice_version());
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
command_main(const struct command_program *which, int argc, char **argv)
{
	int rc;

	program = which;
	rc = main_run(argc, argv);

	/* A result that did not reach its reader (full disk, closed pipe) is not a success. */
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "%s: writing the output: %s\n", program->name,
			strerror(errno));
		if (rc == SL_EXIT_OK)
			rc = SL_EXIT_FAILED;
	}
	return rc;
}

int
command_columns(int least)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return 80;
	return size.ws_col < least ? least : size.ws_col;
}
