//go:build linux

package stacks

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Parse returns the goroutines in text, which the process of s has printed in the form of runtime.Stack, and may have
// cut. Lines of another form are left out.
func (s Stacks) Parse(text string) Stacks {
	parsed := Stacks{Go: s.Go, modules: s.modules}
	for block := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(block, "\n")
		head, ok := strings.CutPrefix(lines[0], "goroutine ")
		number, state, _ := strings.Cut(head, " [")
		id, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil {
			continue
		}
		g := Goroutine{ID: id, Status: strings.TrimSuffix(state, "]:")}
		for i := 1; i+1 < len(lines); i += 2 {
			f, ok := parseFrame(lines[i], lines[i+1])
			if !ok {
				g.Partial = true
				break
			}
			if !strings.HasPrefix(lines[i], "created by ") {
				g.Frames = append(g.Frames, f)
			}
		}
		parsed.Goroutines = append(parsed.Goroutines, g)
	}
	slices.SortFunc(parsed.Goroutines, func(a, b Goroutine) int { return cmp.Compare(a.ID, b.ID) })
	return parsed
}

// parseFrame parses the two lines of a call: the function with its arguments, and the file with the line and an offset.
func parseFrame(call, at string) (f Frame, ok bool) {
	f.Function = call
	if i := strings.LastIndexByte(call, '('); i > 0 {
		f.Function = call[:i]
	}
	at, tab := strings.CutPrefix(at, "\t")
	at, _, _ = strings.Cut(at, " +0x")
	i := strings.LastIndexByte(at, ':')
	if !tab || i <= 0 {
		return f, false
	}
	line, err := strconv.Atoi(at[i+1:])
	f.File, f.Line = at[:i], line
	return f, err == nil
}
