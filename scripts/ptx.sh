#!/usr/bin/env bash
# Makes the PTX of CUDA sources with clang, which does not need the CUDA toolkit for that: every FOLDER/*.cu becomes
# FOLDER/*.ptx.
#
#   scripts/ptx.sh [--check] FOLDER...
#
# With --check it writes nothing, and fails if the existing PTX differs from clang's output for the source. CI runs
# this.
set -euo pipefail

# This version makes the same PTX on every machine, so it has one name.
compiler=clang-19

# For compute capability 7.0 and all later ones; without the headers and libraries of the toolkit;
# no product and sum in one rounding, so that the host computes the same.
flags=(--cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib -x cuda -std=c++17
    -O3 -ffp-contract=off -Wall -Wextra -Werror -S)

check=no
[ "${1:-}" != --check ] || { check=yes; shift; }
if [ $# = 0 ] || [[ $1 = -* ]]; then
    echo "usage: ptx.sh [--check] FOLDER..." >&2
    exit 64
fi
command -v "$compiler" > /dev/null || { echo "ptx.sh: no $compiler: apt-get install $compiler" >&2; exit 1; }

made=$(mktemp)
trap 'rm -f "$made"' EXIT
failed=0
complain() { echo "ptx.sh: $*" >&2; failed=1; }

# compile SOURCE: in its folder, so that no path gets into the PTX.
compile() {
    local source=$1 file=${1%.cu}.ptx
    if ! (cd "$(dirname "$source")" && "$compiler" "${flags[@]}" "$(basename "$source")" -o -) > "$made"; then
        complain "$source: $compiler failed"
    elif [ $check = no ]; then
        cmp -s "$made" "$file" || cp "$made" "$file"
    elif ! difference=$(cmp "$made" "$file" 2>&1); then
        complain "$file is not what $compiler makes of $source (${difference##*, }): go generate ./... and commit the result"
    fi
}

for folder in "$@"; do
    sources=("$folder"/*.cu)
    [ -e "${sources[0]}" ] || { complain "$folder: no *.cu there"; continue; }
    for source in "${sources[@]}"; do
        compile "$source"
    done
    for file in "$folder"/*.ptx; do
        [ ! -e "$file" ] || [ -e "${file%.ptx}.cu" ] || complain "$file has no source ${file%.ptx}.cu"
    done
done
exit $failed
