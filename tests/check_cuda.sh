#!/bin/sh
# check_cuda.sh NVCC "known architectures" WANTED... -- FLAGS... FILE: compiles FILE for each wanted
# architecture alone. One that NVCC does not know is skipped and named. Ends with
# "N passed, M failed, K skipped".
nvcc=$1 known=$2
shift 2
wanted=
while [ "$1" != -- ]; do wanted="$wanted $1"; shift; done
shift
out=$(mktemp)
trap 'rm -f "$out"' EXIT
pass=0 fail=0 skip=0
for arch in $wanted; do
    case " $known " in
    *" $arch "*) ;;
    *) echo "SKIP sm_$arch: $("$nvcc" --version | tail -n 1) does not know it"; skip=$((skip + 1)); continue ;;
    esac
    if "$nvcc" "$@" -gencode "arch=compute_$arch,code=sm_$arch" -o "$out"; then
        echo "sm_$arch: ok"; pass=$((pass + 1))
    else
        echo "sm_$arch: not compiled"; fail=$((fail + 1))
    fi
done
echo "$pass passed, $fail failed, $skip skipped"
[ $fail -eq 0 ]
