#!/bin/sh
# Every published table of training runs through `lapwing validate`: families, coverage, errors.
#   tables.sh LAPWING OUT SHARED   OUT: a folder for each table's JSON; SHARED: gpu-tables/, papers/
lapwing=$1
out=$2
shared=$3
mkdir -p "$out" || exit 1
found=0
for file in "$shared"/gpu-tables/*.csv "$shared"/papers/*.csv; do
    [ -f "$file" ] || continue
    found=1
    name=$(basename "$file" .csv)
    if "$lapwing" validate "$file" --format json >"$out/$name.json" 2>"$out/$name.err"; then :
    elif [ $? -ne 3 ]; then
        rm -f "$out/$name.json"
    fi
done
if [ $found = 0 ]; then
    echo "validate-tables: SKIP: $shared holds no gpu-tables and no papers" >&2
    exit 0
fi
python3 "$(dirname "$0")/tables.py" "$out"
