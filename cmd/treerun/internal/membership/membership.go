// Package membership decides which ranks are in a job, and in which epoch. It is pure: a Machine receives events and
// returns orders. The launcher has one Machine per job, carries out its orders and owns all clocks. Only packages below
// cmd/treerun import it.
//
// A job begins with epoch 0. Under Respawn and Shrink an epoch ends when one of its ranks is lost, or when one of them
// renews. Every other rank of it that lives then renews, too. When all have, the next epoch begins.
package membership

import (
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
)

// Policy is the behavior of a job that loses a rank.
type Policy int

// The policies.
const (
	Stop    Policy = iota // the job ends
	Restart               // all ranks end, and all start again
	Respawn               // the lost rank starts again, the others continue with their numbers
	Shrink                // the others continue, numbered from 0
)

// Config describes a job.
type Config struct {
	Policy      Policy
	Size        int // number of ranks at the start
	MinSize     int // minimum number of ranks of an epoch; below it the job ends
	MaxRestarts int // of the job: a restart of all ranks counts as one, and so does each rank that starts again
}

// Order is one of Begin, End, Leave, Notify, RestartAll, Revoke, Start.
type Order interface{ fmt.Stringer }

// The orders. Ranks are numbered by origin: a rank that starts again keeps the number of the lost one.
type (
	// Start requests a new process for a rank. It begins with Renew. Added means that no epoch waits for it.
	Start struct {
		Rank  int
		Added bool
	}
	// Revoke ends an epoch for its other ranks, because a rank has renewed.
	Revoke struct{ Epoch, Rank int }
	// Notify reports to the ranks of an epoch that others wait for its end.
	Notify struct{ Epoch int }
	// Begin begins an epoch of these ranks, in ascending order. Lost and Joined compare it with the epoch before.
	Begin struct {
		Epoch               int
		Ranks, Lost, Joined []int
	}
	// RestartAll ends all ranks and then starts all again, in this epoch. Restarted reports that they run.
	RestartAll struct{ Epoch int }
	// Leave has a rank that is not needed any more end, in good order if it can.
	Leave struct{ Rank int }
	// End ends the job.
	End struct{ Why string }
)

// String returns the order in words.
func (o Start) String() string { return fmt.Sprintf("start rank %d", o.Rank) }

// String returns the order in words.
func (o Revoke) String() string {
	return fmt.Sprintf("revoke epoch %d: rank %d renews", o.Epoch, o.Rank)
}

// String returns the order in words.
func (o Notify) String() string { return fmt.Sprintf("notify epoch %d", o.Epoch) }

// String returns the order in words.
func (o RestartAll) String() string { return fmt.Sprintf("restart all as epoch %d", o.Epoch) }

// String returns the order in words.
func (o Leave) String() string { return fmt.Sprintf("have rank %d leave", o.Rank) }

// String returns the order in words.
func (o End) String() string { return "end the job: " + o.Why }

// String returns the order in words.
func (o Begin) String() string {
	text := fmt.Sprintf("begin epoch %d with %v", o.Epoch, o.Ranks)
	if len(o.Lost) > 0 {
		text += fmt.Sprintf(", lost %v", o.Lost)
	}
	if len(o.Joined) > 0 {
		text += fmt.Sprintf(", joined %v", o.Joined)
	}
	return text
}

// state is the state of a rank.
type state int

const (
	member   state = iota // of the current epoch, or of the one that has ended
	starting              // its process has not renewed yet
	added                 // likewise, and no epoch waits for it
	ready                 // it has renewed
	left                  // it has closed its world in good order
	lost
)

// rank is a rank of the job, by origin.
type rank struct {
	state     state
	renewable bool // its process takes part in epochs
	declined  bool // it does not
	before    bool // its number was in the current epoch, or in the one that has ended
	fell      bool // it has been lost since that epoch began
}

// Machine is the membership of one job. Its methods may not be called concurrently.
type Machine struct {
	cfg      Config
	wanted   int // number of ranks
	ranks    []rank
	epoch    int  // the latest
	over     bool // it has ended: the next one is being formed
	restarts int
	stopping bool // RestartAll or End was ordered
}

// New returns the membership of a job whose ranks start.
func New(cfg Config) *Machine {
	m := &Machine{cfg: cfg, wanted: cfg.Size, ranks: make([]rank, cfg.Size)}
	for i := range m.ranks {
		m.ranks[i].before = true
	}
	return m
}

// Epoch returns the number of the latest epoch.
func (m *Machine) Epoch() int { return m.epoch }

// Restarts returns how many restarts there were.
func (m *Machine) Restarts() int { return m.restarts }

// Renewable notes that the process of a rank takes part in epochs.
func (m *Machine) Renewable(r int) { m.ranks[r].renewable = true }

