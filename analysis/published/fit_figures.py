#!/usr/bin/env python3
"""Fit the figures of analysis/published/run_figures.c on the tables that they belong to.

    fit_figures.py LAPWING SHARED [--by-hand | OF...]     SHARED: gpu-tables/, papers/; OF: as in
                                                          the C table

Of each table every STRIDE-th row is fitted on and the others are left out. One figure after the
other, twice round: of the present value times FACTORS, the one with the least mean error of the
step times. Prints the figures, the error on the rows fitted on and on the rows left out, and the
error of all rows with the figures that another table or none gives (leave-one-table-out). Figures
that are chosen by hand are not searched: with --by-hand, prints the errors of their tables with and
without each group of them.
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
        16, {"nanotron host-op": 56.2, "p5-playbook host-tensor": 20,
             "p5-playbook host-tensor-stage": 250},
        {"nanotron host-op": 68, "p5-playbook host-tensor": 0,
         "p5-playbook host-tensor-stage": 0}),
    "vtrain_ground_truth_single": (
        3, {"Megatron-DeepSpeed host-op": 68}, {"Megatron-DeepSpeed host-op": 56.2}),
    "mpt_fsdp": (2, {"Composer traffic": 1.75}, {"Composer traffic": 1}),
    "bloom_3d_a100": (
        4, {"jean-zay-a100 network": 0.14}, {"jean-zay-a100 network": 0.101}),
    "narayanan2021_table1_weak_scaling": (
        1, {"Megatron-LM 202 traffic": 1.275}, {"Megatron-LM 202 traffic": 1}),
}
# Table: groups of figures chosen by hand, with values that switch them off.
BY_HAND = {
    "nanotron_ultrascale": (
        {"nanotron poll-devices": 100000, "nanotron poll-group": 100000,
         "nanotron poll-large-devices": 0},
        {"nanotron held": 3, "nanotron held-few": 3},
        {"nanotron held-share": 2}),
}


def family_of(lapwing, path, figures):
    text = ";".join(f"{name}={value:.6g}" for name, value in figures.items())
    run = subprocess.run([lapwing, "validate", path, "--format", "json", "--figures", text],
                         capture_output=True, text=True, check=False)
    if run.returncode not in (0, 3):
        sys.exit(run.stderr)
    return json.loads(run.stdout)["families"][0]


def error_of(lapwing, path, figures):
    return family_of(lapwing, path, figures)["mean_abs_error_pct"]


def by_hand(lapwing, shared):
    for table, groups in BY_HAND.items():
        path = glob.glob(f"{shared}/*/{table}.csv")[0]
        for figures in ({},) + groups:
            f = family_of(lapwing, path, figures)
            print(f"{table}: {'without ' + ', '.join(figures) if figures else 'all'}: step "
                  f"{f['mean_abs_error_pct']:.2f} %, memory "
                  f"{f['memory']['mean_abs_error_pct']:.2f} %", flush=True)


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
    if wanted == ["--by-hand"]:
        by_hand(lapwing, shared)
        return
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
