package shm

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
)

// A member and the leader (the first member) prove to each other that they know the job's
// key and have one layout, as package netconn does it: the key of the session is derived from
// both, so that a proof is good for one connection, one direction, one pair of ranks and one
// layout. The leader's grant follows: a byte with the descriptor of the segment.
const leader = 0 // which member

// errAuth is the error of a peer that does not prove that it knows the key.
var errAuth = errors.New("peer does not know this job's key, or has another layout")

// newSession returns the session of a job's key, its id and a layout.
func newSession(key []byte, jobID string, digest [sha256.Size]byte) (*netconn.Session, error) {
	derived, err := netconn.DeriveKey(key, jobID, "treerun shm handshake 2 "+string(digest[:]))
	if err != nil {
		return nil, err
	}
	return netconn.NewSession(derived, nil), nil
}

// expects says whether a hello may come to the leader of a layout.
func expects(h *netconn.Hello, l *transport.Layout) error {
	if h.From >= l.Size || l.MemberIndex(h.From) <= leader || h.To != l.Member(leader) || h.Channel != 0 {
		return fmt.Errorf("hello from rank %d of %d to rank %d", h.From, l.Size, h.To)
	}
	return nil
}

// sendGrant gives the segment to a member that has proved itself.
func sendGrant(c *net.UnixConn, fd int) error { return osys.SendFD(c, []byte{0}, fd) }

// receiveGrant returns the descriptor of a segment.
func receiveGrant(c *net.UnixConn) (fd int, err error) { return osys.RecvFD(c, make([]byte, 1)) }
