#!/usr/bin/env bash
# Brings about hangs of each kind in jobs of eight ranks, and writes the page docs/lab/hangs.md: the output of the first
# treerun status two seconds later, and the time at which the hang watch printed the reason. Healthy jobs show how often
# it is wrong.
#
#   scripts/hangs.sh         a quarter of an hour on two cores; as root, for network namespaces
#   scripts/hangs.sh page    writes the page again from the record
#
# The record is hangs.jsonl next to the page. scripts/hangs does the work.
#
# Environment:
#   PLACES="..."    host, tcp, hosts (default: all)
#   HEALTHY=5m      the time of each healthy job
#   BUSY=10         number of busy processes beside the second one
#   RANKS=512       of one host, for the time of treerun status
#   OUT=docs/lab    where to write
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-docs/lab}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/treerun" ./cmd/treerun
go build -o "$work/hangs" ./scripts/hangs
if [ "${1:-}" != page ]; then
    record=$work/record bad=0
    hangs() { "$work/hangs" -treerun "$work/treerun" -record "$record" "$@" || bad=1; }
    fact() { printf '{"fact":"%s","value":"%s"}\n' "$1" "$2" >> "$record"; }
    fact begun "$(date -u '+%Y-%m-%d %H:%M UTC'), load $(cut -d' ' -f1 /proc/loadavg)"
    fact machine "$(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
    fact kernel "Linux $(uname -r)"
    fact treerun "$(git rev-parse --short HEAD), $(go env GOVERSION)"
    places=${PLACES:-host tcp hosts}
    hangs -places "$places"
    hangs -places host -healthy "${HEALTHY:-5m}"
    hangs -places host -healthy "${HEALTHY:-5m}" -busy "${BUSY:-10}"
    hangs -many "${RANKS:-512}"
    cp "$record" "$out/hangs.jsonl"
    [ $bad = 0 ] || echo "hangs.sh: some are wrong, see above" >&2
fi
"$work/hangs" -page -record "$out/hangs.jsonl" > "$work/page"
cp "$work/page" "$out/hangs.md"
exit "${bad:-0}"
