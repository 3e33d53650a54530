#!/usr/bin/env bash
# Runs jobs that continue after failures, sends their processes signals at random times, and prints a table: the jobs,
# the faults that reached a process, and the jobs that hung, returned a wrong content, left a process or ended with an
# error; then the time from a fault to the last error, and to the next sum of the slowest rank.
#
#   scripts/chaos.sh [SEED]    about 15 minutes on two cores
#
# As root it also runs jobs on two hosts, network namespaces of this machine.
#
# Environment, in addition to PEERS (see peers.sh), which has the script that makes namespaces:
#   TRIALS=300     jobs on this host
#   KILLS=100      jobs whose launcher is killed
#   HOSTS=100      jobs on two hosts, whose agents are killed as well; 0: none
#   SIZES="2 3 4 8 16"    ranks on this host
#   KEEP=DIR       where the output of jobs that did wrong goes
set -euo pipefail
cd "$(dirname "$0")/.."
peers=${PEERS-../shared/peers} seed=${1:-1} up=no
work=$(mktemp -d)
export HOSTS_PREFIX=${HOSTS_PREFIX:-chaos}

cleaned() {
    [ $up = no ] || "$peers/hosts.sh" down > /dev/null
    rm -rf "$work"
}
trap cleaned EXIT

go build -o "$work/treerun" ./cmd/treerun
go build -o "$work/chaos" ./scripts/chaos
keep=${KEEP:-$work/keep}
mkdir -p "$keep"
bad=0
run() { "$work/chaos" -keep "$keep" -seed "$seed" -treerun "$work/treerun" "$@" || bad=1; }

echo "load $(cut -d' ' -f1 /proc/loadavg), one host:"
run -trials "${TRIALS:-300}" -sizes "${SIZES:-2 3 4 8 16}" -faults "kill kill stop exit panic segv guard"
echo "the launcher is killed:"
run -trials "${KILLS:-100}" -faults launcher
if [ "$(id -u)" = 0 ] && [ -x "$peers/hosts.sh" ] && [ "${HOSTS:-100}" != 0 ]; then
    up=yes
    "$peers/hosts.sh" up 2 500mbit > /dev/null
    enter=$(realpath "$peers/hosts.sh")
    echo "two hosts:"
    run -trials "${HOSTS:-100}" -sizes 4 -policies "shrink respawn" -faults "kill stop exit segv agent guard" \
        "$enter" exec "${HOSTS_PREFIX}0" "$work/treerun" -H "${HOSTS_PREFIX}0:2,${HOSTS_PREFIX}1:2" \
        --launch-agent "$enter exec {host}" --peer-timeout 3
fi
exit $bad
