package waits

import "slices"

// Scope is a set of ranks that make calls together, as in a communicator.
type Scope struct {
	Name  string // in reports; "" for the World
	ranks []int  // of the scope by their numbers in the job; nil if the numbers are the same
}

// inJob returns the number in the job of a rank of the scope.
func (s *Scope) inJob(r int) int {
	if s.ranks == nil || r < 0 || r >= len(s.ranks) {
		return r
	}
	return s.ranks[r]
}

// Index returns the number in the scope of a rank of the job, -1 if it is not a member.
func (s *Scope) Index(r int) int {
	if s.ranks == nil {
		return r
	}
	return slices.Index(s.ranks, r)
}

// place returns in, followed by the name of the scope if it has one.
func place(in, scope string) string {
	if scope == "" {
		return in
	}
	return in + " on " + scope
}
