# shellcheck shell=bash
# Functions that measure treerun, Open MPI, MPICH and Gloo on this host with the same method. Scripts source this file
# from the root of the repository; the caller has set -euo pipefail and a trap that removes $work.
#
# An implementation is named treerun, treerun-alloc (buffers that all ranks can read), openmpi, mpich or gloo; a peer
# with its own settings is named PEER:SETTING, in the terms of the kit: openmpi:segring, mpich:nolocal, gloo:hd.
#
# Environment:
#   PEERS=DIR       the peer kit: mpi_perf.c, mpi_null.c, mpich_shim.c, ..., a Makefile and, when
#                   built, bin/ (default ../shared/peers); built in a temporary copy when bin/ is incomplete
#   PERF_ARGS=...   more options for all sides, in the form of mpi_perf, e.g. "-T 0.5 -t int32"
#   OPENMPI_ARGS=... MPICH_ARGS=...  more options for mpirun.openmpi, mpirun.mpich
#   LIMIT=300       seconds after which a job is ended
#
# MPICH never yields: with more ranks than cores it runs with mpich_shim.so, which adds a sched_yield to its progress
# loop. Open MPI runs with --oversubscribe --bind-to none, with which it yields when necessary.

peers=${PEERS:-../shared/peers}
cores=$(nproc)
work=$(mktemp -d)
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"

# treerun relies on measurements of this machine at this time, and not on earlier ones.
GOCACHE=$(go env GOCACHE)
export GOCACHE XDG_CACHE_HOME=$work/cache

fail() { echo "${0##*/}: $*" >&2; exit 1; }

# prepare TARGETS...: builds treerun, and the missing parts of the peer kit.
prepare() {
    local target f
    [ -f "$peers/mpi_perf.c" ] || fail "no peer kit in $peers (set PEERS)"
    peers=$(cd "$peers" && pwd)
    for target in "$@"; do
        [ -x "$peers/$target" ] && continue
        cp -r "$peers" "$work/peers"
        peers=$work/peers
        make -C "$peers" "$@" >&2 || fail "cannot build the peer kit: are Open MPI, MPICH and Gloo installed?"
        break
    done
    for f in mpirun.openmpi mpirun.mpich; do
        command -v "$f" > /dev/null || fail "$f not found"
    done
    for f in ./cmd/treerun ./examples/hello; do
        installed "$f"
    done
}

# installed PACKAGE: builds the program of PACKAGE as an installed one, under $work. A file that the linker has just
# written is in small pages of the cache, and runs up to 20 % slower than a copy of it.
installed() {
    go build -o "$work/linked" "$1"
    cp "$work/linked" "$work/$(basename "$1")"
    rm "$work/linked"
}

# launch IMPL NP PROGRAM [ARGS...]; for treerun bench and gloo there are only ARGS.
launch() {
    local impl=$1 np=$2 setting=${1#*:} shim=()
    shift 2
    case $impl in
    treerun)
        set -- "$work/treerun" -np "$np" "$@" ;;
    bench)
        set -- "$work/treerun" bench -np "$np" "$@" ;;
    openmpi)
        # shellcheck disable=SC2086
        set -- mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -np "$np" ${OPENMPI_ARGS:-} "$@" ;;
    openmpi:collsm)
        set -- "$peers/run_openmpi.sh" -np "$np" --mca coll_sm_priority 90 --prog "$@" ;;
    openmpi:*)
        set -- "$peers/run_openmpi.sh" -np "$np" --set "$setting" --prog "$@" ;;
    mpich | mpich:nolocal)
        [ "$np" -le "$cores" ] || shim=(-env LD_PRELOAD "$peers/bin/mpich_shim.so")
        [ "$impl" = mpich ] || shim+=(-env MPIR_CVAR_NOLOCAL 1)
        # shellcheck disable=SC2086
        set -- mpirun.mpich -np "$np" "${shim[@]}" ${MPICH_ARGS:-} "$@" ;;
    gloo)
        set -- "$peers/run_gloo.sh" -np "$np" "$@" ;;
    gloo:*)
        set -- "$peers/run_gloo.sh" -np "$np" -A "$setting" "$@" ;;
    *)
        fail "no implementation is called $impl" ;;
    esac
    timeout "${LIMIT:-300}" "$@" < /dev/null 2> "$work/stderr" || { cat "$work/stderr" >&2; fail "$* failed"; }
}

