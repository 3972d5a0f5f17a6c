#!/usr/bin/env python3
"""Predict every published training run in SHARED and keep what was predicted beside what was
measured, as data.

    evidence.py predict LAPWING SHARED WORK [TABLE...]   WORK/TABLE.json of `lapwing validate`
    evidence.py collect WORK SHARED OUT                  OUT/FAMILY.csv, one row a run; tables.csv
    evidence.py sample LAPWING SHARED OUT [N]            N rows of OUT against a new prediction
    evidence.py doubled LAPWING SHARED OUT [N]           the same with measured cells doubled

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
from convert import table_named
from measured import TIMES, figure

RUNS = ["id", "framework", "device", "parallelism", "network", "devices", "predicted_s",
        "measured_s", "left_out_s", "predicted_gib", "measured_gib", "memory_kind", "memory_rank",
        "outcome", "command"]
KEY = RUNS[1:5]  # of "runs like this one"
TABLES = ["table", "file", "rows", "predicted", "fitted", "rank_mean", "rank_least", "pair_mean",
          "pair_least", "regret_mean", "regret_worst", "ran", "ran_fit",
          "out_of_memory", "do_not_fit", "reason", "n"]


def paths_of(shared, wanted):
    for name in convert.known_tables():
        if not wanted or name in wanted:
            yield from sorted(glob.glob(os.path.join(shared, "*", name + ".csv")))


def runs_file(path, folder, keep=lambda row: True):
    out = os.path.join(folder, os.path.basename(path))
    rows = [row for row in convert.convert(path) if keep(row)]
    return write_rows(rows, out), rows


def own_framework(lapwing, name, left_out, folder):
    """A file of the framework whose fitted figures are those that it has without the table."""
    out = os.path.join(folder, name + ".json")
    subprocess.run([lapwing, "framework", name, "-o", out, "--force"], check=True,
                   stdout=subprocess.DEVNULL)
    with open(out, encoding="utf-8") as f:
        doc = json.load(f)
    for name, (value, _) in left_out["figures"].items():
        group, fact = name.split(".")
        doc[group][fact]["value"] = value
    doc.pop("content_hash", None)
    with open(out, "w", encoding="utf-8") as f:
        json.dump(doc, f)
    return out


def own_rows(lapwing, rows, left_out, folder):
    """The rows with such a file of their framework: the one fitted, or another version of it."""
    own = {name: own_framework(lapwing, name, left_out, folder)
           for name in sorted({row["framework"] for row in rows if "why" not in row})}
    return [{**row, "framework": own[row["framework"]]} if "why" not in row else row
            for row in rows]


def write_rows(rows, path):
    with open(path, "w", newline="", encoding="utf-8") as f:
        convert.write(rows, f)
    return path


def validate(lapwing, runs, *options):
    done = subprocess.run([lapwing, "validate", runs, "--format", "json", *options],
                          capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        sys.exit(f"evidence.py: {runs}: exit {done.returncode}: {done.stderr.strip()}")


# --- predict -------------------------------------------------------------------------------------


def predict(lapwing, shared, work, wanted):
    for name in wanted:
        if name not in convert.known_tables():
            sys.exit(f"evidence.py: unknown table '{name}'; convert.py --list has them")
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
                own = own_rows(lapwing, rows, table["left_out"], folder)
                without = validate(lapwing, write_rows(own, runs))
                result["left_out"] = {c["id"]: c["predicted_ns"] for c in without["cases"]}
        with open(os.path.join(work, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(result, f)
        n += 1
        for refused in result.get("refused", []):
            print(f"{name}: {refused['error']}", file=sys.stderr)
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
    return {"id": row["id"], **{part: key.get(part, "") for part in KEY}, "devices": devices,
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
    ranks = [s["rank_correlation"] for s in family.get("series", [])
             if s["rank_correlation"] is not None]
    pairs, regrets = ([s[figure] for s in family.get("series", []) if s.get(figure) is not None]
                      for figure in ("pair_correlation", "regret_pct"))
    of = [row for row in rows if row["table"] == name]
    cases = [c for c in result["cases"] if c["family"] == name]
    reasons = {}
    for row in of:
        if "why" in row:
            reasons[row["why"]] = reasons.get(row["why"], 0) + 1
    for skipped in result.get("skip_reasons", []):
        if skipped["family"] == name and skipped["reason"] not in reasons:
            reasons[skipped["reason"]] = skipped["n"]
    lost = len(of) - len(cases) - sum(reasons.values())
    if lost > 0:
        reasons["refused by the program"] = lost
    yield {"table": name, "file": file, "rows": len(of), "predicted": len(cases),
           "fitted": "; ".join(dict.fromkeys(f"{x['name'].split(': ')[1]} of {x['fitted_on']}"
                                             for x in family.get("fitted", []))),
           "rank_mean": f"{sum(ranks) / len(ranks):.2f}" if ranks else "",
           "rank_least": f"{min(ranks):.2f}" if ranks else "",
           "pair_mean": f"{sum(pairs) / len(pairs):.2f}" if pairs else "",
           "pair_least": f"{min(pairs):.2f}" if pairs else "",
           "regret_mean": f"{sum(regrets) / len(regrets):.1f}" if regrets else "",
           "regret_worst": f"{max(regrets):.1f}" if regrets else "", "ran": fits.get("n_ran", ""),
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


def read_results(path):
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def collect(work, shared, out):
    """Tables without a file in WORK keep the results that they have."""
    os.makedirs(out, exist_ok=True)
    listed = os.path.join(out, "tables.csv")
    lines = {}
    for line in read_results(listed) if os.path.exists(listed) else []:
        lines.setdefault(line["file"], []).append(line)
    for path in paths_of(shared, []):
        if not os.path.exists(os.path.join(work, os.path.basename(path)[:-4] + ".json")):
            continue
        families, of_table = collect_table(path, work)
        lines[of_table[0]["file"]] = of_table
        for family, rows in families.items():
            if rows:
                write(os.path.join(out, family + ".csv"), RUNS, rows)
    write(listed, TABLES, [line for file in sorted(lines) for line in lines[file]])
    families = {"tables"} | {line["table"] for of in lines.values() for line in of
                             if int(line.get("predicted") or 0)}
    for path in glob.glob(os.path.join(out, "*.csv")):
        if os.path.basename(path)[:-4] not in families:
            os.remove(path)
    return len(lines)


# --- sample --------------------------------------------------------------------------------------


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


def chosen_runs(shared, out, n):
    """Rows of results, and the same runs as rows of runs.csv, of the tables that are there."""
    rows, runs = [], []
    for t, row in choose(read_results(os.path.join(out, "tables.csv")), out, n):
        path = os.path.join(shared, t["file"])
        if os.path.exists(path):
            rows.append({**row, "table": t["table"]})
            runs += [r for r in convert.convert(path)
                     if (r["table"], r["id"]) == (t["table"], row["id"])]
    return rows, runs


def predicted(lapwing, runs):
    """Cases of `lapwing validate` by id, of runs of several tables in one file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "runs.csv")
        with open(path, "w", newline="", encoding="utf-8") as f:
            convert.write(runs, f)
        return {case["id"]: case for case in validate(lapwing, path)["cases"]}


