/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A C++ kernel's name tells whether a pointer to a pointer is among its parameters' types,
 * template arguments included. Such a kernel finds addresses in memory, whatever its first
 * arguments showed.
 *
 * Names are those of the Itanium C++ ABI. Types are read for this one question: is it a pointer
 * (or an array of pointers)? That includes abbreviated ones (S_, T_). Unread constructs
 * (expressions, operators beyond a lambda's) end the reading. Then nothing is known, and the
 * function is learnt as others are.
 *
 * Threads: any; no state.
 */
#include <stdbool.h>
#include <string.h>

#include "preload/args/functions.h"

#define SEEN_MAX  256u /* types and names that may be abbreviated */
#define ARGS_MAX  64u  /* template arguments */
#define DEPTH_MAX 64   /* of types inside of types */

struct reader {
	const char *at;
	int depth;
	int failed;
	int found;    /* a pointer to a pointer */
	int in_types; /* behind the name: T_ means the name's own arguments */
	unsigned char seen[SEEN_MAX]; /* is it a pointer? */
	unsigned n_seen;
	unsigned char args[ARGS_MAX]; /* of the template that was named last: the same */
	unsigned n_args;
};

static int type_read(struct reader *r);
static void name_read(struct reader *r, int is_type);
static void encoding_read(struct reader *r);

static int
give_up(struct reader *r)
{
	r->failed = 1;
	return 0;
}

/* It can be abbreviated from here on. Returns is_pointer. */
static int
seen_add(struct reader *r, int is_pointer)
{
	if (r->n_seen == SEEN_MAX)
		return give_up(r);
	r->seen[r->n_seen++] = (unsigned char)is_pointer;
	return is_pointer;
}

static int
take(struct reader *r, char c)
{
	if (*r->at != c)
		return 0;
	r->at++;
	return 1;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static unsigned
mangled_number_read(struct reader *r)
{
	unsigned n = 0;

	while (is_digit(*r->at) && n < 1u << 20)
		n = 10 * n + (unsigned)(*r->at++ - '0');
	return n;
}

/* Behind S or T: nothing, or a number to this base, then '_'. 0 is the first. */
static unsigned
sequence_read(struct reader *r, unsigned base)
{
	unsigned n = 0, some = 0;

	for (; *r->at && *r->at != '_'; r->at++, some = 1) {
		unsigned digit = is_digit(*r->at) ? (unsigned)(*r->at - '0')
						  : (unsigned)(*r->at - 'A') + 10;

		if (digit >= base || n > 1u << 16) {
			give_up(r);
			return 0;
		}
		n = n * base + digit;
	}
	if (!take(r, '_'))
		give_up(r);
	return n + some;
}

static void
identifier_read(struct reader *r)
{
	unsigned n = mangled_number_read(r);

	if (strnlen(r->at, n) < n)
		give_up(r);
	else
		r->at += n;
}

/* A value of a template argument, behind 'L'. */
static void
literal_read(struct reader *r)
{
	if (r->at[0] == '_' && r->at[1] == 'Z') {
		r->at += 2;
		encoding_read(r);
	} else {
		(void)type_read(r);
		while (*r->at && *r->at != 'E')
			r->at++;
	}
	if (!take(r, 'E'))
		give_up(r);
}

/* One template argument; is it a pointer (of a pack: one of them)? */
static int
arg_read(struct reader *r)
{
	int is_pointer = 0;

	if (take(r, 'L')) {
		literal_read(r);
		return 0;
	}
	if (take(r, 'J')) {
		while (!r->failed && *r->at && *r->at != 'E')
			is_pointer |= arg_read(r);
		if (!take(r, 'E'))
			give_up(r);
		return is_pointer;
	}
	return *r->at == 'X' ? give_up(r) : type_read(r);
}

/* Behind 'I'. */
static void
args_read(struct reader *r)
{
	unsigned char args[ARGS_MAX];
	unsigned n = 0;

	if (++r->depth > DEPTH_MAX)
		give_up(r);
	while (!r->failed && *r->at && *r->at != 'E') {
		int is_pointer = arg_read(r);

		if (n == ARGS_MAX)
			give_up(r);
		else
			args[n++] = (unsigned char)is_pointer;
	}
	r->depth--;
	if (!take(r, 'E'))
		give_up(r);
	if (r->failed || r->in_types)
		return;
	memcpy(r->args, args, n);
	r->n_args = n;
}

/* Behind "Ul": a lambda's parameters. */
static void
lambda_read(struct reader *r)
{
	while (!r->failed && *r->at && *r->at != 'E')
		(void)type_read(r);
	if (!take(r, 'E'))
		give_up(r);
	(void)mangled_number_read(r);
	if (!take(r, '_'))
		give_up(r);
}

static void
unqualified_read(struct reader *r)
{
	(void)take(r, 'L'); /* internal linkage */
	if (is_digit(*r->at)) {
		identifier_read(r);
	} else if (r->at[0] == 'U' && r->at[1] == 'l') {
		r->at += 2;
		lambda_read(r);
	} else if (r->at[0] == 'U' && r->at[1] == 't') {
		r->at += 2;
		(void)mangled_number_read(r);
		if (!take(r, '_'))
			give_up(r);
	} else if (((r->at[0] == 'C' || r->at[0] == 'D') && is_digit(r->at[1])) ||
		   (r->at[0] == 'c' && r->at[1] == 'l')) {
		r->at += 2; /* a constructor or destructor; a lambda's operator() */
	} else {
		give_up(r);
	}
	while (!r->failed && take(r, 'B')) /* tags */
		identifier_read(r);
}

/* S_ and the like, behind 'S'. std is none: *is_std. */
static int
substitution_read(struct reader *r, int *is_std)
{
	unsigned i;

	*is_std = take(r, 't');
	if (*is_std)
		return 0;
	if (*r->at && strchr("absiod", *r->at)) {
		r->at++;
		return 0;
	}
	i = sequence_read(r, 36);
	return r->failed || i >= r->n_seen ? give_up(r) : r->seen[i];
}

static int
parameter_read(struct reader *r)
{
	unsigned i = sequence_read(r, 10);

	return !r->failed && i < r->n_args ? r->args[i] : 0;
}

/* Behind 'N'. Each part can be abbreviated but the whole, which the caller adds if it is a type. */
static void
nested_read(struct reader *r)
{
	int is_std;

	while (*r->at && strchr("rVKRO", *r->at))
		r->at++;
	while (!r->failed && *r->at && *r->at != 'E') {
		int is_new = 1;

		if (take(r, 'S')) {
			(void)substitution_read(r, &is_std);
			is_new = 0;
		} else if (take(r, 'T')) {
			(void)parameter_read(r);
		} else if (take(r, 'I')) {
			args_read(r);
		} else {
			unqualified_read(r);
		}
		if (is_new && *r->at != 'E')
			seen_add(r, 0);
	}
	if (!take(r, 'E'))
		give_up(r);
}

/* Behind 'Z': what stands in a function. */
static void
local_read(struct reader *r)
{
	encoding_read(r);
	if (!take(r, 'E')) {
		give_up(r);
		return;
	}
	if (take(r, 's')) {
		;
	} else if (take(r, 'd')) {
		(void)mangled_number_read(r);
		if (!take(r, '_'))
			give_up(r);
		name_read(r, 0);
	} else {
		name_read(r, 0);
	}
	if (take(r, '_')) { /* which of several */
		(void)take(r, '_');
		(void)mangled_number_read(r);
		(void)take(r, '_');
	}
}

/* A name; of a type it can be abbreviated as a whole. */
static void
name_read(struct reader *r, int is_type)
{
	int is_std = 0, is_new = 1;

	if (++r->depth > DEPTH_MAX)
		give_up(r);
	if (r->failed) {
		;
	} else if (take(r, 'N')) {
		nested_read(r);
	} else if (take(r, 'Z')) {
		local_read(r);
	} else {
		if (take(r, 'S')) {
			(void)substitution_read(r, &is_std);
			is_new = is_std;
		}
		if (is_new)
			unqualified_read(r);
		if (take(r, 'I')) {
			if (is_new)
				seen_add(r, 0);
			args_read(r);
			is_new = 1;
		}
	}
	r->depth--;
	if (is_type && is_new)
		seen_add(r, 0);
}

/* Types up to the end of what they are in. */
static void
types_read(struct reader *r)
{
	while (!r->failed && *r->at && *r->at != 'E' && *r->at != '.')
		(void)type_read(r);
}

static void
encoding_read(struct reader *r)
{
	name_read(r, 0);
	r->in_types++;
	types_read(r);
	r->in_types--;
}

/* Behind 'D'. */
static int
type_d_read(struct reader *r)
{
	char c = *r->at;

	if (!c)
		return give_up(r);
	r->at++;
	switch (c) {
	case 'p':
		return seen_add(r, type_read(r));
	case 'v':
		(void)mangled_number_read(r);
		if (!take(r, '_'))
			return give_up(r);
		(void)type_read(r);
		return seen_add(r, 0);
	case 'F':
		(void)mangled_number_read(r);
		if (!take(r, '_') && !take(r, 'b') && !take(r, 'x'))
			give_up(r);
		return 0;
	}
	return strchr("ndefhisuac", c) ? 0 : give_up(r);
}

/* A type that begins with T or S. */
static int
type_short_read(struct reader *r)
{
	int is_pointer, is_std;

	if (take(r, 'T')) {
		is_pointer = seen_add(r, parameter_read(r));
	} else {
		if (r->at[1] == 't') {
			name_read(r, 1);
			return 0;
		}
		r->at++;
		is_pointer = substitution_read(r, &is_std);
	}
	if (!take(r, 'I'))
		return is_pointer;
	args_read(r);
	return seen_add(r, 0);
}

static int
type_any_read(struct reader *r)
{
	int is_pointer;

	if (*r->at && strchr("rVK", *r->at)) {
		while (*r->at && strchr("rVK", *r->at))
			r->at++;
		return seen_add(r, type_read(r));
	}
	if (take(r, 'P')) {
		is_pointer = type_read(r);
		r->found |= is_pointer && !r->failed;
		return seen_add(r, 1);
	}
	if (take(r, 'R') || take(r, 'O') || take(r, 'C') || take(r, 'G'))
		return seen_add(r, type_read(r));
	if (take(r, 'A')) {
		(void)mangled_number_read(r);
		return take(r, '_') ? seen_add(r, type_read(r)) : give_up(r);
	}
	if (take(r, 'M')) {
		(void)type_read(r);
		(void)type_read(r);
		return seen_add(r, 0);
	}
	if (take(r, 'F')) {
		(void)take(r, 'Y');
		types_read(r);
		return take(r, 'E') ? seen_add(r, 0) : give_up(r);
	}
	if (take(r, 'u')) { /* the compiler's own */
		identifier_read(r);
		return seen_add(r, 0);
	}
	if (take(r, 'U')) { /* ... and its qualifiers */
		identifier_read(r);
		return seen_add(r, type_read(r));
	}
	if (take(r, 'D'))
		return type_d_read(r);
	if (*r->at == 'T' || *r->at == 'S')
		return type_short_read(r);
	if (*r->at == 'N' || *r->at == 'Z' || is_digit(*r->at)) {
		name_read(r, 1);
		return 0;
	}
	if (!*r->at || !strchr("vwbcahstijlmxynofdegz", *r->at))
		return give_up(r);
	r->at++; /* built in */
	return 0;
}

/* Is it a pointer? */
static int
type_read(struct reader *r)
{
	int is_pointer;

	if (r->failed || ++r->depth > DEPTH_MAX)
		return give_up(r);
	is_pointer = type_any_read(r);
	r->depth--;
	return is_pointer;
}

bool
pl_name_is_indirect(const char *name)
{
	struct reader r = {.at = name + 2};

	if (name[0] != '_' || name[1] != 'Z')
		return false;
	encoding_read(&r);
	return r.found;
}
