#!/usr/bin/env bash
# Measures AllReduce on eight hosts of which one has a slow card, and writes the page docs/lab/slow-card.md. The
# hosts are network namespaces that this script makes and removes. As root, on Linux.
#
#   scripts/slow-card.sh          measure, then write the page: about 5 minutes on two quiet cores
#   scripts/slow-card.sh quick    one repetition of a small message into a new folder: to test this script
#   scripts/slow-card.sh page     write the page again from the record
#
# The record is slow-card.jsonl next to the page: a line per row, and lines about the machine. scripts/report does the
# work, and scripts/page.sh makes the page.
#
# Environment:
#   REPEAT=5            repetitions; the median counts
#   OUT=docs/lab    where to write (quick: a new temporary folder)
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-full}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"

more=(-repeat "${REPEAT:-5}")
case $mode in
full) ;;
page)
    scripts/page.sh slow-card "${OUT:-docs/lab}"
    exit ;;
quick)
    more=(-repeat 1 -quick)
    OUT=${OUT:-$(mktemp -d)} ;;
*) echo "usage: slow-card.sh [quick | page]" >&2; exit 64 ;;
esac
OUT=${OUT:-docs/lab}
for f in ./cmd/treerun ./scripts/report; do
    go build -o "$work/$(basename "$f")" "$f"
done
mkdir -p "$OUT"
version="$(git rev-parse --short HEAD)$(git diff --quiet HEAD -- ':!docs' || echo ' with changes')"
"$work/report" slow-card -treerun "$work/treerun" -about "$version" "${more[@]}" "$OUT"
scripts/page.sh slow-card "$OUT"
