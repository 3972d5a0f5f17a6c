#!/usr/bin/env python3
"""Sum up the JSON of `lapwing validate` of many tables, a family a line."""
import glob
import json
import sys


def ranks(family):
    found = [s["rank_correlation"] for s in family["series"] if s.get("rank_correlation") is not None]
    return f"{sum(found) / len(found):.2f} ({min(found):.2f} of {len(found)})" if found else "-"


def line(data, family):
    cases = [c for c in data["cases"] if c["family"] == family["name"]]
    rows = len(cases) + family["n_skipped"]
    step = memory = "-"
    if family["n"]:
        step = f"{family['mean_abs_error_pct']:.1f} ({family['bias_pct']:+.1f})"
    m = family["memory"]
    if m["n"]:
        memory = f"{m['mean_abs_error_pct']:.1f} ({m['bias_pct']:+.1f}) of {m['n']}"
    f = family["fits"]
    ran = f"{f['n_ran_fit']}/{f['n_ran']}"
    failed = f"{f['n_failed_do_not_fit']}/{f['n_failed']}"
    return (f"{family['name']:34} {len(cases):4}/{rows:<4} {step:>16} {ranks(family):>20} "
            f"{memory:>22} {ran:>9} {failed:>9}")


def main():
    print(f"{'family':34} {'rows':>9} {'step % (bias)':>16} {'rank mean (least)':>20} "
          f"{'memory % (bias)':>22} {'ran: fit':>9} {'failed: not':>9}")
    for path in sorted(glob.glob(sys.argv[1] + "/*.json")):
        with open(path) as f:
            data = json.load(f)
        for family in data["families"]:
            if "n_skipped" in family:
                print(line(data, family))


main()
