package shm

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/internal/segment"
)

const (
	// strayDeadline bounds how long a connection may take to prove itself.
	strayDeadline = time.Second
	// strayPlaces is how many connections beside the members' may be proving
	// themselves at once; the others wait in the kernel.
	strayPlaces = 256
)

// door is where the leader lets members in. Strangers come and go without
// disturbing anybody: each has a goroutine of its own, a deadline, and a bound
// on what is read from it.
type door struct {
	listener *net.UnixListener
	session  session
	m        *segment.Map
	guests   sync.WaitGroup // goroutines

	mu      sync.Mutex
	members map[int]*net.UnixConn      // proved, by rank
	proving map[*net.UnixConn]struct{} // not yet
	closed  bool
}

// listen opens a socket under a random abstract name, which exists only as
// long as the socket does. Connections wait until open is called.
func listen(s session, m *segment.Map) (*door, error) {
	addr := &net.UnixAddr{Net: "unix", Name: "@" + randomName()}
	l, err := net.ListenUnix("unix", addr)
	if err != nil {
		return nil, err
	}
	return &door{
		listener: l, session: s, m: m,
		members: make(map[int]*net.UnixConn),
		proving: make(map[*net.UnixConn]struct{}),
	}, nil
}

// randomName returns a name for an abstract socket that nobody can guess.
func randomName() string {
	var name [16]byte
	_, _ = rand.Read(name[:]) // never fails
	return "treerun-" + hex.EncodeToString(name[:])
}

// address is where members connect.
func (d *door) address() string { return d.listener.Addr().String() }

// open begins to let members in, who get descriptor fd.
func (d *door) open(fd int) {
	places := make(chan struct{}, d.m.Layout.MemberCount()+strayPlaces)
	d.guests.Go(func() {
		for {
			places <- struct{}{}
			c, err := d.listener.AcceptUnix()
			if err != nil {
				if d.over() {
					return
				}
				time.Sleep(time.Millisecond) // out of descriptors, most likely
				<-places
				continue
			}
			d.guests.Go(func() {
				defer func() { <-places }()
				d.receive(c, fd)
			})
		}
	})
}

// receive lets one connection in, or closes it. What is wrong with a stranger
// is of no interest to anybody.
func (d *door) receive(c *net.UnixConn, fd int) {
	if !d.enter(c) {
		_ = c.Close()
		return
	}
	member, err := d.prove(c)
	if err == nil {
		err = d.admit(c, member)
	}
	if err == nil {
		err = sendGrant(c, fd, d.m.Total)
	}
	if err != nil {
		d.drop(c, member)
	}
}

// enter notes a connection that has not proved itself; false when the door is
// closed.
func (d *door) enter(c *net.UnixConn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.proving[c] = struct{}{}
	return true
}

// prove finds out which member is at the other end.
func (d *door) prove(c *net.UnixConn) (member int, err error) {
	if err := c.SetDeadline(time.Now().Add(strayDeadline)); err != nil {
		return 0, err
	}
	if err := osys.CheckSameUser(c); err != nil {
		return 0, err
	}
	if member, err = serveHandshake(c, d.session, &d.m.Layout); err != nil {
		return 0, err
	}
	return member, c.SetDeadline(time.Time{})
}

// admit lists the member, before it can tell anybody that it is connected.
func (d *door) admit(c *net.UnixConn, member int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return net.ErrClosed
	}
	delete(d.proving, c)
	if old := d.members[member]; old != nil {
		_ = old.Close() // the member lost that one and tries again
	}
	d.members[member] = c
	return nil
}

// drop closes a connection and forgets it.
func (d *door) drop(c *net.UnixConn, member int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.proving, c)
	if d.members[member] == c {
		delete(d.members, member)
	}
	_ = c.Close()
}

func (d *door) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// take closes the door to newcomers and hands the members' connections over.
// Precondition: all members have said that they are connected.
func (d *door) take() (map[int]*net.UnixConn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for i := 1; i < d.m.Layout.MemberCount(); i++ {
		if r := d.m.Layout.Member(i); d.members[r] == nil {
			return nil, fmt.Errorf("rank %d says that it is connected, but its connection is gone", r)
		}
	}
	all := d.members
	d.members = nil
	return all, nil
}

// close stops listening, drops all strangers and, unless they were taken, the
// members, and waits for the goroutines.
func (d *door) close() {
	d.mu.Lock()
	d.closed = true
	_ = d.listener.Close()
	for c := range d.proving {
		_ = c.Close()
	}
	for _, c := range d.members {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.guests.Wait()
}
