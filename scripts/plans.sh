#!/usr/bin/env bash
# Prices the plans that are chosen on devices of many machines, sets them beside all that can be requested and beside
# the bound, and writes docs/lab/plans.md. Nothing is measured but the time of planning.
#
#   scripts/plans.sh         some members of each family of machines: 20 minutes on two cores
#   scripts/plans.sh --all   all members: hours
#   scripts/plans.sh --hosts COMMIT   runs plans on shaped hosts, in turns with the version of a commit, and writes
#                            docs/lab/plans-hosts.md: 35 minutes on two quiet cores, as root
set -euo pipefail
cd "$(dirname "$0")/.."

all=
case ${1:-} in
'') ;;
--all) all=-all-models ;;
--hosts)
    [ $# = 2 ] || { echo "usage: scripts/plans.sh --hosts COMMIT" >&2; exit 64; }
    work=$(mktemp -d)
    trap 'git worktree remove --force "$work/before"; rm -rf "$work"' EXIT
    git worktree add --quiet --detach "$work/before" "$2"
    before=$work/$(git rev-parse --short "$2")
    (cd "$work/before" && go build -o "$before" ./cmd/treerun)
    go build -o "$work" ./cmd/treerun ./scripts/report
    about=$(git rev-parse --short HEAD)
    "$work/report" plans-hosts -treerun "$work/treerun" -before "$before" -about "$about" docs/lab
    scripts/page.sh plans-hosts
    exit ;;
*) echo "usage: scripts/plans.sh [--all | --hosts COMMIT]" >&2; exit 64 ;;
esac

table=$(mktemp)
trap 'rm -f "$table"' EXIT
go test -count=1 -timeout 12h ./collective/planner -run '^TestDefaultIsBest$' -best-table "$table" $all
page=docs/lab/plans.md
head=$(sed '/^## By family/,$d' "$page")
{ printf '%s\n\n' "$head"; cat "$table"; } > "$page"
echo "$page"
