package comm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/agree"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/status"
)

// Looks compare, on several hosts, the times of large calls with their predictions. A look is an AllReduce of times, a
// call in the order of the calls: all ranks have it before the same large call. The least time of the ranks counts,
// that of one which has not waited for a late one. Rank 0 judges. Its judgment comes with the next look, and if all
// ranks wait in that, they measure the network there.
//
// A rank that starts a call starts a look as well and does not wait for it. Then no rank acts.
type Looks struct {
	Pace  Pace // of rank 0
	Every int  // bytes of large calls between two looks; 0: there are none

	c      *Comm
	began  time.Time
	bytes  int                // of the large calls since the latest look
	calls  int                // their number
	sorts  [lookTimes]sort    // of the first of them
	times  [lookTimes]float64 // in seconds; 0: not known
	timed  int                // 1 + the index of the call that has claimed the communicator, where it is one of these
	values *[lookTimes + 2]float64
	args   Args
	seq    uint64 // the number of the latest look

	measure   bool                   // what rank 0 has judged
	predicted map[sort]time.Duration // on rank 0, with the plans of now
	last      timeOf                 // on rank 0: the latest calls
	former    timeOf                 // those before the latest change of the plans
	after     int                    // the number of looks since then
	replans   int                    // the number of measurements
}

// sort is what the predicted time of a call follows from.
type sort struct {
	kind  plan.Kind
	bytes int
}

// timeOf is the time of a call.
type timeOf struct {
	sort
	seconds float64
}

const (
	lookFrom  = 1 << 20 // bytes of a large call
	lookTimes = 16      // calls between two looks whose times count
	lookCalls = 256     // large calls between two looks, at most
	lookEvery = 0.1     // seconds that the slowest host needs, at least, for the bytes between two looks
)

// begin begins the looks of c.
func (l *Looks) begin(c *Comm) {
	l.Pace, l.c, l.began = newPace(), c, time.Now()
	l.planned()
}

// planned takes in that there are plans for the network as it is now.
func (l *Looks) planned() {
	c := l.c
	if c.Setup.Replans() {
		_, between := c.Setup.Latest()
		l.Every = max(1, int(lookEvery*1e9*between.Network.Slowest()))
	}
	// The first call of a size may plan for some tenths of a second: it stops where c fails.
	c.Plans.StopBy(func() bool {
		_, failed := c.Endpoint.Aborted()
		return failed && c.Claimed() && !c.closing.Load()
	})
}

// Before is called by all ranks before each call, in which this rank waits unless it only starts it. The communicator
// is claimed.
func (l *Looks) Before(ctx context.Context, a *Args, waits bool) error {
	if l.Every == 0 {
		return nil // at no cost: small calls are quick
	}
	return l.before(ctx, a, waits)
}

// before is Before where there are looks.
func (l *Looks) before(ctx context.Context, a *Args, waits bool) error {
	s := sort{a.Kind, a.bytes(l.c.Size)}
	switch s.kind {
	case plan.AllReduce, plan.AllGather, plan.ReduceScatter, plan.AllToAll: // which no rank ends before all have begun
	default:
		return nil
	}
	if s.bytes < lookFrom || a.ID.Varied || a.Func != nil {
		return nil
	}
	if l.bytes >= l.Every || l.calls == lookCalls {
		if err := l.look(ctx, a, waits); err != nil {
			return err
		}
	}
	if l.calls < lookTimes {
		l.sorts[l.calls] = s
		if waits {
			l.timed = l.calls + 1
		}
	}
	l.calls++
	l.bytes += s.bytes
	return nil
}

// end takes in the time of the call that ends.
func (l *Looks) end(took time.Duration) {
	l.times[l.timed-1] = took.Seconds()
	l.timed = 0
}

