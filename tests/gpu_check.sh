#!/bin/sh
# For the owner of 1 to 8 GPUs: what this machine does with the NCCL backend, in under 10 minutes.
# Runs doctor, the tests, a calibration and a grid of plans (bucket caps and policies, ZeRO 1 to 3,
# pipelines, tensor groups), each predicted first and then run; compares, draws, and packs one file to
# send back. With one GPU, ranks are streams of it (--transport loop, rows say "emulated"); with
# several, there is one process per GPU (rows say "real"). Every file's command line is in COMMANDS.
# Stops with the reason where there is no GPU.
#
#   STEPS=20 WARMUP=5   measured and unmeasured steps of each run
#   TESTS=0             leave `make check` out
#   CALIBRATE=OPTIONS   of the calibration (--max-bytes 64MiB: shorter)
#   CLUSTER=FILE        an earlier calibration of this machine, instead of a new one
#   GRID=WORD           of the grid only what has this in its name (cap, policy, zero, ...)
#   RESULTS=FOLDER      instead of docs/results
cd "$(dirname "$0")/.." || exit 1
lapwing=${LAPWING:-build/lapwing}
steps=${STEPS:-20} warmup=${WARMUP:-5}
trace=traces/recorded/gpt6__local.rank0.json.gz

stop() { echo "gpu-check: $*" >&2; exit 1; }

[ -x "$lapwing" ] || stop "$lapwing is not built; run 'make'"
can=$("$lapwing" exec --list-backends --format csv | grep '^nccl,')
case "$can" in nccl,*,yes,*) ;; *) stop "the NCCL backend cannot run here: $can" ;; esac
command -v nvidia-smi >/dev/null || stop "no nvidia-smi: this is not a machine with an NVIDIA driver"
device=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
[ -n "$device" ] || stop "nvidia-smi names no device"
n=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
[ "$n" -le 8 ] || n=8

name=$(echo "$device" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-')-x$n-$(date -u +%Y%m%d)
out=${RESULTS:-docs/results}/$name
db=$out/results.db
mkdir -p "$out" || stop "cannot make $out"
rm -f "$out"/*

run() { # file, words: run lapwing, keep its output in the file and its command line in COMMANDS
    file=$1; shift
    echo "lapwing $*  > $file" >>"$out/COMMANDS"
    echo "+ lapwing $*"
    if ! "$lapwing" "$@" >"$out/$file" 2>"$out/errors.txt"; then
        cat "$out/$file" "$out/errors.txt" >&2
        stop "'lapwing $1' failed, its messages are above and in $out"
    fi
}

nvidia-smi -q >"$out/nvidia-smi.txt"
nvidia-smi topo -m >"$out/topology.txt" 2>/dev/null
nvidia-smi --query-gpu=timestamp,index,clocks.sm,clocks.mem,power.draw,temperature.gpu \
    --format=csv -lms 500 >"$out/clocks.csv" 2>/dev/null &
clocks=$!
trap 'kill $clocks 2>/dev/null' EXIT
run doctor.txt doctor --db "$db"
run backends.txt exec --list-backends
run version.txt version -v
if [ "${TESTS:-1}" = 1 ]; then
    make check >"$out/check.txt" 2>&1 || { tail -n 40 "$out/check.txt"; stop "make check failed"; }
    tail -n 1 "$out/check.txt"
fi

# How ranks meet: as processes with a GPU each, or as streams of the only one.
if [ "$n" -ge 2 ]; then
    how="--backend nccl --spawn" ranks=$n
else
    how="--backend nccl --transport loop" ranks=2
    echo "one GPU: ranks are streams of it, no link between GPUs is measured" | tee -a "$out/COMMANDS"
fi
if [ -n "$CLUSTER" ]; then cp "$CLUSTER" "$out/cluster.json" || stop "cannot read $CLUSTER"
else run calibrate.txt calibrate $how --ranks "$ranks" $CALIBRATE -o "$out/cluster.json"; fi
run import.txt import "$trace" -o "$out/gpt.json"
run model.txt model mlp --layers 16 --width 1024 -o "$out/mlp.json"

# One rank: compute and the optimizer alone.
run one-sim.txt sim -w "$out/gpt.json" -c "$out/cluster.json" --spans --db "$db"
run one-exec.txt exec -w "$out/gpt.json" -c "$out/cluster.json" --backend nccl \
    --steps "$steps" --warmup "$warmup" --db "$db"

both() { # name, strategy: predicted, then run
    what=$1; shift
    case "$what" in *"$GRID"*) ;; *) return ;; esac
    run "$what-sim.txt" sim -w "$out/$model.json" -c "$out/cluster.json" "$@" --spans --db "$db"
    run "$what-exec.txt" exec -w "$out/$model.json" -c "$out/cluster.json" "$@" $how \
        --steps "$steps" --warmup "$warmup" --db "$db"
}

model=gpt
for cap in 1MiB 5MiB 25MiB; do both "cap-$cap" --dp "$ranks" --bucket-cap "$cap"; done
for policy in per-tensor single picotron; do
    both "policy-$policy" --dp "$ranks" --bucket-policy "$policy"
done
for stage in 1 2 3; do both "zero-$stage" --dp "$ranks" --zero "$stage"; done
both clip --dp "$ranks" --zero 1 --clip 1
model=mlp
for schedule in gpipe 1f1b zb-h1; do
    both "pipeline-$schedule" --pp "$ranks" --micro-batches $((2 * ranks)) --schedule "$schedule"
done
both tensor --tp "$ranks"
[ "$ranks" -lt 4 ] || both grid --dp 2 --pp $((ranks / 2)) --micro-batches "$ranks" --zero 1

run compare.txt compare --db "$db"
run runs.txt runs --db "$db"
run plot-predicted.txt plot predicted --db "$db" -o "$out/predicted.png"
run plot-timeline.txt plot timeline --db "$db" -o "$out/timeline.png" 3 4
run report.txt report --db "$db" -o "$out/report.html"
rm -f "$out/errors.txt"
kill $clocks 2>/dev/null
tar -czf "$out.tar.gz" -C "$(dirname "$out")" "$name"
echo
cat "$out/compare.txt"
echo
echo "All of it is in $out.tar.gz: send that file back."
