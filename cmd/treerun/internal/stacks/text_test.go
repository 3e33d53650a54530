//go:build linux

package stacks

import (
	"runtime"
	"strings"
	"testing"
)

// The goroutines of this process, as it prints them, have their functions and lines.
func TestParse(t *testing.T) {
	hold, held := make(chan bool), make(chan bool)
	go func() {
		close(held)
		<-hold
	}()
	<-held
	defer close(hold)
	text := make([]byte, 64<<10)
	s := Stacks{Go: "go1.26"}.Parse(string(text[:runtime.Stack(text, true)]))
	if s.Go != "go1.26" || len(s.Goroutines) < 3 {
		t.Fatalf("%+v", s)
	}
	found := 0
	for _, g := range s.Goroutines {
		for _, f := range g.Frames {
			if strings.HasPrefix(f.Function, treerun+"/cmd/treerun/internal/stacks.TestParse") &&
				strings.HasSuffix(f.File, "text_test.go") && f.Line > 10 {
				found++
			}
		}
	}
	if found != 2 {
		t.Errorf("%d goroutines of this test, want 2:\n%v", found, s)
	}
}

// A text that is cut loses its last call only.
func TestParseCut(t *testing.T) {
	const text = "goroutine 1 [running]:\nmain.(*T[...]).f(0x1, {0x2, 0x3})\n\t/a/b.go:12 +0x1d\nmain.main()\n\t/a/b.go:1"
	s := Stacks{}.Parse(text + "3 +0x2\n\ngoroutine 7 [chan receive]:\nmain.g(...)\n\t/a/g.g")
	if len(s.Goroutines) != 2 || len(s.Goroutines[0].Frames) != 2 || !s.Goroutines[1].Partial {
		t.Fatalf("%+v", s)
	}
	if g, f := s.Where(); g.ID != 1 || f.String() != "main.(*T[...]).f at b.go:12" {
		t.Errorf("%+v, %v", g, f)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("goroutine 1 [running]:\nmain.f(0x1)\n\t/a/b.go:12 +0x1d\ncreated by main.main in goroutine 7\n\t/a/b.go:1")
	f.Add("goroutine 18446744073709551616 [a]:\n\n\ngoroutine x")
	f.Fuzz(func(t *testing.T, text string) {
		s := Stacks{}.Parse(text)
		if len(s.Goroutines) > strings.Count(text, "goroutine ") {
			t.Errorf("%d goroutines in %q", len(s.Goroutines), text)
		}
		_, _ = s.Where()
		_ = s.String()
	})
}
