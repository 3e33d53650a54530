package collective

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// roundsTrial is a call that consists of messages, in its three forms, and its expected result on this rank.
type roundsTrial struct {
	name    string
	run     func(ctx context.Context) error
	start   func() (Request, error)
	prepare func() (*Persistent, error)
	check   func() error
}

// begin begins the call in one of its forms; the plain one is done then.
func (tr *roundsTrial) begin(ctx context.Context, form int) (Request, error) {
	switch form {
	case 0:
		return Request{}, tr.run(ctx)
	case 1:
		return tr.start()
	}
	p, err := tr.prepare()
	if err != nil {
		return Request{}, err
	}
	return p.Start()
}

// drawRounds draws a call and the inputs of the ranks; equal rngs draw the same on all ranks.
func drawRounds(c *Comm, rng *rand.Rand) *roundsTrial {
	size, me := c.Size(), c.Rank()
	count := []int{0, 1, 3, 100, 5000, 40000}[rng.IntN(6)] / size
	which, root, inPlace := rng.IntN(8), rng.IntN(size), rng.IntN(2) == 0
	if which == 7 {
		return drawAllToAllV(c, rng)
	}
	length := count
	if which == 6 {
		length *= size
	}
	var given, upTo [][]affine // by rank; this one included
	for r := range size {
		var g []affine
		for range length {
			g = append(g, affine{A: 1, B: rng.Uint32()}) // where A is 1 it is a sum
			if which != 2 && which != 3 {
				g[len(g)-1].A = rng.Uint32()
			}
		}
		sum := slices.Clone(g)
		if r > 0 {
			sum = slices.Clone(upTo[r-1])
			thenAll(sum, g)
		}
		given, upTo = append(given, g), append(upTo, sum)
	}
	send, recv := slices.Clone(given[me]), make([]affine, length)
	for i := range recv {
		recv[i] = affine{7, 9}
	}
	if inPlace {
		recv = send
	}
	want := slices.Clone(upTo[size-1])
	tr := &roundsTrial{}
	switch which {
	case 0:
		tr.name = "AllReduceFunc"
		tr.run = func(ctx context.Context) error { return AllReduceFunc(ctx, c, send, recv, thenAll) }
		tr.start = func() (Request, error) { return StartAllReduceFunc(c, send, recv, thenAll) }
		tr.prepare = func() (*Persistent, error) { return AllReduceFuncInit(c, send, recv, thenAll) }
	case 1:
		tr.name = fmt.Sprint("ReduceFunc to ", root)
		if me != root {
			want = slices.Clone(recv)
		}
		tr.run = func(ctx context.Context) error { return ReduceFunc(ctx, c, send, recv, thenAll, root) }
		tr.start = func() (Request, error) { return StartReduceFunc(c, send, recv, thenAll, root) }
		tr.prepare = func() (*Persistent, error) { return ReduceFuncInit(c, send, recv, thenAll, root) }
	case 2, 3:
		return scanTrial(c, which == 3, given[me], upTo, inPlace)
	case 4:
		tr.name, want = "ScanFunc", upTo[me]
		tr.run = func(ctx context.Context) error { return ScanFunc(ctx, c, send, recv, thenAll) }
		tr.start = func() (Request, error) { return StartScanFunc(c, send, recv, thenAll) }
		tr.prepare = func() (*Persistent, error) { return ScanFuncInit(c, send, recv, thenAll) }
	case 5:
		tr.name, want = "ExScanFunc", slices.Clone(recv)
		if me > 0 {
			want = upTo[me-1]
		}
		tr.run = func(ctx context.Context) error { return ExScanFunc(ctx, c, send, recv, thenAll) }
		tr.start = func() (Request, error) { return StartExScanFunc(c, send, recv, thenAll) }
		tr.prepare = func() (*Persistent, error) { return ExScanFuncInit(c, send, recv, thenAll) }
	case 6:
		own := func(s []affine) []affine { return s[me*count:][:count] }
		tr.name, want, recv = "ReduceScatterFunc", own(want), own(recv)
		tr.run = func(ctx context.Context) error { return ReduceScatterFunc(ctx, c, send, recv, thenAll) }
		tr.start = func() (Request, error) { return StartReduceScatterFunc(c, send, recv, thenAll) }
		tr.prepare = func() (*Persistent, error) { return ReduceScatterFuncInit(c, send, recv, thenAll) }
	}
	tr.check = func() error { return same(tr.name, recv, want) }
	return tr
}

