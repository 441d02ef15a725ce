/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the commands of a program: entry points, exit codes, and the one form for a wrong
 * command line.
 *
 * A command is a function cmd_NAME(argc, argv) in a file cmd_NAME.c with argv[0] = "NAME". It
 * returns an exit code, prints results to stdout and everything else to stderr, and answers
 * --help by itself. A program (tools/main.c, papers/main.c) is a table of commands.
 *
 * Threads: commands run on the main thread.
 */
#ifndef SL_TOOLS_COMMANDS_H
#define SL_TOOLS_COMMANDS_H

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Exit codes; 125 to 127 are kept for a command that runs other programs. */
enum {
	SL_EXIT_OK = 0,     /* done */
	SL_EXIT_FAILED = 1, /* could not be done; stderr says why */
	SL_EXIT_USAGE = 2   /* the command line is wrong; nothing was done */
};

struct command {
	const char *name;
	const char *text; /* a line of --help */
	int (*run)(int argc, char **argv);
};

struct command_program {
	const char *name;
	const char *text; /* what it is, of --help */
	const char *see;  /* where more is said */
	const struct command *commands;
	size_t n_commands;
};

/* The whole of main(): runs the command that argv[1] names. Returns the exit code. */
int command_main(const struct command_program *program, int argc, char **argv);

/* Of the program that runs. */
const char *command_program_name(void);

/* Call note on the first SIGINT, SIGTERM or SIGHUP, so that work can end in order; a second one ends the
 * process. */
void command_signals_catch(void (*note)(int number));

int cmd_bench(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_limit(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_resume(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_suspend(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_version(int argc, char **argv);

/*
 * "PROGRAM COMMAND: text" and where to look, on stderr. command: its name, or NULL for the
 * program itself. Returns SL_EXIT_USAGE.
 */
int command_usage(const char *command, const char *fmt, ...) SL_PRINTF(2, 3);

/* The options of a command. */
struct command_syntax {
	const char *name, *letters; /* as getopt_long() takes them; ':' comes first */
	const char *help;           /* NULL: take() prints it */
	const struct option *options;
	/* Each option that has no member, its value in optarg. 0, or the exit code; NULL: none. */
	int (*take)(const struct option *option, void *into);
};

/* The val of an option: its text goes to this member, or 1 to an int if it takes no value. */
#define COMMAND_MEMBERS            0x10000
#define COMMAND_MEMBER(type, name) (COMMAND_MEMBERS + (int)offsetof(type, name))

/* Read all options into *into. 0: go on at optind; -1: help was printed; else the exit code. */
int command_options_read(const struct command_syntax *syntax, int argc, char **argv,
			 void *into) SL_MUST_CHECK;

/*
 * For getopt_long() with opterr = 0 and a short option string that starts with ':': report what
 * it answered with c = '?' (unknown option) or ':' (value missing), and the option of table that
 * was probably meant. table: the one that getopt_long() was given. Returns SL_EXIT_USAGE.
 */
int command_bad_option(const char *command, const struct option *table, int c, char **argv);

/* "PROGRAM COMMAND: text" on stderr. Returns SL_EXIT_FAILED. */
int command_fail(const char *command, const char *fmt, ...) SL_PRINTF(2, 3);

/*
 * A whole number from text within [min, max]. 0, or -EINVAL with *out untouched. Nothing is
 * printed.
 */
int command_number(const char *text, uint64_t min, uint64_t max, uint64_t *out) SL_MUST_CHECK;

/* The columns of standard output, at least so many; 80 if it is no terminal or does not say. */
int command_columns(int least);

#endif
