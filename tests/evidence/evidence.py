#!/usr/bin/env python3
"""Predict every published training run in SHARED and keep what was predicted beside what was
measured, as data.

    evidence.py predict LAPWING SHARED WORK [TABLE...]   WORK/TABLE.json of `lapwing validate`
    evidence.py collect WORK SHARED OUT                  OUT/FAMILY.csv, one row a run; tables.csv
    evidence.py sample LAPWING SHARED OUT [N]            N rows of OUT against a new prediction

`make evidence` does the first two. A table on which a figure of its framework was fitted
("left_out" in tables/TABLE.json) is predicted twice: as it is, and with the figure that it would
have without the table: left_out_s, which no measured cell of the table has reached.
"""
import csv
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import convert
from convert import read, table_named
from words import by_words

RUNS = ["id", "framework", "device", "parallelism", "network", "devices", "predicted_s",
        "measured_s", "left_out_s", "predicted_gib", "measured_gib", "memory_kind", "memory_rank",
        "outcome", "command"]
KEY = RUNS[1:5]  # of "runs like this one"
TABLES = ["table", "file", "rows", "predicted", "fitted", "ran", "ran_fit", "out_of_memory",
          "do_not_fit", "reason", "n"]


def paths_of(shared, wanted):
    for name in convert.known_tables():
        if not wanted or name in wanted:
            yield from sorted(glob.glob(os.path.join(shared, "*", name + ".csv")))


def runs_file(path, folder, keep=lambda row: True):
    out = os.path.join(folder, os.path.basename(path))
    rows = [row for row in convert.convert(path) if keep(row)]
    with open(out, "w", newline="", encoding="utf-8") as f:
        convert.write(rows, f)
    return out, rows


def own_framework(lapwing, left_out, folder):
    """A file of the framework whose fitted figures are those that it has without the table."""
    out = os.path.join(folder, left_out["framework"] + ".json")
    subprocess.run([lapwing, "framework", left_out["framework"], "-o", out, "--force"], check=True,
                   stdout=subprocess.DEVNULL)
    with open(out, encoding="utf-8") as f:
        doc = json.load(f)
    for figure, (value, _) in left_out["figures"].items():
        group, fact = figure.split(".")
        doc[group][fact]["value"] = value
    doc.pop("content_hash", None)
    with open(out, "w", encoding="utf-8") as f:
        json.dump(doc, f)
    return out


