#!/usr/bin/env bash
# Runs a command and reports whether it left anything behind.
#
#   scripts/leftovers.sh treerun -np 8 ./examples/hello
#
# Compared before and after: processes (living or zombie), files in TMPDIR and /dev/shm, bound unix sockets (path and
# abstract), listening TCP ports, bound UDP ports, and memfds. A descendant is recognized by a mark in its environment
# or by its session, so it is found regardless of its parent; a socket, file or memfd that another program has open in
# the meantime is not counted.
#
# Exit code: that of the command; 1 if something was left, with a list on stderr; 2 for wrong usage. Processes may take
# GRACE seconds to end (default 1). The command runs in its own session, with an empty TMPDIR.
set -euo pipefail

[ $# -gt 0 ] || { echo "usage: [GRACE=SECONDS] scripts/leftovers.sh COMMAND [ARGS...]" >&2; exit 2; }
grace=${GRACE:-1}
work=$(mktemp -d)
chmod 711 "$work" # tests run programs as other users
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"
mark="LEFTOVERS_MARK=$$.$(basename "$work")"

# Processes of the command: those that carry the mark or belong to its session (a zombie has only the session). In stat
# the name is in parentheses and may contain any characters; the session is the 4th field after it.
ours() {
    {
        grep -lszxF -- "$mark" /proc/[0-9]*/environ || true
        sed -n -E "s,^([0-9]+) .*\) [A-Za-z] -?[0-9]+ -?[0-9]+ $session .*,/proc/\1/stat,p" /proc/[0-9]*/stat || true
    } 2>/dev/null | cut -d/ -f3 | sort -u
}

# One line per item that could be left: KIND NAME [DETAIL]; the detail of a socket is its inode, the name of a memfd its
# holder's /proc/PID/fd.
snapshot() {
    find /dev/shm -mindepth 1 -printf 'file %p\n' 2>/dev/null || true
    awk 'FNR > 1 && NF > 7 { print "unix-socket", $8, $7 }' /proc/net/unix 2>/dev/null || true
    awk 'FNR > 1 && $4 == "0A" { print "tcp-port", $2, $10 }' /proc/net/tcp /proc/net/tcp6 2>/dev/null || true
    awk 'FNR > 1 { print "udp-port", $2, $10 }' /proc/net/udp /proc/net/udp6 2>/dev/null || true
    find /proc/[0-9]*/fd -maxdepth 1 -lname '/memfd:*' -printf 'memfd %h %l\n' 2>/dev/null || true
}

holder() { # of an open file or socket: /proc/PID/fd/N
    find /proc/[0-9]*/fd -maxdepth 1 -lname "$1" -print -quit 2>/dev/null || true
}

# Reports whether the new line of a snapshot is the command's, and not another process's.
belongs() {
    local kind=$1 name=$2 where=${3:-} owner
    case $kind in
    memfd) owner=$name ;;
    file) owner=$(holder "$name") ;;
    *) owner=$(holder "socket:\\[$where\\]") ;;
    esac
    [ -n "$owner" ] || return 0
    owner=${owner#/proc/}
    grep -qsxF -- "${owner%%/*}" "$work/ours"
}

leftovers() {
    local pid kind name where
    ours > "$work/ours"
    while read -r pid; do
        echo "process $pid: $(tr '\0' ' ' < "/proc/$pid/cmdline" 2>/dev/null || true)$(sed -n 's/^State:/state/p' "/proc/$pid/status" 2>/dev/null || true)"
    done < "$work/ours"
    find "$work/tmp" -mindepth 1 -printf 'file TMPDIR/%P\n'
    snapshot | sort > "$work/after"
    comm -13 "$work/before" "$work/after" | while read -r kind name where; do
        if belongs "$kind" "$name" "$where"; then echo "$kind $name $where"; fi
    done
}

snapshot | sort > "$work/before"

# A new session, whose number is the pid of the command.
child=
trap '[ -z "$child" ] || kill -TERM "$child" 2>/dev/null || true' INT TERM
TMPDIR=$work/tmp env "$mark" setsid "$@" <&0 &
child=$!
session=$child
code=0
while :; do # again if a signal to this process ended the wait early
    code=0
    { wait "$child" || code=$?; } 2>/dev/null
    kill -0 "$child" 2>/dev/null || break
done

deadline=$((${EPOCHREALTIME/[.,]/} + $(awk -v s="$grace" 'BEGIN { printf "%d", s * 1e6 }')))
while leftovers > "$work/list"; [ -s "$work/list" ]; do
    if [ "${EPOCHREALTIME/[.,]/}" -ge "$deadline" ]; then
        echo "leftovers.sh: left behind by: $*" >&2
        sed 's/^/  /' "$work/list" >&2
        exit 1
    fi
    sleep 0.02
done
exit "$code"
