package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// wrong is a call with an argument that is invalid on this rank.
type wrong struct {
	name string
	call func() error
	text string // part of the error's text
}

// everyForm makes a wrong call in every form that it has.
func everyForm(t *testing.T, c *Comm, name, text string, cl call, send, recv []float32) []wrong {
	if cl.op == 0 && reduces(cl.kind) && !strings.Contains(name, "operation") {
		cl.op = Sum
	}
	tr := &collectiveTrial[float32]{call: cl, k: float32s, c: c, send: send, recv: recv}
	name = fmt.Sprintf("%v: %s", cl.kind, name)
	all := []wrong{
		{name, func() error { return tr.run(t.Context()) }, text},
		{name + ", Start", func() error { _, err := tr.start(); return err }, text},
		{name + ", Init", func() error { _, err := tr.prepare(); return err }, text},
	}
	if reduces(cl.kind) && cl.op == Sum && !cl.kind.Scans() {
		pre := *tr
		pre.premul = true
		all = append(all, wrong{name + ", pre-multiplied", func() error { return pre.run(t.Context()) }, text})
	}
	return all
}

// wrongCalls returns invalid calls of every collective for rank c.rank, which is the root where there is one.
func wrongCalls(t *testing.T, c *Comm) []wrong {
	x := make([]float32, 100)
	p, me := c.in.Size, c.in.Rank
	var all []wrong
	add := func(name, text string, cl call, send, recv []float32) {
		all = append(all, everyForm(t, c, name, text, cl, send, recv)...)
	}
	for _, kind := range []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.AllToAll, plan.Scan, plan.ExScan} {
		cl := call{kind: kind, root: me}
		add("recv longer", "send has 10 elements, recv 20", cl, x[:10], x[20:40])
		add("send longer", "send has 20 elements, recv 10", cl, x[:20], x[20:30])
		add("no recv", "send has 20 elements, recv 0", cl, x[:20], nil)
		add("partial overlap", "overlap", cl, x[:10*p], x[1:10*p+1])
	}
	for _, kind := range []plan.Kind{plan.AllGather, plan.Gather} {
		cl := call{kind: kind, root: me}
		add("one element too many", fmt.Sprintf("want %d parts of 5", p), cl, x[:5], x[10:10+5*p+1])
		add("recv of one part", fmt.Sprintf("want %d parts of 5", p), cl, x[:5], x[10:15])
		add("no recv", "recv has 0 elements", cl, x[:5], nil)
		add("another rank's part", fmt.Sprintf("part %d", me), cl, x[5*((me+1)%p):][:5], x[:5*p])
		add("shifted", fmt.Sprintf("part %d", me), cl, x[5*me+1:][:5], x[:5*p])
	}
	for _, kind := range []plan.Kind{plan.ReduceScatter, plan.Scatter} {
		cl := call{kind: kind, root: me}
		add("one element too many", fmt.Sprintf("want %d parts of 5", p), cl, x[10:10+5*p+1], x[:5])
		add("send of one part", fmt.Sprintf("want %d parts of 5", p), cl, x[10:15], x[:5])
		add("no send", "send has 0 elements", cl, nil, x[:5])
		add("another rank's part", fmt.Sprintf("part %d", me), cl, x[:5*p], x[5*((me+1)%p):][:5])
		add("shifted", fmt.Sprintf("part %d", me), cl, x[:5*p], x[5*me+1:][:5])
	}
	add("not a part for every rank", fmt.Sprintf("want %d parts", p), call{kind: plan.AllToAll}, x[:5*p+1], x[50:50+5*p+1])
	for _, kind := range kinds {
		if kind.HasRoot() {
			add("negative root", "root -1 of", call{kind: kind, root: -1}, x[:5], x[:5])
			add("NoRank as root", "the root is NoRank, want a rank", call{kind: kind, root: NoRank}, x[:5], x[:5])
			add("root too large", fmt.Sprintf("root %d of %d ranks", p, p), call{kind: kind, root: p}, x[:5], x[:5])
		}
		if !reduces(kind) {
			continue
		}
		recv := x[:5*p]
		if kind == plan.ReduceScatter {
			recv = x[5*me:][:5]
		}
		for _, op := range []Op{0, Avg + 1, 200} {
			add("no such operation", "operation", call{kind: kind, root: me, op: op}, x[:5*p], recv)
		}
	}
	return append(all, append(wrongPieces(t, c), wrongMessages(t, c)...)...)
}

func wrongPieces(t *testing.T, c *Comm) []wrong {
	x := make([]float32, 100)
	var all []wrong
	for name, tc := range map[string]struct {
		send, recv [][]float32
		text       string
	}{
		"other number of slices": {[][]float32{x[:1], x[1:2]}, [][]float32{x[:1]}, "send has 2 slices, recv 1"},
		"no slices of send":      {nil, [][]float32{x[:1]}, "send has 0 slices, recv 1"},
		"other length": {[][]float32{x[:1], x[1:4]}, [][]float32{x[:1], x[1:3]},
			"slice 1 of send has 3 elements, of recv 2"},
		"partial overlap": {[][]float32{x[:1], x[1:4]}, [][]float32{x[:1], x[2:5]}, "overlap"},
	} {
		all = append(all,
			wrong{"AllReduceCoalesced: " + name, func() error {
				return AllReduceCoalesced(t.Context(), c, tc.send, tc.recv,
					Sum)
			}, tc.text},
			wrong{"StartAllReduceCoalesced: " + name,
				func() error { _, err := StartAllReduceCoalesced(c, tc.send, tc.recv, Sum); return err }, tc.text},
			wrong{"BroadcastCoalesced: " + name, func() error {
				return BroadcastCoalesced(t.Context(), c, tc.send, tc.recv,
					c.in.Rank)
			}, tc.text},
			wrong{"StartBroadcastCoalesced: " + name,
				func() error { _, err := StartBroadcastCoalesced(c, tc.send, tc.recv, c.in.Rank); return err }, tc.text})
	}
	some := [][]float32{x[:3]}
	return append(all,
		wrong{"AllReduceCoalesced: operation", func() error { return AllReduceCoalesced(t.Context(), c, some, some, Op(9)) },
			"operation"},
		wrong{"BroadcastCoalesced: root", func() error { return BroadcastCoalesced(t.Context(), c, some, some, c.in.Size) },
			"root"})
}

