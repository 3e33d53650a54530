#!/usr/bin/env bash
# Kills two or three ranks, or all of a host, at one moment, in 500 jobs over two to four hosts (network namespaces):
# ranks 0 and 1, 1 and 0, the first ranks of two hosts, a whole host with and without its agent, three ranks with
# rank 0 among them, any others; started by treerun on the host of rank 0, by treerun elsewhere, and without treerun;
# ranks that SIGTERM ends and ranks that ignore it. Contents are compared until the failure.
#
#   scripts/faults/two-kills.sh
#
# KILLS (default 500) is the number of jobs, SEED (default 1) chooses them. It exits with 1 if a survivor has no typed
# error, if survivors name different ranks, if contents are wrong, if anything is left, or if the 99th percentile of the
# time to the error, from the kill or from the beginning of a call that a rank makes after it, is over LIMIT seconds
# (default 0.2, for a quiet host; 0: any). It needs root and iproute2, and takes about a second per job.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TREERUN_KILLS=${KILLS:-500} TREERUN_KILL_SEED=${SEED:-1} TREERUN_REQUIRE=netns
go test -count=1 -timeout 2h -v -run '^TestKillTogether$' ./cmd/treerun > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep 's after the kills' "$work/log"
p99=$(sed -nE 's/.* p99 ([0-9.]+),.*/\1/p' "$work/log")
awk -v p99="$p99" -v limit="${LIMIT:-0.2}" 'BEGIN { if (limit > 0 && p99 > limit) {
    print "the 99th percentile is over " limit " s: is the host quiet?"; exit 1 } }' || { cat "$work/log"; exit 1; }
