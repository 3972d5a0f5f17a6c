#!/usr/bin/env python3
"""Fit the figures of analysis/validate/run_figures.c again on the tables that they were fitted on.

    fit_figures.py LAPWING SHARED [OF...]     SHARED: gpu-tables/, papers/; OF: as in the C table

One figure after the other, twice round: of the present value times FACTORS, the one with the least
mean error of the table's step times. Prints the list that `lapwing validate --figures` takes, and
the error before and after.
"""
import glob
import json
import subprocess
import sys

FACTORS = (0.7, 0.85, 0.93, 1.07, 1.15, 1.3)
FIGURES = {
    "nanotron_ultrascale": ["nanotron host-op=78", "p5-playbook host-tensor=25",
                            "p5-playbook host-tensor-stage=250", "p5-playbook stage-message=450"],
    "vtrain_ground_truth_single": ["Megatron-DeepSpeed host-op=68"],
    "mpt_fsdp": ["Composer traffic=1.75"],
    "narayanan2021_table1_weak_scaling": ["Megatron-LM 202 traffic=1.275"],
}


def error_of(lapwing, path, figures):
    text = ";".join(f"{name}={value:.4g}" for name, value in figures.items())
    run = subprocess.run([lapwing, "validate", path, "--format", "json", "--figures", text],
                         capture_output=True, text=True, check=False)
    if run.returncode not in (0, 3):
        sys.exit(run.stderr)
    return json.loads(run.stdout)["families"][0]["mean_abs_error_pct"]


def fit(lapwing, path, figures):
    best = start = error_of(lapwing, path, figures)
    for _ in range(2):
        for name in figures:
            trials = [(best, figures[name])]
            for factor in FACTORS:
                value = figures[name] * factor
                trials.append((error_of(lapwing, path, {**figures, name: value}), value))
            best, figures[name] = min(trials)
    return start, best


def main():
    lapwing, shared, wanted = sys.argv[1], sys.argv[2], sys.argv[3:]
    for table, entries in FIGURES.items():
        figures = {e.split("=")[0]: float(e.split("=")[1]) for e in entries}
        if wanted and not any(name.startswith(w) for name in figures for w in wanted):
            continue
        path = glob.glob(f"{shared}/*/{table}.csv")[0]
        start, best = fit(lapwing, path, figures)
        print(f"{table}: mean error {start:.2f} -> {best:.2f} %")
        print("    " + ";".join(f"{name}={value:.4g}" for name, value in figures.items()), flush=True)


main()
