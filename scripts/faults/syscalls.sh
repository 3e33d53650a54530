#!/usr/bin/env bash
# Checks that no failed system call of launcher, agent or rank makes a job hang or panic: each call that a successful
# job makes fails once in every thread, at MOMENTS places spread over the run, in a separate job. Such a job must end in
# time: with 0 and correct contents, or with an error message.
#
#   scripts/faults/syscalls.sh [launcher|agent|rank0|rank1|far]...
#
# far is a rank that has another one on another host, as under agents. CALLS="read openat" tests only these, in all
# jobs; without CALLS, SAMPLE=N runs about N jobs of each process (chosen by SEED). ERROR=EPERM uses that error in place
# of a usual one. Needs strace 5.3 or later, and Go to build. Prints a table; exits with 1 if a job has hung, panicked,
# printed nothing or wrong contents, 2 if it cannot run. About 20 minutes for all.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v strace > /dev/null || { echo "strace is missing (apt-get install strace)" >&2; exit 2; }
moments=${MOMENTS:-6} limit=${LIMIT:-12}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${BIN:-}" ]; then cp "$BIN/treerun" "$BIN/sweep" "$work/"; else
    go build -buildvcs=false -o "$work/" ./cmd/treerun ./scripts/faults/testdata/sweep
fi

# Without these calls no Go program runs; the runtime ends it with its own message, or loops. strace does not make a
# call that it lets fail.
declare -A without=(
    [futex]="locks of the Go runtime" [exit_group]="the end" [exit]="the end of a thread" [rt_sigreturn]="returns from a signal"
    [execve]="starts the process itself" [arch_prctl]="starts the process itself" [rt_sigaction]="signals of the Go runtime"
    [rt_sigprocmask]="signals of the Go runtime" [sigaltstack]="signals of the Go runtime" [clone]="threads of the Go runtime"
    [clone3]="threads of the Go runtime" [set_robust_list]="threads of the C library" [rseq]="threads of the C library"
    [set_tid_address]="threads of the C library" [brk]="memory of the C library" [mprotect]="memory of the C library"
    [close]="leaves the descriptor open, as a failed close of Linux does not: Go's fork then waits for the end of a pipe"
    [epoll_pwait]="the Go runtime's poller" [restart_syscall]="the kernel's own" [getpid]="cannot fail" [getppid]="cannot fail"
    [gettid]="cannot fail" [getuid]="cannot fail" [geteuid]="cannot fail" [getgid]="cannot fail" [getegid]="cannot fail"
)

# The usual error of a call.
errno() {
    case $1 in
    open* | pipe* | socket | socketpair | eventfd* | epoll_create* | dup* | accept*) echo EMFILE ;;
    read* | write* | pread* | pwrite* | getdents* | lseek | fsync) echo EIO ;;
    sendto | sendmsg) echo ENOBUFS ;;
    mmap | munmap | madvise | memfd_create | fallocate | epoll_ctl | poll | ppoll | mremap) echo ENOMEM ;;
    recv*) echo ENOMEM ;;
    connect) echo ETIMEDOUT ;;
    wait*) echo ECHILD ;;
    newfstatat | fstat | statx) echo EACCES ;;
    *) echo EPERM ;;
    esac
}

# job PROCESS STRACE-OPTIONS... runs a job in which one process runs under strace.
job() {
    local who=$1 launcher=() agent=() program=("$work/sweep")
    shift
    local trace=(strace -D -f -qq "$@")
    case $who in
    launcher) launcher=("${trace[@]}" -b execve) ;;
    agent) agent=("${trace[@]}" -b execve) ;;
    *) program=(sh -c 'n=$1; shift; if [ "$RANK" = "$n" ]; then exec "$@"; fi; shift '$((${#trace[@]}))'; exec "$@"'
        - "${who//[a-z]/}" "${trace[@]}" "$work/sweep") ;;
    esac
    case $who in
    agent) hosts=(-H a:1,b:1 --launch-agent "env FAKEHOST={host} sh -c 'exec ${agent[*]} \"\$@\"' -") ;;
    far*) hosts=(-H a:1,b:1 --launch-agent "env FAKEHOST={host} sh -c 'exec \"\$@\"' -") ;;
    *) hosts=(-np 2) ;;
    esac
    SECONDS=0
    timeout -k 5 $((limit + 10)) "${launcher[@]}" "$work/treerun" "${hosts[@]}" --timeout "$limit" \
        "${program[@]}" < /dev/null > "$work/out" 2>&1
}

