package setup

import (
	"context"
	"net/netip"
)

// World is the job as a communicator sees it. *rank.World is one.
type World interface {
	Rank() int           // this rank, from 0
	Size() int           // number of ranks
	HostOf(rank int) int // index of the host of a rank

	// AllGather gives every rank the blobs of all ranks, by rank.
	AllGather(ctx context.Context, blob []byte) ([][]byte, error)

	// Failed is closed when a rank is known to have failed; Failure then returns the rank and the cause.
	Failed() <-chan struct{}
	Failure() (rank int, err error)

	// DeriveKey returns a 32-byte key that only the ranks of this job know,
	// another one for every purpose.
	DeriveKey(purpose string) []byte

	JobID() string

	// Setting returns a setting of the launcher, "" when it is not set.
	Setting(name string) string
}

// Networked is an interface that the World must also implement where its ranks are on several hosts. *rank.World does.
type Networked interface {
	ListenAddrs() []netip.Addr // of this rank's host, for other hosts, best first
	HostName(rank int) string  // for users
	Epoch() int                // how often the job was restarted under its id, from 0
}