def validate(lapwing, runs, *options):
    done = subprocess.run([lapwing, "validate", runs, "--format", "json", *options],
                          capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        sys.exit(f"evidence.py: {runs}: exit {done.returncode}: {done.stderr.strip()}")


# --- predict -------------------------------------------------------------------------------------


def predict(lapwing, shared, work, wanted):
    os.makedirs(work, exist_ok=True)
    n = 0
    for path in paths_of(shared, wanted):
        name, begun = os.path.basename(path)[:-4], time.monotonic()
        table = table_named(name)
        with tempfile.TemporaryDirectory() as folder:
            runs, rows = runs_file(path, folder)
            expressed = sum("why" not in row for row in rows)
            result = validate(lapwing, runs) if expressed else {"families": [], "cases": []}
            if table.get("left_out"):
                own = own_framework(lapwing, table["left_out"], folder)
                without = validate(lapwing, runs, "--framework", own)
                result["left_out"] = {c["id"]: c["predicted_ns"] for c in without["cases"]}
        with open(os.path.join(work, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(result, f)
        n += 1
        print(f"{name:<36} {expressed:4} of {len(rows):4} rows  "
              f"{time.monotonic() - begun:6.0f} s", flush=True)
    return n


# --- collect -------------------------------------------------------------------------------------


def number(value, unit=1):
    return "" if not value else f"{value / unit:.9g}"


def run_row(case, row, left_out):
    devices = 1
    for group in ("dp", "pp", "tp", "cp"):
        devices *= int(row.get(group) or 1)
    key = case.get("like", case)
    measured_memory = case.get("measured_bytes")
    return {"id": row["id"], **{part: key[part] for part in KEY}, "devices": devices,
            "predicted_s": number(case["predicted_ns"], 1e9),
            "measured_s": number(case["measured_ns"], 1e9),
            "left_out_s": number(left_out.get(case["id"]), 1e9),
            "predicted_gib": number(case["predicted_bytes"], 2 ** 30),
            "measured_gib": number(measured_memory, 2 ** 30),
            "memory_kind": row.get("memory_kind", ""),
            "memory_rank": (row.get("memory_rank") or "fullest") if measured_memory else "",
            "outcome": row.get("outcome", ""), "command": case["command"]}


def table_rows(name, file, rows, result):
    """One line for the table, and one for each reason of rows that are not predicted."""
    family = next((f for f in result["families"] if f["name"] == name), {})
    fits = family.get("fits", {})
    of = [row for row in rows if row["table"] == name]
    cases = [c for c in result["cases"] if c["family"] == name]
    reasons = {}
    for row in of:
        if "why" in row:
            reasons[row["why"]] = reasons.get(row["why"], 0) + 1
    for skipped in result.get("skip_reasons", []):
        if skipped["family"] == name and skipped["reason"] not in reasons:
            reasons[skipped["reason"]] = skipped["n"]
    yield {"table": name, "file": file, "rows": len(of), "predicted": len(cases),
           "fitted": "; ".join(family.get("fitted", [])), "ran": fits.get("n_ran", ""),
           "ran_fit": fits.get("n_ran_fit", ""), "out_of_memory": fits.get("n_failed", ""),
           "do_not_fit": fits.get("n_failed_do_not_fit", "")}
    for why, n in sorted(reasons.items(), key=lambda x: (-x[1], x[0])):
        yield {"table": name, "file": file, "reason": why, "n": n}


def collect_table(path, work):
    """{family: rows}, and the lines of tables.csv."""
    with open(os.path.join(work, os.path.basename(path)[:-4] + ".json"), encoding="utf-8") as f:
        result = json.load(f)
    rows = list(convert.convert(path))
    by_id = {f"{row['table']}:{row['id']}": row for row in rows}
    families = {row["table"]: [] for row in rows}
    for case in result["cases"]:
        row = by_id[case["id"]]
        families[row["table"]].append(run_row(case, row, result.get("left_out", {})))
    file = os.path.join(os.path.basename(os.path.dirname(path)), os.path.basename(path))
    return families, [line for family in families
                      for line in table_rows(family, file, rows, result)]


def write(path, titles, rows):
    with open(path, "w", newline="", encoding="utf-8") as f:
        out = csv.DictWriter(f, titles, restval="", lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


def collect(work, shared, out):
    os.makedirs(out, exist_ok=True)
    for old in glob.glob(os.path.join(out, "*.csv")):
        os.remove(old)
    lines = []
    for path in paths_of(shared, []):
        families, of_table = collect_table(path, work)
        lines += of_table
        for family, rows in families.items():
            if rows:
                write(os.path.join(out, family + ".csv"), RUNS, rows)
    write(os.path.join(out, "tables.csv"), TABLES, lines)
    return len(lines)


# --- sample --------------------------------------------------------------------------------------


def read_results(path):
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def choose(tables, out, n):
    """Rows of plans of at most 64 devices, one of each table in turn: always the same ones."""
    rows = {}
    for t in tables:
        path = os.path.join(out, t["table"] + ".csv")
        if t["reason"] or not os.path.exists(path):
            continue
        rows[t["table"]] = [(t, r) for r in read_results(path) if int(r["devices"]) <= 64]
        random.Random(t["table"]).shuffle(rows[t["table"]])
    turns = [of[k] for k in range(n) for of in rows.values() if k < len(of)]
    return turns[:n]


def sample(lapwing, shared, out, n):
    bad, seen = [], 0
    for t, row in choose(read_results(os.path.join(out, "tables.csv")), out, n):
        path = os.path.join(shared, t["file"])
        if not os.path.exists(path):
            continue
        with tempfile.TemporaryDirectory() as folder:
            runs, _ = runs_file(path, folder,
                                lambda r, t=t, row=row: (r["table"], r["id"]) ==
                                (t["table"], row["id"]))
            case = validate(lapwing, runs)["cases"][0]
        seen += 1
        for figure, unit, title in ((case["predicted_ns"], 1e9, "predicted_s"),
                                    (case["predicted_bytes"], 2 ** 30, "predicted_gib")):
            if number(figure, unit) != row[title]:
                bad.append(f"{case['id']}: {title}: found {number(figure, unit)}, {out} has "
                           f"{row[title]}: run `make evidence`")
    return bad, seen


def main(arguments):
    if len(arguments) >= 4 and arguments[0] == "predict":
        if not predict(arguments[1], arguments[2], arguments[3], arguments[4:]):
            print(f"evidence.py: SKIP: no known table below {arguments[2]}", file=sys.stderr)
            return 4
        return 0
    if len(arguments) == 4 and arguments[0] == "collect":
        return 0 if collect(*arguments[1:]) else 4
    if len(arguments) in (4, 5) and arguments[0] == "sample":
        bad, n = sample(*arguments[1:4], int(arguments[4]) if len(arguments) == 5 else 12)
        print("\n".join(bad) if bad else f"sample: ok, {n}")
        return 1 if bad else 0 if n else 4
    sys.exit("usage: evidence.py predict LAPWING SHARED WORK [TABLE...] | collect WORK SHARED OUT "
             "| sample LAPWING SHARED OUT [N]")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
