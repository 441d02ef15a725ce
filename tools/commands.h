/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of `sluice` share: their entry points, exit codes, and the one form in which
 * a wrong command line is reported.
 *
 * A command is a function cmd_NAME(argc, argv) in tools/cmd_NAME.c with argv[0] = "NAME". It
 * returns an exit code, prints results to stdout and everything else to stderr, and answers
 * --help by itself. tools/main.c holds the table of commands and nothing else of theirs.
 *
 * Threads: commands run on the main thread.
 */
#ifndef SL_TOOLS_COMMANDS_H
#define SL_TOOLS_COMMANDS_H

#include <getopt.h>
#include <stdint.h>

#include "base/error.h"

/* Exit codes; 125 to 127 are kept for a command that runs other programs. */
enum {
	SL_EXIT_OK = 0,     /* done */
	SL_EXIT_FAILED = 1, /* could not be done; stderr says why */
	SL_EXIT_USAGE = 2   /* the command line is wrong; nothing was done */
};

int cmd_bench(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_figures(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_version(int argc, char **argv);

/*
 * "sluice COMMAND: text" and where to look, on stderr. command: its name, or NULL for sluice
 * itself. Returns SL_EXIT_USAGE.
 */
int command_usage(const char *command, const char *fmt, ...) SL_PRINTF(2, 3);

/*
 * For getopt_long() with opterr = 0 and a short option string that starts with ':': report what
 * it answered with c = '?' (unknown option) or ':' (value missing), and the option of table that
 * was probably meant. table: the one that getopt_long() was given. Returns SL_EXIT_USAGE.
 */
int command_bad_option(const char *command, const struct option *table, int c, char **argv);

/* "sluice COMMAND: text" on stderr. Returns SL_EXIT_FAILED. */
int command_fail(const char *command, const char *fmt, ...) SL_PRINTF(2, 3);

/*
 * A whole number from text within [min, max]. 0, or -EINVAL with *out untouched. Nothing is
 * printed.
 */
int command_number(const char *text, uint64_t min, uint64_t max, uint64_t *out) SL_MUST_CHECK;

#endif
