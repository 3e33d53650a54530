package engine

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
	"github.com/treerun/treerun/transport/tcp"
)

// openAll makes the endpoints that the tests run over.
var openAll = connectShm

// TestOverTCP runs the other tests again, over sockets: there, a commit or a
// release takes a while to reach the other rank, and any memory can be lent.
func TestOverTCP(t *testing.T) {
	openAll = connectAll
	defer func() { openAll = connectShm }()
	for name, test := range map[string]func(*testing.T){
		"in flight": TestInFlight, "in place": TestInPlaceManyTimes, "pieces": TestPieces, "parts": TestParts,
		"scale and divide": TestScaleAndDivide,
		"matches oracle":   TestRunMatchesOracle, "messages": TestMessages, "mismatch of messages": TestMessageMismatch,
	} {
		t.Run(name, test)
	}
}

// connectAll connects all ranks of a layout over the loopback.
func connectAll(l transport.Layout) ([]transport.Endpoint, error) {
	return together(l, func(ctx context.Context, r int, exchange exchange) (transport.Endpoint, error) {
		alone := l
		alone.Members = []int{r}
		local, err := shm.Connect(ctx, shm.Config{Rank: r, Layout: alone, Key: make([]byte, shm.KeyBytes), JobID: "test",
			Doorbell: true, Exchange: func(_ context.Context, blob []byte) ([][]byte, error) { return [][]byte{blob}, nil }})
		if err != nil {
			return nil, err
		}
		cfg := &tcp.Config{Layout: l, Config: netconn.Config{
			Rank: r, Size: l.Size, Key: make([]byte, 32), JobID: "test", Listen: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
			Exchange: exchange,
		}}
		mesh, err := tcp.Connect(ctx, cfg)
		if err != nil {
			return nil, errors.Join(err, local.Close())
		}
		return tcp.New(cfg, local, mesh)
	})
}

// exchange gives the blob of every rank to all.
type exchange = func(context.Context, []byte) ([][]byte, error)

// together connects all ranks of a layout at the same time. A connect may use its
// exchange twice.
func together(
	l transport.Layout, connect func(context.Context, int, exchange) (transport.Endpoint, error),
) ([]transport.Endpoint, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all, errs := make([]transport.Endpoint, l.Size), make([]error, l.Size)
	blobs := [2][][]byte{make([][]byte, l.Size), make([][]byte, l.Size)}
	var given [2]sync.WaitGroup
	given[0].Add(l.Size)
	given[1].Add(l.Size)
	var connecting sync.WaitGroup
	for r := range all {
		round := 0
		connecting.Go(func() {
			all[r], errs[r] = connect(ctx, r, func(_ context.Context, blob []byte) ([][]byte, error) {
				i := round
				round++
				blobs[i][r] = blob
				given[i].Done()
				given[i].Wait()
				return blobs[i], nil
			})
		})
	}
	connecting.Wait()
	return all, errors.Join(errs...)
}
