#!/usr/bin/env bash
# Compares treerun with Open MPI, MPICH and Gloo on several hosts, which are network namespaces that this script makes
# and removes, and writes the page docs/lab/several-hosts.md with its plot. As root, on Linux.
#
#   scripts/several-hosts.sh          measure, then write the page: about 10 minutes on two quiet cores
#   scripts/several-hosts.sh quick    one repetition of few sizes into a new folder: to test this script
#   scripts/several-hosts.sh page     write the page again from the record
#
# If interrupted after the first repetition, it writes the complete repetitions.
#
# The record is several-hosts.jsonl next to the page: a line per row, and lines about the machine. scripts/report does
# the work, and scripts/page.sh makes the page.
#
# Environment:
#   PEERS=DIR           the peer kit (see peers.sh); PEERS= measures treerun alone
#   REPEAT=5            repetitions; the median counts
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
    scripts/page.sh several-hosts "${OUT:-docs/lab}"
    exit ;;
quick)
    more=(-quick -repeat 1)
    OUT=${OUT:-$(mktemp -d)} ;;
*) fail "usage: several-hosts.sh [quick | page]" ;;
esac
[ -z "${REPEAT:-}" ] || more+=(-repeat "$REPEAT")
if [ $alone = no ]; then
    prepare bin/mpi_perf.openmpi bin/mpi_perf.mpich bin/mpi_null.openmpi bin/mpi_null.mpich bin/mpich_shim.so bin/gloo_perf
    more+=(-peers "$peers")
fi
for f in ./cmd/treerun ./examples/hello ./scripts/report; do
    installed "$f"
done
mkdir -p "${OUT:-docs/lab}"
version="$(git rev-parse --short HEAD)$(git diff --quiet HEAD -- ':!docs' || echo ' with changes')"
"$work/report" several-hosts -treerun "$work/treerun" -program "$work/hello" -about "$version" "${more[@]}" "${OUT:-docs/lab}"
scripts/page.sh several-hosts "${OUT:-docs/lab}"
