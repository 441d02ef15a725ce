# SPDX-License-Identifier: Apache-2.0
"""The Python half of test_bench_share.sh. Exit status 1 and a line for each claim that does not
hold."""

import json
import os
import pathlib
import subprocess
import sys

SHARE = pathlib.Path(os.environ["SLUICE_SOURCE_DIR"]) / "bench" / "programs" / "share"
BUILD = sys.argv[1]
failed = []


def claim(holds, text):
    if not holds:
        failed.append(text)
        print(f"FAIL {text}")


def share(*words):
    return subprocess.run([sys.executable, "-B", str(SHARE), *words], capture_output=True, text=True)


def all_parts_run():
    done = share("--build", BUILD, "--standin", "share_steps", "--limit", "120", "--json", "all.json")
    claim(done.returncode == 0, f"exit status {done.returncode}:\n{done.stdout}\n{done.stderr}")
    data = json.loads(pathlib.Path("all.json").read_text())
    parts = data["parts"]
    claim(list(parts) == ["turns", "fixed", "idle", "suspend", "four", "cost"], f"parts: {list(parts)}")
    for name, part in parts.items():
        claim(all(run.get("equal") for run in part["runs"]), f"{name}: {part['runs']}")
        claim(len(part["runs"]) == {"turns": 2, "fixed": 2, "four": 4, "cost": 3}.get(name, 1), f"{name}: runs")
    claim("out of memory" in parts["fixed"]["driver"], f"the driver alone: {parts['fixed']['driver']}")
    claim(all(run["moved"]["in"] > 0 for run in parts["fixed"]["runs"]), "fixed budgets: nothing was moved")
    times = parts["suspend"]["times"]
    claim(times and all(one["left"] <= 16 << 20 < one["before"] for one in times), f"suspended: {times}")
    least = parts["cost"]["least"]
    claim(set(least) == {"natively", "alone", "shared"} and all(0 < one["launch_ns"] and 0 < one["start"]
                                                                for one in least.values()), f"cost: {least}")
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    claim(len(rows) == 2 + 7 and done.stdout.startswith(data["machine"]), f"the table:\n{done.stdout}")
    claim(all(row.count(" | ") == 5 or row.count("|") == 7 for row in rows), f"columns:\n{done.stdout}")
    again = share("--from", "all.json")
    claim(again.returncode == 0 and again.stdout == done.stdout, f"--from:\n{again.stdout}{again.stderr}")
    return data


def what_is_wrong_is_told(data):
    for change, words in (({"equal": False}, "DIFFER"), ({"error": "boom"}, "FAILED: boom")):
        worse = json.loads(json.dumps(data))
        worse["parts"]["four"]["runs"][2].update(change)
        pathlib.Path("worse.json").write_text(json.dumps(worse))
        done = share("--from", "worse.json")
        claim(done.returncode == 1 and f"| {words} |" in done.stdout, f"{change}: {done.returncode}\n{done.stdout}")
    for words, said in ((["--build", BUILD, "six"], "six is not one of"), (["turns"], "--build or --from is needed"),
                        (["--build", BUILD, "--update"], "--update goes with --from"),
                        (["--build", BUILD, "--iterations", "0"], "at least one")):
        done = share(*words)
        claim(done.returncode == 2 and said in done.stderr, f"{words}: {done.returncode}\n{done.stderr}")
    done = share("--build", BUILD, "--standin", "/bin/false")
    claim(done.returncode == 1 and "no GPU" in done.stderr, f"no GPU: {done.returncode}\n{done.stderr}")


def page_is_written(data):
    """A new row takes the place of its older one, and what is written above stays."""
    import importlib.machinery
    import importlib.util
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(SHARE.parent))
    loader = importlib.machinery.SourceFileLoader("share", str(SHARE))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("share", loader))
    loader.exec_module(module)
    module.DOCS = pathlib.Path("page.md")
    head = "a\n<!-- share -->\nabove\n\n"
    old = "| two, by hand | a card | 1 | 2 | equal | 2026-01-01 |\n"
    module.DOCS.write_text(head + "\n".join(module.TABLE.head) + "\n" + old + "<!-- end -->\nb\n")
    for date in ("2999-01-01", "2999-01-02"):
        pathlib.Path("later.json").write_text(json.dumps({**data, "date": date}))
        sys.argv = ["share", "--from", "later.json", "--update"]
        try:
            module.main()
        except SystemExit as end:
            claim(end.code == 0, f"--update: exit status {end.code}")
    text = module.DOCS.read_text()
    claim(text.startswith(head) and old in text and text.endswith("<!-- end -->\nb\n"), f"the page:\n{text}")
    claim(text.count("2999-01-02") == 7 and "2999-01-01" not in text, f"new rows:\n{text}")
    claim(all(size == module.gpu_text({"card": {"gpu": name, "bytes": 85 << 30}}) for name, size in
              (("NVIDIA H100 80GB HBM3", "H100, 80 GB"), ("NVIDIA H200", "H200, 85 GiB"))), "names of GPUs")
    for card_gib, models in ((79.1, ("gpt, batch 16", "gpt, batch 4", "resnet152, batch 64")),
                             (139.7, ("gpt, batch 34", "gpt, batch 13", "resnet152, batch 119")),
                             (23.6, ("resnet152, batch 173", "resnet152, batch 84", "resnet152, batch 13"))):
        got = tuple(module.PyTorch().train(int(card_gib * module.GIB), part, 5)[0]
                    for part in (module.LARGE, module.SMALL, module.QUARTER))
        claim(got == models, f"{card_gib} GiB: {got}")


data = all_parts_run()
what_is_wrong_is_told(data)
page_is_written(data)
sys.exit(1 if failed else 0)
