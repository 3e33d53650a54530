package nodes

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// stream is a connection that has shown the key, and then two pipes that stand
// for it, since who uses it wants files.
type stream struct {
	tls  *tls.Conn
	conn net.Conn
	in   *bufio.Reader
	seen chan struct{} // closed when watch has returned

	toThem, fromThem *os.File // our ends
}

func newStream(t *tls.Conn, conn net.Conn) *stream {
	_ = conn.SetDeadline(time.Time{})
	return &stream{tls: t, conn: conn, in: bufio.NewReaderSize(t, 64<<10), seen: make(chan struct{})}
}

// watch returns when the first byte comes, which is after the answer, or calls
// gone when the connection ends before.
func (s *stream) watch(gone func()) {
	defer close(s.seen)
	if _, err := s.in.Peek(1); err != nil {
		gone()
	}
}

// answer writes the answer.
func (s *stream) answer(a answer) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(handshakeTimeout))
	err := writeRecord(s.tls, a)
	_ = s.conn.SetWriteDeadline(time.Time{})
	return err
}

// open makes the pipes. They end as the connection does, and the connection
// when both have ended.
func (s *stream) open() error {
	r, toThem, err := os.Pipe()
	if err != nil {
		return err
	}
	fromThem, w, err := os.Pipe()
	if err != nil {
		return errors.Join(err, r.Close(), toThem.Close())
	}
	s.toThem, s.fromThem = toThem, fromThem
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(s.tls, r) // the other direction tells how it ends
		_ = s.tls.CloseWrite()
		_ = r.Close()
	}()
	go func() {
		<-s.seen
		_, _ = io.Copy(w, s.in)
		_ = w.Close()
		<-sent
		s.close()
	}()
	return nil
}

func (s *stream) close() { _ = s.conn.Close() }
