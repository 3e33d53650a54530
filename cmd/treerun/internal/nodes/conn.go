package nodes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/netconn"
)

// errKey is the error for a peer that does not know the key.
var errKey = errors.New("it does not have the key of this job: another key file, or another job id")

// secure returns what both sides of a connection prove themselves with.
func secure(key []byte, jobID string) (*netconn.Session, error) {
	derived, err := netconn.DeriveKey(key, jobID, "treerun nodes")
	if err != nil {
		return nil, fmt.Errorf("derive the key of the job: %w", err)
	}
	s := netconn.NewSession(derived, nil)
	return s, s.Encrypt()
}

// keyError says what netconn.ErrKey means here.
func keyError(err error) error {
	if errors.Is(err, netconn.ErrKey) {
		return errKey
	}
	return err
}

func write(w io.Writer, b wire.Body) error {
	f, err := wire.Encode(0, b)
	if err == nil {
		_, err = w.Write(f.Append(nil))
	}
	return err
}

func read(r io.Reader) (wire.Body, error) {
	f, err := wire.Read(r)
	if err != nil {
		return nil, err
	}
	return f.Decode()
}

// stream is the connection to a node, as node 0 has it.
type stream struct {
	net.Conn
	in   *bufio.Reader
	seen chan struct{} // closed when watch has returned
}

func newStream(c *netconn.Conn) *stream {
	return &stream{Conn: c, in: bufio.NewReaderSize(c, 64<<10), seen: make(chan struct{})}
}

// Read reads what watch has left.
func (s *stream) Read(p []byte) (int, error) {
	<-s.seen
	return s.in.Read(p)
}

// watch returns when the first byte comes, which is after the answer, or calls
// gone when the connection ends before.
func (s *stream) watch(gone func()) {
	defer close(s.seen)
	if _, err := s.in.Peek(1); err != nil {
		gone()
	}
}

// answer tells the node why there will be no job; "": it begins.
func (s *stream) answer(refused string) error {
	_ = s.SetWriteDeadline(time.Now().Add(handshakeTimeout))
	err := write(s, &wire.Result{Text: refused})
	_ = s.SetWriteDeadline(time.Time{})
	return err
}
