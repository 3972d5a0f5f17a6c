#!/bin/sh
# For the owner of 1 to 8 GPUs: what this machine does with the NCCL backend, in under 10 minutes.
# Runs doctor, the tests, a calibration and a grid of plans (bucket caps and policies, ZeRO 1 to 3,
# pipelines, tensor groups), each predicted first and then run; compares, draws, and packs one file
# to send back. With one GPU, ranks are streams of it (--transport loop, rows say "emulated"); with
# several, there is one process per GPU (rows say "real"). Every file's command line is in COMMANDS.
# Stops with the reason where there is no GPU. A part that fails, or outlasts its limit, is listed
# in FAILED, one without time in LEFT_OUT; the file is packed in every case, exit status 1 says that
# a part failed. Needs no compiler and no network where build/ is there.
#
#   --quick             a small model, one or two of each part: does everything work?
#
#   BUDGET=570          seconds for all parts together; more also lengthens the limit of each
#   STEPS=20 WARMUP=5   measured and unmeasured steps of each run
#   TESTS=0             leave `make check` out
#   CALIBRATE=OPTIONS   of the calibration (--max-bytes 64MiB: shorter)
#   CLUSTER=FILE        an earlier calibration of this machine, instead of a new one
#   GRID=WORD           of the grid only what has this in its name (cap, policy, zero, ...)
#   RESULTS=FOLDER      instead of docs/results
cd "$(dirname "$0")/.." || exit 1
lapwing=${LAPWING:-build/lapwing}
steps=${STEPS:-20} warmup=${WARMUP:-5} budget=${BUDGET:-570}
trace=traces/recorded/gpt6__local.rank0.json.gz
caps="1MiB 5MiB 25MiB" policies="per-tensor single picotron" stages="1 2 3"
schedules="gpipe 1f1b zb-h1" mlp="--layers 16 --width 1024" tests=${TESTS:-1}
if [ "$1" = --quick ]; then
    caps=25MiB policies= stages=2 schedules=1f1b mlp="--layers 4 --width 64" tests=${TESTS:-0}
    steps=${STEPS:-1} warmup=${WARMUP:-1}
    CALIBRATE=${CALIBRATE:---rounds 1 --steps 1 --max-bytes 16MiB --max-side 32}
fi
began=$(date +%s)

stop() { echo "gpu-check: $*" >&2; exit 1; }
left() { echo $((budget - $(date +%s) + began)); }

[ -x "$lapwing" ] || stop "$lapwing is not built; run 'make'"
can=$("$lapwing" exec --list-backends --format csv | grep '^nccl,')
case "$can" in nccl,*,yes,*) ;; *) stop "the NCCL backend cannot run here: $can" ;; esac
command -v nvidia-smi >/dev/null ||
    stop "no nvidia-smi: this is not a machine with an NVIDIA driver"
device=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
[ -n "$device" ] || stop "nvidia-smi names no device"
n=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
[ "$n" -le 8 ] || n=8

