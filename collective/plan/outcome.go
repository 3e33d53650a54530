package plan

import (
	"fmt"
	"strings"
)

// stuck reports the tracks that have not finished as a deadlock: it follows
// who waits for whom from the first of them until it comes round or ends.
func (m *machine) stuck() error {
	first := -1
	for t := range m.tracks {
		if m.tracks[t].chunk < m.chunks {
			first = t
			break
		}
	}
	if first < 0 {
		return nil
	}
	seen := make([]int, len(m.tracks)) // 1 + place in chain
	var chain []string
	var order []int
	for t := first; ; {
		if i := seen[t] - 1; i >= 0 { // round: what led to the circle is not part of it
			e := m.fail(order[i], Deadlock, "waits for ever")
			e.Text = strings.Join(chain[i:], ", ")
			return e
		}
		seen[t] = len(chain) + 1
		text, next := m.waiting(t)
		chain = append(chain, text)
		order = append(order, t)
		if next < 0 {
			e := m.fail(t, Deadlock, "waits for ever")
			e.Text = strings.Join(chain, ", ")
			return e
		}
		t = next
	}
}

// waiting says as a clause what track t waits for, and returns the track that
// could help, -1 when none ever will.
func (m *machine) waiting(t int) (string, int) {
	r := &m.tracks[t]
	q := m.fifos[m.waitsFor(r)]
	other, peer, verb, missing := q.sender, q.src, "send", "sends to"
	if q.src == r.rank {
		other, peer, verb, missing = q.receiver, q.dst, "receive", "receives from"
	}
	text := fmt.Sprintf("rank %d waits in %q of chunk %d for rank %d to %s", r.rank, r.steps[r.pc], r.chunk, peer, verb)
	switch {
	case other < 0:
		return fmt.Sprintf("%s, which has no step that %s rank %d", text, missing, r.rank), -1
	case m.tracks[other].chunk == m.chunks:
		return text + ", which has finished", -1
	}
	return text, other
}

// result checks what is left when every track has finished.
func (m *machine) result() error {
	for _, q := range m.fifos {
		if n := len(q.inFlight); n > 0 {
			return m.wrong(LeftOver, q.dst, "%d chunks from rank %d were never taken", n, q.src)
		}
	}
	for t := range m.tracks {
		if r := &m.tracks[t]; r.tmp.symbol != nil && !r.tmp.used {
			return m.wrong(DeadStore, r.rank, "track %d stores a value in tmp that nobody reads", t)
		}
	}
	for c := range m.chunks {
		if err := m.checkResults(c); err != nil {
			return err
		}
	}
	return nil
}

// checkResults compares what every rank holds of a chunk with what the Kind
// promises. Ranks that got the result from one another share its symbol, which
// is looked at once.
func (m *machine) checkResults(chunk int) error {
	var right *symbol
	for r := range m.plan.Size {
		if m.role.out >= 0 && r != m.role.out {
			continue
		}
		if m.role.exchange {
			if err := m.checkExchange(chunk, r); err != nil {
				return err
			}
			continue
		}
		s := m.out[r*m.chunks+chunk].symbol
		if s == nil {
			return m.wrong(WrongResult, r, "chunk %d of out was never written", chunk)
		}
		if s == right {
			continue
		}
		for i := range m.plan.Size {
			want := uint32(1)
			if m.role.in >= 0 && i != m.role.in {
				want = 0
			}
			if n := s.times(i); n != want {
				return m.wrong(WrongResult, r, "chunk %d of out holds the input of rank %d %d times, want %d", chunk, i, n, want)
			}
		}
		right = s
	}
	return nil
}

// checkExchange looks at what rank r got from everybody.
func (m *machine) checkExchange(chunk, r int) error {
	n := m.plan.Size
	for from := range n {
		s := m.out[(r*m.chunks+chunk)*n+from].symbol
		if s == nil {
			return m.wrong(WrongResult, r, "chunk %d of part %d of out was never written", chunk, from)
		}
		if got := int(s.parts[0].rank); got != from*n+r { // no step of an exchange makes sums
			return m.wrong(WrongResult, r, "chunk %d of part %d of out holds part %d of rank %d, want part %d of rank %d", chunk, from, got%n, got/n, r, from)
		}
	}
	return nil
}

// wrong makes an error that belongs to a rank but to none of its steps.
func (m *machine) wrong(reason Reason, rank int, format string, args ...any) error {
	return &VerifyError{Plan: m.plan.Name, Reason: reason, Lane: m.lane, Rank: rank, Track: -1, Step: -1, InPlace: m.inPlace, Text: fmt.Sprintf(format, args...)}
}
