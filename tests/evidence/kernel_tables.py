#!/usr/bin/env python3
"""Errors of kernels and collectives against their measured tables, as data.

    kernel_tables.py write LAPWING SHARED PROJECT   PROJECT/docs/results/kernels.csv and nccl.csv
    kernel_tables.py check LAPWING SHARED PROJECT   exit status 1 and a line for each row that is
                                                    not the one of this build

kernels.csv: `lapwing cost --measured` of SHARED/kernel-tables, one row for each device and type,
each shape by figures that were fitted without it; sustained_pct: the same over all rows, at the
clock of training. nccl.csv: `lapwing validate` of SHARED/netbench and
PROJECT/analysis/netbench/tables, one row a table, which is left out of its own fit, and of all
tables one row for each class of sizes. A set that SHARED has nothing of is named and left alone;
exit status 4: SHARED has neither.
"""
import collections
import csv
import glob
import io
import json
import os
import re
import subprocess
import sys

KERNELS = ["table", "device", "kind", "type", "rows", "median_pct", "p90_pct", "bias_pct",
           "sustained_pct"]
NCCL = ["table", "place", "rows", "model_pct", "calibrated_pct", "inside"]
TABLES = ("gemm", "attention_context", "moe", "nccl")
SETS = {"kernels.csv": "kernel-tables", "nccl.csv": "netbench"}  # of results: a folder of SHARED


def answer(lapwing, *words):
    done = subprocess.run([lapwing, *words, "--format", "json"], capture_output=True, text=True,
                          check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        sys.exit(f"kernel_tables.py: lapwing {' '.join(words)}: exit {done.returncode}: "
                 f"{done.stderr.strip()}")


def key(row):
    return row["device"], row["kind"], row["dtype"]


def kernels(lapwing, shared):
    for name in TABLES:
        path = os.path.join(shared, "kernel-tables", name + ".csv")
        if not os.path.exists(path):
            continue
        sustained = {}
        if name != "nccl":
            rows = answer(lapwing, "cost", "--measured", path, "--sustained")["devices"]
            sustained = {key(row): row["median_error_pct"] for row in rows}
        for row in answer(lapwing, "cost", "--measured", path)["devices"]:
            yield {"table": name, "device": row["device"], "kind": row["kind"],
                   "type": row["dtype"], "rows": row["n_rows"] - row["n_fitted"],
                   "median_pct": row["median_error_pct"], "p90_pct": row["p90_error_pct"],
                   "bias_pct": row["bias_pct"], "sustained_pct": sustained.get(key(row), "")}


def place_of(path):
    """The curve that a table is of (docs/design/nccl.md, Calibration)."""
    with open(path, newline="", encoding="utf-8") as f:
        row = next(csv.DictReader(f))
    if int(row["nnodes"]) > 1 and row["inter"] != "none":
        return "nodes of one" if row["nranks"] == row["nnodes"] else "nodes"
    return "PCIe" if row["intra"].startswith("PCIe") else "NVLink"


def add(row, title, part):
    row[title] = row.get(title, 0) + part["n"] * part["mean_abs_error_pct"]
    if title == "model_pct":
        row["rows"] = row.get("rows", 0) + part["n"]


def result(name, place, row):
    return {"table": name, "place": place, "rows": row["rows"], "inside": row.get("inside", ""),
            **{k: f"{row[k] / row['rows']:.2f}" for k in ("model_pct", "calibrated_pct")}}


def nccl(lapwing, shared, project):
    files = sorted(glob.glob(os.path.join(shared, "netbench", "*.csv")) +
                   glob.glob(os.path.join(project, "analysis", "netbench", "tables", "*.csv")))
    places = {os.path.basename(path)[:-4]: place_of(path) for path in files}
    tables, sizes = {}, {}
    for family in answer(lapwing, "validate", *files)["families"] if files else []:
        title = {"netbench-raw": "model_pct", "netbench": "calibrated_pct"}.get(family["name"])
        for part in family["series"] if title else []:
            name, size = part["name"].split(", ", 1)
            add(tables.setdefault(name, {}), title, part)
            add(sizes.setdefault(size, {}), title, part)
        for note in family["notes"]:
            found = re.match(r"(\w+): (\d+) of \d+ rows between p10 and p90", note)
            if found and title:
                tables[found.group(1)]["inside"] = found.group(2)
    return [result(name, places[name], row) for name, row in sorted(tables.items())] + \
           [result("all", size, row) for size, row in sizes.items()]


def text_of(titles, rows):
    out = io.StringIO()
    to = csv.DictWriter(out, titles, lineterminator="\n")
    to.writeheader()
    to.writerows(rows)
    return out.getvalue()


def faults(name, kept, made):
    """Lines that are not in both as often, or are in another order."""
    lacks, more = collections.Counter(made), collections.Counter(kept)
    lacks, more = lacks - more, more - lacks
    found = [f"this build gives {line}" for line in lacks.elements()] + \
            [f"this build does not give {line}" for line in more.elements()]
    if not found and kept != made:
        found = ["its rows are in another order than this build's"]
    return [f"{name}: {fault}: run `make evidence`" for fault in found]


def main(arguments):
    if len(arguments) != 4 or arguments[0] not in ("write", "check"):
        sys.exit("usage: kernel_tables.py write|check LAPWING SHARED PROJECT")
    _, lapwing, shared, project = arguments
    there = [name for name, folder in SETS.items()
             if glob.glob(os.path.join(shared, folder, "*.csv"))]
    if not there:
        return 4
    bad, n = [], 0
    for name in SETS:
        if name not in there:
            print(f"{name}: not looked at: {shared} has no {SETS[name]}/*.csv", file=sys.stderr)
            continue
        titles, rows = (KERNELS, list(kernels(lapwing, shared))) if name == "kernels.csv" else \
                       (NCCL, nccl(lapwing, shared, project))
        path, text = os.path.join(project, "docs", "results", name), text_of(titles, rows)
        if arguments[0] == "write":
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        else:
            with open(path, encoding="utf-8") as f:
                bad += faults(name, f.read().splitlines(), text.splitlines())
        n += len(rows)
    print("\n".join(bad) if bad else f"kernel tables: ok, {n}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
