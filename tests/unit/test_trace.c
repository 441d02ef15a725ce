/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces: building and its refusals, the check of the whole, and the two forms of files:
 * that they read back as they were, at any cut as incomplete, with any bit wrong as
 * damaged (binary), and that every contradiction is named with its line or record.
 */
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/rng.h"
#include "trace/trace_format.h"
#include "unit/cmocka_all.h"

static void
assert_ok(int rc)
{
	if (rc)
		fail_msg("%d: %s", rc, sluice_last_error());
}

static void
assert_refused(int rc, const char *message)
{
	if (rc != -EINVAL || !strstr(sluice_last_error(), message))
		fail_msg("%d: \"%s\" has no \"%s\"", rc, sluice_last_error(), message);
}

/* Two periods of three launches over five tensors, with everything that a trace can
 * have. */
static struct sl_trace *
sample_make(void)
{
	struct sl_trace *trace;
	uint32_t weight, out, scratch, fresh, late;

	assert_ok(sl_trace_create(1000000000, &trace));
	assert_ok(sl_trace_set_source(trace, "a sample"));
	assert_ok(sl_trace_add_tensor(trace, 1 << 20, SL_TENSOR_GLOBAL, "weight", &weight));
	assert_ok(sl_trace_add_tensor(trace, 12345, SL_TENSOR_LOCAL, "out", &out));
	assert_ok(sl_trace_add_tensor(trace, 1, SL_TENSOR_WORKSPACE, NULL, &scratch));
	assert_ok(sl_trace_add_tensor(trace, SL_TRACE_SIZE_MAX, SL_TENSOR_LOCAL,
				      "fresh one", &fresh));
	assert_ok(sl_trace_add_tensor(trace, 64, SL_TENSOR_LOCAL, "weight", &late));
	trace->tensors[fresh].alloc_at = 1;
	trace->tensors[fresh].free_at = 2;
	trace->tensors[late].alloc_at = 6;
	trace->tensors[late].free_at = 6;
	for (int period = 0; period < 2; period++) {
		assert_ok(sl_trace_add_period(trace));
		if (period == 0)
			assert_ok(sl_trace_add_copy(trace, weight, 1, 1 << 20));
		assert_ok(sl_trace_add_launch(trace, 100, "forward", NULL));
		assert_ok(sl_trace_add_use(trace, out, SLUICE_USE_WRITE_ALL));
		assert_ok(sl_trace_add_use(trace, weight, SLUICE_USE_READ));
		assert_ok(sl_trace_add_launch(trace, 7, "loss", NULL));
		if (period == 0)
			assert_ok(sl_trace_add_use(trace, fresh, SLUICE_USE_WRITE));
		trace->launches[trace->n_launches - 1].fault_output_ticks = 8;
		trace->launches[trace->n_launches - 1].fault_all_ticks = 9;
		assert_ok(sl_trace_add_launch_at(trace, 1000u + 1000u * (unsigned)period,
						 50, "forward", NULL));
		assert_ok(sl_trace_add_use(trace, scratch, SLUICE_USE_SCRATCH));
		assert_ok(sl_trace_add_use(trace, out, SLUICE_USE_READ_WRITE));
	}
	assert_ok(sl_trace_add_copy(trace, out, 0, 45));
	trace->n_forward = 1;
	assert_ok(sl_trace_check(trace));
	return trace;
}

/* ---- building ---- */

