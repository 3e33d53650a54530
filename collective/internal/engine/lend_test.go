package engine

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
)

// Steps by hand.
func send(src plan.Buf, to int32) plan.Step {
	return plan.Step{Op: plan.Send, Src: src, From: -1, To: to}
}
func recv(from int32, dst plan.Buf) plan.Step {
	return plan.Step{Op: plan.Recv, Dst: dst, From: from, To: -1}
}
func pass(from int32, dst plan.Buf, to int32) plan.Step {
	return plan.Step{Op: plan.RecvCopySend, Dst: dst, From: from, To: to}
}
func add(src plan.Buf, from int32, dst plan.Buf) plan.Step {
	return plan.Step{Op: plan.RecvReduce, Src: src, Dst: dst, From: from, To: -1}
}
func addSend(src plan.Buf, from int32, dst plan.Buf, to int32) plan.Step {
	return plan.Step{Op: plan.RecvReduceCopySend, Src: src, Dst: dst, From: from, To: to}
}
func copyStep(src, dst plan.Buf) plan.Step {
	return plan.Step{Op: plan.Copy, Src: src, Dst: dst, From: -1, To: -1}
}

// overwriting returns valid plans in which rank 0 sends a chunk of a buffer and stores another one in its place before
// the receiver reads it: the receiver waits for what rank 3 sends after that.
func overwriting() []*plan.Plan {
	const in, out, tmp = plan.In, plan.Out, plan.Tmp
	one := func(name string, tracks ...plan.Track) *plan.Plan {
		return &plan.Plan{Name: name, Kind: plan.AllReduce, Size: 4, Root: -1,
			Lanes: []plan.Lane{{Weight: 1, Tracks: tracks}}}
	}
	return []*plan.Plan{
		one("out, by a later step",
			plan.Track{Rank: 0, Steps: []plan.Step{copyStep(in, out), send(in, 2), send(out, 1), pass(2, out, 3)}},
			plan.Track{Rank: 1, Steps: []plan.Step{send(in, 2), add(in, 3, tmp), add(tmp, 2, tmp), add(tmp, 0, out)}},
			plan.Track{Rank: 2, Steps: []plan.Step{send(in, 1), add(in, 0, out), add(out, 1, out), addSend(out, 3, out, 0)}},
			plan.Track{Rank: 3, Steps: []plan.Step{send(in, 2), recv(0, tmp), send(in, 1), copyStep(tmp, out)}}),
		one("out, by another track",
			plan.Track{Rank: 0, Steps: []plan.Step{addSend(in, 1, out, 2), send(out, 3)}},
			plan.Track{Rank: 0, Steps: []plan.Step{pass(3, out, 1)}},
			plan.Track{Rank: 1, Steps: []plan.Step{send(in, 0), recv(3, tmp), recv(0, out), send(tmp, 2)}},
			plan.Track{Rank: 2, Steps: []plan.Step{send(in, 3), add(in, 1, tmp), add(tmp, 0, out)}},
			plan.Track{Rank: 3, Steps: []plan.Step{send(in, 1), add(in, 2, tmp), addSend(tmp, 0, out, 0)}}),
		one("in, which goes to two ranks",
			plan.Track{Rank: 0, Steps: []plan.Step{send(in, 1), recv(3, tmp), send(tmp, 2), send(in, 2), pass(2, out, 3)}},
			plan.Track{Rank: 1, Steps: []plan.Step{send(in, 2), add(in, 2, tmp), add(tmp, 3, tmp), add(tmp, 0, out)}},
			plan.Track{Rank: 2, Steps: []plan.Step{send(in, 1), add(in, 0, tmp), add(tmp, 0, tmp), addSend(tmp, 1, out, 0)}},
			plan.Track{Rank: 3, Steps: []plan.Step{send(in, 0), recv(0, tmp), send(in, 1), copyStep(tmp, out)}}),
		one("in, by a chunk that is no result",
			plan.Track{Rank: 0, Steps: []plan.Step{send(in, 1), recv(3, out), send(out, 2), recv(1, out)}},
			plan.Track{Rank: 1, Steps: []plan.Step{add(in, 2, tmp), addSend(tmp, 0, out, 0), send(out, 2), send(out, 3)}},
			plan.Track{Rank: 2, Steps: []plan.Step{add(in, 0, tmp), send(tmp, 1), recv(1, out)}},
			plan.Track{Rank: 3, Steps: []plan.Step{send(in, 0), recv(1, out)}}),
	}
}

