/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice report --html`: one page, without scripts and without anything from outside. It has the figures
 * of the text and the pictures of report_pictures.c, in the colours of light or dark, and on paper.
 *
 * Threads: one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/size.h"
#include "report.h"
#include "svg.h"

/* clang-format off: a line a rule */
static const char style[] =
	":root{color-scheme:light dark;--paper:#ffffff;--ink:#1d1f21;--soft:#5d6166;\n"
	"--grid:#d9dbde;--panel:#f4f5f7;--kernels:#2f5d9b;--copies:#7fb2d9;--in:#6a51a3;"
	"\n"
	"--read:#1c7c3c;--out:#e08a1e;--write:#c2304a;--map:#8c6d46;\n"
	"--pin:#b59a6a;--other:#83878c;--host:#dfe1e4}\n"
	"@media screen and "
	"(prefers-color-scheme:dark){:root{--paper:#15171a;--ink:#e6e8ea;\n"
	"--soft:#a3a8ae;--grid:#3a3e44;--panel:#1f2226;--kernels:#5b8fd6;--copies:#"
	"9fcdf0;\n"
	"--in:#a78fe0;--read:#4fb573;--out:#f0a348;--write:#e8637b;--map:#b8935f;\n"
	"--pin:#d6bd8c;--other:#8e9399;\n"
	"--host:#43484f}}\n"
	"@media print{:root{color-scheme:light}\n"
	"figure,table,li{break-inside:avoid}h2,h3{break-after:avoid}}\n"
	"body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:62rem;\n"
	"background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}\n"
	"h1{font-size:1.6rem;margin:0 0 .3rem;overflow-wrap:anywhere}\n"
	"h2{font-size:1.25rem;margin:2.2rem 0 .6rem}\n"
	"h3{font-size:1rem;margin:1.6rem 0 .4rem}\n"
	"p{margin:.3rem 0 .6rem;overflow-wrap:anywhere}\n"
	".soft{color:var(--soft)}\n"
	".warn{border-left:4px solid var(--out);padding:.3rem .8rem;\n"
	"background:var(--panel)}\n"
	"ol{padding-left:1.4rem}\n"
	"li{margin:.5rem 0}\n"
	"code,td.name{font-family:ui-monospace,monospace;font-size:.92em}\n"
	"code{white-space:nowrap}\n"
	"figure,.scroll{margin:.4rem 0;overflow-x:auto}\n"
	"svg{display:block;width:100%;min-width:40rem;height:auto;\n"
	"font:12px system-ui,sans-serif}\n"
	"svg text{fill:var(--ink)}\n"
	"svg text.own{font-weight:bold}\n"
	"svg text.over{paint-order:stroke;stroke:var(--paper);stroke-width:3px}\n"
	".grid{stroke:var(--grid);stroke-width:.7;fill:none}\n"
	".axis{stroke:var(--soft);fill:none}\n"
	".budget{stroke:var(--ink);stroke-dasharray:5 4;fill:none}\n"
	".fill{fill:var(--c)}\n"
	".line{fill:none;stroke:var(--c);stroke-width:1.6}\n"
	".dot{fill:var(--kernels)}\n"
	".dot.own{fill:var(--out)}\n"
	".kernels,.device,.plan{--c:var(--kernels)}\n"
	".copies_and_fills,.host_tier{--c:var(--copies)}\n"
	".wait_in,.link_in{--c:var(--in)}\n"
	".wait_read,.disk_read{--c:var(--read)}\n"
	".wait_out,.link_out{--c:var(--out)}\n"
	".wait_write,.disk_write{--c:var(--write)}\n"
	".wait_map{--c:var(--map)}\n"
	".wait_pin{--c:var(--pin)}\n"
	".wait_other,.store{--c:var(--other)}\n"
	".host{--c:var(--host)}\n"
	".key{display:inline-block;width:.8em;height:.8em;margin-right:.5em;\n"
	"background:var(--c);border:1px solid var(--soft);\n"
	"print-color-adjust:exact;-webkit-print-color-adjust:exact}\n"
	"table{border-collapse:collapse;min-width:20rem}\n"
	"th,td{padding:.25rem .8rem .25rem 0;text-align:right;white-space:nowrap;\n"
	"border-bottom:1px solid var(--grid)}\n"
	"th{font-weight:600;color:var(--soft)}\n"
	"th:first-child,td:first-child,th.name,td.name{text-align:left}\n"
	"td.name{white-space:normal;overflow-wrap:anywhere;min-width:12rem}\n"
	"tr.sum td{font-weight:600;border-bottom:0}\n";
/* clang-format on */

/* Words between backquotes are what one types. */
static void
words_put(FILE *to, const char *text)
{
	int in_code = 0;

	for (; *text; text++) {
		char one[2] = {*text, '\0'};

		if (*text == '`') {
			in_code = !in_code;
			fputs(in_code ? "<code>" : "</code>", to);
		} else {
			svg_text(to, one);
		}
	}
	if (in_code)
		fputs("</code>", to);
}

