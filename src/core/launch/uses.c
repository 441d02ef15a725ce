/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The declared uses of a launch: their chunks, their checks, and the data that it may access
 * undeclared.
 */
#include <stdio.h>
#include <string.h>

#include "core/launch/launch.h"

static const char *const intent_names[SLUICE_USE_COUNT] = {
	[SLUICE_USE_READ] = "read",
	[SLUICE_USE_WRITE] = "write",
	[SLUICE_USE_READ_WRITE] = "read-write",
	[SLUICE_USE_WRITE_ALL] = "write-all",
	[SLUICE_USE_SCRATCH] = "scratch",
};

/* Resolve one use to region and chunks. Held. */
SL_HELD static int
use_resolve(struct sluice_space *s, const struct sluice_use *use, size_t i,
	    struct sl_launch_use *out)
{
	struct sl_region *r;
	uint64_t inside;
	int rc;

	if ((unsigned)use->intent >= SLUICE_USE_COUNT)
		return sl_fail(-EINVAL, "launch: use %zu: unknown intent %d", i,
			       (int)use->intent);
	rc = use->size_bytes
		     ? sl_region_find(s, "launch", use->addr, use->size_bytes, &r,
				      &out->begin, &out->end)
		     : sl_fail(-EINVAL, "launch: use %zu at %p has size 0", i, use->addr);
	if (rc)
		return rc;
	if (use->intent != SLUICE_USE_READ && !sl_region_is_writable(r))
		return sl_fail(-EACCES,
			       "launch: use %zu declares %s, but %s is mapped without "
			       "SLUICE_WRITE",
			       i, intent_names[use->intent], r->name);
	inside = r->chunk_bytes - 1;
	out->reach = 0;
	out->brought = 0;
	out->fetched = 0;
	out->region = r;
	out->intent = sl_policy_intent(s->policy, r->flags, use->intent);
	out->declared = use->intent;
	out->first = out->begin >> r->chunk_shift; /* no division: this is on every launch */
	out->last = (out->end - 1) >> r->chunk_shift;
	out->first_partial = (out->begin & inside) != 0 ||
			     out->end < (out->first + 1) << r->chunk_shift;
	out->last_partial = out->first == out->last
				    ? out->first_partial
				    : (out->end & inside) != 0 && out->end != r->size_bytes;
	if (out->first == out->last && (out->begin & inside) == 0 && out->end == r->size_bytes)
		out->first_partial = out->last_partial = 0;
	out->used = out->lag = 0;
	out->reaches = 0;
	out->whole = out->first == 0 && out->last == r->n_chunks - 1;
	return 0;
}

/* Old contents cannot be both of no use and read, in the same bytes. Held. */
SL_HELD static int
uses_check(const struct sluice_launch *l)
{
	for (size_t i = 0; i < l->n_uses; i++) {
		const struct sl_launch_use *u = &l->uses[i];

		if (u->declared != SLUICE_USE_WRITE_ALL && u->declared != SLUICE_USE_SCRATCH)
			continue;
		for (size_t k = 0; k < l->n_uses; k++) {
			const struct sl_launch_use *v = &l->uses[k];

			if (v->region != u->region || v->declared == u->declared ||
			    v->begin >= u->end || u->begin >= v->end)
				continue;
			return sl_fail(-EINVAL,
				       "launch: use %zu declares %s and use %zu declares "
				       "%s for the "
				       "same bytes of %s",
				       i, intent_names[u->declared], k,
				       intent_names[v->declared], u->region->name);
		}
	}
	return 0;
}

/* Uses of what may be touched as well, behind those declared. Held. */
SL_HELD static int
uses_add_beside(struct sluice_launch *l, const struct sl_beside *beside)
{
	int rc = 0;

	for (size_t i = 0; i < beside->n && !rc; i++) {
		struct sl_launch_use *u = &l->uses[l->n_uses];

		rc = use_resolve(l->space, &beside->uses[i], l->n_uses, u);
		u->reach = 1;
		l->n_uses++;
	}
	l->reach_all = 1;
	return rc;
}

int
sl_uses_resolve(struct sluice_launch *l, const struct sluice_use *uses,
		const struct sl_beside *beside)
{
	int rc = 0;

	for (size_t i = 0; i < l->n_uses && !rc; i++)
		rc = use_resolve(l->space, &uses[i], i, &l->uses[i]);
	if (!rc && beside)
		rc = uses_add_beside(l, beside);
	return rc ? rc : uses_check(l);
}

int
sl_uses_reach_all(const struct sluice_space *s, size_t n_uses)
{
	return s->device->zerocopy && (!n_uses || s->config.reach == SLUICE_REACH_ANY);
}

void
sl_uses_add_all(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	size_t declared = l->n_uses;

	l->reach_all = 1;
	for (size_t i = 0; i < s->n_regions; i++) {
		struct sl_region *r = s->regions[i];
		struct sl_launch_use *u = &l->uses[l->n_uses];

		if (r->closed)
			continue;
		memset(u, 0, sizeof(*u));
		u->region = r;
		u->last = r->n_chunks - 1;
		u->end = r->size_bytes;
		u->whole = 1;
		u->reach = declared != 0;
		u->declared = declared || !sl_region_is_writable(r) ? SLUICE_USE_READ
								    : SLUICE_USE_READ_WRITE;
		u->intent = sl_policy_intent(s->policy, r->flags, u->declared);
		l->n_uses++;
	}
}

/* The ranges of the uses, as far as they fit the text. */
const char *
sl_launch_ranges(const struct sluice_launch *l, char *text, size_t bytes)
{
	size_t at = 0;

	text[0] = '\0';
	for (size_t k = 0; k < l->n_uses && at + 1 < bytes; k++) {
		const struct sl_launch_use *u = &l->uses[k];
		int n = snprintf(text + at, bytes - at, "%s%llu of %s at %p",
				 k ? ", " : "", (unsigned long long)(u->end - u->begin),
				 u->region->name, (void *)(u->region->base + u->begin));

		if (n < 0 || (size_t)n >= bytes - at)
			break;
		at += (size_t)n;
	}
	return text;
}
