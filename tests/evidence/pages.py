#!/usr/bin/env python3
"""The tables of published runs, kernels and collectives in README.md and docs/design, from results.

    pages.py write PROJECT      write the text between <!-- begin NAME --> and <!-- end NAME -->
    pages.py check PROJECT      exit status 1 and a line for each page that is not what it would be

Results are docs/results/evidence/*.csv (evidence.py), kernels.csv and nccl.csv
(kernel_tables.py); pages.json names the groups of README's table and says what would settle each
large error.
"""
import csv
import os
import re
import sys
import textwrap

import pages_kernels
from page_text import share, table_text
from words import load

RESULTS = "docs/results/evidence"
LARGE = {"step": 10, "memory": 8}  # mean error in % above which pages.json says what is missing
WORDS = load("pages.json")


def results(project, name):
    with open(os.path.join(project, RESULTS, name + ".csv"), newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


# --- figures -------------------------------------------------------------------------------------


def ratios(rows):
    """Predicted / measured step, without what was fitted on the row's own table."""
    return [float(r["left_out_s"] or r["predicted_s"]) / float(r["measured_s"]) for r in rows]


def shipped_ratios(rows):
    """The same of this build, where that is another figure."""
    return [float(r["predicted_s"]) / float(r["measured_s"]) for r in rows if r["left_out_s"]]


def memory_ratios(rows):
    return [float(r["predicted_gib"]) / float(r["measured_gib"]) for r in rows]


def mean(values):
    return sum(values) / len(values)


def quantile(values, share):
    """At position share * (n + 1), as `lapwing sim` has it (analysis/alike/alike.c)."""
    ordered, at = sorted(values), share * (len(values) + 1)
    low = ordered[min(max(int(at), 1), len(ordered)) - 1]
    high = ordered[min(max(int(at) + 1, 1), len(ordered)) - 1]
    return low + (high - low) * (at - int(at))


def error(values):
    """ "5.4 (-0.4)": mean of absolute errors and, in brackets, of errors with sign, in %."""
    if not values:
        return "-"
    return f"{100 * mean([abs(v - 1) for v in values]):.1f} " \
           f"({100 * (mean(values) - 1):+.1f})"


def mean_error(values):
    return 100 * mean([abs(v - 1) for v in values]) if values else 0


def interval(values):
    if len(values) < 8:
        return "-"
    low, high = quantile(values, 0.1), quantile(values, 0.9)
    return f"{low:.2f}-{high:.2f} ({high / low:.2f}x)"


def inside(values):
    """Share in % of the runs whose ratio lies between the 10th and 90th percentile of the other
    runs' ratios."""
    if len(values) < 9:
        return None
    held = 0
    for i, value in enumerate(values):
        others = values[:i] + values[i + 1:]
        held += quantile(others, 0.1) <= value <= quantile(others, 0.9)
    return 100 * held / len(values)


KEY = ("framework", "device", "parallelism", "network")


LEAST_RUNS, LEAST_TABLES = 8, 3  # of an interval (analysis/alike/alike.h)


def pooled(by_table):
    """The ratio up to which, and that from which on, more than a tenth of the weight lies, where
    each table has the same weight (analysis/alike/alike.c)."""
    weighted = sorted((v, 1 / len(of)) for of in by_table.values() for v in of)
    bounds = []
    for order in (weighted, reversed(weighted)):
        weight = 0
        for value, share_of in order:
            weight += share_of
            if weight > 0.1 * len(by_table) + 1e-9:
                break
        bounds.append(value)
    return bounds


class Intervals:
    """What `lapwing sim` would say of a row if its table were not known."""

    def __init__(self, steps):
        self.steps, self.found = steps, {}

    def runs_of(self, row, parts):
        return [o for o in self.steps
                if o["table"] != row["table"] and all(o[k] == row[k] for k in parts)]

    def make(self, row):
        own = self.runs_of(row, KEY)
        for parts in (KEY, ("parallelism",), ()):
            runs, by_table = self.runs_of(row, parts), {}
            for o in runs:
                by_table.setdefault(o["table"], []).append(ratios([o])[0])
            if len(by_table) < LEAST_TABLES or len(runs) < LEAST_RUNS:
                continue
            low, high = pooled(by_table)
            if parts != KEY and len(own) >= LEAST_RUNS:
                sim = [float(o["predicted_s"]) / float(o["measured_s"]) for o in own]
                low, high = min(low, quantile(sim, 0.1)), max(high, quantile(sim, 0.9))
            return low, high, {KEY: "alike", ("parallelism",): "parallelism"}.get(parts, "all")
        return None

    def of(self, row):
        key = (row["table"], *(row[k] for k in KEY))
        if key not in self.found:
            self.found[key] = self.make(row)
        return self.found[key]


def from_other_tables(rows, intervals):
    """Rows of a table that have an interval of other tables: how many, the share in % inside it,
    the median width, and which runs it is of."""
    found = [(row, intervals.of(row)) for row in rows]
    found = [(row, interval) for row, interval in found if interval]
    if not found:
        return 0, None, None, {}
    held = sum(low <= ratios([row])[0] <= high for row, (low, high, _) in found)
    kinds = {}
    for _, (_, _, kind) in found:
        kinds[kind] = kinds.get(kind, 0) + 1
    widths = sorted(high / low for _, (low, high, _) in found)
    n = len(widths)
    return n, 100 * held / n, (widths[(n - 1) // 2] + widths[n // 2]) / 2, kinds


# --- tables --------------------------------------------------------------------------------------


class Results:
    def __init__(self, project):
        tables = results(project, "tables")
        self.tables = [t for t in tables if not t["reason"]]
        self.reasons = [t for t in tables if t["reason"]]
        self.nccl, self.kernels = (results(project, f"../{name}") for name in ("nccl", "kernels"))
        rows = [{**row, "table": t["table"]} for t in self.tables if int(t["predicted"])
                for row in results(project, t["table"])]
        self.steps = [row for row in rows if row["measured_s"]]
        self.memory = [row for row in rows if row["measured_gib"]]

    def steps_of(self, names):
        return [r for r in self.steps if r["table"] in names]

    def memory_of(self, names):
        return [r for r in self.memory if r["table"] in names]


def fits_text(ran, fit):
    return f"{fit}/{ran}" if ran and int(ran) else "-"


def rank_text(table):
    return f"{table['rank_mean']} ({table['rank_least']})" if table["rank_mean"] else "-"


def choice_text(table):
    """Pairs in order and regret; results of before have neither."""
    if not table.get("pair_mean"):
        return "-"
    return f"{table['pair_mean']} ({table['pair_least']}), " \
           f"{table['regret_mean']} ({table['regret_worst']}) %"


def families(found):
    rows = []
    for t in found.tables:
        steps, memory = found.steps_of([t["table"]]), found.memory_of([t["table"]])
        values, held = ratios(steps), inside(ratios(steps))
        rows.append([t["table"],
                     f"{t['predicted']}/{t['rows']} ({share(int(t['predicted']), int(t['rows']))})",
                     len(steps) or "-", error(values), interval(values),
                     "-" if held is None else f"{held:.0f} %",
                     error(shipped_ratios(steps)),
                     f"{error(memory_ratios(memory))} of {len(memory)}" if memory else "-",
                     fits_text(t["ran"], t["ran_fit"]),
                     fits_text(t["out_of_memory"], t["do_not_fit"]), rank_text(t), choice_text(t),
                     t["fitted"] or "none"])
    return table_text(["family", "predicted/rows", "steps", "step", "p10-p90", "inside", "with fit",
                       "memory", "ran: fit", "OOM: not", "rank", "choice", "fitted"], rows)


RANK_BAR, REGRET_BAR = 0.8, 5  # of the means over families; regret in %


def order(found):
    """Where the means over families are against their bars, and which families are beyond."""
    ranked = [(t["table"], float(t["rank_mean"])) for t in found.tables if t["rank_mean"]]
    regret = [(t["table"], float(t["regret_mean"])) for t in found.tables if t.get("regret_mean")]
    if not ranked or not regret:
        return "No family has sweeps."
    worst = max(regret, key=lambda x: x[1])
    rest = [r for name, r in regret if name != worst[0]] or [0]
    low = [f"{name} ({r:.2f})" for name, r in sorted(ranked, key=lambda x: x[1]) if r < RANK_BAR]
    high = [f"{name} ({r:.1f} %)" for name, r in sorted(regret, key=lambda x: -x[1])
            if r > REGRET_BAR]
    return textwrap.fill(
        f"Order of strategies, mean over the {len(ranked)} families with sweeps: rank correlation "
        f"{mean([r for _, r in ranked]):.2f} (bar: {RANK_BAR} or more), regret "
        f"{mean([r for _, r in regret]):.1f} % (bar: {REGRET_BAR} or less), without {worst[0]} "
        f"{mean(rest):.1f} %. Rank below the bar: {', '.join(low) or 'none'}. Regret above it: "
        f"{', '.join(high) or 'none'}.", 100, break_on_hyphens=False)


def large_parts(found, name):
    parts = (("step", mean_error(ratios(found.steps_of([name])))),
             ("memory", mean_error(memory_ratios(found.memory_of([name])))))
    return [f"{kind} {e:.1f} %" for kind, e in parts if e > LARGE[kind]]


def large_errors(found):
    rows = [[t["table"], ", ".join(large_parts(found, t["table"])),
             WORDS["settles"].get(t["table"], "")]
            for t in found.tables if large_parts(found, t["table"])]
    return table_text(["family", "mean error", "what would settle it"], rows)


def left_out_rows(found):
    return table_text(["family", "rows", "reason"],
                      [[t["table"], t["n"], t["reason"]] for t in found.reasons])


def devices(found):
    rows = []
    for name in sorted({r["device"] for r in found.steps}):
        steps = [r for r in found.steps if r["device"] == name]
        rows.append([name, len(steps), len({r["table"] for r in steps}), error(ratios(steps)),
                     interval(ratios(steps))])
    return table_text(["device", "steps", "families", "step", "p10-p90"], rows)


def alike(found):
    """By table, the large ones first; below, the mean over tables."""
    rows, shares, intervals = [], {"20 rows or more": [], "fewer": []}, Intervals(found.steps)
    for t in sorted(found.tables, key=lambda t: -len(found.steps_of([t["table"]]))):
        steps = found.steps_of([t["table"]])
        n, held, width, kinds = from_other_tables(steps, intervals)
        if n:
            rows.append([t["table"], n, f"{held:.0f} %", f"{width:.2f}x",
                         ", ".join(f"{kinds[k]} {k}" for k in sorted(kinds))])
            shares["20 rows or more" if len(steps) >= 20 else "fewer"].append(held)
    for name, values in [*shares.items(), ("all", sum(shares.values(), []))]:
        if values:
            band = sum(75 <= v <= 88 for v in values)
            rows.append([f"mean of {len(values)} families ({name})", "", f"{mean(values):.1f} %",
                         "", f"{band} of them 75-88 %"])
    return table_text(["family", "steps", "inside", "median width", "interval of"], rows)


def readme(found):
    rows = []
    for title, names in WORDS["groups"]:
        steps, memory = found.steps_of(names), found.memory_of(names)
        tables = [t for t in found.tables if t["table"] in names]
        of, predicted = (sum(int(t[k]) for t in tables) for k in ("rows", "predicted"))
        if not of:
            continue
        shipped = shipped_ratios(steps)
        fit = f"; {error(shipped)} with a figure fitted on it" if shipped else ""
        rows.append([title, f"{predicted} of {of}", error(ratios(steps)) + fit,
                     interval(ratios(steps)), error(memory_ratios(memory))])
    amd = [r for r in found.steps if r["device"].startswith("MI")]
    rows.append(["of all these, on AMD devices", f"{len(amd)} compared" if amd else "none compared",
                 error(ratios(amd)), interval(ratios(amd)), "-"])
    return table_text(["published GPU training runs", "rows predicted",
                       "mean error of the step in % (bias)", "predicted/measured, p10-p90",
                       "memory"], rows)


def unsaid(found):
    """What pages.json lacks."""
    known = {name for _, names in WORDS["groups"] for name in names}
    for name in (t["table"] for t in found.tables):
        if name not in known:
            yield f"pages.json: no group of README's table has the family {name}"
        if large_parts(found, name) and name not in WORDS["settles"]:
            yield f"pages.json: nothing says what would settle {name}"


PAGES = {
    "README.md": {"published runs": readme, "nccl": pages_kernels.sentence},
    "docs/design/device.md": {"bursts": pages_kernels.bursts, "experts": pages_kernels.experts},
    "docs/design/nccl.md": {"one node": pages_kernels.one_node, "left out": pages_kernels.left_out},
    "docs/design/gpu_accuracy.md": {
        "families": families, "order": order, "large errors": large_errors,
        "rows left out": left_out_rows, "devices": devices, "runs alike": alike},
}


def page_of(text, path, parts, found):
    for name, make in parts.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            sys.exit(f"pages.py: {path}: expected '{begin.strip()}' and '{end}' once each")
        at = text.index(begin) + len(begin)
        text = text[:at] + make(found) + "\n" + text[text.index(end):]
    return text


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in ("write", "check"):
        sys.exit("usage: pages.py write|check PROJECT")
    found = Results(arguments[1])
    bad = list(unsaid(found))
    for page, parts in PAGES.items():
        path = os.path.join(arguments[1], page)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        made = page_of(text, page, parts, found)
        if arguments[0] == "check" and made != text:
            bad.append(f"{page}: not what {RESULTS} gives: run `make evidence-pages`")
        elif made != text:
            with open(path, "w", encoding="utf-8") as f:
                f.write(made)
    print("\n".join(bad) if bad else "pages: ok")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