static void
parts_put(FILE *to, const struct report *report, const struct report_gpu *gpu)
{
	fputs("<div "
	      "class=\"scroll\"><table>\n<tr><th>part</th><th>time</th><th>share</th></"
	      "tr>\n",
	      to);
	for (int part = 0; part < REPORT_PARTS; part++)
		fprintf(to,
			"<tr><td><span class=\"key %s\"></span>%s</td><td>%.3f s</td>"
			"<td>%.1f %%</td></tr>\n",
			report_part_key((enum report_part)part),
			report_part_name((enum report_part)part),
			(double)gpu->part_ns[part] / 1e9,
			report_share(report, gpu->part_ns[part]));
	fprintf(to,
		"<tr class=\"sum\"><td>whole</td><td>%.3f s</td><td>100.0 %%</td></tr>\n"
		"</table></div>\n",
		(double)report_whole_ns(report) / 1e9);
}

static void
ways_put(FILE *to, const struct report *report, const struct report_gpu *gpu)
{
	char bytes[32];

	fputs("<div "
	      "class=\"scroll\"><table>\n<tr><th>way</th><th>moved</th><th>moves</"
	      "th><th>busy</th>"
	      "<th>GB/s, busy</th><th>GB/s, whole</th></tr>\n",
	      to);
	for (int way = 0; way < REPORT_WAYS; way++) {
		const struct report_way_sum *sum = &gpu->ways[way];

		if (sum->moves)
			fprintf(to,
				"<tr><td><span class=\"key %s\"></span>%s</td><td>%s</td>"
				"<td>%" PRIu64
				"</td><td>%.3f s</td><td>%.3f</td><td>%.3f</td></tr>\n",
				report_way_key((enum report_way)way),
				report_way_name((enum report_way)way),
				sl_size_format(sum->bytes, bytes, sizeof(bytes)),
				sum->moves, (double)sum->busy_ns / 1e9,
				report_rate(sum->bytes, sum->busy_ns) / 1e9,
				report_rate(sum->bytes, report_whole_ns(report)) / 1e9);
	}
	fputs("</table></div>\n", to);
}

static void
memory_put(FILE *to, const struct report_gpu *gpu)
{
	static const struct {
		const char *name, *class;
	} tiers[SLUICE_TIER_COUNT] = {{"device memory", "device"},
				      {"host memory", "host_tier"},
				      {"on disk", "store"}};
	char used[32], budget[32];

	fputs("<div class=\"scroll\"><table>\n<tr><th>tier</th><th>at "
	      "most</th><th>budget</th></tr>\n",
	      to);
	for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++)
		fprintf(to, "<tr><td><span class=\"key %s\"></span>%s</td><td>%s</td><td>%s</td></tr>\n",
			tiers[tier].class, tiers[tier].name,
			sl_size_format(gpu->used_most[tier], used, sizeof(used)),
			gpu->budget[tier]
				? sl_size_format(gpu->budget[tier], budget, sizeof(budget))
				: "-");
	fputs("</table></div>\n", to);
}

static void
gpu_put(FILE *to, const struct report *report, int number)
{
	const struct report_gpu *gpu = report->gpus[number];
	int moved = 0;

	for (int way = 0; way < REPORT_WAYS; way++)
		moved |= gpu->ways[way].moves > 0;
	fprintf(to, "<h2>GPU %d: bound by %s</h2>\n<h3>Where the time went</h3>\n<figure>",
		number, report_binding_name(gpu));
	report_picture_time(to, report, gpu);
	fputs("</figure>\n", to);
	parts_put(to, report, gpu);
	fputs("<h3>Bytes moved a second</h3>\n", to);
	if (moved) {
		fputs("<figure>", to);
		report_picture_moves(to, report, gpu);
		fputs("</figure>\n", to);
		ways_put(to, report, gpu);
	} else {
		fputs("<p>Nothing moved.</p>\n", to);
	}
	fputs("<h3>Memory by tier</h3>\n<figure>", to);
	report_picture_memory(to, report, gpu);
	fputs("</figure>\n", to);
	memory_put(to, gpu);
}

