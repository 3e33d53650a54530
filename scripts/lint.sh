#!/usr/bin/env bash
# Checks the form of the source: gofmt, vet (also without cgo, for arm64), staticcheck, revive, misspell, and the scripts
# and workflows with shellcheck, if it is installed, and actionlint.
#
#   scripts/lint.sh
set -euo pipefail
cd "$(dirname "$0")/.."

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
revive=github.com/mgechev/revive@v1.17.0
misspell=github.com/golangci/misspell/cmd/misspell@v0.8.0
actionlint=github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "gofmt would change:"; echo "$unformatted"; exit 1; }

go vet ./...
GOARCH=arm64 CGO_ENABLED=0 go vet ./...
go run "$staticcheck" ./...
go run "$revive" -config .ci/revive.toml -set_exit_status ./...
# A name in the corpus of a fuzz test, and a word that a test misspells, are meant.
git ls-files | grep -vE '/testdata/|^THIRD-PARTY$|\.(sum|svg|ptx|gz|jsonl)$' |
    xargs go run "$misspell" -locale US -i algorithmus,versoin -error

mapfile -t scripts < <(git ls-files '*.sh'; echo .ci/run)
for script in "${scripts[@]}"; do bash -n "$script"; done
if command -v shellcheck > /dev/null; then shellcheck -S warning "${scripts[@]}"; else echo "no shellcheck: scripts are not checked"; fi
go run "$actionlint"
