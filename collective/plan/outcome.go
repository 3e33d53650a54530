package plan

import (
	"fmt"
	"slices"
	"strings"
)

// stuck reports the tracks that have not finished as a deadlock: it follows the chain of waiting tracks from the first
// of them until it closes a circle or ends.
func (m *machine) stuck() error {
	first := slices.IndexFunc(m.tracks, func(r runner) bool { return r.chunk < m.chunks })
	if first < 0 {
		return nil
	}
	seen := make([]int, len(m.tracks)) // 1 + place in chain
	var chain []string
	var order []int
	circle := false
	for t := first; t >= 0; {
		if i := seen[t] - 1; i >= 0 { // round: the tracks before the circle are not part of it
			chain, order, circle = chain[i:], order[i:], true
			break
		}
		seen[t] = len(chain) + 1
		text, next := m.waiting(t)
		chain, order = append(chain, text), append(order, t)
		t = next
	}
	t := order[0]
	if !circle {
		t = order[len(order)-1]
	}
	_, step := m.waitsFor(&m.tracks[t])
	e := m.fail(stepAt{int32(t), step}, Deadlock, "waits forever")
	if more := len(chain) - maxClauses; more > 1 { // the last one contains the end
		chain = slices.Replace(chain, maxClauses-1, len(chain)-1, fmt.Sprintf("and so on over %d more", more))
	}
	e.Text = strings.Join(chain, ", ")
	return e
}

// maxClauses is the largest number of waiting tracks that an error lists.
const maxClauses = 8

// waiting returns a clause that describes the wait of track t, and the track that could end it, -1 when none ever will.
func (m *machine) waiting(t int) (string, int) {
	r := &m.tracks[t]
	f, step := m.waitsFor(r)
	q := m.fifos[f]
	other, peer, verb, missing := int(q.Sender), q.Src, "send", "sends to"
	if int(q.Src) == r.Rank {
		other, peer, verb, missing = int(q.Receiver), q.Dst, "receive", "receives from"
	}
	text := fmt.Sprintf("rank %d waits in %q (track %d, step %d) of chunk %d for rank %d to %s", r.Rank,
		r.Steps[step], t, step, r.chunk, peer, verb)
	switch {
	case other < 0:
		return fmt.Sprintf("%s, which has no step that %s rank %d", text, missing, r.Rank), -1
	case m.tracks[other].chunk == m.chunks:
		return text + ", which has finished", -1
	}
	return text, other
}

// checkResults compares every rank's result for a chunk, when every track has finished, with that of the Kind. Ranks
// that got the result from one another share its symbol, which is checked once. No FIFO holds anything then: if a
// sender had more steps than the receiver has, more chunks would be left than there are slots. Nor is there a value in
// tmp that no step reads: the next chunk's would have overwritten it.
func (m *machine) checkResults(chunk int) error {
	var right *symbol
	for r := range m.plan.Size {
		if m.role.out >= 0 && r != m.role.out || m.plan.Kind == ExScan && r == 0 {
			continue
		}
		if m.role.exchange {
			if err := m.checkExchange(chunk, r); err != nil {
				return err
			}
			continue
		}
		c := &m.out[r*m.chunks+chunk]
		if c.symbol == nil || c.stored.track < 0 { // in place, the input is there
			return m.wrong(WrongResult, r, "no step stores its result in out")
		}
		if c.symbol == right {
			continue
		}
		for i := range m.plan.Size {
			want := uint32(1)
			if m.role.in >= 0 && i != m.role.in || m.plan.Kind.Scans() && i > r || m.plan.Kind == ExScan && i == r {
				want = 0
			}
			switch n := c.symbol.times(i); {
			case n == want:
			case n == 0:
				return m.wrongAt(c, WrongResult, "lacks the input of rank %d", i)
			case want == 0:
				return m.wrongAt(c, WrongResult, "holds the input of rank %d, which does not belong there", i)
			default:
				return m.wrongAt(c, WrongResult, "holds the input of rank %d %d times", i, n)
			}
		}
		if m.sum != nil && m.role.in < 0 && !c.symbol.same(m.sum) {
			return m.wrongAt(c, Unstable, "is %v: want %v", c.symbol, m.sum)
		}
		right = c.symbol
	}
	return nil
}

// checkExchange checks the parts that rank r got from all ranks.
func (m *machine) checkExchange(chunk, r int) error {
	n := m.plan.Size
	for from := range n {
		c := &m.out[(r*m.chunks+chunk)*n+from]
		if c.symbol == nil || c.stored.track < 0 {
			return m.wrong(WrongResult, r, "no step stores part %d of its result in out", from)
		}
		if got := int(c.symbol.parts[0].rank); got != from*n+r { // no step of an exchange makes sums
			return m.wrongAt(c, WrongResult, "is part %d of rank %d, want part %d of rank %d", got%n, got/n, r, from)
		}
	}
	return nil
}

// wrongAt makes the error about a result: the step is that which stored it, or
// which made the sum that others only handed on.
func (m *machine) wrongAt(c *cell, reason Reason, format string, args ...any) error {
	at, verb := c.stored.stepAt, "stores"
	if c.symbol.made != nowhere {
		at, verb = c.symbol.made, "makes"
	}
	which := "its result"
	if rank := m.tracks[c.stored.track].Rank; rank != m.tracks[at.track].Rank {
		which = fmt.Sprintf("the result of rank %d", rank)
	}
	return m.failAt(at, reason, "%s %s, which "+format, append([]any{verb, which}, args...)...)
}

// wrong makes an error that belongs to a rank but to none of its steps.
func (m *machine) wrong(reason Reason, rank int, format string, args ...any) error {
	e := m.plan.fail(m.lane, -1, -1, reason, format, args...)
	e.Rank = rank
	return e
}
