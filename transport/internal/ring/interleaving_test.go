package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"
)

// Program sets up one run: its memory, its threads, and with State the contents of the memory. It is called once per
// branch, and does the same every time.
type Program func(x *Interleaving)

// Interleaving is one interleaving. Its threads run one at a time, each until its next Step.
type Interleaving struct {
	threads []*Thread
	now     *Thread // the one that runs
	state   func(b []byte) []byte
	failure error
	tracing bool
	trace   []string
}

// Thread is a part of a Program.
type Thread struct {
	name    string
	event   bool
	dead    bool
	ended   bool
	options int    // number of ways to continue at the next Step: more than 1 in Choose
	chosen  int    // one of options
	label   string // of the next step
	history uint64 // digest of all values that the thread has seen
	next    func() (struct{}, bool)
	stop    func()
	park    func(struct{}) bool
}

// errStopped unwinds a thread whose run is over.
var errStopped = errors.New("explore: the run is over")

// Go adds a thread.
func (x *Interleaving) Go(name string, f func()) *Thread { return x.start(name, f, false) }

// Event adds a thread that runs at any time, or never: the program may end without it.
func (x *Interleaving) Event(name string, f func()) *Thread { return x.start(name, f, true) }

func (x *Interleaving) start(name string, f func(), event bool) *Thread {
	t := &Thread{name: name, event: event, options: 1, history: noHistory}
	t.next, t.stop = iter.Pull(func(park func(struct{}) bool) {
		defer func() {
			if p := recover(); p != nil && p != any(errStopped) {
				x.failure = fmt.Errorf("%s: %v", name, p)
			}
		}()
		t.park = park
		x.Step("begins")
		f()
	})
	x.threads = append(x.threads, t)
	x.resume(t, 0)
	return t
}

// State sets the function that appends the contents of the memory, and all other state that threads share.
func (x *Interleaving) State(f func(b []byte) []byte) { x.state = f }

// Step is called by a thread before each access to state that it shares with other threads. The label is for the trace.
func (x *Interleaving) Step(label string) { x.pause(label, 1) }

// Choose returns each number below n, in interleavings of their own.
func (x *Interleaving) Choose(label string, n int) int {
	x.pause(label, n)
	x.Saw(uint64(x.now.chosen))
	return x.now.chosen
}

func (x *Interleaving) pause(label string, options int) {
	t := x.now
	t.label, t.options = label, options
	t.mix(1)
	if !t.park(struct{}{}) {
		panic(errStopped)
	}
}

// Saw is called after an access with the value that it returned: all later actions of the thread depend on it.
func (x *Interleaving) Saw(v uint64) {
	x.now.mix(v + 2)
	if x.tracing {
		x.trace[len(x.trace)-1] += fmt.Sprintf(" = %#x", v)
	}
}

// Forget declares that the actions of the thread from here on depend on these values alone, and not on values that it
// has seen before. Two visits with the same values are the same state: a loop that polls begins with it.
func (x *Interleaving) Forget(where string, state ...int) {
	x.now.history = noHistory
	for i := range len(where) {
		x.now.mix(uint64(where[i]))
	}
	for _, v := range state {
		x.now.mix(uint64(v))
	}
}

// Fail ends the exploration with an error: a property does not hold.
func (x *Interleaving) Fail(format string, a ...any) { panic(fmt.Errorf(format, a...)) }

// Kill ends a thread at its current step.
func (x *Interleaving) Kill(t *Thread) { t.dead = true }

// mix is FNV-1a, by words.
func (t *Thread) mix(v uint64) {
	t.history ^= v
	t.history *= 1099511628211
	t.history ^= t.history >> 29
}

const noHistory = 14695981039346656037

// resume runs t to its next step.
func (x *Interleaving) resume(t *Thread, option int) {
	if x.tracing && t.label != "" {
		x.trace = append(x.trace, fmt.Sprintf("%s: %s", t.name, t.label))
	}
	x.now, t.chosen = t, option
	if _, ok := t.next(); !ok {
		t.ended = true
	}
}

// over reports whether all threads that must end have.
func (x *Interleaving) over() bool {
	return !slices.ContainsFunc(x.threads, func(t *Thread) bool { return !t.event && !t.ended && !t.dead })
}

