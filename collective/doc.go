// Package collective runs collectives (AllReduce, Reduce, Broadcast, AllGather,
// ReduceScatter, AllToAll, Gather, Scatter, Barrier) over the ranks of a job,
// and carries messages from rank to rank.
//
//	w, err := rank.Init(ctx)
//	c, err := collective.New(ctx, w)
//	err = collective.AllReduce(ctx, c, grad, grad, collective.Sum)
//
// New measures how the ranks are connected (or takes the measurement of an
// earlier job on this host), makes trees and plans from it, and checks that
// all ranks came to the same ones. The calls then run the plan that is the
// quickest for their size: by price, or as measured, where a tuning file is
// kept for this host or TREERUN_TUNE names one (see Tuning).
//
// # Calls
//
// All ranks of a communicator make the same calls in the same order, with the
// same operation, element type, count and root. A rank that does not is found
// out within a second: the call fails with ErrMismatch on every rank, and the
// error names both calls. send and recv are the same slice (in place) or do
// not overlap. Messages are not calls of all ranks: a Send and a Recv with
// different tags do not meet and may both be right, as long as neither rank
// waits for the other; a stall report says what a rank waits for.
//
// A wrong argument is an error of kind ErrArgument before anything is sent,
// and the communicator stays usable. Any other error ends the communicator on
// all ranks: each gets a *RankError with the first cause, and so does every
// later call.
//
// # Numbers
//
// The same plan gives bit-identical results from run to run and on all ranks:
// the order of additions is the plan's. Sum, Prod and Avg of Float16 and
// BFloat16 are computed in float32 and rounded to nearest even after each
// operation. Integers wrap; Avg of integers divides the wrapped sum and
// truncates toward zero. Min and Max give NaN when any input is NaN.
//
// The package does not start processes and does not import package rank: it
// takes any World.
package collective

import "context"

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
