#!/bin/sh
# For a machine with GPUs that has neither compilers nor a network: packs the program, the NCCL
# plugin, the libraries that the program links, and gpu_check.sh with its recording into one file.
# There: tar -xzf lapwing-gpu.tar.gz && lapwing-gpu/run [--quick]. CUDA, cuBLAS and NCCL are that
# machine's own, of the major versions that the plugin was built with.
#
#   LAPWING=PROGRAM     its folder holds the plugin (build/lapwing)
#   $1                  the file (out/lapwing-gpu.tar.gz)
cd "$(dirname "$0")/.." || exit 1
lapwing=${LAPWING:-build/lapwing}
file=${1:-out/lapwing-gpu.tar.gz}
plugin=$(dirname "$lapwing")/lapwing-nccl.so
trace=traces/recorded/gpt6__local.rank0.json.gz

stop() { echo "gpu-pack: $*" >&2; exit 1; }

[ -x "$lapwing" ] || stop "$lapwing is not built; run 'make'"
[ -f "$plugin" ] || stop "$plugin is not built: 'make' says what it needs"
folder=$(mktemp -d) || stop "no temporary folder"
trap 'rm -rf "$folder"' EXIT
to=$folder/lapwing-gpu
mkdir -p "$to/build" "$to/lib" "$to/tests" "$(dirname "$to/$trace")" "$(dirname "$file")"
cp "$lapwing" "$plugin" "$to/build" && cp tests/gpu_check.sh "$to/tests" &&
    cp "$trace" "$to/$trace" || stop "cannot copy into $to"
ldd "$lapwing" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -vE '/lib(c|m|pthread|dl|rt)\.so' | xargs cp -L -t "$to/lib" ||
    stop "cannot copy libraries"
cat >"$to/run" <<'END'
#!/bin/sh
# Libraries that this machine lacks come from lib/; all others are its own.
cd "$(dirname "$0")" || exit 1
mkdir -p used
for name in $(ldd build/lapwing | awk '/not found/ { print $1 }'); do
    cp "lib/$name" used || exit 1
done
export LD_LIBRARY_PATH="$PWD/used:$LD_LIBRARY_PATH" LAPWING=build/lapwing TESTS=0
exec sh tests/gpu_check.sh "$@"
END
chmod +x "$to/run"
tar -I 'gzip -1' -cf "$file" -C "$folder" lapwing-gpu || stop "cannot write $file"
echo "$file: unpack it on the machine with GPUs, and run lapwing-gpu/run"