static void
uses_are_sorted_and_joined(void **state)
{
	static const struct {
		enum sluice_intent a, b, both;
	} rows[] = {
		{SLUICE_USE_READ, SLUICE_USE_READ, SLUICE_USE_READ},
		{SLUICE_USE_READ, SLUICE_USE_WRITE_ALL, SLUICE_USE_READ_WRITE},
		{SLUICE_USE_WRITE_ALL, SLUICE_USE_READ, SLUICE_USE_READ_WRITE},
		{SLUICE_USE_WRITE, SLUICE_USE_READ, SLUICE_USE_READ_WRITE},
		{SLUICE_USE_WRITE, SLUICE_USE_WRITE_ALL, SLUICE_USE_WRITE_ALL},
		{SLUICE_USE_READ_WRITE, SLUICE_USE_WRITE_ALL, SLUICE_USE_READ_WRITE},
		{SLUICE_USE_SCRATCH, SLUICE_USE_SCRATCH, SLUICE_USE_SCRATCH},
	};
	struct sl_trace *trace;

	(void)state;
	assert_ok(sl_trace_create(1, &trace));
	for (uint32_t t = 0; t < 40; t++)
		assert_ok(sl_trace_add_tensor(trace, 1, SL_TENSOR_LOCAL, NULL, NULL));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t at;

		assert_ok(sl_trace_add_launch(trace, 1, NULL, &at));
		for (uint32_t j = 0; j < 40; j++)
			assert_ok(sl_trace_add_use(trace, (j * 7 + 3) % 40, rows[i].a));
		assert_ok(sl_trace_add_use(trace, 20, rows[i].b));
		assert_int_equal(trace->launches[at].n_uses, 40);
		for (uint32_t j = 0; j < 40; j++) {
			const struct sl_trace_use *use =
				&trace->uses[trace->launches[at].first_use + j];

			assert_int_equal(use->tensor, j);
			assert_int_equal(use->intent, j == 20 ? rows[i].both : rows[i].a);
		}
	}
	assert_ok(sl_trace_check(trace));
	assert_refused(sl_trace_add_use(trace, 1, SLUICE_USE_READ),
		       "as scratch and otherwise");
	sl_trace_destroy(trace);
}

static void
names_are_kept_once(void **state)
{
	struct sl_trace *trace;
	char name[32];

	(void)state;
	assert_ok(sl_trace_create(1, &trace));
	for (uint32_t i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "name%u", i % 100);
		assert_ok(sl_trace_add_tensor(trace, 1, SL_TENSOR_LOCAL, name, NULL));
	}
	for (uint32_t i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "name%u", i % 100);
		assert_string_equal(sl_trace_name(trace, trace->tensors[i].name), name);
		assert_int_equal(trace->tensors[i].name, trace->tensors[i % 100].name);
	}
	assert_int_equal(trace->strings_bytes, 10 * 6 + 90 * 7);
	assert_string_equal(sl_trace_name(trace, SL_TRACE_NONE), "");
	sl_trace_destroy(trace);
}

static void
impossible_records_are_refused_and_change_nothing(void **state)
{
	struct sl_trace *trace;
	char longer[SL_TRACE_NAME_MAX + 2];

	(void)state;
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_refused(sl_trace_create(0, &trace), "0 Hz");
	assert_refused(sl_trace_create(UINT64_MAX, &trace), "Hz");
	trace = sample_make();
	assert_refused(sl_trace_add_tensor(trace, 0, SL_TENSOR_LOCAL, NULL, NULL),
		       "tensor 5");
	assert_refused(sl_trace_add_tensor(trace, (uint64_t)1 << 63, SL_TENSOR_LOCAL,
					   NULL, NULL),
		       "9223372036854775808 bytes");
	assert_refused(sl_trace_add_tensor(trace, 1, SL_TENSOR_KIND_COUNT, NULL, NULL),
		       "kind");
	assert_refused(sl_trace_add_tensor(trace, 1, SL_TENSOR_LOCAL, longer, NULL),
		       "longer");
	assert_refused(sl_trace_add_tensor(trace, 1, SL_TENSOR_LOCAL, "a\nb", NULL),
		       "control");
	assert_refused(sl_trace_add_tensor(trace, 1, SL_TENSOR_LOCAL, " a", NULL),
		       "blank");
	assert_refused(sl_trace_set_source(trace, "a\x7f"), "control");
	assert_refused(sl_trace_add_launch(trace, 0, NULL, NULL), "launch 6 lasts 0");
	assert_refused(sl_trace_add_launch(trace, UINT64_MAX, NULL, NULL), "launch 6");
	assert_refused(sl_trace_add_launch_at(trace, 2049, 1, NULL, NULL),
		       "may not overlap");
	assert_refused(sl_trace_add_launch_at(trace, SL_TRACE_TICKS_MAX, 1, NULL, NULL),
		       "2^56");
	assert_refused(sl_trace_add_use(trace, 5, SLUICE_USE_READ),
		       "there are 5 tensors");
	assert_refused(sl_trace_add_use(trace, 0, SLUICE_USE_COUNT), "intent");
	assert_refused(sl_trace_add_copy(trace, 0, 1, 0), "0 bytes");
	assert_refused(sl_trace_add_copy(trace, 0, 1, (1 << 20) + 1),
		       "tensor 0 has 1048576");
	assert_refused(sl_trace_add_copy(trace, 9, 1, 1), "tensor 9");
	assert_ok(sl_trace_add_period(trace));
	assert_refused(sl_trace_add_period(trace), "period 2 has no launches");
	assert_refused(sl_trace_check(trace), "period 2 has no launches");
	trace->n_periods = 2;
	assert_ok(sl_trace_check(trace));
	assert_int_equal(trace->n_tensors, 5);
	assert_int_equal(trace->n_launches, 6);
	sl_trace_destroy(trace);
}

