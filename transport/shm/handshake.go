package shm

import (
	"crypto/sha256"
	"encoding/binary"
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
// layout. The leader's grant follows: the bytes of the segment, and its descriptor.
const (
	grantBytes = 8
	leader     = 0 // which member
)

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
func sendGrant(c *net.UnixConn, fd, size int) error {
	return osys.SendFD(c, binary.LittleEndian.AppendUint64(nil, uint64(size)), fd)
}

// receiveGrant returns the descriptor of a segment of size bytes.
func receiveGrant(c *net.UnixConn, size int) (fd int, err error) {
	var b [grantBytes]byte
	if fd, err = osys.RecvFD(c, b[:]); err != nil {
		return -1, err
	}
	if got := binary.LittleEndian.Uint64(b[:]); got != uint64(size) {
		_ = osys.CloseFD(fd)
		return -1, fmt.Errorf("leader offers a segment of %d bytes, want %d", got, size)
	}
	return fd, nil
}
