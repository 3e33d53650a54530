package collective

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// rooted returns every call on host memory with a root, by name, on two ranks.
func rooted(t *testing.T, c *Comm) map[string]func(root int) error {
	ctx, x, y, half, counts := t.Context(), make([]int32, 2), make([]int32, 2), make([]int32, 1), []int{1, 1}
	keep := func(_, _ []int32) {}
	begun := func(_ Request, err error) error { return err }
	prepared := func(_ *Persistent, err error) error { return err }
	return map[string]func(root int) error{
		"Reduce":             func(root int) error { return Reduce(ctx, c, x, y, Sum, root) },
		"ReducePreMul":       func(root int) error { return ReducePreMul(ctx, c, x, y, 2, root) },
		"ReduceFunc":         func(root int) error { return ReduceFunc(ctx, c, x, y, keep, root) },
		"ReduceValue":        func(root int) error { _, err := ReduceValue(ctx, c, 1, Sum, root); return err },
		"Broadcast":          func(root int) error { return Broadcast(ctx, c, x, y, root) },
		"BroadcastCoalesced": func(root int) error { return BroadcastCoalesced(ctx, c, [][]int32{x}, [][]int32{y}, root) },
		"BroadcastObject":    func(root int) error { _, err := BroadcastObject(ctx, c, "v", root); return err },
		"Gather":             func(root int) error { return Gather(ctx, c, half, x, root) },
		"GatherV":            func(root int) error { return GatherV(ctx, c, half, x, counts, root) },
		"GatherObject":       func(root int) error { _, err := GatherObject(ctx, c, "v", root); return err },
		"Scatter":            func(root int) error { return Scatter(ctx, c, x, half, root) },
		"ScatterV":           func(root int) error { return ScatterV(ctx, c, x, half, counts, root) },
		"ScatterObject":      func(root int) error { _, err := ScatterObject(ctx, c, x, root); return err },

		"StartReduce":       func(root int) error { return begun(StartReduce(c, x, y, Sum, root)) },
		"StartReducePreMul": func(root int) error { return begun(StartReducePreMul(c, x, y, 2, root)) },
		"StartReduceFunc":   func(root int) error { return begun(StartReduceFunc(c, x, y, keep, root)) },
		"StartBroadcast":    func(root int) error { return begun(StartBroadcast(c, x, y, root)) },
		"StartGather":       func(root int) error { return begun(StartGather(c, half, x, root)) },
		"StartScatter":      func(root int) error { return begun(StartScatter(c, x, half, root)) },
		"StartGatherV":      func(root int) error { return begun(StartGatherV(c, half, x, counts, root)) },
		"StartScatterV":     func(root int) error { return begun(StartScatterV(c, x, half, counts, root)) },
		"StartBroadcastCoalesced": func(root int) error {
			return begun(StartBroadcastCoalesced(c, [][]int32{x}, [][]int32{y}, root))
		},

		"ReduceInit":       func(root int) error { return prepared(ReduceInit(c, x, y, Sum, root)) },
		"ReducePreMulInit": func(root int) error { return prepared(ReducePreMulInit(c, x, y, 2, root)) },
		"ReduceFuncInit":   func(root int) error { return prepared(ReduceFuncInit(c, x, y, keep, root)) },
		"BroadcastInit":    func(root int) error { return prepared(BroadcastInit(c, x, y, root)) },
		"GatherInit":       func(root int) error { return prepared(GatherInit(c, half, x, root)) },
		"ScatterInit":      func(root int) error { return prepared(ScatterInit(c, x, half, root)) },
		"GatherVInit":      func(root int) error { return prepared(GatherVInit(c, half, x, counts, root)) },
		"ScatterVInit":     func(root int) error { return prepared(ScatterVInit(c, x, half, counts, root)) },
	}
}

