#!/bin/sh
# Run cmocka test programs and count: prints each program's failures and skips, then one line
# "N passed, M failed, K skipped". A program that crashes counts as one failure.
pass=0 fail=0 skip=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for t in "$@"; do
    CMOCKA_TEST_FILTER=${F:-} CMOCKA_MESSAGE_OUTPUT=STDOUT "$t" >"$out" 2>&1
    rc=$?
    p=$(grep -c '^\[       OK \]' "$out")
    f=$(grep -c '^\[  FAILED  \] [^0-9]' "$out")
    s=$(grep -c '^\[  SKIPPED \] [^0-9]' "$out")
    # cmocka lists failed and skipped tests twice: as they happen and in the summary
    f=$(grep '^\[  FAILED  \] [^0-9]' "$out" | sort -u | wc -l)
    s=$(grep '^\[  SKIPPED \] [^0-9]' "$out" | sort -u | wc -l)
    [ $rc -ne 0 ] && [ "$f" -eq 0 ] && f=1
    pass=$((pass + p)) fail=$((fail + f)) skip=$((skip + s))
    if [ "$f" -gt 0 ]; then echo "--- $t (exit $rc)"; cat "$out"; fi
    grep -E '^SKIP' "$out"
    printf '%-40s %3d passed %3d failed %3d skipped\n' "$(basename "$t")" "$p" "$f" "$s"
done
echo "$pass passed, $fail failed, $skip skipped"
[ $fail -eq 0 ]
