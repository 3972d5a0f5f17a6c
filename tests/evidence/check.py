#!/usr/bin/env python3
"""Checks of convert.py on the published tables.

    check.py doubled SHARED       with every measured cell doubled no option of a row changes
    check.py coverage SHARED      share of each table's rows that are expressed, with least ones
    check.py layers LAPWING       the blocks that words.json lists are those of the models

Exit status 0; 1: what differs, a line each; 4: SHARED has no table.
"""
import glob
import json
import os
import re
import subprocess
import sys

import convert
from measured import MEASURED
from words import WORDS

# Least share of rows in % that are expressed; of the other tables 0.
COVERAGE = {
    "mpt_fsdp": 100, "narayanan2021_table1_weak_scaling": 100,
    "narayanan2021_table2_vs_zero3": 100, "korthikanti2022_tables3_5": 100,
    "vtrain_ground_truth_single": 100, "vtrain_ground_truth_multi": 100,
    "megatron_h100_scaling": 100, "bloom_3d_a100": 100, "internevo_zero1_scaling": 100,
    "dlperf_gpt_v100_oneflow_megatron": 100, "simumax_real_runs": 100, "llama3_table4": 100,
    "torchtitan_h100_202412": 100, "torchtitan_async_tp_h100_202506": 100,
    "torchtitan_h200_fsdp_float8_202506": 100, "qi2024_zero_bubble_throughput": 100,
    "nanotron_ultrascale": 99, "dgxc_weak_scaling": 92, "mlperf_training_steps": 79,
    "megatron_bridge_performance": 73, "nemo_performance": 69, "misc_training_tables": 57,
    "ablations_moe_recompute_fp8": 44, "nanotron_scaling_curves": 25,
}


def tables_below(shared):
    """Path of each known table; sorted by name."""
    for name in convert.known_tables():
        yield from sorted(glob.glob(os.path.join(shared, "*", name + ".csv")))


def configuration(row):
    return {k: v for k, v in row.items() if k not in MEASURED}


def doubled_table(path, table):
    """The rows of a table as convert.read gives them, with its measured cells doubled."""
    titles = {t for run in table["runs"] for t, _ in run["time"] + run.get("memory", [])}
    for place, number, cells in convert.read(path, table):
        for title in titles:
            if re.fullmatch(r"[0-9.]+(e[-+]?[0-9]+)?", cells[title]):
                cells[title] = repr(2 * float(cells[title]))
        yield place, number, cells


def doubled(shared):
    bad, moved, n = [], 0, 0
    for path in tables_below(shared):
        name = os.path.basename(path)[:-4]
        table = convert.table_named(name)
        for cells, twice in zip(convert.read(path, table), doubled_table(path, table)):
            for run in table["runs"]:
                one = convert.convert_run(name, table, run, cells[2], cells[1], cells[0])
                two = convert.convert_run(name, table, run, twice[2], twice[1], twice[0])
                n += 1
                moved += one != two
                if configuration(one) != configuration(two):
                    bad.append(f"{cells[0]}: a measured cell decides an option")
    if n and moved < n // 2:
        bad.append(f"only {moved} of {n} rows changed at all")
    return bad, n


def coverage(shared):
    bad, n = [], 0
    for path in tables_below(shared):
        name = os.path.basename(path)[:-4]
        rows = list(convert.convert(path))
        expressed = sum("why" not in row for row in rows)
        share = 100 * expressed / max(len(rows), 1)
        n += 1
        print(f"{name:<36} {expressed:4} of {len(rows):4}  {share:5.1f} %")
        if share < COVERAGE.get(name, 0):
            bad.append(f"{name}: {share:.1f} % of the rows are expressed, least {COVERAGE[name]} %")
    return bad, n


def layers(lapwing):
    bad = []

    def run(*words):
        return json.loads(subprocess.run([lapwing, "model", *words, "--format", "json"], check=True,
                                         capture_output=True, text=True).stdout)

    listed = WORDS["models"]["layers"]
    for model in run("--list")["models"]:
        found = re.search(r", (\d+) blocks, hidden", " ".join(run(model["name"])["notes"]))
        have = listed.get(model["name"])
        if (int(found[1]) if found else None) != have:
            bad.append(f"{model['name']}: words.json has {have} blocks, the model has "
                       f"{found[1] if found else 'none'}")
    bad += [f"{model}: no known model of words.json" for _, model in WORDS["models"]["rows"]
            if model not in listed]
    return bad, len(listed)


CHECKS = {"doubled": doubled, "coverage": coverage, "layers": layers}


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in CHECKS:
        sys.exit("usage: check.py " + "|".join(CHECKS) + " LAPWING|SHARED")
    bad, n = CHECKS[arguments[0]](arguments[1])
    print("\n".join(bad) if bad else f"{arguments[0]}: ok, {n}")
    return 1 if bad else 0 if n else 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
