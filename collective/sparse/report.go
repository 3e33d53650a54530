package sparse

// maxReported bounds the choices that are reported on a communicator. More nobody wants to read.
const maxReported = 1000

// choice is a form that was chosen for a call.
type choice struct {
	call call
	form Form
}

// news reports whether a choice is to be reported, as it was not before, and notes that it
// is.
func (s *state) news(c choice) bool {
	if c.call.What == allReducePairs {
		c.call.Count = 0 // it is another one in every call
	}
	if s.reported[c] || len(s.reported) == maxReported {
		return false
	}
	s.reported[c] = true
	return true
}

// report tells people, on rank 0, of a choice that is new for calls of this length, type,
// operation and options.
func (r *reduction) report(e *estimate) {
	if r.c.Verbose && r.c.Rank == 0 && r.news(choice{r.call, e.form}) {
		r.c.Config.Note("treerun: " + e.words(r))
	}
}
