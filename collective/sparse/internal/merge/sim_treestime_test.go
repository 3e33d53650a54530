package merge_test

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/merge"
	"github.com/treerun/treerun/internal/kernel"
)

// Forest describes a run along trees.
type Forest struct {
	Parents    [][]int // by tree and rank, -1 for the root
	Shares     []float64
	Stripe     int // blocks
	ChunkBytes int
	Slots      int // chunks under way per link and direction
	Apart      int // machines in addition to the ranks, which only add up: roots, with numbers after the ranks'
}

// stars returns one star per rank, with equal shares: every rank owns a part of
// the blocks.
func stars(ranks int) Forest {
	f := Forest{Stripe: 16, ChunkBytes: 16 << 10, Slots: 8}
	for root := range ranks {
		f.add(root, ranks)
	}
	return f
}

// starsApart returns as many stars of the ranks around machines without tensors.
func starsApart(ranks, machines int) Forest {
	f := Forest{Stripe: 16, ChunkBytes: 16 << 10, Slots: 64, Apart: machines}
	for i := range machines {
		f.add(ranks+i, ranks)
	}
	return f
}

// add adds a star of ranks around a root.
func (f *Forest) add(root, ranks int) {
	parent := slices.Repeat([]int{root}, max(ranks, root+1))
	for v := ranks; v < root; v++ {
		parent[v] = none
	}
	parent[root] = -1
	f.Parents, f.Shares = append(f.Parents, parent), append(f.Shares, 1)
}

// none is the parent of a machine that is no part of a tree.
const none = -2

// width is the number of bytes of a block in a simulation of trees: enough that runs do not weigh more than in reality.
const width = 16

// edge is one direction of a link of a tree.
type edge struct {
	queue  [][]byte // arrived
	held   bool     // the previous chunk is still in use: its slot is not free
	credit int
}

// place is one rank's place in one tree.
type place struct {
	node     *merge.Node
	parent   int
	children []int
	index    int   // its index among its parent's children
	up, down *edge // of the link to its parent
}

// forestRun is one simulation.
type forestRun struct {
	clock
	w      *Workload
	m      Machine
	f      Forest
	hosts  []machine
	places [][]place // by tree and rank
	window int
	result Result
	err    error
}

// treesTime returns the time of the merge along trees.
func treesTime(w *Workload, m Machine, f Forest) (Result, error) {
	n := w.Ranks() + f.Apart
	r := &forestRun{w: w, m: m, f: f, hosts: append(newMachines(m, w.Ranks(), true), newMachines(m, f.Apart, false)...),
		result: Result{Sent: make([]float64, n), Received: make([]float64, n)}}
	r.window = merge.HeaderBytes + f.ChunkBytes/w.BlockBytes*(width+merge.RunBytes)
	deal, err := block.NewDeal(f.Shares, f.Stripe)
	if err != nil {
		return Result{}, err
	}
	var send, recv [][]byte
	sets := slices.Clone(w.Sets)
	for v := range n {
		send, recv = append(send, nil), append(recv, make([]byte, w.Blocks*width))
		if v < w.Ranks() {
			send[v] = w.tensor(v, width)
		} else {
			sets = append(sets, block.NewSet(w.Blocks))
		}
	}
	for t, parent := range f.Parents {
		r.places = append(r.places, places(parent, f.Slots))
		for v := range r.places[t] {
			if r.places[t][v].node == nil {
				continue
			}
			part := block.NewSet(w.Blocks)
			for b := sets[v].Next(0); b >= 0; b = sets[v].Next(b + 1) {
				if deal.Tree(b) == t {
					part.Add(b)
				}
			}
			job := merge.Job{Tensor: 1, Grid: block.Grid{Elements: w.Blocks * width, Size: width, Width: 1},
				Op: kernel.Sum, DType: kernel.Uint8, Blocks: part, Send: send[v],
				Recv: recv[v]}
			if err := r.places[t][v].node.Begin(job); err != nil {
				return Result{}, err
			}
		}
	}
	r.at(m.BeginUs*1e3, func() {
		r.begin()
	})
	r.run()
	for t := range r.places {
		for v, p := range r.places[t] {
			if r.err == nil && p.node != nil && !p.node.Done() {
				r.err = fmt.Errorf("rank %d does not come to an end in tree %d", v, t)
			}
		}
	}
	if r.err == nil {
		r.err = w.check(recv[:w.Ranks()], width)
	}
	r.result.Us = r.now / 1e3
	return r.result, r.err
}

