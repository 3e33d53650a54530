package netconn

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
)

// namedSources is how many sources of strangers are logged one by one.
const namedSources = 8

// Strangers logs who was refused: the first of every source, and the number of
// all others once, in the end. It may be used concurrently.
type Strangers struct {
	Log *slog.Logger // with what says whose door it is

	mu     sync.Mutex
	named  map[netip.Addr]bool
	silent int // refused without a word
}

// Refused notes that a caller was refused. It has the form of Config.Refused.
func (s *Strangers) Refused(from net.Addr, err error) {
	var source netip.Addr
	if at, ok := from.(*net.TCPAddr); ok {
		source = at.AddrPort().Addr().Unmap()
	}
	s.mu.Lock()
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
		s.Log.Warn("treerun: refused somebody who is no rank of this job; others from there are refused without a word",
			"from", from, "error", err)
	}
}

// Summary logs how many were refused without a word since the last time.
func (s *Strangers) Summary() {
	s.mu.Lock()
	n := s.silent
	s.silent = 0
	s.mu.Unlock()
	if n > 0 {
		s.Log.Info("treerun: refused more of them", "count", n)
	}
}
