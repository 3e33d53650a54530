//go:build !race

package comm

// underRace reports whether the race detector is enabled.
const underRace = false
