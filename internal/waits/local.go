package waits

import (
	"bytes"
	"context"
	"sync"
)

// Local is a job whose ranks are goroutines of one process. Its methods may be called concurrently.
type Local struct {
	Jobs []*Job // waits of each rank

	mu     sync.Mutex
	rounds []*round // AllGathers that a rank has begun, in order
}

// round is one AllGather.
type round struct {
	blobs [][]byte
	here  int
	full  chan struct{}
}

// NewLocal returns a job with the given number of ranks.
func NewLocal(ranks int) *Local {
	l := &Local{Jobs: make([]*Job, ranks)}
	for r := range l.Jobs {
		l.Jobs[r] = &Job{Rank: r, Size: ranks, Query: func(ctx context.Context, rank, about int) (Status, error) {
			return l.Jobs[rank].Status(ctx, about), nil
		}}
	}
	return l
}

// AllGather is AllGather number n of a rank, counted from 0: it returns to every rank a copy of the blobs of all ranks.
// It waits for the other ranks until ctx ends, and then returns the cause of ctx.
func (l *Local) AllGather(ctx context.Context, rank, n int, blob []byte) ([][]byte, error) {
	l.mu.Lock()
	if n == len(l.rounds) {
		l.rounds = append(l.rounds, &round{blobs: make([][]byte, len(l.Jobs)), full: make(chan struct{})})
	}
	r := l.rounds[n]
	r.blobs[rank] = append([]byte{}, blob...)
	if r.here++; r.here == len(l.Jobs) {
		close(r.full)
	}
	l.mu.Unlock()
	select {
	case <-r.full:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	all := make([][]byte, len(l.Jobs))
	for i, b := range r.blobs {
		all[i] = bytes.Clone(b)
	}
	return all, nil
}
