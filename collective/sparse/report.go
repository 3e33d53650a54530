package sparse

import "fmt"

// maxReported is the maximum number of choices that are reported on a communicator. More would be unreadable.
const maxReported = 1000

// news reports whether the choice of a form for a call is new, and so has to be reported, and records it. Calls are
// distinguished by their names.
func (s *state) news(c call, f Form) bool {
	choice := fmt.Sprint(c, f)
	if s.reported[choice] || len(s.reported) == maxReported {
		return false
	}
	s.reported[choice] = true
	return true
}

// report prints, on rank 0, a choice that is new for calls of this length, type, operation and options.
func (r *reduction) report(e *estimate) {
	if r.state.inside.Verbose && r.state.c.Rank == 0 && r.state.news(r.call, e.form) {
		r.state.c.Setup.Config.Note("treerun: " + e.words(r))
	}
}
