/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program without a dynamic loader: a preloaded library does not reach it, and does no harm.
 */
#include <stdio.h>

int
main(void)
{
	puts("static");
	return 0;
}
