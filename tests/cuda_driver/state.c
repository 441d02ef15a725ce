/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's settings, violations, counters, injected failures and handles, the
 * prologue of every call, and the table for tests (standin.h says what each does).
 *
 * Threads: any. Violations and failures have a lock of their own below the.lock, so that
 * both may be used with and without it; counters are atomic.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define RULES_MAX   16
#define STRICT_EXIT 97

struct state the = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.done = PTHREAD_COND_INITIALIZER,
	.pool_fd = {-1, -1, -1, -1, -1, -1, -1, -1, -1},
};

static const char *const call_names[CALL_COUNT] = {
#define CUDA_SYMBOL(name, exported, need, ...) [CALL_##name] = #exported,
#include "device/cuda/cuda_symbols.def"
#undef CUDA_SYMBOL
	[CALL_PAGEABLE] = "pageable",
	[CALL_EXEC_COPY] = "exec.copy",
	[CALL_EXEC_MEMSET] = "exec.memset",
	[CALL_EXEC_KERNEL] = "exec.kernel",
	[CALL_API] = "api",
};

struct rule {
	int call; /* or -1: all calls of the driver */
	uint64_t nth, seen;
	int for_ever;
	int code;
};

static pthread_mutex_t note_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_text[512];            /* note_lock */
static uint64_t n_violations, n_fired; /* note_lock */
static struct rule rules[RULES_MAX];   /* note_lock */
static _Atomic unsigned n_rules;       /* written under note_lock */
static _Atomic uint64_t counts[CALL_COUNT];

void
notes_hold(void)
{
	pthread_mutex_lock(&note_lock);
}

void
notes_release(void)
{
	pthread_mutex_unlock(&note_lock);
}

const char *
call_name(enum call call)
{
	return call_names[call];
}

void *
must_alloc(size_t n, size_t bytes)
{
	void *p = calloc(n ? n : 1, bytes);

	if (!p) {
		fputs("stand-in driver: out of memory\n", stderr);
		abort();
	}
	return p;
}

/* ---- violations ---- */

#undef violate /* internal.h has a macro of this name for the analyzer */

int
violate(int code, const char *fmt, ...)
{
	char text[sizeof(last_text)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	pthread_mutex_lock(&note_lock);
	memcpy(last_text, text, sizeof(text));
	n_violations++;
	pthread_mutex_unlock(&note_lock);
	if (getenv("CUDA_STANDIN_VERBOSE"))
		fprintf(stderr, "stand-in driver: %s (%d)\n", text, code);
	return code;
}

static uint64_t
violations(void)
{
	uint64_t n;

	pthread_mutex_lock(&note_lock);
	n = n_violations;
	pthread_mutex_unlock(&note_lock);
	return n;
}

static char *
last_violation(char *buf, size_t buf_bytes)
{
	pthread_mutex_lock(&note_lock);
	snprintf(buf, buf_bytes, "%s", last_text);
	pthread_mutex_unlock(&note_lock);
	return buf;
}

static void
violations_reset(void)
{
	pthread_mutex_lock(&note_lock);
	n_violations = 0;
	last_text[0] = '\0';
	pthread_mutex_unlock(&note_lock);
}

/* ---- injected failures ---- */

static int
rule_parse(const char *text, size_t length, struct rule *rule)
{
	const char *end = text + length, *colon = memchr(text, ':', length);
	size_t name_length = (size_t)((colon ? colon : end) - text);
	char *rest;

	*rule = (struct rule){.call = -2, .nth = 1, .code = CU_ERROR_OPERATING_SYSTEM};
	if (name_length == 1 && *text == '*')
		rule->call = -1;
	for (int i = 0; i < CALL_COUNT; i++)
		if (strlen(call_names[i]) == name_length &&
		    !memcmp(call_names[i], text, name_length))
			rule->call = i;
	if (rule->call == -2)
		return -1;
	if (!colon)
		return 0;
	rule->nth = strtoull(colon + 1, &rest, 10);
	if (rest == colon + 1 || !rule->nth)
		return -1;
	if (rest < end && *rest == '+') {
		rule->for_ever = 1;
		rest++;
	}
	if (rest < end && *rest == ':')
		rule->code = (int)strtol(rest + 1, &rest, 10);
	return rest == end && rule->code > 0 ? 0 : -1;
}

static int
fail_set(const char *spec)
{
	struct rule parsed[RULES_MAX];
	unsigned n = 0;

	while (spec && *spec) {
		size_t length = strcspn(spec, ",");

		if (n == RULES_MAX || rule_parse(spec, length, &parsed[n++]))
			return -1;
		spec += length + (spec[length] == ',');
	}
	pthread_mutex_lock(&note_lock);
	memcpy(rules, parsed, n * sizeof(*rules));
	n_fired = 0;
	atomic_store(&n_rules, n);
	pthread_mutex_unlock(&note_lock);
	return 0;
}

static uint64_t
fail_fired(void)
{
	uint64_t n;

	pthread_mutex_lock(&note_lock);
	n = n_fired;
	pthread_mutex_unlock(&note_lock);
	return n;
}

/* Not counted with all calls: no call of the driver, or one that is asked as often as time allows. */
static int
call_is_question(enum call call)
{
	return call >= CALL_PAGEABLE || call == CALL_cuEventQuery ||
	       call == CALL_cuStreamQuery;
}

/* Code of the failure that is due, or 0. */
static int
fail_due(enum call call)
{
	int code = 0;

	if (!atomic_load(&n_rules))
		return 0;
	pthread_mutex_lock(&note_lock);
	for (unsigned i = 0; i < atomic_load(&n_rules); i++) {
		struct rule *rule = &rules[i];

		if (rule->call != (int)call && (rule->call != -1 || call_is_question(call)))
			continue;
		rule->seen++;
		if (!code &&
		    (rule->seen == rule->nth || (rule->for_ever && rule->seen > rule->nth)))
			code = rule->code;
	}
	if (code)
		n_fired++;
	pthread_mutex_unlock(&note_lock);
	return code;
}

static int
code_is_lost(int code)
{
	static const struct {
		int code, lost;
	} rows[] = {
#define RESULT_ROW(name, value, errno_value, is_lost) {value, is_lost},
		CU_RESULTS(RESULT_ROW)
#undef RESULT_ROW
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].code == code)
			return rows[i].lost;
	return 0;
}

