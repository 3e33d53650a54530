#!/usr/bin/env bash
# Checks that a program may renew its communicator without end: each is made from the one before (Dup, Split, Sub),
# which is then closed, 10,000 times on 1, 2 and 4 ranks of one host, 2,000 times on 4 ranks of two. Memory,
# descriptors, the length of the name and the time of a renewal must not grow. A chain of 50 of which all are kept is
# made, too. Exits with 1 if anything grows or fails.
#
#   scripts/faults/renewals.sh [COUNT]     about 4 minutes with 10,000
#
# Needs Linux and Go; as root, with ip, the two hosts (network namespaces that it makes and removes), else one.
set -euo pipefail
cd "$(dirname "$0")/../.."
count=${1:-10000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"
for f in ./cmd/treerun ./scripts/faults/testdata/renewals ./scripts/faults/testdata/inhosts; do
    go build -o "$work/" "$f"
done
treerun=$work/treerun renewals=$work/renewals
for ranks in 1 2 4; do
    for how in dup startdup split sub; do
        "$treerun" -np "$ranks" "$renewals" -how "$how" -count "$count"
    done
    "$treerun" -np "$ranks" "$renewals" -keep -count 50
done
if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null; then
    echo "two hosts left out: needs root and ip"
    exit
fi
export treerun renewals
for how in dup startdup split sub; do
    # shellcheck disable=SC2016 # inhosts sets these
    "$work/inhosts" 2 sh -c 'sh "$ENTER" "$H0" "$treerun" -np 4 -H "$H0:2,$H1:2" --launch-agent "$AGENT" \
        "$renewals" -how "$0" -count "$1"' "$how" $((count / 5))
done
