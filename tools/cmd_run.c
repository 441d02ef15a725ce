/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run PROGRAM`: an unmodified CUDA program, with more memory than its GPU has. It sets
 * the environment (run.h) and becomes the program. No process of Sluice stays: signals, the
 * terminal, resource limits and the exit code are the program's own. The preload library in the
 * program (src/preload) does the work, and reports choices and results.
 *
 * Programs that never use CUDA run unchanged; on a terminal the library says so at their end.
 *
 * Here are the command line and --dry-run.
 *
 * Threads: one.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "json.h"
#include "run.h"

static const char run_help[] =
	"Usage: sluice run [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
	"\n"
	"Run a CUDA program, unmodified, with more memory than its GPU has. Sizes\n"
	"are numbers with K, M, G or T, or auto.\n"
	"\n"
	"Memory:\n"
	"      --device-memory SIZE  of each GPU (default: what is free, less a\n"
	"                            reserve)\n"
	"      --host-memory SIZE    pinned host memory for each GPU (default: most\n"
	"                            of what this process may use)\n"
	"      --store-memory SIZE   spilled to disk for each GPU (default: what is\n"
	"                            free)\n"
	"      --spill-dir DIR       where to; on a disk (repeatable; default:\n"
	"                            TMPDIR, /var/tmp or the current directory)\n"
	"      --compress WHEN       what crosses the link and what is spilled,\n"
	"                            losslessly: never, auto (default: where it\n"
	"                            becomes smaller), always\n"
	"\n"
	"Other programs:\n"
	"      --share N             parts of the GPU's memory and of its time, where\n"
	"                            programs share it and it is short (default: 1)\n"
	"      --turn SECONDS        wait at most so long while programs that do not "
	"fit\n"
	"                            together take turns (default: 20)\n"
	"      --leave SIZE          leave so much of each GPU to programs that do not\n"
	"                            share\n"
	"      --suspended           run nothing on a GPU until `sluice resume`\n"
	"      --alone               do not share GPUs with other programs\n"
	"\n"
	"How it works:\n"
	"      --prefetch HOW        prefetch and evict early, from the previous\n"
	"                            iteration: auto (default: unless that is\n"
	"                            slower), on, off\n"
	"      --kernel-args HOW     which allocations a kernel uses: learn\n"
	"                            (default), all, trust its arguments\n"
	"      --kernel-rules FILE   which allocations named kernels use\n"
	"      --report-memory WHICH memory size that the program is told: virtual,\n"
	"                            physical, auto (default)\n"
	"      --managed WHO         who serves managed memory: driver (default),\n"
	"                            sluice\n"
	"      --vmm-memory WHO      who serves memory that the program maps itself\n"
	"                            (cuMemCreate): auto (default), sluice, all,\n"
	"                            driver\n"
	"      --baseline NAME       for comparison: naive (zero-copy only), opt\n"
	"                            (the paper OC-DNN), off (pass every call on)\n"
	"      --set KEY=VALUE       a setting of sluice(7) (repeatable)\n"
	"      --keep-frameworks     set nothing for frameworks\n"
	"      --no-framework NAME   set nothing for this one (repeatable): pytorch,\n"
	"                            expandable-segments, jax, tensorflow\n"
	"\n"
	"What is said:\n"
	"      --explain             at exit, which kernels missed and how often\n"
	"      --stats FILE          at exit, counters as JSON; %p in FILE is the\n"
	"                            process\n"
	"      --record FILE         a trace of the run, for `sluice plan`; %p in FILE "
	"is\n"
	"                            the process\n"
	"      --record-launches N   of that many launches at most (default 262144)\n"
	"      --timeline FILE       what happens when, as trace events for Perfetto;\n"
	"                            %p in FILE is the process\n"
	"      --timeline-size SIZE  of FILE at most (default 256M)\n"
	"      --quiet               errors alone\n"
	"      --verbose             also how the driver was reached, and unknown\n"
	"                            functions\n"
	"      --dry-run             say what would be set and why; run nothing\n"
	"      --json                the same as one JSON object\n"
	"      --library FILE        the preload library, in place of the one found\n"
	"  -h, --help                print this and exit\n"
	"\n"
	"Exit codes: the program's; 125 failed before it ran, 126 it cannot be\n"
	"executed, 127 it was not found.\n";

struct command_line {
	struct run_options options;
	int dry_run, json;
};

enum option_id { OPTION_SPILL = 256, OPTION_SET, OPTION_NO_FRAMEWORK, OPTION_NO_FOLLOW };

#define LINE(name) COMMAND_MEMBER(struct command_line, name)

static const struct option option_table[] = {
	{"device-memory", required_argument, NULL, LINE(options.device_memory)},
	{"host-memory", required_argument, NULL, LINE(options.host_memory)},
	{"store-memory", required_argument, NULL, LINE(options.store_memory)},
	{"spill-dir", required_argument, NULL, OPTION_SPILL},
	{"compress", required_argument, NULL, LINE(options.compress)},
	{"alone", no_argument, NULL, LINE(options.alone)},
	{"leave", required_argument, NULL, LINE(options.leave)},
	{"share", required_argument, NULL, LINE(options.share)},
	{"turn", required_argument, NULL, LINE(options.turn)},
	{"suspended", no_argument, NULL, LINE(options.suspended)},
	{"prefetch", required_argument, NULL, LINE(options.prefetch)},
	{"kernel-args", required_argument, NULL, LINE(options.kernel_args)},
	{"kernel-rules", required_argument, NULL, LINE(options.kernel_rules)},
	{"report-memory", required_argument, NULL, LINE(options.report_memory)},
	{"managed", required_argument, NULL, LINE(options.managed)},
	{"vmm-memory", required_argument, NULL, LINE(options.vmm_memory)},
	{"baseline", required_argument, NULL, LINE(options.baseline)},
	{"set", required_argument, NULL, OPTION_SET},
	{"keep-frameworks", no_argument, NULL, LINE(options.keep_frameworks)},
	{"no-framework", required_argument, NULL, OPTION_NO_FRAMEWORK},
	{"explain", no_argument, NULL, LINE(options.explain)},
	{"stats", required_argument, NULL, LINE(options.stats)},
	{"record", required_argument, NULL, LINE(options.record)},
	{"record-launches", required_argument, NULL, LINE(options.record_launches)},
	{"timeline", required_argument, NULL, LINE(options.timeline)},
	{"timeline-size", required_argument, NULL, LINE(options.timeline_size)},
	{"quiet", no_argument, NULL, LINE(options.quiet)},
	{"verbose", no_argument, NULL, LINE(options.verbose)},
	{"dry-run", no_argument, NULL, LINE(dry_run)},
	{"json", no_argument, NULL, LINE(json)},
	{"library", required_argument, NULL, LINE(options.library)},
	{"help", no_argument, NULL, 'h'},
	/* Earlier names: they go on working, undocumented. */
	{"mode", required_argument, NULL, LINE(options.baseline)},
	{"arguments", required_argument, NULL, LINE(options.kernel_args)},
	{"meminfo", required_argument, NULL, LINE(options.report_memory)},
	{"mapped", required_argument, NULL, LINE(options.vmm_memory)},
	{"follow", required_argument, NULL, LINE(options.prefetch)},
	{"no-follow", no_argument, NULL, OPTION_NO_FOLLOW},
	{"policies", required_argument, NULL, LINE(options.kernel_rules)},
	{NULL, 0, NULL, 0},
};

/* A wrong command line: the form of all commands, the exit code of this one. */
#define run_usage(...) (command_usage("run", __VA_ARGS__), RUN_EXIT_FAILED)

/* A value that may be given several times. 0, or an exit code. */
static int
list_add(const char **list, size_t *n, size_t max, const char *option, const char *value)
{
	if (*n == max)
		return run_usage("more than %zu times %s", max, option);
	list[(*n)++] = value;
	return 0;
}

static int
option_take(const struct option *option, void *into)
{
	struct run_options *o = &((struct command_line *)into)->options;

	switch (option->val) {
	case OPTION_SPILL:
		return list_add(o->spill_dirs, &o->spill_dir_n, RUN_DIRS_MAX,
				"--spill-dir", optarg);
	case OPTION_SET:
		return list_add(o->sets, &o->set_n, RUN_SETS_MAX, "--set", optarg);
	case OPTION_NO_FRAMEWORK:
		return list_add(o->refused, &o->refused_n, RUN_SETS_MAX, "--no-framework",
				optarg);
	default: /* OPTION_NO_FOLLOW */
		o->prefetch = "off";
		return 0;
	}
}

/* 0; -1: help was printed; or the exit code after what is wrong was said. */
static int
command_line_read(struct command_line *line, int argc, char **argv)
{
	/* '+': the first word that is no option is the program. */
	static const struct command_syntax syntax = {"run", "+:h", run_help, option_table,
						     option_take};
	int rc = command_options_read(&syntax, argc, argv, line);

	if (rc)
		return rc < 0 ? rc : RUN_EXIT_FAILED;
	if (line->options.quiet && line->options.verbose)
		return run_usage("--quiet and --verbose together");
	if (line->options.alone && (line->options.leave || line->options.share ||
				    line->options.suspended || line->options.turn))
		return run_usage(
			"--alone goes without --leave, --share, --suspended and --turn");
	if (line->json && !line->dry_run)
		return run_usage(
			"--json goes with --dry-run; --stats FILE writes what was done");
	if (optind == argc)
		return run_usage("no program to run");
	return 0;
}

/* ---- --dry-run ---- */

static void
print_lines(const struct run_plan *plan, const char *program, const char *problem)
{
	printf("program  %s\n", program);
	if (problem[0])
		printf("         %s\n", problem);
	printf("library  %s\n\n", plan->library);
	for (size_t i = 0; i < plan->variable_n; i++)
		printf("%s=%s\n         %s\n", plan->variables[i].name,
		       plan->variables[i].value, plan->variables[i].why);
	if (plan->note_n)
		putchar('\n');
	for (size_t i = 0; i < plan->note_n; i++)
		printf("%s\n", plan->notes[i]);
	printf("\nWhat is not set here is chosen when the program first allocates: most "
	       "of the "
	       "device\nmemory that is free then, and of the host memory that this "
	       "process "
	       "may use.\n");
}

static void
print_json(const struct run_plan *plan, const char *program, const char *problem)
{
	struct json json;

	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "program", program);
	json_string(&json, "problem", problem[0] ? problem : NULL);
	json_string(&json, "library", plan->library);
	json_array(&json, "environment");
	for (size_t i = 0; i < plan->variable_n; i++) {
		json_object(&json, NULL);
		json_string(&json, "name", plan->variables[i].name);
		json_string(&json, "value", plan->variables[i].value);
		json_string(&json, "why", plan->variables[i].why);
		json_close(&json);
	}
	json_close(&json);
	json_array(&json, "notes");
	for (size_t i = 0; i < plan->note_n; i++)
		json_string(&json, NULL, plan->notes[i]);
	json_close(&json);
	(void)json_end(&json); /* main() looks at stdout */
}

/* ---- the run ---- */

/* An old file would look like this run's. */
static void
file_remove(const char *path)
{
	if (path && !strstr(path, "%p"))
		(void)unlink(path);
}

static int
program_run(const struct command_line *line, const struct run_plan *plan, char **argv)
{
	int error;

	if (!line->options.quiet)
		for (size_t i = 0; i < plan->note_n; i++)
			fprintf(stderr, "sluice: %s\n", plan->notes[i]);
	if (run_plan_apply(plan)) {
		(void)command_fail("run", "%s", sluice_last_error());
		return RUN_EXIT_FAILED;
	}
	file_remove(line->options.stats);
	file_remove(line->options.record);
	file_remove(line->options.timeline);
	fflush(NULL);
	execvp(argv[0], argv);
	error = errno;
	(void)command_fail("run", "%s: %s", argv[0], strerror(error));
	return error == ENOENT ? RUN_EXIT_NOT_FOUND : RUN_EXIT_REFUSED;
}

int
cmd_run(int argc, char **argv)
{
	struct command_line line = {0};
	struct run_plan plan = {0};
	char program[PATH_MAX], file[PATH_MAX], problem[PATH_MAX + 160] = "";
	enum run_loads loads;
	int rc = command_line_read(&line, argc, argv);

	if (rc)
		return rc < 0 ? SL_EXIT_OK : rc;
	rc = run_plan_make(&plan, &line.options);
	if (rc) {
		(void)command_fail("run", "%s", sluice_last_error());
		run_plan_fini(&plan);
		return RUN_EXIT_FAILED;
	}
	rc = run_program_find(argv[optind], program);
	if (rc) {
		(void)command_fail("run", "%s", sluice_last_error());
		run_plan_fini(&plan);
		return rc == -ENOENT || rc == -ENOTDIR ? RUN_EXIT_NOT_FOUND
						       : RUN_EXIT_REFUSED;
	}
	loads = run_program_look(program, file);
	if (loads != RUN_LOADS_UNKNOWN) /* the shell may know what to do with it */
		(void)run_loads_text(loads, file, problem, sizeof(problem));
	if (line.dry_run) {
		if (line.json)
			print_json(&plan, program, problem);
		else
			print_lines(&plan, program, problem);
		rc = SL_EXIT_OK;
	} else {
		if (problem[0] && !line.options.quiet)
			run_note(&plan, "%s; it runs as without sluice", problem);
		rc = program_run(&line, &plan, argv + optind);
	}
	run_plan_fini(&plan);
	return rc;
}