/* ---- calls ---- */

void
call_count(enum call call)
{
	atomic_fetch_add_explicit(&counts[call], 1, memory_order_relaxed);
}

int
exec_enter(enum call call)
{
	call_count(call);
	return fail_due(call);
}

static int
call_refused(enum call call, enum needs needs, struct cu_context *current)
{
	int code = 0, captured;

	if (needs == NEEDS_NOTHING)
		return 0;
	if (the.forked)
		return violate(CU_ERROR_NOT_INITIALIZED, "%s: in a forked child",
			       call_name(call));
	if (in_host_function && (needs == NEEDS_VMM || needs == NEEDS_CONTEXT))
		return violate(CU_ERROR_NOT_PERMITTED, "%s: called in a host function",
			       call_name(call));
	pthread_mutex_lock(&the.lock);
	if (!the.ready)
		code = CU_ERROR_NOT_INITIALIZED;
	else if (needs == NEEDS_CONTEXT && !current)
		code = CU_ERROR_INVALID_CONTEXT;
	else if (needs == NEEDS_CONTEXT && !current->refs)
		code = CU_ERROR_CONTEXT_IS_DESTROYED;
	else if (needs == NEEDS_CONTEXT && current->lost)
		code = current->lost;
	captured = !code && captures_refuse(call);
	pthread_mutex_unlock(&the.lock);
	if (captured)
		return violate(
			CU_ERROR_STREAM_CAPTURE_UNSUPPORTED,
			"%s: a stream is being captured, and this thread has not said "
			"that it may be disregarded",
			call_name(call));
	if (code == CU_ERROR_NOT_INITIALIZED || code == CU_ERROR_INVALID_CONTEXT ||
	    code == CU_ERROR_CONTEXT_IS_DESTROYED)
		return violate(code, "%s: %s", call_name(call),
			       code == CU_ERROR_NOT_INITIALIZED ? "before cuInit"
			       : code == CU_ERROR_INVALID_CONTEXT
				       ? "no current context"
				       : "context was released");
	return code;
}

