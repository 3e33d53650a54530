#!/usr/bin/env bash
# Measures what --trace costs, and an observer of the program, by the size of an AllReduce: jobs without and with them in
# turns. A line has the bytes, the time of a call without them in microseconds, and how much longer calls take with each,
# in percent. Each time is that of the fastest pass in all repetitions: other programs make passes slower, not faster.
#
#   scripts/trace-cost.sh    about 2 minutes
#
# Environment:
#   RANKS=2 SIZES="8 4096 32768 262144 1048576 4194304" REPEAT=15 SECONDS_PER_SIZE=0.3
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=${CGO_ENABLED:-1} go build -o "$work" ./cmd/treerun ./scripts/tracecost
ranks=${RANKS:-2} sizes=${SIZES:-8 4096 32768 262144 1048576 4194304} seconds=${SECONDS_PER_SIZE:-0.3}

# job VARIANT: one line per size.
job() {
    local flags=() args=()
    case $1 in
    trace) flags=(--trace "$work/a.pftrace") ;;
    observer) args=(observe) ;;
    esac
    # shellcheck disable=SC2086
    "$work/treerun" -np "$ranks" --tag-output=false "${flags[@]}" "$work/tracecost" "${args[@]}" "$seconds" $sizes
}

for ((rep = 0; rep < ${REPEAT:-15}; rep++)); do
    order=(none trace observer)
    for ((i = 0; i < 3; i++)); do
        variant=${order[(rep + i) % 3]}
        job "$variant" | sed "s/^/$rep $variant /" >> "$work/rows"
    done
done
printf '%s\n' "$ranks ranks, $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), ${REPEAT:-15} repetitions"
printf '%10s %12s %10s %10s\n' bytes 'us without' 'trace %' 'observer %'
for size in $sizes; do
    awk -v size="$size" '
        $3 == size && (!($2 in best) || $4 < best[$2]) { best[$2] = $4 }
        END { printf "%10d %12.3f %+10.1f %+10.1f\n", size, best["none"], 100 * (best["trace"] / best["none"] - 1),
              100 * (best["observer"] / best["none"] - 1) }' "$work/rows"
done
