//go:build linux

package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/internal/testutil"
)

// There is a call for every collective that bench knows, and no other.
func TestCalls(t *testing.T) {
	known := functions[int32]()
	for _, c := range allCollectives {
		call, ok := known[c.Name]
		if !ok || call.run == nil || (c.result(0, 2, 0, 1) == nil) != (c.empty() || c.Sparse) ||
			(call.start == nil) != c.OneByOne {
			t.Errorf("%s cannot be called, or its result not compared", c.Name)
		}
		delete(known, c.Name)
	}
	for name := range known {
		t.Errorf("%s is not among Collectives", name)
	}
}

func TestOps(t *testing.T) {
	for _, name := range allOps {
		if got := ops[name].String(); got != name {
			t.Errorf("%s calls %s", name, got)
		}
	}
}

// Every collective, type and operation, in and out of place, gives right results and plausible rows, the same on all
// ranks.
func TestAll(t *testing.T) {
	testutil.OneProcessor(t)
	sizes := []string{"-b 8K -e 8K", "-b 1000 -e 1000"} // several are for all rounds
	if testutil.Thorough() {
		sizes = []string{"-b 8 -e 8K -f 1024", "-b 8 -e 100K -f 1000"}
	}
	for _, c := range []struct {
		np   int
		line string
	}{
		{1, "--collective all -d all -o all -b 1 -e 5000 -f 5000 -i 3 -w 1"},
		{2, "--collective all -d all -o all -i 3 -w 1 -r 1 " + sizes[0]},
		{3, "--collective all -d float32,int8 -b 3 -e 100K -f 180 -i 5 -w 2 -r 2 --stream"},
		{2, "--collective all -d int32 --inflight 1,50,150,300 -i 3 " + sizes[0]},
		{3, "--collective all -d float32,uint8 --alloc --inflight 1,20 -i 3 " + sizes[1]},
		{4, "--collective all -d bfloat16,int64 -o avg,prod -b 1000 -e 1000 --max-seconds 0.001 -r 3"},
	} {
		o := parsed(t, c.line)
		var mu sync.Mutex
		byRank := make([][]*Row, c.np)
		onRanks(t, c.np, func(comm *collective.Comm) error {
			return measureAll(t.Context(), comm, comm, nil, o, func(r *Row) error {
				mu.Lock()
				defer mu.Unlock()
				byRank[comm.Rank()] = append(byRank[comm.Rank()], r)
				return nil
			})
		})
		cases := o.cases(c.np)
		if len(byRank[0]) != len(cases) {
			t.Fatalf("%s: %d rows, want %d", c.line, len(byRank[0]), len(cases))
		}
		for i, r := range byRank[0] {
			if !r.matches(&cases[i], c.np) {
				t.Errorf("%s: row %d is %+v", c.line, i, *r)
			}
			possible(t, o, r)
			for rank := range c.np {
				if other := byRank[rank][i]; other.TimeUs != r.TimeUs || other.Iters != r.Iters {
					t.Errorf("%s: row %d is %+v on rank 0 and %+v on rank %d", c.line, i, *r, *other, rank)
				}
			}
		}
	}
}

func possible(t *testing.T, o *Options, r *Row) {
	t.Helper()
	if (r.Wrong == nil) != (r.Bytes == 0) || r.Wrong != nil && *r.Wrong != 0 {
		t.Errorf("wrong elements, or not compared: %+v", *r)
	}
	times := []float64{r.MinUs, r.P50Us, r.P90Us, r.P99Us, r.MaxUs}
	if o.Stream {
		times = []float64{r.MinUs, r.TimeUs}
	}
	if !slices.IsSorted(times) || r.MeanUs < r.MinUs || r.MeanUs > slices.Max(times) ||
		r.MinUs < 0 || r.MaxUs > 60e6 || r.Iters < 1 || r.Iters > o.Iterations {
		t.Errorf("impossible times: %+v", *r)
	}
	if r.TimeUs > 0 && math.Abs(r.AlgbwGBs*r.TimeUs*1e3-float64(r.Bytes)*float64(r.InFlight)) > 1+1e-3*r.TimeUs {
		t.Errorf("algbw is not bytes per time: %+v", *r)
	}
	if (r.Plan == "") != (r.Collective == "sendrecv") || r.PredictedUs != nil && !(*r.PredictedUs >= 0) || r.NP > 1 &&
		r.Plan != "" && (r.PredictedUs == nil) != (r.InFlight > 1) {
		t.Errorf("no plan or no price: %+v", *r)
	}
	if !(r.FloorUs >= 0 && r.LimitShare >= 0) || r.Bytes > 1000 && r.NP > 1 && r.FloorUs == 0 {
		t.Errorf("impossible limit: %+v", *r)
	}
}

