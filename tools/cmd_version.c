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
	static const struct option table[] = {
		{"json", no_argument, NULL, COMMAND_MEMBERS},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static const struct command_syntax syntax = {"version", ":h", version_help, table,
						     NULL};
	struct json json;
	int as_json = 0, rc = command_options_read(&syntax, argc, argv, &as_json);

	if (rc)
		return rc < 0 ? SL_EXIT_OK : rc;
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
