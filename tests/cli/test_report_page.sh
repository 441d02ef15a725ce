#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The page of `sluice report --html` in a real browser, headless Chromium: nothing on its console, no
# request to anywhere, pictures with a size, no text that is cut or lies on another, in a wide and in a
# narrow window, in light and in dark (page_probe.js). Without a browser only its text is looked at.
# Debian: chromium-headless-shell.
# Run in an empty directory.
set -u
: "${SLUICE_BIN:?}" "${SLUICE_SOURCE_DIR:?}"
if ! command -v python3 >/dev/null; then
	echo "skip: there is no python3"
	exit 77
fi
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

# A timeline with all parts and ways, names that a page must escape, and the trace of a step like it.
python3 - "<b>&\"x'" >run.json <<'END'
import json, sys
PID, MIB = 77, 1 << 20
names = ["GPU 0 stream 1", "GPU 0 copies in", "GPU 0 copies out", "GPU 0 disk reads", "GPU 0 disk writes"]
STREAM, IN, OUT, READ, WRITE = (5000000 + i for i in range(5))
events = [{"ph": "M", "pid": PID, "tid": PID, "name": "process_name", "args": {"name": sys.argv[1]}},
          {"ph": "M", "pid": PID, "tid": PID, "name": "thread_name", "args": {"name": "sluice"}}]
events += [{"ph": "M", "pid": PID, "tid": 5000000 + i, "name": "thread_name", "args": {"name": name}}
           for i, name in enumerate(names)]
def put(track, category, name, ts, dur, **args):
    events.append({"ph": "X", "pid": PID, "tid": track, "cat": category, "name": name, "ts": ts, "dur": dur, "args": args})
long = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfZNS0_11sum_functorIfffE" * 2
for i in range(400):
    ts = 1e6 + i * 10000
    for tier, used, budget in ("device", 15 + i % 2, 16), ("host", 30 + i // 200, 32), ("store", i // 100, 0):
        events.append({"ph": "C", "pid": PID, "name": "GPU 0 %s memory" % tier, "ts": ts,
                       "args": {"used_bytes": used << 30, **({"budget_bytes": budget << 30} if budget else {})}})
    put(IN, "move", "launch", ts, 3000, bytes=150 * MIB, counter="h2d_launch", address=MIB * (i % 9), launch=i + 1)
    put(READ, "disk", "demand", ts + 2000, 2000, bytes=4 * MIB, counter="store_read_demand", address=MIB)
    put(OUT, "move", "eviction", ts + 3000, 2000, bytes=90 * MIB, counter="d2h_evict", address=MIB * (i % 7))
    put(WRITE, "disk", "spill", ts + 5000, 500, bytes=2 * MIB, counter="store_write_spill", address=MIB)
    put(STREAM, "kernel", long if i % 2 else "a<b>", ts + 6000, 2000, thread=9, behind_call_us=5990, launch=i + 1)
    put(STREAM, "fill", "fill", ts + 8000, 500, thread=9, behind_call_us=0)
json.dump({"traceEvents": events}, sys.stdout)
END
n=0
{
	printf 'sluice-trace 1\nclock 1000000000\n'
	printf 'tensor %d 4294967296 local\n' {0..7}
	echo "period 0"
	for i in {0..7} {7..0}; do
		intent=$([ $n -lt 8 ] && echo write-all || echo read)
		printf 'launch %d %d 100000000 0 0 step\n\tuse %d %s\n' $n $((n * 100000000)) "$i" "$intent"
		n=$((n + 1))
	done
	echo "end 16 8 16"
} >run.trace
"$SLUICE_BIN" report run.json --trace run.trace --html page.html >text || fail "no page: $(cat text)"
"$SLUICE_BIN" report run.json --html /dev/full >text 2>err && fail "a full disk is no error"
grep -q '^sluice report: /dev/full: writing failed: No space left' err || fail "a full disk: $(cat err)"
"$SLUICE_BIN" report run.json --html nowhere/x 2>err >text && fail "nowhere is no error"
cp run.json copy.json
"$SLUICE_BIN" report run.json --html run.json >text 2>err && fail "the timeline is written over"
cmp run.json copy.json || fail "the timeline is changed"

# Nothing from outside, and names escaped.
grep -nE 'https?:|src=|url\(|@import|<script|<link rel="(stylesheet|preload)' page.html && fail "something from outside"
grep -q '<h1>&lt;b&gt;&amp;&quot;x' page.html || fail "the program's name: $(grep '<h1>' page.html)"
grep -q 'a&lt;b&gt;' page.html || fail "a function's name"
python3 - <<'END' || fail "the page is not well formed"
import html.parser, sys
VOID = {"meta", "link"}
class Page(html.parser.HTMLParser):
    open_tags, pictures = [], 0
    def handle_starttag(self, tag, attrs):
        self.pictures += tag == "svg"
        if tag not in VOID:
            self.open_tags.append(tag)
    def handle_endtag(self, tag):
        assert self.open_tags.pop() == tag, (tag, self.getpos())
page = Page()
page.feed(open("page.html").read())
assert not page.open_tags and page.pictures == 4, (page.open_tags, page.pictures)
END

for browser in chromium-headless-shell chromium google-chrome; do
	command -v $browser >/dev/null && break
	browser=
done
if [ -z "$browser" ]; then
	[ $failed = 0 ] || exit 1
	echo "skip: no browser is here (Debian: chromium-headless-shell): the page was not looked at"
	exit 77
fi
export HOME=$PWD
sed "s/PICTURES/4/" "$SLUICE_SOURCE_DIR/tests/cli/page_probe.js" >probe.js
python3 - <<'END' || exit 1
page, probe = open("page.html").read(), open("probe.js").read()
assert page.count("</body>") == 1
open("probed.html", "w").write(page.replace("</body>", "<script>" + probe + "</script></body>"))
END
# look WIDTH DARK: the page in such a window.
look()
{
	local dark=()

	[ "$2" = dark ] && dark=(--blink-settings=preferredColorScheme=0)
	timeout 60 "$browser" --headless --no-sandbox --disable-gpu --enable-logging=stderr --no-first-run \
		--disable-background-networking --user-data-dir="$PWD/profile" --window-size="$1",900 "${dark[@]}" \
		--dump-dom "file://$PWD/probed.html" >dom 2>log || fail "$1 $2: the browser fails: $(tail -3 log)"
	grep -q 'data-wrong="none"' dom || fail "$1 $2: $(grep -o 'data-wrong="[^"]*"' dom || echo "no answer")"
	grep 'CONSOLE' log && fail "$1 $2: words on the console"
}
look 1000 light
look 1000 dark
look 500 light
if ! timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" \
	--print-to-pdf="$PWD/page.pdf" "file://$PWD/page.html" 2>log || [ ! -s page.pdf ]; then
	fail "it cannot be printed: $(tail -3 log)"
fi

[ $failed -eq 0 ] && echo "all right"
exit $failed
