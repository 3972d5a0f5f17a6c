#!/bin/sh
# Runs cmocka test programs, JOBS at once (by default one more than there are cores, since many
# wait a part of their time), and counts: prints each program's failures and skips, then one line
# "N passed, M failed, K skipped". A program that crashes counts as one failure. tests/order.txt
# lists, the longest first, the programs that begin first because they take long, those that wait
# more than they compute and run beside the others, and those that measure time and run one at a
# time at the end. A program that has not ended after LIMIT seconds (by default 900) is stopped with
# its children and has failed: what it printed until then is shown. TIMES=1: the seconds of each
# program, processor and clock.
here=${0%/*}
limit=${LIMIT:-900}

# Of the program's output (and, read before it, of what `times` said): its counts to NAME.count, its
# seconds of processor and clock to NAME.took, and what is printed of it.
count='
    FNR == 1 { n_files++ }
    n_files == 1 {
        if (FNR == 2) # of the children, as 0m1.250s 0m0.500s
            for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); seconds += 60 * t[1] + t[2] }
        next
    }
    { text = text $0 "\n" }
    /^\[       OK \]/ { passed++ }
    # cmocka lists failed and skipped tests twice: as they happen and in the summary
    /^\[  FAILED  \] [^0-9]/ && !seen[$0]++ { failed++ }
    /^\[  SKIPPED \] [^0-9]/ && !seen[$0]++ { skipped++ }
    /^SKIP/ { skips = skips $0 "\n" }
    END {
        if (rc && !failed) failed = 1
        if (rc == 124 || rc == 137) text = text "stopped: not ended after " limit " s\n"
        if (failed) printf "--- %s (exit %d)\n%s", program, rc, text
        printf "%s%-40s %3d passed %3d failed %3d skipped\n", skips, name, passed, failed, skipped
        printf "%d %d %d\n", passed, failed, skipped >(base ".count")
        printf "%8.2f %8.2f  %s\n", seconds, ended - begun, name >(base ".took")
    }'

one() { # program
    name=${1##*/}
    base=$folder/$name
    read -r begun _ </proc/uptime
    (export LAPWING_TEST_FILTER=${F:-} CMOCKA_MESSAGE_OUTPUT=STDOUT
     timeout -k 10 "$limit" "$1" >"$base.out" 2>&1; rc=$?
     times >"$base.times"; exit $rc)
    rc=$?
    read -r ended _ </proc/uptime
    awk -v program="$1" -v name="$name" -v base="$base" -v rc=$rc -v begun="$begun" \
        -v limit="$limit" -v ended="$ended" "$count" "$base.times" "$base.out" >"$base.text"
    [ -s "$base.count" ] || echo "0 1 0" >"$base.count" # a program that is not counted has failed
    cat "$base.text"
}

if [ "$1" = --one ]; then # a program of the parallel part, started by xargs below
    folder=$2
    one "$3"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The programs given that order.txt lists under a word, in its order; for '' those not listed.
listed() {
    word=$1; shift
    printf '%s\n' "$@" | awk -v word="$word" -v order="$here/order.txt" '
        BEGIN { while ((getline line <order) > 0) { split(line, f, " "); name[++n] = f[1]
                                                    place[f[1]] = f[2] } }
        { base = $0; sub(/.*\//, "", base); path[base] = $0
          if (word == "" && place[base] !~ /^(first|waits|alone)$/) print }
        END { for (i = 1; i <= n; i++)
                  if (place[name[i]] == word && name[i] in path) print path[name[i]] }'
}

first=$(listed first "$@") others=$(listed '' "$@")
waiting=$(listed waits "$@") alone=$(listed alone "$@")

beside() { # how many at once, programs
    n=$1; shift
    [ $# -eq 0 ] || printf '%s\n' "$@" | xargs -P "$n" -I{} "$0" --one "$folder" {}
}

beside 3 $waiting &
beside "${JOBS:-$(($(nproc 2>/dev/null || echo 2) + 1))}" $first $others
wait
for t in $alone; do one "$t"; done
if [ -n "${TIMES:-}" ]; then
    cat "$folder"/*.took | sort -rn
    awk '{ c += $1; w += $2 } END { printf "%8.2f %8.2f  all\n", c, w }' "$folder"/*.took
fi
cat "$folder"/*.count | awk '{ p += $1; f += $2; s += $3 }
    END { printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0 }'