int
call_enter(enum call call, enum needs needs, struct cu_context **context)
{
	struct cu_context *current = context_current();
	int code;

	call_count(call);
	code = call_refused(call, needs, current);
	if (code)
		return code;
	code = fail_due(call);
	if (code && code_is_lost(code) && current && needs != NEEDS_NOTHING) {
		pthread_mutex_lock(&the.lock);
		context_lose(current, code);
		pthread_mutex_unlock(&the.lock);
	}
	if (code)
		return code;
	if (context)
		*context = current;
	return 0;
}

static uint64_t
calls(const char *name)
{
	uint64_t sum = 0;

	for (int i = 0; i < CALL_COUNT; i++)
		if (!strcmp(name, call_names[i]))
			return atomic_load(&counts[i]);
	if (strcmp(name, "*") != 0)
		return UINT64_MAX;
	for (int i = 0; i < CALL_PAGEABLE; i++)
		sum += atomic_load(&counts[i]);
	return sum;
}

static void
calls_reset(void)
{
	for (int i = 0; i < CALL_COUNT; i++)
		atomic_store(&counts[i], 0);
}

/* ---- handles ---- */

static struct object **
hash_slot(uintptr_t id)
{
	return &the.hash[(id >> 4) % HASH_SIZE];
}

uintptr_t
object_add(struct object *object, enum object_type type)
{
	struct object **slot;

	/* Looks like no address and no small number. */
	object->type = type;
	object->id = UINT64_C(0x0c0da00000000000) + (++the.last_id << 4);
	slot = hash_slot(object->id);
	object->hash_next = *slot;
	*slot = object;
	return object->id;
}

struct object *
object_find(const void *handle, enum object_type type)
{
	struct object *object = *hash_slot((uintptr_t)handle);

	while (object && (object->id != (uintptr_t)handle || object->type != type))
		object = object->hash_next;
	return object;
}

void
object_remove(struct object *object)
{
	struct object **slot = hash_slot(object->id);

	while (*slot != object)
		slot = &(*slot)->hash_next;
	*slot = object->hash_next;
}

/* ---- settings ---- */

static uint64_t
setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	char *end;
	uint64_t value;

	if (!text || !*text)
		return otherwise;
	value = strtoull(text, &end, 0);
	if (*end == 'K')
		value <<= 10;
	else if (*end == 'M')
		value <<= 20;
	else if (*end == 'G')
		value <<= 30;
	else if (*end) {
		fprintf(stderr, "stand-in driver: %s=%s cannot be read\n", name, text);
		abort();
	}
	return value;
}

void
settings_read(void)
{
	struct settings *s = &the.settings;

	s->n_devices = (int)setting("CUDA_STANDIN_DEVICES", 1);
	if (s->n_devices > DEVICES_MAX)
		s->n_devices = DEVICES_MAX;
	s->version = (int)setting("CUDA_STANDIN_VERSION", 13000);
	s->init = (int)setting("CUDA_STANDIN_INIT", 0);
	s->mig = getenv("CUDA_STANDIN_MIG");
	s->no_vmm = getenv("CUDA_STANDIN_NO_VMM") != NULL;
	s->no_mixed = getenv("CUDA_STANDIN_NO_MIXED") != NULL;
	s->no_host_vmm = getenv("CUDA_STANDIN_NO_HOST_VMM") != NULL;
	s->fill = (int)setting("CUDA_STANDIN_FILL", 0) & 0xff;
	s->strict = getenv("CUDA_STANDIN_STRICT") != NULL;
	s->n_blocks = (unsigned)setting("CUDA_STANDIN_BLOCKS", 1);
	s->device_bytes = setting("CUDA_STANDIN_DEVICE_BYTES", UINT64_C(256) << 20);
	s->host_bytes = setting("CUDA_STANDIN_HOST_BYTES", UINT64_C(1) << 30);
	s->late_ns = setting("CUDA_STANDIN_LATE_US", 0) * 1000;
	s->pin_bytes_per_s = setting("CUDA_STANDIN_PIN_BYTES_PER_S", 0);
	s->copy_bytes_per_s = setting("CUDA_STANDIN_COPY_BYTES_PER_S", 0);
	s->link_bytes_per_s = setting("CUDA_STANDIN_LINK_BYTES_PER_S", 0);
	if (getenv("CUDA_STANDIN_FAIL") && fail_set(getenv("CUDA_STANDIN_FAIL"))) {
		fputs("stand-in driver: CUDA_STANDIN_FAIL cannot be read\n", stderr);
		abort();
	}
}

