package shm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

var testKey = []byte("0123456789abcdef0123456789abcdef")

// table is an all-gather between goroutines: a fresh round begins when all
// ranks have given their blob to the round before.
type table struct {
	mu     sync.Mutex
	size   int
	rounds []*round
	next   []int // per rank, the round of its next call
}

type round struct {
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
			t.rounds = append(t.rounds, &round{blobs: make([][]byte, t.size), full: make(chan struct{})})
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

// connectAll connects all ranks of a layout in this process; change, if not nil, may change each rank's Config. It
// returns the endpoint or the error of each rank.
func connectAll(t testing.TB, l transport.Layout, change func(*Config)) ([]transport.Endpoint, []error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Limit)
	defer cancel()
	tab := newTable(l.Size)
	all, errs := make([]transport.Endpoint, l.Size), make([]error, l.Size)
	var wg sync.WaitGroup
	for r := range all {
		cfg := Config{Rank: r, Layout: l, Key: testKey, JobID: "test", Exchange: tab.exchange(r)}
		if change != nil {
			change(&cfg)
		}
		wg.Go(func() {
			if e, err := Connect(ctx, cfg); err != nil {
				errs[r] = err
			} else {
				all[r] = e
			}
		})
	}
	wg.Wait()
	return all, errs
}

func mustConnect(t *testing.T, l transport.Layout) []transport.Endpoint {
	t.Helper()
	all, errs := connectAll(t, l, nil)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestMain(m *testing.M) {
	if part := os.Getenv(envPart); part != "" {
		if err := runChild(part); err != nil {
			fmt.Fprintf(os.Stderr, "rank %s of %q: %v\n", os.Getenv(envRank), part, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if fuzz := flag.Lookup("test.fuzz"); fuzz != nil && fuzz.Value.String() != "" {
		os.Exit(m.Run()) // the fuzzer has goroutines of its own
	}
	goleak.VerifyTestMain(m)
}
