package ring

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// ends is the protocol: the functions of this package, or those of a mutant.
type ends struct {
	bring    func(r *Receiver, l Line, into []byte, target uint64, from Reader) ([]byte, error)
	withdraw func(r *Receiver) bool
	help     func(l *Line, payload []byte, to Writer) bool
	pass     func(l *Line, payload []byte, to Writer) bool
}

var right = ends{(*Receiver).Bring, (*Receiver).Withdraw, (*Line).Help, (*Line).Pass}

// copyScene is the environment of the two ends.
type copyScene struct {
	pieces, messages, lines int
	event                   string // "", "abort", "sender dies", "receiver dies", "reads refused", "all refused"
	retarget                bool   // each call of Bring may have another target
	unplace                 bool   // the receiver may withdraw, and begin again
}

func (s copyScene) String() string {
	return fmt.Sprintf("%d pieces, %d messages on %d lines, %s, retarget %v, withdraw %v",
		s.pieces, s.messages, s.lines, s.event, s.retarget, s.unplace)
}

// copyWorld is one run: the memory that the ends share, and the accesses of a receiver and a sender in two processes to
// each other's memory.
type copyWorld struct {
	*Interleaving
	copyScene
	line      []sharedLine
	published []byte // by line: message + 1
	released  byte   // messages
	aborted   bool
	gone      [2]bool   // sender, receiver
	refused   [2]bool   // reads, writes
	window    [][]byte  // by line: of the slot
	unread    bool      // the sender: later payloads go through the window
	unwritten bool      // the sender: it does not help
	at        int       // the sender: the line of which it passes a part
	payload   [][]byte  // by message, in the sender's memory
	target    [][]byte  // by message and choice, in the receiver's memory
	closed    []bool    // by target: the caller has it back
	receiver  *Receiver // for the digest
}

// sharedLine is the memory of one Line.
type sharedLine struct {
	w      *copyWorld
	state  uint32
	target uint64
}

func (s *sharedLine) line() Line {
	return Line{State: (*stateWord)(s), Target: (*targetWord)(s), Pieces: s.w.pieces, Grain: 1,
		Part: partBytes}
}

// partBytes is the size of a window.
const partBytes = 1

type (
	stateWord  sharedLine
	targetWord sharedLine
)

func (s *stateWord) Load() uint32 {
	s.w.Step("load state")
	s.w.Saw(uint64(s.state))
	return s.state
}

func (s *stateWord) Store(v uint32) {
	s.w.Step("store state")
	s.w.Saw(uint64(v))
	s.state = v
}

func (s *stateWord) CompareAndSwap(old, next uint32) bool {
	s.w.Step("swap state")
	if s.state != old {
		s.w.Saw(0)
		return false
	}
	s.w.Saw(uint64(next))
	s.state = next
	return true
}

func (a *targetWord) Load() uint64 {
	a.w.Step("load target")
	a.w.Saw(a.target)
	return a.target
}

func (a *targetWord) Store(v uint64) {
	a.w.Step("store target")
	a.w.Saw(v)
	a.target = v
}

// choices is how many targets a message has.
const choices = 2

// address returns the address that a receiver publishes for a target.
func address(target int) uint64 { return uint64(target+1) * 16 }

func bytesOf(message, pieces int) []byte {
	b := make([]byte, pieces)
	for i := range b {
		b[i] = byte(16*(message+1) + i)
	}
	return b
}

// program is the copyScene, played by these ends.
func (s copyScene) program(e ends) Program {
	return func(x *Interleaving) {
		w := &copyWorld{Interleaving: x, copyScene: s, line: make([]sharedLine, s.lines), published: make([]byte, s.lines),
			receiver: &Receiver{}}
		for i := range w.line {
			w.line[i].w = w
			w.window = append(w.window, make([]byte, partBytes))
		}
		for m := range s.messages {
			w.payload = append(w.payload, bytesOf(m, s.pieces))
			for range choices {
				w.target = append(w.target, make([]byte, s.pieces))
			}
		}
		w.closed = make([]bool, len(w.target))
		x.State(w.digest)
		sending := x.Go("sender", func() { w.send(e) })
		receiving := x.Go("receiver", func() { w.receive(e) })
		switch s.event {
		case "abort":
			x.Event("abort", func() { w.aborted = true })
		case "sender dies":
			x.Event("death", func() { w.die(0, sending) })
		case "receiver dies":
			x.Event("death", func() { w.die(1, receiving) })
		case "reads refused":
			x.Event("refusal", func() { w.refused[0] = true })
		case "all refused":
			x.Event("refusal", func() { w.refused = [2]bool{true, true} })
		}
	}
}

// die ends a thread as a process ends; a fault follows.
func (w *copyWorld) die(which int, t *Thread) {
	w.Kill(t)
	w.gone[which] = true
	w.Step("fault")
	w.aborted = true
}

