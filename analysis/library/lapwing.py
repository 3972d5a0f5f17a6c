"""Lapwing from Python: plan a training step, simulate it, read the timeline.

One file over liblapwing.so with ctypes; numpy is used where it is installed.

  import lapwing
  r = lapwing.simulate("gpt2", "dgx-a100", dp=8, bucket_cap="25MiB")
  r["step_ms"], r["exposed_comm_ms"], r["bucket_bytes"]
  r = lapwing.simulate("gpt2", "dgx-a100", dp=8, timeline=True)
  t = r["timeline"]                       # columns, one row per op that ran
  t["start_ps"][0], t["kind"][0]

The library is looked for in $LAPWING_LIBRARY, beside this file, in ../../.. of the
installed file, in ./build and where the loader looks. `lapwing.record` is
lapwing_record.record, where that file is on the path.
"""

import ctypes
import itertools
import os

_INT32 = ("step", "pass", "rank", "stream", "op")
_INT64 = ("ready_ps", "issue_ps", "start_ps", "all_in_ps", "end_ps")
_REAL = ("bubble_ratio", "tokens_per_s", "samples_per_s", "mfu_pct", "overlap_pct", "days",
         "device_hours", "price_per_device_hour", "cost_per_trillion_tokens", "cost")
_library = None


class Error(Exception):
    """What the library said: a wrong option, a missing file, a figure that a cluster lacks."""


def _places():
    here = os.path.dirname(os.path.abspath(__file__))
    given = os.environ.get("LAPWING_LIBRARY")
    return ([given] if given else []) + [
        os.path.join(here, "liblapwing.so"), os.path.join(here, "..", "..", "liblapwing.so"),
        os.path.join(here, "..", "..", "build", "liblapwing.so"),
        os.path.join("build", "liblapwing.so"), "liblapwing.so.0", "liblapwing.so"]


def _load():
    global _library
    if _library is not None:
        return _library
    for place in _places():
        if os.sep in place and not os.path.exists(place):
            continue
        try:
            lib = ctypes.CDLL(place)
            break
        except OSError:
            continue
    else:
        raise Error("liblapwing.so is not found; set LAPWING_LIBRARY to its path")
    text, handle, size = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
            ("version", text, []),
            ("plan_make", handle, [text, text, ctypes.POINTER(text), text, size]),
            ("plan_free", None, [handle]), ("plan_hash", text, [handle]),
            ("plan_framework", text, [handle]),
            ("plan_ranks", ctypes.c_int32, [handle]), ("plan_buckets", ctypes.c_int32, [handle]),
            ("plan_bucket_bytes", ctypes.c_int64, [handle, ctypes.c_int32]),
            ("simulate", handle, [handle, ctypes.c_int32, text, size]),
            ("result_free", None, [handle]),
            ("figure", ctypes.c_int, [handle, text, ctypes.POINTER(ctypes.c_double)]),
            ("figure_name", text, [ctypes.c_int]), ("rows", ctypes.c_int64, [handle]),
            ("column32", ctypes.POINTER(ctypes.c_int32), [handle, text]),
            ("column64", ctypes.POINTER(ctypes.c_int64), [handle, text]),
            ("kind", ctypes.c_int32, [handle, ctypes.c_int64]),
            ("kind_name", text, [ctypes.c_int32]), ("op_name", text, [handle, ctypes.c_int32])):
        function = getattr(lib, "lapwing_" + name)
        function.restype, function.argtypes = result, arguments
    _library = lib
    return lib


def version():
    """The library's version."""
    return _load().lapwing_version().decode()


def _column(pointer, n, kind):
    """A copy of a column: a numpy array, else a list."""
    try:
        import numpy
    except ImportError:
        return pointer[:n]
    return numpy.ctypeslib.as_array(pointer, (n,)).copy() if n else numpy.zeros(0, kind)


def _timeline(lib, result):
    n = lib.lapwing_rows(result)
    if n < 0:
        raise Error("not enough memory for the timeline of all ranks")
    out = {c: _column(lib.lapwing_column32(result, c.encode()), n, "int32") for c in _INT32}
    out.update({c: _column(lib.lapwing_column64(result, c.encode()), n, "int64") for c in _INT64})
    out["kind"] = [lib.lapwing_kind_name(lib.lapwing_kind(result, i)).decode() for i in range(n)]
    out["name"] = [lib.lapwing_op_name(result, int(op)).decode() for op in out["op"]]
    return out


