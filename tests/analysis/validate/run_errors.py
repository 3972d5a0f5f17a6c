#!/usr/bin/env python3
"""Write the rows of analysis/study/run_errors.c: errors of predicted runs by device and parallelism.

    run_errors.py OUT SHARED FILE      OUT: the JSON of `make validate-tables`; SHARED: the tables
"""
import csv
import glob
import json
import os
import sys

DEVICES = ("GB300", "GB200", "B300", "B200", "H200", "H100", "A100", "V100")
PAPERS = {"narayanan2021": "A100", "korthikanti2022": "A100", "vtrain_ground_truth": "A100",
          "dlperf": "V100", "llama3": "H100"}
# Equal configurations of this sweep differ by up to 20 times (docs/design/gpu_accuracy.md).
LEFT_OUT = ("nanotron_ultrascale",)
TITLES = {"tp": ("tp", "t", "tensor_parallelism", "model_parallel_size"), "pp": ("pp", "p", "pipeline_parallelism")}


def device_of(table, row):
    text = row.get("gpu", "") or next((d for p, d in PAPERS.items() if table.startswith(p)), "")
    return next((d for d in DEVICES if d.lower() in text.lower()), None)


def size(row, name):
    text = next((row[t] for t in TITLES[name] if row.get(t)), "1")
    return int(float(text))


def rows_of(path):
    with open(path) as f:
        return {r.get("row") or str(i): r for i, r in enumerate(csv.DictReader(f))}


def main():
    out, shared, file = sys.argv[1:4]
    found = {}
    for path in sorted(glob.glob(out + "/*.json")):
        table = os.path.basename(path)[:-5]
        if table in LEFT_OUT:
            continue
        source = [p for p in glob.glob(f"{shared}/*/{table}.csv")]
        with open(path) as f:
            cases = json.load(f)["cases"]
        rows = rows_of(source[0]) if source else {}
        for c in cases:
            row = rows.get(c["id"].split(":")[1].split("/")[0]) if ":" in c["id"] else None
            if row is None or c.get("error_pct") is None:
                continue
            device = device_of(table, row)
            split = size(row, "tp") > 1 or size(row, "pp") > 1
            if device:
                found.setdefault((device, split), []).append(abs(c["error_pct"]))
    lines = []
    for (device, split), errors in sorted(found.items()):
        errors.sort()
        lines.append('    {"%s", %s, %d, %.1f, %.1f},\n'
                     % (device, "true" if split else "false", len(errors),
                        sum(errors) / len(errors),
                        errors[min(len(errors) - 1, int(0.9 * len(errors)))]))
    with open(file) as f:
        text = f.read()
    head, rest = text.split("rows[] = {\n")
    with open(file, "w") as f:
        f.write(head + "rows[] = {\n" + "".join(lines) + rest[rest.index("};"):])


main()
