#!/usr/bin/env bash
# Checks that a failure which only Close returns fails the job, even if the program drops it: ranks that broadcast from
# different roots, or leave messages unreceived, under `defer c.Close()`. No run may end with exit 0.
#
#   scripts/faults/close.sh [ROUNDS]     default 200, of each
#
# Needs Go. A job whose calls returned the failure, and one without, end with exit 0.
set -euo pipefail

rounds=${1:-200}
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/treerun" ./cmd/treerun
go build -o "$work/close" ./scripts/faults/testdata/close

# count WHICH WANT: the number of runs with an exit code other than WANT.
count() {
    local bad=0 i code
    for ((i = 0; i < rounds; i++)); do
        code=0
        timeout 60 "$work/treerun" -np 4 "$work/close" "$1" >"$work/out" 2>&1 || code=$?
        [ "$code" = "$2" ] || { bad=$((bad + 1)); cp "$work/out" "$work/bad"; }
    done
    echo "$1: $bad of $rounds runs end otherwise than with exit code $2"
    [ "$bad" = 0 ] || { cat "$work/bad"; failed=1; }
}

failed=0
for which in droppedclose leftover unclosed split leftoverdup pending aborted neither; do count "$which" 1; done
for which in handled fine; do count "$which" 0; done
exit $failed
