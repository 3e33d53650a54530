package testutil

import (
	"flag"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

// Computing runs the tests of a package with long computations: the garbage collector runs less often, and rapid checks
// fewer programs, unless a test must do all its rounds or -rapid.checks sets the number.
func Computing(m *testing.M) {
	debug.SetGCPercent(800)
	FewerChecks()
	m.Run()
}

// Waiting is called by the TestMain of a package whose tests mostly wait: at least six run in parallel, four under the
// race detector, unless -parallel sets the number.
func Waiting() {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		n := 6
		if Race {
			n = 4
		}
		_ = f.Value.Set(strconv.Itoa(max(n, runtime.GOMAXPROCS(0))))
	}
}

// OneProcessor runs the goroutines of this process on one processor until the test ends, unless the test must do all
// its rounds or runs under the race detector. Ranks in one process that wait poll repeatedly: if other tests need the
// processors, most of the time is spent there.
func OneProcessor(t testing.TB) {
	if !Thorough() && !Race {
		before := runtime.GOMAXPROCS(1)
		t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	}
}

// FewerChecks makes rapid check 40 programs of each property unless a test must do all its rounds. It must be called
// before flags are parsed.
func FewerChecks() {
	if f := flag.Lookup("rapid.checks"); f != nil {
		_ = f.Value.Set(strconv.Itoa(Count(40, 100)))
	}
}