func (w *copyWorld) digest(b []byte) []byte {
	for i := range w.line {
		b = binary.NativeEndian.AppendUint32(b, w.line[i].state)
		b = binary.NativeEndian.AppendUint64(b, w.line[i].target)
	}
	b = append(append(b, w.published...), w.released, byte(w.receiver.taken), byte(w.receiver.copied),
		byte(w.receiver.parts))
	for _, is := range append(w.closed, w.aborted, w.gone[0], w.gone[1], w.refused[0], w.refused[1], w.unread,
		w.unwritten, w.receiver.refused, w.receiver.passes) {
		b = append(b, byte(number(is)))
	}
	for _, m := range [][][]byte{w.payload, w.target, w.window} {
		for _, p := range m {
			b = append(b, p...)
		}
	}
	return b
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

func (w *copyWorld) hasFault() bool {
	w.Step("load fault")
	w.Saw(uint64(number(w.aborted)))
	return w.aborted
}

// send posts all messages as lines become free, and helps until all are released. Released payloads are overwritten at
// once.
func (w *copyWorld) send(e ends) {
	posted, back := 0, 0
	for back < w.messages {
		w.Forget("send", posted, back)
		if w.hasFault() {
			return
		}
		w.Step("load released")
		w.Saw(uint64(w.released))
		for free := int(w.released); back < free; back++ {
			w.Step("reuse payload")
			for i := range w.payload[back] {
				w.payload[back][i] = 0xEE
			}
		}
		if posted < w.messages && posted-back < w.lines {
			l := w.line[posted%w.lines].line()
			if w.at = posted % w.lines; w.unread {
				w.Fill(w.payload[posted][:min(partBytes, w.pieces)])
				l.PostPart()
			} else {
				l.Post(!w.unwritten)
			}
			w.Step("publish")
			w.published[posted%w.lines] = byte(posted + 1)
			posted++
		}
		for m := back; m < posted; m++ {
			l := w.line[m%w.lines].line()
			w.at = m % w.lines
			if (w.refused[0] || w.unread) && e.pass(&l, w.payload[m], w) {
				w.unread = true
				break
			}
			if w.unwritten {
				continue
			}
			if e.help(&l, w.payload[m], w) {
				break
			}
		}
	}
}

func (w *copyWorld) Aborted() bool { return w.hasFault() }

// refuses reports whether reads (0) or writes (1) are refused.
func (w *copyWorld) refuses(which int) bool {
	if w.event != "reads refused" && w.event != "all refused" {
		return false
	}
	w.Step("ask the system")
	w.Saw(uint64(number(w.refused[which])))
	return w.refused[which]
}

// Fill copies to the window of a line.
func (w *copyWorld) Fill(b []byte) {
	for i := range b {
		w.Step("fill")
		w.window[w.at][i] = b[i]
	}
}

// Write copies to one of the targets.
func (w *copyWorld) Write(target uint64, b []byte) bool {
	if w.refuses(1) {
		w.unwritten = true
		return false
	}
	for i := range b {
		w.Step("write")
		if w.gone[1] {
			w.Saw(0)
			return false
		}
		w.Saw(target + uint64(i))
		t, at := int(target/16)-1, int(target%16)+i
		if t < 0 || t >= len(w.target) || at >= w.pieces {
			w.Fail("written to %d, where no target is", target)
		}
		if w.closed[t] {
			w.Fail("written to target %d after its call has returned", t)
		}
		w.target[t][at] = b[i]
	}
	return true
}

// from is the Reader of a message.
type from struct {
	*copyWorld
	message int
}

func (f from) Read(b []byte, at int) (bool, error) {
	if f.refuses(0) {
		return false, ErrRefused
	}
	for i := range b {
		f.Step("read")
		v := f.payload[f.message][at+i]
		f.Saw(uint64(v))
		if f.gone[0] {
			f.Saw(0)
			return false, nil
		}
		f.Saw(1)
		b[i] = v
	}
	return true, nil
}

// Take copies from the window of the message's line.
func (f from) Take(b []byte) {
	for i := range b {
		f.Step("take")
		b[i] = f.window[f.message%f.lines][i]
		f.Saw(uint64(b[i]))
	}
}

// receive takes all messages, and checks their contents.
func (w *copyWorld) receive(e ends) {
	for m := range w.messages {
		line := m % w.lines
		for {
			w.Forget("peek", m)
			if w.hasFault() {
				return
			}
			w.Step("load publication")
			w.Saw(uint64(w.published[line]))
			if w.published[line] == byte(m+1) {
				break
			}
		}
		got := w.take(e, m, line)
		if got == nil {
			return
		}
		if want := bytesOf(m, w.pieces); !bytes.Equal(got, want) {
			w.Fail("message %d is %x, want %x", m, got, want)
		}
		w.back(m)
		*w.receiver = Receiver{}
		w.Step("release")
		w.released++
	}
}

// back gives the targets of a message back to the caller.
func (w *copyWorld) back(m int) {
	for c := range choices {
		w.closed[choices*m+c] = true
	}
}

// take brings a message; it returns nil after a fault.
func (w *copyWorld) take(e ends, m, line int) []byte {
	r := w.receiver
	first := 0
	for {
		w.Forget("take", m, number(r.Target() != nil), first)
		if w.hasFault() {
			break
		}
		target := choices * m
		if w.retarget {
			target += w.Choose("target", choices)
		}
		if r.Target() == nil {
			first = target
		}
		got, err := e.bring(r, w.line[line].line(), w.target[target], address(target), from{w, m})
		if err != nil {
			w.Fail("message %d: %v", m, err)
		}
		if got != nil {
			return got
		}
		if w.unplace && !w.aborted && w.Choose("withdraw", 2) == 1 {
			w.await(e, m)
			first = 0
		}
	}
	w.await(e, m)
	w.back(m)
	return nil
}

// await withdraws the offered target of a message, until that is done, or the sender has ended.
func (w *copyWorld) await(e ends, m int) {
	for {
		w.Forget("await", m)
		if e.withdraw(w.receiver) {
			return
		}
		w.Step("look at the sender")
		w.Saw(uint64(number(w.gone[0])))
		if w.gone[0] {
			*w.receiver = Receiver{}
			return
		}
	}
}
