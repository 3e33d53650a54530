package p2p

// messages is a list of messages, the oldest first.
type messages struct{ first, last *Message }

// push puts p behind the others.
func (m *messages) push(p *Message) {
	if m.last == nil {
		m.first = p
	} else {
		m.last.next = p
	}
	m.last = p
}

// removeDone removes those that are done, and forgets their memory.
func (m *messages) removeDone() {
	at := &m.first
	m.last = nil
	for p := m.first; p != nil; p = *at {
		if !p.done {
			m.last, at = p, &p.next
			continue
		}
		*at = p.next
		p.had, p.Buf, p.next = len(p.Buf), nil, nil // the caller's
	}
}

// any reports whether f is true for any of them.
func (m *messages) any(f func(p *Message) bool) bool {
	for p := m.first; p != nil; p = p.next {
		if f(p) {
			return true
		}
	}
	return false
}

// before returns the last Send before p to the same rank, nil without one or if p is no Send.
func (m *messages) before(p *Message) (before *Message) {
	for o := m.first; p.send && o != p && o != nil; o = o.next {
		if o.send && o.Peer == p.Peer {
			before = o
		}
	}
	return before
}