// Joined notes that the process of a rank has joined the others. One that takes part has reported it before.
func (m *Machine) Joined(r int) { m.ranks[r].declined = !m.ranks[r].renewable }

// Renewed notes that a rank has left its epoch, or has just started, and waits for the next one.
func (m *Machine) Renewed(r int) (orders []Order) {
	k := &m.ranks[r]
	was := k.state
	if m.stopping || was >= ready {
		return nil
	}
	k.state, k.renewable, k.declined = ready, true, false
	switch {
	case m.over:
	case was == member:
		m.over = true
		orders = append(orders, Revoke{m.epoch, r})
	default:
		return m.notify()
	}
	return append(orders, m.form()...)
}

// notify notifies the members once all ranks that were added are ready: one epoch is to take in all of them.
func (m *Machine) notify() []Order {
	waits := false
	for _, k := range m.ranks {
		if k.state == added {
			return nil
		}
		waits = waits || k.state == ready
	}
	if m.over || !waits {
		return nil
	}
	return []Order{Notify{m.epoch}}
}

// Closed notes that a rank has closed its world in good order.
func (m *Machine) Closed(r int) []Order {
	if m.stopping || m.ranks[r].state >= left {
		return nil
	}
	m.ranks[r].state = left
	if m.over {
		return m.form()
	}
	return m.dismiss()
}

// dismiss has ranks that wait to be taken in leave, once all members of the epoch have closed their worlds.
func (m *Machine) dismiss() (orders []Order) {
	for _, k := range m.ranks {
		if k.state == member || k.state == starting {
			return nil
		}
	}
	for r := range m.ranks {
		if k := &m.ranks[r]; k.state < left {
			k.state = left
			orders = append(orders, Leave{r})
		}
	}
	return orders
}

// Resize brings the job to n ranks: others start, and wait to be taken in, or the ranks with the highest numbers leave.
func (m *Machine) Resize(n int) (orders []Order, err error) {
	switch now := m.Living(); {
	case m.cfg.Policy != Respawn && m.cfg.Policy != Shrink:
		return nil, errors.New("its ranks cannot change: it was started without --on-failure respawn or shrink")
	case m.stopping, !m.has(member) && !m.has(starting) && !(m.over && m.has(ready)): // none could take others in
		return nil, errors.New("it is ending")
	case !m.TakesPart() || m.declined() >= 0:
		return nil, errors.New("its program does not use rank.Worlds, or has not begun to")
	case n < m.cfg.MinSize:
		return nil, fmt.Errorf("%s %s less than --min-np %d", numbers.Count(n, "rank"), numbers.Are(n), m.cfg.MinSize)
	case n >= now:
		m.wanted = n
		for range n - now {
			m.ranks = append(m.ranks, rank{state: added})
			orders = append(orders, Start{len(m.ranks) - 1, true})
		}
	default:
		m.wanted = n
		for r := len(m.ranks) - 1; r >= 0 && m.Living() > n; r-- {
			if k := &m.ranks[r]; k.state < left {
				k.state = left
				orders = append(orders, Leave{r})
			}
		}
		orders = append(orders, m.form()...)
	}
	return orders, nil
}

// Missing reports whether the job has fewer ranks than at the start, or than the latest Resize has asked for.
func (m *Machine) Missing() bool {
	lives := m.cfg.Policy == Respawn || m.cfg.Policy == Shrink
	n := m.Living()
	return lives && !m.stopping && m.TakesPart() && 0 < n && n < m.wanted
}

// HostBack notes that the host of these ranks is there again: those that are missing start, and wait to be taken in.
func (m *Machine) HostBack(ranks []int) (orders []Order) {
	for _, r := range ranks {
		if m.ranks[r].state == lost && m.Missing() {
			m.ranks[r].state = added
			orders = append(orders, Start{r, true})
		}
	}
	return orders
}

// Lost notes that a rank has failed. again means that its process can be started again. The failure of one that has
// closed its world concerns no other rank, and so matters only where the job ends or restarts as a whole.
func (m *Machine) Lost(r int, again bool) []Order {
	k := &m.ranks[r]
	whole := m.cfg.Policy == Stop || m.cfg.Policy == Restart
	if m.stopping || k.state == lost || k.state == left && !whole {
		return nil
	}
	if m.applies(r) {
		k.state = lost
		return append(m.notify(), m.form()...)
	}
	declined := m.declined()
	k.state, k.renewable, k.declined, k.fell = lost, false, false, true
	switch m.cfg.Policy {
	case Stop:
		return m.end("a rank has failed")
	case Restart:
		if !again {
			return m.end("its host is lost")
		}
		if m.restarts == m.cfg.MaxRestarts {
			return m.end(m.noRestarts())
		}
		m.restarts++
		m.stopping = true
		return []Order{RestartAll{m.epoch + 1}}
	}
	m.over = true
	if declined >= 0 {
		return m.end(fmt.Sprintf(noWorlds, declined))
	}
	done := m.has(left)
	if done && m.Living() == 0 {
		return nil // a process of its own would have no others, and no state
	}
	again = again && m.cfg.Policy == Respawn
	if again {
		if m.restarts == m.cfg.MaxRestarts {
			return m.end(m.noRestarts())
		}
		k.state = starting
	}
	if n := m.Living(); n < m.cfg.MinSize && !done || n == 0 {
		return m.endWith(n)
	}
	var orders []Order
	if again {
		m.restarts++
		orders = append(orders, Start{Rank: r})
	}
	return append(orders, m.form()...)
}