name=$(echo "$device" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-')-x$n-$(date -u +%Y%m%d)
out=${RESULTS:-docs/results}/$name
db=$out/results.db
mkdir -p "$out" || stop "cannot make $out"
rm -f "$out"/*

# seconds, file, command: its output in the file, messages in FILE.err; status 124 after so long.
limited() {
    limit=$1 file=$2; shift 2
    [ "$budget" -le 570 ] || limit=$((limit * budget / 570))
    [ "$limit" -le "$(left)" ] || limit=$(left)
    timeout -k 10 "$limit" "$@" >"$out/$file" 2>"$out/$file.err"
    status=$?
    [ -s "$out/$file.err" ] || rm -f "$out/$file.err"
    [ $status = 0 ] && return 0
    [ $status != 124 ] || echo "not done after $limit s" >>"$out/$file.err"
    echo "$file: status $status: $(tail -n 1 "$out/$file.err" 2>/dev/null)" |
        tee -a "$out/FAILED" >&2
    return 1
}

# seconds, file, words: run lapwing; its command line goes to COMMANDS. Not without time for it.
run() {
    limit=$1 file=$2; shift 2
    if [ "$(left)" -lt 15 ]; then
        echo "$file: no time left: lapwing $*" | tee -a "$out/LEFT_OUT"
        return 1
    fi
    echo "lapwing $*  > $file" >>"$out/COMMANDS"
    echo "+ lapwing $*"
    limited "$limit" "$file" "$lapwing" "$@"
}

nvidia-smi -q >"$out/nvidia-smi.txt"
nvidia-smi topo -m >"$out/topology.txt" 2>/dev/null
nvidia-smi --query-gpu=timestamp,index,clocks.sm,clocks.mem,power.draw,temperature.gpu \
    --format=csv -lms 500 >"$out/clocks.csv" 2>/dev/null &
clocks=$!
trap 'kill $clocks 2>/dev/null' EXIT
run 20 doctor.txt doctor --db "$db"
run 20 backends.txt exec --list-backends
run 20 version.txt version -v
if [ "$tests" = 1 ]; then
    limited 200 check.txt make check
    tail -n 1 "$out/check.txt"
fi

# How ranks meet: as processes with a GPU each, or as streams of the only one.
if [ "$n" -ge 2 ]; then
    how="--backend nccl --spawn" ranks=$n
else
    how="--backend nccl --transport loop" ranks=2
    echo "one GPU: ranks are streams of it, no link between GPUs is measured" |
        tee -a "$out/COMMANDS"
fi
if [ -n "$CLUSTER" ]; then cp "$CLUSTER" "$out/cluster.json" || stop "cannot read $CLUSTER"
else run 150 calibrate.txt calibrate $how --ranks "$ranks" $CALIBRATE -o "$out/cluster.json"; fi
# Compute is waited for: the times count as those of the device here, whose copies are predicted.
run 20 import.txt import "$trace" -o "$out/gpt.json" --from-device "$out/cluster.json"
run 20 model.txt model mlp $mlp -o "$out/mlp.json"
sed -i 's/"device": "cpu core"/"device": "unknown"/' "$out/mlp.json"
model=gpt
[ "$1" != --quick ] || model=mlp

# One rank: compute and the optimizer alone.
run 20 one-sim.txt sim -w "$out/$model.json" -c "$out/cluster.json" --spans --db "$db"
run 60 one-exec.txt exec -w "$out/$model.json" -c "$out/cluster.json" --backend nccl \
    --steps "$steps" --warmup "$warmup" --db "$db"

both() { # name, strategy: predicted, then run; the last 20 s are for drawing and packing
    what=$1; shift
    case "$what" in *"$GRID"*) ;; *) return ;; esac
    if [ "$(left)" -lt 40 ]; then
        echo "$what: no time left: $*" | tee -a "$out/LEFT_OUT"
        return
    fi
    run 20 "$what-sim.txt" sim -w "$out/$model.json" -c "$out/cluster.json" "$@" --spans \
        --db "$db"
    run 60 "$what-exec.txt" exec -w "$out/$model.json" -c "$out/cluster.json" "$@" $how \
        --steps "$steps" --warmup "$warmup" --db "$db" || return
    last=$("$lapwing" runs --db "$db" --format csv | cut -d, -f1 | sort -n | tail -n 1)
    drawn=${drawn:-$((last - 1)) $last}
}

for cap in $caps; do both "cap-$cap" --dp "$ranks" --bucket-cap "$cap"; done
for policy in $policies; do both "policy-$policy" --dp "$ranks" --bucket-policy "$policy"; done
for stage in $stages; do both "zero-$stage" --dp "$ranks" --zero "$stage"; done
both clip --dp "$ranks" --zero 1 --clip 1
graph="--dp $ranks $how --graph --steps $steps --warmup $((warmup + 2))"
case graph in
*"$GRID"*)
    if [ "$(left)" -lt 40 ]; then
        echo "graph: no time left: $graph" | tee -a "$out/LEFT_OUT"
    else
        run 60 graph-exec.txt exec -w "$out/$model.json" -c "$out/cluster.json" $graph --db "$db"
    fi ;;
esac
model=mlp
for schedule in $schedules; do
    both "pipeline-$schedule" --pp "$ranks" --micro-batches $((2 * ranks)) --schedule "$schedule"
done
both tensor --tp "$ranks"
[ "$ranks" -lt 4 ] || both grid --dp 2 --pp $((ranks / 2)) --micro-batches "$ranks" --zero 1

# What was measured is in the database whether or not it can be drawn here.
run 20 compare.txt compare --db "$db"
run 20 runs.txt runs --db "$db"
if command -v gnuplot >/dev/null; then
    run 20 plot-predicted.txt plot predicted --db "$db" -o "$out/predicted.png"
    [ -z "$drawn" ] ||
        run 20 plot-timeline.txt plot timeline --db "$db" -o "$out/timeline.png" $drawn
    run 20 report.txt report --db "$db" -o "$out/report.html"
else
    echo "pictures: gnuplot is not installed" | tee -a "$out/LEFT_OUT"
fi
kill $clocks 2>/dev/null
echo "$(($(date +%s) - began)) s" >"$out/TOOK"
tar -czf "$out.tar.gz" -C "$(dirname "$out")" "$name" || stop "cannot pack $out"
echo
cat "$out/compare.txt"
echo
echo "All of it is in $out.tar.gz: send that file back."
[ ! -s "$out/FAILED" ] || stop "failed parts:
$(cat "$out/FAILED")"
