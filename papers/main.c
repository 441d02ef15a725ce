/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice-papers`: the evaluations of the papers that Sluice unites (papers/README.md). It is built
 * with the tree and not installed. What a command does is in its own file, cmd_NAME.c.
 *
 * Threads: one.
 */
#include "commands.h"
#include "papers.h"

static const struct command commands[] = {
	{"bench", "run a workload of the papers over files and measure it", cmd_bench},
	{"figures", "make the figures of the paper G10 from its traces", cmd_figures},
	{"import", "make a trace of a published input of the paper G10", cmd_import},
	{"plan", "plan a trace's moves, also by the systems that the paper G10 compares",
	 cmd_plan},
	{"suite", "run the evaluations of the papers DRAGON and UVM Discard", cmd_suite},
};

int
main(int argc, char **argv)
{
	static const struct command_program program = {
		.name = "sluice-papers",
		.text = "The evaluations of the papers that Sluice unites.",
		.see = "papers/README.md",
		.commands = commands,
		.n_commands = sizeof(commands) / sizeof(commands[0]),
	};

	return command_main(&program, argc, argv);
}