// withPeers returns every call with another rank and a tag, by name. It does not wait where that is NoRank.
func withPeers(t *testing.T, c *Comm) map[string]func(peer, tag int) error {
	ctx, x, y := t.Context(), make([]int32, 2), make([]int32, 2)
	begun := func(_ Message, err error) error { return err }
	prepared := func(m *PersistentMessage, err error) error {
		if err == nil {
			_, err = m.Start()
		}
		return err
	}
	return map[string]func(peer, tag int) error{
		"Send":            func(peer, tag int) error { return Send(ctx, c, x, peer, tag) },
		"SendSync":        func(peer, tag int) error { return SendSync(ctx, c, x, peer, tag) },
		"SendObject":      func(peer, tag int) error { return SendObject(ctx, c, x, peer, tag) },
		"StartSend":       func(peer, tag int) error { return begun(StartSend(c, x, peer, tag)) },
		"SendInit":        func(peer, tag int) error { return prepared(SendInit(c, x, peer, tag)) },
		"Recv":            func(peer, tag int) error { _, err := Recv(ctx, c, x, peer, tag); return err },
		"RecvNew":         func(peer, tag int) error { _, _, err := RecvNew[int](ctx, c, peer, tag); return err },
		"RecvObject":      func(peer, tag int) error { _, _, err := RecvObject[int](ctx, c, peer, tag); return err },
		"StartRecv":       func(peer, tag int) error { return begun(StartRecv(c, x, peer, tag)) },
		"RecvInit":        func(peer, tag int) error { return prepared(RecvInit(c, x, peer, tag)) },
		"Probe":           func(peer, tag int) error { _, err := Probe(ctx, c, peer, tag); return err },
		"TryProbe":        func(peer, tag int) error { _, _, err := TryProbe(c, peer, tag); return err },
		"ProbeFor":        func(peer, tag int) error { _, _, err := ProbeFor(ctx, c, peer, tag, 0); return err },
		"ProbeMatched":    func(peer, tag int) error { _, err := ProbeMatched(ctx, c, peer, tag); return err },
		"TryProbeMatched": func(peer, tag int) error { _, _, err := TryProbeMatched(c, peer, tag); return err },
		"SendRecv":        func(peer, tag int) error { _, err := SendRecv(ctx, c, x, peer, y, peer, tag); return err },
		"SendRecv to":     func(peer, tag int) error { _, err := SendRecv(ctx, c, x, peer, y, NoRank, tag); return err },
		"SendRecv from": func(peer, tag int) error {
			_, err := SendRecv(ctx, c, x, NoRank, y, peer, tag)
			return err
		},
	}
}

// refusedArgument returns an error unless err is an ErrArgument with these words.
func refusedArgument(err error, words string) error {
	if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), words) {
		return fmt.Errorf("%v, want an ErrArgument with %q", err, words)
	}
	return nil
}

// TestOddRanks: a root or another rank that is none of the communicator is an ErrArgument of every call, and so is a
// tag that is none, also with NoRank. Nothing is under way after it.
func TestOddRanks(t *testing.T) {
	odd := []int{-1, -99, 2, 1 << 31, 1 << 32, math.MinInt, math.MaxInt}
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		for name, call := range rooted(t, c) {
			for _, root := range odd {
				if err := refusedArgument(call(root), fmt.Sprintf("root %d", root)); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			if err := cmp.Or(refusedArgument(call(AnySource), "AnySource"),
				refusedArgument(call(NoRank), "NoRank")); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		for name, call := range withPeers(t, c) {
			for _, peer := range odd {
				if err := refusedArgument(call(peer, 3), fmt.Sprintf("rank %d of 2", peer)); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			for _, tag := range odd {
				if tag == 2 {
					continue
				}
				for _, peer := range []int{NoRank, 1} {
					if err := refusedArgument(call(peer, tag), fmt.Sprintf("tag %d, want 0..", tag)); err != nil {
						return fmt.Errorf("%s of %d: %w", name, peer, err)
					}
				}
			}
			sends := strings.Contains(name, "Send")
			if err := call(NoRank, AnyTag); (err != nil) != sends || sends && !errors.Is(err, ErrArgument) {
				return fmt.Errorf("%s of NoRank with AnyTag: %w", name, err)
			}
			if err := call(NoRank, 3); err != nil {
				return fmt.Errorf("%s of NoRank: %w", name, err)
			}
		}
		if !c.in.Engine.Idle() {
			return errors.New("something is under way")
		}
		return sumOn(t.Context(), c)
	})
}

// TestNoRankOfNoComm: calls with NoRank are errors on a nil communicator and on one that is closed, as all others are.
func TestNoRankOfNoComm(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		closed, err := c.Dup(t.Context())
		if err == nil {
			err = closed.Close()
		}
		if err != nil {
			return err
		}
		for name, call := range withPeers(t, closed) {
			if err := call(NoRank, 3); !errors.Is(err, ErrClosed) {
				return fmt.Errorf("%s on a closed communicator: %w", name, err)
			}
		}
		for name, call := range withPeers(t, nil) {
			if err := refusedArgument(call(NoRank, 3), "the Comm is nil"); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		for name, call := range rooted(t, nil) {
			if err := refusedArgument(call(0), "the Comm is nil"); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
}
