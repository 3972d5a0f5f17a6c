#!/bin/sh
# Fits the curves of NCCL's cost model on published nccl-tests tables and writes them as data.
#   analysis/validate/fit_curves.sh [TABLE.csv...]     (default: ../shared/netbench/*.csv)
# Run it from the top of the sources after `make`, then build again.
set -eu
[ $# -gt 0 ] || set -- ../shared/netbench/*.csv
exec "${LAPWING:-build/lapwing}" validate --fit-curves sim/cost/nccl_curve_data.c "$@"
