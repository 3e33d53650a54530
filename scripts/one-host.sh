#!/usr/bin/env bash
# Compares treerun with Open MPI, MPICH and Gloo on this host and writes the page docs/lab/one-host.md with its
# plots.
#
#   scripts/one-host.sh             measure, then write the page: about 12 minutes on two quiet cores
#   scripts/one-host.sh settings    measure the peers with all their settings as well, add the results to
#                                   the record, then write the page: about 8 minutes a repetition
#   scripts/one-host.sh quick       one repetition of few sizes, settings too, into a new folder: to
#                                   test this script
#   scripts/one-host.sh page        write the page again from the record
#
# The record is one-host.jsonl next to the page: a line per row, and lines about the machine. scripts/page.sh makes the
# page from it.
#
# Environment, in addition to that of peers.sh:
#   REPEAT=5            repetitions; the median counts (settings: 1)
#   OUT=docs/lab    where to write (quick: a new temporary folder)
#   CAP=0.03            seconds that a row's timed iterations may take; at least 3 are timed
#
# Implementations are interleaved, and every repetition begins with a different one. Every element of one more call is
# compared in the first repetition. A job that fails is run once more, then noted on the page.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/peers.sh
. scripts/peers.sh

mode=${1:-full}
export LIMIT=${LIMIT:-120}
ranks="2 4 8"
sweep=(-b 8 -e 256M -f 4 -x)  # 8 B, 32 B, ..., 128 MiB, 256 MiB
others=(8:8 4K:16M)           # 8 B; 4 KiB, 256 KiB, 16 MiB
flight=(150 64K)
repeat=${REPEAT:-5}
cap=${CAP:-0.03}
out=${OUT:-docs/lab}
case $mode in
full | page) ;;
settings) repeat=${REPEAT:-1} ;;
quick)
    ranks="2 4" sweep=(-b 8 -e 2M -f 64) others=(8:8 256K:256K) repeat=${REPEAT:-1} cap=${CAP:-0.02}
    out=${OUT:-$(mktemp -d)} ;;
*) fail "usage: one-host.sh [settings | quick | page]" ;;
esac
mkdir -p "$out"
record=$out/one-host.jsonl
rows=$work/record

# An unfinished measurement leaves the earlier record unchanged.
trap 'rm -rf "$work"' EXIT
if [ "$mode" = page ]; then
    scripts/page.sh one-host "$out"
    exit
fi

# about NAME VALUE: a line about the machine or the run.
about() { printf '{"fact":"%s","value":"%s"}\n' "$1" "${2//[\"\\]/}" >> "$rows"; }

# busy prints the CPU seconds that this machine has spent, steal included, since it started, and ours those in
# $work/times, of the finished jobs of this script. The builtin times has them in the main shell only.
busy() { awk -v hz="$(getconf CLK_TCK)" '$1 == "cpu" { print ($2 + $3 + $4 + $7 + $8 + $9) / hz; exit }' /proc/stat; }
ours() { awk '{ for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += 60 * t[1] + t[2] } } END { print sum }' "$work/times"; }

# watched COMMAND...: runs it with its output in $work/rows, twice if it fails. Sets $away to the number of cores that
# others used in the meantime: other processes, and other guests of the machine.
watched() {
    local begin ours0 busy0 ours1 ok=no _
    ours0=$(cat "$work/ours" 2> /dev/null || echo 0)
    for _ in 1 2; do
        begin=$EPOCHREALTIME busy0=$(busy)
        if "$@" > "$work/rows" && [ -s "$work/rows" ]; then ok=yes; fi
        times > "$work/times"
        ours1=$(ours)
        away=$(awk -v b="$(busy)" -v b0="$busy0" -v o="$ours1" -v o0="$ours0" -v t="$EPOCHREALTIME" -v t0="$begin" \
            'BEGIN { x = ((b - b0) - (o - o0)) / (t - t0); printf "%.2f", (x > 0 ? x : 0) }')
        echo "$ours1" > "$work/ours"
        ours0=$ours1
        [ $ok = no ] || return 0
    done
    about failed "$*"
    return 1
}

