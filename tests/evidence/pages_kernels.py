"""Tables of kernels and collectives against what was measured, from docs/results/kernels.csv and
nccl.csv (kernel_tables.py). A bar is a limit of the error in % that was set before; what is over it
is in bold."""
import textwrap

from page_text import share, table_text

BARS = {("gemm", "bf16"): 8, ("gemm", "fp8"): 12, ("gemm", "nvfp4"): 12,
        ("attention", "bf16"): 10, ("attention", "fp8"): 10,
        ("collective", "half"): 12, ("collective", "int8"): 12}
OVER = 15  # of a table of NCCL's collectives
EXPERTS = ("bf16", "fp8_block", "fp8", "nvfp4")


def against(value, bar):
    return f"**{value}**" if bar is not None and float(value) > bar else str(value)


def by_device(rows):
    """{device: {(kind, type): row}}, in the order of the file."""
    found = {}
    for row in rows:
        found.setdefault(row["device"], {})[row["kind"], row["type"]] = row
    return found


def cell(of, key, title="median_pct"):
    if key not in of or not of[key][title]:
        return "-"
    return against(of[key][title], BARS.get(key) if title == "median_pct" else None)


def titled(key):
    bar = f" (bar {BARS[key]})" if key in BARS else ""
    return f"{'products' if key[0] == 'gemm' else key[0]} {key[1]}{bar}"


def bursts(found):
    """Median error of products and attention in a burst; last both in bf16 at the sustained
    clock."""
    columns = [("gemm", kind) for kind in ("bf16", "fp8", "fp8_block", "nvfp4")] + \
              [("attention", "bf16"), ("attention", "fp8")]
    rows = [[device, *(cell(of, key) for key in columns),
             ", ".join(cell(of, (kind, "bf16"), "sustained_pct") for kind in ("gemm", "attention"))]
            for device, of in by_device(found.kernels).items() if ("gemm", "bf16") in of]
    return table_text(["device", *map(titled, columns), "sustained: products, attention"], rows)


def experts(found):
    rows = [[device, *(cell(of, ("experts", kind)) for kind in EXPERTS)]
            for device, of in by_device(found.kernels).items() if ("experts", "bf16") in of]
    return table_text(["device", *EXPERTS], rows)


def one_node(found):
    """NCCL in one node: median, p90 and bias of 16-bit rows, median of 8-bit rows."""
    half, int8 = ("collective", "half"), ("collective", "int8")
    rows = [[device, of[half]["rows"], cell(of, half), of[half]["p90_pct"], of[half]["bias_pct"],
             f"{cell(of, int8)} of {of[int8]['rows']}" if int8 in of else "-"]
            for device, of in by_device(found.kernels).items() if half in of]
    return table_text(["device", "rows", f"median (bar {BARS[half]})", "p90", "bias",
                       f"8 bits (bar {BARS[int8]})"], rows)


def tables_of(found):
    return [t for t in found.nccl if t["table"] != "all"]


def totals(tables):
    """Rows; mean error of the model and calibrated; rows that have an interval, and those
    inside."""
    n = sum(int(t["rows"]) for t in tables)
    errors = [sum(int(t["rows"]) * float(t[k]) for t in tables) / n
              for k in ("model_pct", "calibrated_pct")]
    kept = [t for t in tables if t["inside"]]
    return n, errors, sum(int(t["rows"]) for t in kept), sum(int(t["inside"]) for t in kept)


PLACES = ("NVLink", "PCIe", "nodes", "nodes of one")


def left_out(found):
    """NCCL's tables, each left out of its own fit."""
    tables = sorted(tables_of(found), key=lambda t: (PLACES.index(t["place"]), t["table"]))
    rows = [[t["table"], t["place"], t["rows"], f"{float(t['model_pct']):.1f}",
             against(f"{float(t['calibrated_pct']):.1f}", OVER), t["inside"]] for t in tables]
    n, errors, of, inside = totals(tables)
    rows.append(["all", "", n, *(f"{e:.1f}" for e in errors), f"{inside} ({share(inside, of)})"])
    rows += [["all", t["place"], t["rows"], f"{float(t['model_pct']):.1f}",
              f"{float(t['calibrated_pct']):.1f}", ""] for t in found.nccl if t["table"] == "all"]
    return table_text(["table", "place, or sizes", "rows", "model", f"calibrated (bar {OVER})",
                       "inside"], rows)


def sentence(found):
    """README's: what the table of left_out says."""
    tables = tables_of(found)
    n, (model, own), of, inside = totals(tables)
    over = sum(float(t["calibrated_pct"]) > OVER for t in tables)
    worst = max(tables, key=lambda t: float(t["calibrated_pct"]))
    return textwrap.fill(
        f"NCCL's collectives, {n} rows of {len(tables)} published tables, each left out of its "
        f"own fit: mean error {model:.1f} % by NCCL's model alone, {own:.1f} % calibrated; {over} "
        f"tables are over {OVER} %, the worst {worst['table']} "
        f"({float(worst['calibrated_pct']):.1f} "
        f"%). {inside} of {of} rows ({share(inside, of)}) lie between the p10 and p90 of `lapwing "
        "cost`.", 100, break_on_hyphens=False)
