package setup

import (
	"context"
	"net/netip"
)

// World is what a communicator needs to know of the job. *rank.World is one.
type World interface {
	Rank() int           // this rank, from 0
	Size() int           // number of ranks
	HostOf(rank int) int // index of the host of a rank

	// AllGather gives every rank the blobs of all ranks, by rank.
	AllGather(ctx context.Context, blob []byte) ([][]byte, error)

	// Failed is closed when a rank is known to have failed; Failure then says
	// which one, and how.
	Failed() <-chan struct{}
	Failure() (rank int, err error)

	// DeriveKey returns a 32-byte key that only the ranks of this job know,
	// another one for every purpose.
	DeriveKey(purpose string) []byte

	JobID() string

	// Setting returns a setting of the launcher, "" when it is not set.
	Setting(name string) string
}

// Networked is what the World must be, too, where its ranks are on several
// hosts. *rank.World is one.
type Networked interface {
	ListenAddrs() []netip.Addr // of this rank's host, for other hosts, best first
	HostName(rank int) string  // for people
	Epoch() int                // how often the job was restarted under its id, from 0
}

// Leaving is what a World tells, if it can, of ranks that have closed it in good order:
// they are in no call any more. *rank.World does.
type Leaving interface{ Left(rank int) bool }

// Outlasting is what a World reports, if it can, of every rank that has ended: that it has closed its World, or has
// failed. Failure reports the first failure only. *rank.World does.
type Outlasting interface{ Gone(rank int) bool }