func wrongMessages(t *testing.T, c *Comm) []wrong {
	x := make([]float32, 100)
	next := (c.in.Rank + 1) % c.in.Size
	var all []wrong
	for _, tc := range []struct {
		name      string
		peer, tag int
		text      string
	}{
		{"negative rank", -1, 0, "rank -1 of"}, // to Recv it is AnySource
		{"very negative rank", -2, 0, "rank -2 of"},
		{"rank too large", c.in.Size, 0, fmt.Sprintf("rank %d of %d", c.in.Size, c.in.Size)},
		{"negative tag", next, -1, "tag -1"}, // to Recv it is AnyTag
		{"very negative tag", next, -2, "tag -2"},
		{"tag too large", next, 1 << 31, "tag 2147483648"},
		{"tag that wraps to a good one", next, 1<<32 + 5, "tag 4294967301"},
	} {
		if tc.peer != AnySource && tc.tag != AnyTag {
			all = append(all, wrong{"Recv: " + tc.name,
				func() error { return received(t.Context(), c, x, tc.peer, tc.tag) }, tc.text})
		}
		all = append(all,
			wrong{"Send: " + tc.name, func() error { return Send(t.Context(), c, x, tc.peer, tc.tag) }, tc.text},
			wrong{"StartSend: " + tc.name, func() error { _, err := StartSend(c, x, tc.peer, tc.tag); return err }, tc.text},
			wrong{"StartRecv: " + tc.name, func() error { _, err := StartRecv(c, x, tc.peer, tc.tag); return err }, tc.text},
			wrong{"SendRecv to: " + tc.name, func() error {
				return exchanged(t.Context(), c, x[:5], tc.peer, x[5:10], next, tc.tag)
			}, tc.text},
			wrong{"SendRecv from: " + tc.name, func() error {
				return exchanged(t.Context(), c, x[:5], next, x[5:10], tc.peer, tc.tag)
			}, tc.text})
	}
	self := c.in.Rank
	return append(all,
		wrong{"SendRecv: overlap",
			func() error { return exchanged(t.Context(), c, x[:5], next, x[4:9], next, 0) }, "overlap"},
		wrong{"SendRecv: in place",
			func() error { return exchanged(t.Context(), c, x[:5], next, x[:5], next, 0) }, "overlap"},
		wrong{"SendRecv: negative tag, itself",
			func() error { return exchanged(t.Context(), c, x[:5], self, x[5:10], self, -3) }, "tag -3"})
}

// TestArguments: every call with an invalid argument returns an ErrArgument that names it. Nothing has been sent,
// nothing is in flight, and the communicator stays usable.
func TestArguments(t *testing.T) {
	for _, size := range []int{2, 3} {
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			for _, w := range wrongCalls(t, c) {
				err := w.call()
				var re *RankError
				if !errors.Is(err, ErrArgument) || errors.As(err, &re) {
					return fmt.Errorf("%s: %v, want ErrArgument", w.name, err)
				}
				if !strings.Contains(err.Error(), w.text) || !strings.Contains(err.Error(), fmt.Sprintf("rank %d", c.in.Rank)) {
					return fmt.Errorf("%s: %v, want the rank and %q", w.name, err, w.text)
				}
				if st := c.in.Endpoint.Status(c.in.Rank); !c.in.Engine.Idle() || st.Call.Seq != 0 {
					return fmt.Errorf("%s: something is under way, latest call %v", w.name, st.Call)
				}
			}
			tr := float64s.try(c, call{kind: plan.AllReduce, op: Sum, count: 5000})
			if err := tr.run(t.Context()); err != nil {
				return err
			}
			return tr.check()
		}, WithGraph(topo.UniformGraph(size)))
	}
}

// TestUnusedArguments: a rank that is not the root may pass any slice for the root's slice.
func TestUnusedArguments(t *testing.T) {
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		x := make([]int32, 30)
		if c.in.Rank == 1 {
			return errors.Join(Reduce(t.Context(), c, x[:5], x[:5], Sum, 1), Broadcast(t.Context(), c, x[:5], x[:5], 1),
				Gather(t.Context(), c, x[15:20], x[:15], 1), Scatter(t.Context(), c, x[:15], x[15:20], 1))
		}
		overlap := x[3:9]
		return errors.Join(Reduce(t.Context(), c, x[:5], overlap, Sum, 1), Broadcast(t.Context(), c, overlap, x[:5], 1),
			Gather(t.Context(), c, x[:5], overlap, 1), Scatter(t.Context(), c, overlap, x[:5], 1))
	})
}
