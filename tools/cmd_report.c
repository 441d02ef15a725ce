/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice report`: where the time of a run went, by its timeline; what binds; what to change.
 *
 * This file reads the command line. report.h says which file does the rest. Threads: one, except in
 * the planner's sweep.
 */
#include <getopt.h>
#include <stdio.h>

#include "commands.h"
#include "report.h"
#include "sluice/sluice.h"

#define COLUMNS_MIN 40

static const char report_help[] =
	"Usage: sluice report FILE [--trace TRACE] [--json] [--html OUT]\n"
	"\n"
	"Say where the time of a run went, what binds it, what cost most, and what to\n"
	"change. FILE is a timeline of `sluice run --timeline`.\n"
	"\n"
	"Options:\n"
	"      --trace FILE  a trace of the same program (`sluice run --record`): also\n"
	"                    say what more and less device memory would give\n"
	"      --json        print one JSON object\n"
	"      --html FILE   also write a page with pictures, without outside resources\n"
	"  -h, --help        print this and exit\n";

struct report_options {
	const char *trace, *html;
	int as_json;
};

#define TO(name) COMMAND_MEMBER(struct report_options, name)

static const struct option long_options[] = {
	{"trace", required_argument, NULL, TO(trace)},
	{"json", no_argument, NULL, TO(as_json)},
	{"html", required_argument, NULL, TO(html)},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int
report_make(struct report *report, const struct report_options *options)
{
	struct timeline_reader *reader;
	int rc = timeline_open(report->path, &reader);

	if (rc)
		return rc;
	rc = report_gather(reader, report);
	timeline_close(reader);
	if (rc)
		return rc;
	report_parts_make(report);
	if (options->trace)
		rc = report_plan_make(report, options->trace);
	if (rc)
		return rc;
	report_advice_make(report);
	return options->html ? report_html_write(report, options->html) : 0;
}

int
cmd_report(int argc, char **argv)
{
	static const struct command_syntax syntax = {"report", ":h", report_help,
						     long_options, NULL};
	struct report_options options = {0};
	struct report report = {0};
	int rc = command_options_read(&syntax, argc, argv, &options);

	if (rc)
		return rc < 0 ? SL_EXIT_OK : rc;
	if (argc - optind != 1)
		return command_usage("report", optind == argc ? "which timeline?"
							      : "one timeline at a time");
	report.path = argv[optind];
	rc = report_make(&report, &options);
	if (!rc && options.as_json)
		report_json_print(&report);
	else if (!rc)
		report_text_print(&report, command_columns(COLUMNS_MIN));
	report_fini(&report);
	return rc ? command_fail("report", "%s", sluice_last_error()) : SL_EXIT_OK;
}
