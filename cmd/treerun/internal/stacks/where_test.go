//go:build linux

package stacks

import (
	"strings"
	"testing"
)

// TestWhere: the line of a rank, from goroutines that are given as their functions, innermost first.
func TestWhere(t *testing.T) {
	const ours = "github.com/treerun/treerun/"
	goroutine := func(id uint64, functions ...string) Goroutine {
		g := Goroutine{ID: id}
		for _, f := range functions {
			name, file, _ := strings.Cut(f, " ")
			g.Frames = append(g.Frames, Frame{Function: name, File: file, Line: 7})
		}
		return g
	}
	main := goroutine(1, "runtime.gopark", "time.Sleep", "main.load a/b/data.go", "main.main")
	called := goroutine(9, "syscall.Syscall6", ours+"collective/internal/engine.(*Waiter).wait",
		ours+"collective.AllReduce[...]", "example.com/mod.v2/net%2ework.(*Net).step", "main.train")
	own := goroutine(5, "internal/poll.(*FD).Read", ours+"rank/internal/exchange.(*Mesh).read",
		"sync.(*WaitGroup).Go.func1")
	listed := goroutine(6, ours+"rank.(*delegate).NotifyJoin", "github.com/hashicorp/memberlist.(*Memberlist).probe")
	for name, c := range map[string]struct {
		all  []Goroutine
		id   uint64
		line string
	}{
		"none":   {},
		"sleeps": {[]Goroutine{main, own, listed}, 1, "main.load at data.go:7"},
		"calls":  {[]Goroutine{main, own, called}, 9, "net.work.(*Net).step at .:7"},
		"runs":   {[]Goroutine{goroutine(1), own}, 1, ""},
		"the first calls": {[]Goroutine{goroutine(1, ours+"rank.Init", "main.main m.go"), called},
			1, "main.main at m.go:7"},
		"a call of C": {[]Goroutine{goroutine(1, "main._Cfunc_f _cgo_gotypes.go", "main.f f.go")},
			1, "main.f at f.go:7"},
		"an example": {[]Goroutine{goroutine(1, "net.Read", ours+"examples/train/data.Load d.go")},
			1, "data.Load at d.go:7"},
		"a test": {[]Goroutine{goroutine(1, ours+"rank.TestInit i_test.go")}, 1, "rank.TestInit at i_test.go:7"},
		"a short module": {[]Goroutine{goroutine(1, "sync.Wait", "app/data.Load l.go", "main.main")},
			1, "data.Load at l.go:7"},
		"only our library": {[]Goroutine{goroutine(1, ours+"rank.Init")}, 1, ""},
	} {
		g, f := Stacks{Goroutines: c.all, modules: []string{"app"}}.Where()
		if g == nil != (c.id == 0) || g != nil && g.ID != c.id ||
			f == nil != (c.line == "") || f != nil && f.String() != c.line {
			t.Errorf("%s: %+v at %v, want goroutine %d at %s", name, g, f, c.id, c.line)
		}
	}
}

// TestString: a traceback has the goroutines of the user, and says how many of treerun's own it leaves out.
func TestString(t *testing.T) {
	s := Stacks{Goroutines: []Goroutine{
		{ID: 1, Status: "running", Note: "runs on a CPU", Start: treerun + "/rank.Init"},
		{ID: 7, Frames: []Frame{{Function: treerun + "/rank.(*World).serve"}, {Function: "sync.(*WaitGroup).Go.func1"}}},
		{ID: 8, Status: "running", Start: memberlist + ".(*Memberlist).probe"},
		{ID: 9, Status: "IO wait", Frames: []Frame{{Function: "net/http.(*conn).serve"}}},
		{ID: 10, Frames: []Frame{{Function: treerun + "/collective.Recv"}, {Function: "main.load"}}},
		{ID: 11, System: true},
	}}
	want := []string{"goroutine 1 [", "goroutine 9 [", "goroutine 10 [", "...2 of treerun's own goroutines left out..."}
	text := s.String()
	for _, w := range want {
		_, after, found := strings.Cut(text, w)
		if !found {
			t.Fatalf("%q is not there, or not in this place:\n%s", w, s)
		}
		text = after
	}
	if strings.Contains(s.String(), "goroutine 7 ") || strings.Contains(s.String(), "goroutine 8 ") {
		t.Errorf("goroutines of treerun's own:\n%s", s)
	}
}
