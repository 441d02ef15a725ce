/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plan files (man page sluice-plan(5)): lines of text that people can read and diff.
 *
 *	sluice-plan 1
 *	planner sluice
 *	period 1369 launches 1463 tensors
 *	predicted 7285466331 ns
 *	launch 12
 *	  free 31
 *	  evict-host 7
 *	  prefetch 40
 *	end 3 steps
 *
 * The reader is strict: every line has one form, launches ascend, numbers are in range, and
 * the last line says how many steps there were, so that a file cut short is not taken for a
 * shorter plan. Errors name the file and the line. It allocates only what the file's own
 * length justifies.
 *
 * Threads: one for each file.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "plan/plan.h"

#define VERSION     1
#define PLANNER_MAX 63                  /* characters of a planner's name */
#define FILE_MAX    ((uint64_t)1 << 32) /* bytes of a plan file */
#define WORDS_MAX   6                   /* of a line */

/* ---- writing ---- */

static int
plan_print(const struct sl_plan *plan, FILE *to)
{
	uint32_t launch = UINT32_MAX;

	fprintf(to, "sluice-plan %d\n", VERSION);
	fprintf(to, "planner %s\n", plan->planner);
	fprintf(to, "period %" PRIu32 " launches %" PRIu32 " tensors\n", plan->n_launches,
		plan->n_tensors);
	fprintf(to, "predicted %" PRIu64 " ns\n", plan->predicted_ns);
	for (uint32_t i = 0; i < plan->n_steps; i++) {
		const struct sl_plan_step *step = &plan->steps[i];

		if (step->launch != launch) {
			launch = step->launch;
			fprintf(to, "launch %" PRIu32 "\n", launch);
		}
		fprintf(to, "  %s %" PRIu32 "\n", sl_plan_verb_name(step->verb),
			step->tensor);
	}
	fprintf(to, "end %" PRIu32 " steps\n", plan->n_steps);
	return ferror(to) ? -1 : 0;
}

int
sl_plan_write(const struct sl_plan *plan, const char *path)
{
	FILE *to;
	int bad, error;

	for (uint32_t i = 1; i < plan->n_steps; i++)
		if (plan->steps[i].launch < plan->steps[i - 1].launch)
			return sl_fail(-EINVAL,
				       "plan: step %" PRIu32
				       " is out of order: sort the plan "
				       "before it is written",
				       i);
	to = fopen(path, "we");
	if (!to) {
		error = errno;
		return sl_fail(-error, "%s: cannot be opened for writing: %s", path,
			       strerror(error));
	}
	errno = 0;
	bad = plan_print(plan, to);
	bad |= fclose(to);
	if (!bad)
		return 0;
	error = errno ? errno : EIO;
	return sl_fail(-error, "%s: writing failed: %s", path, strerror(error));
}

/* ---- reading ---- */

struct reader {
	const char *label;
	const char *at, *end;
	uint32_t line;
	char text[160]; /* the line, cut into words */
	char *word[WORDS_MAX];
	unsigned words;
	int indented;
};

/* The next line, as words. 1: there is one; 0: none. */
static int
plan_line_read(struct reader *reader)
{
	const char *stop;
	size_t length;
	char *rest, *word;

	if (reader->at == reader->end)
		return 0;
	reader->line++;
	stop = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
	if (!stop)
		return sl_fail(-EINVAL, "%s:%" PRIu32 ": the line does not end: cut short?",
			       reader->label, reader->line);
	length = (size_t)(stop - reader->at);
	if (length >= sizeof(reader->text))
		return sl_fail(-EINVAL, "%s:%" PRIu32 ": the line is longer than %zu bytes",
			       reader->label, reader->line, sizeof(reader->text) - 1);
	memcpy(reader->text, reader->at, length);
	reader->text[length] = 0;
	reader->at = stop + 1;
	for (size_t i = 0; i < length; i++)
		if (reader->text[i] < ' ' || reader->text[i] > '~')
			return sl_fail(-EINVAL,
				       "%s:%" PRIu32 ": byte %zu is not printable ASCII",
				       reader->label, reader->line, i + 1);
	reader->indented = reader->text[0] == ' ';
	reader->words = 0;
	for (word = strtok_r(reader->text, " ", &rest); word;
	     word = strtok_r(NULL, " ", &rest)) {
		if (reader->words == WORDS_MAX)
			return sl_fail(-EINVAL, "%s:%" PRIu32 ": too many words",
				       reader->label, reader->line);
		reader->word[reader->words++] = word;
	}
	return 1;
}

