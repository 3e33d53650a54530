#!/usr/bin/env bash
# Builds treerun and runs all that it does on GPUs on this machine, which has one or
# more with NVIDIA's driver; no CUDA toolkit is needed. Whether it is right, and how
# quick beside what the memory allows, goes into one JSON file, after every step.
#
#   scripts/gpu-check.sh [--json FILE] [--page FILE] [flags of gpucheck all]
#
# FILE is gpu-check.json where none is named. --page writes the page of what was found,
# docs/results/h200.md as a rule. It takes ten minutes at most; what is not done by then
# is noted as not run. Exit code 1 when something was wrong.
#
# A machine without Go, or without a way to Go's modules, takes what another one of its
# kind has built, some 20 MB in a folder, which it needs beside this script:
#
#   scripts/gpu-check.sh --pack DIR                    # here
#   scripts/gpu-check.sh --programs DIR [--json FILE]  # there
#
# It runs on a fake host as well, which is how it is tested, and then the page says
# that nothing was measured:
#
#   scripts/fake-gpu.sh --graph dgx1v -- scripts/gpu-check.sh --sample 20
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

json=gpu-check.json page='' pack='' programs=''
rest=()
while [ $# -gt 0 ]; do
    case $1 in
    --json | --page | --pack | --programs)
        [ $# -ge 2 ] || { echo "$1 needs a name" >&2; exit 64; }
        case $1 in
        --json) json=$2 ;;
        --page) page=$2 ;;
        --pack) pack=$2 ;;
        --programs) programs=$2 ;;
        esac
        shift 2 ;;
    *) rest+=("$1"); shift ;;
    esac
done

# build DIR builds the programs into a folder: without what debuggers need, they are
# half as large.
build() {
    command -v go > /dev/null || { echo "there is no go here: see --pack in $0" >&2; exit 125; }
    mkdir -p "$1"
    local to
    to=$(cd "$1" && pwd)
    (cd "$root" && CGO_ENABLED=1 go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$to/" ./cmd/treerun ./scripts/gpucheck ./examples/train)
}

if [ -n "$pack" ]; then
    build "$pack"
    gzip -f "$pack"/treerun "$pack"/gpucheck "$pack"/train
    exit 0
fi
if [ -z "$programs" ]; then
    build "$work/programs"
else
    mkdir "$work/programs"
    for name in treerun gpucheck train; do
        gzip -dc "$programs/$name.gz" > "$work/programs/$name"
    done
    chmod +x "$work/programs"/*
fi
programs=$work/programs

# Containers have the driver's libraries where the loader does not look, now and then.
if ! ldconfig -p 2> /dev/null | grep -q 'libcuda\.so\.1'; then
    for dir in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib64-nvidia /usr/lib/wsl/lib; do
        [ ! -e "$dir/libcuda.so.1" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dir"
    done
fi
code=0
TMPDIR=$work "$programs/gpucheck" all --treerun "$programs/treerun" --train "$programs/train" --json "$json" ${rest[@]+"${rest[@]}"} || code=1
[ -z "$page" ] || "$programs/gpucheck" page "$json" "$page"
exit $code
