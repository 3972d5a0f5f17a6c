#!/bin/sh
# For the owner of a GPU: what this machine does with the NCCL backend, in one command. Runs doctor, the
# checks, a calibration, and the plans of the demo on the GPU: alone (real), as a loop of two ranks on one
# device (emulated) and, with two devices or more, as one process per device (real); compares what was
# predicted with what was measured. Everything goes to a folder of docs/results, with the command line
# of every file in COMMANDS. Stops, and says why, where there is no GPU: it never fills a gap.
cd "$(dirname "$0")/.." || exit 1
lapwing=${LAPWING:-build/lapwing}
steps=${STEPS:-20} warmup=${WARMUP:-5} trace=traces/recorded/gpt6__local.rank0.json.gz

stop() { echo "gpu-check: $*" >&2; exit 1; }

[ -x "$lapwing" ] || stop "$lapwing is not built; run 'make'"
can=$("$lapwing" exec --list-backends --format csv | grep '^nccl,')
case "$can" in nccl,yes*) ;; *) stop "the NCCL backend cannot run here: $can" ;; esac
command -v nvidia-smi >/dev/null || stop "no nvidia-smi: this is not a machine with an NVIDIA driver"
device=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
[ -n "$device" ] || stop "nvidia-smi names no device"
n_devices=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)

out=docs/results/$(echo "$device" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-')-$(date -u +%Y%m%d)
db=$out/results.db
mkdir -p "$out" || stop "cannot make $out"
rm -f "$out"/*

run() { # file, words: run lapwing, keep its words in the file and its command line in COMMANDS
    file=$1; shift
    echo "lapwing $*  > $file" >>"$out/COMMANDS"
    echo "+ lapwing $*"
    if ! "$lapwing" "$@" >"$out/$file" 2>"$out/errors.txt"; then
        cat "$out/$file" "$out/errors.txt" >&2
        stop "'lapwing $1' failed, its words are above and in $out"
    fi
}

nvidia-smi -q >"$out/nvidia-smi.txt"
nvidia-smi topo -m >"$out/topology.txt" 2>/dev/null
run doctor.txt doctor --db "$db"
run backends.txt exec --list-backends
run version.txt version -v
make check >"$out/check.txt" 2>&1 || { tail -n 40 "$out/check.txt"; stop "make check failed"; }
tail -n 1 "$out/check.txt"

# The recorded step, one rank on the GPU: nothing to reduce, compute and real updates alone.
run import.txt import "$trace" -o "$out/workload.json"
run calibrate-loop.txt calibrate --backend nccl --transport loop --max-side 8192 -o "$out/loop.json"
run exec-one.txt exec -w "$out/workload.json" --dp 1 --backend nccl --steps "$steps" \
    --warmup "$warmup" --db "$db"
run sim-one.txt sim -w "$out/workload.json" -c "$out/loop.json" --dp 1 --spans --db "$db"

# Two logical ranks as streams of one device, at three bucket caps: predicted, then measured.
for cap in 1MiB 5MiB 25MiB; do
    strategy="-w $out/workload.json -c $out/loop.json --dp 2 --bucket-cap $cap"
    run "sim-loop-$cap.txt" sim $strategy --spans --db "$db"
    run "exec-loop-$cap.txt" exec $strategy --backend nccl --transport loop --steps "$steps" \
        --warmup "$warmup" --db "$db"
done

# Squares of gradients summed on the GPU, gradients scaled there: compared bit by bit.
run exec-loop-clip.txt exec -w "$out/workload.json" -c "$out/loop.json" --dp 2 --zero 1 --clip 1 \
    --backend nccl --transport loop --steps "$steps" --warmup "$warmup" --db "$db"

# One process per device.
if [ "$n_devices" -ge 2 ]; then
    for cap in 1MiB 5MiB 25MiB; do
        run "exec-nccl-$cap.txt" exec -w "$out/workload.json" -c "$out/loop.json" \
            --dp "$n_devices" --bucket-cap "$cap" --backend nccl --spawn --steps "$steps" \
            --warmup "$warmup" --db "$db"
    done
else
    echo "one device: collectives of NCCL between devices were not measured" | tee -a "$out/COMMANDS"
fi
run compare.txt compare --db "$db"
run runs.txt runs --db "$db"
rm -f "$out/errors.txt"
echo
cat "$out/compare.txt"
echo "Written to $out; rows say real or emulated (several ranks on one device: no link is measured)."
