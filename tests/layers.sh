#!/bin/sh
# Who may include whom: shared sees itself; traces, analysis, sim, exec see shared and themselves;
# cmd_*.c may see any folder; SQLite, MPI, CUDA and simdjson stay in the files that own them.
cd "$(dirname "$0")/.." || exit 1
bad=0
complain() { echo "check-layers: $1"; bad=1; }

for folder in shared sim exec traces analysis; do
    for f in "$folder"/*.c "$folder"/*.h "$folder"/*.cc; do
        [ -e "$f" ] || continue
        case "$f" in */cmd_*.c) continue ;; esac
        for inc in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$f"); do
            case "$inc" in
                shared/* | "$folder"/*) ;;
                */*) complain "$f includes $inc" ;;
                *) complain "$f includes \"$inc\" without its folder" ;;
            esac
        done
    done
done
owned() { # pattern, files that may include it
    pattern=$1; shift
    for f in $(grep -lE "^#include <($pattern)" lapwing.c */*.c */*.h */*.cc 2>/dev/null); do
        case " $* " in *" $f "*) ;; *) complain "$f includes $pattern" ;; esac
    done
}
owned 'sqlite3' analysis/store/store.c traces/import_nsys.c $(ls tests/*.c)
owned 'mpi\.h' $(ls exec/mpi/backend_mpi.c exec/mpi_*.c)
owned 'cuda|nccl|cublas' $(ls exec/backend_nccl*.c exec/nccl_*.c exec/nccl_*.h 2>/dev/null)
owned 'simdjson' shared/base/json.cc
[ $bad = 0 ] && echo "check-layers: ok"
exit $bad
