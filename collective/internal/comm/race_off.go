//go:build !race

package comm

// underRace says that the race detector watches.
const underRace = false
