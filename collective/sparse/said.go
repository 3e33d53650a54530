package sparse

import (
	"fmt"
	"os"
)

// said is what people were told of the choices for calls: by call the form.
type said map[call]Form

// mostSaid bounds the calls that are remembered. Of more kinds nobody wants to read.
const mostSaid = 1000

// news reports whether the choice of a form for a call is one that people do not know, and
// notes that they do now. last: it is the last of which they will be told.
func (s *said) news(c call, f Form) (is, last bool) {
	if *s == nil {
		*s = make(said)
	}
	if c.what == allReducePairs {
		c.count = 0 // it is another one in every call
	}
	known, told := (*s)[c]
	if known == f && told || !told && len(*s) == mostSaid {
		return false, false
	}
	(*s)[c] = f
	return true, !told && len(*s) == mostSaid
}

// say tells people, on rank 0, of a choice that is new: the first one for a call with this
// length, type, operation and options, and every other one than before.
func (r *reduction) say(e *estimate) {
	if !r.c.Verbose || r.c.Rank != 0 {
		return
	}
	is, last := r.said.news(r.call, e.form)
	if is {
		fmt.Fprintf(os.Stderr, "treerun: %s", e.words(r))
	}
	if last {
		fmt.Fprintf(os.Stderr, "treerun: there are %d kinds of sparse calls: nothing is said of more\n", mostSaid)
	}
}
