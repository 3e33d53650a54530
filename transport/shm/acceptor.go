package shm

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/internal/segment"
)

const (
	// strayDeadline bounds how long a connection may take to prove itself.
	strayDeadline = time.Second
	// strayPlaces is how many connections beside the members' may be proving
	// themselves at once.
	strayPlaces = 256
)

// acceptor is where the leader lets members in. What is wrong with others is of no
// interest to anybody.
type acceptor struct {
	listener net.Listener
	session  *netconn.Session
	m        *segment.Map
	acceptor *netconn.Acceptor // nil before open

	mu      sync.Mutex
	members map[int]*net.UnixConn // proved, by rank; nil when nobody is let in any more
}

// listen opens a socket under a random abstract name, which exists only as
// long as the socket does. Connections wait until open is called.
func listen(s *netconn.Session, m *segment.Map) (*acceptor, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: "@" + randomName()})
	if err != nil {
		return nil, err
	}
	return &acceptor{listener: l, session: s, m: m, members: make(map[int]*net.UnixConn)}, nil
}

// randomName returns a name for an abstract socket that nobody can guess.
func randomName() string {
	var name [16]byte
	_, _ = rand.Read(name[:]) // never fails
	return "treerun-" + hex.EncodeToString(name[:])
}

// address is where members connect.
func (d *acceptor) address() string { return d.listener.Addr().String() }

// open begins to let members in, who get descriptor fd.
func (d *acceptor) open(fd int) {
	d.acceptor = netconn.OpenAcceptor(netconn.AcceptorConfig{
		Prove: func(conn net.Conn) (func(), error) {
			if err := osys.CheckSameUser(conn.(*net.UnixConn)); err != nil {
				return nil, err
			}
			c, err := d.session.Accept(conn, func(h *netconn.Hello) error { return expects(h, &d.m.Layout) })
			return func() { d.admit(c, fd) }, err
		},
		Wait: strayDeadline, Places: d.m.Layout.MemberCount() + strayPlaces,
	}, d.listener)
}

// admit lists a member, before it can tell anybody that it is connected, and gives it
// the segment.
func (d *acceptor) admit(c *netconn.Conn, fd int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	conn, member := c.Raw().(*net.UnixConn), c.Peer()
	if d.members == nil {
		_ = conn.Close()
		return
	}
	if old := d.members[member]; old != nil {
		_ = old.Close() // the member lost that one and tries again
	}
	d.members[member] = conn
	if c.Welcome() != nil || sendGrant(conn, fd) != nil {
		delete(d.members, member)
		_ = conn.Close()
	}
}

// take ends what is being accepted and hands the members' connections over.
// Precondition: all members have said that they are connected.
func (d *acceptor) take() (map[int]*net.UnixConn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 1; i < d.m.Layout.MemberCount(); i++ {
		if r := d.m.Layout.Member(i); d.members[r] == nil {
			return nil, fmt.Errorf("rank %d says that it is connected, but its connection is gone", r)
		}
	}
	all := d.members
	d.members = nil
	return all, nil
}

// close stops listening, drops all others and, unless they were taken, the
// members, and waits for the goroutines.
func (d *acceptor) close() {
	_ = d.listener.Close()
	if d.acceptor != nil {
		d.acceptor.Close()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.members {
		_ = c.Close()
	}
	d.members = nil
}