def _figures(lib, result):
    out, value, k = {}, ctypes.c_double(), 0
    while True:
        name = lib.lapwing_figure_name(k)
        if name is None:
            return out
        lib.lapwing_figure(result, name, ctypes.byref(value))
        key, number = name.decode(), value.value
        known = number >= 0
        if key.endswith("_ps"):
            out[key[:-3] + "_ms"] = number / 1e9 if known else None
        if key == "fits":
            number = number == 1
        elif key not in _REAL:
            number = int(number)
        out[key] = number if known else None
        k += 1


def simulate(workload, cluster, steps=0, timeline=False, **strategy):
    """Plan and simulate; a dict of figures (times in ps and ms), the framework, the plan's hash,
    its bucket sizes in bytes and, with timeline=True, the timeline of all ranks as columns.

    workload   a workload file, a model's name ("gpt2"), a config.json or a folder with one
    cluster    a known system ("dgx-a100"), or a cluster file
    steps      optimizer steps; 0: up to the steady state, and one more
    strategy   options of the command line with '_' for '-', of a model too: dp=8, zero=1,
               bucket_cap="5MiB", overlap=False, batch=2, seq=4096, fp8=True, global_batch=64,
               tokens="1T", price=2.5 (days, device_hours, cost), framework="megatron-lm" (without
               it the one that such a strategy is usually run with; the result names it)
    """
    lib, error = _load(), ctypes.create_string_buffer(512)
    if not 0 <= steps <= 1000000:  # before ctypes cuts it to 32 bits
        raise Error("steps: found %s, expected 0 (up to the steady state) to 1000000" % steps)
    words = []
    for name, value in strategy.items():
        if isinstance(value, bool):
            value = "on" if value else "off"
        words += [name.replace("_", "-").encode(), str(value).encode()]
    options = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    plan = lib.lapwing_plan_make(os.fsencode(workload), os.fsencode(cluster), options, error,
                                 len(error))
    if not plan:
        raise Error(error.value.decode())
    try:
        result = lib.lapwing_simulate(plan, steps, error, len(error))
        if not result:
            raise Error(error.value.decode())
        try:
            out = _figures(lib, result)
            if timeline:
                out["timeline"] = _timeline(lib, result)
        finally:
            lib.lapwing_result_free(result)
        out["framework"] = lib.lapwing_plan_framework(plan).decode()
        out["plan_hash"] = lib.lapwing_plan_hash(plan).decode()
        out["bucket_bytes"] = [lib.lapwing_plan_bucket_bytes(plan, i)
                               for i in range(lib.lapwing_plan_buckets(plan))]
        return out
    finally:
        lib.lapwing_plan_free(plan)


def sweep(workload, cluster, **options):
    """simulate() for every combination of options that are given as a list or tuple (workload and
    cluster too): a dict of columns, one row per combination, for pandas.DataFrame or matplotlib.
    Columns are the swept options, then the figures of simulate(); "error" is None, or why a
    combination cannot be predicted (its figures are None).

      t = lapwing.sweep("llama-2-13b", ["dgx-a100", "dgx-h100"], dp=[16, 64], zero=3, price=2.5)
      t["cluster"], t["dp"], t["cost_per_trillion_tokens"]
    """
    given = {"workload": workload, "cluster": cluster, **options}
    swept = [name for name, value in given.items() if isinstance(value, (list, tuple))]
    rows = []
    for values in itertools.product(*(given[name] for name in swept)):
        row = {**given, **dict(zip(swept, values))}
        try:
            figures, error = simulate(**row), None
        except Error as e:
            figures, error = {}, str(e)
        rows.append({**{name: row[name] for name in swept}, "error": error, **figures})
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}


def record(*arguments, **options):
    """lapwing_record.record: record the training loop inside a with statement."""
    import lapwing_record
    return lapwing_record.record(*arguments, **options)
