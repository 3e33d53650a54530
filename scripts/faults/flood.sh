#!/usr/bin/env bash
# Checks that a flood of connections at a rank's port costs a job no more than the flood itself takes: two ranks make
# calls of AllReduce, in turns without a flood, with one at a separate idle listener, and with one at the port of rank
# 0. Prints the calls and connections per second of each turn and their medians, and exits with 1 if the flood at the
# rank's port leaves less than FLOOR percent (default 70) of the calls that the flood at the separate listener leaves.
#
#   scripts/faults/flood.sh [TURNS]
#
# Needs two cores, and an otherwise idle machine. All traffic is on the loopback.
set -euo pipefail
cd "$(dirname "$0")/../.."
turns=${1:-5} floor=${FLOOR:-70} work=$(mktemp -d)
pids=()
end() { for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done; rm -rf "$work"; }
trap end EXIT
go build -o "$work/treerun" ./cmd/treerun
go build -o "$work/flood" ./scripts/faults/testdata/flood
seconds=$((turns * 12 + 10))

"$work/treerun" -np 2 "$work/flood" rank $seconds > "$work/job" 2>&1 & pids+=($!)
"$work/flood" listen > "$work/listener" & pids+=($!)
until grep -q calls "$work/job" && [ -s "$work/listener" ]; do sleep 0.1; done
beside=$(cat "$work/listener") port=$(sed -n 's/.*ports \([0-9]*\).*/\1/p' "$work/job")
[ -n "$port" ] || { echo "rank 0 listens nowhere" >&2; exit 2; }

median() { sort -n | awk '{v[NR] = $1} END {print NR ? v[int((NR + 1) / 2)] : 0}'; }
turn() { # NAME PORT: floods the port for three whole seconds; no port: no flood
    local flood='' before calls
    : > "$work/connections"
    if [ -n "$2" ]; then "$work/flood" connect "$2" > "$work/connections" & flood=$!; pids+=("$flood"); fi
    sleep 0.5
    before=$(grep -c calls "$work/job")
    sleep 3.2
    if [ -n "$flood" ]; then kill $flood; wait $flood 2>/dev/null || true; fi
    calls=$(grep calls "$work/job" | tail -n +$((before + 2)) | head -n 3 | awk '{print $3}' | median)
    echo "$calls" >> "$work/calls.$1"
    awk '{print $2}' "$work/connections" | median >> "$work/connections.$1"
    echo "$1: $calls calls/s, $(tail -n 1 "$work/connections.$1") connections/s"
}
for _ in $(seq "$turns"); do turn none ''; turn beside "$beside"; turn rank "$port"; done
for name in none beside rank; do
    echo "median $name: $(median < "$work/calls.$name") calls/s, $(median < "$work/connections.$name") connections/s"
done
least=$(($(median < "$work/calls.beside") * floor / 100))
[ "$(median < "$work/calls.rank")" -ge "$least" ] || { echo "the flood at the rank's port costs more than the flood"; exit 1; }