static void
functions_put(FILE *to, const struct report *report)
{
	size_t n = report->n_functions < REPORT_FIRST ? report->n_functions : REPORT_FIRST;
	char bytes[32];

	if (!n)
		return;
	fputs("<h2>Functions that cost most</h2>\n<div "
	      "class=\"scroll\"><table>\n<tr><th>waited</th>"
	      "<th>ran</th><th>copied in</th><th>calls</th><th "
	      "class=\"name\">function</th>"
	      "</tr>\n",
	      to);
	for (size_t i = 0; i < n; i++) {
		const struct report_function *f = &report->functions[i];

		fprintf(to,
			"<tr><td>%.3f s</td><td>%.3f s</td><td>%s</td><td>%" PRIu64
			"</td><td class=\"name\">",
			(double)f->waited_ns / 1e9, (double)f->busy_ns / 1e9,
			sl_size_format(f->in_bytes, bytes, sizeof(bytes)), f->calls);
		svg_text(to, f->name);
		fputs("</td></tr>\n", to);
	}
	fputs("</table></div>\n", to);
	if (report->n_functions > n)
		fprintf(to, "<p class=\"soft\">And %zu more.</p>\n", report->n_functions - n);
}

static void
chunks_put(FILE *to, const struct report *report)
{
	char in[32], out[32];

	if (!report->n_most_moved)
		return;
	fputs("<h2>Addresses that moved most</h2>\n<p class=\"soft\">A timeline names no "
	      "allocations, and "
	      "programs reuse addresses.</p>\n<div "
	      "class=\"scroll\"><table>\n<tr><th>address</th>"
	      "<th>in</th><th>out</th><th>moves</th></tr>\n",
	      to);
	for (size_t i = 0; i < report->n_most_moved; i++) {
		const struct report_chunk *chunk = &report->most_moved[i];

		fprintf(to,
			"<tr><td>0x%" PRIx64 "</td><td>%s</td><td>%s</td><td>%" PRIu64
			"</td></tr>\n",
			chunk->address, sl_size_format(chunk->in_bytes, in, sizeof(in)),
			sl_size_format(chunk->out_bytes, out, sizeof(out)), chunk->moves);
	}
	fputs("</table></div>\n", to);
}

static void
plan_put(FILE *to, const struct report_plan *plan)
{
	if (!plan->given)
		return;
	fputs("<h2>What more device memory gives</h2>\n<figure>", to);
	report_picture_plan(to, plan);
	fprintf(to,
		"</figure>\n<p class=\"soft\">By the plan of the trace. With unlimited "
		"memory a step takes "
		"%.4g s: slow-down 1. The plan knows all launches beforehand: a run can "
		"be "
		"slower. The run's own memory is in bold.</p>\n",
		plan->unlimited_s);
}

static void
head_put(FILE *to, const struct report *report)
{
	char text[200];

	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<link rel=\"icon\" href=\"data:,\">\n<title>",
	      to);
	svg_text(to, report->process);
	fprintf(to, ": report of a run</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>",
		style);
	svg_text(to, report->process[0] ? report->process : "?");
	fprintf(to, "</h1>\n<p class=\"soft\">%.3f s on the timeline of process %" PRIu64 ", ",
		(double)report_whole_ns(report) / 1e9, report->pid);
	svg_text(to, report->path);
	fputs("</p>\n", to);
	report_end_text(report, text, sizeof(text));
	if (text[0])
		fprintf(to, "<p class=\"warn\">%s</p>\n", text);
	if (report->untimed_launches)
		fprintf(to,
			"<p class=\"warn\">%" PRIu64
			" launches have no time on the timeline: kernels took "
			"longer, and waits less, than it says here.</p>\n",
			report->untimed_launches);
	if (report->lost_events)
		fprintf(to,
			"<p class=\"warn\">%" PRIu64
			" events were lost: sums are too small.</p>\n",
			report->lost_events);
}

static void
page_put(FILE *to, const struct report *report)
{
	head_put(to, report);
	fputs("<h2>What to change</h2>\n<ol>\n", to);
	for (size_t i = 0; i < report->n_advice; i++) {
		fputs("<li>", to);
		words_put(to, report->advice[i].text);
		fputs("</li>\n", to);
	}
	fputs("</ol>\n", to);
	plan_put(to, &report->plan);
	for (int i = 0; i < REPORT_GPUS_MAX; i++)
		if (report->gpus[i])
			gpu_put(to, report, i);
	functions_put(to, report);
	chunks_put(to, report);
	fputs("<p class=\"soft\">Terms: <code>man "
	      "sluice-report</code>.</p>\n</body>\n</html>\n",
	      to);
}

int
report_html_write(const struct report *report, const char *path)
{
	struct stat page, timeline;
	int bad, error;
	FILE *to;

	if (!stat(path, &page) && !stat(report->path, &timeline) &&
	    page.st_dev == timeline.st_dev && page.st_ino == timeline.st_ino)
		return sl_fail(-EINVAL, "--html %s: that is the timeline", path);
	to = fopen(path, "we");
	if (!to)
		return sl_fail(-errno, "%s: cannot be opened for writing: %s", path,
			       strerror(errno));
	page_put(to, report);
	errno = 0;
	bad = ferror(to);
	bad |= fclose(to);
	error = errno ? errno : EIO;
	if (bad)
		return sl_fail(-error, "%s: writing failed: %s", path, strerror(error));
	return 0;
}
