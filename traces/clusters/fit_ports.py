#!/usr/bin/env python3
"""Fit the collectives of one node of PCIe: nccl.port*_bytes_per_s of a cluster and a row of one_pci
in sim/nccl/nccl_tuning.c.

    fit_ports.py DEVICE TABLE CHOICES    TABLE: AIConfigurator's measurements of nccl-tests (device, op, dtype,
                                         nranks, size_bytes, time_us); CHOICES: the protocols of
                                         NCCL's model, `lapwing cost --measured TABLE --algorithm
                                         nccl --format csv`

The model is that of beyond_port and port_p2p_us. Half of the rows is fitted, by the hash that names
rows fitted in `lapwing cost --measured`, which prints the error of the other half. Least sum of
Cauchy's function of the logarithms, of which the scale falls in steps (fit_burst.py). Needs numpy.
"""
import csv
import sys

import numpy as np

from fit_burst import CAUCHY, descend, fitted

OPS = ("all_gather", "all_reduce", "reduce_scatter", "all_to_all")
P2P_LL_BYTES, WEIGHT = 16384, 0.02
START = {"port2": 25, "port4": 15, "port8": 10, "ll": 6, "ll_step": 1, "simple": 15, "simple_step": 5,
         "p2p_ll": 8, "p2p_simple": 15, "ll_rate": 1}


def read(device, table, choices):
    with open(choices) as f:
        protocol = {(r["dtype"], r["shape"]): r["protocol"] for r in csv.DictReader(f) if r["device"] == device}
    with open(table) as f:
        rows = [r for r in csv.DictReader(f) if r["device"] == device]
    found = []
    for r in rows:
        op, n, size = r["op"], int(r["nranks"]), int(r["size_bytes"])
        if not fitted((OPS.index(op) + 1, n, size)):
            continue
        kind = protocol[r["dtype"], "%s, %d ranks, %d" % (op, n, size)]
        if op == "all_to_all":
            kind = "p2p_ll" if size // n <= P2P_LL_BYTES else "p2p_simple"
        steps = 2 * (n - 1) if op == "all_reduce" else n - 1
        found.append((n, steps, kind, size * steps / n / 1e3, float(r["time_us"])))
    return found


def microseconds(rows, logs):
    z = dict(zip(START, np.exp(logs)))

    def one(n, steps, kind, kilobytes):
        wire = kilobytes / z["port%d" % n]
        if kind.endswith("ll"):
            wire *= 2 / z["ll_rate"]
        return z[kind] + (0 if kind.startswith("p2p") else steps * z[kind + "_step"]) + wire
    return np.array([one(*r[:4]) for r in rows])


def main():
    rows = read(*sys.argv[1:4])
    measured = np.array([r[4] for r in rows])
    start = np.log(np.array(list(START.values()), float))
    x = start
    for cauchy in CAUCHY:
        x = descend(lambda v: np.log(microseconds(rows, v) / measured), x, start, WEIGHT * np.ones(len(x)), cauchy)
    print("%d rows: %s" % (len(rows), ", ".join("%s %.3g" % (k, v) for k, v in zip(START, np.exp(x)))))


main()
