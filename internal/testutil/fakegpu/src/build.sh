# shellcheck shell=sh
# Builds the fake GPU's libraries into the folder $1: the driver and NVML from the sources next to this file, and the
# kernels from the other arguments.
set -e
export out="$1"
shift
library() {
    name=$1
    shift
    ${CC:-cc} -std=gnu11 -O2 -g -fPIC -fvisibility=hidden -Wall -Wextra -Werror -pthread -shared \
        -Wl,-z,nodelete -Wl,--no-undefined -Wl,-soname,"$name" -o "$out/$name" "$@"
}
kernel='${CXX:-c++} -std=c++17 -x c++ -DTREERUN_HOST -O2 -ffp-contract=off -fPIC -fvisibility=hidden \
    -Wall -Wextra -Werror -I "$include" -c "$0" -o "$out/$(basename "$0").o"'
(
    cd "$(dirname "$0")"
    # shellcheck disable=SC2046,SC2010 # the names have no spaces
    library libcuda.so.1 $(ls ./*.c | grep -v /nvml)
    library libnvidia-ml.so.1 nvml*.c topology.c board.c
)
[ $# -gt 0 ] || exit 0
include=$(dirname "$1")
export include
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 1 sh -c "$kernel"
${CXX:-c++} -shared -o "$out/libtreerun_kernels.so" "$out"/*.o
rm "$out"/*.o
