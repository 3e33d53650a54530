//go:build race

package collective

// raceDetector makes everything some ten times as slow: tests try less.
const raceDetector = true
