package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// alikeInits are the Inits, by the names of their calls, for x of 4 elements for each rank.
var alikeInits = map[string]func(c *Comm, x []float32) (*Persistent, error){
	"AllReduce":       func(c *Comm, x []float32) (*Persistent, error) { return AllReduceInit(c, x, x, Sum) },
	"AllReducePreMul": func(c *Comm, x []float32) (*Persistent, error) { return AllReducePreMulInit(c, x, x, 2) },
	"Reduce":          func(c *Comm, x []float32) (*Persistent, error) { return ReduceInit(c, x, x, Max, c.Size()-1) },
	"ReducePreMul":    func(c *Comm, x []float32) (*Persistent, error) { return ReducePreMulInit(c, x, x, 2, 0) },
	"Broadcast":       func(c *Comm, x []float32) (*Persistent, error) { return BroadcastInit(c, x, x, 1) },
	"AllGather": func(c *Comm, x []float32) (*Persistent, error) {
		return AllGatherInit(c, x[:4], make([]float32, len(x)))
	},
	"ReduceScatter": func(c *Comm, x []float32) (*Persistent, error) {
		return ReduceScatterInit(c, x, make([]float32, 4), Sum)
	},
	"ReduceScatterPreMul": func(c *Comm, x []float32) (*Persistent, error) {
		return ReduceScatterPreMulInit(c, x, make([]float32, 4), 2)
	},
	"AllToAll": func(c *Comm, x []float32) (*Persistent, error) { return AllToAllInit(c, x, make([]float32, len(x))) },
	"Gather": func(c *Comm, x []float32) (*Persistent, error) {
		return GatherInit(c, x[:4], make([]float32, len(x)), 0)
	},
	"Scatter":    func(c *Comm, x []float32) (*Persistent, error) { return ScatterInit(c, x, make([]float32, 4), 0) },
	"AllGatherV": func(c *Comm, x []float32) (*Persistent, error) { return AllGatherVInit(c, x[:4], clone(x), fours(c)) },
	"ReduceScatterV": func(c *Comm, x []float32) (*Persistent, error) {
		return ReduceScatterVInit(c, x, make([]float32, 4), fours(c), Sum)
	},
	"GatherV":  func(c *Comm, x []float32) (*Persistent, error) { return GatherVInit(c, x[:4], clone(x), fours(c), 1) },
	"ScatterV": func(c *Comm, x []float32) (*Persistent, error) { return ScatterVInit(c, x, clone(x[:4]), fours(c), 1) },
}

func clone(x []float32) []float32 { return append([]float32(nil), x...) }

func fours(c *Comm) (counts []int) {
	for range c.Size() {
		counts = append(counts, 4)
	}
	return counts
}

// If ranks start two persistent calls that differ only in their slices in different orders, all ranks get an error that
// names the Inits of both calls; on ranks that do not notice at once, the next call returns it.
func TestPersistentAlikeInAnotherOrder(t *testing.T) {
	for name, prepare := range alikeInits {
		for _, size := range []int{2, 5} {
			for odd := range size {
				t.Run(fmt.Sprintf("%s/rank %d of %d", name, odd, size), func(t *testing.T) {
					t.Parallel()
					errs := runRanks(t, size, func(_ *fakeWorld, c *Comm) error {
						var both [2]*Persistent
						for i := range both {
							p, err := prepare(c, make([]float32, 4*size))
							if err != nil {
								return err
							}
							both[i] = p
						}
						if c.Rank() == odd {
							both[0], both[1] = both[1], both[0]
						}
						return errors.Join(both[0].Run(t.Context()), both[1].Run(t.Context()), Barrier(t.Context(), c))
					}, WithGraph(topo.UniformGraph(size)))
					call, _, _ := strings.Cut(name, "PreMul")
					for r, err := range errs {
						if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), call+" #1") ||
							!strings.Contains(err.Error(), "Init 1") || !strings.Contains(err.Error(), "Init 2") {
							t.Errorf("rank %d: %v, want ErrMismatch of Inits 1 and 2", r, err)
						}
					}
				})
			}
		}
	}
}