static void
check_names_what_contradicts(void **state)
{
	static const struct {
		const char *message;
		int what;
	} rows[] = {
		{"no launches", 0},
		{"is freed (before launch 1) before it is allocated (before launch 2)", 1},
		{"launch 1 uses tensor 3 (fresh one), which was freed before launch 1", 2},
		{"launch 1 uses tensor 3 (fresh one), which is allocated only before "
		 "launch 2",
		 3},
		{"launch 2 starts at tick 50", 4},
		{"workspace 2 is used by launch 2 and by launch 5", 5},
		{"a copy before launch 6 uses tensor 1 (out), which was freed before "
		 "launch 5",
		 6},
		{"launch 1: times with faults", 7},
		{"the forward pass has 3 launches", 8},
		{"tensor 4 is freed (before launch 6) but neither allocated nor used", 9},
		{"launch 0 lists tensor 1 after tensor 1", 10},
		{"launch 0 uses tensor 77", 11},
		{"the uses of launch 1 do not follow", 12},
		{"2^62", 13},
		{"copies must ascend", 14},
		{"tensor 0 has 0 bytes", 15},
		{"tensor 1 has a ratio of 10001", 16},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sl_trace *trace = sample_make();

		switch (rows[i].what) {
		case 0:
			trace->n_launches = 0;
			break;
		case 1:
			trace->tensors[3].alloc_at = 2;
			trace->tensors[3].free_at = 1;
			break;
		case 2:
			trace->tensors[3].free_at = 1;
			break;
		case 3:
			trace->tensors[3].alloc_at = 2;
			break;
		case 4:
			trace->launches[2].start_ticks = 50;
			break;
		case 5:
			trace->n_periods = 1;
			trace->period_first[1] = 6;
			break;
		case 6:
			trace->uses[trace->launches[5].first_use].tensor = 0;
			trace->tensors[1].free_at = 5;
			break;
		case 7:
			trace->launches[1].fault_all_ticks = 7;
			break;
		case 8:
			trace->n_forward = 3;
			break;
		case 9:
			trace->tensors[4].alloc_at = SL_TRACE_NONE;
			break;
		case 10:
			trace->uses[0].tensor = 1;
			break;
		case 11:
			trace->uses[1].tensor = 77;
			break;
		case 12:
			trace->launches[1].first_use++;
			break;
		case 13:
			for (int t = 0; t < 4097; t++)
				assert_ok(sl_trace_add_tensor(trace, SL_TRACE_SIZE_MAX,
							      SL_TENSOR_LOCAL, NULL, NULL));
			break;
		case 14:
			trace->copies[0].before_launch = 7;
			trace->copies[1].before_launch = 3;
			trace->copies[0].before_launch = 4;
			break;
		case 15:
			trace->tensors[0].size_bytes = 0;
			break;
		case 16:
			trace->tensors[1].ratio = SL_TRACE_RATIO_ONE + 1;
			break;
		}
		assert_refused(sl_trace_check(trace), rows[i].message);
		sl_trace_destroy(trace);
	}
}

/* ---- files ---- */

struct bytes {
	char *data;
	size_t n;
};

static struct bytes
written(const struct sl_trace *trace, int text)
{
	char path[] = "/tmp/test_trace.XXXXXX";
	struct bytes bytes;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_ok(sl_trace_write(trace, path, text));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	bytes.n = (size_t)lseek(fd, 0, SEEK_END);
	bytes.data = malloc(bytes.n + 1);
	assert_non_null(bytes.data);
	assert_int_equal(pread(fd, bytes.data, bytes.n, 0), bytes.n);
	bytes.data[bytes.n] = '\0';
	close(fd);
	unlink(path);
	return bytes;
}

