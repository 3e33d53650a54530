#!/usr/bin/env bash
# Makes a page of docs/lab, and its charts, from its record:
#
#   scripts/page.sh NAME [FOLDER]    NAME.md from NAME.jsonl, in FOLDER (default: docs/lab)
#
# NAME is one-host, several-hosts, sparse, slow-card, push-pulls, plans-hosts, calls or recovery. The tests of scripts/report do
# the work: they also check that the pages match their records.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] && [ $# -le 2 ] || { echo "usage: page.sh NAME [FOLDER]" >&2; exit 64; }
folder=${2:-docs/lab}
[ -f "$folder/$1.jsonl" ] || { echo "page.sh: there is no record $folder/$1.jsonl" >&2; exit 1; }
said=$(go test -count=1 ./scripts/report -run "^TestPagesAreCurrent\$/.*/^$1\$" -rewrite -folder "$folder") ||
    { echo "$said" >&2; exit 1; }
echo "$folder/$1.md"
