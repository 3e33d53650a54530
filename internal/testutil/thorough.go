package testutil

import (
	"fmt"
	"os"
)

// Rounds is the name of the environment variable that selects the rounds of long tests: "all", or some of them if it is
// empty.
const Rounds = "TREERUN_ROUNDS"

// Thorough reports whether a test must do all of its rounds, with every machine, size and seed that it knows, as in the
// last step of .ci/run, and not only some of each.
func Thorough() bool {
	switch s := os.Getenv(Rounds); s {
	case "", "all":
		return s != ""
	default:
		panic(fmt.Sprintf("%s=%q, want \"all\" or nothing", Rounds, s))
	}
}

// Count returns the number of repetitions for a test: all if it is Thorough, else few.
func Count(few, all int) int {
	if Thorough() {
		return all
	}
	return few
}
