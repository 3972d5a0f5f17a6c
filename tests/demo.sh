#!/bin/sh
# The main job on a recorded training step: measure this machine, import the recording, then for
# three bucket caps predict the step of two ranks and run the same plan for real on threads;
# compare, draw, report. The ranks exchange over a link paced to 2 Gbit/s, so that the bucket cap
# decides how much of the communication is hidden behind the backward; one more plan runs without
# pacing. Everything goes to out/. A step that fails stops the demo with its own message.
cd "$(dirname "$0")/.." || exit 1
lapwing=${LAPWING:-build/lapwing}
trace=traces/recorded/gpt6__local.rank0.json.gz
ranks=2 steps=20 warmup=3 caps="1MiB 5MiB 25MiB"
link="--link-rate 250MB --link-latency 50us"
db=out/demo.db
began=$(date +%s)

run() { # say what is run, run it, keep its words in out/demo.log; stop when it fails
    echo "+ lapwing $*"
    echo "+ lapwing $*" >>out/demo.log
    if ! "$lapwing" "$@" >out/last.txt 2>out/errors.txt; then
        cat out/last.txt out/errors.txt >&2
        echo "demo: stopped: 'lapwing $1' failed, its words are above" >&2
        exit 1
    fi
    cat out/last.txt out/errors.txt >>out/demo.log
}

[ -x "$lapwing" ] || { echo "demo: $lapwing is not built; run 'make'" >&2; exit 1; }
[ -f "$trace" ] || { echo "demo: $trace is not there" >&2; exit 1; }
mkdir -p out && rm -f out/demo.db* out/demo.log out/*.png out/report.html || exit 1

echo "Recorded: a 6-layer GPT, one training step on one CPU core by PyTorch ($trace)"
run doctor --db "$db"
grep '^cores  *no' out/last.txt | sed 's/^cores *no */  NOTE: cores: /'
run calibrate --backend threads --max-bytes 32MiB $link -o out/cluster.json
run calibrate --backend threads --max-bytes 32MiB -o out/cluster-unpaced.json
run import "$trace" -o out/workload.json

both() { # cluster file, cap, options of exec: predicted, then run
    cluster=$1 cap=$2
    shift 2
    strategy="-w out/workload.json -c $cluster --dp $ranks --bucket-cap $cap"
    run plan $strategy -o "out/plan-$cap.json"
    run sim $strategy --spans --db "$db"
    run exec $strategy --backend threads --steps $steps --warmup $warmup --compute gemm "$@" \
        --db "$db"
}
for cap in $caps; do both out/cluster.json "$cap" $link; done
both out/cluster-unpaced.json 5MiB
run compare --db "$db"
cp out/last.txt out/table.txt
{ # what remains, what the machine's speed explains of it, and the largest part
    echo
    first=1
    for cap in $caps; do
        run compare --db "$db" "$first" $((first + 1)) >&2
        sed -n -e "s/^compute of rank/$cap: &/" -e "s/^the prediction is/$cap: &/" \
            -e "/^$cap: /,/^\$/{/^\$/!p}" out/last.txt
        first=$((first + 2))
    done
} >>out/table.txt
run plot timeline --db "$db" -o out/timeline.png 3 4
run plot overlap --db "$db" -o out/overlap.png
run plot predicted --db "$db" -o out/predicted.png
run plot sweep --db "$db" -o out/sweep.png $(seq 1 6) # the runs over the paced link
run report --db "$db" -o out/report.html
rm -f out/last.txt out/errors.txt

echo
echo "Two ranks, medians of $steps steps; predicted before it was measured, from a calibration of"
echo "its own; the same plan on both sides, its sums checked bitwise against one rank. The first"
echo "three rows exchange over a link paced to 2 Gbit/s, the last one over shared memory:"
echo
cat out/table.txt
echo
echo "Written in $(($(date +%s) - began)) s: out/report.html (open it in a browser),"
echo "out/timeline.png, out/overlap.png, out/predicted.png, out/sweep.png,"
echo "out/demo.db ('$lapwing runs --db $db'), out/workload.json, out/cluster.json,"
echo "out/plan-*.json, out/demo.log"
