package drive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/collective/sparse/block"
	"github.com/treerun/treerun/collective/sparse/omni"
	"github.com/treerun/treerun/collective/sparse/sparsetest"
	"github.com/treerun/treerun/docs/longer"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/datagram"
	"github.com/treerun/treerun/transport/datagram/faultproxy"
	"github.com/treerun/treerun/transport/mem"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exchange is an Exchange between goroutines, of sockets that connect.
type exchange struct {
	mu    sync.Mutex
	cond  *sync.Cond
	blobs [][][]byte // by round, by rank
}

func (x *exchange) of(rank, size int) func(context.Context, []byte) ([][]byte, error) {
	next := 0
	return func(_ context.Context, b []byte) ([][]byte, error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if next == len(x.blobs) {
			x.blobs = append(x.blobs, make([][]byte, size))
		}
		round := x.blobs[next]
		next++
		round[rank] = append([]byte{}, b...)
		x.cond.Broadcast()
		for {
			all := true
			for _, b := range round {
				all = all && b != nil
			}
			if all {
				return round, nil
			}
			x.cond.Wait()
		}
	}
}

// cluster is ranks of one process: links in memory, and real sockets with a network
// in between that has faults. Every rank has a worker, the first ones an aggregator.
type cluster struct {
	t     *testing.T
	net   *faultproxy.Net
	eps   []transport.Endpoint
	links []*Links
	socks []*datagram.Socket
	ranks []*Lossy
	over  chan transport.Fault // of aggregators that are no ranks; without a text: it was done
}

// newCluster makes so many ranks, of which the first ones have an aggregator.
func newCluster(t *testing.T, ranks, aggregators int, seed uint64, timeout time.Duration) *cluster {
	t.Helper()
	var roots []int
	for a := range aggregators {
		roots = append(roots, a)
	}
	return newClusterOf(t, ranks, ranks, roots, seed, timeout)
}

// newAssisted makes so many ranks, and aggregators beside them, which serve.
func newAssisted(t *testing.T, ranks, aggregators int, seed uint64, timeout time.Duration) *cluster {
	t.Helper()
	var roots []int
	for a := range aggregators {
		roots = append(roots, ranks+a)
	}
	return newClusterOf(t, ranks+aggregators, ranks, roots, seed, timeout)
}

