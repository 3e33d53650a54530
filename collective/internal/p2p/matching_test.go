package p2p

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// The explorer below tries every order in which two ranks can take their steps for up to three messages: rank 0 puts
// their chunks on a link of few slots, rank 1 posts its receives in any order and polls, and rank 0 copies its half of
// a chunk to the target that rank 1 had for it when it saw it first. An oracle that only counts determines the message
// that a receive must get.

// matcher is an inbox, or a mutant.
type matcher interface {
	post(*Message) error
	open() bool
	place(call.ID, int) ([]byte, error)
	arrived()
}

// holder is a Pool, or a mutant. False: no slot, now.
type holder interface{ add(Message) (Ref, bool) }

type realPool struct{ Pool }

func (p *realPool) add(m Message) (Ref, bool) { return p.Add(&m), true }

// sentMessage is a message from rank 0: chunks of two bytes, or one of none.
type sentMessage struct {
	tag    int32
	chunks int
}

// scenario is the set of steps of both ranks, without their order. Receive i is for the tag of message receives[i], or
// for any tag if bit i of wild is set.
type scenario struct {
	messages []sentMessage
	receives []int
	wild     int
	slots    int // of the link
}

// chunkOf is a chunk on the link.
type chunkOf struct{ message, chunk int }

// twoRanks is the state of both ranks and of the link.
type twoRanks struct {
	*scenario
	box      matcher
	real     *inbox // of box
	pool     holder
	refs     []Ref
	bufs     [][]byte // of receives
	next     chunkOf  // to be sent
	link     []chunkOf
	offered  []byte // where the oldest chunk's first half goes
	claimed  bool   // rank 1 has brought the second half, and offered the first
	written  bool   // rank 0 has brought the first
	retries  int    // polls that found the first half missing
	finished []bool // receives
}

// An event is a step of one of the ranks.
type event byte

const (
	send  event = iota // rank 0 puts a chunk on the link
	write              // rank 0 brings its half of the oldest one
	poll               // rank 1 polls
	post               // rank 1 posts its next receive
	events
)

func (s *scenario) chunk(c chunkOf) []byte {
	if s.messages[c.message].chunks == 0 {
		return nil
	}
	first := byte(16*c.message + 2*c.chunk + 1)
	return []byte{first, first + 1}
}

func (s *scenario) id(i int) call.ID {
	m := s.messages[i]
	return call.ID{Kind: call.Message, Count: uint64(2 * m.chunks), DType: kernel.Uint8, Tag: m.tag}
}

// wanted is the oracle: the message that receive i must get, -1 for none. The receives take, in
// the order of posting, the first message of their tag that is left. Whether messages come before
// or after that makes no difference.
func (s *scenario) wanted(i int) int {
	taken := make(map[int]bool)
	for j := range s.receives {
		got := -1
		for m := len(s.messages) - 1; m >= 0; m-- {
			if !taken[m] && (s.wild>>j&1 == 1 || s.messages[m].tag == s.messages[s.receives[j]].tag) {
				got = m
			}
		}
		if j == i {
			return got
		}
		taken[got] = true
	}
	panic("no such receive")
}

func (w *twoRanks) can(e event) bool {
	switch e {
	case send:
		return w.next.message < len(w.messages) && len(w.link) < w.slots
	case write:
		return w.claimed && !w.written
	case poll:
		return w.box.open() && len(w.link) > 0 && (!w.claimed || w.written || w.retries == 0)
	}
	return len(w.refs) < len(w.receives)
}

func (w *twoRanks) do(e event) error {
	switch e {
	case send:
		w.link = append(w.link, w.next)
		if w.next.chunk++; w.next.chunk >= w.messages[w.next.message].chunks {
			w.next = chunkOf{w.next.message + 1, 0}
		}
	case write:
		copy(w.offered, w.chunk(w.link[0])[:1])
		w.written = true
	case poll:
		return w.poll()
	case post:
		return w.post()
	}
	return nil
}

// post posts the next receive. Its length is that of the message it must get.
func (w *twoRanks) post() error {
	i := len(w.refs)
	m := w.messages[w.receives[i]]
	if got := w.wanted(i); got >= 0 {
		m.chunks = w.messages[got].chunks
	}
	if w.wild>>i&1 == 1 {
		m.tag = AnyTag
	}
	buf := make([]byte, 2*m.chunks)
	ref, ok := w.pool.add(Message{Tag: m.tag, DType: kernel.Uint8, Buf: buf})
	if !ok {
		return fmt.Errorf("receive %d cannot be posted: no slot is free", i)
	}
	w.refs, w.bufs, w.finished = append(w.refs, ref), append(w.bufs, buf), append(w.finished, false)
	return w.box.post(ref.Message())
}

// poll does the same as receive and segment's bring.
func (w *twoRanks) poll() error {
	c := w.link[0]
	chunk := w.chunk(c)
	target, err := w.box.place(w.id(c.message), len(chunk))
	if err != nil {
		return err
	}
	if len(chunk) > 0 {
		if !w.claimed {
			w.claimed, w.offered = true, target[:1]
			copy(target[1:], chunk[1:])
		}
		if !w.written {
			w.retries++
			return nil
		}
	}
	w.box.arrived()
	w.link, w.offered, w.claimed, w.written, w.retries = w.link[1:], nil, false, false, 0
	return nil
}

