#!/usr/bin/env python3
"""Published runs whose prediction moved: the results of two directories, row by row.

    moved.py OLDER NEWER      print a line for each row that moved, then how many did

A row moves where its step changes by more than 8 %, its memory by more than 2 %, or where it is
predicted in one directory only. Means of a family hide such rows: what moves by mistake is among
those that no change was meant for.
"""
import csv
import glob
import os
import sys

MOVES = {"predicted_s": 0.08, "predicted_gib": 0.02}  # column: change of a row that is printed


def results(directory):
    """{family: {id: row}} of a directory of results (evidence.py collect)."""
    families = {}
    for path in sorted(glob.glob(os.path.join(directory, "*.csv"))):
        with open(path, newline="", encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
        if rows and set(MOVES) <= set(rows[0]):
            families[os.path.basename(path)[: -len(".csv")]] = {r["id"]: r for r in rows}
    return families


def cells(old, new):
    """Lines "column: older -> newer" of the cells of one row that moved."""
    for column, bound in MOVES.items():
        before, after = old.get(column, ""), new.get(column, "")
        if bool(before) != bool(after):
            yield f"{column}: {before or 'none'} -> {after or 'none'}"
        elif before and abs(float(after) - float(before)) > bound * float(before):
            change = 100 * (float(after) / float(before) - 1)
            measured = new.get(column.replace("predicted", "measured")) or "none"
            yield f"{column}: {before} -> {after} ({change:+.1f} %), measured {measured}"


def moved(older, newer):
    """Lines for all rows of two directories that moved."""
    old, new = results(older), results(newer)
    for family in sorted(set(old) | set(new)):
        before, after = old.get(family, {}), new.get(family, {})
        for row in list(before) + [r for r in after if r not in before]:
            for cell in cells(before.get(row, {}), after.get(row, {})):
                yield f"{family} {row}: {cell}"


def main():
    if len(sys.argv) != 3 or not all(os.path.isdir(d) for d in sys.argv[1:]):
        sys.exit(__doc__.strip())
    lines = list(moved(*sys.argv[1:]))
    print("\n".join(lines + [f"{len(lines)} predictions of published runs moved"]))


if __name__ == "__main__":
    main()
