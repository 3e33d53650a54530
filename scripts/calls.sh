#!/usr/bin/env bash
# Measures every collective and every kind of message, back to back, from 8 B to 1 MiB: treerun, Open MPI and MPICH in
# turns, and writes the page docs/lab/calls.md.
#
#   scripts/calls.sh          measure, then write the page: about 2 hours on two quiet cores
#   scripts/calls.sh quick    one repetition of short passes into a new folder: to test this script
#   scripts/calls.sh page     write the page again from the record
#
# If interrupted after the first repetition, it writes the complete repetitions. The record is calls.jsonl next to the
# page. scripts/report does the work, and scripts/page.sh makes the page.
#
# Environment, in addition to PEERS (see peers.sh):
#   SETS="1x2 1x4 2x2 1x2+1 1x4+1 2x2+1"    HOSTSxRANKS, with +BUSY for programs beside them; without root one host only
#   CALLS="..."         the calls by name, e.g. "scan exscan split" (default: all)
#   MIN_SECONDS=0.25    of five passes
#   REPEAT=5            repetitions
#   OUT=docs/lab        where to write (quick: a new temporary folder)
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-full} sets="1x2 1x4 1x2+1 1x4+1" seconds=${MIN_SECONDS:-0.25} repeat=${REPEAT:-5}
# shellcheck source=scripts/peers.sh
. scripts/peers.sh
trap 'rm -rf "$work"' EXIT
case $mode in
full) ;;
page)
    scripts/page.sh calls "${OUT:-docs/lab}"
    exit ;;
quick)
    seconds=${MIN_SECONDS:-0.005} repeat=${REPEAT:-1}
    OUT=${OUT:-$(mktemp -d)} ;;
*) fail "usage: calls.sh [quick | page]" ;;
esac
out=${OUT:-docs/lab}
[ "$(id -u)" != 0 ] || sets="1x2 1x4 2x2 1x2+1 1x4+1 2x2+1"
prepare bin/mpich_shim.so
installed ./scripts/measure
installed ./scripts/report
mkdir -p "$out" "$work/kit/bin"
cp "$peers/bin/mpich_shim.so" "$work/kit/bin"
for mpi in openmpi mpich; do
    "mpicc.$mpi" -O2 -o "$work/kit/bin/mpi_calls.$mpi" scripts/mpi_calls.c 2> "$work/stderr" ||
        { cat "$work/stderr" >&2; fail "cannot compile mpi_calls.c with mpicc.$mpi"; }
done
version="$(git rev-parse --short HEAD)$(git diff --quiet HEAD -- ':!docs' || echo ' with changes')"
"$work/report" calls -treerun "$work/treerun" -program "$work/measure" -peers "$work/kit" -about "$version" \
    -repeat "$repeat" -sets "${SETS:-$sets}" -args "$seconds${CALLS:+ $CALLS}" "$out"
scripts/page.sh calls "$out"
