//go:build race

package plan

// mostMutated is the size of the largest plans of which all mutants are tried.
// The race detector has nothing to find in a package of one goroutine, and
// makes it five times as slow.
const mostMutated = 6