func same[T comparable](name string, got, want []T) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s of %d elements is wrong", name, len(want))
	}
	return nil
}

// scanTrial is a Scan or ExScan of the second numbers.
func scanTrial(c *Comm, exclusive bool, given []affine, upTo [][]affine, inPlace bool) *roundsTrial {
	send, recv := make([]uint32, len(given)), make([]uint32, len(given))
	for i, f := range given {
		send[i] = f.B
	}
	if inPlace {
		recv = send
	}
	want, last := slices.Clone(recv), c.Rank()
	if exclusive {
		last--
	}
	for i := 0; last >= 0 && i < len(want); i++ {
		want[i] = upTo[last][i].B
	}
	tr := &roundsTrial{name: "Scan", check: func() error { return same("Scan", recv, want) },
		run:     func(ctx context.Context) error { return Scan(ctx, c, send, recv, Sum) },
		start:   func() (Request, error) { return StartScan(c, send, recv, Sum) },
		prepare: func() (*Persistent, error) { return ScanInit(c, send, recv, Sum) }}
	if exclusive {
		tr.name = "ExScan"
		tr.run = func(ctx context.Context) error { return ExScan(ctx, c, send, recv, Sum) }
		tr.start = func() (Request, error) { return StartExScan(c, send, recv, Sum) }
		tr.prepare = func() (*Persistent, error) { return ExScanInit(c, send, recv, Sum) }
	}
	return tr
}

func drawAllToAllV(c *Comm, rng *rand.Rand) *roundsTrial {
	size, me := c.Size(), c.Rank()
	var send, want []int32
	var sendCounts, recvCounts []int
	for from := range size {
		for to, n := range drawCounts(rng, size) {
			for i := range n {
				v := int32(from*1000000 + to*100000 + i)
				if from == me {
					send = append(send, v)
				}
				if to == me {
					want = append(want, v)
				}
			}
			if from == me {
				sendCounts = append(sendCounts, n)
			}
			if to == me {
				recvCounts = append(recvCounts, n)
			}
		}
	}
	recv := make([]int32, len(want))
	return &roundsTrial{name: "AllToAllV", check: func() error { return same("AllToAllV", recv, want) },
		run: func(ctx context.Context) error { return AllToAllV(ctx, c, send, sendCounts, recv, recvCounts) },
		start: func() (Request, error) {
			out, in := slices.Clone(sendCounts), slices.Clone(recvCounts)
			defer func() { clear(out); clear(in) }() // they may be used again
			return StartAllToAllV(c, send, out, recv, in)
		},
		prepare: func() (*Persistent, error) { return AllToAllVInit(c, send, sendCounts, recv, recvCounts) }}
}

