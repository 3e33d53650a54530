// Package netconn makes the authenticated connections between the processes of a job, and hands them over. It is
// internal to treerun. Both ends prove that they know a key of the job (Session), in bounded time and among a bounded
// number of unauthenticated peers (Acceptor). A process that has several addresses is dialed at all of them, and the
// fastest connection is kept. The connection then carries plain bytes or TLS 1.3.
//
// Connect joins all ranks of a job over TCP in this way. The caller's function Exchange distributes the addresses at
// which ranks listen.
//
// The package does not interpret the data on its connections. Packages rank, transport/tcp, transport/shm and the
// treeruns of --nnodes use it.
package netconn

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"
)

// Defaults of Config.
const (
	defaultTimeout     = 60 * time.Second
	DefaultPeerTimeout = 10 * time.Second
)

// Digest is a digest of settings.
type Digest [sha256.Size]byte

// String returns the first 8 hexadecimal digits.
func (d Digest) String() string { return fmt.Sprintf("%x", d[:4]) }

// Config describes the connections of one rank. Job, Epoch, Purpose, Key, Encrypt and Use are the same on all ranks.
type Config struct {
	Rank, Size int
	Peers      func(rank int) bool // ranks that this rank may have connections with; symmetric; nil: all others
	First      func(rank int) bool // which of these Connect connects, and not Mesh.Reach; symmetric; nil: all

	Key     []byte // the job's secret
	JobID   string
	Epoch   int    // increases when a job starts again under the same id and key
	Purpose string // distinguishes the connections of concurrent Connects
	Encrypt bool   // TLS 1.3
	Use     Digest // of all other settings that must be the same on all ranks

	Listen      []netip.Addr  // this rank's addresses, best first
	Ports       PortRange     // to listen at
	Timeout     time.Duration // for all attempts, from the moment when all ranks listen; 0 means defaultTimeout
	PeerTimeout time.Duration // time after which a host that does not answer is lost; 0 means DefaultPeerTimeout

	HostOf func(rank int) string // names of hosts, for errors; may be nil

	// Exchange returns the blobs of all ranks, by rank. It is called twice, or once if a rank cannot begin. Its errors are
	// returned with their type. It should fail when a rank is lost.
	Exchange func(ctx context.Context, blob []byte) ([][]byte, error)

	// Via, if not nil, returns the address to dial in place of the one where a peer listens, for tests with a proxy.
	Via func(peer int, at netip.AddrPort) netip.AddrPort

	Log     *slog.Logger // nil means slog.Default
	Verbose bool         // log the addresses of connected ranks at level Info; else at Debug
}

// validate checks cfg and fills in defaults.
func (cfg *Config) validate() error {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.PeerTimeout == 0 {
		cfg.PeerTimeout = DefaultPeerTimeout
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.HostOf == nil {
		cfg.HostOf = func(int) string { return "" }
	}
	switch {
	case len(cfg.Key) == 0:
		return errors.New("no key")
	case len(cfg.Listen) > maxPlaces:
		return fmt.Errorf("%d addresses to listen at, at most %d are possible (hint: --iface)", len(cfg.Listen), maxPlaces)
	case cfg.PeerTimeout > maxPeerTimeout:
		return fmt.Errorf("a peer timeout of %v, at most %v is possible (hint: --peer-timeout)", cfg.PeerTimeout,
			maxPeerTimeout)
	}
	return nil
}

// newSession derives the keys of one Connect. The values that distinguish jobs are sent in the clear.
func newSession(cfg *Config) (*Session, error) {
	use := fmt.Sprintf("treerun connections %d epoch %d %s", helloVersion, cfg.Epoch, cfg.Purpose)
	key, err := DeriveKey(cfg.Key, cfg.JobID, use)
	if err != nil {
		return nil, err
	}
	s := NewSession(key, nil)
	if cfg.Encrypt {
		if err := s.Encrypt(); err != nil {
			return nil, err
		}
	}
	s.scope.Epoch = uint32(cfg.Epoch)
	digest := sha256.Sum256([]byte("treerun purpose\x00" + cfg.Purpose))
	copy(s.scope.Purpose[:], digest[:])
	digest = sha256.Sum256([]byte("treerun job\x00" + cfg.JobID))
	copy(s.scope.Job[:], digest[:])
	return s, nil
}
