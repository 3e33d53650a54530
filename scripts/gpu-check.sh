#!/usr/bin/env bash
# Tests device calls and kernels on the GPUs of this machine, one or more with NVIDIA's driver, and measures them; no
# CUDA toolkit is needed.
#
#   scripts/gpu-check.sh [--page FILE.md] [--budget SECONDS] [--limit SECONDS] [STEP...]
#
# FILE.md (default gpu-check.md) reports the result of each step, and FILE.json the same with all figures: a line of
# JSON per step. Both are written step by step. STEPs are those of the list below, the most valuable first. Each may
# take as long as the list states, or --limit; all together, without the build, --budget (540 s). Steps for which there
# was no time are listed.
#
# Exit code 1: a step failed; 64: wrong usage; 125: it cannot be built here.
#
# A machine without Go uses the programs that another one of its kind has built, in a folder next to this script:
#
#   scripts/gpu-check.sh --pack DIR                  # here
#   scripts/gpu-check.sh --programs DIR [...]        # there
#
# It also runs on a fake host, as in its tests, and then the page states that nothing was measured:
#
#   scripts/fake-gpu.sh --graph dgx1v -- scripts/gpu-check.sh
# shellcheck disable=SC2086,SC2317 # ranks are several flags; steps are called by their names
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
list=(check:5 probes:90 kernels:60 rates:30 matrix2:60 times:60 bench:60 matrix4:60 matrix8:90 killed:60 driver:60
    order:60 sparse:60 train:60 sanitizer:90)
steps=("${list[@]%:*}")

page=gpu-check.md budget=540 limit='' pack='' programs='' chosen=()
while [ $# -gt 0 ]; do
    case $1 in
    --page | --pack | --programs | --budget | --limit)
        [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 64; }
        printf -v "${1#--}" %s "$2"
        shift 2 ;;
    *)
        [[ " ${steps[*]} " == *" $1 "* ]] || { echo "no step $1, want some of ${steps[*]}" >&2; exit 64; }
        chosen+=("$1"); shift ;;
    esac
done
[[ $budget =~ ^[1-9][0-9]*$ && ${limit:-1} =~ ^[1-9][0-9]*$ ]] || { echo "--budget and --limit take seconds" >&2; exit 64; }

# build DIR builds the programs into a folder: without debugging information, they are half as large.
build() {
    command -v go > /dev/null || { echo "there is no go here: see --pack in $0" >&2; exit 125; }
    mkdir -p "$1"
    local to
    to=$(cd "$1" && pwd)
    (cd "$root" && export CGO_ENABLED=1 &&
        go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$to/" ./cmd/treerun ./examples/train &&
        go test -c -trimpath -ldflags '-s -w' -o "$to/" ./cuda ./cuda/kernels ./collective ./collective/sparse) || exit 125
}

if [ -n "$pack" ]; then
    build "$pack"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -n "$programs" ] || { programs=$work/programs; build "$programs"; }
programs=$(cd "$programs" && pwd)
export TREERUN_TEST_GPU=real TREERUN_TEST_COMMAND=$programs/treerun TMPDIR=$work
SECONDS=0

