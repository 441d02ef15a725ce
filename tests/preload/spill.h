/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by tests of the spill file: a directory for it, on a disk, and rows that run by turns. */
#ifndef SL_TESTS_PRELOAD_SPILL_H
#define SL_TESTS_PRELOAD_SPILL_H

#include <stddef.h>

/* Make a directory of this name, and more, in the current one, its path into path. 0; 77 where it would
 * lie in memory, which is said: nothing was made. Any other failure ends the program. */
int spill_folder_make(char *path, size_t path_bytes, const char *name);

/* Run rows until one answers 77 (skip), then remove the directory, which must be empty. The test's exit
 * status: 77, or 1 if a row answered 1 or something was left. */
int spill_rows_run(const char *path, int (*run)(size_t row), size_t n_rows);

#endif
