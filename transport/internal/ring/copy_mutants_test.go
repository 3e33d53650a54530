package ring

import (
	"testing"
)

// copyMutants are faulty protocols. The exploration finds each.
var copyMutants = map[string]ends{
	// A piece counts before it was copied: after the death of the sender old data was returned.
	"counts before the copy": {bring: func(r *Receiver, l Line, into []byte, target uint64, from Reader) ([]byte, error) {
		got, err := r.Bring(l, into, target, from)
		if got == nil && err == nil {
			r.copied |= r.taken
			return r.whole()
		}
		return got, err
	}},
	// Each call has its own target, and the sender still has the first.
	"new target on a retry": {bring: func(r *Receiver, l Line, into []byte, target uint64, from Reader) ([]byte, error) {
		if r.Target() != nil {
			r.into = into
		}
		return r.Bring(l, into, target, from)
	}},
	"offers before the target": {bring: func(r *Receiver, l Line, into []byte, target uint64, from Reader) ([]byte,
		error) {
		if r.Target() == nil {
			l.State.Store(willing | open | open<<stateBits | open<<(2*stateBits))
			l.Target.Store(target)
			*r = Receiver{line: l, into: into}
		}
		return r.Bring(l, into, target, from)
	}},
	"does not wait for the sender": {withdraw: func(r *Receiver) bool { r.Withdraw(); *r = Receiver{}; return true }},
	"withdraws nothing":            {withdraw: func(r *Receiver) bool { *r = Receiver{}; return true }},
	"claims with a store": {help: func(l *Line, payload []byte, to Writer) bool {
		plain := *l
		plain.State = storing{l.State}
		return plain.Help(payload, to)
	}},
	"is done before the copy": {help: func(l *Line, payload []byte, to Writer) bool {
		return l.Help(payload, early{to, l})
	}},
	"is filled before the copy": {pass: func(l *Line, payload []byte, to Writer) bool {
		return l.Pass(payload, hasty{to, l})
	}},
	// The number of a part looks like pieces that are open.
	"claims a part": {help: func(l *Line, payload []byte, to Writer) bool {
		claims := *l
		claims.State = unmarked{l.State}
		return claims.Help(payload, to)
	}},
	"keeps its claim": {help: func(l *Line, payload []byte, to Writer) bool {
		claims := *l
		claims.State = keeping{l.State}
		return claims.Help(payload, to)
	}},
}

// storing is a Word whose CompareAndSwap is a load and a store.
type storing struct{ Word }

func (s storing) CompareAndSwap(old, next uint32) bool {
	if s.Load() != old {
		return false
	}
	s.Store(next)
	return true
}

// early is a Writer that marks all pieces as done before it writes.
type early struct {
	Writer
	l *Line
}

func (e early) Write(target uint64, b []byte) bool {
	for i := range e.l.Pieces {
		e.l.move(i, claimed, done)
	}
	return e.Writer.Write(target, b)
}

// hasty is a Writer that marks the window as filled before it is.
type hasty struct {
	Writer
	l *Line
}

func (h hasty) Fill(b []byte) {
	w := h.l.State.Load()
	h.l.State.CompareAndSwap(w, w|filled)
	h.Writer.Fill(b)
}

// unmarked is a Word without the mark that its payload passes through the window.
type unmarked struct{ Word }

func (u unmarked) Load() uint32 { return u.Word.Load() &^ passing }

func (u unmarked) CompareAndSwap(old, next uint32) bool {
	if w := u.Word.Load(); w&^passing == old {
		return u.Word.CompareAndSwap(w, w&passing|next)
	}
	return false
}

// keeping is a Word that refuses to release a claim.
type keeping struct{ Word }

func (k keeping) CompareAndSwap(old, next uint32) bool {
	for i := range 3 {
		if stateOf(old, i) == claimed && stateOf(next, i) == open {
			return true
		}
	}
	return k.Word.CompareAndSwap(old, next)
}

// TestCopyMutants checks that the exploration finds the fault of each.
func TestCopyMutants(t *testing.T) {
	for name, m := range copyMutants {
		e := right
		if m.bring != nil {
			e.bring = m.bring
		}
		if m.withdraw != nil {
			e.withdraw = m.withdraw
		}
		if m.help != nil {
			e.help = m.help
		}
		if m.pass != nil {
			e.pass = m.pass
		}
		t.Run(name, func(t *testing.T) {
			for _, s := range copyScenes() {
				if n, err := Explore(s.program(e), copyMaxStates); err != nil {
					t.Logf("%v: after %d states: %v", s, n, err)
					return
				}
			}
			t.Error("not found")
		})
	}
}
