#!/usr/bin/env bash
# Compares sparse AllReduce with treerun's own dense one, Open MPI and MPICH, on several hosts, which are network
# namespaces that this script makes and removes, and on one, and writes the page docs/lab/sparse.md. As root, on
# Linux.
#
#   scripts/sparse.sh          measure all, then write the page: about 3 minutes a repetition on two quiet cores
#   scripts/sparse.sh quick    small tensors into a new folder: to test this script
#   scripts/sparse.sh page     write the page again from the record
#
# The record is sparse.jsonl next to the page, a line per row. scripts/report does the work, and scripts/page.sh makes
# the page.
#
# Environment:
#   PEERS=DIR           the peer kit (see peers.sh); PEERS= measures treerun alone
#   OUT=docs/lab    where to write (quick: a new temporary folder)
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-full}
alone=no
[ -n "${PEERS-unset}" ] || alone=yes
# shellcheck source=scripts/peers.sh
. scripts/peers.sh
trap 'rm -rf "$work"' EXIT

more=()
case $mode in
full) ;;
page)
    scripts/page.sh sparse "${OUT:-docs/lab}"
    exit ;;
quick)
    more=(-quick -repeat 1)
    OUT=${OUT:-$(mktemp -d)} ;;
*) fail "usage: sparse.sh [quick | page]" ;;
esac
[ -z "${REPEAT:-}" ] || more+=(-repeat "$REPEAT")
if [ $alone = no ]; then
    prepare bin/mpi_perf.openmpi bin/mpi_perf.mpich bin/mpich_shim.so
    more+=(-peers "$peers")
fi
for f in ./cmd/treerun ./scripts/report; do
    installed "$f"
done
mkdir -p "${OUT:-docs/lab}"
version="$(git rev-parse --short HEAD)$(git diff --quiet HEAD -- ':!docs' || echo ' with changes')"
"$work/report" sparse -treerun "$work/treerun" -about "$version" "${more[@]}" "${OUT:-docs/lab}"
scripts/page.sh sparse "${OUT:-docs/lab}"
