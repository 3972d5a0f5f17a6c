#!/bin/sh
# The same plans, byte for byte, whoever compiled them: gcc and clang, without optimisation and with
# all of it. Compiles what planning needs into a temporary folder and compares the plan files.
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
command -v clang >/dev/null || {
    echo "SKIP same bytes: no clang"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
make "$build/shared/json/json.o" "$build/embedded.o" >/dev/null || exit 1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sources="tests/portable/plans.c $(find sim shared -name "*.c" |
    grep -v -e /cmd_ -e /golden -e /cli -e plan_source -e plan_grid -e sim_print)"
libs="-lsimdjson -ldeflate -lz -lstdc++ -lxxhash -lm -pthread"

compile() { # name, compiler, level
    mkdir -p "$folder/$1"
    "$2" -std=c11 "$3" -ffp-contract=off -I. -D_GNU_SOURCE -DLW_VERSION='""' -DLW_BUILD_FLAGS='""' \
        $sources "$build/shared/json/json.o" "$build/embedded.o" $libs -o "$folder/$1.bin" &&
        "$folder/$1.bin" "$folder/$1"
}

# Both compilers at once; what each has said is told in order.
for c in gcc clang; do
    (for level in -O0 -O3; do
        name=$folder/$c$level
        compile "$c$level" "$c" "$level" >"$name.said" 2>&1 || touch "$name.bad"
    done) &
done
wait
pass=0 fail=0
for version in gcc-O0 gcc-O3 clang-O0 clang-O3; do
    if [ -e "$folder/$version.bad" ]; then
        echo "same bytes: $version: could not be compiled or run"
        tail -n 20 "$folder/$version.said"
        fail=$((fail + 1))
    elif ! diff -r "$folder/gcc-O0" "$folder/$version" >"$folder/diff"; then
        echo "same bytes: $version differs from gcc-O0:"
        head -n 5 "$folder/diff"
        fail=$((fail + 1))
    else
        pass=$((pass + 1))
    fi
done
echo "same bytes: $(ls "$folder/gcc-O0" | wc -l) plan files"
echo "$pass passed, $fail failed, 0 skipped"
[ $fail -eq 0 ]
