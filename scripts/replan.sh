#!/usr/bin/env bash
# Runs AllReduce of 16 MiB on four hosts with cards of 800 Mbit/s, of which one falls to 200 Mbit/s and recovers, and
# prints the times of calls beside the bound, as docs/lab/replan.md has them; then those of a job in which nothing
# changes, with and without looks at the times. The hosts are network namespaces that this script makes and removes. As
# root, on Linux.
#
#   scripts/replan.sh          some 5 minutes on two quiet cores, at most 30
#   scripts/replan.sh -quick   a minute, with small messages: to test this script
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for f in ./cmd/treerun ./scripts/replan; do
    go build -o "$work/$(basename "$f")" "$f"
done
echo "load $(cut -d' ' -f1 /proc/loadavg)"
timeout 1800 "$work/replan" -treerun "$work/treerun" "$@"