FIGURES = (("predicted_ns", 1e9, "predicted_s"), ("predicted_bytes", 2 ** 30, "predicted_gib"))


def sample(lapwing, shared, out, n):
    """Rows of the results that a new prediction does not give."""
    rows, runs = chosen_runs(shared, out, n)
    cases = predicted(lapwing, runs) if runs else {}
    bad = []
    for row in rows:
        case = cases[f"{row['table']}:{row['id']}"]
        for key, unit, title in FIGURES:
            found = number(case[key], unit)
            if found != row[title]:
                bad.append(f"{case['id']}: {title}: found {found}, {out} has {row[title]}: run "
                           "`make evidence`")
    return bad, len(rows)


def doubled(lapwing, shared, out, n):
    """Rows whose prediction moves when what was measured is doubled."""
    _, runs = chosen_runs(shared, out, n)
    twice = [{k: figure(2 * float(v)) if k in TIMES + ["memory_gib", "memory_gb"] and v else v
              for k, v in run.items()} for run in runs]
    one, two = (predicted(lapwing, r) if r else {} for r in (runs, twice))
    bad = [f"{name}: {key} moves with what was measured" for name, case in one.items()
           for key, _, _ in FIGURES if case[key] != two[name][key]]
    measured = [name for name, case in one.items()
                if case["measured_ns"] or case["measured_bytes"]]
    for name in measured:
        if all(one[name][k] == two[name][k] for k in ("measured_ns", "measured_bytes")):
            bad.append(f"{name}: the measurement was not doubled")
    return bad, len(one)


def main(arguments):
    if len(arguments) >= 4 and arguments[0] == "predict":
        if not predict(arguments[1], arguments[2], arguments[3], arguments[4:]):
            print(f"evidence.py: SKIP: no known table below {arguments[2]}", file=sys.stderr)
            return 4
        return 0
    if len(arguments) == 4 and arguments[0] == "collect":
        return 0 if collect(*arguments[1:]) else 4
    if len(arguments) in (4, 5) and arguments[0] in ("sample", "doubled"):
        check = sample if arguments[0] == "sample" else doubled
        bad, n = check(*arguments[1:4], int(arguments[4]) if len(arguments) == 5 else 24)
        print("\n".join(bad) if bad else f"{arguments[0]}: ok, {n}")
        return 1 if bad else 0 if n else 4
    sys.exit("usage: evidence.py predict LAPWING SHARED WORK [TABLE...] | collect WORK SHARED OUT "
             "| sample|doubled LAPWING SHARED OUT [N]")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
