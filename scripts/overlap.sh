#!/usr/bin/env bash
# Measures how much of an AllReduce that was started takes place while its ranks sleep, as they do while they wait for a
# GPU, and what it costs a computation: treerun, Open MPI and MPICH in turns on this host.
#
#   scripts/overlap.sh    about 5 minutes
#
# A line has the ranks, the bytes and, for each implementation, the time of the call alone in microseconds, the part of it
# that a sleep of the same length hides, and how much longer a computation of the same length and the call take
# together than one after the other. Each is the median over the repetitions.
#
# Environment, in addition to that of peers.sh:
#   RANKS="2" SIZES="256K 1M 4M 16M"
#   REPEAT=5 ITERATIONS=100
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/peers.sh
. scripts/peers.sh

# shellcheck disable=SC2154
trap 'rm -rf "$work"' EXIT
export LIMIT=${LIMIT:-120}
prepare bin/mpich_shim.so
installed ./scripts/measure
for mpi in openmpi mpich; do
    "mpicc.$mpi" -O2 -o "$work/mpi_overlap.$mpi" scripts/mpi_overlap.c
done

# middle reads numbers and prints their median.
middle() { sort -g | awk '{ a[NR] = $1 } END { print NR ? a[int((NR + 1) / 2)] : "-" }'; }

impls="treerun openmpi mpich"
echo "ranks bytes load, then us alone, hidden by a sleep, cost of a computation: $impls"
for np in ${RANKS:-2}; do
    for size in ${SIZES:-256K 1M 4M 16M}; do
        rm -f "$work"/row.*
        for ((rep = 0; rep < ${REPEAT:-5}; rep++)); do
            for who in $impls; do
                program=("$work/mpi_overlap.$who")
                [ "$who" != treerun ] || program=("$work/measure" overlap)
                launch "$who" "$np" "${program[@]}" "$(numfmt --from=iec "$size")" "${ITERATIONS:-100}" 2> /dev/null |
                    sed 's/^\[0\] //' >> "$work/row.$who" || true
            done
        done
        line="$np $size $(cut -d' ' -f1 /proc/loadavg)"
        for who in $impls; do
            line+="  $(awk '{ print $1 }' "$work/row.$who" | middle)"
            line+=" $(awk '{ printf "%.0f%%\n", 100 * (1 - ($3 - $2) / $1) }' "$work/row.$who" | middle)"
            line+=" $(awk '{ printf "%+.1f%%\n", 100 * ($5 / ($1 + $4) - 1) }' "$work/row.$who" | middle)"
        done
        echo "$line"
    done
done
