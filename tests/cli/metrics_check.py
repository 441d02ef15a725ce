# SPDX-License-Identifier: Apache-2.0
"""What test_openmetrics.sh sees in the output of `sluice stat --openmetrics`.

    metrics_check.py parse FILE                 by prometheus-client, which is strict
    metrics_check.py labels FILE PID KEY=VALUE...
                                                of the process's samples, all that there are
    metrics_check.py promql JSON                by promql-parser: the dashboard's expressions are PromQL
    metrics_check.py dashboard FILE JSON        the metrics that the dashboard's expressions name are
                                                in FILE, and no data source of one machine is named
"""

import json
import re
import sys

NAME = re.compile(r"\bsluice_[a-z0-9_]+\b")
LABEL = re.compile(r'([A-Za-z_]+)="((?:[^"\\]|\\.)*)"')
# Labels that Prometheus adds to what it reads.
ADDED = {"instance", "job"}


def samples(path):
    """(name, labels) of each sample."""
    for line in open(path, encoding="utf-8"):
        if not line.startswith("#"):
            name, rest = re.match(r"([a-z0-9_]+)\{(.*)\} ", line).groups()
            yield name, dict(LABEL.findall(rest))


def parse(path):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    with open(path, encoding="utf-8") as file:
        families = list(text_string_to_metric_families(file.read()))
    assert len(families) > 20, f"{len(families)} families"
    for family in families:
        assert family.documentation, f"{family.name} has no text"
        assert family.samples, f"{family.name} has no sample"


def labels(path, pid, *wanted):
    wanted = dict(pair.split("=") for pair in wanted)
    found = [have for _, have in samples(path) if have["pid"] == pid]
    assert found, f"no sample of process {pid}"
    for have in found:
        have = {key: have[key] for key in have if key not in ("pid", "space", "tier")}
        assert have == wanted, f"process {pid}: {have}, not {wanted}"


def expressions(value):
    """(key, text) of each expression and query below a value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("expr", "query", "definition") and isinstance(inner, str):
                yield key, inner
            else:
                yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)


def promql(page):
    import promql_parser

    with open(page, encoding="utf-8") as file:
        for key, text in expressions(json.load(file)["panels"]):
            promql_parser.parse(text.replace("$window", "5m"))


def sources(value):
    """Each "datasource" below a value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "datasource":
                yield inner
            yield from sources(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from sources(inner)


def dashboard(path, page):
    with open(page, encoding="utf-8") as file:
        board = json.load(file)
    there, known = set(), set(ADDED)
    for name, have in samples(path):
        there.add(name)
        known |= have.keys()
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len(panels) >= 8, f"{len(panels)} panels"
    for panel in panels:
        found = [text for key, text in expressions(panel) if key == "expr"]
        assert found, f"panel {panel['title']!r} has no expression"
        for text in found:
            names = set(NAME.findall(text))
            assert names, f"panel {panel['title']!r} names no metric: {text}"
            assert names <= there, f"panel {panel['title']!r}: no metric {names - there}"
            groups = re.findall(r"(?:by|on|ignoring|group_left) ?\(([^)]*)\)", text)
            used = {word.strip() for group in groups for word in group.split(",")}
            used |= {key for key, _ in re.findall(r"(\w+) ?(=~|!=|!~|=) ?\"", text)}
            assert used <= known, f"panel {panel['title']!r}: no label {used - known}"
    for key, text in expressions(board["templating"]):
        names = set(NAME.findall(text))
        assert names <= there, f"a variable: no metric {names - there}"
    for source in sources(board):
        assert source == {"type": "prometheus", "uid": "${datasource}"}, f"data source {source}"
    kinds = {variable["name"]: variable["type"] for variable in board["templating"]["list"]}
    assert kinds["datasource"] == "datasource", kinds
    assert "__inputs" not in board and board.get("id") is None, "it is of one machine"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)), "two panels have one number"


if __name__ == "__main__":
    verbs = {"parse": parse, "labels": labels, "promql": promql, "dashboard": dashboard}
    verbs[sys.argv[1]](*sys.argv[2:])