# note PART NP IMPL: adds the rows of $work/rows to the record. Wrong elements end the script. A value other than a time
# in microseconds is a figure: GB/s, milliseconds of a start, KiB of memory.
note() {
    local op bytes us wrong share plan unit=time_us
    case $1 in membw | start | memory) unit=figure ;; esac
    while read -r op bytes us wrong share plan; do
        [[ $wrong =~ ^(0|-|N/A)$ ]] || fail "$3 -np $2: $wrong wrong elements in $op of $bytes bytes"
        share=${share#-} plan=${plan#-}
        printf '{"part":"%s","who":"%s","collective":"%s","np":%s,"bytes":%s,"rep":%s,"%s":%s,"away":%s%s%s}\n' "$1" "$3" "$op" "$2" \
            "$bytes" "$rep" $unit "$us" "$away" "${plan:+,\"plan\":\"$plan\"}" "${share:+,\"limit_share\":$share}" >> "$rows"
    done < "$work/rows"
}

# turn NAMES...: the names in this repetition's order.
turn() {
    local i k=$#
    for ((i = 0; i < k; i++)); do
        set -- "$@" "${@:1 + (rep - 1 + i) % k:1}"
    done
    shift "$k"
    echo "$@"
}

# measure PART NP IMPLS OPTIONS...: one repetition with each implementation.
measure() {
    local part=$1 np=$2 impls=$3 impl
    shift 3
    # shellcheck disable=SC2046,SC2086
    for impl in $(turn $impls); do
        if watched rows "$impl" "$np" -T "$cap" "$@" $check; then note "$part" "$np" "$impl"; fi
    done
}

# more IMPL NP OPS CALLS OPTIONS...: rows of mpi_more, or of treerun bench.
more() {
    local impl=$1 np=$2 ops=$3 calls=$4
    shift 4
    case $impl in
    treerun) bench "$np" -o "$ops" "$@" ;;
    *) launch "$impl" "$np" "$work/mpi_more.$impl" "$ops" "$calls" "$@" | figures ;;
    esac
}

# sizes of all AllReduces and Broadcasts.
measure_sweep() {
    local np op
    for np in $ranks; do
        for op in allreduce broadcast; do
            measure sweep "$np" "treerun treerun-alloc openmpi mpich gloo" -o $op "${sweep[@]}" -n 1000
        done
    done
}

# measure_small: the latencies, one by one from a barrier and back to back.
measure_small() {
    local np
    for np in $ranks; do
        measure latency "$np" "treerun openmpi mpich" -o allreduce,barrier -b 8 -e 8 -n 5000
        measure stream "$np" "treerun openmpi mpich" -o allreduce,barrier -b 8 -e 8 -n 5000 -m stream
    done
}

# measure_others: the other collectives.
measure_others() {
    local np size impl
    for np in $ranks; do
        for size in "${others[@]}"; do
            measure others "$np" "treerun openmpi mpich" -o reduce,allgather,reducescatter,alltoall -b "${size%:*}" -e "${size#*:}" -f 64 -n 500
            for impl in $(turn treerun openmpi mpich); do
                # shellcheck disable=SC2086
                if watched more "$impl" "$np" gather,scatter,sendrecv 1 -T "$cap" -b "${size%:*}" -e "${size#*:}" -f 64 -n 500 $check; then
                    note others "$np" "$impl"
                fi
            done
        done
    done
}

# measure_flight: many AllReduces at once, and one after the other. For the MPIs serial is a batch with separate buffers
# for every call, for treerun the mean of calls back to back times their number.
measure_flight() {
    local np impl calls=${flight[0]} size=${flight[1]}
    for np in $ranks; do
        for impl in $(turn treerun openmpi mpich); do
            case $impl in
            treerun) set -- flight "$np" "$calls" "$size" ;;
            *) set -- more "$impl" "$np" inflight,serial "$calls" -T 0.1 -b "$size" -e "$size" -n 50 ;;
            esac
            if watched "$@"; then note flight "$np" "$impl"; fi
        done
    done
}

# flight NP CALLS SIZE: treerun's rows of measure_flight.
flight() {
    bench "$1" -m stream -T 0.1 -b "$3" -e "$3" -n "$((50 * $2))" |
        awk -v calls="$2" '{ $1 = "serial"; $3 *= calls; print }' || return 1
    bench "$1" --inflight "$2" -T 0.1 -b "$3" -e "$3" -n 50 | sed 's/^allreduce/inflight/'
}

# measure_machine: the bandwidth of memory, and a job from start to finish.
measure_machine() {
    local impl
    if watched "$peers/bin/membw" -j; then
        sed -n 's/.*"kind":"\([^"]*\)","bytes":\([0-9]*\),"gbs_1":\([0-9.]*\),"gbs_2":\([0-9.]*\).*/\1 \2 \4 - - -/p' "$work/rows" > "$work/membw"
        mv "$work/membw" "$work/rows"
        note membw 2 machine
    fi
    for impl in $(turn treerun openmpi mpich); do
        if watched start "$impl" 8; then note start 8 "$impl"; fi
    done
}

