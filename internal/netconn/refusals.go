package netconn

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
)

// Refusals logs the first caller who was refused, and the number of all others once, in the
// end. Callers who hang up before they have proved anything do not count: a peer does so when
// another path was faster. It may be used concurrently.
type Refusals struct {
	Log *slog.Logger // with what says who listens

	mu      sync.Mutex
	refused int
}

// Refused notes that a caller was refused. It has the form of AcceptorConfig.Refused.
func (s *Refusals) Refused(from net.Addr, err error) {
	if errors.Is(err, errSilent) || errors.Is(err, errNoProof) {
		return
	}
	s.mu.Lock()
	s.refused++
	first := s.refused == 1
	s.mu.Unlock()
	if first {
		s.Log.Warn("treerun: refused somebody who is no rank of this job; others are refused without a word",
			"from", from, "error", err)
	}
}

// Summary logs how many were refused besides the first.
func (s *Refusals) Summary() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused > 1 {
		s.Log.Info("treerun: refused more of them", "count", s.refused-1)
	}
}

// addrOf returns the address of a TCP peer without zone, the zero Addr for others.
func addrOf(at net.Addr) netip.Addr {
	if at, is := at.(*net.TCPAddr); is {
		return at.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