static void
assert_same(const struct sl_trace *a, const struct sl_trace *b)
{
	assert_int_equal(a->clock_hz, b->clock_hz);
	assert_string_equal(a->source, b->source);
	assert_int_equal(a->n_forward, b->n_forward);
	assert_int_equal(a->n_tensors, b->n_tensors);
	for (uint32_t t = 0; t < a->n_tensors; t++) {
		const struct sl_tensor *x = &a->tensors[t], *y = &b->tensors[t];

		assert_int_equal(x->size_bytes, y->size_bytes);
		assert_int_equal(x->kind, y->kind);
		assert_int_equal(x->alloc_at, y->alloc_at);
		assert_int_equal(x->free_at, y->free_at);
		assert_int_equal(x->ratio, y->ratio);
		assert_string_equal(sl_trace_name(a, x->name), sl_trace_name(b, y->name));
	}
	assert_int_equal(a->n_launches, b->n_launches);
	for (uint32_t k = 0; k < a->n_launches; k++) {
		const struct sl_trace_launch *x = &a->launches[k], *y = &b->launches[k];

		assert_int_equal(x->start_ticks, y->start_ticks);
		assert_int_equal(x->ticks, y->ticks);
		assert_int_equal(x->fault_output_ticks, y->fault_output_ticks);
		assert_int_equal(x->fault_all_ticks, y->fault_all_ticks);
		assert_int_equal(x->first_use, y->first_use);
		assert_int_equal(x->n_uses, y->n_uses);
		assert_string_equal(sl_trace_name(a, x->name), sl_trace_name(b, y->name));
	}
	assert_int_equal(a->n_uses, b->n_uses);
	assert_memory_equal(a->uses, b->uses, a->n_uses * sizeof(*a->uses));
	assert_int_equal(a->n_copies, b->n_copies);
	for (uint32_t i = 0; i < a->n_copies; i++) {
		assert_int_equal(a->copies[i].before_launch, b->copies[i].before_launch);
		assert_int_equal(a->copies[i].tensor, b->copies[i].tensor);
		assert_int_equal(a->copies[i].to_device, b->copies[i].to_device);
		assert_int_equal(a->copies[i].bytes, b->copies[i].bytes);
	}
	assert_int_equal(a->n_periods, b->n_periods);
	assert_memory_equal(a->period_first, b->period_first,
			    (a->n_periods + 1) * sizeof(*a->period_first));
}

static void
both_forms_read_back_as_they_were(void **state)
{
	struct sl_trace *trace = sample_make();

	(void)state;
	for (int text = 0; text < 2; text++) {
		struct bytes bytes = written(trace, text), again;
		struct sl_trace *back;

		assert_ok(sl_trace_decode(bytes.data, bytes.n, "bytes", &back));
		assert_same(trace, back);
		again = written(back, text);
		assert_int_equal(bytes.n, again.n);
		assert_memory_equal(bytes.data, again.data, bytes.n);
		free(bytes.data);
		free(again.data);
		sl_trace_destroy(back);
	}
	sl_trace_destroy(trace);
}

static void
sample_looks_as_the_manual_says(void **state)
{
	struct sl_trace *trace = sample_make();
	struct bytes text = written(trace, 1);

	(void)state;
	assert_string_equal(
		text.data,
		"sluice-trace 1\n"
		"clock 1000000000\n"
		"source a sample\n"
		"forward 1\n"
		"# tensor NUMBER BYTES KIND NAME\n"
		"tensor 0 1048576 global weight\n"
		"tensor 1 12345 local out\n"
		"tensor 2 1 workspace\n"
		"tensor 3 1125899906842624 local fresh one\n"
		"tensor 4 64 local weight\n"
		"# launch NUMBER START TICKS WITH-OUTPUT-FAULTS WITH-ALL-FAULTS NAME\n"
		"period 0\n"
		"copy-in 0 1048576\n"
		"launch 0 0 100 0 0 forward\n"
		"\tuse 0 read\n"
		"\tuse 1 write-all\n"
		"alloc 3\n"
		"launch 1 100 7 8 9 loss\n"
		"\tuse 3 write\n"
		"free 3\n"
		"launch 2 1000 50 0 0 forward\n"
		"\tuse 1 read-write\n"
		"\tuse 2 scratch\n"
		"period 1\n"
		"launch 3 1050 100 0 0 forward\n"
		"\tuse 0 read\n"
		"\tuse 1 write-all\n"
		"launch 4 1150 7 8 9 loss\n"
		"launch 5 2000 50 0 0 forward\n"
		"\tuse 1 read-write\n"
		"\tuse 2 scratch\n"
		"alloc 4\n"
		"copy-out 1 45\n"
		"free 4\n"
		"end 6 5 9\n");
	free(text.data);
	sl_trace_destroy(trace);
}