# empty IMPL NP: start to finish of an empty job, in milliseconds.
empty() {
    local program begin
    case $1 in
    treerun) program=$work/hello ;;
    *) program=$peers/bin/mpi_null.$1 ;;
    esac
    begin=${EPOCHREALTIME/[.,]/}
    launch "$1" "$2" "$program" > /dev/null
    awk -v us=$((${EPOCHREALTIME/[.,]/} - begin)) 'BEGIN { printf "%.1f\n", us / 1000 }'
}

# figures reads the JSON lines of treerun bench or the kit and prints "collective bytes microseconds wrong
# share-of-limit plan", with - for missing values: the plan may be two words.
figures() {
    awk '
        function get(key,   v) {
            if (!match($0, "\"" key "\":(\"[^\"]*\"|[^,}]*)")) return "-"
            v = substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
            gsub(/"/, "", v)
            return v == "" || v == "null" ? "-" : v
        }
        /"time_us"/ {
            op = get("collective")
            if (op == "-") op = get("op")
            print op, get("bytes"), get("time_us"), get("wrong"), get("limit_share"), get("plan")
        }'
}

# rows IMPL NP OPTIONS...: the output of figures, a line for each row that IMPL's benchmark prints. OPTIONS have the
# form of mpi_perf.
rows() {
    local impl=$1 np=$2
    shift 2
    # shellcheck disable=SC2086
    set -- "$@" ${PERF_ARGS:-}
    case $impl in
    treerun) bench "$np" "$@" ;;
    treerun-alloc) bench "$np" "$@" --alloc ;;
    gloo*) launch "$impl" "$np" -j "$@" | figures ;;
    *) launch "$impl" "$np" "$peers/bin/mpi_perf.${impl%%:*}" -j "$@" | figures ;;
    esac
}

# bench NP OPTIONS...: rows of treerun bench, with the options of mpi_perf and --alloc, --inflight. MPI_Bcast is always
# in place, the others only on request.
bench() {
    local np=$1 ops=allreduce inplace=no edge=no begin=8 end=16M factor=8 args=() op rest
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        -o) ops=$2; shift ;;
        -b) begin=$2; shift ;;
        -e) end=$2; shift ;;
        -f) factor=$2; shift ;;
        -T) args+=(--max-seconds "$2"); shift ;;
        -t) args+=(-d "$2"); shift ;;
        -m) [ "$2" != stream ] || args+=(--stream); shift ;;
        -i) inplace=yes ;;
        -x) edge=yes ;;
        --alloc) args+=("$1") ;;
        -n) args+=(-i "$2"); shift ;;
        --inflight | -[wc]) args+=("$1" "$2"); shift ;;
        *) fail "PERF_ARGS: treerun bench has no $1" ;;
        esac
        shift
    done
    rest=,$ops,
    rest=${rest//,broadcast,/,}
    rest=${rest#,} rest=${rest%,}
    for op in broadcast $rest; do
        case $op,$ops, in
        broadcast,*broadcast,*) table_of "$op" yes ;;
        broadcast,*) ;;
        *) table_of "$op" "$inplace" ;;
        esac || return 1
    done
}

# table_of COLLECTIVES IN-PLACE, with bench's begin, end, factor, edge and args. With edge the largest size is also
# measured if the steps miss it.
table_of() {
    local size last
    launch bench "$np" --collective "$1" --in-place="$2" -b "$begin" -e "$end" -f "$factor" "${args[@]}" --json - | figures || return 1
    [ $edge = yes ] || return 0
    size=$(numfmt --from=iec "$begin") last=$(numfmt --from=iec "$end")
    while ((size < last)); do size=$((size * factor)); done
    if ((size > last)); then
        launch bench "$np" --collective "$1" --in-place="$2" -b "$end" -e "$end" "${args[@]}" --json - | figures
    fi
}
