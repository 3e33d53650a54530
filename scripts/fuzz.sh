#!/usr/bin/env bash
# Runs every fuzz test of the repository for a short while.
#
#   scripts/fuzz.sh [INPUTS]
#
# INPUTS is the number of inputs that each test gets beyond its corpus (default 3000). It is a number and not a time: at
# the end of a time go test may take its own deadline for a failure. An input that fails is kept in testdata/fuzz of its
# package; it belongs in the repository together with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."
inputs=${1:-3000}

# FOLDER NAME of every fuzz test.
targets() {
    grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' --exclude-dir='.?*' --exclude-dir=testdata . |
        sed -E 's,^\./(.*)/[^/]*:func (Fuzz.*)$,\1 \2,' | sort -u
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The test binaries of all folders, by the folders' names.
# shellcheck disable=SC2016
targets | cut -d ' ' -f 1 | sort -u | xargs -P "$(nproc)" -I '{}' sh -c 'mkdir -p "$1/$2" && go test -c -fuzz . -o "$1/$2.test" "./$2"' sh "$work" '{}'

# Runs a fuzz test; its output is in out.
fuzz() {
    out=$(cd "$1" && "$work/$1.test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "${inputs}x" -test.fuzzminimizetime 20x \
        -test.parallel 2 -test.fuzzcachedir "$work/corpus" 2>&1)
}

# go test gives up an input after ten seconds, during which the machine may have stood still: such an input, which is in
# the corpus by then, gets a second chance.
stood_still() {
    local input
    [[ $out == *"hung or terminated unexpectedly"* ]] || return 1
    input=$(sed -n 's,^ *Failing input written to \(testdata/fuzz/.*\)$,\1,p' <<< "$out")
    fuzz "$1" "$2" || return 1
    if [ -n "$input" ]; then
        rm "$1/$input"
        rmdir -p "$1/${input%/*}" 2> /dev/null || true
    fi
}

failed=0 count=0
while read -r folder name; do
    began=$SECONDS
    if fuzz "$folder" "$name" || stood_still "$folder" "$name"; then
        printf '%4d s  %s %s\n' $((SECONDS - began)) "$folder" "$name"
    else
        printf '%s\nFAIL %s %s\n' "$out" "$folder" "$name"
        failed=1
    fi
    count=$((count + 1))
done < <(targets)
[ $count -gt 0 ] || { echo "no fuzz tests found" >&2; exit 1; }
exit $failed
