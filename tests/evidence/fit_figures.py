#!/usr/bin/env python3
"""Fit facts of frameworks (traces/frameworks) on the tables that they belong to.

    fit_figures.py LAPWING SHARED [FRAMEWORK...]     SHARED: gpu-tables/, papers/

Of each table every STRIDE-th row is fitted on and the others are left out. One fact after the
other, twice round: of the present value times FACTORS, the one with the least mean error of the
step times. Prints the facts, the error on the rows fitted on and on the rows left out, and the
error of all rows with the facts that another table or none gives ("left_out" of the table).
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

from convert import convert, table_named
from evidence import own_rows, validate, write_rows

FACTORS = (0.6, 0.8, 0.9, 1.1, 1.25, 1.6)
STRIDES = {"nanotron_ultrascale": 16, "vtrain_ground_truth_single": 3}


def shipped_figures(lapwing, left_out, folder):
    """The figures of this build under the names of left_out."""
    out = os.path.join(folder, "shipped.json")
    subprocess.run([lapwing, "framework", left_out["framework"], "-o", out], check=True,
                   stdout=subprocess.DEVNULL)
    with open(out, encoding="utf-8") as f:
        doc = json.load(f)
    os.remove(out)
    return {name: doc[name.split(".")[0]][name.split(".")[1]]["value"]
            for name in left_out["figures"]}


def error_of(lapwing, rows, figures, folder):
    own = own_rows(lapwing, rows, {"figures": {k: (v, "") for k, v in figures.items()}}, folder)
    runs = write_rows(own, os.path.join(folder, "runs.csv"))
    return validate(lapwing, runs)["families"][0]["mean_abs_error_pct"]


def fit(error, figures):
    best = error(figures)
    for _ in range(2):
        for name in figures:
            trials = [(best, figures[name])]
            for factor in FACTORS:
                value = float(f"{figures[name] * factor:.3g}")
                trials.append((error({**figures, name: value}), value))
            best, figures[name] = min(trials)
    return best


def fit_table(lapwing, path, stride):
    name = os.path.basename(path)[:-4]
    left_out = table_named(name)["left_out"]
    rows = list(convert(path))
    with tempfile.TemporaryDirectory() as folder:
        fitted = rows[::stride]
        others = [row for i, row in enumerate(rows) if i % stride]

        def error(runs, figures):
            return error_of(lapwing, runs, figures, folder)

        figures = shipped_figures(lapwing, left_out, folder)
        best = fit(lambda trial: error(fitted, trial), figures)
        rest = f"{error(others, figures):.2f} %" if others else "-"
        without = error(rows, {k: v for k, (v, _) in left_out["figures"].items()})
    print(f"{name}: {left_out['framework']} " +
          ";".join(f"{k}={v:.4g}" for k, v in figures.items()))
    print(f"    every {stride}. row, fitted on: {best:.2f} %, the others: {rest}, all without: "
          f"{without:.2f} %", flush=True)


def main():
    lapwing, shared, wanted = sys.argv[1], sys.argv[2], sys.argv[3:]
    for name, stride in STRIDES.items():
        framework = table_named(name)["left_out"]["framework"]
        for path in glob.glob(os.path.join(shared, "*", name + ".csv")):
            if not wanted or framework in wanted:
                fit_table(lapwing, path, stride)


if __name__ == "__main__":
    main()
