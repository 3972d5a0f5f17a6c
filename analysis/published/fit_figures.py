#!/usr/bin/env python3
"""Fit facts of frameworks (shared/framework) on the tables that they belong to.

    fit_figures.py LAPWING SHARED [FRAMEWORK...]     SHARED: gpu-tables/, papers/

Of each table every STRIDE-th row is fitted on and the others are left out. One fact after the
other, twice round: of the present value times FACTORS, the one with the least mean error of the
step times. Prints the facts, the error on the rows fitted on and on the rows left out, and the
error of all rows with the facts that another table or none gives (leave-one-table-out).
"""
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile

FACTORS = (0.6, 0.8, 0.9, 1.1, 1.25, 1.6)
# Table: stride, figures and where they start, and what they are without the table.
TABLES = {
    "nanotron_ultrascale": (
        16, {"nanotron host.host_op_ns": 56200}, {"nanotron host.host_op_ns": 68000}),
    "vtrain_ground_truth_single": (
        3, {"megatron-deepspeed-no-zero host.host_op_ns": 68000},
        {"megatron-deepspeed-no-zero host.host_op_ns": 56200}),
    "mpt_fsdp": (2, {"composer kernels.traffic": 1.75}, {"composer kernels.traffic": 1}),
    "narayanan2021_table1_weak_scaling": (
        1, {"megatron-lm-2021 kernels.traffic": 1.275}, {"megatron-lm-2021 kernels.traffic": 1}),
}


def family_of(lapwing, path, figures):
    """Figures are "FRAMEWORK GROUP.FACT" of one framework."""
    name = next(iter(figures)).split()[0]
    with tempfile.TemporaryDirectory() as folder:
        own = os.path.join(folder, "framework.json")
        subprocess.run([lapwing, "framework", name, "-o", own], check=True,
                       stdout=subprocess.DEVNULL)
        with open(own) as f:
            doc = json.load(f)
        for figure, value in figures.items():
            group, fact = figure.split()[1].split(".")
            doc[group][fact]["value"] = value
        with open(own, "w") as f:
            json.dump(doc, f)
        run = subprocess.run([lapwing, "validate", path, "--format", "json", "--framework", own],
                             capture_output=True, text=True, check=False)
    if run.returncode not in (0, 3):
        sys.exit(run.stderr)
    return json.loads(run.stdout)["families"][0]


def error_of(lapwing, path, figures):
    return family_of(lapwing, path, figures)["mean_abs_error_pct"]


def split(path, stride, folder):
    """Rows fitted on and rows left out, as tables of the same name; None where there are none."""
    with open(path, newline="") as f:
        rows = list(csv.reader(f))
    parts = []
    for name, keep in (("fitted", lambda i: i % stride == 0), ("left", lambda i: i % stride != 0)):
        chosen = [r for i, r in enumerate(rows[1:]) if keep(i)]
        os.mkdir(os.path.join(folder, name))
        part = os.path.join(folder, name, os.path.basename(path))
        with open(part, "w", newline="") as f:
            csv.writer(f).writerows([rows[0]] + chosen)
        parts.append(part if chosen else None)
    return parts


def fit(lapwing, path, figures):
    best = error_of(lapwing, path, figures)
    for _ in range(2):
        for name in figures:
            trials = [(best, figures[name])]
            for factor in FACTORS:
                value = float(f"{figures[name] * factor:.3g}")
                trials.append((error_of(lapwing, path, {**figures, name: value}), value))
            best, figures[name] = min(trials)
    return best


def main():
    lapwing, shared, wanted = sys.argv[1], sys.argv[2], sys.argv[3:]
    for table, (stride, figures, without) in TABLES.items():
        if wanted and not any(name.startswith(w) for name in figures for w in wanted):
            continue
        path = glob.glob(f"{shared}/*/{table}.csv")[0]
        with tempfile.TemporaryDirectory() as folder:
            fitted, left = split(path, stride, folder)
            best = fit(lapwing, fitted, figures)
            rest = f"{error_of(lapwing, left, figures):.2f} %" if left else "-"
        print(f"{table}: " + ";".join(f"{name}={value:.4g}" for name, value in figures.items()))
        print(f"    every {stride}. row, fitted on: {best:.2f} %, the others: {rest}, all without: "
              f"{error_of(lapwing, path, without):.2f} %", flush=True)


main()
