package sparse

import (
	"fmt"
	"os"
)

// said is what people were told of the choices for calls.
type said map[call]*told

// told is what they know of a call.
type told struct {
	form  Form
	times int // they heard of it
}

// mostSaid bounds the calls of which people hear, and mostNews how often they hear of one
// whose form changes. More nobody wants to read.
const (
	mostSaid = 1000
	mostNews = 5
)

// news reports whether the choice of a form for a call is one that people do not know, and
// notes that they do now. end: what else to say, as they will not be told more.
func (s *said) news(c call, f Form) (is bool, end string) {
	if *s == nil {
		*s = make(said)
	}
	if c.what == allReducePairs {
		c.count = 0 // it is another one in every call
	}
	known := (*s)[c]
	switch {
	case known == nil && len(*s) == mostSaid, known != nil && (known.form == f || known.times == mostNews):
		return false, ""
	case known == nil:
		(*s)[c] = &told{form: f, times: 1}
		if len(*s) == mostSaid {
			end = fmt.Sprintf("treerun: there are %d kinds of sparse calls: nothing is said of more\n", mostSaid)
		}
		return true, end
	}
	known.form = f
	if known.times++; known.times == mostNews {
		end = "treerun: the form of this call changes with its blocks: nothing is said of further changes\n"
	}
	return true, end
}

// say tells people, on rank 0, of a choice that is new: the first one for a call with this
// length, type, operation and options, and every other one than before.
func (r *reduction) say(e *estimate) {
	if !r.c.Verbose || r.c.Rank != 0 {
		return
	}
	if is, end := r.said.news(r.call, e.form); is {
		fmt.Fprintf(os.Stderr, "treerun: %s%s", e.words(r), end)
	}
}
