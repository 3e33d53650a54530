package merge

import (
	"fmt"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// star is a root with leaves whose chunks are passed without links between them.
type star struct {
	x       *Tensors
	nodes   []*Node
	jobs    []Job
	windows [][]byte
}

func newStar(ranks, elements int, density float64) *star {
	x := New(ranks, block.Grid{Elements: elements, Size: 256}, kernel.Sum, kernel.Float32).Random(seeded(1),
		density)
	s := &star{x: x}
	_, recv := x.Buffers(false)
	for v := range ranks {
		children := 0
		if v == 0 {
			children = ranks - 1
		}
		s.nodes = append(s.nodes, NewNode(children, v == 0))
		s.jobs = append(s.jobs, Job{Grid: x.Grid, Op: x.Op, DType: x.DType, Blocks: x.Sets[v],
			Send: x.Send[v], Recv: recv[v], Union: block.NewSet(x.Grid.Blocks())})
		s.windows = append(s.windows, make([]byte, 64<<10))
	}
	return s
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// all runs one AllReduce.
func (s *star) all() {
	for v, n := range s.nodes {
		s.jobs[v].Tensor++
		must(n.Begin(s.jobs[v]))
	}
	root := s.nodes[0]
	for !root.Done() {
		for v := 1; v < len(s.nodes); v++ {
			if root.NeedsChunk(v - 1) {
				if n := s.nodes[v].Up(s.windows[v]); n > 0 {
					must(root.Feed(v-1, s.windows[v][:n]))
				}
			}
		}
		for root.Merge(1 << 20) {
		}
		for v := 1; v < len(s.nodes); v++ {
			for n := root.ToChild(v-1, s.windows[0]); n > 0; n = root.ToChild(v-1, s.windows[0]) {
				must(s.nodes[v].Down(s.windows[0][:n]))
			}
		}
	}
}

func TestNoAllocation(t *testing.T) {
	s := newStar(4, 256*2000, 0.2)
	s.all()
	if n := testing.AllocsPerRun(3, s.all); n > 0 {
		t.Errorf("%v allocations", n)
	}
	want := s.x.WantAlong([]int{-1, 0, 0, 0})
	for v, j := range s.jobs {
		zeroed(j.Grid, j.Recv, j.Union)
		if d := s.x.Differ(v, j.Recv, want); d != "" {
			t.Error(d)
		}
	}
}

// BenchmarkAllReduce counts the bytes of one tensor, all ranks' work on one core.
func BenchmarkAllReduce(b *testing.B) {
	for _, density := range []float64{1, 0.1, 0.01} {
		b.Run(fmt.Sprint(density), func(b *testing.B) {
			s := newStar(4, 4<<20, density)
			b.SetBytes(int64(s.x.Grid.Bytes()))
			for b.Loop() {
				s.all()
			}
		})
	}
}