/* A file of each version, in both forms; what knows only the first reads those without ratios. */
static void
ratios_are_in_files_of_version_2(void **state)
{
	struct sl_trace *trace = sample_make(), *back, *cut;

	(void)state;
	for (int text = 0; text < 2; text++) {
		struct bytes without = written(trace, text), with;

		trace->tensors[0].ratio = 6874;
		trace->tensors[1].ratio = SL_TRACE_RATIO_ONE;
		trace->tensors[2].ratio = 1;
		with = written(trace, text);
		if (text) {
			assert_memory_equal(with.data, "sluice-trace 2\n", 15);
			assert_non_null(
				strstr(with.data, "global weight\nratio 0 6874\n"));
			assert_non_null(strstr(with.data, "ratio 1 10000\ntensor 2 1"));
		} else {
			assert_int_equal(without.data[SL_TRACE_MAGIC_BYTES], 1);
			assert_int_equal(with.data[SL_TRACE_MAGIC_BYTES], 2);
		}
		assert_ok(sl_trace_decode(with.data, with.n, "with", &back));
		assert_same(trace, back);
		assert_ok(sl_trace_cut(back, 1, &cut));
		assert_int_equal(cut->tensors[0].ratio, 6874);
		assert_int_equal(cut->tensors[2].ratio, 1);
		sl_trace_destroy(cut);
		sl_trace_destroy(back);
		for (uint32_t t = 0; t < trace->n_tensors; t++)
			trace->tensors[t].ratio = 0;
		assert_ok(sl_trace_decode(without.data, without.n, "without", &back));
		assert_same(trace, back);
		sl_trace_destroy(back);
		free(without.data);
		free(with.data);
	}
	sl_trace_destroy(trace);
}

static void
every_cut_is_found(void **state)
{
	struct sl_trace *trace = sample_make(), *back = NULL;

	(void)state;
	trace->tensors[0].ratio = 6874;
	for (int text = 0; text < 2; text++) {
		struct bytes bytes = written(trace, text);

		/* The text's last newline may be missing. */
		for (size_t n = 0; n < bytes.n - (size_t)text; n++) {
			char *cut = malloc(n + 1);

			memcpy(cut, bytes.data, n);
			if (sl_trace_decode(cut, n, "cut", &back) != -EINVAL)
				fail_msg("the first %zu bytes were taken for a trace", n);
			free(cut);
		}
		free(bytes.data);
	}
	assert_null(back);
	sl_trace_destroy(trace);
}

static void
every_wrong_bit_of_the_binary_form_is_found(void **state)
{
	struct sl_trace *trace = sample_make(), *back;
	struct bytes bytes;

	(void)state;
	trace->tensors[0].ratio = 6874;
	bytes = written(trace, 0);
	for (size_t bit = 0; bit < bytes.n * 8; bit++) {
		bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		if (!sl_trace_decode(bytes.data, bytes.n, "bytes", &back))
			fail_msg("bit %zu may be wrong", bit);
		bytes.data[bit / 8] ^= (char)(1 << bit % 8);
	}
	free(bytes.data);
	sl_trace_destroy(trace);
}

