package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

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
