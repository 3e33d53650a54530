package shm

import (
	"crypto/rand"
	"net"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
)

const (
	// proveTimeout bounds how long a connection may take to prove itself.
	proveTimeout = time.Second
	// extraPlaces is how many connections beside the members' may be proving
	// themselves at once.
	extraPlaces = 256
)

// listen opens a socket under a random abstract name, which exists only as long as the
// socket does, and begins to give descriptor fd to members of the layout, which is the
// segment's. It returns the socket's address. Unauthenticated peers are not reported.
func listen(s *netconn.Session, l *transport.Layout, fd int) (a *netconn.Acceptor, address string, err error) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: "@" + randomName()})
	if err != nil {
		return nil, "", err
	}
	return netconn.OpenAcceptor(netconn.AcceptorConfig{
		Prove: func(conn net.Conn) (func(), error) {
			if err := osys.CheckSameUser(conn.(*net.UnixConn)); err != nil {
				return nil, err
			}
			c, err := s.Accept(conn, func(h *netconn.Hello) error { return expects(h, l) })
			return func() {
				if c.Welcome() == nil {
					_ = sendGrant(conn.(*net.UnixConn), fd) // when this fails the member tries again
				}
				_ = conn.Close()
			}, err
		},
		Wait: proveTimeout, Places: l.MemberCount() + extraPlaces,
	}, ln), ln.Addr().String(), nil
}

// randomName returns a name for an abstract socket that nobody can guess.
func randomName() string { return "treerun-" + rand.Text() }
