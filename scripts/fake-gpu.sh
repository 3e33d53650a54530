#!/usr/bin/env bash
# Runs a command on a fake host with GPUs: libraries that are built here replace the NVIDIA driver and NVML. Needs Go
# and compilers of C and C++.
#
#   scripts/fake-gpu.sh --graph dgx1v -- treerun -np 8 ./examples/train --device cuda
#
# --graph takes dgx1v, or some of its GPUs: dgx1v/0-3. The documentation of internal/testutil/fakegpu lists its faults.
# The command replaces this shell, with its signals and its exit code; 125 means that there is no fake host, 64 wrong
# usage. Only the libraries in the user's cache remain.
set -euo pipefail

usage() { echo "usage: scripts/fake-gpu.sh --graph dgx1v[/RANKS] -- COMMAND [ARGS...]" >&2; exit 64; }

graph=
while [ $# -gt 0 ]; do
    case $1 in
    --graph) [ $# -ge 2 ] || usage; graph=$2; shift 2 ;;
    --graph=*) graph=${1#*=}; shift ;;
    --) shift; break ;;
    *) usage ;;
    esac
done
[ -n "$graph" ] && [ $# -gt 0 ] || usage

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The folder is removed when the last process that has descriptor 9 has ended, in any way.
# shellcheck disable=SC2016 # it is the other shell that expands
exec 9> >(exec setsid sh -c 'trap "" INT QUIT TERM HUP; cat; rm -rf "$0"' "$work" > /dev/null 2>&1)

# go run keeps the built program in its cache.
(cd "$root" && go run -buildvcs=false -exec cp ./scripts/fakegpu "$work/fakegpu") || exit 125
variables=$(cd "$root" && TMPDIR=$work "$work/fakegpu" "$graph") || exit 125
while IFS= read -r line; do
    export "${line?}"
done <<< "$variables"

exec "$@"
