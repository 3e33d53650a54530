package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/collective/plan"
)

// The model-based test makes random programs of messages, collectives and Splits, and compares all memory with the
// result of a sequential model, element by element. A program is data, so that rapid can shrink it and another process
// can run it.
//
// Programs are free of deadlock even if every send waits for its receive, as required of an MPI program that does not
// rely on buffers. See programs for the construction.

// verb is the kind of an operation.
type verb byte

const (
	doSend verb = iota
	doRecv
	doSendRecv
	doCall
	doWait
	doTest
	doSplit
	doLeave
)

// operation is one operation of one rank.
type operation struct {
	Do    verb
	Start bool // does not wait: a doWait of this ID follows
	Sync  bool `json:",omitzero"` // a Send waits for its Recv
	ID    int  // of the message or collective, the same on all ranks that take part

	To, From, Tag int         // messages; To is the root of a collective
	Kind          plan.Kind   `json:",omitzero"` // collectives
	Op            Op          `json:",omitzero"` // of those that reduce
	Type          elementType // its number
	Count         int         // elements
	InPlace       bool

	Color, Key int // Split
}

// program contains the operations of every rank.
type program struct{ Ranks [][]operation }

// elementType is an index into modelTypes.
type elementType int

// modelTypes are the element types of programs: of 1, 2, 4 and 8 bytes.
var modelTypes = []struct {
	name  string
	bytes int
	call  typed
	send  func(c *Comm, o operation) modeled
	recv  func(c *Comm, o operation) modeled
	both  func(c *Comm, o operation) modeled
}{
	{"uint8", 1, uint8s.try, uint8s.sends, uint8s.receives, uint8s.exchanges},
	{"float32", 4, float32s.try, float32s.sends, float32s.receives, float32s.exchanges},
	{"float16", 2, float16s.try, float16s.sends, float16s.receives, float16s.exchanges},
	{"int64", 8, int64s.try, int64s.sends, int64s.receives, int64s.exchanges},
}

// modeled is an operation with its memory, and the memory contents expected afterwards.
type modeled interface {
	run(ctx context.Context) error
	check() error
}

// waiting is a Message or a Request.
type waiting interface {
	Wait(context.Context) error
	Test() (bool, error)
}

// messageTrial is a message with its memory on one rank. Memory that is sent must stay as
// it is.
type messageTrial[T Element] struct {
	operation
	c          *Comm
	send, recv *memory[T]
}

// payload returns the contents of message id between two ranks. No two messages of a program look the same, nor do two
// places of one.
func (k codec[T]) payload(o operation, from int) *memory[T] {
	m := newMemory[T](o.Count)
	n := min(o.Count, period)
	for i := range n {
		m.body[i] = k.of(noise[(i*(1+o.ID%7)+37*from+101*o.ID)%period])
	}
	for done := n; done < o.Count; done *= 2 {
		copy(m.body[done:], m.body[:done])
	}
	return m
}

func (k codec[T]) sends(c *Comm, o operation) modeled {
	m := k.payload(o, c.in.Rank)
	m.expect(0, nil)
	return &messageTrial[T]{o, c, m, nil}
}

func (k codec[T]) receives(c *Comm, o operation) modeled {
	m := newMemory[T](o.Count)
	m.expect(0, k.payload(o, o.From).body)
	return &messageTrial[T]{o, c, nil, m}
}

func (k codec[T]) exchanges(c *Comm, o operation) modeled {
	send, recv := k.payload(o, c.in.Rank), newMemory[T](o.Count)
	send.expect(0, nil)
	recv.expect(0, k.payload(o, o.From).body)
	return &messageTrial[T]{o, c, send, recv}
}

func (t *messageTrial[T]) run(ctx context.Context) error {
	switch t.Do {
	case doSend:
		if t.Sync {
			return SendSync(ctx, t.c, t.send.body, t.To, t.Tag)
		}
		return Send(ctx, t.c, t.send.body, t.To, t.Tag)
	case doRecv:
		if t.ID%3 == 0 {
			m, err := ProbeMatched(ctx, t.c, t.From, t.Tag)
			if err != nil || m.Count != len(t.recv.body) {
				return fmt.Errorf("ProbeMatched found %+v: %w", m, err)
			}
			_, err = RecvMatched(ctx, m, t.recv.body)
			return err
		}
		return received(ctx, t.c, t.recv.body, t.From, t.Tag)
	}
	return exchanged(ctx, t.c, t.send.body, t.To, t.recv.body, t.From, t.Tag)
}

func (t *messageTrial[T]) start() (waiting, error) {
	if t.Do == doSend {
		return StartSend(t.c, t.send.body, t.To, t.Tag)
	}
	return StartRecv(t.c, t.recv.body, t.From, t.Tag)
}

