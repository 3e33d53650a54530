#!/usr/bin/env bash
# Measures steps of a training whose gradients are added up in buckets as they become ready, beside one AllReduce after
# the backward pass, and prints the rows of docs/lab/buckets.md: 2 and 4 ranks on this host and, as root with a peer kit
# (see peers.sh), on 4 hosts of one rank, which are network namespaces that it makes and removes.
#
#   scripts/buckets.sh    about 3 minutes on two quiet cores
#
# A row has, in milliseconds: the AllReduce of all gradients alone; the backward pass alone, which takes as long; the
# longer of both, which is the ideal; both with one AllReduce at the end; and with buckets of each size, where the
# gradients lie in one array, and where each has its own. In a pass of "sleep" the core is free, as while a rank waits
# for its GPU, and in one of "compute" it is busy. Each number is the median over the jobs.
#
# Environment:
#   PEERS=DIR         the peer kit (default ../shared/peers)
#   RANKS="2 4"       on this host; none: ""
#   HOSTS=4           with one rank each; 0: none
#   RATE=1gbit        of the cards of the hosts
#   BYTES=64M HOST_BYTES=16M    of all gradients, on this host and on hosts
#   LAYERS=32 BUCKETS="1M 2M 4M 25M"
#   REPEAT=3 HOST_REPEAT=1 ITERATIONS=5
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/peers.sh
. scripts/peers.sh
export LIMIT=${LIMIT:-200} HOSTS_PREFIX=${HOSTS_PREFIX:-buckets}
hosts=${HOSTS:-4} up=no
[ ! -d "$peers" ] || peers=$(cd "$peers" && pwd)

cleaned() {
    # shellcheck disable=SC2154
    [ $up = no ] || "$peers/hosts.sh" down > /dev/null
    rm -rf "$work"
}
trap cleaned EXIT
for f in ./cmd/treerun ./scripts/measure; do
    installed "$f"
done
buckets=()
for size in ${BUCKETS:-1M 2M 4M 25M}; do buckets+=("$(numfmt --from=iec "$size")"); done

# row NAME REPEAT BYTES COMMAND...: runs the jobs, whose command begins like this, and prints a row for each kind of pass.
row() {
    local name=$1 repeat=$2 bytes how rep
    bytes=$(numfmt --from=iec "$3")
    shift 3
    for how in sleep compute; do
        rm -f "$work/times"
        for ((rep = 0; rep < repeat; rep++)); do
            timeout "$LIMIT" "$@" --tag-output=false "$work/measure" buckets "$bytes" "${ITERATIONS:-5}" $how "${LAYERS:-32}" \
                "${buckets[@]}" 2>> "$work/errors" >> "$work/times" || { tail -3 "$work/errors" >&2; fail "$name: a job failed"; }
        done
        tr -d '[]' < "$work/times" | awk -v name="$name, $how" -v load="$(cut -d' ' -f1 /proc/loadavg)" '
            { for (i = 1; i <= NF; i++) all[i, NR] = $i }
            function median(i,    n, k, m, low) { # of column i
                for (n = 1; n <= NR; n++) {
                    low = 0
                    for (k = 1; k <= NR; k++) low += all[i, k] < all[i, n] || all[i, k] == all[i, n] && k < n
                    if (low == int((NR - 1) / 2)) m = all[i, n]
                }
                return m / 1000
            }
            END {
                line = sprintf("| %s | %s | %.1f | %.1f | %.1f | %.1f |", name, load, median(1), median(2),
                    median(1) > median(2) ? median(1) : median(2), median(3))
                for (i = 4; i < NF; i += 2) line = line sprintf(" %.1f, %.1f |", median(i), median(i + 1))
                print line
            }'
    done
}

head="| ranks, pass | load | AllReduce | pass | ideal | one at the end |" rule="|---|---|---|---|---|---|"
for size in ${BUCKETS:-1M 2M 4M 25M}; do head+=" buckets of ${size%?} ${size: -1}iB |" rule+="---|"; done
echo "$head"
echo "$rule"
for np in ${RANKS-2 4}; do row "$np" "${REPEAT:-3}" "${BYTES:-64M}" "$work/treerun" -np "$np"; done
if [ "$hosts" -gt 0 ] && [ "$(id -u)" = 0 ] && [ -x "$peers/hosts.sh" ]; then
    "$peers/hosts.sh" up "$hosts" "${RATE:-1gbit}" > /dev/null
    up=yes list=""
    for ((i = 0; i < hosts; i++)); do list+=${list:+,}$HOSTS_PREFIX$i; done
    row "$hosts on $hosts hosts" "${HOST_REPEAT:-1}" "${HOST_BYTES:-16M}" "$peers/hosts.sh" exec "${HOSTS_PREFIX}0" \
        "$work/treerun" -H "$list" --launch-agent "$peers/hosts.sh exec {host}"
fi
