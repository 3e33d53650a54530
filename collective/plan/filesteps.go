package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MarshalText gives the rank and its steps as Step.String writes them, as in
// "1: to 0 = in; out = from 0".
func (t Track) MarshalText() ([]byte, error) {
	b := append(strconv.AppendInt(nil, int64(t.Rank), 10), ':')
	for j, s := range t.Steps {
		if j > 0 {
			b = append(b, ';')
		}
		b = s.appendTo(append(b, ' '))
	}
	return b, nil
}

// UnmarshalText takes what MarshalText gives, and nothing else.
func (t *Track) UnmarshalText(text []byte) error {
	label, rest, ok := strings.Cut(string(text), ": ")
	rank, valid := rankIn(label)
	if !ok || !valid {
		return fmt.Errorf("%.40q does not begin with a rank and its steps, as in %q", text, "1: to 0 = in; out = from 0")
	}
	steps := strings.Split(rest, "; ")
	*t = Track{Rank: int(rank), Steps: make([]Step, len(steps))}
	for i, step := range steps {
		var err error
		if t.Steps[i], err = parseStep(step); err != nil {
			return fmt.Errorf("rank %d, step %d: %w", rank, i, err)
		}
	}
	return nil
}

// parseStep reads what Step.String writes, and nothing else.
func parseStep(text string) (Step, error) {
	s := Step{From: -1, To: -1}
	var want uses
	made, of, _ := strings.Cut(text, " = ")
	for _, term := range strings.Split(made, ", ") {
		want.to = parseTerm(term, "to ", &s.Dst, &s.To) || want.to
	}
	terms := strings.Split(of, " + ")
	for _, term := range terms {
		want.from = parseTerm(term, "from ", &s.Src, &s.From) || want.from
	}
	want.src, want.dst, want.acc = s.Src != None, s.Dst != None, len(terms) > 1 && !want.from
	s.Op = Op(max(0, slices.Index(opUses[:], want)))
	if s.String() != text { // whatever was read wrongly, or not at all
		return s, fmt.Errorf("%.60q is no step: want one as %q, %q, %q or %q", text,
			"to 2 = in", "out = from 3", "tmp = in + from 3", "out, to 2 = out + from 3")
	}
	return s, nil
}

// parseTerm reads a rank behind the word, which it reports, or the name of a buffer.
func parseTerm(term, word string, b *Buf, rank *int32) bool {
	peer, ok := strings.CutPrefix(term, word)
	if ok {
		*rank, _ = rankIn(peer)
	} else if i := slices.Index(bufNames[:], term); i > 0 {
		*b = Buf(i)
	}
	return ok
}

// rankIn returns the rank that text, a number in its shortest form, says.
func rankIn(text string) (int32, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}