// check compares the receives that are done with the oracle.
func (w *twoRanks) check() error {
	for i, ref := range w.refs {
		if w.finished[i] && !ref.Done() {
			return fmt.Errorf("receive %d was done and is no longer", i)
		}
		if !ref.Done() || w.finished[i] {
			continue
		}
		w.finished[i] = true
		m := w.wanted(i)
		if m < 0 {
			return fmt.Errorf("receive %d got %v, want nothing", i, w.bufs[i])
		}
		var want []byte
		for c := range w.messages[m].chunks {
			want = append(want, w.chunk(chunkOf{m, c})...)
		}
		if !bytes.Equal(w.bufs[i], want) {
			return fmt.Errorf("receive %d got %v, want message %d, %v", i, w.bufs[i], m, want)
		}
	}
	if w.can(send) || w.can(write) || w.can(poll) {
		return nil
	}
	for i := range w.refs {
		if w.finished[i] || w.wanted(i) < 0 {
			continue
		}
		return fmt.Errorf("receive %d waits, and nothing more can happen without another one", i)
	}
	return nil
}

// key returns a string that differs between states.
func (w *twoRanks) key() string {
	b := []byte{byte(w.next.message), byte(w.next.chunk), byte(len(w.link)), byte(w.retries), flags(w.claimed, w.written)}
	for i, ref := range w.refs {
		b = append(append(b, flags(true, ref.Done(), w.finished[i])), w.bufs[i]...)
		if !ref.Done() {
			b = append(b, byte(ref.Message().moved))
		}
	}
	in := w.real
	b = append(b, 0xff, flags(in.bringing, in.arriving == &in.direct), byte(len(in.posted)), byte(len(in.unexpected)))
	for _, a := range in.unexpected {
		b = append(append(b, byte(a.id.Tag), flags(a == in.arriving), byte(len(a.buf))), a.buf[:cap(a.buf)]...)
	}
	if in.arriving != nil && in.arriving.receive != nil { // it may have become that of an unexpected message
		b = append(append(b, byte(in.arriving.id.Tag), byte(len(in.arriving.buf))), in.target...)
	}
	return string(b)
}

func flags(all ...bool) (b byte) {
	for i, is := range all {
		if is {
			b |= 1 << i
		}
	}
	return b
}

// explore tries every order of events, and returns the number of states, or the first order
// that the oracle does not agree with.
func explore(s *scenario, begin func() *twoRanks) (states int, err error) {
	seen := make(map[string]bool)
	paths := [][]event{nil}
	for len(paths) > 0 {
		path := paths[len(paths)-1]
		paths = paths[:len(paths)-1]
		w := begin()
		w.scenario = s
		for i, e := range path {
			if err := w.do(e); err != nil {
				return len(seen), fmt.Errorf("%+v: %v: %w", *s, path[:i+1], err)
			}
			if err := w.check(); err != nil {
				return len(seen), fmt.Errorf("%+v: %v: %w", *s, path[:i+1], err)
			}
		}
		k := w.key()
		if seen[k] {
			continue
		}
		seen[k] = true
		for e := range events {
			if w.can(e) {
				paths = append(paths, append(path[:len(path):len(path)], e))
			}
		}
	}
	return len(seen), nil
}

func (e event) String() string { return [...]string{"send", "write", "poll", "post"}[e] }

// everyScenario calls f for up to three messages with every choice of tags and lengths,
// every order of receives, and links of one slot and of two.
func everyScenario(f func(*scenario) error) error {
	orders := map[int][][]int{
		1: {{0}}, 2: {{0, 1}, {1, 0}}, 3: {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}},
	}
	tags := map[int][][]int32{
		1: {{0}}, 2: {{0, 0}, {0, 1}}, 3: {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {0, 1, 2}},
	}
	for n := 1; n <= 3; n++ {
		for lengths := range [...]int{0, 3, 9, 27}[n] {
			for _, tag := range tags[n] {
				for _, order := range orders[n] {
					for slots := range 1<<n + 1 { // and with one slot, every choice of receives of any tag
						s := &scenario{receives: order, slots: 1 + slots/(1<<n), wild: slots % (1 << n)}
						for i, l := 0, lengths; i < n; i, l = i+1, l/3 {
							s.messages = append(s.messages, sentMessage{tag[i], l % 3})
						}
						if err := f(s); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	return nil
}

// TestMatching explores the matching of messages with receives.
func TestMatching(t *testing.T) {
	scenarios, states := 0, 0
	if err := everyScenario(func(s *scenario) error {
		n, err := explore(s, func() *twoRanks {
			box := &inbox{}
			return &twoRanks{box: box, real: box, pool: &realPool{}}
		})
		scenarios, states = scenarios+1, states+n
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if scenarios != 3*1*1*3+9*2*2*5+27*5*6*9 {
		t.Errorf("%d scenarios", scenarios)
	}
	t.Logf("%d scenarios, %d states", scenarios, states)
}
