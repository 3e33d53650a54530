//go:build linux

package stacks

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Modules of which goroutines in ranks are treerun's own.
const (
	treerun    = "github.com/treerun/treerun"
	memberlist = "github.com/hashicorp/memberlist"
)

// Where returns the goroutine that shows what a rank does, and the line of the user's code in it. It is a goroutine in
// a call of package collective or rank, or else the first one. The goroutine is nil if there is none. The frame is nil
// if the goroutine has none of the user's, as when it runs on a CPU.
func (s Stacks) Where() (*Goroutine, *Frame) {
	var first *Goroutine
	var line *Frame
	for i := range s.Goroutines {
		g := &s.Goroutines[i]
		at := slices.IndexFunc(g.Frames, s.user)
		in := at > 0 && slices.ContainsFunc(g.Frames[:at], Frame.call)
		if g.ID != 1 && !in {
			continue
		}
		first, line = g, nil
		if at >= 0 {
			line = &g.Frames[at]
		}
		if in {
			break
		}
	}
	return first, line
}

// own reports whether a goroutine is one of package rank or collective, or of memberlist: it has functions of these,
// and none of the user's.
func (s Stacks) own(g *Goroutine) bool {
	library := func(f Frame) bool { return below(f.pkg(), treerun) || below(f.pkg(), memberlist) }
	start := Frame{Function: g.Start}
	return g.ID != 1 && !s.user(start) && !slices.ContainsFunc(g.Frames, s.user) &&
		(library(start) || slices.ContainsFunc(g.Frames, library))
}

// maxCallers is the number of callers that Callers returns at most.
const maxCallers = 5

// Callers returns the callers of a frame in the user's code, the innermost first, in the form of Frame.String.
func (s Stacks) Callers(g *Goroutine, of *Frame) (lines []string) {
	for i := range g.Frames {
		if f := &g.Frames[i]; f == of {
			lines = []string{} // those that follow
		} else if lines != nil && s.user(*f) && len(lines) < maxCallers {
			lines = append(lines, f.String())
		}
	}
	return lines
}

// String returns a line for users: "main.load at data.go:81".
func (f Frame) String() string {
	name := strings.ReplaceAll(path.Base(f.Function), "%2e", ".")
	return fmt.Sprintf("%s at %s:%d", name, path.Base(f.File), f.Line)
}

// pkg returns the path of the package of a function.
func (f Frame) pkg() string {
	slash := strings.LastIndexByte(f.Function, '/') + 1
	name, _, _ := strings.Cut(f.Function[slash:], ".")
	return f.Function[:slash] + strings.ReplaceAll(name, "%2e", ".")
}

// call reports whether a frame is in package collective or rank, or below them.
func (f Frame) call() bool {
	return below(f.pkg(), treerun+"/collective") || below(f.pkg(), treerun+"/rank")
}

// user reports whether a frame belongs neither to the standard library nor to treerun's. Commands, examples and
// tests of treerun are the user's.
func (s Stacks) user(f Frame) bool {
	pkg := f.pkg()
	if below(pkg, treerun) {
		return below(pkg, treerun+"/examples") || below(pkg, treerun+"/scripts") || below(pkg, treerun+"/cmd") ||
			strings.HasSuffix(f.File, "_test.go")
	}
	// A call of C; a library of rank; system calls.
	if f.File == "_cgo_gotypes.go" || below(pkg, memberlist) || below(pkg, "golang.org/x/sys") {
		return false
	}
	first, _, _ := strings.Cut(pkg, "/")
	return pkg == "main" || strings.Contains(first, ".") || pkg == "command-line-arguments" ||
		slices.ContainsFunc(s.modules, func(m string) bool { return below(pkg, m) })
}

func below(pkg, folder string) bool {
	return pkg == folder || strings.HasPrefix(pkg, folder+"/")
}
