/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of sluice-papers: entry points as tools/commands.h describes them.
 *
 * Threads: the main one.
 */
#ifndef SL_PAPERS_PAPERS_H
#define SL_PAPERS_PAPERS_H

int cmd_figures(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_suite(int argc, char **argv);

#endif