// choices returns the number of ways to continue.
func (x *Interleaving) choices() (n int) {
	for _, t := range x.threads {
		if !t.ended && !t.dead {
			n += t.options
		}
	}
	return n
}

// take continues in the i-th way.
func (x *Interleaving) take(i int) {
	for _, t := range x.threads {
		if t.ended || t.dead {
			continue
		}
		if i < t.options {
			x.resume(t, i)
			return
		}
		i -= t.options
	}
}

// digest returns a digest of all state that determines how the run continues.
func (x *Interleaving) digest(b []byte) (uint64, []byte) {
	b = x.state(b[:0])
	for _, t := range x.threads {
		b = binary.NativeEndian.AppendUint64(b, t.history)
		flags := byte(0)
		if t.ended {
			flags = 1
		}
		if t.dead {
			flags = 2
		}
		b = append(b, flags)
	}
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64(), b
}

func (x *Interleaving) end() {
	for _, t := range x.threads {
		t.stop()
	}
}

// node is a state, with the path on which it was found first.
type node struct {
	from   *node
	choice int
	before []*node // all states that lead here
	ends   bool    // the program ends here, or can from here
}

// path returns the choices that lead to n.
func (n *node) path() (p []int) {
	for ; n.from != nil; n = n.from {
		p = append(p, n.choice)
	}
	slices.Reverse(p)
	return p
}

// branch is a state and a way to continue that is still to be explored.
type branch struct {
	n      *node
	choice int
}

// Explore runs the program in every interleaving, and returns how many states it has. The error is
// the first failure of a thread, a state from which the threads cannot end, or more than max
// states, with the steps that lead there.
func Explore(program Program, most int) (states int, err error) {
	seen := make(map[uint64]*node)
	root := &node{}
	todo := []branch{{root, -1}}
	var terminal []*node
	var scratch []byte
	for len(todo) > 0 {
		b := todo[0] // the oldest, whose path is short
		todo = todo[1:]
		x := replay(program, b.n.path(), false)
		n, choice := b.n, b.choice
		for {
			if choice >= 0 {
				x.take(choice)
			}
			if x.failure != nil {
				x.end()
				return len(seen), explain(program, append(n.path(), choice), x.failure)
			}
			var d uint64
			d, scratch = x.digest(scratch)
			to, known := seen[d]
			if !known {
				if to = root; choice >= 0 {
					to = &node{from: n, choice: choice}
				}
				seen[d] = to
			}
			if choice >= 0 {
				to.before = append(to.before, n)
			}
			if known {
				break
			}
			if len(seen) > most {
				x.end()
				return len(seen), fmt.Errorf("more than %d states", most)
			}
			if x.over() {
				terminal = append(terminal, to)
				break
			}
			for i := x.choices() - 1; i > 0; i-- {
				todo = append(todo, branch{to, i})
			}
			if x.choices() == 0 {
				break
			}
			n, choice = to, 0
		}
		x.end()
	}
	return len(seen), stuck(program, seen, terminal)
}

// stuck returns an error if the program cannot end from all states.
func stuck(program Program, seen map[uint64]*node, terminal []*node) error {
	for _, n := range terminal {
		n.ends = true
	}
	for len(terminal) > 0 {
		n := terminal[len(terminal)-1]
		terminal = terminal[:len(terminal)-1]
		for _, b := range n.before {
			if !b.ends {
				b.ends = true
				terminal = append(terminal, b)
			}
		}
	}
	var first []int
	for _, n := range seen {
		if p := n.path(); !n.ends && (first == nil || len(p) < len(first)) {
			first = p
		}
	}
	if first == nil {
		return nil
	}
	return explain(program, first, errors.New("cannot end from here"))
}

// replay runs the program along a path.
func replay(program Program, path []int, tracing bool) *Interleaving {
	x := &Interleaving{tracing: tracing}
	program(x)
	for _, c := range path {
		x.take(c)
	}
	return x
}

// explain adds to err the steps of a path.
func explain(program Program, path []int, err error) error {
	x := replay(program, path, true)
	defer x.end()
	return fmt.Errorf("%w after\n\t%s", err, strings.Join(x.trace, "\n\t"))
}
