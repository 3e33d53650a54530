//go:build race

package testutil

// Race reports whether the race detector runs: it makes everything some ten times as slow, and
// memory several times as large, so tests try less.
const Race = true
