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

// before returns the one before p, nil if p is the oldest.
func (m *messages) before(p *Message) (before *Message) {
	for o := m.first; o != p; o = o.next {
		before = o
	}
	return before
}

// remove ends and removes p, which is behind before, nil if it is the oldest.
func (m *messages) remove(p, before *Message) {
	if before == nil {
		m.first = p.next
	} else {
		before.next = p.next
	}
	if m.last == p {
		m.last = before
	}
	p.end()
}
