#!/bin/sh
# check_cuda.sh NVCC "known architectures" WANTED... -- FLAGS... FILE: compiles FILE for each wanted
# architecture alone. One that NVCC does not know is compiled by clang to PTX, which ptxas assembles
# for the oldest one that it knows; without clang it is skipped and named. Ends with
# "N passed, M failed, K skipped".
nvcc=$1 known=$2
shift 2
wanted=
while [ "$1" != -- ]; do wanted="$wanted $1"; shift; done
shift
for file in "$@"; do :; done
ptxas=$(dirname "$nvcc")/ptxas
out=$(mktemp)
trap 'rm -f "$out" "$out.ptx"' EXIT
pass=0 fail=0 skip=0

by_clang() { # architecture; status 2: there is no clang that can
    arch=$1
    set -- -x cuda --cuda-device-only --cuda-gpu-arch="sm_$arch" -nocudainc -nocudalib \
        -Wno-unknown-cuda-version -S -o "$out.ptx"
    echo '__attribute__((global)) void nothing() {}' | clang "$@" - 2>/dev/null || return 2
    clang "$@" -O2 -ffp-contract=off -fno-math-errno -Xclang -target-feature -Xclang +ptx70 -I. \
        -include tests/clang_cuda.h "$file" || return 1
    set -- $known
    "$ptxas" -arch="sm_$1" "$out.ptx" -o "$out" && oldest=$1
}

for arch in $wanted; do
    case " $known " in
    *" $arch "*)
        if "$nvcc" "$@" -gencode "arch=compute_$arch,code=sm_$arch" -o "$out"; then
            echo "sm_$arch: ok"; pass=$((pass + 1))
        else
            echo "sm_$arch: not compiled"; fail=$((fail + 1))
        fi ;;
    *)
        by_clang "$arch"
        case $? in
        0) echo "sm_$arch: ok (by clang; its PTX assembled for sm_$oldest)"; pass=$((pass + 1)) ;;
        2)
            version=$("$nvcc" --version | tail -n 1)
            echo "SKIP sm_$arch: $version does not know it, and there is no clang"
            skip=$((skip + 1))
            ;;
        *) echo "sm_$arch: not compiled by clang"; fail=$((fail + 1)) ;;
        esac ;;
    esac
done
echo "$pass passed, $fail failed, $skip skipped"
[ $fail -eq 0 ]
