#!/usr/bin/env bash
# Prints figures of the source: lines of Go with comments and blank lines apart, packages, the ten types with most
# methods, imports that go up between top-level folders, and the longest sentence of each page of docs/inside.
#
#   scripts/counts.sh
set -euo pipefail
cd "$(dirname "$0")/.."
go test -count=1 -v -run '^TestCounts$' ./docs | grep -vE '^(=== RUN|--- PASS|PASS|ok )'
