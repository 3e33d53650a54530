package transport_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"go.uber.org/goleak"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
	"github.com/treerun/treerun/transport/tcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opener returns the endpoints of all ranks of a layout, by rank. The suite closes them.
type opener func(t *testing.T, l transport.Layout) []transport.Endpoint

// TestConformance runs the suite over every transport.
func TestConformance(t *testing.T) {
	apart, inTurn, firstApart := func(r int) int { return r }, func(r int) int { return r % 2 },
		func(r int) int { return min(r, 1) }
	// Ranks that no link has joined yet know nothing of each other; ranks of communicators learn of faults in other ways.
	unjoined := []string{"status", "first abort wins", "forms of faults", "abort ends waiting", "close", "closed endpoint",
		"memory of the others"}
	for _, c := range []struct {
		name   string
		open   opener
		except []string
	}{
		{"shm", overSharedMemory(false), nil},
		{"shm with doorbells", overSharedMemory(true), nil},
		// Some ranks are on another host: see TestSharedMemoryIsTheHosts of package tcp.
		{"tcp", overTCP(apart, false, false), []string{"memory of the others"}},
		// crypto/tls does allocate
		{"tcp encrypted", overTCP(apart, true, false), []string{"memory of the others", "no allocation"}},
		{"tcp at need", overTCP(apart, false, true), unjoined},
		{"tcp at need, encrypted", overTCP(apart, true, true), append(unjoined, "no allocation")},
		{"tcp, two hosts in turn", overTCP(inTurn, false, false), []string{"memory of the others"}},
		{"tcp, the first rank by itself", overTCP(firstApart, false, false), []string{"memory of the others"}},
		{"child of tcp", asChild(overTCP(apart, false, false), 1), []string{"memory of the others"}},
		{"child of tcp at need", asChild(overTCP(apart, false, true), 1), unjoined},
		{"child of a child, two hosts in turn", asChild(asChild(overTCP(inTurn, false, false), 1), 2),
			[]string{"memory of the others"}},
	} {
		t.Run(c.name, func(t *testing.T) { conform(t, c.open, c.except...) })
	}
}

// openAll opens the endpoint of every rank at the same time.
func openAll(t *testing.T, size int,
	open func(ctx context.Context, w *testutil.World) (transport.Endpoint, error)) []transport.Endpoint {
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Limit)
	defer cancel()
	all := make([]transport.Endpoint, size)
	errs := testutil.NewJob(testutil.OneHost(size)...).Run(t, func(w *testutil.World) (err error) {
		all[w.Rank()], err = open(ctx, w)
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return all
}

func overSharedMemory(doorbell bool) opener {
	return func(t *testing.T, l transport.Layout) []transport.Endpoint {
		return openAll(t, l.Size, func(ctx context.Context, w *testutil.World) (transport.Endpoint, error) {
			return openHost(ctx, w, l, func(int) int { return 0 }, doorbell)
		})
	}
}

// openHost opens the links of a rank within its host.
func openHost(ctx context.Context, w *testutil.World, l transport.Layout, host func(r int) int,
	doorbell bool) (*shm.Endpoint, error) {
	own := host(w.Rank())
	l.Members = nil
	for r := range l.Size {
		if host(r) == own {
			l.Members = append(l.Members, r)
		}
	}
	return shm.Connect(ctx, shm.Config{Rank: w.Rank(), Layout: l, Key: make([]byte, shm.KeyBytes), JobID: "test",
		Doorbell: doorbell, Exchange: func(ctx context.Context, blob []byte) ([][]byte, error) {
			blobs, err := w.AllGather(ctx, blob)
			if err != nil {
				return nil, err
			}
			within := make([][]byte, len(l.Members))
			for i, r := range l.Members {
				within[i] = blobs[r]
			}
			return within, nil
		}})
}

// overTCP makes endpoints for ranks on made-up hosts.
func overTCP(host func(r int) int, encrypt, atNeed bool) opener {
	return func(t *testing.T, l transport.Layout) []transport.Endpoint {
		hosts := make([]int, l.Size)
		for r := range hosts {
			hosts[r] = host(r)
		}
		return openAll(t, l.Size, func(ctx context.Context, w *testutil.World) (transport.Endpoint, error) {
			local, err := openHost(ctx, w, l, host, true)
			if err != nil {
				return nil, err
			}
			between := l
			between.HeapBytes = 0
			cfg := &tcp.Config{Layout: between, Hosts: hosts, Config: netconn.Config{
				Rank: w.Rank(), Size: l.Size, Key: make([]byte, 32), JobID: "test", Purpose: "test",
				Listen: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Encrypt: encrypt, Exchange: w.AllGather,
			}}
			if atNeed {
				cfg.First = func(int) bool { return false }
			}
			mesh, err := tcp.Connect(ctx, cfg)
			if err != nil {
				return nil, errors.Join(err, local.Close())
			}
			return tcp.New(cfg, local, mesh)
		})
	}
}
