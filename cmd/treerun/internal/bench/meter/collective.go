package meter

import (
	"github.com/treerun/treerun/collective/plan"
)

// Collective is what can be measured, apart from the call itself.
type Collective struct {
	Name    string    // on the command line and in the rows
	Kind    plan.Kind // 0: it has no plan
	Reduces bool      // it takes an operation
	Rooted  bool      // it takes a root

	// Parts tells that the message is one block per rank, and a count is that of
	// a block: as nccl-tests has it, the size is that of all blocks.
	Parts      bool
	Send, Recv Extent
	HasInPlace bool // it can be called in place
	Empty      bool // it carries no data: one row, of size 0
	OneByOne   bool // it has no form of which many can be in flight
	OnGPU      bool // it runs on GPUs, too
	Sparse     bool // most of its data may be zero: there are densities and overlaps

	// Factor is busbw over algbw for n ranks, as nccl-tests defines it.
	Factor Share

	// Least is what the ranks must move at least, on the average of n ranks, over
	// the size of the message; LeastInPlace where that is less in place. Every
	// rank can reach the memory of every other, so an input has to be read once,
	// by whichever rank combines it or hands it on while it is in its cache, and
	// every result has to be written once, unless it is there already.
	Least, LeastInPlace Moves
}

// Moves is what a rank reads and writes.
type Moves struct{ Read, Written Share }

// Extent is the length of a buffer.
type Extent int

// The extents: the count, or the count for each rank.
const (
	Count Extent = iota
	CountPerRank
)

// Of returns the elements of the buffer for a count on n ranks.
func (e Extent) Of(count, n int) int {
	if e == CountPerRank {
		return count * n
	}
	return count
}

// Share is a part of a message that depends on the number of ranks.
type Share int

// The shares, for n ranks.
const (
	None     Share = iota // 0
	PerN                  // 1/n
	Rest                  // (n-1)/n
	RestPerN              // (n-1)/n^2
	Whole                 // 1
	Twice                 // 2(n-1)/n
)

// Of returns the share for np ranks.
func (s Share) Of(np int) float64 {
	n := float64(np)
	return [...]float64{0, 1 / n, (n - 1) / n, (n - 1) / n / n, 1, 2 * (n - 1) / n}[s]
}

// Collectives are all that can be measured, in the order of "all". Package
// meter has the call for each.
var Collectives = []Collective{
	{Name: "allreduce", Kind: plan.AllReduce, OnGPU: true, Reduces: true, HasInPlace: true, Factor: Twice,
		Least: Moves{Whole, Whole}},
	{Name: "reduce", Kind: plan.Reduce, OnGPU: true, Reduces: true, Rooted: true, HasInPlace: true, Factor: Whole,
		Least: Moves{Whole, PerN}},
	{Name: "broadcast", Kind: plan.Broadcast, OnGPU: true, Rooted: true, HasInPlace: true, Factor: Whole,
		Least: Moves{PerN, Whole}, LeastInPlace: Moves{PerN, Rest}},
	{Name: "allgather", Kind: plan.AllGather, OnGPU: true, Parts: true, Recv: CountPerRank, HasInPlace: true,
		Factor: Rest, Least: Moves{PerN, Whole}, LeastInPlace: Moves{PerN, Rest}},
	{Name: "reducescatter", Kind: plan.ReduceScatter, OnGPU: true, Reduces: true, Parts: true, Send: CountPerRank,
		HasInPlace: true, Factor: Rest, Least: Moves{Whole, PerN}},
	{Name: "alltoall", Kind: plan.AllToAll, Parts: true, Send: CountPerRank, Recv: CountPerRank, HasInPlace: true,
		Factor: Rest, Least: Moves{Whole, Whole}, LeastInPlace: Moves{Rest, Rest}},
	{Name: "gather", Kind: plan.Gather, Rooted: true, Parts: true, Recv: CountPerRank, HasInPlace: true, Factor: Rest,
		Least: Moves{PerN, PerN}, LeastInPlace: Moves{RestPerN, RestPerN}},
	{Name: "scatter", Kind: plan.Scatter, Rooted: true, Parts: true, Send: CountPerRank, HasInPlace: true, Factor: Rest,
		Least: Moves{PerN, PerN}, LeastInPlace: Moves{RestPerN, RestPerN}},
	{Name: "sendrecv", OneByOne: true, Factor: Whole, Least: Moves{Whole, Whole}},
	{Name: "barrier", Kind: plan.Barrier, OnGPU: true, Empty: true},
	{Name: "sparse-allreduce", Kind: plan.AllReduce, OnGPU: true, Sparse: true, Reduces: true, HasInPlace: true,
		OneByOne: true, Factor: Twice, Least: Moves{Whole, Whole}, LeastInPlace: Moves{Whole, None}},
}

// block is a part of a result: what stands in recv from element at on.
type block struct {
	at, count int
	from      int // the rank whose input it is, or everybody
	offset    int // of its first element in that input
}

const everybody = -1 // the combined input of all ranks

// result returns what the result of a call consists of on rank me of size; of a sparse
// collective, which is compared by itself, and of one without data nothing.
func (c *Collective) result(me, size, root, count int) []block {
	parts, offset := c.Recv.Of(1, size), 0
	if c.Send == CountPerRank {
		offset = me * count // the part for this rank
	}
	toRoot := c.Rooted && (c.Reduces || c.Recv == CountPerRank)
	if c.Sparse || c.Empty || toRoot && me != root {
		return nil
	}
	all := make([]block, parts)
	for q := range all {
		from := q
		switch {
		case c.Reduces:
			from = everybody
		case c.Rooted && !toRoot:
			from = root
		case c.Kind == 0:
			from = (me + size - 1) % size // data go round a ring
		}
		all[q] = block{q * count, count, from, offset}
	}
	return all
}

// Find returns the collective of a name, nil when there is none.
func Find(name string) *Collective {
	for i := range Collectives {
		if Collectives[i].Name == name {
			return &Collectives[i]
		}
	}
	return nil
}

// Bus returns the bus bandwidth that belongs to an algorithm bandwidth.
func (c *Collective) Bus(algbw float64, np int) float64 { return algbw * c.Factor.Of(np) }

// Traffic returns the bytes that a rank must read and write at least, on the
// average of np ranks, for a message of so many bytes.
func (c *Collective) Traffic(bytes int64, inPlace bool, np int) float64 {
	least := c.Least
	if inPlace && c.LeastInPlace != (Moves{}) {
		least = c.LeastInPlace
	}
	return float64(bytes) * (least.Read.Of(np) + least.Written.Of(np))
}