func newClusterOf(t *testing.T, members, ranks int, roots []int, seed uint64, timeout time.Duration) *cluster {
	t.Helper()
	c := &cluster{t: t, net: faultproxy.New(t, seed), socks: make([]*datagram.Socket, members), over: make(chan transport.Fault, members)}
	var lanes Lanes
	var aggs []int
	for _, root := range roots {
		star := topo.Tree{Root: root, Parent: make([]int, members)}
		for r := range star.Parent {
			if star.Parent[r] = root; r >= ranks {
				star.Parent[r] = -1
			}
		}
		star.Parent[root] = -1
		aggs = append(aggs, lanes.Add(star))
	}
	var err error
	if c.eps, err = mem.New(lanes.Layout(members, 8, 128)); err != nil {
		t.Fatal(err)
	}
	x := &exchange{}
	x.cond = sync.NewCond(&x.mu)
	errs := make([]error, members)
	var all sync.WaitGroup
	for r := range members {
		all.Go(func() {
			c.socks[r], errs[r] = datagram.Connect(t.Context(), datagram.Config{
				Rank: r, Size: members, Key: []byte("key"), JobID: "drive", Purpose: "test",
				Listen: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Exchange: x.of(r, members),
				Via: func(_ int, at netip.AddrPort) netip.AddrPort { return c.net.Via(at) },
			})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	var services sync.WaitGroup
	for r := range members {
		k, err := Open(c.eps[r], &lanes, r, members, ranks)
		if err != nil {
			t.Fatal(err)
		}
		c.links = append(c.links, k)
		if r < ranks {
			c.ranks = append(c.ranks, NewLossy(k, aggs, c.socks[r], timeout))
			continue
		}
		services.Go(func() {
			f, _ := k.Run(t.Context(), NewLossyService(k, aggs, c.socks[r], 4096), &exec.Waiter{Spins: 1, Yields: 2}, "serving")
			c.over <- f
		})
	}
	t.Cleanup(func() {
		for r := range ranks {
			c.eps[r].Close()
		}
		services.Wait()
		for r := range members {
			c.socks[r].Close()
			c.eps[r].Close()
		}
	})
	return c
}

// end closes the ranks and waits for the aggregators beside them, whose sockets are
// theirs until then.
func (c *cluster) end() {
	for r := range c.ranks {
		c.eps[r].Close()
	}
	for range len(c.eps) - len(c.ranks) {
		if f := <-c.over; f.Text != "" {
			c.t.Errorf("an aggregator: %+v", f)
		}
	}
}

// impatient has workers wait for so long only for aggregators that are silent.
func (c *cluster) impatient(limit time.Duration) {
	for _, o := range c.ranks {
		o.timeout = limit
	}
}

// shapeOf returns the shape for tensors.
func (c *cluster) shapeOf(x *sparsetest.Tensors, streams, columns int) omni.Shape {
	return omni.Shape{
		Grid: x.Grid, DType: x.DType, Op: x.Op, Workers: len(c.ranks), Aggregators: len(c.ranks[0].aggs),
		Streams: streams * len(c.ranks[0].aggs), Columns: columns, Compact: true, Lossy: true,
	}
}

// all runs an AllReduce on all ranks, which must give what the oracle says, and
// returns the ranks' faults.
func (c *cluster) all(tensor uint32, x *sparsetest.Tensors, s omni.Shape) {
	c.t.Helper()
	in, out := x.Buffers(false)
	for r, f := range c.run(tensor, x, s, in, out, nil) {
		if f.Text != "" {
			c.t.Fatalf("tensor %d, rank %d: %+v", tensor, r, f)
		}
	}
	want := x.Want()
	for r := range c.ranks {
		if d := x.Differ(r, out[r], want); d != "" {
			c.t.Fatalf("tensor %d: %s", tensor, d)
		}
	}
}

func (c *cluster) run(tensor uint32, x *sparsetest.Tensors, s omni.Shape, in, out [][]byte, without func(r int) bool) []transport.Fault {
	faults := make([]transport.Fault, len(c.ranks))
	var all sync.WaitGroup
	for r, o := range c.ranks {
		if without != nil && without(r) {
			continue
		}
		all.Go(func() {
			if err := o.Begin(tensor, s, omni.Input{Blocks: x.Sets[r], Send: in[r], Recv: out[r], Fill: true}); err != nil {
				faults[r] = transport.Fault{Rank: r, Text: err.Error()}
				return
			}
			w := exec.Waiter{Spins: 1, Yields: 2}
			faults[r], _ = c.links[r].Run(c.t.Context(), o, &w, "test")
		})
	}
	all.Wait()
	return faults
}

// Results are those of the oracle, bit by bit, whatever the network does, from one
// tensor to the next of another length, type and shape, while late packets of the
// tensors before come in.
func TestLossyOverSockets(t *testing.T) {
	ms := time.Millisecond
	for i, f := range []faultproxy.Faults{
		{}, {Loss: 0.01}, {Loss: 0.1}, {Loss: 0.3}, {Double: 0.3}, {Jitter: ms},
		{Late: 0.1, Lateness: 30 * ms},
		{Loss: 0.1, Double: 0.1, Jitter: ms, Late: 0.05, Lateness: 20 * ms},
	} {
		check := func(t *testing.T, newCluster func(t *testing.T, ranks, aggregators int, seed uint64, timeout time.Duration) *cluster) {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			ranks := 1 + r.IntN(4)
			if i > 0 {
				ranks = 2 + r.IntN(3)
			}
			aggregators := 1 + r.IntN(ranks)
			c := newCluster(t, ranks, aggregators, uint64(i), time.Minute)
			c.net.Set(f)
			count, most := uint32(4), 150
			if f.Loss > 0.2 {
				count, most = 2, 30
			}
			for tensor := range count {
				dt := []kernel.DType{kernel.Float32, kernel.Int64, kernel.BFloat16}[r.IntN(3)]
				size := 1 + r.IntN(100)
				g := block.Grid{Elements: size*(1+r.IntN(most)) - r.IntN(size), Size: size, Width: dt.Size()}
				x := sparsetest.New(ranks, g, kernel.Sum, dt).Random(r, []float64{0, 0.1, 1}[r.IntN(3)])
				columns := 1 + r.IntN(max(1, min(20, 1300/(g.BlockBytes()+4))))
				streams := max(1+r.IntN(20), g.Blocks()/(8*columns)) // some rounds
				c.all(tensor+1, x, c.shapeOf(x, streams, columns))
			}
			c.end()
			var resent, refused, repeated int64
			for _, o := range c.ranks {
				resent += o.Resent
			}
			for _, s := range c.socks {
				n := s.Counters()
				refused += n.Refused - n.Repeated
				repeated += n.Repeated
			}
			if refused != 0 || (f.Double > 0) != (repeated > 0) && ranks > 1 {
				t.Errorf("%d datagrams refused, %d repeated, %d packets sent again", refused, repeated, resent)
			}
		}
		t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) { check(t, newCluster) })
		t.Run(fmt.Sprintf("%+v, aggregators that are no ranks", f), func(t *testing.T) { check(t, newAssisted) })
	}
}

// Packets with the right key that the protocol does not allow, from a rank that has
// lost its mind, end the call; what strangers send does not.
func TestLossyForged(t *testing.T) {
	c := newCluster(t, 2, 2, 1, time.Minute)
	g := block.Grid{Elements: 40000, Size: 256, Width: 4}
	x := sparsetest.New(2, g, kernel.Sum, kernel.Float32).Random(rand.New(rand.NewPCG(1, 1)), 0.5)
	s := c.shapeOf(x, 4, 1)
	c.net.Tap(func(b []byte) [][]byte { // everything comes also changed, cut and doubled
		changed := append([]byte(nil), b...)
		changed[len(b)/2] ^= 1
		return [][]byte{changed, b[:len(b)-1], b[:9], b, b}
	})
	c.all(1, x, s)
	for r, sock := range c.socks {
		n := sock.Counters()
		if n.Forged < n.Received || n.Malformed < n.Received || n.Repeated < n.Received-64 {
			t.Errorf("rank %d: %+v", r, n)
		}
	}
	c.net.Tap(nil)
	evil := make([]byte, omni.HeaderBytes)
	if !c.socks[1].Send(0, evil) || !c.socks[1].Flush() {
		t.Fatal("not sent")
	}
	in, out := x.Buffers(false)
	faults := c.run(2, x, s, in, out, nil)
	for r, f := range faults {
		if !strings.HasPrefix(f.Text, exec.FaultLink) || !strings.Contains(f.Text, "a datagram of rank 1") || !strings.Contains(f.Text, "does not allow") {
			t.Errorf("rank %d: %+v", r, f)
		}
	}
}

// A rank whose datagrams no longer come is lost after the limit; one that closed, at
// once.
func TestLossyPeerGone(t *testing.T) {
	g := block.Grid{Elements: 4000, Size: 256, Width: 4}
	x := sparsetest.New(3, g, kernel.Sum, kernel.Float32).Random(rand.New(rand.NewPCG(1, 1)), 1)
	for _, how := range []string{"silent", "closed"} {
		t.Run(how, func(t *testing.T) {
			first := time.Minute
			if how == "silent" {
				first = 300 * time.Millisecond
			}
			longer.With(t, first, func(limit time.Duration) error {
				c := newCluster(t, 3, 2, 1, time.Minute)
				s := c.shapeOf(x, 4, 1)
				c.all(1, x, s)
				c.impatient(limit)
				if how == "closed" {
					c.eps[1].Close()
				}
				in, out := x.Buffers(false)
				faults := c.run(2, x, s, in, out, func(r int) bool { return r == 1 })
				kind := map[string]string{"silent": exec.FaultLost, "closed": exec.FaultClosed}[how]
				for _, r := range []int{0, 2} {
					if f := faults[r]; f.Rank != 1 || !strings.HasPrefix(f.Text, kind) {
						return fmt.Errorf("rank %d: %+v, want rank 1, %s", r, f, kind)
					}
				}
				return nil
			})
		})
	}
}
