#!/usr/bin/env bash
# Measures a job from its start to its end: every rank joins, makes a communicator, takes part in one AllReduce of 8 B
# and leaves. It prints a line for each number of ranks on this host, and as root one for 16 hosts of 4 ranks, network
# namespaces of this machine: the load, and the median in milliseconds of each implementation, - if a job fails.
#
#   scripts/start.sh [COMMIT]    about 10 minutes on two cores; COMMIT is the version before
#
# The implementations, in turns: treerun without measurements of an earlier job, with such measurements (kept), the
# version before without, Open MPI and MPICH, where they are installed.
#
# Environment, in addition to that of peers.sh:
#   RANKS="8 64 128 256"   on this host
#   HOSTS=16 EACH=4        hosts and ranks of each; HOSTS=0: none
#   REPEAT=5               repetitions
#   LIMIT=60               seconds that a job may take
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/peers.sh
. scripts/peers.sh

[ $# -le 1 ] || fail "usage: start.sh [COMMIT]"
export LIMIT=${LIMIT:-60} HOSTS_PREFIX=${HOSTS_PREFIX:-start}
hosts=${HOSTS:-16} each=${EACH:-4} up=no
[ ! -d "$peers" ] || peers=$(cd "$peers" && pwd)

cleaned() {
    [ $up = no ] || "$peers/hosts.sh" down > /dev/null
    git worktree remove --force "$work/before" 2> /dev/null || true
    rm -rf "$work"
}
trap cleaned EXIT

cat > "$work/start.go" << 'END'
package main

import (
	"context"
	"errors"
	"log"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

func run(ctx context.Context) error {
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	x := []float64{1}
	err = collective.AllReduce(ctx, c, x, x, collective.Sum)
	if err == nil && x[0] != float64(w.Size()) {
		err = errors.New("wrong sum")
	}
	return errors.Join(err, c.Close())
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
END
cat > "$work/start.c" << 'END'
#include <mpi.h>
int main(int argc, char **argv) {
    double one = 1, sum = 0;
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return sum != size;
}
END

# built FOLDER NAME: treerun.NAME and start.NAME in $work, of the version in FOLDER, as installed ones.
built() {
    (cd "$1" && go build -o "$work/linked" ./cmd/treerun && cp "$work/linked" "$work/treerun.$2" &&
        go build -o "$work/linked" "$work/start.go" && cp "$work/linked" "$work/start.$2")
    rm "$work/linked"
}

impls="treerun kept"
built . now
if [ $# = 1 ]; then
    git worktree add -q --detach "$work/before" "$1"
    built "$work/before" before
    impls+=" before"
fi
for mpi in openmpi mpich; do
    command -v "mpirun.$mpi" > /dev/null || continue
    "mpicc.$mpi" -O2 "$work/start.c" -o "$work/start.$mpi" 2>> "$work/errors" || continue
    impls+=" $mpi"
done
# MPICH never yields: see peers.sh.
shim=()
[ ! -f "$peers/bin/mpich_shim.so" ] || shim=(-env LD_PRELOAD "$peers/bin/mpich_shim.so")

# command_of IMPL NP LIST: sets job to the command that runs NP ranks, on this host or on the hosts of LIST, each of
# which has a number of ranks.
command_of() {
    local first=() agent=()
    [ -z "$3" ] || first=("$peers/hosts.sh" exec "${HOSTS_PREFIX}0")
    case $1 in
    treerun | kept | before)
        agent=(-np "$2")
        [ -z "$3" ] || agent=(-H "$3" --launch-agent "$peers/hosts.sh exec {host}")
        job=("$work/treerun.$version" "${agent[@]}" "$work/start.$version") ;;
    openmpi)
        [ -z "$3" ] || agent=(--host "$3" --leave-session-attached --mca plm_rsh_agent "$peers/ns_agent.sh"
            --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0)
        agent+=(--allow-run-as-root --oversubscribe --bind-to none)
        job=(mpirun.openmpi "${agent[@]}" -np "$2" "$work/start.openmpi") ;;
    mpich)
        [ -z "$3" ] || agent=(-launcher ssh -launcher-exec "$peers/ns_agent.sh" -iface eth0 -hosts "$3"
            -env UCX_NET_DEVICES eth0)
        job=(mpirun.mpich -np "$2" "${agent[@]}" "${shim[@]}" "$work/start.mpich") ;;
    esac
    job=("${first[@]}" "${job[@]}")
}

# took IMPL NP LIST: the time of a job in milliseconds, - if it fails.
took() {
    local version=now begin job=()
    case $1 in
    before) version=before; rm -rf "$XDG_CACHE_HOME" ;;
    treerun) rm -rf "$XDG_CACHE_HOME" ;;
    esac
    command_of "$@"
    begin=${EPOCHREALTIME/[.,]/}
    if timeout "$LIMIT" "${job[@]}" < /dev/null > /dev/null 2>> "$work/errors"; then
        echo $(((${EPOCHREALTIME/[.,]/} - begin + 500) / 1000))
    else
        echo "${job[*]} failed" >> "$work/errors"
        echo -
    fi
}

# middle reads times and prints their median, - if a job has failed.
middle() { sort -g | awk '{ a[NR] = $1; bad += $1 == "-" } END { print bad ? "-" : a[int((NR + 1) / 2)] }'; }

# row NAME NP LIST: a line of the table.
row() {
    local impl rep line
    rm -f "$work"/ms.*
    for ((rep = 0; rep < ${REPEAT:-5}; rep++)); do
        for impl in $impls; do took "$impl" "$2" "$3" >> "$work/ms.$impl"; done
    done
    line="| $1 | $(cut -d' ' -f1 /proc/loadavg) |"
    for impl in $impls; do
        line+=" $(middle < "$work/ms.$impl") |"
    done
    echo "$line"
}

echo "| ranks | load | ${impls// / | } |"
for np in ${RANKS:-8 64 128 256}; do row "$np" "$np" ""; done
if [ "$hosts" -gt 0 ] && [ "$(id -u)" = 0 ] && [ -x "$peers/hosts.sh" ]; then
    "$peers/hosts.sh" up "$hosts" > /dev/null
    up=yes list=""
    for ((i = 0; i < hosts; i++)); do list+=${list:+,}$HOSTS_PREFIX$i:$each; done
    row "$hosts hosts of $each" $((hosts * each)) "$list"
fi
[ ! -s "$work/errors" ] || grep -a failed "$work/errors" | cut -c1-200 | sort | uniq -c >&2
