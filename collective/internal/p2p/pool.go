package p2p

// Pool has the memory of the messages that a rank has begun, for use again. The number of messages under way is not
// limited: there are as many slots as were ever used at once.
type Pool struct {
	slots  []*Slot
	next   int    // where the search for a free message continues
	number uint64 // of the latest message
}

// Slot is the memory of a message. It is free when that is done. A later query for that message finds the number of
// another one.
type Slot struct {
	Message
	number uint64 // 0: it has had none
}

// Ref names a message of a Pool, also after its slot was used again. The zero value is done.
type Ref struct {
	Slot   *Slot
	Number uint64
}

// Done reports whether the message is done.
func (r Ref) Done() bool { return r.Slot == nil || r.Slot.number != r.Number || r.Slot.Done() }

// Message returns the message. Precondition: it is not done, or none was added since it was.
func (r Ref) Message() *Message { return &r.Slot.Message }

// Add gives a copy of a message a slot.
func (s *Pool) Add(p *Message) Ref {
	slot := s.free()
	s.number++
	slot.Message, slot.number = *p, s.number
	return Ref{slot, s.number}
}

// UnderWay returns a message that is not done, nil without one.
func (s *Pool) UnderWay() *Message {
	for _, f := range s.slots {
		if f.number != 0 && !f.Done() {
			return &f.Message
		}
	}
	return nil
}

func (s *Pool) free() *Slot {
	for range s.slots {
		s.next = (s.next + 1) % len(s.slots)
		if f := s.slots[s.next]; f.number == 0 || f.done {
			return f
		}
	}
	s.next = len(s.slots)
	more := make([]Slot, max(8, len(s.slots)))
	for i := range more {
		s.slots = append(s.slots, &more[i])
	}
	return s.slots[s.next]
}