// A collective that gives a wrong result is detected, on any rank.
func TestWrong(t *testing.T) {
	const np = 3
	o := parsed(t, "-b 4000 -e 4000 -i 2 -w 1")
	onRanks(t, np, func(c *collective.Comm) error {
		m, err := newMeter[float32](newSession(c, c, o, nil), o.cases(np))
		if err != nil {
			return err
		}
		good := m.calls["allreduce"]
		m.calls["allreduce"] = collectiveFuncs[float32]{run: func(ctx context.Context, k *call[float32]) error {
			err := good.run(ctx, k)
			if c.Rank() == 1 {
				k.recv[17]++
			}
			if c.Rank() == 2 {
				copy(k.recv[500:], k.recv[501:510])
			}
			return err
		}}
		for _, k := range o.cases(np) {
			r, err := m.measure(t.Context(), &k)
			if err != nil {
				return err
			}
			if r.Wrong == nil || *r.Wrong < 5 || *r.Wrong > 10 {
				t.Errorf("1 and up to 9 wrong elements are counted as %d", *r.Wrong)
			}
		}
		return nil
	})
}

// An error of a call ends the measuring on every rank, and names the case.
func TestFailure(t *testing.T) {
	var first sync.WaitGroup // so that no rank gives up while another is in its call
	first.Add(2)
	onRanks(t, 2, func(c *collective.Comm) error {
		o := parsed(t, "-b 64 -e 64 -i 2 -w 1")
		refused := errors.New("refused")
		err := measureAll(t.Context(), c, c, nil, o, func(*Row) error { return refused })
		if !errors.Is(err, refused) {
			t.Errorf("rank %d: %v", c.Rank(), err)
		}
		first.Done()
		first.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err = measureAll(ctx, c, c, nil, o, func(*Row) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "allreduce of 64 bytes, float32: ") {
			t.Errorf("rank %d: %v", c.Rank(), err)
		}
		return nil
	})
}

func TestFitIterations(t *testing.T) {
	for _, c := range []struct {
		want, least     int
		budget, seconds float64
		iters           int
	}{
		{50, 3, 2, 0.01, 50},
		{50, 3, 2, 0.1, 20},
		{50, 3, 2, 5, 3},
		{2, 3, 2, 5, 2},   // never more than wanted
		{50, 3, 0, 5, 50}, // no limit
		{50, 3, 2, 0, 50}, // too quick to see
	} {
		if got := fitIterations(c.want, c.least, c.budget, c.seconds); got != c.iters {
			t.Errorf("fit(%d, %d, %g, %g) = %d, want %d", c.want, c.least, c.budget, c.seconds, got, c.iters)
		}
	}
}

func TestSummarize(t *testing.T) {
	var r Row
	var seconds []float64
	for i := range 200 {
		seconds = append(seconds, float64((i*37)%200+1)*1e-6)
	}
	summarize(&r, seconds)
	if r.TimeUs != 100.5 || r.MeanUs != 100.5 || r.MinUs != 1 || r.P50Us != 100.5 || r.P90Us != 180 ||
		r.P99Us != 198 || r.MaxUs != 200 {
		t.Errorf("1 to 200 us are %+v", r)
	}
	if summarize(&r, []float64{1e-6, 2e-6, 9e-6}); r.TimeUs != 2 || r.MeanUs != 4 {
		t.Errorf("the median of 1, 2 and 9 us is %g, and their mean %g", r.TimeUs, r.MeanUs)
	}
	summarize(&r, []float64{3e-6})
	if r.TimeUs != 3 || r.MinUs != 3 || r.P90Us != 3 || r.P99Us != 3 || r.MaxUs != 3 {
		t.Errorf("one time is %+v", r)
	}
}
