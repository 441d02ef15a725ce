/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A random run of API calls against a small model (model.h): players of one space, each with a seed of its
 * own, and the matrix of configurations at the end. Plain program, see common.h.
 */
#include "stress/model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 3

static void
player_step(struct player *p)
{
	unsigned what = (unsigned)player_below(p, 100);
	struct region *r = region_pick(p);

	player_note(p, "-");
	if (!r || what < 4)
		step_map(p);
	else if (what < 8)
		region_end(p, r);
	else if (what < 10)
		step_remap(p, r);
	else if (what < 24)
		step_host_read(p, r);
	else if (what < 38)
		step_host_write(p, r);
	else if (what < 60)
		step_launch(p, r);
	else if (what < 65)
		step_scope(p, r);
	else if (what < 71)
		step_prefetch(p, r);
	else if (what < 77)
		step_evict(p, r);
	else if (what < 80)
		step_pin(p, r);
	else if (what < 83)
		step_advise(p, r);
	else if (what < 87)
		step_sync(p, r);
	else if (what < 94)
		step_discard(p, r);
	else if (what < 97)
		step_look(p, r);
	else if (what < 98 && p->id == 0)
		step_budget(p);
	if (p->step % 16 == 0)
		OK(sluice_space_check(p->space));
}

static void *
player_run(void *arg)
{
	struct player *p = arg;

	model_player = p;
	sl_rng_init(&p->rng, p->seed);
	for (unsigned k = 0; k < FILES; k++)
		file_make(p, k);
	for (unsigned k = 0; k < STREAMS; k++)
		OK(sluice_stream_create(p->space, &p->stream[k]));
	while (!atomic_load(&stress.stop)) {
		player_step(p);
		if (stress.failures)
			break;
		p->step++;
	}
	if (stress.failures) {
		player_log_print(p);
	} else {
		for (p->at = 0; p->at < REGIONS; p->at++)
			if (p->region[p->at].base)
				region_end(p, &p->region[p->at]);
		if (stress.failures)
			player_log_print(p);
	}
	for (unsigned k = 0; k < STREAMS; k++)
		sluice_stream_destroy(p->stream[k]);
	for (unsigned k = 0; k < FILES; k++) {
		unlink(p->file[k].path);
		free(p->file[k].words);
	}
	return NULL;
}

static void
run_config(const char *config)
{
	struct player *players = calloc(THREADS, sizeof(*players));
	pthread_t threads[THREADS];
	struct sluice_space *space = stress_space(config);
	struct sluice_config in_force;
	uint64_t steps = 0;

	if (!players)
		exit(1);
	atomic_store(&model_pin_taken, 0);
	sluice_space_config(space, &in_force);
	for (unsigned i = 0; i < THREADS; i++) {
		players[i].space = space;
		players[i].config = in_force;
		players[i].id = i;
		players[i].seed = stress.seed * THREADS + i;
		if (pthread_create(&threads[i], NULL, player_run, &players[i]))
			exit(1);
	}
	stress_sleep_until(sl_now_ns() + stress.run_ns);
	atomic_store(&stress.stop, 1);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		steps += players[i].step;
	}
	printf("  %llu steps\n", (unsigned long long)steps);
	if (!stress.failures)
		stress_space_end(space);
	free(players);
}

int
main(int argc, char **argv)
{
	static const char *const configs[] = {
		"device_budget=16M,host_budget=0",
		"device_budget=16M,host_budget=8M,faults=signal",
		"device_budget=8M,host_budget=64M,move=copy",
		"device_budget=4M,host_budget=8M,population=grow",
		"device_budget=8M,host_budget=0,population=page",
		"device_budget=8M,host_budget=16M,population=page,faults=signal,policy="
		"dragon",
		"device_budget=8M,host_budget=32M,population=grow,faults=signal,store_io="
		"file",
		"device_budget=8M,host_budget=8M,policy=uvm,move=copy",
		"device_budget=16M,host_budget=16M,policy=dragon,store_io=file,host_"
		"reserve=8M",
		"device_budget=16M,host_budget=8M,chunk=4M,population=grow,move=copy",
		"device_budget=6M,host_budget=4M,readahead_chunks=16,store_io=uring",
		"device_budget=16M,host_budget=16M,checking=1",
		"device_budget=8M,host_budget=0,chunk=4M,policy=uvm,faults=signal",
	};

	stress_begin(argc, argv, 2);
	for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]) && !stress.failures; i++)
		if (stress_wants(configs[i]))
			run_config(configs[i]);
	return stress_end();
}
