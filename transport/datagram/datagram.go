// Package datagram lets the ranks of a job send each other UDP datagrams that
// nobody else can make, read or repeat: every one is sealed with AES-256-GCM
// under a key of its pair of ranks and direction, which follows from the job's
// secret and from random numbers that the ranks draw for each Connect. What is
// lost, comes twice or late is the caller's affair; a repeated datagram is
// dropped here.
//
// A rank has one socket. Where the others listen it learns over the caller's
// function Exchange, and which of a peer's addresses can be reached by trying
// them with datagrams of full size.
//
// It knows nothing of links, slots or collectives. Package collective connects
// it, and package sparse sends the packets of OmniReduce's Algorithm 2 with it.
package datagram

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/treerun/treerun/transport/ports"
)

// Sizes in bytes. A datagram and the headers of IPv6 and UDP fill a frame of
// Ethernet, 1500 bytes.
const (
	MaxDatagram = 1452
	Overhead    = headerBytes + tagBytes // of a datagram beside its payload
	MaxPayload  = MaxDatagram - Overhead
)

// DefaultTimeout is the value of Config.Timeout where none is given.
const DefaultTimeout = 10 * time.Second

const maxRanks = 1 << 16

// Config says who connects to whom, and how. Key, JobID, Epoch and Purpose are
// the same on all ranks.
type Config struct {
	Rank, Size int
	Peers      func(rank int) bool // with whom this rank talks; symmetric; nil: with all others

	Key     []byte // the job's secret
	JobID   string
	Epoch   int    // a job that starts again under the same id and key counts up
	Purpose string // tells the datagrams of one Connect from those of others

	Listen  []netip.Addr  // this rank's addresses, best first
	Ports   ports.Range   // to listen at
	Timeout time.Duration // for a first datagram to get through; 0 means DefaultTimeout

	HostOf func(rank int) string // names of hosts, for errors; may be nil

	// Exchange gives every rank the blobs of all, by rank, in a way that nobody
	// else can change. It is called twice, or once when a rank cannot begin. It
	// should fail when a rank is lost.
	Exchange func(ctx context.Context, blob []byte) ([][]byte, error)

	// Via, where it is not nil, returns the address to send to in place of the one
	// where a peer listens: for tests with something in between.
	Via func(peer int, at netip.AddrPort) netip.AddrPort

	Log *slog.Logger // nil means slog.Default
}

// validate checks cfg and fills in defaults.
func (cfg *Config) validate() error {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.HostOf == nil {
		cfg.HostOf = func(int) string { return "" }
	}
	if cfg.Peers == nil {
		cfg.Peers = func(int) bool { return true }
	}
	if cfg.Via == nil {
		cfg.Via = func(_ int, at netip.AddrPort) netip.AddrPort { return at }
	}
	switch {
	case cfg.Size < 1 || cfg.Size > maxRanks || cfg.Rank < 0 || cfg.Rank >= cfg.Size:
		return fmt.Errorf("rank %d of %d", cfg.Rank, cfg.Size)
	case len(cfg.Key) == 0:
		return errors.New("no key")
	case cfg.Epoch < 0 || cfg.Timeout < 0:
		return fmt.Errorf("epoch %d, timeout of %v", cfg.Epoch, cfg.Timeout)
	case cfg.Ports.Check() != nil:
		return cfg.Ports.Check()
	case len(cfg.Listen) == 0:
		return errors.New("no address to listen at (hint: --iface chooses the network devices)")
	}
	return nil
}

// Counters is what a Socket has sent and got since Connect.
type Counters struct {
	Sent     int64 // datagrams
	Received int64 // genuine ones, each once
	Lost     int64 // numbers of datagrams that are missing: lost, or still to come
	Unsent   int64 // which the system refused to send
	Refused  int64 // of any kind below

	Malformed int64 // too short, too long, or not of this protocol
	Alien     int64 // of another job, epoch or purpose, or of no peer
	Repeated  int64 // that came before, or so late that nobody knows
	Forged    int64 // without a valid tag
}

// Sub returns what has been added to c since it was b.
func (c Counters) Sub(b Counters) Counters {
	return Counters{
		c.Sent - b.Sent, c.Received - b.Received, c.Lost - b.Lost, c.Unsent - b.Unsent, c.Refused - b.Refused,
		c.Malformed - b.Malformed, c.Alien - b.Alien, c.Repeated - b.Repeated, c.Forged - b.Forged,
	}
}
