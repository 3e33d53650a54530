package nodes

import (
	"bufio"
	"net"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/netconn"
)

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
