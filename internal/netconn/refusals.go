package netconn

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
)

// Refusals logs the first caller who was refused, and no others. Callers who hang up before they have
// proved anything do not count: a peer does so when another path was faster. It may be used concurrently.
type Refusals struct {
	Log *slog.Logger // with what says who listens

	once sync.Once
}

// Refused notes that a caller was refused. It has the form of AcceptorConfig.Refused.
func (s *Refusals) Refused(from net.Addr, err error) {
	if errors.Is(err, errSilent) || errors.Is(err, errNoProof) {
		return
	}
	s.once.Do(func() {
		s.Log.Warn("treerun: refused somebody who is no rank of this job; others are refused without a word",
			"from", from, "error", err)
	})
}

// addrOf returns the address of a TCP peer without zone, the zero Addr for others.
func addrOf(at net.Addr) netip.Addr {
	if at, is := at.(*net.TCPAddr); is {
		return at.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
