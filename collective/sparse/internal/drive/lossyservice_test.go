package drive

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/collective/sparse/block"
	"github.com/treerun/treerun/collective/sparse/omni"
	"github.com/treerun/treerun/collective/sparse/sparsetest"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/datagram/faultproxy"
)

// Aggregators that are no ranks serve until the ranks have closed, go along with calls
// that leave some of them without a stream, and end with a call in which a worker has
// closed or calls something else. Workers to which no datagram of one comes any more say
// which one that is.
func TestLossyServiceEnds(t *testing.T) {
	tensors := func(elements int) *sparsetest.Tensors {
		g := block.Grid{Elements: elements, Size: 256, Width: 4}
		return sparsetest.New(3, g, kernel.Sum, kernel.Float32).Random(rand.New(rand.NewPCG(1, 1)), 1)
	}
	x, small := tensors(4000), tensors(200)
	in, out := x.Buffers(false)
	for how, last := range map[string]struct {
		fault string
		rank  int // at fault, -1: an aggregator
		call  func(c *cluster, s omni.Shape) []transport.Fault
	}{
		"done": {},
		"closed": {exec.FaultClosed + "rank 1 closed", 1, func(c *cluster, s omni.Shape) []transport.Fault {
			c.eps[1].Close()
			return c.run(4, x, s, in, out, func(r int) bool { return r == 1 })
		}},
		"mismatch": {exec.FaultMismatch + "aggregator ", -2, func(c *cluster, s omni.Shape) []transport.Fault {
			other := s
			other.Op = kernel.Max
			odd := make(chan []transport.Fault)
			go func() { odd <- c.run(4, x, other, in, out, func(r int) bool { return r != 1 }) }()
			faults := c.run(4, x, s, in, out, func(r int) bool { return r == 1 })
			faults[1] = (<-odd)[1]
			return faults
		}},
		"silent": {exec.FaultLost, -1, func(c *cluster, s omni.Shape) []transport.Fault {
			c.impatient(300 * time.Millisecond)
			c.net.Set(faultproxy.Faults{Loss: 1})
			return c.run(4, x, s, in, out, nil)
		}},
	} {
		t.Run(how, func(t *testing.T) {
			c := newAssisted(t, 3, 2, 1, time.Minute)
			s := c.shapeOf(x, 4, 1)
			c.all(1, x, s)
			c.all(2, small, c.shapeOf(small, 4, 1)) // one block
			c.all(3, x, s)
			if last.call != nil {
				for r, f := range last.call(c, s) {
					switch {
					case how == "closed" && r == 1:
						continue // it made no call
					case !strings.HasPrefix(f.Text, last.fault), last.rank >= 0 && f.Rank != last.rank,
						last.rank == -1 && (f.Rank < 3 || !strings.Contains(f.Text, "aggregator ")):
						t.Errorf("rank %d: %+v, want %q of rank %d", r, f, last.fault, last.rank)
					}
				}
			}
			for r := range c.ranks {
				c.eps[r].Close()
			}
			for range 2 {
				select {
				case f := <-c.over:
					if last.fault == "" && f.Text != "" || !strings.HasPrefix(f.Text, last.fault) {
						t.Errorf("an aggregator: %+v, want %q", f, last.fault)
					}
				case <-time.After(time.Minute):
					t.Fatal("an aggregator still serves")
				}
			}
		})
	}
}

// What comes over the links of UDP aggregators and is no call of Algorithm 2 is refused.
func TestLossyServiceRefuses(t *testing.T) {
	s := shapeOf(4000, 64)
	for want, send := range map[string]struct {
		head transport.Header
		data []byte
	}{
		"before its call":       {transport.Header{Seq: 1, Root: -1}, []byte{0}},
		"a call of Algorithm 2": {transport.Header{Seq: 1, Root: callRoot}, (&omni.Call{Tensor: 1, Shape: s}).Encode()},
		"that announce no call": {transport.Header{Seq: 1, Root: callRoot}, make([]byte, omni.CallBytes)},
	} {
		c := newAssisted(t, 2, 1, 1, time.Minute)
		to := c.links[1].trees[0].toParent
		window, ok, err := to.TryReserve(len(send.data))
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		copy(window, send.data)
		to.Commit(&send.head)
		select {
		case f := <-c.over:
			if f.Rank != 2 || !strings.Contains(f.Text, want) || !strings.Contains(f.Text, "rank 1") {
				t.Errorf("%+v, want %q of rank 1", f, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("the aggregator still serves")
		}
	}
}
