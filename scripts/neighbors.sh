#!/usr/bin/env bash
# Measures treerun beside busy programs on this host, in turns with the version before and with Open MPI and MPICH. It
# prints a line for each number of busy programs, of ranks, collective and size, and a last one about short jobs.
#
#   scripts/neighbors.sh COMMIT    about 20 minutes; COMMIT is the version before
#
# A cell has the median and the mean in microseconds: the first of jobs whose calls each follow a barrier, the second of
# jobs with calls back to back; each is the median over the repetitions.
#
# Environment, in addition to that of peers.sh:
#   BUSY="0 1 2 4" RANKS="2 4" SIZES="8 4K 64K 1M 16M" OPS="allreduce broadcast"
#   REPEAT=5    repetitions
#   CAP=0.2     seconds that the timed iterations of a job may take
#   JOBS=100    jobs of 20 iterations of 8 B, without a busy program
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/peers.sh
. scripts/peers.sh

[ $# = 1 ] || fail "usage: neighbors.sh COMMIT"
pids=()
# shellcheck disable=SC2154
trap 'kill "${pids[@]}" 2> /dev/null || true; git worktree remove --force "$work/before" 2> /dev/null || true; rm -rf "$work"' EXIT
export LIMIT=${LIMIT:-60}
prepare bin/mpi_perf.openmpi bin/mpi_perf.mpich bin/mpich_shim.so
now=$work/now
cp "$work/treerun" "$now"
git worktree add -q --detach "$work/before" "$1"
(cd "$work/before" && go build -o "$work/linked" ./cmd/treerun)
cp "$work/linked" "$work/old"

# one WHO NP OPTIONS...: the time of a job, - if it fails.
one() {
    local who=$1 us
    shift
    case $who in
    before) cp -f "$work/old" "$work/treerun"; who=treerun ;;
    now) cp -f "$now" "$work/treerun"; who=treerun ;;
    esac
    us=$(rows "$who" "$@" 2> /dev/null | awk '{ print $3; exit }') || true
    echo "${us:--}"
}

# middle reads numbers and prints their median.
middle() { grep -v -e - | sort -g | awk '{ a[NR] = $1 } END { print NR ? a[int((NR + 1) / 2)] : "-" }'; }

# calls SIZE: more calls than fit the time.
calls() { case $1 in *M) echo 500 ;; *K) echo 5000 ;; *) echo 50000 ;; esac; }

impls="before now openmpi mpich"
echo "busy ranks collective bytes load, then median and mean of: $impls"
for busy in ${BUSY:-0 1 2 4}; do
    pids=()
    for ((i = 0; i < busy; i++)); do
        (while :; do :; done) &
        pids+=($!)
    done
    for np in ${RANKS:-2 4}; do
        for op in ${OPS:-allreduce broadcast}; do
            for size in ${SIZES:-8 4K 64K 1M 16M}; do
                rm -f "$work"/us.*
                for ((rep = 0; rep < ${REPEAT:-5}; rep++)); do
                    for who in $impls; do
                        for mode in barrier stream; do
                            one "$who" "$np" -o "$op" -b "$size" -e "$size" -n "$(calls "$size")" -T "${CAP:-0.2}" -m $mode \
                                >> "$work/us.$who.$mode"
                        done
                    done
                done
                line="$busy $np $op $size $(cut -d' ' -f1 /proc/loadavg)"
                for who in $impls; do
                    line+="  $(middle < "$work/us.$who.barrier") $(middle < "$work/us.$who.stream")"
                done
                echo "$line"
            done
        done
    done
    kill "${pids[@]}" 2> /dev/null || true
done

echo "jobs of 20 iterations of 8 B on 2 ranks: median, largest, and those above 2 us"
for who in before now; do
    for ((i = 0; i < ${JOBS:-100}; i++)); do one $who 2 -b 8 -e 8 -n 20; done | grep -v -e - | sort -g |
        awk -v who=$who '{ a[NR] = $1; n += $1 > 2 } END { print who, NR, a[int((NR + 1) / 2)], a[NR], n + 0 }'
done
