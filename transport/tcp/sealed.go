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

// sealed is a socket under a TLS session: the wire of the connection, and at the
// same time what the session reads records from and writes them to. Neither
// ever blocks: a read of nothing is an error that passes, and what is written is
// kept until the socket takes it.
type sealed struct {
	net.Conn // what the session came over: whatever else it calls is for that
	fd       int
	session  *tls.Conn
	in       osys.Vectors

	mu   sync.Mutex // the session answers some records, so both directions write
	out  osys.Vectors
	kept []byte // records that the socket has not taken
	off  int    // bytes of them that it has
}

// keepUpTo is how many bytes of records may wait before nothing more is taken.
const keepUpTo = 256 << 10

// send encrypts what v holds, as far as there is room to keep it.
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

// push gives the socket what is kept.
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
		return n, nil // an error comes again the next time
	case errors.Is(err, errNothing):
		return 0, osys.ErrAgain
	}
	return 0, err
}

// hides: a session keeps what it has decrypted or read ahead.
func (s *sealed) hides() bool { return true }

// errNothing is the error of a read when there is nothing to read yet: to the session one that passes.
var errNothing = os.ErrDeadlineExceeded

// Read is for the session.
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

// Write is for the session.
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
