#!/bin/sh
# Runs cmocka test programs, JOBS at once (one per core by default), and counts: prints each
# program's failures and skips, then one line "N passed, M failed, K skipped". A program that
# crashes counts as one failure. tests/order.txt lists, the longest first, the programs that begin
# first because they take long, those that wait more than they compute and run beside the others,
# and those that measure time and run one at a time at the end. TIMES=1: the seconds of each
# program, processor and clock.
here=$(dirname "$0")

took() { # name, milliseconds: those of the processor and of the clock to $folder/NAME.took
    sed -n 2p "$folder/$1.times" | awk -v name="$1" -v ms="$2" '
        { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); cpu += 60 * t[1] + t[2] } }
        END { printf "%8.2f %8.2f  %s\n", cpu, ms / 1000, name }' >"$folder/$1.took"
}

one() { # program: its output to $folder/NAME.out, its counts to $folder/NAME.count
    name=$(basename "$1")
    out=$folder/$name.out
    begun=$(date +%s%N)
    (LAPWING_TEST_FILTER=${F:-} CMOCKA_MESSAGE_OUTPUT=STDOUT "$1" >"$out" 2>&1; rc=$?
     times >"$folder/$name.times"; exit $rc)
    rc=$?
    took "$name" $((($(date +%s%N) - begun) / 1000000))
    p=$(grep -c '^\[       OK \]' "$out")
    # cmocka lists failed and skipped tests twice: as they happen and in the summary
    f=$(grep '^\[  FAILED  \] [^0-9]' "$out" | sort -u | wc -l)
    s=$(grep '^\[  SKIPPED \] [^0-9]' "$out" | sort -u | wc -l)
    [ $rc -ne 0 ] && [ "$f" -eq 0 ] && f=1
    echo "$p $f $s" >"$folder/$name.count"
    {
        if [ "$f" -gt 0 ]; then echo "--- $1 (exit $rc)"; cat "$out"; fi
        grep -E '^SKIP' "$out"
        printf '%-40s %3d passed %3d failed %3d skipped\n' "$name" "$p" "$f" "$s"
    } >"$folder/$name.text"
    cat "$folder/$name.text"
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

beside 4 $waiting &
beside "${JOBS:-$(nproc 2>/dev/null || echo 2)}" $first $others
wait
for t in $alone; do one "$t"; done
if [ -n "${TIMES:-}" ]; then
    cat "$folder"/*.took | sort -rn
    awk '{ c += $1; w += $2 } END { printf "%8.2f %8.2f  all\n", c, w }' "$folder"/*.took
fi
cat "$folder"/*.count | awk '{ p += $1; f += $2; s += $3 }
    END { printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0 }'
