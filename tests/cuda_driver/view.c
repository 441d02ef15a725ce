/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU's view of addresses: reserved ranges with their shadows, and their mappings. A mapping
 * is an extent of physical memory (memory.c), mapped into the shadow of its range. So one handle
 * may be mapped at several addresses at once.
 *
 * A mapping may be removed while running work touches it. It then leaves the table at once, and
 * the shadow with its last user.
 *
 * Threads: any, with the.lock.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

/* Number of reservations that begin at or below addr. */
static size_t
reservations_upto(uint64_t addr)
{
	size_t low = 0, high = the.n_reservations;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (the.reservations[middle]->base <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct reservation *
reservation_find(uint64_t addr)
{
	size_t i = reservations_upto(addr);
	struct reservation *found = i ? the.reservations[i - 1] : NULL;

	return found && addr - found->base < found->bytes ? found : NULL;
}

/* The reservation that holds all of a range of whole granules, or NULL. */
struct reservation *
reservation_around(uint64_t addr, size_t bytes)
{
	struct reservation *found = reservation_find(addr);

	return found && bytes <= found->bytes - (addr - found->base) ? found : NULL;
}

struct mapping **
granule_of(struct reservation *reservation, uint64_t addr)
{
	return &reservation->granules[(addr - reservation->base) / GRANULE_BYTES];
}

struct mapping *
mapping_at(uint64_t addr)
{
	struct reservation *reservation = reservation_find(addr);
	struct mapping *mapping = reservation ? *granule_of(reservation, addr) : NULL;

	return mapping && addr - mapping->base < mapping->bytes ? mapping : NULL;
}

int
view_has_mapping(uint64_t addr, size_t bytes)
{
	uint64_t end = addr + bytes;

	for (addr -= addr % GRANULE_BYTES; addr < end; addr += GRANULE_BYTES) {
		struct reservation *reservation = reservation_find(addr);

		if (reservation && *granule_of(reservation, addr))
			return 1;
	}
	return 0;
}

int
view_location(uint64_t addr)
{
	const struct mapping *mapping = mapping_at(addr - addr % GRANULE_BYTES);
	int type = mapping && mapping->memory ? mapping->memory->location.type
					      : CU_LOCATION_INVALID;

	return type == CU_LOCATION_HOST_NUMA ? CU_LOCATION_HOST : type;
}

int
view_is_mixed(uint64_t addr, size_t bytes)
{
	uint64_t at = addr - addr % GRANULE_BYTES, end = addr + bytes;
	int first = CU_LOCATION_INVALID;

	for (; at < end; at += GRANULE_BYTES) {
		int type = view_location(at);

		if (first == CU_LOCATION_INVALID)
			first = type;
		if (type != first)
			return 1;
	}
	return 0;
}

static void *
range_map(size_t bytes, size_t align_bytes, uint64_t wish)
{
	size_t all = bytes + align_bytes, before;
	char *p = MAP_FAILED;

#ifdef __SANITIZE_THREAD__ /* it has rules of its own for addresses */
	wish = 0;
#endif
	if (wish && !(wish % align_bytes))
		p = mmap((void *)(uintptr_t)wish, all, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			 -1, 0);
	if (p == MAP_FAILED)
		p = mmap(NULL, all, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	before = (align_bytes - (uintptr_t)p % align_bytes) % align_bytes;
	if (before)
		munmap(p, before);
	munmap(p + before + bytes, all - before - bytes);
	return p + before;
}

/* Back to what a reserved range is: nothing, and not to be touched. */
static void
address_clear(void *data, size_t bytes)
{
	if (mmap(data, bytes, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
}

/* Without its place in the table. */
struct reservation *
reservation_new(size_t bytes, size_t align_bytes, uint64_t wish)
{
	struct reservation *new = must_alloc(1, sizeof(*new));

	new->bytes = bytes;
	new->base = (uintptr_t)range_map(bytes, align_bytes, wish);
	new->shadow = range_map(bytes, GRANULE_BYTES, 0);
	if (!new->base || !new->shadow) {
		if (new->base)
			munmap((void *)(uintptr_t) new->base, bytes);
		if (new->shadow)
			munmap(new->shadow, bytes);
		free(new);
		return NULL;
	}
	new->granules = must_alloc(bytes / GRANULE_BYTES, sizeof(*new->granules));
	return new;
}

void
reservation_insert(struct reservation *new)
{
	size_t i = reservations_upto(new->base);

	if (the.n_reservations == the.reservations_size) {
		the.reservations_size = the.reservations_size * 2 + 16;
		the.reservations = realloc(the.reservations,
					   the.reservations_size * sizeof(new));
		if (!the.reservations)
			abort();
	}
	memmove(&the.reservations[i + 1], &the.reservations[i],
		(the.n_reservations - i) * sizeof(new));
	the.reservations[i] = new;
	the.n_reservations++;
}

static void
reservation_free(struct reservation *old)
{
	munmap(old->shadow, old->bytes);
	free(old->granules);
	free(old);
}

void
reservation_remove(struct reservation *old)
{
	size_t i = reservations_upto(old->base) - 1;

	memmove(&the.reservations[i], &the.reservations[i + 1],
		(the.n_reservations - i - 1) * sizeof(old));
	the.n_reservations--;
	munmap((void *)(uintptr_t)old->base, old->bytes);
	old->freed = 1;
	if (!old->n_dead)
		reservation_free(old);
}

/* ---- the GPU's view ---- */

const char *
view_check(int device, uint64_t addr, size_t bytes, int access)
{
	uint64_t at = addr, end = addr + bytes;
	struct reservation *reservation;
	struct mapping *mapping;
	int need = access & SL_STANDIN_WRITE ? CU_ACCESS_READ_WRITE : CU_ACCESS_READ;

	if (end < addr)
		return "beyond the end of all addresses";
	reservation = reservation_find(addr);
	if (!reservation)
		return "no range of the driver's";
	if (bytes > reservation->bytes - (addr - reservation->base))
		return "beyond the end of its range";
	while (at < end) {
		mapping = *granule_of(reservation, at);
		if (!mapping || at - mapping->base >= mapping->bytes)
			return "not mapped";
		if ((mapping->access[device] & need) != need)
			return mapping->access[device] ? "mapped for reading only"
						       : "mapped without access";
		at = mapping->base + mapping->bytes;
	}
	return NULL;
}

char *
view_pointer(uint64_t addr)
{
	struct reservation *reservation = reservation_find(addr);

	return reservation->shadow + (addr - reservation->base);
}

void
mapping_use(struct mapping *mapping)
{
	mapping->uses++;
}

static void
mapping_gone(struct mapping *mapping)
{
	struct reservation *home = mapping->home;

	if (mapping->dead)
		home->n_dead--;
	/* What was mapped there since keeps its place. */
	for (size_t i = 0; i < mapping->bytes && !home->freed; i += GRANULE_BYTES)
		if (!*granule_of(home, mapping->base + i))
			address_clear(home->shadow + (mapping->base + i - home->base),
				      GRANULE_BYTES);
	if (home->freed && !home->n_dead)
		reservation_free(home);
	free(mapping);
}

int
mapping_unuse(struct mapping *mapping)
{
	int dead = mapping->dead;

	if (!--mapping->uses && dead)
		mapping_gone(mapping);
	return dead;
}

struct mapping **
view_use_begin(uint64_t addr, size_t bytes, size_t *n)
{
	struct mapping **held = must_alloc(bytes / GRANULE_BYTES + 2, sizeof(*held));
	uint64_t at = addr;

	for (*n = 0; at < addr + bytes; (*n)++) {
		struct mapping *mapping = mapping_at(at);

		mapping_use(mapping);
		held[*n] = mapping;
		at = mapping->base + mapping->bytes;
	}
	return held;
}

int
view_use_end(struct mapping **mappings, size_t n)
{
	int dead = 0;

	for (size_t i = 0; i < n; i++)
		dead |= mapping_unuse(mappings[i]);
	free(mappings);
	return dead;
}

/* ---- mappings ---- */

int
mapping_protection(const struct mapping *mapping)
{
	int protection = PROT_NONE;

	for (int i = 0; i < DEVICES_MAX; i++) {
		if (mapping->access[i] == CU_ACCESS_READ)
			protection |= PROT_READ;
		else if (mapping->access[i] == CU_ACCESS_READ_WRITE)
			protection |= PROT_READ | PROT_WRITE;
	}
	return protection;
}

struct mapping *
mapping_new(struct reservation *reservation, uint64_t addr, size_t bytes, struct memory *memory)
{
	struct mapping *mapping = must_alloc(1, sizeof(*mapping));

	mapping->base = addr;
	mapping->bytes = bytes;
	mapping->home = reservation;
	mapping->memory = memory;
	if (mmap(reservation->shadow + (addr - reservation->base), memory->bytes, PROT_NONE,
		 MAP_SHARED | MAP_FIXED, memory->fd, (off_t)memory->offset) == MAP_FAILED) {
		free(mapping);
		return NULL;
	}
	memory->n_mappings++;
	for (size_t i = 0; i < bytes; i += GRANULE_BYTES)
		*granule_of(reservation, addr + i) = mapping;
	return mapping;
}

void
cpu_access_drop(struct mapping *mapping)
{
	if (mapping->cpu_access)
		address_clear((void *)(uintptr_t)mapping->base, mapping->bytes);
	mapping->cpu_access = 0;
}

/* Take it out of the view. In use: the pages stay in the shadow until the last user ends. */
void
mapping_remove(struct reservation *reservation, struct mapping *mapping)
{
	struct memory *memory = mapping->memory;

	for (size_t i = 0; i < mapping->bytes; i += GRANULE_BYTES)
		*granule_of(reservation, mapping->base + i) = NULL;
	cpu_access_drop(mapping);
	mapping->memory = NULL;
	if (mapping->uses) {
		mapping->dead = 1;
		reservation->n_dead++;
	} else {
		mapping_gone(mapping);
	}
	memory->n_mappings--;
	memory_put(memory);
}