// Persistent calls that differ in more than their slices may be prepared in any order; Barriers may also be started in
// any order; and one rank may make a plain call while another runs its first persistent call of the same kind.
func TestPersistentInAnyOrder(t *testing.T) {
	const size = 3
	errs := runRanks(t, size, func(_ *fakeWorld, c *Comm) error {
		x, y, z := []int{c.Rank()}, []int{c.Rank()}, []int{c.Rank()}
		var sum, least, again, here, there *Persistent
		makes := []func() (err error){
			func() (err error) { sum, err = AllReduceInit(c, x, x, Sum); return err },
			func() (err error) { least, err = AllReduceInit(c, y, y, Min); return err },
			func() (err error) { here, err = BarrierInit(c); return err },
			func() (err error) { there, err = BarrierInit(c); return err },
		}
		for i := range makes {
			if err := makes[(i+c.Rank())%len(makes)](); err != nil {
				return err
			}
		}
		again, err := AllReduceInit(c, z, z, Sum)
		if err != nil {
			return err
		}
		order := []*Persistent{sum, least, again, here, there}
		if c.Rank() == 1 {
			order[3], order[4] = there, here
		}
		for i, p := range order {
			if i == 0 && c.Rank() == 2 {
				err = AllReduce(t.Context(), c, x, x, Sum)
			} else {
				err = p.Run(t.Context())
			}
			if err != nil {
				return err
			}
		}
		if x[0] != 3 || y[0] != 0 || z[0] != 3 {
			return fmt.Errorf("got %d, %d, %d, want 3, 0, 3", x[0], y[0], z[0])
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// If ranks start persistent calls in different orders, all of them get an error that names both calls, whatever the
// calls are, also if their plans have no link in common.
func TestPersistentInAnotherOrder(t *testing.T) {
	const n = 1000
	inits := map[string]func(c *Comm, x []float32) (*Persistent, error){
		"AllReduce": func(c *Comm, x []float32) (*Persistent, error) { return AllReduceInit(c, x, x, Sum) },
		"AllReduce, of half": func(c *Comm, x []float32) (*Persistent, error) {
			return AllReduceInit(c, x[:n/2], x[:n/2], Sum)
		},
		"Broadcast": func(c *Comm, x []float32) (*Persistent, error) { return BroadcastInit(c, x, x, 0) },
		"Reduce":    func(c *Comm, x []float32) (*Persistent, error) { return ReduceInit(c, x, x, Max, c.Size()-1) },
		"Barrier":   func(c *Comm, _ []float32) (*Persistent, error) { return BarrierInit(c) },
		"AllToAll": func(c *Comm, x []float32) (*Persistent, error) {
			x = x[:len(x)/c.Size()*c.Size()]
			return AllToAllInit(c, x, make([]float32, len(x)))
		},
	}
	for one, first := range inits {
		for two, second := range inits {
			if one >= two {
				continue
			}
			for _, size := range []int{2, 5} {
				for odd := range size {
					t.Run(fmt.Sprintf("%s and %s/rank %d of %d", one, two, odd, size), func(t *testing.T) {
						t.Parallel()
						startSwapped(t, size, odd, first, second, one, two)
					})
				}
			}
		}
	}
}

// startSwapped makes all ranks start two calls and wait for the later one; rank odd starts them in the other order.
func startSwapped(t *testing.T, size, odd int, first, second func(*Comm, []float32) (*Persistent, error),
	names ...string) {
	for r, err := range runRanks(t, size, func(_ *fakeWorld, c *Comm) error {
		a, failed := first(c, make([]float32, 1000))
		b, other := second(c, make([]float32, 1000))
		if err := errors.Join(failed, other); err != nil {
			return err
		}
		if c.Rank() == odd {
			a, b = b, a
		}
		var last Request
		for _, p := range []*Persistent{a, b} {
			r, err := p.Start()
			if err != nil {
				return err
			}
			last = r
		}
		return last.Wait(t.Context())
	}, WithGraph(topo.UniformGraph(size))) {
		if !errors.Is(err, ErrMismatch) {
			t.Errorf("rank %d: %v, want ErrMismatch", r, err)
			continue
		}
		for _, name := range names {
			if name, _, _ = strings.Cut(name, ","); !strings.Contains(err.Error(), name+" #1") {
				t.Errorf("rank %d: %v does not name %s", r, err, name)
			}
		}
		if testing.Verbose() && !testutil.Race {
			t.Logf("rank %d: %v", r, err)
		}
	}
}
