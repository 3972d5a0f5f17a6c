#!/bin/sh
# Run fuzz programs for some seconds each, as many at once as there are cores, from their seed
# corpora and with numbers at the limits of their types (limits.dict). New inputs go to a scratch
# folder; a crash input is kept as ./crash-* for tests/fuzz/corpus. The same inputs are tried each
# time; FUZZ_SEED=0 draws others. Ends with "N passed, M failed".
one() { # seconds, scratch folder, program
    name=$(basename "$3" | sed 's/^fuzz_//')
    mkdir -p "$2/$name"
    seeds=tests/fuzz/corpus/$name
    [ -d "$seeds" ] || seeds=
    if "$3" -seed="${FUZZ_SEED:-1}" -max_total_time="$1" -rss_limit_mb=2048 -timeout=10 \
        -max_len=65536 -dict=tests/fuzz/limits.dict "$2/$name" $seeds >"$2/$name.log" 2>&1; then
        echo pass >>"$2/passed"
        echo "$name: $(grep -E '^Done|stat::number_of_executed_units' "$2/$name.log" | tail -n 1)"
    else
        echo fail >>"$2/failed"
        tail -n 40 "$2/$name.log"
    fi
}

if [ "$1" = --one ]; then # started by xargs below
    one "$2" "$3" "$4"
    exit 0
fi
seconds=$1; shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
touch "$work/passed" "$work/failed"
printf '%s\n' "$@" | xargs -P "$(nproc 2>/dev/null || echo 2)" -I{} \
    "$0" --one "$seconds" "$work" {}
fail=$(($# - $(wc -l <"$work/passed"))) # one that was not counted has failed
echo "$(wc -l <"$work/passed") passed, $fail failed"
[ $fail -eq 0 ]
