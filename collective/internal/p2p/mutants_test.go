package p2p

import (
	"slices"
	"testing"

	"github.com/treerun/treerun/internal/call"
)

// movedTarget is an inbox whose target is new on every poll, while a sender copies to the first: a former bug.
type movedTarget struct {
	inbox
	latest []byte
}

func (m *movedTarget) place(id call.ID, n int) ([]byte, error) {
	_, err := m.inbox.place(id, n)
	m.latest = make([]byte, n)
	return m.latest, err
}

func (m *movedTarget) arrived() {
	copy(m.target, m.latest)
	m.inbox.arrived()
}

// followedReceive is an inbox whose target becomes the receive's buffer once that is posted.
type followedReceive struct{ inbox }

func (m *followedReceive) place(id call.ID, n int) ([]byte, error) {
	if m.bringing && m.arriving.receive != nil {
		p := m.arriving.receive
		m.target = p.Buf[p.moved : p.moved+n]
	}
	return m.inbox.place(id, n)
}

// latestFirst is an inbox that gives a message to the receive that was posted last.
type latestFirst struct{ inbox }

func (m *latestFirst) post(p *Message) error {
	before := len(m.posted)
	err := m.inbox.post(p)
	if len(m.posted) > before {
		m.posted = slices.Insert(m.posted[:before], 0, p)
	}
	return err
}

// newestFirst is an inbox whose receives take the unexpected message that came last.
type newestFirst struct{ inbox }

func (m *newestFirst) post(p *Message) error {
	slices.Reverse(m.unexpected)
	err := m.inbox.post(p)
	slices.Reverse(m.unexpected)
	return err
}

// wholeOnly is an inbox that forgets that the rest of an unexpected message is still to come.
type wholeOnly struct{ inbox }

func (m *wholeOnly) post(p *Message) error {
	err := m.inbox.post(p)
	p.done = p.done || p.moved > 0
	return err
}

// readsNothing is an inbox that takes nothing in for which no receive was posted.
type readsNothing struct{ inbox }

func (m *readsNothing) open() bool {
	return m.inbox.open() && len(m.unexpected) == 0
}

// inTurn is a Pool of two slots that are taken in turn: a former bug.
type inTurn struct {
	slots  [2]Slot
	number uint64
}

func (p *inTurn) add(m Message) (Ref, bool) {
	f := &p.slots[(p.number+1)%2]
	if f.number > 0 && !f.done {
		return Ref{}, false
	}
	p.number++
	f.Message, f.number = m, p.number
	return Ref{f, p.number}, true
}

// overwritten is inTurn without a check whether the message is done.
type overwritten struct{ inTurn }

func (p *overwritten) add(m Message) (Ref, bool) {
	p.slots[(p.number+1)%2].done = true
	return p.inTurn.add(m)
}

// unnumbered is a Pool whose messages forget that they are done when their slot is used again.
type unnumbered struct{ Pool }

func (p *unnumbered) add(m Message) (Ref, bool) {
	ref := p.Add(&m)
	ref.Slot.number, ref.Number = 1, 1
	if len(p.slots) > 2 {
		p.slots = p.slots[:2]
	}
	return ref, true
}

// TestMatchingMutants: the explorer finds every fault that is put in on purpose, those that
// were there among them.
func TestMatchingMutants(t *testing.T) {
	boxed := func(box matcher, inner *inbox) *twoRanks {
		return &twoRanks{box: box, real: inner, pool: &realPool{}}
	}
	pooled := func(pool holder) *twoRanks {
		box := &inbox{}
		return &twoRanks{box: box, real: box, pool: pool}
	}
	for name, begin := range map[string]func() *twoRanks{
		"a new target on every poll":            func() *twoRanks { m := &movedTarget{}; return boxed(m, &m.inbox) },
		"the target follows the receive":        func() *twoRanks { m := &followedReceive{}; return boxed(m, &m.inbox) },
		"the receive that was posted last":      func() *twoRanks { m := &latestFirst{}; return boxed(m, &m.inbox) },
		"the unexpected message that came last": func() *twoRanks { m := &newestFirst{}; return boxed(m, &m.inbox) },
		"the rest of a message is forgotten":    func() *twoRanks { m := &wholeOnly{}; return boxed(m, &m.inbox) },
		"an unexpected message stops the link":  func() *twoRanks { m := &readsNothing{}; return boxed(m, &m.inbox) },
		"slots in turn":                         func() *twoRanks { return pooled(&inTurn{}) },
		"slots in turn, open or not":            func() *twoRanks { return pooled(&overwritten{}) },
		"slots without numbers":                 func() *twoRanks { return pooled(&unnumbered{}) },
	} {
		if err := everyScenario(func(s *scenario) error {
			_, err := explore(s, begin)
			return err
		}); err == nil {
			t.Errorf("%s: not found", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}
