package tcp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"

	"github.com/treerun/treerun/transport/internal/osys"
)

// sealed is a socket under a TLS session: it is the wire of the connection, and at the same time the net.Conn from
// which the session reads records and to which it writes them. Neither ever blocks: a read of nothing is a temporary
// error, and written records are kept until the socket takes them.
type sealed struct {
	net.Conn // the connection that the session was made over, for all other methods
	fd       int
	session  *tls.Conn
	in       osys.Vectors

	mu   sync.Mutex // as the session answers some records, both directions write
	out  osys.Vectors
	kept []byte // records that the socket has not taken
	off  int    // bytes of them that the socket has taken
}

// keepUpTo is how many bytes of records may wait before send takes no more.
const keepUpTo = 256 << 10

// send encrypts the bytes of v, as far as there is room to keep them.
func (s *sealed) send(v *osys.Vectors) (n int, err error) {
	v.Each(func(b []byte) bool {
		for len(b) > 0 && err == nil {
			var whole bool
			if whole, err = s.push(); err != nil || !whole && s.waiting() >= keepUpTo {
				return false
			}
			var m int
			m, err = s.session.Write(b[:min(len(b), keepUpTo)])
			n += m
			b = b[m:]
		}
		return err == nil
	})
	if n == 0 && err == nil {
		err = osys.ErrAgain
	}
	return n, err
}

func (s *sealed) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept) - s.off
}

// push sends kept records to the socket.
func (s *sealed) push() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.off < len(s.kept) {
		s.out.Reset()
		s.out.Add(s.kept[s.off:])
		n, err := s.out.Send(s.fd)
		if errors.Is(err, osys.ErrAgain) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		s.off += n
	}
	s.kept, s.off = s.kept[:0], 0
	return true, nil
}

// recv decrypts into v until it is full or nothing is left.
func (s *sealed) recv(v *osys.Vectors) (n int, err error) {
	v.Each(func(b []byte) bool {
		for len(b) > 0 && err == nil {
			var m int
			m, err = s.session.Read(b)
			n += m
			b = b[m:]
		}
		return err == nil
	})
	switch {
	case n > 0 || errors.Is(err, io.EOF):
		return n, nil // the next call returns the error again
	case errors.Is(err, errNothing):
		return 0, osys.ErrAgain
	}
	return 0, err
}

// buffersInput returns true: a session keeps bytes that it has decrypted or read ahead.
func (s *sealed) buffersInput() bool { return true }

// errNothing is the error of a read when there is nothing to read yet; the session treats it as temporary.
var errNothing = os.ErrDeadlineExceeded

// Read reads from the socket, for the session.
func (s *sealed) Read(b []byte) (int, error) {
	s.in.Reset()
	if !s.in.Add(b) || len(b) == 0 {
		return 0, nil
	}
	n, err := s.in.Recv(s.fd)
	switch {
	case errors.Is(err, osys.ErrAgain):
		return 0, errNothing
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

// Write keeps a record for the socket, for the session.
func (s *sealed) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off > 0 {
		s.kept = s.kept[:copy(s.kept, s.kept[s.off:])]
		s.off = 0
	}
	s.kept = append(s.kept, b...)
	return len(b), nil
}