// look compares the times of the calls since the latest look, before call a.
func (l *Looks) look(ctx context.Context, a *Args, waits bool) error {
	c := l.c
	if begun := c.callOf(l.seq); l.values == nil || begun != nil && !begun.Done() {
		l.values = new([lookTimes + 2]float64)
	}
	v, inf := l.values, math.Inf(1)
	v[0], v[1] = inf, 0
	if c.Rank == 0 && !l.measure {
		v[0] = 0
	}
	if waits {
		v[1] = 1
	}
	copy(v[2:], l.times[:])
	l.args = Args{Args: engine.Args{ID: call.ID{Kind: call.Look}, Work: kernel.Work{Op: kernel.Min}}}
	l.args.In, l.args.Out = kernel.BytesOf(v[:]), kernel.BytesOf(v[:])
	l.args.SetHost(c, plan.AllReduce, -1, kernel.Float64, len(v), len(v))
	l.args.ID.Op = 0                                     // its Kind stands in the header in place of one
	c.Tally.calls.Load().Now = int32(status.RowLook) + 1 // it is no call of the program
	var err error
	if waits {
		err = c.Go(ctx, &l.args, &c.Waiter)
	} else {
		err = c.Enter(ctx, &l.args)
	}
	c.Tally.calls.Load().Now = 0
	if err != nil {
		return l.failed(a, err)
	}
	l.seq = c.Seq
	calls := l.calls
	l.bytes, l.calls = 0, 0
	clear(l.times[:])
	if !waits || v[1] == 0 {
		return nil
	}
	if c.Rank == 0 {
		l.judge(calls, v[2:])
	}
	if v[0] > 0 {
		return l.replan(ctx, a)
	}
	return nil
}

// failed returns err, of a look or of what follows, as call a meets it.
func (l *Looks) failed(a *Args, err error) error {
	if l.c.failure.err == nil {
		return err
	}
	id := a.ID
	id.Seq = l.c.Seq + 1
	return l.c.failure.again(id.String())
}

// judge takes in, on rank 0, the times of the first calls, of that number.
func (l *Looks) judge(calls int, times []float64) {
	var ratios, seconds []float64
	for i, t := range times[:min(calls, lookTimes)] {
		if predicted := l.predict(l.sorts[i]); t > 0 && predicted > 0 {
			ratios, seconds = append(ratios, t/predicted.Seconds()), append(seconds, t)
			l.last = timeOf{l.sorts[i], t}
		}
	}
	if l.measure = false; len(ratios) == 0 {
		return
	}
	took := time.Duration(float64(calls) * numbers.Median(seconds) * 1e9)
	l.measure = l.Pace.see(time.Since(l.began), took, numbers.Median(ratios))
	if l.after++; l.after == 2 && l.former.sort == l.last.sort {
		l.note("%v of %s takes %.3g s, and took %.3g s before", call.Kind(l.last.kind),
			numbers.Bytes(int64(l.last.bytes)), l.last.seconds, l.former.seconds)
	}
}

// predict returns the predicted time of a call, 0 where there is none.
func (l *Looks) predict(s sort) time.Duration {
	t, known := l.predicted[s]
	if !known {
		if l.predicted == nil {
			l.predicted = make(map[sort]time.Duration)
		}
		t, _ = l.c.Setup.Predict(s.kind, -1, s.bytes)
		l.predicted[s] = t
	}
	return t
}

// note writes a line for --verbose, on rank 0.
func (l *Looks) note(format string, v ...any) {
	if c := l.c; c.Rank == 0 && c.Setup.World.Setting("verbose") != "" {
		c.Setup.Config.Note(fmt.Sprintf("treerun: communicator "+c.Name+": "+format+"\n", v...))
	}
}

// replan has all ranks measure the network before call a, and make plans for it.
func (l *Looks) replan(ctx context.Context, a *Args) error {
	c, began := l.c, time.Since(l.began)
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	l.replans++
	w := newInnerWorld(c, fmt.Sprintf("%s replan#%d", c.Name, l.replans), call.Look)
	c.Tally.calls.Load().Now = int32(status.RowLook) + 1
	changes, lower, err := c.Setup.Replan(within, w)
	c.Tally.calls.Load().Now = 0
	if all := (*agree.Failed)(nil); err != nil && (c.failure.err != nil || !errors.As(err, &all)) {
		if c.failure.err == nil {
			err = c.Links.broken(ctx, a.ID.Name(), "measuring the network again", err)
		}
		return l.failed(a, err)
	}
	l.measure = false
	now := time.Since(l.began)
	ratio, took := l.Pace.ratio, (now - began).Seconds()
	l.Pace.measured(began, now, len(changes) > 0, lower)
	switch {
	case err != nil: // on all ranks
		l.note("the network cannot be measured again: %v", err)
	case len(changes) == 0:
		l.note("calls take %.3g times as long as predicted; the network has been measured in %.2g s and is as before",
			ratio, took)
	default:
		l.planned()
		l.former, l.after, l.predicted = l.last, 0, nil
		c.Tally.rec.forget()
		c.Waiter.Watch.Record().Replanned()
		l.note("calls take %.3g times as long as predicted; the network has been measured in %.2g s: %s; "+
			"there are new plans for it", ratio, took, numbers.Join(changes, "; "))
	}
	return nil
}
