#!/usr/bin/env bash
# Measures what --trace costs, and an observer of the program, by the size of an AllReduce: jobs without and with them in
# turns. A line has the bytes, the median time of a call without them in microseconds, and how much longer calls take
# with each, in percent: the median over the repetitions, each beside the one without.
#
#   scripts/trace-cost.sh    about 3 minutes
#
# Environment:
#   RANKS=2 SIZES="8 4096 32768 262144 1048576 16777216" REPEAT=15 SECONDS_PER_SIZE=0.3
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=${CGO_ENABLED:-1} go build -o "$work" ./cmd/treerun ./scripts/tracecost
ranks=${RANKS:-2} sizes=${SIZES:-8 4096 32768 262144 1048576 16777216} seconds=${SECONDS_PER_SIZE:-0.3}

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
        function middle(list, n,   i, j, t) {
            for (i = 2; i <= n; i++) for (j = i; j > 1 && list[j] < list[j-1]; j--) { t = list[j]; list[j] = list[j-1]; list[j-1] = t }
            return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
        }
        $3 == size { us[$1, $2] = $4; if ($1 > last) last = $1 }
        END {
            for (r = 0; r <= last; r++) {
                base[r + 1] = us[r, "none"]
                trace[r + 1] = 100 * (us[r, "trace"] / us[r, "none"] - 1)
                observer[r + 1] = 100 * (us[r, "observer"] / us[r, "none"] - 1)
            }
            printf "%10d %12.3f %+10.1f %+10.1f\n", size, middle(base, last + 1), middle(trace, last + 1), middle(observer, last + 1)
        }' "$work/rows"
done