// TestLentMemoryIsNotOverwritten runs plans that store where a chunk lies that is still to be read, with buffers that
// other ranks read where they lie, apart and in place.
func TestLentMemoryIsNotOverwritten(t *testing.T) {
	const count = 8 << 10
	want := numbers(9, count) // 1 + 2 + 3 + 4
	for _, p := range overwriting() {
		if err := plan.Verify(p, 4); err != nil {
			t.Fatal(err)
		}
		eachRank(t, []*plan.Plan{p}, 4, 16<<10, func(r int, programs []*Program, w *Waiter) error {
			for seq, inPlace := range []bool{false, true} {
				out, err := programs[0].e.ep.Alloc(4 * count)
				if err != nil {
					return err
				}
				in := out
				if !inPlace {
					in = make([]byte, 4*count)
				}
				copy(in, numbers(r, count))
				c := sumOf(seq+1, count)
				c.In, c.Out = in, out
				if fault, failed := programs[0].Run(context.Background(), &c, w); failed {
					return fmt.Errorf("%+v", fault)
				}
				if n := differ(out, want); n > 0 {
					t.Errorf("%s, in place %t: %d bytes of rank %d are wrong", p.Name, inPlace, n, r)
				}
			}
			return nil
		})
	}
}

// TestScanInPlace: a rank whose input others have not read yet stores nothing in its place, although the sum of the
// ranks before it, which it receives whole, does not wait for these readers. The higher ranks come late.
func TestScanInPlace(t *testing.T) {
	const count = 8 << 10
	for _, kind := range []plan.Kind{plan.Scan, plan.ExScan} {
		for _, way := range []plan.Way{plan.AtOnce, plan.InRounds, plan.InARow} {
			for size := 2; size <= 5; size++ {
				p, err := plan.NewScan(kind, size, way)
				if err != nil {
					t.Fatal(err)
				}
				eachRank(t, []*plan.Plan{p}, 4, 16<<10, func(r int, programs []*Program, w *Waiter) error {
					all, err := programs[0].e.ep.Alloc(4 * count)
					if err != nil {
						return err
					}
					copy(all, numbers(r, count))
					time.Sleep(time.Duration(r) * time.Millisecond)
					c := sumOf(1, count)
					c.In, c.Out = all, all
					last := r
					if kind == plan.ExScan {
						last--
					}
					if last < 0 {
						c.Out, last = nil, 0
					}
					if fault, failed := programs[0].Run(context.Background(), &c, w); failed {
						return fmt.Errorf("%+v", fault)
					}
					if n := differ(all, numbers((last+1)*(last+2)/2-1, count)); n > 0 {
						t.Errorf("%s, %v of %d: %d bytes of rank %d are wrong", p.Name, kind, size, n, r)
					}
					return nil
				})
			}
		}
	}
}

// TestSlotsAlone: where slots are quicker than lent memory for a rank that only sends or only receives, calls of that
// kind go through slots, others do not.
func TestSlotsAlone(t *testing.T) {
	for _, alone := range []bool{false, true} {
		e := &Engine{lending: Lending{From: 8 << 10, SlotsAlone: alone}}
		for kind, lends := range map[call.Kind]bool{call.Broadcast: !alone, call.Scatter: !alone, call.Gather: !alone,
			call.AllGather: true, call.AllToAll: true} {
			if got := e.lendsOwn(kind, 1<<20); got != lends {
				t.Errorf("slots alone %v: %v lends: %v, want %v", alone, kind, got, lends)
			}
		}
	}
}

// TestLendsByGain: where lent memory gains little, ranks with cores of their own that send and receive use slots, and
// so do all large payloads.
func TestLendsByGain(t *testing.T) {
	const small, middle, large = 256 << 10, 1 << 20, 8 << 20
	for _, tc := range []struct {
		gain    float64
		kind    call.Kind
		lent    []int64
		through []int64
	}{
		{0, call.AllGather, []int64{small, middle, large}, nil},
		{2, call.AllGather, []int64{small, middle, large}, nil},
		{1, call.AllGather, nil, []int64{small, middle, large}},
		{1, call.ExScan, nil, []int64{small, middle, large}},
		{2, call.AllToAll, []int64{small, middle, large}, nil},
		{1, call.AllToAll, []int64{small}, []int64{middle, large}},
		{0.4, call.AllToAll, nil, []int64{small, middle, large}},
		{1, call.Gather, []int64{small, middle}, []int64{large}},
		{0.4, call.Gather, []int64{small, middle}, []int64{large}},
	} {
		e := &Engine{lending: Lending{From: 8 << 10, Gain: tc.gain}}
		for want, sizes := range map[bool][]int64{true: tc.lent, false: tc.through} {
			for _, bytes := range sizes {
				if got := e.lendsOwn(tc.kind, bytes); got != want {
					t.Errorf("gain %v: %v of %d bytes lends: %v, want %v", tc.gain, tc.kind, bytes, got, want)
				}
			}
		}
	}
	for gain, want := range map[float64][2]int64{0: {8 << 10, math.MaxInt64}, 2: {8 << 10, math.MaxInt64},
		1: {8 << 10, large}, 0.4: {math.MaxInt64, math.MaxInt64}} {
		l := Lending{From: 8 << 10, Gain: gain}
		if from, below := l.messages(false); [2]int64{from, below} != want {
			t.Errorf("gain %v: messages are lent from %d to %d bytes, want %d", gain, from, below, want)
		}
		if from, below := l.messages(true); from != 8<<10 || below != math.MaxInt64 {
			t.Errorf("gain %v, shared cores: messages are lent from %d to %d bytes", gain, from, below)
		}
	}
}