func (t *messageTrial[T]) check() error {
	for _, m := range []*memory[T]{t.send, t.recv} {
		if m != nil {
			if err := m.check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// errWrong is wrapped by the errors for wrong memory contents.
var errWrong = errors.New("wrong contents")

func checked(m modeled) error {
	if err := m.check(); err != nil {
		return fmt.Errorf("%w: %w", errWrong, err)
	}
	return nil
}

// interpreter runs a program on one rank.
type interpreter struct {
	outer, c *Comm
	all      []modeled
	begun    map[int]waiting // by ID
	trials   map[int]modeled
}

// runModel runs the operations of one rank of a program, and checks all memory: of an operation when it is done, and of
// all at the end, when nothing may touch it any more.
func runModel(ctx context.Context, c *Comm, operations []operation) error {
	in := &interpreter{outer: c, c: c, begun: map[int]waiting{}, trials: map[int]modeled{}}
	for i, o := range operations {
		if err := in.do(ctx, o); err != nil {
			err = fmt.Errorf("rank %d, operation %d, %v: %w", c.in.Rank, i, o, err)
			c.Abort(err) // the others may wait for this rank
			if in.c != c {
				in.c.Abort(err)
				return errors.Join(err, in.c.Close())
			}
			return err
		}
	}
	for _, m := range in.all {
		if err := checked(m); err != nil {
			return fmt.Errorf("rank %d, after the end, %+v: %w", c.in.Rank, m, err)
		}
	}
	return nil
}

func (in *interpreter) do(ctx context.Context, o operation) (err error) {
	switch o.Do {
	case doWait:
		if err := in.begun[o.ID].Wait(ctx); err != nil {
			return err
		}
		return checked(in.trials[o.ID])
	case doTest:
		done, err := in.begun[o.ID].Test()
		if done && err == nil {
			err = checked(in.trials[o.ID])
		}
		return err
	case doSplit:
		c, err := in.outer.Split(ctx, o.Color, o.Key)
		if err == nil {
			in.c = c
		}
		return err
	case doLeave:
		err, in.c = in.c.Close(), in.outer
		return err
	}
	m := in.prepare(o)
	in.all = append(in.all, m)
	if o.Start {
		in.trials[o.ID] = m
		switch m := m.(type) {
		case interface{ start() (waiting, error) }:
			in.begun[o.ID], err = m.start()
		case trial:
			in.begun[o.ID], err = m.start()
		}
		return err
	}
	if err := m.run(ctx); err != nil {
		return err
	}
	return checked(m)
}

func (in *interpreter) prepare(o operation) modeled {
	t := modelTypes[o.Type]
	switch o.Do {
	case doSend:
		return t.send(in.c, o)
	case doRecv:
		return t.recv(in.c, o)
	case doSendRecv:
		return t.both(in.c, o)
	}
	return t.call(in.c, call{kind: o.Kind, op: o.Op, root: o.To, count: o.Count, inPlace: o.InPlace})
}

// String describes o as a line of a program.
func (o operation) String() string {
	start := ""
	if o.Start {
		start = "Start"
	}
	if o.Sync {
		start = "Sync"
	}
	what := fmt.Sprintf("#%d, %d %s", o.ID, o.Count, modelTypes[o.Type].name)
	switch o.Do {
	case doSend:
		return fmt.Sprintf("%sSend(%s, to %d, tag %d)", start, what, o.To, o.Tag)
	case doRecv:
		return fmt.Sprintf("%sRecv(%s, from %d, tag %d)", start, what, o.From, o.Tag)
	case doSendRecv:
		return fmt.Sprintf("SendRecv(%s, to %d, from %d, tag %d)", what, o.To, o.From, o.Tag)
	case doCall:
		return fmt.Sprintf("%s%v(%s, op %v, root %d, in place %v)", start, o.Kind, what, o.Op, o.To, o.InPlace)
	case doWait:
		return fmt.Sprintf("Wait(#%d)", o.ID)
	case doTest:
		return fmt.Sprintf("Test(#%d)", o.ID)
	case doSplit:
		return fmt.Sprintf("Split(color %d, key %d)", o.Color, o.Key)
	}
	return "Close"
}

// GoString returns the form in which rapid prints a program.
func (p program) GoString() string {
	var b strings.Builder
	for r, operations := range p.Ranks {
		fmt.Fprintf(&b, "\n rank %d:", r)
		for _, o := range operations {
			fmt.Fprintf(&b, "\n  %v", o)
		}
	}
	return b.String()
}

// modelWorld is a set of ranks that run programs, one after the other, on one communicator.
type modelWorld interface {
	// begin gives the program to all ranks.
	begin(p program)

	// results returns the channel of the ranks' results.
	results() <-chan result

	// end ends the ranks, in whatever state they are.
	end()
}

// result is the result of a rank for a program.
type result struct {
	rank int
	err  error
}

// runOn runs p on all ranks.
func runOn(w modelWorld, p program, limit time.Duration) error {
	w.begin(p)
	var errs []error
	timeout := time.After(limit)
	for range p.Ranks {
		select {
		case of := <-w.results():
			errs = append(errs, of.err)
		case <-timeout:
			return errors.Join(append(errs, fmt.Errorf("%d of %d ranks have ended after %v", len(errs), len(p.Ranks), limit))...)
		}
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
}
