package rank

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/netconn"
)

// Every connection begins with the mutual challenge and response of package netconn,
// under a key that only the ranks of the job can derive.
//
// Jobs may share secret, id and epoch: those of a launcher that gives no id, and the restarts of a LeaderWorkerSet. So
// rank 0 draws a random number for each attempt, and the others learn it from its answer when they join. A connection
// with another number, or one without a number that is for another purpose than to join, is refused.

// channel is the purpose of a connection.
type channel uint16

const (
	listChannel   channel = 1 // a stream of memberlist: ranks exchange lists
	dataChannel   channel = 2 // frames of package exchange
	statusChannel channel = 3 // one question about the waits of a rank
)

// dialTimeout is how long one attempt to reach a rank at its addresses may take,
// with the handshake.
const dialTimeout = 5 * time.Second

// errAttempt is the error for a rank that started before rank 0 of this job did, or after.
var errAttempt = fmt.Errorf("%w: it is of another attempt of this job, or of another job with the same id and key",
	netconn.ErrKey)

// authenticator holds the state with which a rank proves itself and verifies others. It may be used concurrently.
type authenticator struct {
	session    *netconn.Session
	self, size int
	attempt    atomic.Pointer[netconn.Attempt] // set once, and kept
}

// newAuthenticator draws the attempt on rank 0.
func newAuthenticator(key []byte, self, size int) *authenticator {
	g := &authenticator{self: self, size: size}
	g.session = netconn.NewSession(key, g)
	if self == 0 {
		var id netconn.Attempt
		rand.Read(id[:])
		g.attempt.Store(&id)
	}
	return g
}

// know sets the attempt of a later epoch, which follows from the key that the launcher has drawn for it.
func (g *authenticator) know(key []byte) {
	var id netconn.Attempt
	copy(id[:], key)
	g.attempt.Store(&id)
}

// Current is for the session.
func (g *authenticator) Current() (id netconn.Attempt) {
	if known := g.attempt.Load(); known != nil {
		id = *known
	}
	return id
}

// Learn is for the session: rank 0 sends the attempt.
func (g *authenticator) Learn(from int, id netconn.Attempt) error {
	if from == 0 && id != (netconn.Attempt{}) {
		g.attempt.CompareAndSwap(nil, &id)
	}
	if id == (netconn.Attempt{}) || id != g.Current() {
		return errAttempt
	}
	return nil
}

// Admit is for the session.
func (g *authenticator) Admit(h *netconn.Hello) error {
	none := netconn.Attempt{}
	joins := g.self == 0 && channel(h.Channel) == listChannel && h.Attempt == none
	if joins || h.Attempt != none && h.Attempt == g.Current() {
		return nil
	}
	return errAttempt
}

// dial connects to rank to at one of its addresses, and runs the mutual proof. The error is *netconn.UnreachedError.
func (g *authenticator) dial(ctx context.Context, addrs []netip.AddrPort, to int, ch channel) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := g.session.DialAny(ctx, addrs, netconn.Hello{From: g.self, To: to, Channel: uint16(ch)})
	if err != nil {
		return nil, err
	}
	return c.Raw(), nil
}

// accept verifies the dialing rank and the purpose of the connection. A rank that takes the job for larger than it is
// passes, so that it receives an answer with the reason.
func (g *authenticator) accept(conn net.Conn) (*netconn.Conn, error) {
	return g.session.Accept(conn, func(h *netconn.Hello) error {
		switch ch := channel(h.Channel); {
		case ch < listChannel || ch > statusChannel:
			return fmt.Errorf("unknown channel %d", ch)
		case h.To != g.self:
			return fmt.Errorf("meant for rank %d, this is rank %d", h.To, g.self)
		}
		return nil
	})
}