static void
crc_is_the_usual_one(void **state)
{
	(void)state;
	assert_int_equal(sl_trace_crc(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(sl_trace_crc(sl_trace_crc(0, "1234", 4), "56789", 5), 0xcbf43926);
}

#define HEAD  "sluice-trace 1\nclock 1000\n"
#define TWO   HEAD "tensor 0 10 local\ntensor 1 10 local\nperiod 0\n"
#define RATIO "sluice-trace 2\nclock 1000\ntensor 0 10 local\n"

static void
contradictions_in_text_are_named_with_their_line(void **state)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"", "not a trace"},
		{"sluice-trace", "line 1: the version is missing"},
		{"sluice-traces 1\n", "line 1: the first word"},
		{"sluice-trace x\n", "line 1: the version is not a whole number"},
		{"sluice-trace 1\nend 0 0 0\n", "no launches"},
		{"sluice-trace 1\ntensor 0 1 local\n",
		 "line 2: the first record must be the clock"},
		{"sluice-trace 1\nclock 0\n", "line 2: a clock of 0 Hz"},
		{HEAD "clock 1000\n", "line 3: a second clock"},
		{HEAD "hello\n", "line 3: \"hello\" begins no record"},
		{HEAD "tensor 0 0 local\n", "line 3: trace: tensor 0 has 0 bytes"},
		{HEAD "tensor 0 9223372036854775808 local\n", "line 3: trace: tensor 0"},
		{HEAD "tensor 0 99999999999999999999 local\n",
		 "line 3: the tensor's size is beyond"},
		{HEAD "tensor 0 -4 local\n", "line 3: the tensor's size is negative"},
		{HEAD "tensor 1 4 local\n",
		 "line 3: the tensor's number is 1; the next is 0"},
		{HEAD "tensor 0 4 locale\n", "line 3: \"locale\" is no kind"},
		{HEAD "launch 0 0 1 0 0\n", "line 3: a launch before the first period"},
		{HEAD "period 1\n", "line 3: the period's number is 1"},
		{HEAD "period 0 0\n", "line 3: \"0\" is too much"},
		{HEAD "period 0\nperiod 1\n", "line 4: a period without launches"},
		{HEAD "period 0\nuse 0 read\n",
		 "line 4: a use of tensor 0, which has not been"},
		{TWO "use 0 read\n", "line 6: a use before the first launch"},
		{TWO "launch 0 0 0 0 0\n", "line 6: trace: launch 0 lasts 0"},
		{TWO "launch 0 -1 1 0 0\n", "line 6: the start is negative"},
		{TWO "launch 0 0 5 0 0\nlaunch 1 4 5 0 0\n",
		 "line 7: trace: launch 1 starts"},
		{TWO "launch 0 0 5 0 0\nlaunch 2 5 5 0 0\n",
		 "line 7: the launch's number is 2"},
		{TWO "launch 0 0 5 4 9\n",
		 "line 6: a launch of 5 ticks with fault times 4"},
		{TWO "launch 0 0 5 6 5\n", "they must not fall"},
		{TWO "launch 0 0 5 0 0\nuse 1 read\nuse 0 read\n",
		 "line 8: a use of tensor 0 after"},
		{TWO "launch 0 0 5 0 0\nuse 1 read\nuse 1 read\n",
		 "line 8: a use of tensor 1 after"},
		{TWO "launch 0 0 5 0 0\nuse 1 look\n", "line 7: \"look\" is no intent"},
		{TWO "free 0\n", "line 6: a free of tensor 0 before its alloc"},
		{TWO "alloc 0\nfree 0\nlaunch 0 0 5 0 0\nuse 0 read\n",
		 "line 9: a use of tensor 0 after its free"},
		{TWO "alloc 0\nfree 0\nfree 0\n", "line 8: a second free"},
		{TWO "alloc 0\nalloc 0\n", "line 7: a second alloc"},
		{TWO "alloc 0\nfree 0\nalloc 0\n",
		 "line 8: an alloc of tensor 0 after its free"},
		{TWO "launch 0 0 5 0 0\nuse 0 read\nalloc 0\n",
		 "line 8: an alloc of tensor 0 after its first use"},
		{TWO "copy-in 0 11\n", "line 6: trace: copy 0 is of 11 bytes"},
		{TWO "copy-in 2 1\n", "line 6: a copy of tensor 2"},
		{TWO "launch 0 0 5 0 0\nend 2 2 0\n",
		 "line 7: the end states 2 launches"},
		{TWO "launch 0 0 5 0 0\nend 1 2 0\nperiod 1\n",
		 "line 8: a record behind the end"},
		{TWO "launch 0 0 5 0 0\n", "line 7: the file ends without an end record"},
		{HEAD "forward 7\nperiod 0\nlaunch 0 0 5 0 0\nend 1 0 0\n",
		 "text: trace: the forward pass has 7"},
		{TWO "ratio 0 5\n", "line 6: a ratio in a file of version 1"},
		{RATIO "ratio 0\n", "line 4: the ratio is missing"},
		{RATIO "ratio 1 5\n", "line 4: a ratio of tensor 1, which has not been"},
		{RATIO "ratio 0 0\n",
		 "line 4: a ratio of 0 of tensor 0; it must be 1 to 10000"},
		{RATIO "ratio 0 10001\n", "line 4: a ratio of 10001 of tensor 0"},
		{RATIO "ratio 0 -1\n", "line 4: the ratio is negative"},
		{RATIO "ratio 0 0.7\n", "line 4: the ratio is not a whole number"},
		{RATIO "ratio 0 7000\nratio 0 7000\n",
		 "line 5: a second ratio of tensor 0"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sl_trace *trace = NULL;

		assert_refused(sl_trace_decode(rows[i].text, strlen(rows[i].text), "text",
					       &trace),
			       rows[i].message);
		assert_null(trace);
	}
}

