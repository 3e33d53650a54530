#!/usr/bin/env bash
# Writes THIRD-PARTY: the third-party modules that are linked into treerun and into programs that use its packages, and
# their complete licenses.
#
#   scripts/third-party.sh [--check]
#
# With --check it writes nothing, and fails if the file is out of date. A module with an unknown license is an error and
# needs a manual check.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
library=(./rank ./collective ./collective/sparse ./cuda ./cuda/nvml ./topo)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# linked PACKAGES...: path, version and folder of the third-party modules that the packages are built from.
linked() {
    go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' "$@" | sed /^$/d | sort -u
}

# texts PATH FOLDER: all texts about the license of a module, and the choice where it offers one.
texts() {
    local files file text
    mapfile -t files < <(find -L "$2" -maxdepth 1 -type f -printf '%f\n' |
        grep -iE '^(licen[cs]e|notice|copyright|copying|patents)' | sort)
    for file in "${files[@]}"; do
        text=$(tr -d '\r' < "$2/$file")
        text=${text#"${text%%[![:space:]]*}"}
        printf '%s\n\n' "${text%"${text##*[![:space:]]}"}"
    done
}

# license PATH: the name of the license whose words are in the text on stdin; the first match counts.
license() {
    local words name text
    text=$(tr -s '[:space:]' ' ')
    while IFS='|' read -r words name; do
        [[ $text != *"$words"* ]] || { echo "$name"; return; }
    done <<'END'
SIL OPEN FONT LICENSE|BSD-3-Clause, OFL-1.1
The FreeType Project LICENSE|FTL
Mozilla Public License|MPL-2.0
Apache License|Apache-2.0
Creative Commons Attribution 4.0 International|CC-BY-4.0
Permission is hereby granted, free of charge|MIT
Neither the name of|BSD-3-Clause
Redistribution and use in source and binary forms|BSD-2-Clause
END
    echo "third-party.sh: the license of $1 is none of those that are known here" >&2
    return 1
}

cat > "$work/file" <<'END'
Software of others in treerun
=============================

Written by scripts/third-party.sh; do not edit. Binaries of treerun, and programs
that use its packages, contain parts of the modules below, unchanged, and of Go's
standard library (BSD-3-Clause, https://go.dev/LICENSE).

Modules under MPL-2.0: their source code is available at their path and version, from
under the FreeType License (FTL).

END
line=$(printf '=%.0s' {1..80})
linked "${library[@]}" > "$work/users"
linked ./cmd/treerun "${library[@]}" > "$work/modules"
while read -r path version folder; do
    [ -d "$folder" ] || { echo "third-party.sh: no folder of $path: go mod download" >&2; exit 1; }
    texts "$path" "$folder" > "$work/text"
    name=$(license "$path" < "$work/text")
    into=treerun
    ! grep -q "^$path " "$work/users" || into="treerun, user programs"
    printf '%-42s %-40s %-22s %s\n' "$path" "$version" "$name" "$into" >> "$work/file"
    { printf '\n%s\n%s %s (%s)\n%s\n\n' "$line" "$path" "$version" "$name" "$line"; cat "$work/text"; } >> "$work/texts"
done < "$work/modules"
cat "$work/texts" >> "$work/file"
if [ "${1:-}" != --check ]; then
    cp "$work/file" THIRD-PARTY
elif ! cmp -s "$work/file" THIRD-PARTY; then
    echo "THIRD-PARTY is out of date: scripts/third-party.sh" >&2
    exit 1
fi
