#!/usr/bin/env bash
# Prices the plans that are chosen on devices of many machines, sets them beside all that can be requested and beside
# the bound, and writes docs/lab/plans.md. Nothing is measured but the time of planning.
#
#   scripts/plans.sh         some members of each family of machines: 20 minutes on two cores
#   scripts/plans.sh --all   all members: hours
set -euo pipefail
cd "$(dirname "$0")/.."

all=
case ${1:-} in
'') ;;
--all) all=-all-models ;;
*) echo "usage: scripts/plans.sh [--all]" >&2; exit 64 ;;
esac

table=$(mktemp)
trap 'rm -f "$table"' EXIT
go test -count=1 -timeout 12h ./collective/planner -run '^TestDefaultIsBest$' -best-table "$table" $all
page=docs/lab/plans.md
head=$(sed '/^## By family/,$d' "$page")
{ printf '%s\n\n' "$head"; cat "$table"; } > "$page"
echo "$page"
