package sparse

import (
	"context"
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/drive"
	"github.com/treerun/treerun/collective/sparse/internal/pool"
	"github.com/treerun/treerun/transport"
)

// maxSharing is the maximum number of ranks for the form Shared: every rank has a link with every other, and reads the
// blocks of all.
const maxSharing = 32

// noSharing returns the reason why the form Shared cannot run a call, or "" if it can: the same on all ranks.
func (r *reduction) noSharing() string {
	switch {
	case r.state.severalHosts():
		return "the ranks are on several hosts"
	case r.state.c.Size > maxSharing:
		return fmt.Sprintf("%d ranks, at most %d can", r.state.c.Size, maxSharing)
	case r.state.inside.HeapBytes == 0:
		return "the ranks share no memory but their links (see ulimit -v)"
	case heapTimes*pool.MostBytes(r.grid) > r.state.inside.HeapBytes:
		return fmt.Sprintf("the ranks share %d bytes each, %d are needed", r.state.inside.HeapBytes,
			heapTimes*pool.MostBytes(r.grid))
	case pool.MostBytes(r.grid) > transport.MaxLent:
		return fmt.Sprintf("a rank may have %d bytes of blocks, at most %d can be lent", pool.MostBytes(r.grid),
			transport.MaxLent)
	}
	return ""
}

// heapTimes is the required ratio of the memory that ranks can share to the largest need of a call, since one block
// stays in place while there must be room for another.
const heapTimes = 4

// openHost opens the links of the form Shared, unless they are open. All ranks call it
// together.
func (s *state) openHost(ctx context.Context, during string) error {
	if s.host != nil {
		return nil
	}
	layout := transport.Layout{Size: s.c.Size, Slots: 2, SlotBytes: 64, HeapBytes: s.inside.HeapBytes}
	ep, err := s.openLinks(ctx, during, "sparse shared", layout)
	if err != nil {
		return err
	}
	if s.host, err = drive.NewPool(ep, s.c.Rank, s.c.Size); err != nil {
		return s.broken(during, err)
	}
	return nil
}

// shareMemory runs the call in the form Shared.
func (r *reduction) shareMemory(ctx context.Context) error {
	if why := r.noSharing(); why != "" {
		return r.state.c.ArgumentError(r.call.String(), "%s", why)
	}
	if err := r.state.openHost(ctx, r.name); err != nil {
		return err
	}
	if !r.found {
		newSearch(r).all()
	}
	job := pool.Job{Grid: r.grid, DType: r.call.DType, Op: r.call.Op, Rank: r.state.c.Rank, Ranks: r.state.c.Size,
		Recv: r.out, Union: r.union}
	part, err := r.state.host.Room(pool.PartBytes(r.grid, r.state.set))
	if err == nil {
		err = r.state.host.Begin(r.header(0), job, pool.Put(part, r.grid, r.in, r.state.set))
	}
	if err != nil {
		return r.state.broken(r.name, err)
	}
	if err := r.drive(ctx, r.state.host); err != nil {
		return err
	}
	r.moved(r.state.host.Counts)
	return nil
}

// trim frees the memory that the form Shared keeps of large calls when the next call is in another form. All ranks have
// begun that call.
func (r *reduction) trim(f Form) error {
	if f == Shared || r.state.host == nil {
		return nil
	}
	if err := r.state.host.Trim(0); err != nil {
		return r.state.broken(r.name, err)
	}
	return nil
}