func places(parent []int, slots int) []place {
	all := make([]place, len(parent))
	for v, p := range parent {
		all[v].parent = p
		all[v].up, all[v].down = &edge{credit: slots}, &edge{credit: slots}
		if p >= 0 {
			all[v].index = len(all[p].children)
			all[p].children = append(all[p].children, v)
		}
	}
	for v, p := range parent {
		if p == none {
			continue
		}
		all[v].node = merge.NewNode(len(all[v].children), p < 0)
	}
	return all
}

// begin makes every rank send its first chunks: one of each tree in turn, with a different first tree on each rank, so
// that no card gets all ranks' first chunks at once.
func (r *forestRun) begin() {
	for moved := true; moved; {
		moved = false
		for i := range r.places {
			for v := range r.hosts[:r.w.Ranks()] {
				moved = r.up((v+i)%len(r.places), v) || moved
			}
		}
	}
	for t := range r.places {
		for v := range r.places[t] {
			if r.places[t][v].node != nil {
				r.pump(t, v)
			}
		}
	}
}

// up moves a rank's next chunk to its parent, if there is one and the rank has credit for it.
func (r *forestRun) up(t, v int) bool {
	p := &r.places[t][v]
	if p.parent < 0 || p.up.credit == 0 {
		return false
	}
	chunk := make([]byte, r.window)
	n := p.node.Up(chunk)
	if n > 0 {
		r.carry(t, v, p.parent, p.up, chunk[:n])
	}
	return n > 0
}

// pump lets a rank make all possible progress in a tree.
func (r *forestRun) pump(t, v int) {
	p := &r.places[t][v]
	for moved := true; moved && r.err == nil; {
		moved = r.receive(t, v)
		for p.node.Merge(1 << 30) {
			moved = true
		}
		moved = r.send(t, v) || moved
	}
}

// receive passes the chunks that have arrived to a rank, as far as it accepts them.
func (r *forestRun) receive(t, v int) (moved bool) {
	p := &r.places[t][v]
	for i, c := range p.children {
		e := r.places[t][c].up
		if !p.node.NeedsChunk(i) {
			continue
		}
		if e.held {
			e.held = false
			r.back(t, c, e)
		}
		if len(e.queue) > 0 {
			r.fail(p.node.Feed(i, e.queue[0]))
			e.queue, e.held, moved = e.queue[1:], true, true
		}
	}
	for e := p.down; len(e.queue) > 0 && r.err == nil; moved = true {
		r.fail(p.node.Down(e.queue[0]))
		e.queue = e.queue[1:]
		r.back(t, p.parent, e)
	}
	return moved
}

// back returns a credit to a sender, which receives it after the latency.
func (r *forestRun) back(t, sender int, e *edge) {
	r.at(r.now+r.m.LatencyUs*1e3, func() {
		e.credit++
		r.pump(t, sender)
	})
}

// send moves a rank's chunks to its parent and its children, as far as there is credit.
func (r *forestRun) send(t, v int) (moved bool) {
	p := &r.places[t][v]
	for r.up(t, v) {
		moved = true
	}
	for i, c := range p.children {
		for e := r.places[t][c].down; e.credit > 0; {
			chunk := make([]byte, r.window)
			n := p.node.ToChild(i, chunk)
			if n == 0 {
				break
			}
			r.carry(t, v, c, e, chunk[:n])
			moved = true
		}
	}
	return moved
}

// carry moves a chunk along an edge.
func (r *forestRun) carry(t, from, to int, e *edge, chunk []byte) {
	e.credit--
	blocks := int(binary.LittleEndian.Uint32(chunk[8:]))
	size := float64(len(chunk) + blocks*(r.w.BlockBytes-width))
	r.result.Sent[from] += size
	r.result.Received[to] += size
	r.move(&r.hosts[from], &r.hosts[to], size, r.m.LatencyUs*1e3, func() {
		e.queue = append(e.queue, chunk)
		r.pump(t, to)
	})
}

func (r *forestRun) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