start() { echo "start 0 $(empty "$1" "$2") - - -"; }

# measure_memory: the KiB that a communicator shares, while it runs AllReduces of 8 B and of 64 MiB.
measure_memory() {
    local np size
    for np in $ranks; do
        for size in 8 64M; do
            if watched shared "$np" "$size"; then note memory "$np" treerun; fi
        done
    done
}

# shared NP SIZE: the maximum size in KiB of the memory file of a running job of treerun bench.
shared() {
    local launcher pid map kib most=0
    "$work/treerun" bench -np "$1" -b "$2" -e "$2" -i 1000000 --max-seconds 1 --in-place=no -c 0 --json /dev/null > /dev/null 2> "$work/stderr" < /dev/null &
    launcher=$!
    while kill -0 "$launcher" 2> /dev/null; do
        for pid in $(cat "/proc/$launcher/task/"*/children 2> /dev/null); do
            map=$(awk '/memfd:treerun-/ { print $1; exit }' "/proc/$pid/maps" 2> /dev/null) || continue
            kib=$(stat -Lc '%b %B' "/proc/$pid/map_files/${map:-none}" 2> /dev/null | awk '{ print $1 * $2 / 1024 }')
            most=$(awk -v a="$most" -v b="${kib:-0}" 'BEGIN { print (a > b ? a : b) }')
        done
        sleep 0.05
    done
    wait "$launcher" || { cat "$work/stderr" >&2; return 1; }
    [ "$most" = 0 ] || echo "memory $(numfmt --from=iec "$2") $most - - -"
}

# measure_settings: the peers with every setting of the kit.
measure_settings() {
    local np
    for np in $ranks; do
        measure settings "$np" "treerun openmpi:nocma openmpi:bigsm openmpi:collsm mpich:nolocal" -o broadcast "${sweep[@]}" -n 1000
        measure settings "$np" "treerun openmpi:nocma openmpi:bigsm openmpi:collsm mpich:nolocal openmpi:redbcast openmpi:recdbl openmpi:ring openmpi:segring openmpi:rabenseifner gloo:hd gloo:bcube gloo:ring_chunked" \
            -o allreduce "${sweep[@]}" -n 1000
    done
}

# describe: the machine and the versions, for the page.
describe() {
    about begun "$(date -u '+%F %H:%M UTC')"
    about machine "$cores cores, $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1), $(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)"
    about kernel "$(uname -sr)"
    about versions "treerun $(git rev-parse --short HEAD)$(git diff --quiet HEAD -- ':!docs' || echo ' with changes'), $(go version | cut -d' ' -f3), Open MPI $(mpirun.openmpi --version | sed -n '1s/.* //p'), MPICH $(mpirun.mpich --version | sed -n 's/.*Version: *//p'), Gloo"
    about repetitions "$repeat, at most $cap s of timed iterations a row"
}

prepare bin/mpi_perf.openmpi bin/mpi_perf.mpich bin/mpi_null.openmpi bin/mpi_null.mpich bin/mpich_shim.so bin/gloo_perf bin/membw
for impl in openmpi mpich; do
    "mpicc.$impl" -O2 -I "$peers" scripts/mpi_more.c -o "$work/mpi_more.$impl" -lm 2> "$work/stderr" || { cat "$work/stderr" >&2; fail "cannot compile mpi_more.c with mpicc.$impl"; }
done

if [ "$mode" = settings ]; then
    [ -f "$record" ] || fail "no $record to add to: first run one-host.sh without settings"
    grep -v -e '"part":"settings"' -e '"fact":"settings' "$record" > "$rows"
    about settings "$(date -u '+%F %H:%M UTC'), $repeat repetitions"
else
    describe
fi
for ((rep = 1; rep <= repeat; rep++)); do
    begin=$SECONDS load=$(cut -d' ' -f1-3 /proc/loadavg) check="-c 0"
    [ $rep -gt 1 ] || check=""
    if [ "$mode" = settings ]; then
        measure_settings
    else
        measure_machine
        measure_small
        measure_flight
        measure_others
        measure_sweep
        [ "$mode" != quick ] || measure_settings
    fi
    about "$mode repetition" "$rep: load before $load, $((SECONDS - begin)) s"
    echo "repetition $rep of $repeat: $((SECONDS - begin)) s, load before it $load" >&2
done
if [ "$mode" != settings ]; then
    rep=1
    measure_memory
fi
mv "$rows" "$record"
scripts/page.sh one-host "$out"