// TestRoundsUnderWay has many calls in flight that consist of messages, among other calls and messages, in random
// forms. Ranks wait for random calls and test them, at random times; a rank makes progress on a call in flight that
// another rank waits for.
func TestRoundsUnderWay(t *testing.T) {
	calls := testutil.Count(40, 300)
	body := func(seed uint64, c *Comm) error {
		shared, own := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, uint64(c.Rank()+1)))
		var trials []*roundsTrial
		requests := []Request{{}}
		for i := range calls {
			if shared.IntN(4) == 0 {
				if err := between(t, c, shared, i); err != nil {
					return err
				}
			}
			tr, form := drawRounds(c, shared), shared.IntN(3)
			if form == 1 && own.IntN(4) == 0 {
				form = 0
			}
			r, err := tr.begin(t.Context(), form)
			if err != nil {
				return fmt.Errorf("%s, form %d: %w", tr.name, form, err)
			}
			trials, requests = append(trials, tr), append(requests, r)
			switch some := requests[own.IntN(len(requests))]; own.IntN(6) {
			case 0:
				err = some.Wait(t.Context())
			case 1:
				_, err = some.Test()
			}
			if err != nil {
				return err
			}
		}
		for _, i := range own.Perm(len(requests)) {
			if err := requests[i].Wait(t.Context()); err != nil {
				return err
			}
			if done, err := requests[i].Test(); !done || err != nil {
				return fmt.Errorf("Test after Wait: %v, %w", done, err)
			}
		}
		for i, tr := range trials {
			if err := tr.check(); err != nil {
				return fmt.Errorf("call %d: %w", i, err)
			}
		}
		return nil
	}
	for size := 1; size <= 8; size++ {
		for _, slots := range [][2]int{{2, 64}, {4, 4096}} {
			mustRun(t, size, func(_ *fakeWorld, c *Comm) error { return body(uint64(size), c) },
				WithGraph(topo.UniformGraph(size)), WithSlots(slots[0], slots[1]))
		}
	}
	for _, hosts := range [][]int{{0, 1}, {0, 0, 1, 1}, {0, 1, 0, 2, 1}} {
		errs := runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error { return body(99, c) },
			WithGraph(testutil.GraphOn(hosts)))
		if err := errors.Join(errs...); err != nil {
			t.Errorf("on hosts %v: %v", hosts, err)
		}
	}
}

// between makes a call, or sends a message to the next rank, while others are in flight.
func between(t *testing.T, c *Comm, shared *rand.Rand, i int) error {
	x, from := []int{c.Rank()}, (c.Rank()+c.Size()-1)%c.Size()
	switch shared.IntN(4) {
	case 0:
		if _, err := StartSend(c, x, (c.Rank()+1)%c.Size(), i); err != nil {
			return err
		}
		got := []int{-1}
		if n, err := Recv(t.Context(), c, got, AnySource, i); err != nil || n != 1 || got[0] != from {
			return fmt.Errorf("message %v of %d: %w", got, n, err)
		}
		return nil
	case 1:
		part, err := c.Split(t.Context(), 0, 0)
		if err != nil {
			return err
		}
		return part.Close()
	case 2:
		_, err := StartAllReduce(c, x, x, Sum)
		return err
	}
	return sumOn(t.Context(), c)
}

// TestRoundsPrepared runs prepared calls again and again, with other contents each time.
func TestRoundsPrepared(t *testing.T) {
	mustRun(t, 5, func(_ *fakeWorld, c *Comm) error {
		x, all, sum := []int64{0}, make([]int64, 5), []int64{0}
		add := func(into, from []int64) { into[0] += from[0] }
		ones := []int{1, 1, 1, 1, 1}
		scan, err := ScanInit(c, x, x, Sum)
		reduce, err1 := AllReduceFuncInit(c, x, sum, add)
		turn, err2 := AllToAllVInit(c, all, ones, make([]int64, 5), ones)
		if err := errors.Join(err, err1, err2); err != nil {
			return err
		}
		for i := range int64(20) {
			x[0] = i
			if err := scan.Run(t.Context()); err != nil || x[0] != i*int64(c.Rank()+1) {
				return fmt.Errorf("Scan %d gave %d: %w", i, x[0], err)
			}
			first, err := reduce.Start()
			if err != nil {
				return err
			}
			if err := errors.Join(turn.Run(t.Context()), first.Wait(t.Context())); err != nil || sum[0] != i*15 {
				return fmt.Errorf("AllReduceFunc %d gave %d: %w", i, sum[0], err)
			}
		}
		return nil
	})
}
