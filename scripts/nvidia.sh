#!/usr/bin/env bash
# Checks the kernels, and what package cuda assumes of the driver, with NVIDIA's assembler, headers and libraries, which
# Debian's non-free component has. A GPU is not needed. Debian 12 (bookworm) has CUDA 11.8 and the driver 535, Debian 13
# (trixie) 12.4 and 550.
#
#   scripts/nvidia.sh [RELEASE...]     bookworm or trixie; default: both
#
# - All PTX assembles for each architecture, and no kernel spills registers.
# - Prototypes, structures and numbers of cuda/internal/driver/abi.h are those of cuda.h.
# - The libraries have all functions of CUDA and NVML that are looked up.
# - With these libraries and without a GPU, treerun reports that there is none.
#
# Exit code: 0 if all is well, 1 if something is not, 2 if an argument is wrong, 75 if the component cannot be reached:
# NOT CHECKED. Downloads 90 MB for each release, from the source that apt has for Debian.
set -euo pipefail
cd "$(dirname "$0")/.."
architectures=(70 75 80 86 89 90)
[ $# -gt 0 ] || set -- bookworm trixie
for release; do
    case $release in
    bookworm | trixie) ;;
    *) echo "nvidia.sh: no release $release: want bookworm or trixie (usage: scripts/nvidia.sh [RELEASE...])" >&2; exit 2 ;;
    esac
done

work=$(mktemp -d)
trap 'rm -rf "$work" 2> /dev/null || { sleep 1; rm -rf "$work"; }' EXIT # a program that ends may write once more
trap 'exit 143' INT TERM # after the program that runs
failed=0
complain() { echo "nvidia.sh: $*" >&2; failed=1; }
skip() { echo "NOT CHECKED: $*"; exit 75; }

command -v apt-get > /dev/null || skip "no apt-get: NVIDIA's packages come from Debian"
uri=$({ grep -rhE '^(URIs:|deb )' /etc/apt/sources.list /etc/apt/sources.list.d 2> /dev/null || true; } |
    grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1)
[ -n "$uri" ] || skip "apt has no source of Debian's packages"

# debian ARGS: apt-get with the non-free component of the release alone, and folders of its own.
debian() {
    apt-get -q -o APT::Sandbox::User=root -o Dir::Etc::sourcelist="$dir/list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$dir/lists" -o Dir::Cache="$dir/cache" "$@" 2>> "$dir/log"
}

