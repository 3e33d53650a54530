#!/usr/bin/env bash
# Runs the tests of device calls and of kernels on the GPUs of this machine, one or
# more with NVIDIA's driver, and measures them; no CUDA toolkit is needed. A page in
# Markdown says how each step went. Exit code 1 when something was wrong.
#
#   scripts/gpu-check.sh [--page FILE] [STEP...]
#
# FILE is gpu-check.md where none is named. STEPs are those of the list below; all
# without. Each takes STEP_TIME=100 seconds at most.
#
# A machine without Go takes what another one of its kind has built, in a folder which
# it needs beside this script:
#
#   scripts/gpu-check.sh --pack DIR                      # here
#   scripts/gpu-check.sh --programs DIR [--page FILE]    # there
#
# It runs on a fake host as well, which is how it is tested, and then the page says
# that nothing was measured:
#
#   scripts/fake-gpu.sh --graph dgx1v -- scripts/gpu-check.sh
# shellcheck disable=SC2086 # ranks are several flags
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
steps=(check kernels rates driver calls order sparse killed bench latency train sanitizer)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

page=gpu-check.md pack='' programs='' chosen=()
while [ $# -gt 0 ]; do
    case $1 in
    --page | --pack | --programs)
        [ $# -ge 2 ] || { echo "$1 needs a name" >&2; exit 64; }
        printf -v "${1#--}" %s "$2"
        shift 2 ;;
    *)
        [[ " ${steps[*]} " == *" $1 "* ]] || { echo "no step $1, want some of ${steps[*]}" >&2; exit 64; }
        chosen+=("$1"); shift ;;
    esac
done

# build DIR builds the programs into a folder: without what debuggers need, they are
# half as large.
build() {
    command -v go > /dev/null || { echo "there is no go here: see --pack in $0" >&2; exit 125; }
    mkdir -p "$1"
    local to
    to=$(cd "$1" && pwd)
    (cd "$root" && export CGO_ENABLED=1 &&
        go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$to/" ./cmd/treerun ./examples/train &&
        go test -c -trimpath -ldflags '-s -w' -o "$to/" ./cuda ./cuda/kernels ./collective ./collective/sparse)
}

if [ -n "$pack" ]; then
    build "$pack"
    exit 0
fi
[ -n "$programs" ] || { programs=$work/programs; build "$programs"; }
programs=$(cd "$programs" && pwd)
export TREERUN_TEST_GPU=real TREERUN_TEST_COMMAND=$programs/treerun TMPDIR=$work

# Containers have the driver's libraries where the loader does not look, now and then.
if ! ldconfig -p 2> /dev/null | grep -q 'libcuda\.so\.1'; then
    for dir in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib64-nvidia /usr/lib/wsl/lib; do
        [ ! -e "$dir/libcuda.so.1" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dir"
    done
fi
# Something else than a GPU may be wrong with the machine: the check then ends with code 1.
gpus=$({ "$programs/treerun" check || true; } | grep -c '^ok *gpu ') ||
    { echo "treerun check finds no GPU that is well" >&2; exit 1; }
ranks="-np $gpus"
[ "$gpus" -gt 1 ] || ranks='-np 2 --gpus 0 --ranks-per-gpu 2'

# tests PROGRAM PATTERN [FLAGS...] runs tests that a machine with one GPU can run.
tests() { "$programs/$1.test" -test.run "$2" -test.count 1 "${@:3}"; }

check() { "$programs/treerun" check || [ $? = 1 ]; } # what it thinks of the machine is not wrong
kernels() { tests kernels . -test.skip ^TestPTX; } # which need the sources
rates() { tests kernels '^$' -test.bench Rates -test.benchtime 20x; }
driver() { tests cuda . -test.skip '^Test(Devices|EveryCallMayFail|Launch)$'; } # the fake host's, and the sources
calls() { tests collective '^TestDeviceCalls$/^(2|3|8)_on'; }
order() { tests collective '^Test(ManyDeviceCalls|DeviceMismatch|DeviceStops)$'; }
sparse() { tests sparse '^Test(AllReduceDevice|DeviceCallsInARow|SpecialNumbersOnDevice)$'; }
killed() { tests collective '^TestDeviceRankKilled$/^4$' -test.v; tests sparse '^TestDeviceRankKilled$' -test.v; }
bench() { "$programs/treerun" bench --device cuda $ranks -b 1K -e $large -f 16 --max-seconds 1; }
latency() { "$programs/treerun" bench --device cuda $ranks -b 8 -e 8; }
train() { # the losses on the GPU and on the host: sums have another order there
    "$programs/treerun" $ranks "$programs/train" --epochs 5 --device cuda --loss-log "$work/gpu" &&
        "$programs/treerun" -np 2 --gpu-bind none "$programs/train" --epochs 5 --loss-log "$work/host" &&
        paste "$work/gpu" "$work/host" | awk '{ off = $2 / $(NF / 2 + 2) - 1; bad += off < -.02 || off > .02; print }
            END { exit bad || NR != 5 }'
}
sanitizer() {
    local tool
    tool=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2> /dev/null | head -n 1) ||
        tool=''
    [ -n "$tool" ] || { echo "compute-sanitizer is not installed: not run"; return; }
    "$tool" --error-exitcode 9 "$programs/kernels.test" -test.run 'TestReduceNames|TestEvery16BitFloat' \
        > "$work/tool" 2>&1 ||
        grep 'Device not supported' "$work/tool" || { cat "$work/tool"; return 1; }
}

code=0
export -f tests "${steps[@]}"
large=256M
[ -z "${TREERUN_FAKE_GPU-}" ] || large=1M # it has little memory
export programs work ranks large
{
    printf '# treerun on a GPU\n\n%s, %s GPUs.' "$(date -u +%F)" "$gpus"
    cat /proc/driver/nvidia/version 2> /dev/null | sed -n 's/^NVRM version: */ /p' || true
    [ -z "${TREERUN_FAKE_GPU-}" ] || printf '\n\n**This was a fake host: its figures say nothing of a GPU.**'
    printf '\n'
} > "$work/page"
for step in "${chosen[@]:-${steps[@]}}"; do
    began=$SECONDS verdict=ok
    timeout -k 5 "${STEP_TIME:-100}" bash -euo pipefail -c "$step" > "$work/out" 2>&1 || {
        [ $? != 124 ] || echo "it hangs: no end after ${STEP_TIME:-100} s" >> "$work/out"
        verdict=FAILED code=1
    }
    printf '%-6s %4d s  %s\n' "$verdict" $((SECONDS - began)) "$step"
    [ $verdict = ok ] || cat "$work/out"
    {
        printf '\n## %s: %s, %d s\n\n```\n' "$step" "$verdict" $((SECONDS - began))
        tail -n 60 "$work/out"
        printf '```\n'
    } >> "$work/page"
done
cp "$work/page" "$page"
exit $code