// applies reports whether a rank was added, and no epoch has had it yet or waits for it.
func (m *Machine) applies(r int) bool {
	k := m.ranks[r]
	return k.state == added || k.state == ready && !m.over
}

// Withdrew notes that a rank waits for no other epoch, and lives. The others wait for its end.
func (m *Machine) Withdrew(r int) []Order {
	k := &m.ranks[r]
	switch {
	case m.stopping || k.state >= left:
	case m.applies(r):
		k.state = left
		return m.notify()
	default:
		k.state, m.over = member, true
	}
	return nil
}

// Expired notes that the time has passed in which ranks that take part in epochs have reported it.
func (m *Machine) Expired() []Order {
	for r, k := range m.ranks {
		if m.over && !m.stopping && k.state == member && !k.renewable {
			return m.end(fmt.Sprintf(noWorlds, r))
		}
	}
	return nil
}

// has reports whether a rank has a state.
func (m *Machine) has(s state) bool {
	return slices.ContainsFunc(m.ranks, func(k rank) bool { return k.state == s })
}

const noWorlds = "rank %d does not use rank.Worlds"

// declined returns a rank that lives and does not take part in epochs, -1 if there is none.
func (m *Machine) declined() int {
	return slices.IndexFunc(m.ranks, func(k rank) bool { return k.state < left && k.declined })
}

// TakesPart reports whether any process is known to take part in epochs.
func (m *Machine) TakesPart() bool {
	return slices.ContainsFunc(m.ranks, func(k rank) bool { return k.renewable })
}

// Restarted notes that all ranks start again.
func (m *Machine) Restarted() {
	m.epoch++
	m.over, m.stopping = false, false
	for i := range m.ranks {
		m.ranks[i] = rank{before: true}
	}
}

// Living returns how many ranks are neither lost nor have left.
func (m *Machine) Living() (n int) {
	for _, k := range m.ranks {
		if k.state < left {
			n++
		}
	}
	return n
}

func (m *Machine) noRestarts() string {
	return fmt.Sprintf("--max-restarts %d is reached", m.cfg.MaxRestarts)
}

// end ends the job.
func (m *Machine) end(why string) []Order {
	m.stopping = true
	return []Order{End{why}}
}

// endWith ends the job because too few ranks, n, are left.
func (m *Machine) endWith(n int) []Order {
	return m.end(fmt.Sprintf("%d of %s %s left, --min-np is %d", n, numbers.Count(m.cfg.Size, "rank"), numbers.Are(n),
		m.cfg.MinSize))
}

// form begins the next epoch if all ranks that it waits for are ready.
func (m *Machine) form() []Order {
	if !m.over || m.stopping {
		return nil
	}
	b := Begin{Epoch: m.epoch + 1}
	for r, k := range m.ranks {
		switch {
		case k.state == member, k.state == starting:
			return nil
		case k.state == ready:
			b.Ranks = append(b.Ranks, r)
		}
	}
	switch n, done := len(b.Ranks), m.has(left); {
	case n == 0 && done:
		return m.dismiss()
	case n < max(m.cfg.MinSize, 1) && m.has(added):
		return nil // they are needed
	case n < max(m.cfg.MinSize, 1):
		return m.endWith(n)
	}
	for r := range m.ranks {
		k := &m.ranks[r]
		if k.before && k.fell {
			b.Lost = append(b.Lost, r)
		}
		if k.state == ready && (k.fell || !k.before) {
			b.Joined = append(b.Joined, r)
		}
		if k.before, k.fell = k.state == ready, false; k.before {
			k.state = member
		}
	}
	m.epoch, m.over = b.Epoch, false
	return []Order{b}
}

// Awaited returns the ranks that the next epoch waits for, in ascending order: none while an epoch runs.
func (m *Machine) Awaited() (ranks []int) {
	for r, k := range m.ranks {
		if m.over && (k.state == member || k.state == starting) {
			ranks = append(ranks, r)
		}
	}
	return ranks
}
