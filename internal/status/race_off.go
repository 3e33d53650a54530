//go:build !race

package status

// underRace reports whether the race detector is enabled.
const underRace = false
