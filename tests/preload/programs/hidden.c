/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library that plugin.c finds by its RUNPATH; and, as the second of two, the one that order.c's
 * RTLD_NEXT must lead to. See caller.c.
 */
int hidden(void);
int preload_order(void);

__attribute__((visibility("default"))) int
hidden(void)
{
	return 1;
}

__attribute__((visibility("default"))) int
preload_order(void)
{
	return 2;
}
