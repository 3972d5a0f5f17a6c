#!/bin/sh
# Fits the curves of NCCL's cost model on published nccl-tests tables and writes them as data.
#   analysis/netbench/fit_curves.sh [TABLE.csv...]
# Without tables: those of ../shared/netbench and of analysis/netbench/tables.
# Run it from the top of the sources after `make`, then build again.
set -eu
[ $# -gt 0 ] || set -- ../shared/netbench/*.csv analysis/netbench/tables/*.csv
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
"${LAPWING:-build/lapwing}" validate --fit-curves "$new/curves.c" "$@"
cat "$new/curves.c" >sim/nccl/nccl_curve_data.c
