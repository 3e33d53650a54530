package netconn

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
)

// namedSources is how many sources of refused connections are logged one by one.
const namedSources = 8

// Refusals logs who was refused: the first of every source, or of all, and the number of
// all others once, in the end. It may be used concurrently.
type Refusals struct {
	Log   *slog.Logger // with what says who listens
	Once  bool         // log the first of all only
	Spare int          // how many may hang up, or fall silent, before they have proved anything

	mu     sync.Mutex
	spared map[netip.Addr]int // the same, by source, for those that may
	named  map[netip.Addr]bool
	silent int // refused without a word
}

// spares lets n more connections of a source end before they have proved anything:
// a peer does so when another path was faster, or when one side got no core for seconds.
func (s *Refusals) spares(source netip.Addr, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spared == nil {
		s.spared = make(map[netip.Addr]int)
	}
	s.spared[source] += n
}

// mayEnd says whether a connection that ended early may be one of a peer. The
// caller holds mu.
func (s *Refusals) mayEnd(source netip.Addr, err error) bool {
	if errors.Is(err, errLeft) {
		return true
	}
	if !errors.Is(err, errSilent) && !errors.Is(err, errNoProof) {
		return false
	}
	if s.Spare > 0 {
		s.Spare--
		return true
	}
	left := s.spared[source]
	if left > 0 {
		s.spared[source] = left - 1
	}
	return left > 0
}

// Refused notes that a caller was refused. It has the form of AcceptorConfig.Refused.
func (s *Refusals) Refused(from net.Addr, err error) {
	source, others := addrOf(from), "others from there are"
	s.mu.Lock()
	if s.mayEnd(source, err) {
		s.mu.Unlock()
		return
	}
	if s.Once {
		source, others = netip.Addr{}, "others are"
	}
	known := s.named[source] || len(s.named) >= namedSources
	if known {
		s.silent++
	} else {
		if s.named == nil {
			s.named = make(map[netip.Addr]bool)
		}
		s.named[source] = true
	}
	s.mu.Unlock()
	if !known {
		s.Log.Warn("treerun: refused somebody who is no rank of this job; "+others+" refused without a word",
			"from", from, "error", err)
	}
}

// Summary logs how many were refused without a word since the last time.
func (s *Refusals) Summary() {
	s.mu.Lock()
	n := s.silent
	s.silent = 0
	s.mu.Unlock()
	if n > 0 {
		s.Log.Info("treerun: refused more of them", "count", n)
	}
}

// addrOf returns the address of a TCP or UDP peer without zone, the zero Addr for others.
func addrOf(at net.Addr) netip.Addr {
	switch at := at.(type) {
	case *net.TCPAddr:
		return at.AddrPort().Addr().Unmap().WithZone("")
	case *net.UDPAddr:
		return at.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
