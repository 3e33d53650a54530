//go:build !race

package testutil

// Race reports whether the race detector is enabled: it makes code some ten times slower, and memory several times
// larger, so tests try less.
const Race = false
