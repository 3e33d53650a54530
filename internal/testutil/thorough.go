package testutil

import (
	"fmt"
	"os"
)

// Rounds is the name of the environment variable that says how many rounds tests do
// that could go on for long: "all", or those that go test does by itself.
const Rounds = "TREERUN_ROUNDS"

// Thorough reports whether a test is to do all of its rounds, every machine, size and
// seed that it knows, as the last step of .ci/run does, and not only some of each.
func Thorough() bool {
	switch s := os.Getenv(Rounds); s {
	case "", "all":
		return s != ""
	default:
		panic(fmt.Sprintf("%s=%q, want \"all\" or nothing", Rounds, s))
	}
}

// Count returns how often a test is to do something: all times if it is Thorough, else few.
func Count(few, all int) int {
	if Thorough() {
		return all
	}
	return few
}
