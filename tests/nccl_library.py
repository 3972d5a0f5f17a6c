#!/usr/bin/env python3
"""NCCL's own graph search and tuning table beside Lapwing's.

    tests/nccl_library.py NCCL_SOURCES [LAPWING]      CUDA_HOME, CXX; needs no GPU

NCCL_SOURCES is a checkout of NVIDIA/nccl at a tag (v2.28.9-1 and v2.30.7-1 are known to work). The
files of src/graph are compiled for the host with a driver (below), and whatever they need of the
rest of the library is a function that returns 0. The driver reads a topology, searches it and
prints the graphs and every latency and bandwidth of the tuning table. Each cell stands beside
`lapwing cost --algorithm nccl:ALGORITHM/PROTOCOL` on the same machine. Exit status 1: a ring or
NVLS cell of one node differs by more than 1 %.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

DRIVER = r"""
#include "comm.h"
#include "graph.h"
#include "topo.h"
#include "xml.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
ncclResult_t ncclTopoComputePaths(struct ncclTopoSystem *, struct ncclComm *);
static void need(ncclResult_t r, const char *what)
{
    if (r) {
        printf("%s: error %d\n", what, r);
        exit(1);
    }
}
static void search(ncclTopoSystem *system, ncclTopoGraph *g, int id, int pattern, int least,
                   int most)
{
    memset(g, 0, sizeof *g);
    g->id = id, g->pattern = pattern, g->minChannels = least, g->maxChannels = most;
    need(ncclTopoCompute(system, g), "search");
}
int main(int argc, char **argv)
{
    int nodes = atoi(argv[2]), capability = atoi(argv[3]), unused;
    ncclComm *comm = (ncclComm *)calloc(1, sizeof(ncclComm));
    ncclXml *xml;
    ncclTopoSystem *system;
    ncclTopoGraph ring, tree, nvls, none;
    need(xmlAlloc(&xml, NCCL_TOPO_XML_MAX_NODES), "xml");
    need(ncclTopoGetXmlFromFile(argv[1], xml, 1), "xml");
    need(ncclTopoGetSystemFromXml(xml, &system, 1), "topology");
    comm->nRanks = 8 * nodes, comm->nNodes = nodes, comm->topo = system;
    comm->minCompCap = comm->maxCompCap = capability, comm->rank = 1;
    comm->localRanks = comm->maxLocalRanks = 8;
    need(ncclTopoComputePaths(system, NULL), "paths");
    system->inter = nodes > 1;
    need(ncclTopoSearchInit(system), "search");
    search(system, &ring, 0, NCCL_TOPO_PATTERN_RING, 1, MAXCHANNELS / 2);
    search(system, &tree, 1, NCCL_TOPO_PATTERN_BALANCED_TREE, ring.nChannels, ring.nChannels);
    memset(&nvls, 0, sizeof nvls);
    memset(&none, 0, sizeof none);
    none.nChannels = 1;
    if (capability >= 90)
        search(system, &nvls, 3, NCCL_TOPO_PATTERN_NVLS, 1, MAXCHANNELS);
    ncclTopoGraph *graphs[] = {&tree, &ring, &none, &none, &nvls, &nvls, &tree};
    const char *names[] = {"tree", "ring", "nvls"};
    ncclTopoGraph *found[] = {&tree, &ring, &nvls};
    for (int k = 0; k < 3; k++)
        printf("graph %s %d %g %g\n", names[k], found[k]->nChannels, found[k]->bwIntra,
               found[k]->bwInter);
    need(ncclTopoCpuType(system, &comm->cpuArch, &comm->cpuVendor, &unused), "cpu");
    comm->nChannels = ring.nChannels, comm->maxTreePattern = tree.pattern;
    need(ncclTopoInitTunerConstants(comm), "constants");
    need(ncclTopoTuneModel(comm, capability, capability, graphs), "model");
    const char *algorithms[] = {"tree", "ring", "", "", "nvls", "nvls-tree", "pat"};
    const char *protocols[] = {"ll", "ll128", "simple"};
    const char *ops[] = {"broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce"};
    for (int f = 0; f < 5; f++)
        for (int a = 0; a < 7; a++)
            for (int p = 0; p < 3; p++)
                if (*algorithms[a] && comm->bandwidths[f][a][p] > 0)
                    printf("cell %s %s %s %.4f %.4f\n", ops[f], algorithms[a], protocols[p],
                           comm->latencies[f][a][p], comm->bandwidths[f][a][p]);
}
"""

ATOMIC = r"""
#pragma once
#include <atomic>
namespace cuda {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block };
using std::memory_order;
constexpr auto memory_order_relaxed = std::memory_order_relaxed;
constexpr auto memory_order_acquire = std::memory_order_acquire;
constexpr auto memory_order_release = std::memory_order_release;
template <class T, thread_scope S = thread_scope_system> struct atomic_ref {
    T &r;
    atomic_ref(T &x) : r(x) {}
    T load(std::memory_order = std::memory_order_seq_cst) { return r; }
    void store(T v, std::memory_order = std::memory_order_seq_cst) { r = v; }
};
}
"""

MACHINES = {  # compute capability, NVLinks, PCIe speed, NIC Mbit/s, CPU model, vendor, family
    "dgx-h100": (90, 18, "32.0 GT/s PCIe", 400000, 143, "GenuineIntel", 6),
    "dgx-a100": (80, 12, "16.0 GT/s PCIe", 200000, 49, "AuthenticAMD", 143),
    "dgx-b200": (100, 18, "32.0 GT/s PCIe", 400000, 207, "GenuineIntel", 6),
}


def topology(machine, nodes):
    """8 GPUs on 4 NVSwitches and 2 CPUs; between nodes a NIC beside each GPU."""
    capability, links, speed, net, model, vendor, family = MACHINES[machine]
    pci = ('<pci busid="0000:{:02x}:00.0" class="{}" link_speed="' + speed +
           '" link_width="16"{}>').format
    ids = (' vendor="0x{0}" device="0x1" subsystem_vendor="0x{0}" subsystem_device="0x1"').format
    out = ['<system version="1">']
    for cpu in range(2):
        out.append(f'<cpu host_hash="0x1" numaid="{cpu}" affinity="00000000,0000ffff" '
                   f'arch="x86_64" vendor="{vendor}" familyid="{family}" modelid="{model}">')
        for gpu in range(4 * cpu, 4 * cpu + 4):
            bus = 0x10 * (gpu + 1)
            out.append(pci(bus, "0x060400", ""))
            out.append(pci(bus + 1, "0x030200", ids("10de")) +
                       f'<gpu dev="{gpu}" sm="{capability}" rank="{gpu}" gdr="1">')
            for switch in range(4):
                count = links // 4 + (1 if switch < links % 4 else 0)
                out.append(f'<nvlink target="0000:f{switch}:00.0" count="{count}" '
                           'tclass="0x068000"/>')
            out.append("</gpu></pci>")
            if nodes > 1:
                out.append(pci(bus + 2, "0x020700", ids("15b3")) + f'<nic><net name="mlx5_{gpu}" '
                           f'dev="{gpu}" latency="0.000000" speed="{net}" port="1" '
                           f'guid="0x{gpu + 1:x}" maxconn="131072" gdr="1"/></nic></pci>')
            out.append("</pci>")
        out.append("</cpu>")
    return "\n".join(out + ["</system>"])


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def header(sources):
    """nccl.h with the versions of makefiles/version.mk."""
    with open(f"{sources}/makefiles/version.mk", encoding="utf-8") as f:
        version = dict(re.findall(r"NCCL_(MAJOR|MINOR|PATCH|SUFFIX)\s*:=\s*(\S*)", f.read()))
    with open(f"{sources}/src/nccl.h.in", encoding="utf-8") as f:
        text = f.read()
    code = int(version["MAJOR"]) * 10000 + int(version["MINOR"]) * 100 + int(version["PATCH"])
    for key in ("MAJOR", "MINOR", "PATCH", "SUFFIX"):
        text = text.replace("${nccl:" + key.capitalize() + "}", version.get(key, ""))
    text = text.replace("${nccl:Version}", str(code))
    return text, ".".join(version[k] for k in ("MAJOR", "MINOR", "PATCH"))


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def build(sources, folder):
    cxx, cuda = os.environ.get("CXX", "g++"), os.environ.get("CUDA_HOME", "/usr/local/cuda")
    text, version = header(sources)
    put(f"{folder}/include/nccl.h", text)
    put(f"{folder}/include/cuda/atomic", ATOMIC)
    put(f"{folder}/driver.cc", DRIVER)
    files = sorted(glob.glob(f"{sources}/src/graph/*.cc")) + [f"{folder}/driver.cc"] + [
        f"{sources}/src/{f}.cc" for f in ("debug", "misc/param", "misc/utils", "misc/strongstream")]
    places = [f"{folder}/include", f"{sources}/src/include", f"{sources}/src/include/plugin",
              f"{sources}/src/graph", f"{cuda}/include"]
    flags = ["-std=c++17", "-O1", "-w", "-fpermissive", "-include", "limits", "-DNCCL_OS_LINUX"]
    flags += [f"-I{p}" for p in places]
    objects = []
    for f in files:
        objects.append(f"{folder}/{os.path.basename(f)}.o")
        made = run([cxx, *flags, "-c", f, "-o", objects[-1]])
        if made.returncode:
            sys.exit(f"{f} does not compile:\n{made.stderr[:2000]}")
    link = [cxx, *objects, "-Wl,--no-demangle", "-ldl", "-lpthread", "-o", f"{folder}/driver"]
    missing = sorted(set(re.findall(r"undefined reference to `([^']+)'", run(link).stderr)))
    stubs = ["#include <stdlib.h>"]
    for k, name in enumerate(missing):
        body = f"long f{k}(void) {{ return 0; }}"
        if "GetEnv" in name:
            body = f"const char *f{k}(const char *n) {{ return getenv(n); }}"
        elif "Initialized" in name and "Ensure" not in name:
            body = f"int f{k}(void) {{ return 1; }}"
        elif re.fullmatch(r"ncclNvmlDevicePairs|ncclTransports|pfn_\w+|nccl\w+Cache", name):
            body = f"char f{k}[1 << 20];"
        declared = body.split("{")[0].rstrip("; ") if "{" in body else body.rstrip(";")
        stubs.append(f'{declared} __asm__("{name}");\n{body}')
    put(f"{folder}/stubs.c", "\n".join(stubs) + "\n")
    made = run(["gcc", "-w", "-c", f"{folder}/stubs.c", "-o", f"{folder}/stubs.o"])
    made = made if made.returncode else run(link + [f"{folder}/stubs.o"])
    if made.returncode:
        sys.exit(f"the driver does not link:\n{made.stderr[:2000]}")
    return version


def cluster_with(lapwing, machine, version, folder):
    """The known cluster with the library's version, without what the topology does not hold."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(f"{root}/traces/clusters/{machine}.json", encoding="utf-8") as f:
        cluster = json.load(f)
    cluster["library_version"] = version
    put(f"{folder}/{machine}.json", json.dumps(cluster))
    return f"{folder}/{machine}.json"