/* ---- for tests ---- */

static void
lose_context(int device, int code)
{
	pthread_mutex_lock(&the.lock);
	if (device >= 0 && device < DEVICES_MAX)
		context_lose(&the.contexts[device], code);
	pthread_mutex_unlock(&the.lock);
}

static void
memory_taken_set(int device, uint64_t bytes)
{
	pthread_mutex_lock(&the.lock);
	if (device >= 0 && device < DEVICES_MAX)
		the.device_taken[device] = bytes;
	pthread_mutex_unlock(&the.lock);
}

static void
copies_hold(int which)
{
	pthread_mutex_lock(&the.lock);
	the.copies_held = which;
	pthread_mutex_unlock(&the.lock);
}

static int
mapped(int device, uint64_t addr, size_t bytes, int access)
{
	int yes;

	pthread_mutex_lock(&the.lock);
	yes = !view_check(device, addr, bytes, access);
	pthread_mutex_unlock(&the.lock);
	return yes;
}

static uint64_t
reached(void)
{
	uint64_t bytes;

	pthread_mutex_lock(&the.lock);
	bytes = the.reached;
	pthread_mutex_unlock(&the.lock);
	return bytes;
}

static int
peek(int device, uint64_t addr, void *to, size_t bytes)
{
	int rc = -1;

	pthread_mutex_lock(&the.lock);
	if (!view_check(device, addr, bytes, SL_STANDIN_READ)) {
		memcpy(to, view_pointer(addr), bytes);
		rc = 0;
	}
	pthread_mutex_unlock(&the.lock);
	return rc;
}

static void
live(struct sl_standin_live *out)
{
	pthread_mutex_lock(&the.lock);
	*out = the.live;
	out->host_bytes = the.host_used;
	for (int i = 0; i < DEVICES_MAX; i++)
		out->contexts += the.contexts[i].refs > 0;
	pthread_mutex_unlock(&the.lock);
}

EXPORT const struct sl_standin *
sl_standin_table(void)
{
	static const struct sl_standin table = {
		.ptr = kernel_ptr,
		.drop = kernel_drop,
		.pause = kernel_pause,
		.kernel_register = kernel_register,
		.violations = violations,
		.last_violation = last_violation,
		.violations_reset = violations_reset,
		.calls = calls,
		.calls_reset = calls_reset,
		.fail_set = fail_set,
		.fail_fired = fail_fired,
		.lose_context = lose_context,
		.stream_capture = stream_capture,
		.memory_taken_set = memory_taken_set,
		.copies_hold = copies_hold,
		.mapped = mapped,
		.peek = peek,
		.reached = reached,
		.live = live,
	};

	return &table;
}

/* At exit: let workers of destroyed streams leave (a leak checker runs next), then say what is
 * left. Contexts may stay: a process need not release its primary context. */
__attribute__((destructor)) static void
state_leave(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct sl_standin_live left;
	unsigned n = 1;

	if (!the.ready || the.forked)
		return;
	for (int i = 0; i < 1000 && n; i++) {
		pthread_mutex_lock(&the.lock);
		n = the.n_workers_leaving;
		pthread_mutex_unlock(&the.lock);
		if (n)
			nanosleep(&pause, NULL);
	}
	live(&left);
	n = left.handles || left.mappings || left.reservations || left.plain ||
	    left.pinned || left.registered || left.streams || left.events ||
	    left.modules || left.graphs;
	if (n && !getenv("CUDA_STANDIN_QUIET"))
		fprintf(stderr,
			"stand-in driver: left at exit: %zu handles, %zu mappings, %zu "
			"reservations, %zu plain allocations, %zu pinned and %zu "
			"registered "
			"blocks, %zu streams, %zu events, %zu modules, %zu graphs\n",
			left.handles, left.mappings, left.reservations, left.plain,
			left.pinned, left.registered, left.streams, left.events,
			left.modules, left.graphs);
	if (the.settings.strict && n_violations)
		fprintf(stderr, "stand-in driver: %llu rules broken, the last: %s\n",
			(unsigned long long)n_violations, last_text);
	if (the.settings.strict && (n || n_violations)) {
		fflush(NULL);
		_exit(STRICT_EXIT);
	}
}
