#!/usr/bin/env bash
# Builds treerun and runs all that it does on GPUs on this machine, which has one or
# more with NVIDIA's driver; no CUDA toolkit is needed. Whether it is right, and how
# quick beside what the memory allows, goes into one JSON file.
#
#   scripts/gpu-check.sh [--json FILE] [--page FILE] [flags of gpucheck all]
#
# --page writes the page of what was found, docs/results/h200.md as a rule. Exit
# code 1 when something was wrong. It runs on a fake host as well, which is how it
# is tested, and then the page says that nothing was measured:
#
#   scripts/fake-gpu.sh --graph dgx1v -- scripts/gpu-check.sh --sample 20
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

json=$work/gpu-check.json page=
rest=()
while [ $# -gt 0 ]; do
    case $1 in
    --json) [ $# -ge 2 ] || { echo "--json needs a file" >&2; exit 64; }; json=$2; shift 2 ;;
    --page) [ $# -ge 2 ] || { echo "--page needs a file" >&2; exit 64; }; page=$2; shift 2 ;;
    *) rest+=("$1"); shift ;;
    esac
done

(cd "$root" && go build -buildvcs=false -o "$work/" ./cmd/treerun ./scripts/gpucheck)
code=0
TMPDIR=$work "$work/gpucheck" all --treerun "$work/treerun" --json "$json" ${rest[@]+"${rest[@]}"} || code=1
[ -z "$page" ] || "$work/gpucheck" page "$json" "$page"
exit $code
