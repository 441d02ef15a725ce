#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The site of scripts/site: all documents and manual pages are there, no link is broken, and the pages
# load nothing from elsewhere. Without PyPI, from which MkDocs comes, this is skipped. Run in an empty
# directory.
set -u
: "${SLUICE_SOURCE_DIR:?}"
unset LD_PRELOAD LD_LIBRARY_PATH PYTHONPATH
failed=0

fail()
{
	echo "FAIL $*"
	failed=1
}

for tool in python3 scdoc mandoc; do
	command -v $tool >/dev/null || { echo "skip: no $tool"; exit 77; }
done
python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "skip: no python3-venv"; exit 77; }
"$SLUICE_SOURCE_DIR/scripts/site" made >said 2>&1
case $? in
0) ;;
69) echo "skip: PyPI cannot be reached"; exit 77 ;;
*) cat said; exit 1 ;; # a broken link, too
esac

cd "$SLUICE_SOURCE_DIR" || exit 1
for page in docs/*.md docs/design/*.md man/*.scd ARCHITECTURE.md CHANGELOG.md HACKING.md papers/index.md; do
	[ -s "$OLDPWD/made/html/${page%.*}.html" ] || fail "no page of $page"
done
cd "$OLDPWD" || exit 1
[ -s made/html/index.html ] || fail "no first page"
[ -s made/html/docs/pictures/run.svg ] || fail "no picture"
# Links to elsewhere are for readers: the browser loads nothing from there.
grep -rhoE --include=*.html '<(script|img|link|iframe)[^>]*(src|href)="?(https?:)?//[^>]*' made/html |
	grep -v 'rel="canonical"' && fail "a page loads something from elsewhere"
grep -q 'href="sluice-run.1.html"' made/html/man/sluice.1.html || fail "manual pages do not link to each other"
grep -q -- '--device-memory' made/html/man/sluice-run.1.html || fail "an option is missing in sluice-run(1)"
grep -rq --include=*.html '\.scd"' made/html && fail "a link to the source of a manual page"

# A broken link ends it, and is named.
mkdir tree && ln -s "$SLUICE_SOURCE_DIR"/* tree/ && rm tree/docs && cp -r "$SLUICE_SOURCE_DIR/docs" tree/ || exit 1
echo '[there](no-such-page.md)' >>tree/docs/run.md
tree/scripts/site made >said 2>&1 && fail "a broken link is not seen"
grep -q 'docs/run.md: no-such-page.md is missing' said || fail "a broken link is not named: $(cat said)"

[ $failed -eq 0 ] && echo "all right"
exit $failed
