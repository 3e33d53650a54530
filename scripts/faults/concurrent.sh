#!/usr/bin/env bash
# Checks that goroutines of a rank that each use their own communicator are not slower concurrently than in turn.
#
#   scripts/faults/concurrent.sh             2, 4 and 8 ranks with 2 to 16 communicators: about a minute on two quiet cores
#   scripts/faults/concurrent.sh "2 8" "4"   these ranks, these communicators
#
# Each job makes CALLS AllReduces of 4 to 64 KB on each communicator: one communicator after the other (in turn), one
# call on each after the other (in rotation), and all at once, ROUNDS times, and prints the medians. In rotation one
# goroutine pays as much as at once for data that is not in the caches. The table has, for the usual GOMAXPROCS and for
# one, the median of REPEAT jobs of at once / in turn. A ratio above MOST fails. On a busy machine REPEAT=5 or more
# helps.
#
# Needs go. Environment: REPEAT=3, ROUNDS=9, CALLS=50, MOST=1.3.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/treerun" ./cmd/treerun
go build -o "$work/concurrent" ./scripts/faults/testdata/concurrent

# job RANKS COMMUNICATORS: milliseconds in turn, in rotation and at once, and the ratio of last to first.
job() { "$work/treerun" -np "$1" --tag-output=false "$work/concurrent" "$2" "${ROUNDS:-9}" "${CALLS:-50}" 2>"$work/err" ||
    { cat "$work/err" >&2; return 1; }; }

# median RANKS COMMUNICATORS: the job with the median ratio of several.
median() {
    local repeat=${REPEAT:-3} i
    for ((i = 0; i < repeat; i++)); do job "$@"; done | sort -k4,4n | sed -n "$(((repeat + 1) / 2))p"
}

slow=0
printf '%-22s %44s %32s\n' 'ranks x communicators' 'in turn, in rotation, at once (ms), ratio' 'with GOMAXPROCS=1'
for ranks in ${1:-2 4 8}; do
    for comms in ${2:-2 4 8 16}; do
        all=$(median "$ranks" "$comms")
        one=$(GOMAXPROCS=1 median "$ranks" "$comms")
        printf '%-22s %44s %32s\n' "$ranks x $comms" "$all" "$one"
        for ratio in "${all##* }" "${one##* }"; do
            awk -v r="$ratio" -v most="${MOST:-1.3}" 'BEGIN { exit !(r == "" || r > most) }' && slow=$((slow + 1))
        done
    done
done
if ((slow > 0)); then
    echo "$slow of the ratios are above ${MOST:-1.3}" >&2
    exit 1
fi
