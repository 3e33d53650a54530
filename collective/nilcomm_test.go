package collective

import (
	"errors"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
)

// TestNilComm: every call on the nil Comm that Split returns to a rank with a negative color is an ErrArgument that
// names the call, and does not panic.
func TestNilComm(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		none, err := c.Split(t.Context(), -1, 0)
		if err != nil || none != nil {
			return errors.Join(err, errors.New("a communicator for a negative color"))
		}
		if none.Rank() != -1 || none.Size() != 0 || none.Name() != "" || none.Close() != nil {
			return errors.New("a nil Comm has a rank, a size or a name, or does not close")
		}
		none.Abort(nil)
		none.Stats()
		none.Algorithms(plan.AllReduce)
		ctx, x, counts := t.Context(), make([]int32, 6), []int{2, 2, 2}
		var s *cuda.Stream
		var on cuda.Slice[int32]
		keep := func(into, from []int32) {}
		calls := map[string]func() error{
			"AllReduce":          func() error { return AllReduce(ctx, none, x, x, Sum) },
			"Reduce":             func() error { return Reduce(ctx, none, x, x, Sum, 2) },
			"Broadcast":          func() error { return Broadcast(ctx, none, x, x, 2) },
			"AllGather":          func() error { return AllGather(ctx, none, x[:2], x) },
			"AllGatherV":         func() error { return AllGatherV(ctx, none, x[:2], x, counts) },
			"GatherV":            func() error { return GatherV(ctx, none, x[:2], x, counts, 1) },
			"AllToAll":           func() error { return AllToAll(ctx, none, x, x) },
			"AllToAllV":          func() error { return AllToAllV(ctx, none, x, counts, make([]int32, 6), counts) },
			"Barrier":            func() error { return Barrier(ctx, none) },
			"Scan":               func() error { return Scan(ctx, none, x, x, Sum) },
			"AllReduceFunc":      func() error { return AllReduceFunc(ctx, none, x, x, keep) },
			"ReduceFunc":         func() error { return ReduceFunc(ctx, none, x, x, keep, 0) },
			"ReduceScatterFunc":  func() error { return ReduceScatterFunc(ctx, none, nil, x, keep) },
			"AllReduceMinLoc":    func() error { _, _, err := AllReduceMinLoc(ctx, none, 1); return err },
			"AllReduceDevice":    func() error { return AllReduceDevice(ctx, none, s, on, on, Sum) },
			"SendDevice":         func() error { return SendDevice(ctx, none, s, on, 0) },
			"SyncDevice":         func() error { return none.SyncDevice(ctx, s) },
			"Send":               func() error { return Send(ctx, none, x, 1, 0) },
			"Recv":               func() error { _, err := Recv(ctx, none, x, AnySource, 0); return err },
			"SendSync":           func() error { return SendSync(ctx, none, x, 1, 0) },
			"ProbeMatched":       func() error { _, err := ProbeMatched(ctx, none, 1, 0); return err },
			"SendInit":           func() error { _, err := SendInit(none, x, 1, 0); return err },
			"Probe":              func() error { _, err := Probe(ctx, none, 1, 0); return err },
			"TryProbe":           func() error { _, _, err := TryProbe(none, 0, 0); return err },
			"SendRecv":           func() error { _, err := SendRecv(ctx, none, x[:1], 1, x[1:], 0, 0); return err },
			"NewGrid":            func() error { _, err := NewGrid(none, []int{1}, nil); return err },
			"SplitByHost":        func() error { _, err := none.SplitByHost(ctx); return err },
			"Split":              func() error { _, err := none.Split(ctx, 0, 0); return err },
			"Sub":                func() error { _, err := none.Sub(ctx, []int{0}); return err },
			"Alloc":              func() error { _, err := Alloc[int32](none, 5); return err },
			"Start":              func() error { _, err := StartAllReduce(none, x, x, Sum); return err },
			"StartSend":          func() error { _, err := StartSend(none, x, 0, 0); return err },
			"Init":               func() error { _, err := AllReduceInit(none, x, x, Sum); return err },
			"AllReduceCoalesced": func() error { return AllReduceCoalesced(ctx, none, [][]int32{x}, [][]int32{x}, Sum) },
			"NewBuckets":         func() error { _, err := NewBuckets(ctx, none, [][]int32{x}, Sum, 0); return err },
			"AllGatherObject":    func() error { _, err := AllGatherObject(ctx, none, 1); return err },
			"BroadcastObject":    func() error { _, err := BroadcastObject(ctx, none, 1, 0); return err },
			"GatherObject":       func() error { _, err := GatherObject(ctx, none, 1, 0); return err },
		}
		for name, call := range calls {
			err := call()
			if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), "the Comm is nil") {
				return errors.Join(err, errors.New(name+" on a nil Comm: want ErrArgument"))
			}
		}
		return Barrier(ctx, c)
	})
}
