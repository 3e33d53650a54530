package sparse

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/treerun/treerun/collective/sparse/internal/drive"
	"github.com/treerun/treerun/collective/sparse/internal/pool"
	"github.com/treerun/treerun/topo"
)

// maxSharing is how many ranks the form Shared is for: every one has a link with every
// other, and looks at what all have.
const maxSharing = 32

// noSharing says why the form Shared cannot run a call, "" if it can: the same on all
// ranks.
func (r *reduction) noSharing() string {
	switch {
	case slices.ContainsFunc(r.c.Hosts, func(h int) bool { return h != r.c.Hosts[0] }):
		return "the ranks are on several hosts"
	case r.c.Size > maxSharing:
		return fmt.Sprintf("%d ranks, at most %d can", r.c.Size, maxSharing)
	case r.c.HeapBytes == 0:
		return "the ranks share no memory but their links (see ulimit -v)"
	case heapTimes*pool.MostBytes(r.grid) > r.c.HeapBytes:
		return fmt.Sprintf("the ranks share %d bytes each, %d are needed", r.c.HeapBytes, heapTimes*pool.MostBytes(r.grid))
	}
	return ""
}

// scarce notes that ranks had no memory for a call in the form Shared.
type scarce struct {
	need  int    // bytes that the call would have taken at most
	until uint32 // number of the call from which on it is worth another try
}

// scarceCalls is for how many calls that are as large nobody tries again.
const scarceCalls = 100

// lacking reports whether ranks had no memory for a call as large as this one, lately: the
// same on all ranks.
func (r *reduction) lacking() bool {
	s := &r.state.scarce
	return s.need > 0 && pool.MostBytes(r.grid) >= s.need && r.tensor < s.until
}

// heapTimes is how many times what a call can need the ranks must be able to share, since
// one block stays where it is while there has to be room for another.
const heapTimes = 4

// openHost opens the links of the form Shared, unless they are open. All ranks call it
// together. why says why they cannot be opened, on all ranks.
func (s *state) openHost(ctx context.Context, during string) (why, err error) {
	if s.host != nil {
		return nil, nil
	}
	var lanes drive.Lanes
	var stars []int
	for root := range s.c.Size {
		stars = append(stars, lanes.Add(topo.Star(s.c.Size, root)))
	}
	layout := lanes.Layout(s.c.Size, 2, slotsQuantum)
	layout.HeapBytes = s.c.HeapBytes
	s.hosts++
	ep, why, err := s.try(ctx, during, fmt.Sprintf("sparse shared %d", s.hosts), layout)
	if why != nil || err != nil {
		return why, err
	}
	links, err := drive.Open(ep, &lanes, s.c.Rank, s.c.Size)
	if err != nil {
		return nil, s.broken(during, err)
	}
	s.c.OnClose(func() error { s.hosted, s.host = nil, nil; return nil })
	s.hosted, s.host = links, drive.NewPool(links, stars)
	return nil, nil
}

// shareMemory runs the call in the form Shared. Where a rank has no memory for that it is
// not done on any, which have found their blocks then.
func (r *reduction) shareMemory(ctx context.Context, known bool) (done bool, err error) {
	if why := r.noSharing(); why != "" {
		return false, wrongArgument(fmt.Sprint(r.call), r.c.Rank, why)
	}
	why, err := r.openHost(ctx, r.name)
	if err != nil {
		return false, err
	}
	if !known {
		s := newSearch(r)
		s.later = true
		s.all()
	}
	if why != nil {
		r.saveMemory(why)
		return false, nil
	}
	job := pool.Job{Grid: r.grid, DType: r.call.DType, Op: r.call.Op, Rank: r.c.Rank, Ranks: r.c.Size, Recv: r.out,
		Fill: r.fill, Union: r.union}
	if !r.inPlace && !known {
		job.Stale = r.swept[:len(r.set)]
	}
	head := r.header(0)
	n, short := r.pack()
	if short != nil {
		err = r.host.BeginWithout(head, job)
	} else {
		err = r.host.Begin(head, job, n)
	}
	if err != nil {
		return false, r.broken(r.name, err)
	}
	if fault, failed := r.hosted.Run(ctx, r.host, &r.c.Waiter, r.name); failed {
		return false, r.c.Fault(fault, r.name)
	}
	if rank, lacks := r.host.Lacks(); lacks {
		if short == nil {
			short = fmt.Errorf("rank %d has no memory for its blocks", rank)
		}
		r.saveMemory(short)
		return false, nil
	}
	r.moved(&r.host.Traffic, r.host.Union())
	return true, nil
}

// saveMemory notes that the form Shared had no memory, and says why as this rank sees it.
func (r *reduction) saveMemory(why error) {
	if r.c.Verbose && !r.lacking() {
		fmt.Fprintf(os.Stderr, "treerun: rank %d: %s cannot share memory, and runs in the form trees: %v\n", r.c.Rank, r.name,
			why)
	}
	r.state.scarce = scarce{need: pool.MostBytes(r.grid), until: r.tensor + scarceCalls}
	r.fill = r.fill || !r.inPlace // of what was in out before nothing was cleared
}

// rest gives back what the form Shared keeps of large calls when the next one is in another
// form. All ranks have begun it.
func (r *reduction) rest(ctx context.Context, f Form) error {
	if f == Shared || r.host == nil {
		return nil
	}
	if err := r.host.Rest(); err != nil {
		return r.broken(r.name, err)
	}
	return nil
}

// pack puts this rank's part into memory that all ranks can read, and returns how long
// it is. An error says that there is no such memory.
func (r *reduction) pack() (n int, err error) {
	g := r.grid
	n = pool.PartBytes(g, r.set)
	room, err := r.host.Room(n)
	if err != nil {
		return 0, fmt.Errorf("shared memory for %d bytes of blocks: %w", n, err)
	}
	pool.PutHead(room, g, r.set)
	pool.PutBlocks(room[pool.HeadBytes(g):], g, r.in, r.set)
	return n, nil
}
