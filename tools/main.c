/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice`: its table of commands. What a command does is in its own file, cmd_NAME.c.
 *
 * Threads: one.
 */
#include "commands.h"

static const struct command commands[] = {
	{"bench", "run a workload over files and measure it", cmd_bench},
	{"demo", "show two programs working on files larger than memory", cmd_demo},
	{"doctor", "say what works on this machine, and why not", cmd_doctor},
	{"limit", "limit the memory of a GPU that a live program gets", cmd_limit},
	{"plan", "plan a trace's moves for a machine, and say what that gives", cmd_plan},
	{"ps", "show the programs that share a GPU, and what each has", cmd_ps},
	{"report", "say where the time of a run went, and what to change", cmd_report},
	{"resume", "let a suspended program go on", cmd_resume},
	{"run", "run a CUDA program with more memory than its GPU has", cmd_run},
	{"stat", "show where a live process's data are and what moved", cmd_stat},
	{"suspend", "have a live program give back the memory of its GPUs", cmd_suspend},
	{"top", "show all programs under Sluice, and what they move a second", cmd_top},
	{"trace", "make, show, check and describe traces of launches", cmd_trace},
	{"version", "print the version", cmd_version},
};

int
main(int argc, char **argv)
{
	static const struct command_program program = {
		.name = "sluice",
		.text = "One memory space over device memory, host memory and NVMe.",
		.see = "sluice(1), sluice(7)",
		.commands = commands,
		.n_commands = sizeof(commands) / sizeof(commands[0]),
	};

	return command_main(&program, argc, argv);
}
