package plan

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// Steps by hand, short enough for tables.
func snd(src Buf, to int32) Step      { return Step{Op: Send, Src: src, From: -1, To: to} }
func rcv(dst Buf, from int32) Step    { return Step{Op: Recv, Dst: dst, From: from, To: -1} }
func add(d, s Buf, from int32) Step   { return Step{Op: RecvReduce, Src: s, Dst: d, From: from, To: -1} }
func cp(dst, src Buf) Step            { return Step{Op: Copy, Src: src, Dst: dst, From: -1, To: -1} }
func track(rank int, s ...Step) Track { return Track{Rank: rank, Steps: s} }

func lanes(tracks ...Track) []Lane { return []Lane{{Weight: 1, Tracks: tracks}} }

// Parts of the plans below.
var (
	nan     = math.NaN()
	both    = []Track{track(0, snd(In, 1), add(Out, In, 1)), track(1, snd(In, 0), add(Out, In, 0))}
	gather0 = []Track{track(0, snd(In, 1), cp(Out, In)), track(1, rcv(Out, 0))}
	gather1 = []Track{track(0, rcv(Out, 1)), track(1, snd(In, 0), cp(Out, In))}
)

// brokenPlans are one that is right, and one for every reason to reject a plan.
var brokenPlans = []struct {
	name   string
	plan   Plan
	reason Reason
	want   string
}{
	{"exchange of two", Plan{Kind: AllReduce, Size: 2, Root: -1, Lanes: lanes(both...)}, "", ""},
	{"no kind", Plan{Size: 1, Root: -1, Lanes: lanes(track(0, cp(Out, In)))}, BadField, "Kind(0)"},
	{"no ranks", Plan{Kind: AllReduce, Root: -1}, BadField, "0 ranks"},
	{"no lanes", Plan{Kind: AllReduce, Size: 1, Root: -1}, BadField, "0 lanes"},
	{"a root too many", Plan{Kind: AllReduce, Size: 2, Root: 1, Lanes: lanes(both...)}, BadField, "want -1"},
	{"no root", Plan{Kind: Reduce, Size: 2, Root: 2, Lanes: lanes(both...)}, BadField, "root 2"},
	{"weight", Plan{Kind: AllReduce, Size: 2, Root: -1, Lanes: []Lane{{Weight: nan, Tracks: both}}}, BadField,
		"weight NaN"},
	{"rank", Plan{Kind: AllReduce, Size: 1, Root: -1, Lanes: lanes(track(1, cp(Out, In)))}, BadField, "rank 1"},
	{"peer", Plan{Kind: AllReduce, Size: 2, Root: -1, Lanes: lanes(track(0, snd(In, 2)))}, BadField, "sends to rank 2"},
	{"self", Plan{Kind: AllReduce, Size: 2, Root: -1, Lanes: lanes(track(0, snd(In, 0)))}, BadField,
		"sends to the rank itself"},
	{"in written", Plan{Kind: AllReduce, Size: 2, Root: -1, Lanes: lanes(track(0, rcv(In, 1)))}, BadField, "writes In"},
	{"out of a leaf", Plan{Kind: Reduce, Size: 2, Root: 0, Lanes: lanes(track(1, snd(Out, 0)))}, NotOnTheRank,
		"only root 0 has"},
	{"in of a leaf", Plan{Kind: Broadcast, Size: 2, Root: 0, Lanes: lanes(track(1, cp(Out, In)))}, NotOnTheRank,
		"only root 0 has"},
	{"a part where there are none", Plan{Kind: AllReduce, Size: 2, Root: -1,
		Lanes: []Lane{{Part: 1, Weight: 1, Tracks: both}}}, BadField, "carries part 1"},
	{"a part left out", Plan{Kind: AllGather, Size: 2, Root: -1, Lanes: []Lane{{Part: 0, Weight: 1, Tracks: gather0}}},
		BadField, "no lane carries part 1"},
	{"the first part left out", Plan{Kind: AllGather, Size: 2, Root: -1,
		Lanes: []Lane{{Part: 1, Weight: 1, Tracks: gather1}}}, BadField, "lane 0 carries part 1"},
	{"parts out of order", Plan{Kind: AllGather, Size: 2, Root: -1,
		Lanes: []Lane{{Part: 0, Weight: 1, Tracks: gather0}, {Part: 1, Weight: 1, Tracks: gather1},
			{Part: 0, Weight: 1, Tracks: gather0}}},
		BadField, "lane 2 carries part 0"},
	{"a part too many", Plan{Kind: AllGather, Size: 2, Root: -1,
		Lanes: []Lane{{Part: 0, Weight: 1, Tracks: gather0}, {Part: 1, Weight: 1, Tracks: gather1},
			{Part: 2, Weight: 1, Tracks: gather0}}},
		BadField, "lane 2 carries part 2"},
	{"a negative part", Plan{Kind: AllGather, Size: 2, Root: -1, Lanes: []Lane{{Part: -1, Weight: 1, Tracks: gather0}}},
		BadField, "lane 0 carries part -1"},
	{"gather", Plan{Kind: AllGather, Size: 2, Root: -1,
		Lanes: []Lane{{Part: 0, Weight: 1, Tracks: gather0}, {Part: 1, Weight: 1, Tracks: gather1}}}, "", ""},
	{"gather of another's part", Plan{Kind: AllGather, Size: 2, Root: -1,
		Lanes: []Lane{{Part: 0, Weight: 1, Tracks: gather1}, {Part: 1, Weight: 1, Tracks: gather0}}},
		NotOnTheRank, "only rank 0, whose part it is, has (allgather)"},
	{"scatter of another's part", Plan{Kind: ReduceScatter, Size: 2, Root: -1, Lanes: []Lane{
		{Part: 0, Weight: 1, Tracks: []Track{track(0, snd(In, 1)), track(1, add(Out, In, 0))}},
		{Part: 1, Weight: 1, Tracks: both}}},
		NotOnTheRank, "only rank 0, whose part it is, has (reducescatter)"},
	{"scatter of one's own alone", Plan{Kind: ReduceScatter, Size: 2, Root: -1, Lanes: []Lane{
		{Part: 0, Weight: 1, Tracks: []Track{track(0, cp(Out, In))}},
		{Part: 1, Weight: 1, Tracks: []Track{track(1, cp(Out, In))}}}},
		WrongResult, "lacks the input of rank 1"},
	{"two senders", Plan{Kind: AllReduce, Size: 2, Root: -1, Lanes: lanes(track(0, snd(In, 1)), track(0, snd(In, 1)))},
		SharedFIFO, "sends from 0 to 1, but track 0 does so already"},
	{"two receivers", Plan{Kind: AllReduce, Size: 2, Root: -1,
		Lanes: lanes(track(0, rcv(Out, 1)), track(0, rcv(Out, 1)))},
		SharedFIFO, "receives from 1 at 0"},

	{"both receive first", Plan{Kind: AllReduce, Size: 2, Root: -1,
		Lanes: lanes(track(0, add(Out, In, 1), snd(In, 1)), track(1, add(Out, In, 0), snd(In, 0)))},
		Deadlock, `rank 0 waits in "out = in + from 1" (track 0, step 0) of chunk 0 for rank 1 to send, ` +
			`rank 1 waits in "out = in + from 0" (track 1, step 0) of chunk 0 for rank 0 to send`},
	{"nobody receives", Plan{Kind: AllReduce, Size: 2, Root: -1,
		Lanes: lanes(track(0, snd(In, 1)), track(1, snd(In, 0)))},
		Deadlock, `rank 0 waits in "to 1 = in" (track 0, step 0) of chunk 2 for rank 1 to receive, which ` +
			`has no step that receives from rank 0`},
	{"one sends twice", Plan{Kind: Broadcast, Size: 2, Root: 0,
		Lanes: lanes(track(0, snd(In, 1), snd(In, 1), cp(Out, In)), track(1, rcv(Out, 0)))},
		WrongOrder, `receives chunk 0 from rank 0, where chunk 1 is due: rank 0's "to 1 = in" (track 0, step 1) sent it`},
	{"out before it is there", Plan{Kind: Broadcast, Size: 2, Root: 0,
		Lanes: lanes(track(0, snd(Out, 1), cp(Out, In)), track(1, rcv(Out, 0)))},
		Undefined, "reads out before anything was stored there"},
	{"stored and overwritten by a second track", Plan{Kind: Broadcast, Size: 2, Root: 0, Lanes: lanes(
		track(0, snd(In, 1), cp(Out, In)), track(1, rcv(Out, 0), cp(Tmp, Out), snd(Tmp, 0)), track(0, rcv(Tmp, 1)))},
		DeadStore, "no step has read"},
	{"stored in vain", Plan{Kind: AllReduce, Size: 1, Root: -1, Lanes: lanes(track(0, cp(Out, In), cp(Out, In)))},
		DeadStore, "overwrites out, which no step has read"},
	{"tmp in vain", Plan{Kind: Broadcast, Size: 1, Root: 0, Lanes: lanes(track(0, cp(Out, In), cp(Tmp, In)))}, DeadStore,
		"tmp"},
	{"doubled", Plan{Kind: AllReduce, Size: 2, Root: -1, Lanes: lanes(
		track(0, snd(In, 1), add(Out, In, 1), snd(In, 1)), track(1, snd(In, 0), add(Out, In, 0), add(Out, Out, 0)))},
		WrongResult, "holds the input of rank 0 2 times"},
	{"lost", Plan{Kind: AllReduce, Size: 2, Root: -1,
		Lanes: lanes(track(0, rcv(Out, 1)), track(1, snd(In, 0), cp(Out, In)))},
		WrongResult, "lacks the input of rank 0"},
	{"nothing", Plan{Kind: AllReduce, Size: 2, Root: -1, Lanes: lanes(track(0, add(Out, In, 1)), track(1, snd(In, 0)))},
		WrongResult, "no step stores its result in out"},
}

