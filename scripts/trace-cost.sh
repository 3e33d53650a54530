#!/usr/bin/env bash
# Measures the cost of --trace, of an observer of the program, and of readers of --metrics that flood, stop and are
# killed, by the size of an AllReduce: jobs without and with them in turns. A line has the bytes, the time of a call
# without them in microseconds, and how much longer calls take with each, in percent. Each time is that of the fastest
# pass in all repetitions: other programs make passes slower, not faster. The readers are other programs, too.
#
#   scripts/trace-cost.sh    about 2 minutes
#
# Environment:
#   RANKS=2 PORT=19191 SIZES="8 4096 32768 262144 1048576 4194304" REPEAT=15 SECONDS_PER_SIZE=0.3
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
reader=
trap '[ -z "$reader" ] || kill "$reader"; rm -rf "$work"' EXIT
CGO_ENABLED=${CGO_ENABLED:-1} go build -o "$work" ./cmd/treerun ./scripts/measure
ranks=${RANKS:-2} sizes=${SIZES:-8 4096 32768 262144 1048576 4194304} seconds=${SECONDS_PER_SIZE:-0.3}

# job VARIANT: one line per size.
job() {
    local flags=() args=()
    case $1 in
    trace) flags=(--trace "$work/a.pftrace") ;;
    observer) args=(observe) ;;
    readers)
        flags=(--metrics "127.0.0.1:${PORT:-19191}")
        "$work/measure" readers "127.0.0.1:${PORT:-19191}" &
        reader=$! ;;
    esac
    # shellcheck disable=SC2086
    "$work/treerun" -np "$ranks" --tag-output=false "${flags[@]}" "$work/measure" trace "${args[@]}" "$seconds" $sizes
    if [ -n "$reader" ]; then
        kill "$reader"
        wait "$reader" 2> /dev/null || true
        reader=
    fi
}

for ((rep = 0; rep < ${REPEAT:-15}; rep++)); do
    order=(none trace observer readers)
    for ((i = 0; i < 4; i++)); do
        variant=${order[(rep + i) % 4]}
        job "$variant" > "$work/out"
        sed "s/^/$rep $variant /" "$work/out" >> "$work/rows"
    done
done
printf '%s\n' "$ranks ranks, $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), ${REPEAT:-15} repetitions"
printf '%10s %12s %10s %10s %10s\n' bytes 'us without' 'trace %' 'observer %' 'readers %'
for size in $sizes; do
    awk -v size="$size" '
        $3 == size && (!($2 in best) || $4 < best[$2]) { best[$2] = $4 }
        function more(what) { return 100 * (best[what] / best["none"] - 1) }
        END { printf "%10d %12.3f %+10.1f %+10.1f %+10.1f\n", size, best["none"], more("trace"), more("observer"),
              more("readers") }' "$work/rows"
done