static int
number_read(const struct reader *reader, const char *text, uint64_t max, uint64_t *out)
{
	uint64_t value = 0;

	if (!*text || (text[0] == '0' && text[1]))
		goto bad;
	for (const char *c = text; *c; c++) {
		uint64_t digit = (uint64_t)(*c - '0');

		if (*c < '0' || *c > '9' || digit > max || value > (max - digit) / 10)
			goto bad;
		value = value * 10 + digit;
	}
	*out = value;
	return 0;
bad:
	return sl_fail(-EINVAL, "%s:%" PRIu32 ": '%s' is not a number of 0 to %" PRIu64,
		       reader->label, reader->line, text, max);
}

/* The next line, of `words` words, the first of them being `first`. */
static int
line_expect(struct reader *reader, const char *first, unsigned words)
{
	int rc = plan_line_read(reader);

	if (rc < 0)
		return rc;
	if (rc == 0)
		return sl_fail(-EINVAL, "%s:%" PRIu32 ": ends before '%s'", reader->label,
			       reader->line, first);
	if (reader->indented || reader->words != words || strcmp(reader->word[0], first) != 0)
		return sl_fail(-EINVAL,
			       "%s:%" PRIu32 ": expected a line '%s ...' of %u words",
			       reader->label, reader->line, first, words);
	return 0;
}

static int
word_expect(const struct reader *reader, unsigned i, const char *text)
{
	if (strcmp(reader->word[i], text) == 0)
		return 0;
	return sl_fail(-EINVAL, "%s:%" PRIu32 ": expected '%s' instead of '%s'",
		       reader->label, reader->line, text, reader->word[i]);
}

static int
head_read(struct reader *reader, struct sl_plan *plan)
{
	uint64_t version, launches = 0, tensors = 0;
	int rc = line_expect(reader, "sluice-plan", 2);

	if (!rc)
		rc = number_read(reader, reader->word[1], UINT32_MAX, &version);
	if (!rc && version != VERSION)
		rc = sl_fail(-EINVAL,
			     "%s:%" PRIu32 ": version %" PRIu64 " of plan files; "
			     "this program reads version %d",
			     reader->label, reader->line, version, VERSION);
	if (!rc)
		rc = line_expect(reader, "planner", 2);
	if (!rc && strlen(reader->word[1]) > PLANNER_MAX)
		rc = sl_fail(-EINVAL, "%s:%" PRIu32 ": the planner's name is longer than %d",
			     reader->label, reader->line, PLANNER_MAX);
	if (!rc) {
		plan->planner = strdup(reader->word[1]);
		if (!plan->planner)
			rc = sl_fail(-ENOMEM, "%s: out of memory", reader->label);
	}
	if (!rc)
		rc = line_expect(reader, "period", 5);
	if (!rc)
		rc = word_expect(reader, 2, "launches");
	if (!rc)
		rc = word_expect(reader, 4, "tensors");
	if (!rc)
		rc = number_read(reader, reader->word[1], SL_TRACE_LAUNCHES_MAX, &launches);
	if (!rc)
		rc = number_read(reader, reader->word[3], SL_TRACE_TENSORS_MAX, &tensors);
	plan->n_launches = (uint32_t)launches;
	plan->n_tensors = (uint32_t)tensors;
	if (!rc)
		rc = line_expect(reader, "predicted", 3);
	if (!rc)
		rc = word_expect(reader, 2, "ns");
	if (!rc)
		rc = number_read(reader, reader->word[1], UINT64_MAX, &plan->predicted_ns);
	return rc;
}

static int
step_read(struct reader *reader, struct sl_plan *plan, uint32_t launch)
{
	enum sl_plan_verb verb = SL_PLAN_ALLOC;
	uint64_t tensor;
	int rc;

	while (verb < SL_PLAN_VERB_COUNT &&
	       strcmp(sl_plan_verb_name(verb), reader->word[0]) != 0)
		verb++;
	if (verb == SL_PLAN_VERB_COUNT)
		return sl_fail(-EINVAL, "%s:%" PRIu32 ": '%s' is not something a plan can do",
			       reader->label, reader->line, reader->word[0]);
	if (reader->words != 2)
		return sl_fail(-EINVAL, "%s:%" PRIu32 ": expected '  %s TENSOR'",
			       reader->label, reader->line, reader->word[0]);
	rc = number_read(reader, reader->word[1],
			 plan->n_tensors ? plan->n_tensors - 1 : 0, &tensor);
	if (rc)
		return rc;
	rc = sl_plan_add(plan, launch, verb, (uint32_t)tensor);
	return rc ? sl_fail_in(rc, "%s:%" PRIu32, reader->label, reader->line) : 0;
}