def cell(lapwing, cluster, op, algorithm, protocol, nodes):
    """Latency (us) and bandwidth (GB/s) of a pair, from 1 GiB; None: Lapwing has no such pair."""
    name = f"nccl:{algorithm}" + (f"/{protocol}" if algorithm in ("ring", "tree") else "")
    made = run([lapwing, "cost", "-c", cluster, "--op", op, "--ranks", str(8 * nodes), "--nodes",
                str(nodes), "--bytes", "1GiB", "--algorithm", name, "--format", "json"])
    if made.returncode:
        return None
    row = json.loads(made.stdout)["rows"][0]
    if row["instead"]:
        return None
    latency = row["latency_ns"] / 1e3
    plateau = 1.4 if op == "all_reduce" and name == "nccl:ring/simple" and nodes > 1 else 1
    return latency / plateau, row["bytes_per_s"] / 1e9


def compare(lapwing, machine, nodes, version, folder):
    put(f"{folder}/topology.xml", topology(machine, nodes))
    made = run([f"{folder}/driver", f"{folder}/topology.xml", str(nodes),
                str(MACHINES[machine][0])])
    if made.returncode:
        print(f"{nodes} x {machine}: NCCL's search ends with '{made.stdout.strip()[-80:]}'")
        return 0
    cluster = cluster_with(lapwing, machine, version, folder)
    print(f"{nodes} x {machine}, NCCL {version}: latency us, bandwidth GB/s")
    worst, n, lost = {}, 0, set()
    for line in made.stdout.splitlines():
        words = line.split()
        if words[0] == "graph":
            print("  graph {1}: {2} x {3}/{4}".format(*words))
            if float(words[3]) < 1:
                lost.add(words[1])
            continue
        if words[2] in lost:
            continue
        theirs = tuple(map(float, words[4:]))
        ours = cell(lapwing, cluster, *words[1:4], nodes)
        off = max(abs(o / t - 1) for o, t in zip(ours, theirs)) if ours else 0
        worst[words[2]] = max(worst.get(words[2], 0), off)
        n += ours is not None
        print("  {:34s} library {:8.2f} {:8.1f}   ".format(" ".join(words[1:4]), *theirs) +
              ("lapwing {:8.2f} {:8.1f}".format(*ours) if ours else "lapwing has none"))
    if lost - {"nvls"}:
        print("  not found by NCCL's search on this topology:", ", ".join(sorted(lost - {"nvls"})))
    print(f"  {n} cells, worst differences:",
          ", ".join(f"{a} {100 * x:.1f} %" for a, x in worst.items()))
    return max(x for a, x in worst.items() if a in ("ring", "nvls")) if nodes == 1 else 0


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sources = sys.argv[1]
    lapwing = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("LAPWING", "build/lapwing")
    with tempfile.TemporaryDirectory() as folder:
        version = build(sources, folder)
        worst = [compare(lapwing, machine, nodes, version, folder)
                 for machine in MACHINES for nodes in (1, 2, 4)]
    sys.exit(1 if max(worst) > .01 else 0)


main()
