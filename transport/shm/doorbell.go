package shm

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/internal/segment"
)

// doorbells are the sockets on which the members of a set sleep: this rank's own, and the addresses of all. The names
// are random. A process that finds one out can wake its owner in vain, and no more.
type doorbells struct {
	names []string            // by rank, "" for ranks that are not members
	of    []*osys.BellAddress // the addresses of these names

	mu  sync.RWMutex // held for writing by close only
	own *osys.Doorbell
}

// newDoorbells opens this rank's socket, and returns its name.
func newDoorbells() (b *doorbells, name string, err error) {
	name = "treerun-" + rand.Text()
	b, err = openDoorbell(name)
	return b, name, err
}

// openDoorbell opens this rank's socket under a name.
func openDoorbell(name string) (*doorbells, error) {
	own, err := osys.NewDoorbell(name)
	if err != nil {
		return nil, fmt.Errorf("doorbell: %w", err)
	}
	return &doorbells{own: own}, nil
}

// setAddresses takes over the names of all members, in their order.
func (b *doorbells) setAddresses(l *transport.Layout, names []string) error {
	b.names, b.of = make([]string, l.Size), make([]*osys.BellAddress, l.Size)
	for i, name := range names {
		r := l.Member(i)
		address, err := osys.NewBellAddress(name)
		if err != nil {
			return fmt.Errorf("rank %d: %w", r, err)
		}
		b.names[r], b.of[r] = name, address
	}
	return nil
}

// child opens the doorbells of a layout whose members are these ranks of b, for links with an id. Their names follow
// from those of b, which no other process knows, and from the id.
func (b *doorbells) child(id string, members []int, l *transport.Layout, rank int) (*doorbells, error) {
	names := make([]string, len(members))
	for i, r := range members {
		digest := sha256.Sum256([]byte(b.names[r] + " " + id))
		names[i] = fmt.Sprintf("treerun-%x", digest[:16])
	}
	c, err := openDoorbell(names[l.MemberIndex(rank)])
	if err != nil {
		return nil, err
	}
	if err = c.setAddresses(l, names); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// ring wakes rank r.
func (b *doorbells) ring(r int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.own != nil {
		b.own.Ring(b.of[r])
	}
}

// wait sleeps like osys.Doorbell.Wait. After close there is no socket to sleep on, and it returns at once.
func (b *doorbells) wait(fd int, limit time.Duration) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.own == nil || b.own.Wait(fd, limit)
}

// close wakes the owner, and closes the socket as soon as the owner does not sleep on it. b may be nil.
func (b *doorbells) close() {
	if b == nil {
		return
	}
	b.mu.RLock()
	if b.own != nil {
		b.own.End()
	}
	b.mu.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.own != nil {
		_ = b.own.Close()
		b.own = nil
	}
}

// Bell implements transport.Bell on a futex, or on a socket, so that its owner can wait
// for other descriptors at the same time.
type Bell struct {
	*segment.BellWord
	osys.Yielder
	bells *doorbells // nil: on the futex
	cores *cores     // nil: ranks may share cores
}

// Yield lets another rank of this core run, if there is one. Now and then it lets another goroutine run.
func (b *Bell) Yield() {
	switch {
	case b.cores == nil || !b.cores.apart():
		b.Yielder.Yield()
	case b.cores.polls%goschedEvery == 0:
		runtime.Gosched()
	}
}

// Follow moves the calling thread to the core on which this rank last waited, where ranks have own cores.
func (b *Bell) Follow() {
	if b.cores != nil {
		b.cores.follow()
	}
}

// goschedEvery is how many times a rank with a core of its own polls until it lets other goroutines run, which is about
// as often as those do that yield.
const goschedEvery = 8192

// Cancel ends the sleep that Prepare announced.
func (b *Bell) Cancel() { b.BellWord.Cancel() }

// Sleep blocks until the bell has been rung after Prepare, or limit has passed.
func (b *Bell) Sleep(limit time.Duration) { b.SleepOn(-1, limit, nil) }

// SleepOn blocks until the bell has been rung after Prepare, descriptor fd,
// unless it is negative, is readable and serve, which is then called, has found
// something in it, or limit has passed.
func (b *Bell) SleepOn(fd int, limit time.Duration, serve func() bool) {
	deadline := time.Now().Add(limit)
	for !b.Rung() && limit > 0 {
		if b.wait(fd, limit) && (serve == nil || serve()) {
			break
		}
		limit = time.Until(deadline) // after a signal, or a ring meant for an earlier sleep
	}
	b.Cancel()
}

// wait sleeps once, and reports whether descriptor fd is readable.
func (b *Bell) wait(fd int, limit time.Duration) bool {
	if b.bells != nil {
		return b.bells.wait(fd, limit)
	}
	word, prepared := b.Word()
	osys.FutexWait(word, prepared, limit)
	return false
}

// Place returns the descriptors and words that end a sleep on b.
func (b *Bell) Place() (p osys.Place) {
	p.FDs = [2]int{-1, -1}
	if b.bells == nil {
		p.Word, p.Value = b.Word()
		return p
	}
	b.bells.mu.RLock()
	defer b.bells.mu.RUnlock()
	if b.bells.own != nil {
		p.FDs[0] = b.bells.own.FD()
	}
	return p
}

// Woken cancels b, and drops the messages that rang it.
func (b *Bell) Woken() {
	b.Cancel()
	if b.bells != nil {
		b.bells.wait(-1, 0)
	}
}

// SleepAny sleeps on several bells. Where the system cannot do that it sleeps for a short time.
func (b *Bell) SleepAny(bells []transport.Bell, limit time.Duration) {
	type sleeper interface {
		Place() osys.Place
		Woken()
	}
	if limit > 0 {
		places := make([]osys.Place, len(bells))
		for i := range bells {
			places[i] = bells[i].(sleeper).Place()
		}
		osys.WaitAny(places, limit)
	}
	for i := range bells {
		bells[i].(sleeper).Woken()
	}
}
