/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nth-failure sweep (sweep.c), shared by the programs that run it over different steps:
 * test_sweep_memory.c, test_sweep_device.c, test_sweep_store.c. No threads of its own.
 */
#ifndef SWEEP_H
#define SWEEP_H

/*
 * Run the scenario once for every stride-th n until nothing is left to fail, with the fault point
 * name armed at its nth call. suffix: ":ERRNO", or ":ERRNO+" for all later calls as well. config:
 * key=value pairs of the space. Ends the case where something does not hold.
 */
void sweep(const char *name, const char *suffix, const char *config, unsigned stride);

/* A space that holds a fraction of the scenario's data. */
#define SWEEP_SMALL "host_budget=2M,writeback=2M,store_budget=16M"

#endif
