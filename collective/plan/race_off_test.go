//go:build !race

package plan

// mostMutated is the size of the largest plans of which all mutants are tried.
const mostMutated = 9
