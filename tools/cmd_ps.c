/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice ps`: the programs that share a GPU, from its book: what each wants, has and holds, and why it
 * has no more. Nothing is asked of the programs themselves, so a stopped one is listed, too.
 *
 * Threads: one.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/size.h"
#include "commands.h"
#include "json.h"
#include "share/book.h"
#include "sluice/sluice.h"

static const char ps_help[] =
	"Usage: sluice ps [--json]\n"
	"\n"
	"Show the programs of this user that share GPUs and host memory: how much each\n"
	"wants, has and holds, why it has no more, and whose turn it is.\n"
	"\n"
	"Options:\n"
	"      --json   print one JSON object\n"
	"  -h, --help   print this and exit\n";

struct ps_options {
	int as_json;
};

/* The programs on one GPU, or in host memory. */
struct look_at {
	const struct ps_options *options;
	enum sl_book_kind kind;
	struct json json;
	struct sl_book_row rows[SL_BOOK_ROWS];
	struct sl_share_claim claims[SL_BOOK_ROWS];
	uint64_t shares[SL_BOOK_ROWS];
	struct sl_turns turns;
	size_t n, gpus;
	uint64_t room_bytes;
	int failed;
};

/* Of this PID's name space: else its number here is another one. */
static int
row_is_here(const struct sl_book_row *row)
{
	struct stat st;

	return !stat("/proc/self/ns/pid", &st) && st.st_ino == row->pid_space;
}

/* By SIGSTOP, or a debugger. */
static int
row_is_stopped(const struct sl_book_row *row)
{
	char path[64], text[512];
	const char *end;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)row->pid);
	f = row_is_here(row) ? fopen(path, "re") : NULL;
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	(void)fclose(f);
	text[n] = '\0';
	end = strrchr(text, ')');
	return end && end[1] == ' ' && tolower((unsigned char)end[2]) == 't';
}

static int
has_turn(const struct look_at *look, size_t i)
{
	return look->turns.n && look->turns.holder == i;
}

static int
waits_for_turn(const struct look_at *look, size_t i)
{
	return look->turns.takes[i] && !has_turn(look, i) && look->claims[i].turn.waits_ns;
}

static const char *
state_of(const struct look_at *look, size_t i)
{
	const struct sl_share_claim *claim = &look->claims[i];

	if (claim->is_away)
		return "stopped";
	if (claim->is_suspended)
		return "suspended";
	if (waits_for_turn(look, i))
		return "waits";
	return claim->is_idle ? "idle" : "runs";
}

static double
seconds(uint64_t ns)
{
	return (double)ns * 1e-9;
}

/* Where programs take turns: who has it, and who waits. "": this one takes none now. */
static const char *
turn_of(const struct look_at *look, size_t i, char *buf, size_t buf_bytes)
{
	const struct sl_turn_claim *turn = &look->claims[i].turn;

	if (has_turn(look, i))
		snprintf(buf, buf_bytes, "has the turn: %.1f s of %.1f s so far",
			 seconds(turn->had_ns), seconds(look->turns.length_ns));
	else if (waits_for_turn(look, i))
		snprintf(buf, buf_bytes, "waits for its turn: %.1f s so far",
			 seconds(turn->waits_ns));
	else
		return "";
	return buf;
}

static uint64_t
usable_of(const struct sl_share_claim *claim)
{
	return claim->want_bytes < claim->limit_bytes ? claim->want_bytes
						      : claim->limit_bytes;
}

/* Why it has no more than it has, or waits; "": it has what it wants. */
static const char *
why_of(const struct look_at *look, size_t i, char *buf, size_t buf_bytes)
{
	const struct sl_share_claim *claim = &look->claims[i];
	size_t launching = 0;

	for (size_t k = 0; k < look->n; k++)
		launching += !look->claims[k].is_idle && !look->claims[k].is_suspended;
	if (claim->is_away)
		return "does not answer: it keeps what it holds";
	if (claim->is_suspended)
		return "suspended: sluice resume";
	if (*turn_of(look, i, buf, buf_bytes))
		return buf;
	if (claim->has_bytes > claim->limit_bytes)
		return claim->has_bytes > claim->least_bytes
			       ? "its limit: it gives way"
			       : "its limit: it can give no more";
	if (claim->has_bytes >= usable_of(claim))
		return claim->limit_bytes < claim->want_bytes ? "its limit" : "";
	if (claim->has_bytes < look->shares[i])
		return "waits until others have given way";
	if (claim->is_idle)
		return claim->has_bytes > claim->least_bytes
			       ? "idle: it gives way"
			       : "idle: it can give no more";
	snprintf(buf, buf_bytes, "memory is short: a part for each of %zu", launching);
	return buf;
}

static int
row_order(const void *a, const void *b)
{
	const struct sl_book_row *x = a, *y = b;

	if (x->claim.held_bytes != y->claim.held_bytes)
		return x->claim.held_bytes > y->claim.held_bytes ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static void
gpu_print_text(const struct look_at *look, const char *gpu)
{
	char wants[32], has[32], holds[32], why[80], pid[16];

	sl_size_format(look->room_bytes, has, sizeof(has));
	printf("%s%s: %s for programs\n", look->gpus ? "\n" : "",
	       look->kind == SL_BOOK_HOST ? "host memory" : gpu, has);
	printf("%8s  %-15s  %-9s  %10s  %10s  %10s  %s\n", "PID", "COMMAND", "STATE",
	       "WANTS", "HAS", "HOLDS", "WHY NO MORE");
	for (size_t i = 0; i < look->n; i++) {
		const struct sl_book_row *row = &look->rows[i];

		snprintf(pid, sizeof(pid), "%d", (int)row->pid);
		printf("%8s  %-15s  %-9s  %10s  %10s  %10s  %s\n",
		       row_is_here(row) ? pid : "-", row->command, state_of(look, i),
		       sl_size_format(row->claim.want_bytes, wants, sizeof(wants)),
		       sl_size_format(row->claim.has_bytes, has, sizeof(has)),
		       sl_size_format(row->claim.held_bytes, holds, sizeof(holds)),
		       why_of(look, i, why, sizeof(why)));
	}
}

static void
gpu_print_json(struct look_at *look, const char *gpu)
{
	struct json *json = &look->json;
	char why[80];

	json_object(json, NULL);
	json_string(json, look->kind == SL_BOOK_HOST ? "book" : "gpu", gpu);
	json_u64(json, "room_bytes", look->room_bytes);
	json_array(json, "programs");
	for (size_t i = 0; i < look->n; i++) {
		const struct sl_book_row *row = &look->rows[i];

		json_object(json, NULL);
		json_i64(json, "pid", row->pid);
		json_bool(json, "is_pid_of_here", row_is_here(row));
		json_string(json, "command", row->command);
		json_string(json, "state", state_of(look, i));
		json_u64(json, "want_bytes", row->claim.want_bytes);
		json_u64(json, "has_bytes", row->claim.has_bytes);
		json_u64(json, "held_bytes", row->claim.held_bytes);
		json_u64(json, "share_bytes", look->shares[i]);
		if (row->claim.limit_bytes == UINT64_MAX)
			json_null(json, "limit_bytes");
		else
			json_u64(json, "limit_bytes", row->claim.limit_bytes);
		json_u64(json, "weight", row->claim.weight ? row->claim.weight : 1);
		json_u64(json, "leave_bytes", row->leave_bytes);
		json_u64(json, "launches", row->launches);
		json_u64(json, "turn_number", row->claim.turn.number);
		json_bool(json, "has_turn", has_turn(look, i));
		json_double(json, "turn_had_s",
			    has_turn(look, i) ? seconds(row->claim.turn.had_ns) : 0);
		json_double(json, "turn_length_s",
			    has_turn(look, i) ? seconds(look->turns.length_ns) : 0);
		json_bool(json, "waits_for_turn", waits_for_turn(look, i));
		json_double(json, "turn_wait_s",
			    waits_for_turn(look, i) ? seconds(row->claim.turn.waits_ns) : 0);
		json_string(json, "why_no_more", why_of(look, i, why, sizeof(why)));
		json_close(json);
	}
	json_close(json);
	json_close(json);
}

static void
gpu_look(const char *gpu, void *arg)
{
	struct look_at *look = arg;
	struct sl_book *book;
	size_t me;
	int rc = sl_book_open_existing(NULL, gpu, &book);

	if (!rc) {
		rc = sl_book_read(book, look->rows, &look->n, &me);
		sl_book_close(book);
	}
	if (rc == -ENOENT || rc == -ESTALE) /* it was removed meanwhile */
		return;
	if (rc) {
		look->failed = command_fail("ps", "%s", sluice_last_error());
		return;
	}
	if (!look->n)
		return;
	qsort(look->rows, look->n, sizeof(look->rows[0]), row_order);
	look->room_bytes = 0;
	for (size_t i = 0; i < look->n; i++) {
		look->rows[i].claim.is_away = (uint8_t)row_is_stopped(&look->rows[i]);
		look->claims[i] = look->rows[i].claim;
		if (look->rows[i].room_bytes > look->room_bytes)
			look->room_bytes = look->rows[i].room_bytes;
	}
	sl_shares_decide(look->claims, look->n, look->room_bytes, look->shares, &look->turns);
	if (look->options->as_json)
		gpu_print_json(look, gpu);
	else
		gpu_print_text(look, gpu);
	look->gpus++;
}

int
cmd_ps(int argc, char **argv)
{
	static const struct option table[] = {
		{"json", no_argument, NULL, COMMAND_MEMBER(struct ps_options, as_json)},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static const struct command_syntax syntax = {"ps", ":h", ps_help, table, NULL};
	static struct look_at look;
	struct ps_options options = {0};
	int rc = command_options_read(&syntax, argc, argv, &options);

	if (rc)
		return rc < 0 ? SL_EXIT_OK : rc;
	if (optind < argc)
		return command_usage("ps", "unexpected argument '%s'", argv[optind]);
	look.options = &options;
	if (options.as_json) {
		json_begin(&look.json, stdout);
		json_object(&look.json, NULL);
		json_array(&look.json, "gpus");
	}
	if (sl_books_walk(NULL, SL_BOOK_DEVICE, gpu_look, &look))
		look.failed = command_fail("ps", "%s", sluice_last_error());
	if (options.as_json) {
		json_close(&look.json);
		json_array(&look.json, "host_memory");
	}
	look.kind = SL_BOOK_HOST;
	if (!look.failed && sl_books_walk(NULL, SL_BOOK_HOST, gpu_look, &look))
		look.failed = command_fail("ps", "%s", sluice_last_error());
	if (options.as_json)
		(void)json_end(&look.json); /* main() looks at stdout */
	else if (!look.gpus && !look.failed)
		puts("no program of this user shares a GPU or host memory");
	return look.failed;
}
