#!/usr/bin/env bash
# Compares treerun with Open MPI and MPICH on this host: the same method, interleaved, medians, as a markdown table.
#
#   scripts/compare-peers.sh                 start of an empty job (np=8), 8-byte AllReduce
#                                            (np=2), 1 MiB AllReduce (np=2, 4)
#   scripts/compare-peers.sh sweep           all sizes from 8 B to 64 MiB at np=2, 4, 8
#
# REPEAT=5 runs of each; the median counts. More settings: head of peers.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/peers.sh
. scripts/peers.sh
trap 'rm -rf "$work"' EXIT
repeat=${REPEAT:-5}

# record KEY IMPL VALUE, for table.
record() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" >> "$work/values"; }

# table: one row per key in order of first appearance, the median of each.
table() {
    echo "| what | treerun | Open MPI | MPICH | treerun / better MPI |"
    echo "|---|---|---|---|---|"
    sort -t "$(printf '\t')" -k1,1 -k2,2 -k3,3g "$work/values" | awk -F '\t' -v order="$work/values" '
        { n[$1, $2]++; v[$1, $2, n[$1, $2]] = $3 }
        function median(k, i) { m = n[k, i]; return (v[k, i, int((m + 1) / 2)] + v[k, i, int((m + 2) / 2)]) / 2 }
        function figure(x) { return sprintf(x < 100 ? "%.3g" : "%.0f", x) }
        END {
            while ((getline line < order) > 0) {
                split(line, f, "\t"); k = f[1]
                if (k in done) continue
                done[k] = 1
                t = median(k, "treerun"); o = median(k, "openmpi"); p = median(k, "mpich")
                printf "| %s | %s | %s | %s | %.2f |\n", k, figure(t), figure(o), figure(p), t / (o < p ? o : p)
            }
        }'
}

# measure NP OPTIONS...: one interleaved repetition of AllReduce.
measure() {
    local np=$1 impl op bytes us wrong _
    shift
    for impl in treerun openmpi mpich; do
        rows "$impl" "$np" "$@" > "$work/rows"
        [ -s "$work/rows" ] || fail "$impl -np $np $*: no rows"
        while read -r op bytes us wrong _; do
            [[ $wrong =~ ^(0|-|N/A)$ ]] || fail "$impl -np $np: $wrong wrong elements in $op of $bytes bytes"
            record "$op $bytes B, np=$np, us" "$impl" "$us"
        done < "$work/rows"
    done
}

prepare bin/mpi_perf.openmpi bin/mpi_perf.mpich bin/mpi_null.openmpi bin/mpi_null.mpich bin/mpich_shim.so
for ((i = 0; i < repeat; i++)); do
    case ${1:-} in
    "")
        for impl in treerun openmpi mpich; do
            ms=$(empty "$impl" 8)
            record "start to finish, np=8, ms" "$impl" "$ms"
        done
        measure 2 -o allreduce -b 8 -e 8 -n 2000
        measure 2 -o allreduce -b 1M -e 1M -n 200
        measure 4 -o allreduce -b 1M -e 1M -n 200 ;;
    sweep)
        for np in 2 4 8; do measure "$np" -o allreduce,broadcast -b 8 -e 64M -f 8; done ;;
    *)
        fail "usage: compare-peers.sh [sweep]" ;;
    esac
    echo "repetition $((i + 1)) of $repeat: load $(cut -d' ' -f1 /proc/loadavg)" >&2
done
echo "$(uname -sr), $cores cores, $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1), $(go version | cut -d' ' -f3), median of $repeat"
echo
table