static int
steps_read(struct reader *reader, struct sl_plan *plan)
{
	uint64_t launch = 0, next = 0, count;
	int rc, begun = 0;

	for (;;) {
		rc = plan_line_read(reader);
		if (rc < 0)
			return rc;
		if (rc == 0)
			return sl_fail(-EINVAL,
				       "%s:%" PRIu32 ": ends before 'end': cut short?",
				       reader->label, reader->line);
		if (reader->indented && begun && reader->words) {
			rc = step_read(reader, plan, (uint32_t)launch);
			if (rc)
				return rc;
			continue;
		}
		if (!reader->indented && reader->words == 2 &&
		    strcmp(reader->word[0], "launch") == 0 && plan->n_launches) {
			rc = number_read(reader, reader->word[1], plan->n_launches - 1,
					 &launch);
			if (rc)
				return rc;
			if (launch < next)
				return sl_fail(-EINVAL,
					       "%s:%" PRIu32 ": launch %" PRIu64
					       " comes after launch %" PRIu64,
					       reader->label, reader->line, launch,
					       next - 1);
			next = launch + 1;
			begun = 1;
			continue;
		}
		break;
	}
	if (reader->indented || reader->words != 3 || strcmp(reader->word[0], "end") != 0)
		return sl_fail(-EINVAL,
			       "%s:%" PRIu32 ": expected a step, a launch or the end",
			       reader->label, reader->line);
	rc = word_expect(reader, 2, "steps");
	if (!rc)
		rc = number_read(reader, reader->word[1], UINT32_MAX, &count);
	if (rc)
		return rc;
	if (count != plan->n_steps)
		return sl_fail(-EINVAL,
			       "%s:%" PRIu32 ": says %" PRIu64
			       " steps, but there are %" PRIu32,
			       reader->label, reader->line, count, plan->n_steps);
	if (reader->at != reader->end)
		return sl_fail(-EINVAL, "%s:%" PRIu32 ": something follows the end",
			       reader->label, reader->line + 1);
	return 0;
}

int
sl_plan_decode(const void *data, size_t bytes, const char *label, struct sl_plan **out)
{
	struct reader reader = {.label = label, .at = data, .end = (const char *)data + bytes};
	struct sl_plan *plan = calloc(1, sizeof(*plan));
	int rc;

	if (!plan)
		return sl_fail(-ENOMEM, "%s: out of memory", label);
	rc = head_read(&reader, plan);
	if (!rc)
		rc = steps_read(&reader, plan);
	if (rc) {
		sl_plan_destroy(plan);
		return rc;
	}
	*out = plan;
	return 0;
}

int
sl_plan_read(const char *path, struct sl_plan **out)
{
	FILE *from = fopen(path, "re");
	SL_CLEANUP(free) char *data = NULL;
	struct stat st;
	size_t bytes;
	int error;

	if (!from) {
		error = errno;
		return sl_fail(-error, "%s: cannot be opened: %s", path, strerror(error));
	}
	if (fstat(fileno(from), &st) || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size > FILE_MAX) {
		(void)fclose(from);
		return sl_fail(-EINVAL, "%s: not a regular file of at most 4 GiB", path);
	}
	data = malloc((size_t)st.st_size + 1);
	bytes = data ? fread(data, 1, (size_t)st.st_size, from) : 0;
	(void)fclose(from);
	if (!data)
		return sl_fail(-ENOMEM, "%s: no memory for %zu bytes", path,
			       (size_t)st.st_size);
	if (bytes != (size_t)st.st_size)
		/* cppcheck-suppress memleak; it does not know SL_CLEANUP */
		return sl_fail(-EIO, "%s: only %zu of %zu bytes could be read", path,
			       bytes, (size_t)st.st_size);
	return sl_plan_decode(data, bytes, path, out);
}
