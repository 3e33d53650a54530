#!/usr/bin/env bash
# Prints figures of the source: lines of Go with comments and blank lines apart, packages, the ten types with most
# methods, imports that go up between top-level folders, and the longest sentence of each page of docs/inside.
#
#   scripts/counts.sh
#
# Other figures come from commands of their own:
#
#   time go test -count=1 ./...            time and CPU of the tests
#   go test -v -run '^TestProse$' ./docs   phrases that a reader stumbles over, per 1,000 words
#   go run ./scripts/mutants -n 20         breaks, and the tests that catch them
#   scripts/one-host.sh                    speed
#
# The frames from AllReduce to the byte are those of the walk in docs/architecture.md.
set -euo pipefail
cd "$(dirname "$0")/.."
go test -count=1 -v -run '^TestCounts$' ./docs | grep -vE '^(=== RUN|--- PASS|PASS|ok )'