# judge CODE prints the result of a job that has ended after $SECONDS. go is a fatal error of the Go runtime: no
# descriptor for its poller, no memory, no thread.
judge() {
    if grep -qE '^(\[[0-9]+\] )?(panic:|fatal error: |SIG[A-Z]+: |goroutine [0-9]+ .*\[)' "$work/out"; then
        if grep -qE '(runtime: |fatal error: (pageAlloc|runtime|bad|failed|out of memory|runtime\.|needm|newosproc|pthread))' "$work/out"; then echo go; else echo PANIC; fi
    elif [ "$SECONDS" -ge "$limit" ]; then
        echo HANG
    elif [ "$1" = 139 ] && [ ! -s "$work/out" ]; then
        echo go # the C library's loader
    elif [ "$1" = 0 ]; then
        if [ "$(grep -c 'is right$' "$work/out")" = 2 ]; then echo right; else echo WRONG; fi
    elif grep -qE '(treerun: |rank [0-9]+: )' "$work/out"; then
        echo error
    else
        echo MUTE
    fi
}

# most PROCESS prints each call of a successful job and its count in the thread that makes it most often.
most() {
    rm -f "$work/log"
    job "$1" -o "$work/log" || { cat "$work/out" >&2; echo "a good job has failed under strace" >&2; exit 2; }
    for _ in {1..50}; do grep -q 'exited with' "$work/log" && break; sleep 0.1; done
    awk '{ sub(/^\[pid +/, ""); if (match($0, /[a-z_0-9]+\(/)) { name = substr($0, RSTART, RLENGTH - 1)
            if ($2 ~ ("^" name "\\(") && ++n[$1 " " name] > most[name]) most[name] = n[$1 " " name] } }
        END { for (name in most) print name, most[name] }' "$work/log" | sort
}

bad=0
declare -A left
for list in "${@:-launcher agent rank0 rank1 far1}"; do for who in $list; do
    [ "$who" = far ] && who=far1
    table=$(most "$who")
    [ "$(wc -l <<< "$table")" -ge 10 ] || { echo "strace has seen too few calls of $who" >&2; exit 2; }
    all=$(awk -v m="$moments" '{ n += $2 < m ? $2 : m } END { print n }' <<< "$table")
    printf '%s\n' "$who: $(wc -l <<< "$table") calls"
    for call in ${CALLS:-}; do grep -q "^$call " <<< "$table" || echo "  $call: a good job makes none"; done
    while read -r call times <&3; do
        if [ -n "${CALLS:-}" ] && ! grep -qwF -- "$call" <<< "$CALLS"; then continue; fi
        if [ -n "${without[$call]:-}" ]; then left[$call]=1; continue; fi
        e=${ERROR:-$(errno "$call")}
        # Go's fork reads its child's error from a pipe, and waits for the end of a child that it takes for failed.
        case "$who $call" in "launcher read" | "agent read") e=EINTR ;; esac
        row=()
        for ((i = 0, before = 0; i < moments; i++)); do
            n=$((1 + i * (times - 1) / (moments - 1)))
            [ $n -gt $before ] || continue
            before=$n
            [ -z "${SAMPLE:-}" ] || [ -n "${CALLS:-}" ] || [ $((16#$(md5sum <<< "${SEED:-1} $who $call $n" | cut -c1-6) % all)) -lt "$SAMPLE" ] || continue
            code=0
            job "$who" -o /dev/null -e trace="$call" -e inject="$call:error=$e:when=$n" || code=$?
            got=$(judge $code)
            row+=("$n:$got")
            case $got in [A-Z]*)
                bad=$((bad + 1))
                printf '  --- %s: %s of %s fails (%s), call %d of a thread: %s, exit code %d\n' "$got" "$call" "$who" "$e" "$n" "$got" $code
                head -c 6000 "$work/out" | sed 's/^/      /' | head -25 ;;
            esac
        done
        [ ${#row[@]} = 0 ] || printf '  %-20s %-13s %s\n' "$call" "$e" "${row[*]}"
    done 3<<< "$table"
done; done
for call in "${!left[@]}"; do echo "left out: $call (${without[$call]})"; done | sort
echo "$bad jobs hung, panicked, or ended without a word or with wrong contents"
[ $bad = 0 ]
