package sparse

import "fmt"

// maxReported bounds the choices that are reported on a communicator. More nobody wants to read.
const maxReported = 1000

// news reports whether it is to be reported that a form was chosen for a call, as it was not before, and notes that it
// is. Calls are told apart by their names.
func (s *state) news(c call, f Form) bool {
	choice := fmt.Sprint(c, f)
	if s.reported[choice] || len(s.reported) == maxReported {
		return false
	}
	s.reported[choice] = true
	return true
}

// report tells people, on rank 0, of a choice that is new for calls of this length, type,
// operation and options.
func (r *reduction) report(e *estimate) {
	if r.c.Verbose && r.c.Rank == 0 && r.news(r.call, e.form) {
		r.c.Config.Note("treerun: " + e.words(r))
	}
}
