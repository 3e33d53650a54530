#!/usr/bin/env bash
# Checks the handling of messages that arrive before their receives, and the errors for messages that do not match.
# 10,000 messages to a rank that is in a Barrier, 16 of 60 KiB from all to all before any receives, and a StartRecv of a
# shorter one work; errors name a rank that computes while another waits for any, a message with another tag, and -1 as
# a rank. Exits with 1 if not.
#
#   scripts/faults/messages.sh     about 20 seconds
#
# Needs Linux and Go.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"
go build -o "$work/" ./cmd/treerun ./scripts/faults/testdata/messages

works() { # ranks, exchange
    timeout 60 "$work/treerun" -np "$1" --stall-timeout 20 "$work/messages" "${@:2}"
    echo "works: $1 ranks, ${*:2}"
}
fails() { # ranks, exchange, text of the error, text that it must not have
    if timeout 60 "$work/treerun" -np "$1" --stall-timeout 3 "$work/messages" "$2" >"$work/out" 2>&1; then
        echo "$2: ended with 0" >&2
        exit 1
    fi
    if ! grep -qE -- "$3" "$work/out" || grep -qF -- "$4" "$work/out"; then
        echo "$2: want \"$3\" and not \"$4\":" >&2
        cat "$work/out" >&2
        exit 1
    fi
    echo "named: $2"
}
works 2 many 9
works 2 many 10000
works 4 exchange
works 2 short
fails 4 farm 'rank 2(, which)? is in no call of treerun' 'a circle'
fails 2 tags '\[unreceived: 1 float64, tag 3, from rank 0\]' 'no such'
fails 3 modulo 'want 0\.\.2 or AnySource' 'no such'
