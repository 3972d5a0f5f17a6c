#!/usr/bin/env python3
"""Print a table of published training runs as runs.csv (docs/formats/runs.md).

    convert.py TABLE.csv            the table's name is the file's, without .csv
    convert.py --list               the tables that are known

tables/NAME.json says what the columns of a table mean and what its source states beside them;
words.json, how sources spell models, frameworks and devices. A row that cannot be expressed is
written with the reason in column `why`. options.py decides the options of a row from its fields;
measured.py alone reads measured columns.
"""
import csv
import os
import sys

import megatron
from fields import Row
from measured import MEASURED, measure
from options import express
from words import BadInput, Cannot, HERE, by_words, holds, load

TITLES = ["id", "table", "model", "framework", "cluster"]
ENDING = ["why", "assumed", "note", "source"]



def known_tables():
    return sorted(f[:-5] for f in os.listdir(os.path.join(HERE, "tables")) if f.endswith(".json"))


def table_named(name):
    if name not in known_tables():
        raise BadInput(f"unknown table '{name}'; expected a file named as one of: "
                       + ", ".join(t + ".csv" for t in known_tables()))
    table = load(os.path.join("tables", name + ".json"))
    return {**table_named(table["as"]), **table} if "as" in table else table


def titles_of(table):
    """Titles without which a row of the table cannot be read."""
    found = [t[0] if isinstance(t, list) else t for t in table.get("titles", {}).values()]
    found += table.get("needs", [])
    for rule in table.get("sizes", []) + [table.get("family")]:
        if isinstance(rule, dict):
            found.append(rule["title"])
    found += [part[0] for parts in table.get("from", {}).values() for part in parts]
    found += [title for rule in table.get("refuse", []) for title in rule["where"]]
    for run in table["runs"]:
        found += [title for title, _ in run["time"] + run.get("memory", [])]
    return [t for t in dict.fromkeys(found) if t]


def read(path, table):
    try:
        with open(path, newline="", encoding="utf-8-sig") as f:
            rows = list(csv.reader(f))
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise BadInput(f"{path}: {getattr(e, 'strerror', None) or e}") from None
    if not rows:
        raise BadInput(f"{path}: the file is empty; expected a line of titles")
    lacking = [t for t in titles_of(table) if t not in rows[0]]
    if lacking:
        raise BadInput(f"{path}:1: no column '{lacking[0]}'; expected the columns of the table of "
                       f"this name, with {', '.join(titles_of(table))}")
    for i, cells in enumerate(rows[1:]):
        if len(cells) != len(rows[0]):
            raise BadInput(f"{path}:{i + 2}: found {len(cells)} cells, expected "
                           f"{len(rows[0])}, one for each title")
        yield f"{path}:{i + 2}", i, dict(zip(rows[0], (c.strip() for c in cells)))


def check_table(table, run, cells):
    for rule in table.get("refuse", []) + run.get("refuse", []):
        if holds(rule["where"], cells):
            raise Cannot(rule["why"])


def convert_run(name, table, run, cells, number, place):
    out = {"id": (cells.get("row") or str(number)) + ("/" + run["name"] if run["name"] else ""),
           "table": by_words(table.get("family"), cells, name),
           "note": " ".join(cells[t] for t in table.get("note", []) if cells[t]),
           "source": cells.get("source") or table["source"]}
    devices = 0
    try:
        if table.get("arguments") == "megatron":
            options, devices = megatron.express(cells)
            out.update(options)
        else:
            row = Row(table, run, cells, place)
            check_table(table, run, cells)
            out.update(express(row))
            devices = row.gpus
            out["assumed"] = "; ".join(row.assumed)
    except Cannot as e:
        out["why"] = str(e)
        out["note"] = out["note"] or cells.get("model", "")
    measured = measure(table, run, cells, devices, place)
    return out if "why" in out else {**out, **measured}


def convert(path):
    """Rows of runs.csv as {title: value}, in the order of the table."""
    name = os.path.splitext(os.path.basename(path))[0]
    table = table_named(name)
    for place, number, cells in read(path, table):
        for run in table["runs"]:
            yield convert_run(name, table, run, cells, number, place)


def write(rows, out):
    used = {title for row in rows for title, value in row.items() if value != ""}
    options = [t for t in dict.fromkeys(t for row in rows for t in row)
               if t not in TITLES + MEASURED + ENDING]
    titles = TITLES + [t for t in options + MEASURED + ENDING if t in used]
    lines = csv.DictWriter(out, titles, restval="", extrasaction="ignore", lineterminator="\n")
    lines.writeheader()
    lines.writerows(rows)


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(known_tables()))
        return 0
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: convert.py TABLE.csv | --list", file=sys.stderr)
        return 1
    try:
        rows = list(convert(arguments[0]))
    except BadInput as e:
        print(f"convert.py: {e}", file=sys.stderr)
        return 1
    try:
        write(rows, sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