# In containers the driver's libraries are sometimes outside the loader's path.
if ! ldconfig -p 2> /dev/null | grep -q 'libcuda\.so\.1'; then
    for dir in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib64-nvidia /usr/lib/wsl/lib; do
        [ ! -e "$dir/libcuda.so.1" ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$dir"
    done
fi
timeout -k 5 60 "$programs/treerun" check > "$work/check" 2>&1 || true # its other findings are no errors
gpus=$(grep -c '^ok *gpu ' "$work/check") ||
    { cat "$work/check" >&2; echo "treerun check finds no GPU that is well" >&2; exit 1; }
ranks="-np $gpus" large=256M
[ "$gpus" -gt 1 ] || ranks='-np 2 --gpus 0 --ranks-per-gpu 2'
[ -z "${TREERUN_FAKE_GPU-}" ] || large=1M # it has little memory

# tests PROGRAM PATTERN [FLAGS...] runs tests that a machine with one GPU can run.
tests() { "$programs/$1.test" -test.run "$2" -test.count 1 -test.v "${@:3}"; }

check() { cat "$work/check"; }
probes() { tests cuda ^TestProbe; tests kernels '^TestProbe(Calls|Load|Beside)$'; }
kernels() { tests kernels . -test.skip '^Test(PTX|CompileAndCheck|NoCompiler|Probe)'; } # the sources
rates() { tests kernels '^TestProbeRates$'; }
matrix2() { tests collective '^TestDeviceCalls$/^2_on'; }
matrix4() { tests collective '^TestDeviceCalls$/^4_on'; }
matrix8() { tests collective '^TestDeviceCalls$/^8_on'; }
times() { tests collective '^TestDeviceTimes$'; }
bench() {
    "$programs/treerun" bench --device cuda $ranks -b 8 -e $large -f 8 --max-seconds 1 --json "$work/rows"
    cat "$work/rows"
}
killed() { tests collective '^TestDeviceRankKilled$/^4$'; tests sparse '^TestDeviceRankKilled$'; }
driver() { tests cuda . -test.skip '^Test(Devices|EveryCallMayFail|Launch|Probe.*)$'; } # the fake host's, and the sources
order() { tests collective '^Test(ManyDeviceCalls|ManyDeviceMessages|DeviceMismatch|DeviceMessageToItself|DeviceStops)$'; }
sparse() { tests sparse '^Test(AllReduceDevice|Compact|DeviceCallsInARow|SpecialNumbersOnDevice)$'; }
train() { # the losses on the GPU and on the host: sums have a different order there
    "$programs/treerun" $ranks "$programs/train" --epochs 5 --device cuda --loss-log "$work/gpu"
    "$programs/treerun" -np 2 --gpu-bind none "$programs/train" --epochs 5 --loss-log "$work/host"
    paste "$work/gpu" "$work/host" | awk '{ off = $2 / $(NF / 2 + 2) - 1; bad += off < -.02 || off > .02; print }
        END { exit bad || NR != 5 }'
}
sanitizer() {
    local tool
    tool=$(command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' | head -n 1) || tool=''
    [ -n "$tool" ] || { echo "compute-sanitizer is not installed: not run"; return; }
    "$tool" --error-exitcode 9 "$programs/kernels.test" -test.run '^Test(Peer|Every16BitFloat)$' > "$work/tool" 2>&1 ||
        grep 'Device not supported' "$work/tool" || { cat "$work/tool"; return 1; }
}

# figures converts the attributes of tests (testing's Attr) to JSON, and passes on rows that are already JSON.
figures() {
    grep '^{' "$work/out" || true
    sed -nE -e 's/["\\]//g' -e 's/.*=== ATTR +(\S+ \S+) /\1 /' -e T \
        -e 's/^(\S+ \S+) (-?[0-9]+(\.[0-9]+)?)( (.*))?$/{"figure":"\1","value":\2,"unit":"\5"}/p' -e t \
        -e 's/^(\S+ \S+) (.*)$/{"figure":"\1","value":"\2"}/p' "$work/out"
}

# ended ends the remaining processes of a step: all those with its folder for temporary files.
ended() {
    local round pids
    for round in {1..20}; do
        pids=$(cd /proc && TMPDIR='' grep -lsxzF "TMPDIR=$work" [0-9]*/environ) || true
        [ -n "$pids" ] || return 0
        [ "$round" = 1 ] || kill -KILL ${pids//\/environ/} 2> /dev/null || true
        sleep 0.2
    done
    echo "cannot be ended:" ${pids//\/environ/}
}

# report prints the output of a step, except figures and the names of successful tests.
report() { grep -vE '^ *(\[[0-9]+\] *)?(=== |--- PASS|PASS$|\{)' "$work/out" || true; }

# record VERDICT SECONDS records the result of a step.
record() {
    printf '%-6s %4d s  %s\n' "$1" "$2" "$step"
    figures > "$work/figures"
    printf '{"step":"%s","verdict":"%s","seconds":%d,"figures":[%s]}\n' "$step" "$1" "$2" "$(paste -sd, "$work/figures")" \
        >> "${page%.md}.json"
    {
        printf '\n## %s: %s, %d s\n\n```\n' "$step" "$1" "$2"
        sed -nE 's/^\{"figure":"([^"]*)","value":"?([^",]*)"?(,"unit":"([^"]*)")?\}$/\1 \2 \4/p' "$work/figures"
        if [ "$1" != ok ] || ! grep -q '=== ATTR' "$work/out"; then report | tail -n 60; fi
        printf '```\n'
    } >> "$page"
}

code=0 job='' stopped='' late=()
stop() { stopped=$1; [ -z "$job" ] || kill "$job" 2> /dev/null || true; }
trap 'stop 130' INT
trap 'stop 143' TERM HUP
export -f tests "${steps[@]}"
export programs work ranks large
{
    printf '# treerun on a GPU\n\n%s, %s GPUs.' "$(date -u +%F)" "$gpus"
    sed -n 's/^NVRM version: */ /p' /proc/driver/nvidia/version 2> /dev/null || true
    [ -z "${TREERUN_FAKE_GPU-}" ] || printf '\n\n**This was a fake host: its figures say nothing of a GPU.**'
    printf '\n'
} > "$page"
: > "${page%.md}.json"
for item in "${list[@]}"; do
    step=${item%:*} most=${limit:-${item#*:}} left=$((budget - SECONDS)) began=$SECONDS verdict=ok
    [[ ${#chosen[@]} = 0 || " ${chosen[*]} " == *" $step "* ]] || continue
    : > "$work/out"
    if [ -n "$stopped" ] || [ $left -lt 2 ]; then
        late+=("$step")
        record 'not run' 0
        continue
    fi
    [ "$most" -le $left ] || most=$left
    timeout -k 5 "$most" bash -euo pipefail -c "$step" > "$work/out" 2>&1 &
    job=$! status=0
    wait $job || status=$?
    [ -z "$stopped" ] || { status=$stopped; wait $job || true; }
    job=''
    took=$((SECONDS - began))
    ended >> "$work/out"
    if [ -n "$stopped" ] || { [ $status != 0 ] && [ $took -ge $left ]; }; then
        late+=("$step") verdict='cut off'
    elif [ $status != 0 ] && [ $took -ge "$most" ]; then
        echo "it hangs: no end after $most s" >> "$work/out"
        verdict=HANGS code=1
    elif [ $status != 0 ] || grep -q 'no tests to run' "$work/out"; then
        verdict=FAILED code=1
    fi
    record "$verdict" $took
    [[ $verdict != [A-Z]* ]] || report
done
why='out of time'
[ -z "$stopped" ] || why=stopped
[ ${#late[@]} = 0 ] || printf '\nNot run, or not to the end, %s: %s\n' "$why" "${late[*]}" | tee -a "$page"
exit ${stopped:-$code}