static void
text_may_have_comments_blanks_and_foreign_line_ends(void **state)
{
	static const char text[] = "sluice-trace 1\r\n\n# a comment\n  clock   1000 \r\n"
				   "tensor 0 10 global  two  words \nperiod 0\n"
				   "launch 0 0 5 0 0\n\tuse 0 read-write\nend 1 1 1";
	struct sl_trace *trace;

	(void)state;
	assert_ok(sl_trace_decode(text, strlen(text), "text", &trace));
	assert_string_equal(sl_trace_name(trace, trace->tensors[0].name), "two  words");
	assert_int_equal(trace->n_uses, 1);
	sl_trace_destroy(trace);
}

static void
other_versions_are_refused_as_such(void **state)
{
	static const char binary[] = SL_TRACE_MAGIC "\x07";
	static const char text[] = "sluice-trace 3\nanything\n";
	static const char none[] = "sluice-trace 0\nanything\n";
	struct sl_trace *trace = NULL;

	(void)state;
	assert_int_equal(sl_trace_decode(binary, sizeof(binary) - 1, "b", &trace), -ENOTSUP);
	assert_non_null(strstr(sluice_last_error(), "b: version 7 of the trace format"));
	assert_int_equal(sl_trace_decode(text, sizeof(text) - 1, "t", &trace), -ENOTSUP);
	assert_non_null(strstr(sluice_last_error(), "version 3 of the trace format"));
	assert_non_null(strstr(sluice_last_error(), "reads versions 1 to 2"));
	assert_int_equal(sl_trace_decode(none, sizeof(none) - 1, "t", &trace), -ENOTSUP);
	assert_null(trace);
}

static void
wrong_binary_records_are_named_with_their_place(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *message;
	} rows[] = {
#define ROW(bytes, message) \
	{SL_TRACE_MAGIC "\x01" bytes, sizeof(SL_TRACE_MAGIC "\x01" bytes) - 1, message}
		ROW("", "record 0 at byte 8: the file ends"),
		ROW("\x1e", "record 0 at byte 8: a record of type 30"),
		ROW("\x01\x0a\x04\x0a\x01\x00\x0b\x00\x05",
		    "record 2 at byte 14: a ratio in a file of version 1"),
		ROW("\x01\x81\x00", "record 0 at byte 8: a number with needless zeros"),
		ROW("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
		    "a number above 2^64"),
		ROW("\x01\x0a\x09", "record 2 at byte 11: the file ends"),
		ROW("\x01\x0a\x0a\x00\x01\x00\x00\x00\x00",
		    "record 1 at byte 10: a launch before"),
		ROW("\x01\x0a\x04\x0a\x01\x05", "name 3 of 0"),
		ROW("\x01\x0a\x04\x0a\x01\x01\x00", "a name of 0 bytes"),
		ROW("\x01\x0a\x04\x0a\x01\x01\x7fx", "the file ends inside"),
		ROW("\x01\x0a\x04\x0a\x01\x01\x02x\x00", "a name with a zero byte"),
		ROW("\x01\x0a\x04\x0a\x07\x00", "a tensor of kind 7"),
		ROW("\x01\x0a\x00\x00\x00\x00\x11\x22\x33\x44", "the CRC does not match"),
#undef ROW
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sl_trace *trace = NULL;
		int rc = sl_trace_decode(rows[i].bytes, rows[i].n, "b", &trace);

		assert_refused(rc, rows[i].message);
		assert_null(trace);
	}
}

static void
bytes_behind_the_end_are_refused(void **state)
{
	struct sl_trace *trace = sample_make(), *back = NULL;
	struct bytes bytes = written(trace, 0);

	(void)state;
	bytes.data = realloc(bytes.data, bytes.n + 3);
	memset(bytes.data + bytes.n, 0, 3);
	assert_refused(sl_trace_decode(bytes.data, bytes.n + 3, "b", &back),
		       "3 bytes behind the end record");
	assert_null(back);
	free(bytes.data);
	sl_trace_destroy(trace);
}

