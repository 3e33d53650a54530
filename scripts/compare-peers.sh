#!/usr/bin/env bash
# treerun beside Open MPI and MPICH on this host: the same method, interleaved,
# medians, as a markdown table.
#
#   scripts/compare-peers.sh                 start of an empty job (np=8), 8-byte AllReduce
#                                            (np=2), 1 MiB AllReduce (np=2, 4)
#   scripts/compare-peers.sh sweep           all sizes from 8 B to 64 MiB at np=2, 4, 8
#
# Environment:
#   PEERS=DIR       the peer kit: mpi_perf.c, mpi_null.c, mpich_shim.c, a Makefile and, when
#                   built, bin/ (default ../shared/peers); built in a temporary copy when bin/ is missing
#   REPEAT=5        runs of each; the median counts
#   PERF_ARGS=...   more options for both sides, in the words of mpi_perf, e.g. "-T 0.5 -t int32"
#   OPENMPI_ARGS=... MPICH_ARGS=...  more options for mpirun.openmpi, mpirun.mpich
#
# MPICH never yields: with more ranks than cores it runs with mpich_shim.so,
# which adds a sched_yield to its progress loop. Open MPI runs with
# --oversubscribe --bind-to none, with which it yields where it must.
set -euo pipefail
cd "$(dirname "$0")/.."

peers=${PEERS:-../shared/peers}
repeat=${REPEAT:-5}
cores=$(nproc)
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"

fail() { echo "compare-peers.sh: $*" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

prepare() {
    local f
    [ -f "$peers/mpi_perf.c" ] || fail "no peer kit in $peers (set PEERS)"
    peers=$(cd "$peers" && pwd)
    if [ ! -x "$peers/bin/mpi_perf.openmpi" ] || [ ! -x "$peers/bin/mpi_perf.mpich" ]; then
        cp -r "$peers" "$work/peers"
        peers=$work/peers
        make -C "$peers" bin/mpi_perf.openmpi bin/mpi_perf.mpich bin/mpi_null.openmpi bin/mpi_null.mpich bin/mpich_shim.so >&2 ||
            fail "cannot build the peer kit: are Open MPI and MPICH installed?"
    fi
    for f in mpirun.openmpi mpirun.mpich; do
        command -v "$f" > /dev/null || fail "$f not found"
    done
    for f in ./cmd/treerun ./examples/hello; do
        go build -o "$work/$(basename "$f")" "$f"
    done
}

# launch IMPL NP PROGRAM [ARGS...]; of bench there are only ARGS.
launch() {
    local impl=$1 np=$2 shim=()
    shift 2
    case $impl in
    treerun)
        "$work/treerun" -np "$np" "$@" ;;
    bench)
        "$work/treerun" bench -np "$np" "$@" ;;
    openmpi)
        # shellcheck disable=SC2086
        mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -np "$np" ${OPENMPI_ARGS:-} "$@" ;;
    mpich)
        [ "$np" -le "$cores" ] || shim=(-env LD_PRELOAD "$peers/bin/mpich_shim.so")
        # shellcheck disable=SC2086
        mpirun.mpich -np "$np" "${shim[@]}" ${MPICH_ARGS:-} "$@" ;;
    esac 2> "$work/stderr" || { cat "$work/stderr" >&2; fail "$impl -np $np $* failed"; }
}

# empty IMPL NP: start to finish of a job that does nothing, in milliseconds.
empty() {
    local program begin
    case $1 in
    treerun) program=$work/hello ;;
    *) program=$peers/bin/mpi_null.$1 ;;
    esac
    begin=${EPOCHREALTIME/[.,]/}
    launch "$1" "$2" "$program" > /dev/null
    awk -v us=$((${EPOCHREALTIME/[.,]/} - begin)) 'BEGIN { printf "%.1f\n", us / 1000 }'
}

# rows IMPL NP OPTIONS...: "collective bytes microseconds wrong", a line for each
# row that IMPL's benchmark prints.
rows() {
    local impl=$1 np=$2
    shift 2
    # shellcheck disable=SC2086
    set -- "$@" ${PERF_ARGS:-}
    if [ "$impl" = treerun ]; then
        bench "$np" "$@"
    else
        launch "$impl" "$np" "$peers/bin/mpi_perf.$impl" "$@" | awk '$1 !~ /^#/ && NF == 10 { print $1, $2, $6, $10 }'
    fi
}

# bench NP OPTIONS...: rows of treerun bench, with the options of mpi_perf.
# MPI_Bcast is always in place, the others are not unless asked for.
bench() {
    local np=$1 ops=allreduce inplace=no op args=()
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        -o) ops=$2; shift ;;
        -T) args+=(--max-seconds "$2"); shift ;;
        -t) args+=(-d "$2"); shift ;;
        -m) [ "$2" != stream ] || args+=(--stream); shift ;;
        -i) inplace=yes ;;
        -[befwnc]) args+=("$1" "$2"); shift ;;
        *) fail "PERF_ARGS: treerun bench has no $1" ;;
        esac
        shift
    done
    for op in ${ops//,/ }; do
        [ "$op" != broadcast ] || inplace=yes
        launch bench "$np" --collective "$op" --in-place="$inplace" "${args[@]}" --json - |
            sed -n 's/.*"collective":"\([a-z]*\)",.*"bytes":\([0-9]*\),.*"time_us":\([0-9.e-]*\),.*"wrong":\([0-9a-z]*\),.*/\1 \2 \3 \4/p'
    done
}

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
    local np=$1 impl op bytes us wrong
    shift
    for impl in treerun openmpi mpich; do
        rows "$impl" "$np" "$@" > "$work/rows"
        [ -s "$work/rows" ] || fail "$impl -np $np $*: no rows"
        while read -r op bytes us wrong; do
            [ "$wrong" = 0 ] || fail "$impl -np $np: $wrong wrong elements in $op of $bytes bytes"
            record "$op $bytes B, np=$np, us" "$impl" "$us"
        done < "$work/rows"
    done
}

prepare
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
