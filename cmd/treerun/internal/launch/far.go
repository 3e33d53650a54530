package launch

import (
	"io"
	"net"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// source is what a rank on another host prints, for output.Stream.
type source struct {
	streams <-chan net.Conn // gets one, or is closed: there is none
	stream  net.Conn
}

// ReadUntil is as output.Source wants it.
func (s *source) ReadUntil(p []byte, deadline time.Time) (int, error) {
	if s.stream == nil { // nothing has come yet for which there could be a deadline
		if s.stream = <-s.streams; s.stream == nil {
			return 0, io.EOF
		}
	}
	_ = s.stream.SetReadDeadline(deadline) // never fails
	n, err := s.stream.Read(p)
	if n > 0 {
		err = nil // that of asking for more
	}
	return n, err
}

// Close tells the host that all has been shown.
func (s *source) Close() error {
	if s.stream == nil {
		return nil
	}
	return s.stream.Close()
}

// sendInput carries our stdin to a rank 0 on another host. It reads ahead of rank 0, and
// ends with its reader; else with this process.
func (s *supervisor) sendInput() {
	f, err := wire.Encode(0, &wire.Stream{Number: wire.Stdin})
	if err != nil {
		return // cannot be
	}
	stream, err := s.tree.Stream(f)
	if err != nil {
		return // the host is lost
	}
	wire.Relay(stream, readable(s.job.Stdin))
}
