package tcp

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// table is an all-gather between goroutines: a fresh round begins when all
// ranks have given their blob to the round before.
type table struct {
	mu     sync.Mutex
	size   int
	rounds []*gathering
	next   []int // per rank, the round of its next call
}

type gathering struct {
	blobs [][]byte
	given int
	full  chan struct{}
}

func newTable(size int) *table { return &table{size: size, next: make([]int, size)} }

func (t *table) exchange(rank int) func(context.Context, []byte) ([][]byte, error) {
	return func(ctx context.Context, blob []byte) ([][]byte, error) {
		t.mu.Lock()
		i := t.next[rank]
		t.next[rank]++
		for len(t.rounds) <= i {
			t.rounds = append(t.rounds, &gathering{blobs: make([][]byte, t.size), full: make(chan struct{})})
		}
		r := t.rounds[i]
		r.blobs[rank] = append([]byte{}, blob...)
		if r.given++; r.given == t.size {
			close(r.full)
		}
		t.mu.Unlock()
		select {
		case <-r.full:
			return r.blobs, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// connectAll has all ranks of a layout connect in this process; change may change each
// rank's Config.
func connectAll(t testing.TB, l transport.Layout, change func(*Config)) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Limit)
	defer cancel()
	tab := newTable(l.Size)
	errs := make([]error, l.Size)
	var wg sync.WaitGroup
	for r := range errs {
		cfg := Config{Layout: l, Config: netconn.Config{
			Rank: r, Size: l.Size, Key: []byte("0123456789abcdef0123456789abcdef"), JobID: "test", Purpose: "test",
			Listen: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Exchange: tab.exchange(r),
		}}
		change(&cfg)
		wg.Go(func() {
			_, errs[r] = Connect(ctx, &cfg)
		})
	}
	wg.Wait()
	return errs
}

// Ranks with different layouts find out before they are connected, all of them.
func TestOtherLayout(t *testing.T) {
	errs := connectAll(t, testutil.Pair(4, 128), func(c *Config) {
		if c.Rank == 1 {
			c.Layout.Slots = 8
		}
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "rank 1 has other settings than rank 0") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
