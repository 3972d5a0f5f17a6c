#!/bin/sh
# Every check, one stage after the other; all stages run even when one fails. Ends with what failed
# once more, all together, and "N passed, M failed, K skipped" over all of them. A stage that counts
# nothing itself is one check.
# TIMES=1: the programs of a stage that took longest, seconds of processor and clock.
cd "$(dirname "$0")/.." || exit 1
pass=0 fail=0 skip=0
folder=$(mktemp -d)
log=$folder/log
trap 'rm -rf "$folder"' EXIT
trap 'echo "stopped in the stage: $title"; tail -n 200 "$log"; exit 143' TERM INT HUP

# Of a stage's log: what its failed test programs printed, from "--- program (exit N)" to their
# counts; where there is none, the end of the log.
failures() {
    awk '/^--- .* \(exit [0-9]+\)$/ { shown = n = 1 }
         shown && !/^\[ RUN |^\[       OK \]/ && n++ < 80 { print substr($0, 1, 1000); any = 1 }
         / passed +[0-9]+ failed +[0-9]+ skipped$/ { shown = 0 }
         END { exit !any }' "$log" || tail -n 15 "$log"
}

stage() { # title, command...
    title=$1; shift
    echo "=== $title"
    began=$(date +%s)
    "$@" >"$log" 2>&1
    rc=$?
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    if [ -n "$line" ]; then
        set -- $(echo "$line" | tr -dc '0-9 ')
        pass=$((pass + $1)) fail=$((fail + $2)) skip=$((skip + ${3:-0}))
        [ $rc -ne 0 ] && [ "$2" -eq 0 ] && fail=$((fail + 1))
        grep -E '^SKIP' "$log"
    elif [ $rc -eq 0 ]; then pass=$((pass + 1)); else fail=$((fail + 1)); fi
    if [ $rc -ne 0 ]; then
        grep -nE -B 20 '[1-9][0-9]* failed|ERROR: |runtime error' "$log" | head -n 200
        tail -n 100 "$log"
        { echo "=== failed: $title"; failures; } >>"$folder/failures"
    fi
    [ -z "$TIMES" ] || grep -E '^ +[0-9.]+ +[0-9.]+  ' "$log" | awk 'NR <= 20 || $3 == "all"'
    echo "    ${line:-exit $rc} ($(($(date +%s) - began)) s)"
}

left_out() { echo "=== $1: left out ($2)"; skip=$((skip + 1)); }

jobs=$(nproc 2>/dev/null || echo 2)
[ -d ../shared/golden ] || echo "NOTE: ../shared is absent: tests that need its data skip"
stage "build" make -j"$jobs" all
stage "layout of the sources" make format-check
stage "checks" env LAPWING_MANY=1 make -j"$jobs" check
stage "checks under address and undefined sanitizers" make -j"$jobs" SAN=1 check
stage "the same plans from gcc and clang, -O0 and -O3" tests/same_bytes.sh
stage "a minute of torture: kills, damaged files under sanitizers, hostile connections" \
    make torture MINUTES=1
[ -z "$STRESS" ] || stage "every failure of a run, $STRESS times" make stress LOOPS="$STRESS"
stage "executor under the thread sanitizer" make -j"$jobs" TSAN=1 T=exec/ check
if command -v clang >/dev/null && echo '
int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n);
int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n)
{ (void)d; return (int)(n & 0); }' |
    clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null; then
    stage "short fuzz of every importer" make -j"$jobs" fuzz
else
    left_out "short fuzz of every importer" \
        "no clang with libFuzzer; the corpus is replayed in the checks"
fi
stage "the GPU kernels for each architecture" make check-cuda
stage "the demo" make demo
stage "install into a folder" make install DESTDIR="$folder/install"
if command -v dpkg-shlibdeps >/dev/null; then stage "a Debian package" make deb
else left_out "a Debian package" "no dpkg-shlibdeps (package dpkg-dev)"; fi
[ ! -e "$folder/failures" ] || cat "$folder/failures"
echo "$pass passed, $fail failed, $skip skipped"
[ $fail -eq 0 ]