// Every reason for which a plan is rejected, with its text.
func TestVerifyReasons(t *testing.T) {
	for _, c := range brokenPlans {
		c.plan.Name = c.name
		err := Verify(&c.plan, 2)
		var got *VerifyError
		switch {
		case c.reason == "" && err == nil:
		case !errors.As(err, &got) || got.Reason != c.reason || !strings.Contains(got.Text, c.want):
			t.Errorf("%s: %v, want %s: %q", c.name, err, c.reason, c.want)
		}
	}
}

// Two tracks of a rank may touch a buffer only where chunks that were delivered
// put them in order. Here a message goes round 0, 1, 2 and comes back to a
// second track of rank 0, which overwrites Out with it.
func TestVerifyHazards(t *testing.T) {
	round := []Track{track(0, rcv(Out, 2)), track(1, rcv(Out, 0), snd(Out, 2)), track(2, rcv(Out, 1), snd(Out, 0))}
	for _, c := range []struct {
		name  string
		first Track
		want  Reason
	}{
		{"stored and read before it is sent round", track(0, cp(Out, In), snd(Out, 1)), ""},
		{"stored when it may be back", track(0, snd(In, 1), cp(Out, In), snd(Out, 3)), Hazard},
		{"read when it may be back", track(0, cp(Out, In), snd(Out, 1), snd(Out, 3)), Hazard},
	} {
		p := &Plan{Name: c.name, Kind: Broadcast, Size: 3, Root: 0, Lanes: lanes(append([]Track{c.first}, round...)...)}
		if c.want != "" {
			p.Size = 4
			p.Lanes[0].Tracks = append(p.Lanes[0].Tracks, track(3, rcv(Out, 0)))
		}
		err := Verify(p, 2)
		var got *VerifyError
		switch {
		case c.want == "" && err == nil:
		case !errors.As(err, &got) || got.Reason != c.want:
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Out of place each rank's sum is right here; in place, rank 0 overwrites the
// input that its second track has yet to send.
func TestVerifyInPlace(t *testing.T) {
	p := &Plan{Name: "late", Kind: AllReduce, Size: 2, Root: -1, Lanes: lanes(
		track(0, add(Out, In, 1), snd(In, 1)),
		track(1, snd(In, 0), add(Out, In, 0)))}
	var got *VerifyError
	if err := Verify(p, 2); !errors.As(err, &got) || !got.InPlace || got.Reason != WrongResult {
		t.Errorf("%v, want a wrong result in place", err)
	}
	p.Lanes[0].Tracks = []Track{track(0, add(Out, In, 1)), track(0, snd(In, 1)), track(1, snd(In, 0), add(Out, In, 0))}
	if err := Verify(p, 2); !errors.As(err, &got) || !got.InPlace || got.Reason != Hazard {
		t.Errorf("%v, want a hazard in place", err)
	}
}

// A plan may need more slots than there are: rank 0 passes three inputs to rank 1, which takes none of them before it
// has a chunk from rank 2, which waits for a fourth one from rank 0.
func TestVerifySlots(t *testing.T) {
	p := &Plan{Name: "burst", Kind: Reduce, Size: 6, Root: 1, Lanes: lanes(
		track(0, snd(In, 1), rcv(Tmp, 3), snd(Tmp, 1), rcv(Tmp, 4), snd(Tmp, 1), rcv(Tmp, 5), snd(Tmp, 2)),
		track(1, add(Out, In, 2), add(Out, Out, 0), add(Out, Out, 0), add(Out, Out, 0)),
		track(2, Step{Op: RecvReduceSend, Src: In, From: 0, To: 1}),
		track(3, snd(In, 0)), track(4, snd(In, 0)), track(5, snd(In, 0)))}
	for slots := 1; slots <= 2; slots++ {
		var got *VerifyError
		if err := Verify(p, slots); !errors.As(err, &got) || got.Reason != Deadlock ||
			!strings.Contains(got.Text, "for rank 1 to receive, rank 1 waits") {
			t.Errorf("%d slots: %v, want a deadlock of rank 0 and rank 1", slots, err)
		}
	}
	for _, slots := range []int{3, 4, 1000} {
		if err := Verify(p, slots); err != nil {
			t.Errorf("%d slots: %v", slots, err)
		}
	}
	if err := Verify(p, 0); err == nil {
		t.Error("Verify runs with no slots")
	}
}

// Verify copes with plans as large as a cluster's, and reports its limit.
func TestVerifyLarge(t *testing.T) {
	for _, c := range []struct {
		n    int
		form Form
		want string
	}{{512, Split, ""}, {20000, Single, ""}, {20000, Split, "39999 tracks"}} {
		tree := topo.Tree{Parent: make([]int, c.n)}
		for v := range c.n {
			tree.Parent[v] = (v+1)/2 - 1
		}
		p, err := FromTrees(AllReduce, []topo.Tree{tree}, nil, c.form)
		if err != nil {
			t.Fatal(err)
		}
		err = Verify(p, 2)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d ranks: %v, want %q", c.n, err, c.want)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	tree := topo.Tree{Parent: []int{-1, 0, 0, 2, 0, 4, 4, 6}}
	for _, form := range []Form{Single, Split} {
		p, err := FromTrees(AllReduce, []topo.Tree{tree}, nil, form)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(p.Name, func(b *testing.B) {
			for b.Loop() {
				if err := Verify(p, 2); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestFusedStepWaitsForAllLinks: rank 0 gives ranks 1 and 2 a chunk in one step, and the link to rank 2 is the one that
// is full: rank 2 first waits for rank 1.
func TestFusedStepWaitsForAllLinks(t *testing.T) {
	p := &Plan{Name: "by hand", Kind: Broadcast, Size: 5, Root: 0, Lanes: lanes(
		track(0, snd(In, 2), cp(Out, In), snd(In, 1), snd(In, 2)),
		track(1, rcv(Out, 0), snd(Out, 2)),
		track(2, rcv(Out, 1), snd(Out, 3), rcv(Out, 0), snd(Out, 3), rcv(Out, 0)),
		track(3, rcv(Out, 2), snd(Out, 4), rcv(Out, 2)),
		track(4, rcv(Out, 3)))}
	if err := Verify(p, 2); err != nil {
		t.Error(err)
	}
	if err, ok := errors.AsType[*VerifyError](Verify(p, 1)); !ok || err.Reason != Deadlock {
		t.Errorf("with one slot: %v", err)
	}
}

// TestErrorNamesTheStep: the error about an operand of a fused step is at the Step that reads it.
func TestErrorNamesTheStep(t *testing.T) {
	p := &Plan{Name: "by hand", Kind: AllReduce, Size: 2, Root: -1, Lanes: lanes(
		track(0, snd(In, 1), add(Out, Tmp, 1)), track(1, snd(In, 0), add(Out, In, 0)))}
	if err, ok := errors.AsType[*VerifyError](Verify(p, 1)); !ok || err.Reason != Undefined || err.Step != 1 {
		t.Errorf("%v, want one about step 1", err)
	}
}
