package testutil

import (
	"flag"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

// Computing runs the tests of a package that computes much: the collector runs less often, and rapid checks fewer
// programs, unless a test is to do all its rounds or -rapid.checks says how many.
func Computing(m *testing.M) {
	debug.SetGCPercent(800)
	FewerChecks()
	m.Run()
}

// Waiting is called by the TestMain of a package whose tests wait more than they work: at least six run side by side,
// four under the race detector, unless -parallel says how many.
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

// OneProcessor has the goroutines of this process take turns on one processor until the test ends, unless it is to do
// all its rounds or runs under the race detector. Ranks in one process that wait look again and again: where others
// need the processors, most of the time goes there.
func OneProcessor(t testing.TB) {
	if !Thorough() && !Race {
		before := runtime.GOMAXPROCS(1)
		t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	}
}

// FewerChecks has rapid check 40 programs of each property unless a test is to do all its rounds. It comes before
// flags are parsed.
func FewerChecks() {
	if f := flag.Lookup("rapid.checks"); f != nil {
		_ = f.Value.Set(strconv.Itoa(Count(40, 100)))
	}
}
