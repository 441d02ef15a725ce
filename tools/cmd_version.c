/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice version`: the version of the tool and of the library linked into it, as a line for
 * people or as a JSON object for scripts.
 *
 * Nothing is read or started here; `sluice doctor` tells about the machine. Threads: one.
 */
#include <getopt.h>
#include <stdio.h>

#include "commands.h"
#include "json.h"
#include "sluice/sluice.h"

static const char version_help[] = "Usage: sluice version [--json]\n"
				   "\n"
				   "Print the version.\n"
				   "\n"
				   "Options:\n"
				   "      --json  print one JSON object\n"
				   "  -h, --help  print this and exit\n";

int
cmd_version(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct json json;
	int as_json = 0;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			as_json = 1;
			break;
		case 'h':
			fputs(version_help, stdout);
			return SL_EXIT_OK;
		default:
			return command_bad_option("version", options, c, argv);
		}
	}
	if (optind < argc)
		return command_usage("version", "'%s' is one argument too many",
				     argv[optind]);

	if (!as_json) {
		printf("sluice %s\n", sluice_version());
		return SL_EXIT_OK;
	}
	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "version", sluice_version());
	json_end(&json);
	return SL_EXIT_OK;
}
