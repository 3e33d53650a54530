#!/usr/bin/env bash
# Runs jobs that continue after failures, brings about faults at random times, and writes the page docs/lab/recovery.md:
# the times from a fault to the errors and to the next sum, and the jobs that hung, returned a wrong content, left
# something, or ended with an error.
#
#   scripts/chaos.sh [SEED]    about an hour on two cores; as root, for memory groups and network namespaces
#   scripts/chaos.sh page      writes the page again from the record
#
# The record is recovery.jsonl next to the page. scripts/chaos does the work; its page has what the parts are.
#
# Environment:
#   SHARE=1        of the jobs: 0.1 runs a tenth
#   PARTS="..."    names of parts (default: all)
#   BEFORE=COMMIT  an earlier version: compares a job without failures
#   PEERS=DIR      the peers' kit, with bin/fault.treerun, TRIXIE_ROOT and TORCH_ROOT: see its README
#   OUT=docs/lab   where to write
#   KEEP=DIR       where the output of jobs that did wrong goes
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-docs/lab}
if [ "${1:-}" = page ]; then
    scripts/page.sh recovery "$out"
    exit
fi
seed=${1:-1000} bad=0
work=$(mktemp -d)
keep=${KEEP:-$work/keep} record=$work/record
mkdir -p "$keep"
cleaned() {
    git worktree remove --force "$work/before" 2> /dev/null || true
    rm -rf "$work"
}
trap cleaned EXIT
go build -o "$work/treerun" ./cmd/treerun
go build -o "$work/chaos" ./scripts/chaos
go build -o "$work/train" ./examples/train

# part NAME JOBS FLAGS...: each part has seeds of its own.
part() {
    local name=$1 jobs=$2
    shift 2
    seed=$((seed + 1000))
    [[ " ${PARTS:-$name} " = *" $name "* ]] || return 0
    jobs=$(awk -v n="$jobs" -v share="${SHARE:-1}" 'BEGIN { n *= share; print n < 1 ? 1 : int(n) }')
    "$work/chaos" -part "$name" -trials "$jobs" -seed "$seed" -treerun "$work/treerun" -record "$record" \
        -keep "$keep" "$@" || bad=1
}

fact() { printf '{"fact":"%s","value":"%s"}\n' "$1" "$2" >> "$record"; }
fact begun "$(date -u '+%Y-%m-%d %H:%M UTC'), load $(cut -d' ' -f1 /proc/loadavg)"
fact machine "$(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
fact kernel "Linux $(uname -r)"
fact treerun "$(git rev-parse --short HEAD), $(go env GOVERSION)"
fact seeds "of each part from $((seed + 1000)) on, in steps of 1000"

part one-host 700 -sizes "2 3 4 8 16" -faults "kill kill stop exit panic segv oom guard"
part tcp 150 -place tcp -sizes "4 8 16" -faults "kill stop exit panic segv oom agent guard"
part hosts 120 -place hosts -sizes "4 8 16" -faults "kill stop exit segv agent host guard"
part network 120 -place nodes -sizes "4 8" -faults "cut one-way half-open slow host"
part launcher 200 -faults launcher
part resize 50 -sizes "2 3 4" -policies "respawn shrink" -faults grow
part spare 50 -place hosts -spares 1 -sizes "3 6" -policies respawn -faults host
part epochs 1 -endure "$(awk -v share="${SHARE:-1}" 'BEGIN { print int(1000 * share) }')"

# A training of 1012 steps with 20 kills has the losses of one without, bit for bit.
if [[ " ${PARTS:-train} " = *" train "* ]]; then
    kills=$(for i in {1..20}; do echo "$((50 * i)):$((i % 4))"; done | paste -sd' ')
    "$work/treerun" -np 4 "$work/train" --elastic --epochs 44 --loss-log "$work/without" > /dev/null
    TRAIN_KILL=$kills "$work/treerun" -np 4 --on-failure respawn --max-restarts 20 "$work/train" --elastic --epochs 44 \
        --loss-log "$work/with" > "$work/train.out" 2>&1
    differ=$(diff "$work/without" "$work/with" | grep -c '^>') || true
    killed=$(grep -c 'is killed after' "$work/train.out") || true
    fact "examples/train --elastic" "$(wc -l < "$work/with") steps, $killed kills, $differ losses that differ"
    [ "$differ" = 0 ] || bad=1
fi

# A job without failures, in turns with the version before: the smallest one from start to end, and calls.
if [ -n "${BEFORE:-}" ]; then
    git worktree add --detach "$work/before" "$BEFORE" > /dev/null
    row() {
        printf '{"part":"healthy","who":"%s","rep":%d,"collective":"%s","np":4,"time_us":%s}\n' "$who" "$rep" "$@"
    }
    TIMEFORMAT='%R %U %S'
    for who in before now; do
        folder=. && [ $who = now ] || folder=$work/before
        go build -C "$folder" -o "$work/treerun.$who" ./cmd/treerun
        go build -C "$folder" -o "$work/hello.$who" ./examples/hello
    done
    for rep in {1..60}; do
        for who in before now; do
            { time "$work/treerun.$who" -np 4 "$work/hello.$who" > "$work/hello.out" 2>&1; } 2> "$work/time"
            read -r real user system < "$work/time"
            row job "${real}e6" >> "$record"
            row "processor time of a job" "$(awk "BEGIN { print 1e6 * ($user + $system) }")" >> "$record"
            "$work/treerun.$who" bench -np 2 --collective allreduce -b 8 -e 1M -f 128 --json "$work/rows" \
                > /dev/null 2>&1
            sed "s/^{/{\"part\":\"healthy\",\"who\":\"$who\",\"rep\":$rep,/" "$work/rows" >> "$record"
        done
    done
fi

# A rank of Open MPI with ULFM and of torchrun is killed, and stopped.
if [ -d "${PEERS:-}" ]; then
    for _ in {1..10}; do
        for tool in ulfm ulfm-spawn ulfm-stop torchrun treerun; do
            python3 "$PEERS/recover.py" die "$tool" -np 4 -n 1 -j "$work/peers" > /dev/null 2>&1 || true
        done
    done
    python3 - "$work/peers" >> "$record" << 'END'
import json, sys
for i, line in enumerate(open(sys.argv[1])):
    r = json.loads(line)
    print(json.dumps({"part": "peers", "who": r["tool"], "np": r["np"], "rep": i + 1, "collective": "kill",
                      "time_us": r.get("sum") or r.get("first", 0), "loss": {"faults": 1, "error_us": r.get("error", 0),
                      "verdict": "hangs" if r["rc"] is None else "", "load": r["load"]}}))
END
fi

cp "$record" "$out/recovery.jsonl"
scripts/page.sh recovery "$out"
exit $bad