static void
random_traces_survive_both_forms(void **state)
{
	uint64_t seed = 20240817;
	struct sl_rng rng;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	sl_rng_init(&rng, seed);
	for (int round = 0; round < 40; round++) {
		uint32_t n_tensors = 1 + (uint32_t)sl_rng_below(&rng, 60);
		uint32_t n_launches = 1 + (uint32_t)sl_rng_below(&rng, 80);
		struct sl_trace *trace;
		char name[32];

		assert_ok(sl_trace_create(1 + sl_rng_below(&rng, SL_TRACE_CLOCK_MAX), &trace));
		assert_ok(sl_trace_set_source(trace, "random"));
		for (uint32_t t = 0; t < n_tensors; t++) {
			snprintf(name, sizeof(name), "t%u", (unsigned)sl_rng_below(&rng, 20));
			assert_ok(sl_trace_add_tensor(
				trace, 1 + sl_rng_below(&rng, (uint64_t)1 << 40),
				(enum sl_tensor_kind)sl_rng_below(&rng, 2),
				sl_rng_below(&rng, 2) ? name : NULL, NULL));
			if (round % 2 && sl_rng_below(&rng, 2))
				trace->tensors[t].ratio =
					1 + (uint32_t)sl_rng_below(&rng, SL_TRACE_RATIO_ONE);
			if (sl_rng_below(&rng, 3) == 0) {
				struct sl_tensor *tensor = &trace->tensors[t];

				tensor->alloc_at = (uint32_t)sl_rng_below(&rng,
									  n_launches + 1);
				tensor->free_at = tensor->alloc_at +
						  (uint32_t)sl_rng_below(
							  &rng, n_launches + 1 -
									tensor->alloc_at);
			}
		}
		for (uint32_t k = 0; k < n_launches; k++) {
			uint64_t gap = sl_rng_below(&rng, 2) ? sl_rng_below(&rng, 1 << 20)
							     : 0;
			uint64_t start = gap;

			if (k > 0)
				start += trace->launches[k - 1].start_ticks +
					 trace->launches[k - 1].ticks;
			if (k > 0 && sl_rng_below(&rng, 10) == 0)
				assert_ok(sl_trace_add_period(trace));
			assert_ok(sl_trace_add_launch_at(trace, start,
							 1 + sl_rng_below(&rng, 1 << 30),
							 NULL, NULL));
			for (uint32_t t = 0; t < n_tensors; t++) {
				const struct sl_tensor *tensor = &trace->tensors[t];

				if (sl_rng_below(&rng, 4) ||
				    (tensor->alloc_at != SL_TRACE_NONE &&
				     (k < tensor->alloc_at || k >= tensor->free_at)))
					continue;
				assert_ok(sl_trace_add_use(trace, t,
							   (enum sluice_intent)sl_rng_below(
								   &rng, SLUICE_USE_COUNT)));
			}
		}
		assert_ok(sl_trace_check(trace));
		for (int text = 0; text < 2; text++) {
			struct bytes bytes = written(trace, text);
			struct sl_trace *back;

			assert_ok(sl_trace_decode(bytes.data, bytes.n, "bytes", &back));
			assert_same(trace, back);
			sl_trace_destroy(back);
			free(bytes.data);
		}
		sl_trace_destroy(trace);
	}
}

static void
files_that_cannot_be_are_errors(void **state)
{
	struct sl_trace *trace = NULL, *sample = sample_make();

	(void)state;
	assert_int_equal(sl_trace_read("/nowhere/trace", &trace), -ENOENT);
	assert_non_null(strstr(sluice_last_error(), "/nowhere/trace"));
	assert_int_equal(sl_trace_read("/", &trace), -EISDIR);
	assert_int_equal(sl_trace_write(sample, "/nowhere/trace", 0), -ENOENT);
	if (access("/dev/full", W_OK) == 0)
		assert_int_equal(sl_trace_write(sample, "/dev/full", 0), -ENOSPC);
	sample->n_launches = 0;
	assert_refused(sl_trace_write(sample, "/dev/null", 0), "/dev/null: not written");
	assert_null(trace);
	sl_trace_destroy(sample);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(uses_are_sorted_and_joined),
		T(names_are_kept_once),
		T(impossible_records_are_refused_and_change_nothing),
		T(check_names_what_contradicts),
		T(both_forms_read_back_as_they_were),
		T(sample_looks_as_the_manual_says),
		T(ratios_are_in_files_of_version_2),
		T(every_cut_is_found),
		T(every_wrong_bit_of_the_binary_form_is_found),
		T(crc_is_the_usual_one),
		T(contradictions_in_text_are_named_with_their_line),
		T(text_may_have_comments_blanks_and_foreign_line_ends),
		T(other_versions_are_refused_as_such),
		T(wrong_binary_records_are_named_with_their_place),
		T(bytes_behind_the_end_are_refused),
		T(random_traces_survive_both_forms),
		T(files_that_cannot_be_are_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