# fetch: the release's programs, libraries and headers, to $dir. Of the package of headers, 774 MB, only the beginning is
# read, where they are.
fetch() {
    local key=/usr/share/keyrings/debian-archive-keyring.gpg deb url
    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/x"
    echo "deb [signed-by=$key] $uri $release non-free" > "$dir/list"
    debian update > /dev/null && ! grep -q '^[WE]: Failed' "$dir/log" || return 1
    (cd "$dir" && debian download nvidia-cuda-toolkit libcuda1 libnvidia-ml1 > /dev/null) || return 1
    for deb in "$dir"/*.deb; do dpkg-deb -x "$deb" "$dir/x"; done
    rm "$dir"/*.deb
    mkdir "$dir/lib"
    for lib in libcuda libnvidia-ml; do
        mv "$(find "$dir/x" -name "$lib.so.[0-9]*.*" -type f)" "$dir/lib/$lib.so.1"
    done
    url=$(debian --print-uris download nvidia-cuda-dev | cut -d"'" -f2)
    curl -sf "$url" 2>> "$dir/log" | dpkg-deb --fsys-tarfile - 2>> "$dir/log" |
        tar -x -C "$dir/x" --occurrence=1 ./usr/include/cuda.h ./usr/include/cudaTypedefs.h 2>> "$dir/log" || true
}

# assemble FILE ARCHITECTURE: what ptxas reports where it fails, or spills.
assemble() {
    local out
    out=$("$ptxas" -v -arch="sm_$2" -o /dev/null "$1" 2>&1) || { echo "$1 for sm_$2: $out"; return; }
    awk -v of="$1 for sm_$2" '/Function properties for/ { name = $NF; kernels++ }
        /bytes spill/ && !/ 0 bytes spill stores, 0 bytes spill loads/ { print of ": " name ":" $0 }
        END { if (!kernels) print of ": ptxas -v names no kernel" }' <<< "$out"
}
export -f assemble

kernels() {
    local bad files=(cuda/kernels/*.ptx examples/train/*.ptx)
    export ptxas=$dir/x/usr/bin/ptxas
    for file in "${files[@]}"; do printf "$file %s\n" "${architectures[@]}"; done |
        xargs -n 2 -P "$(nproc)" bash -c 'assemble "$@"' _ > "$dir/assembled" 2>&1 || complain "ptxas cannot run"
    while read -r bad; do complain "$bad"; done < "$dir/assembled"
    echo "$(cat "${files[@]}" | grep -c '^\.visible \.entry') kernels for sm_${architectures[*]}: $("$ptxas" --version | grep -o 'release.*')"
}

# prototypes compiles agrees.c, with NVIDIA's headers and its own abi.h made for the comparison.
prototypes() {
    local from=cuda/internal/driver include=$dir/x/usr/include
    if [ ! -s "$include/cudaTypedefs.h" ]; then
        echo "NOT CHECKED: prototypes and numbers: the headers of $release cannot be read: $(tail -n 1 "$dir/log")"
        return
    fi
    mkdir "$dir/h"
    awk '/^typedef enum/ { sub(/typedef /, ""); inside = 1 } inside && /^}/ { sub(/}/, "}; typedef int"); inside = 0 } 1' \
        "$include/cuda.h" > "$dir/h/cuda.h"
    cp "$include/cudaTypedefs.h" "$dir/h/"
    sed -E '1,/^#define LOADERS/ s/\b(CU(uuid|ipcMemHandle|streamBatchMemOpParams)|CU(DA)?_[A-Z0-9_]+)\b/ours_&/Ig' $from/abi.h > "$dir/h/ours.h"
    grep -oE '\bours_CU(DA)?_[A-Z0-9_]+' "$dir/h/ours.h" | sort -u |
        sed -E 's/ours_(.*)/_Static_assert((int)& == (int)\1, "\1");/' > "$dir/h/numbers.h"
    gcc -std=gnu11 -Wall -Werror -fsyntax-only -I "$dir/h" $from/testdata/agrees.c || complain "abi.h is not as NVIDIA's headers"
    echo "$(grep -cE '^    X\(cu|LATER_LOADERS\(X\)' $from/abi.h) prototypes, $(wc -l < "$dir/h/numbers.h") numbers: $(grep -E '^#define CUDA_VERSION' "$include/cuda.h")"
}

symbols() {
    local lib name
    grep -oE '\bX\(cu[A-Za-z0-9]+, cu\w+' cuda/internal/driver/abi.h | sed 's/.*, //' > "$dir/libcuda"
    grep -ohE '"nvml[A-Z]\w+"' cuda/nvml/{library_unsafe,read,numa}.go | tr -d '"' | sort -u > "$dir/libnvidia-ml"
    for lib in libcuda libnvidia-ml; do
        nm -D --defined-only "$dir/lib/$lib.so.1" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort > "$dir/has"
        while read -r name; do complain "$lib of $release has no $name"; done < <(sort "$dir/$lib" | comm -23 - "$dir/has")
        echo "$(wc -l < "$dir/$lib") symbols: $lib of $release"
    done
}

# prints WORDS COMMAND: the command's output, whatever its exit code, has the words.
prints() {
    local words=$1 out
    shift
    out=$(LD_LIBRARY_PATH=$dir/lib "$@" 2>&1) || true
    grep -qF -- "$words" <<< "$out" || complain "with the libraries of $release, ${*##*/} prints no \"$words\":"$'\n'"$out"
}

words() {
    if [ -e /dev/nvidia0 ]; then
        echo "NOT CHECKED: words without a GPU: this host has one"
        return
    fi
    prints "cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected; no GPU for this process" "$work/treerun" check
    prints "NVML is not available: the NVIDIA driver is not loaded" "$work/treerun" --gpus 0 true
    prints "measured: 2 ranks, 1 link" "$work/treerun" topo -np 2
    echo "words without a GPU: treerun check, --gpus, topo"
}

go build -o "$work/treerun" ./cmd/treerun
for release; do
    dir=$work/$release
    mkdir "$dir"
    fetch || skip "$uri has no non-free component of $release that can be read: $(tail -n 1 "$dir/log")"
    kernels
    prototypes
    symbols
    words
done
exit $failed
