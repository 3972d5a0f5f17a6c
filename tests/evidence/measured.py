"""What a row of a published table measured, as columns of runs.csv."""
from words import BadInput, by_words, has

TIMES = ["step_s", "tokens_s_device", "samples_s", "tflops_device", "mfu_pct"]
MEASURED = TIMES + ["flops", "memory_gib", "memory_gb", "memory_kind", "memory_rank", "outcome"]



def measured_number(cells, title, place):
    """A word ("OOM", "-", "n/a") is a cell without a measurement; "5,2" and "5.2 s" are neither."""
    text = cells.get(title, "")
    if not any(c.isdigit() for c in text):
        return 0.0
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e300:
        raise BadInput(f"{place}: {title}: found '{text}', expected a number of 0 or more, or an "
                       "empty cell where nothing was measured")
    return value


def time_of(unit, value, devices):
    """Column of runs.csv and its value; None: another figure is missing."""
    if unit in ("tokens/s", "samples/s/device") and devices == 0:
        return None
    return {
        "s": ("step_s", value), "ms": ("step_s", value / 1e3),
        "tokens/s": ("tokens_s_device", value / max(devices, 1)),
        "tokens/s/device": ("tokens_s_device", value), "samples/s": ("samples_s", value),
        "samples/s/device": ("samples_s", value * devices),
        "TFLOP/s/device": ("tflops_device", value), "MFU%": ("mfu_pct", value),
    }[unit]


MEMORY = {"GiB": ("memory_gib", 1), "GB": ("memory_gb", 1), "MiB": ("memory_gib", 1 / 1024),
          "B": ("memory_gib", 1 / 2 ** 30)}


def outcome_of(cells):
    status = cells.get("status", "")
    if has(status, "OOM") or has(status, "out of memory"):
        return "out-of-memory"
    return "failed" if has(status, "crash") else ""


def figure(value):
    return f"{value:.12g}"


def measure(table, run, cells, devices, place):
    out = {}
    ended = outcome_of(cells)
    if ended:
        out["outcome"] = ended
    for title, unit in run["time"]:
        found = measured_number(cells, title, place)
        taken = time_of(unit, found, devices) if found > 0 else None
        if taken and not any(x in out for x in TIMES) and not ended:
            out[taken[0]] = figure(taken[1])
            if unit in ("TFLOP/s/device", "MFU%"):
                out["flops"] = by_words(table.get("flops"), cells, "model")
    rule = table.get("memory", {})
    for title, unit in run.get("memory", []):
        found = measured_number(cells, title, place)
        if found <= 0 or "memory_kind" in out or ended:
            continue
        name, factor = MEMORY[by_words(rule.get("unit"), cells, unit)]
        out[name] = figure(found * factor)
        out["memory_kind"] = by_words(rule.get("kind"), cells, "allocated")
        rank = by_words(rule.get("rank"), cells, "fullest")
        out["memory_rank"] = rank if rank != "fullest" else ""
    return out


