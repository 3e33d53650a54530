#!/usr/bin/env bash
# Checks that errors outside treerun are reported with their remedy: wrappers that close descriptors, limits of the
# shell, files that this machine does not run, a closed stdout, ignored signals, seconds without a unit. Prints a line
# for each, and exits with 1 if one is wrong.
#
#   scripts/faults/hints.sh
#
# Needs Python for its wrapper. The part about vm.memfd_noexec needs root and Linux 6.3, and is left out without.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/treerun" ./cmd/treerun && go build -o "$work/flood" ./scripts/faults/testdata/flood || exit 2
cd "$work" || exit 2
failed=0
check() { # NAME CODE TEXT COMMAND...: the command exits with this code, and prints the text
    local name=$1 code=$2 text=$3 got out; shift 3
    out=$(timeout 60 "$@" 2>&1); got=$?
    if [ $got = "$code" ] && [[ $out == *"$text"* ]]; then echo "ok     $name"; return; fi
    echo "WRONG  $name: code $got, want $code with \"$text\":"; sed 's/^/       /' <<< "$out" | head -n 12; failed=1
}
rank="./flood rank 1"
wrapper='import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]%s).returncode)'
check "Python's subprocess" 1 "close_fds=False or pass_fds=(3, 4)" ./treerun -np 2 python3 -c "${wrapper/\%s/}" $rank
check "the same with close_fds=False" 0 "calls" ./treerun -np 2 python3 -c "${wrapper/\%s/, close_fds=False}" ./flood rank 2
check "a shell that closes 3" 1 "a wrapper between treerun" ./treerun -np 2 bash -c "exec 3>&-; $rank"
check "ulimit -f" 1 "ulimit -f unlimited" bash -c "ulimit -f 1; ./treerun -np 2 $rank"
check "ulimit -t" 137 "limit is 1 s for each process (ulimit -t" bash -c "ulimit -t 1; ./treerun -np 2 sh -c 'while :; do :; done'"
: > nothing; printf '\177ELF\2\2\1\0\0\0\0\0\0\0\0\0\0\2\0\025 and no more' > foreign; chmod +x nothing foreign
check "an empty file" 126 "the file is empty" ./treerun -np 2 ./nothing
check "an executable for another machine" 126 "is an executable for PPC64" ./treerun -np 2 ./foreign
check "a closed stdout" 125 "stdout is closed" bash -c './treerun -np 2 echo >&-'
check "a full device" 125 "no space left" bash -c './treerun -np 2 echo > /dev/full'
check "SIGINT behind &" 0 "done" bash -c "trap '' INT; ./treerun -np 1 sh -c 'echo ready; sleep 2; echo done' & sleep 1; kill -INT \$!; wait \$!"
umask 077; od -An -tx1 -N32 /dev/urandom | tr -d " \n" > key
check "seconds without a unit" 0 "calls" bash -c 'export TREERUN_START_TIMEOUT=12 TREERUN_KEY_FILE=key WORLD_SIZE=2
    export TREERUN_SEED=127.0.0.1:27946; RANK=1 ./flood rank 2 & RANK=0 ./flood rank 2 && wait $!'
no='echo 2 > /proc/sys/vm/memfd_noexec'
if unshare -pf --mount-proc sh -c "$no" 2> /dev/null; then
    check "--push with vm.memfd_noexec=2" 0 "runs" unshare -pf --mount-proc sh -c \
        "$no; ./treerun -H a:1,b:1 --push --launch-agent 'env H={host}' /bin/echo runs"
fi
exit $failed
