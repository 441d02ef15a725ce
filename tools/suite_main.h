/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door to `sluice bench suite` for cmd_bench.c.
 *
 * Threads: the main one.
 */
#ifndef SL_TOOLS_SUITE_MAIN_H
#define SL_TOOLS_SUITE_MAIN_H

/* As a command (commands.h): argv[0] is "suite". Returns an exit code. */
int suite_main(int argc, char **argv);

#endif
