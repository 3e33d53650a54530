package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// text writes a step as its targets and its operands.
func text(s Fused) string {
	var args, dst []string
	for _, a := range s.Args {
		if a.Received() {
			args = append(args, fmt.Sprintf("from %d", a.From))
		} else {
			args = append(args, a.Buf.String())
		}
	}
	if s.Dst != None {
		dst = append(dst, s.Dst.String())
	}
	for _, to := range s.To {
		dst = append(dst, fmt.Sprintf("to %d", to.To))
	}
	return strings.Join(dst, ", ") + " = " + strings.Join(args, " + ")
}

// A rank that adds takes one pass over memory, wherever its own input stands in
// the sum, and one more where it makes a second sum. Scratch is not written where
// nothing reads it.
func TestSumsTakeOnePass(t *testing.T) {
	for _, c := range []struct {
		kind        Kind
		hosts       [][]int
		owner, rank int
		want        string // of the rank's first track in the owner's lane
	}{
		{AllReduce, [][]int{{0, 1, 2, 3}}, 0, 0, "out, to 3, to 2, to 1 = in + from 1 + from 2 + from 3"},
		{AllReduce, [][]int{{0, 1, 2, 3}}, 1, 1, "out, to 0, to 3, to 2 = in + from 0 + from 2 + from 3"},
		{AllReduce, [][]int{{0, 1, 2, 3}}, 2, 2, "out, to 1, to 0, to 3 = from 0 + from 1 + in + from 3"},
		{AllReduce, [][]int{{0, 1, 2, 3}}, 3, 3, "out, to 2, to 1, to 0 = from 0 + from 1 + from 2 + in"},
		{AllReduce, [][]int{{0, 1, 2}, {3, 4, 5}}, 5, 5, "out, to 2, to 4, to 3 = from 3 + from 4 + in + from 2"},
		{AllReduce, [][]int{{0, 1, 2}, {3, 4, 5}}, 5, 2, "to 5 = from 0 + from 1 + in"},
		{AllReduce, [][]int{{0, 1}, {2, 3}, {4, 5}}, 5, 5,
			"tmp = in + from 4; out, to 3, to 1, to 4 = from 1 + from 3 + tmp"},
		{Reduce, [][]int{{0, 1, 2, 3}}, 3, 3, "to 0 = from 0 + from 1 + from 2 + in"},
		{ReduceScatter, [][]int{{0, 1, 2, 3}}, 3, 3, "out = from 0 + from 1 + from 2 + in"},
	} {
		p, err := DirectHosts(c.kind, c.hosts, 0, Split)
		if err != nil {
			t.Fatal(err)
		}
		for i, tr := range p.Lanes[c.owner].Tracks {
			if tr.Rank != c.rank {
				continue
			}
			var all []string
			for _, s := range p.Fuse(c.owner, i) {
				all = append(all, text(s))
			}
			if got := strings.Join(all, "; "); got != c.want {
				t.Errorf("%v over %v, lane %d, rank %d: %s, want %s", c.kind, c.hosts, c.owner, c.rank, got, c.want)
			}
			break
		}
	}
}

// Scratch that a later step reads is kept, also where that step stores there.
func TestScratchIsKept(t *testing.T) {
	for want, steps := range map[string][]Step{
		"tmp, to 2 = in + from 1; out = tmp": {add(Tmp, In, 1), snd(Tmp, 2), cp(Out, Tmp)},
		"tmp, to 2 = from 1; out = tmp + in": {rcv(Tmp, 1), snd(Tmp, 2),
			{Op: LocalReduce, Src: In, Dst: Tmp, From: -1, To: -1}, cp(Out, Tmp)},
	} {
		p := &Plan{Name: "by hand", Kind: AllReduce, Size: 3, Root: -1, Lanes: lanes(track(0, steps...))}
		var all []string
		for _, s := range p.Fuse(0, 0) {
			all = append(all, text(s))
		}
		if got := strings.Join(all, "; "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A pass takes one chunk of a link: where two belong into a sum it makes two.
func TestALinkGivesOneChunkAtATime(t *testing.T) {
	p := &Plan{Name: "by hand", Kind: AllReduce, Size: 3, Root: -1,
		Lanes: []Lane{{Weight: 1, Tracks: []Track{
			{Rank: 0, Steps: []Step{
				{Op: RecvReduce, Src: In, Dst: Tmp, From: 1, To: -1},
				{Op: RecvReduceSend, Src: Tmp, From: 1, To: 2},
				{Op: Recv, Dst: Tmp, From: 1, To: -1},
				{Op: Send, Src: Tmp, From: -1, To: 2},
				{Op: Send, Src: Tmp, From: -1, To: 2},
			}}}}}}
	var all []string
	for _, s := range p.Fuse(0, 0) {
		all = append(all, text(s))
	}
	want := "tmp = in + from 1; to 2 = tmp + from 1; tmp, to 2 = from 1; to 2 = tmp"
	if got := strings.Join(all, "; "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestFinal: rank 1 adds in Out on the way up, and stores the result there on the way down, which nothing overwrites.
func TestFinal(t *testing.T) {
	p, err := FromTrees(AllReduce, []topo.Tree{{Parent: []int{-1, 0, 1, 1}}}, nil, Split)
	if err != nil {
		t.Fatal(err)
	}
	stores := 0
	for i, tr := range p.Lanes[0].Tracks {
		for k, s := range tr.Steps {
			if s.Dst == Tmp { // as a plan by hand may have it
				tr.Steps[k].Dst, tr.Steps[k+1].Src = Out, Out
				s.Dst = Out
			}
			if tr.Rank != 1 || s.Dst != Out {
				continue
			}
			stores++
			if got, want := p.Final(0, i, k), s.From == 0; got != want {
				t.Errorf("step %q is final: %t, want %t", s, got, want)
			}
		}
	}
	if stores != 2 {
		t.Errorf("%d steps of rank 1 store in Out, want 2:\n%v", stores, p)
	}
}

func TestOnlyMoves(t *testing.T) {
	direct := func(kind Kind) *Plan {
		p, err := Direct(kind, 3, 0, Single)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	passing := &Plan{Name: "by hand", Kind: Broadcast, Size: 3, Root: 0, Lanes: lanes(
		track(0, snd(In, 1), cp(Out, In)), track(1, rcv(Out, 0), snd(Out, 2)), track(2, rcv(Out, 1)))}
	for _, c := range []struct {
		p            *Plan
		only, passes bool
	}{
		{direct(Broadcast), true, false}, {direct(Gather), true, false}, {direct(AllToAll), true, true},
		{direct(AllReduce), false, false}, {passing, false, false},
	} {
		if only, passes := c.p.OnlyMoves(); only != c.only || passes != c.passes {
			t.Errorf("%v %s: %t, %t, want %t, %t", c.p.Kind, c.p.Name, only, passes, c.only, c.passes)
		}
	}
}
