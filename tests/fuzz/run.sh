#!/bin/sh
# Run fuzz programs for some seconds each, from their seed corpora and with numbers at the limits of
# their types (limits.dict). New inputs go to a scratch folder; a crash input is kept as ./crash-*
# for tests/fuzz/corpus. The same inputs are tried each time; FUZZ_SEED=0 draws others. Ends with
# "N passed, M failed".
seconds=$1; shift
pass=0 fail=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for f in "$@"; do
    name=$(basename "$f" | sed 's/^fuzz_//')
    mkdir -p "$work/$name"
    seeds=tests/fuzz/corpus/$name
    [ -d "$seeds" ] || seeds=
    if "$f" -seed="${FUZZ_SEED:-1}" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 \
        -max_len=65536 -dict=tests/fuzz/limits.dict "$work/$name" $seeds >"$work/log" 2>&1; then
        pass=$((pass + 1))
        echo "$name: $(grep -E '^Done|stat::number_of_executed_units' "$work/log" | tail -n 1)"
    else
        fail=$((fail + 1))
        tail -n 40 "$work/log"
    fi
done
echo "$pass passed, $fail failed"
[ $fail -eq 0 ]
