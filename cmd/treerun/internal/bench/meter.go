//go:build linux

package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/internal/numbers"
)

// meter measures calls with elements of type T. All ranks make the same calls on their meters.
type meter[T collective.Number] struct {
	*session
	send, recv []T
	times      []float64 // seconds of each iteration
	calls      map[string]collectiveFuncs[T]
	gpu        *gpu[T]   // nil where the data are on the host
	origin     time.Time // reading the clock against it costs one clock read
}

// newMeter allocates all memory that measuring the cases of this type needs, and
// touches it. The caller closes the meter.
func newMeter[T collective.Number](s *session, cases []Case) (*meter[T], error) {
	typ, c, o := cases[0].Type, s.c, s.o
	n := max(elements(cases, typ, c.Size()), minCopy/typ.Size)
	m := &meter[T]{
		session: s,
		times:   make([]float64, o.Iterations), calls: functions[T](), origin: time.Now(),
	}
	data := (&oracle[T]{size: c.Size(), op: "max"}).input(c.Rank())
	for _, buf := range []*[]T{&m.send, &m.recv} {
		if !o.Alloc {
			*buf = make([]T, n)
		} else if shared, err := collective.Alloc[T](c, n); err != nil {
			return nil, errors.Join(err, m.close())
		} else {
			*buf = shared
		}
		fill(*buf, data, 0)
	}
	if s.device != nil {
		var err error
		if m.gpu, err = newGPU[T](s.device, n); err != nil {
			return nil, errors.Join(err, m.close())
		}
	}
	return m, nil
}

// close frees the memory.
func (m *meter[T]) close() error {
	if !m.o.Alloc {
		return m.gpu.close()
	}
	return errors.Join(collective.Free(m.c, m.send), collective.Free(m.c, m.recv))
}

// now returns the time since an arbitrary origin, in seconds.
func (m *meter[T]) now() float64 { return time.Since(m.origin).Seconds() }

// measure times a case and checks its result. The row is the same on all ranks.
func (m *meter[T]) measure(ctx context.Context, k *Case) (*Row, error) {
	run := m.prepare(k)
	oracle := &oracle[T]{size: m.c.Size(), op: k.Op}
	floor, err := m.minSeconds(ctx, k, run.spread)
	if err != nil {
		return nil, err
	}
	if err := m.load(ctx, run, oracle); err != nil {
		return nil, err
	}

	seconds1, err := m.warmUp(ctx, run, m.o.MaxSeconds/2)
	if err != nil {
		return nil, err
	}
	iters := fitIterations(m.o.Iterations, 3, m.o.MaxSeconds, seconds1)

	r := newRow(k, m.c.Size(), iters)
	if m.o.Stream {
		r.Mode = "stream"
		seconds, err := m.backToBack(ctx, run, iters)
		if err != nil {
			return nil, err
		}
		r.TimeUs, r.MeanUs, r.MinUs = microseconds(seconds), microseconds(seconds), microseconds(seconds)
	} else {
		if err := m.oneByOne(ctx, run, iters); err != nil {
			return nil, err
		}
		summarize(r, m.times[:iters])
	}
	switch {
	case m.o.Alloc:
		r.Memory = "alloc"
	case m.gpu != nil:
		r.Memory = "device"
	}
	addRates(r, k, floor)
	if run.spread == nil {
		m.addPlan(r, k)
	} else if err := m.addSparse(ctx, r, k, run.spread); err != nil {
		return nil, err
	}
	if m.o.Check && !k.empty() {
		err = m.check(ctx, k, run, oracle, r)
	}
	return r, err
}

// prepare lays out the buffers of a case.
func (m *meter[T]) prepare(k *Case) *prepared[T] {
	r := &prepared[T]{collectiveFuncs: m.calls[k.Name], calls: make([]call[T], k.Calls),
		requests: make([]collective.Request, k.Calls)}
	if k.Sparse {
		r.spread = newSpread(k, m.o, m.c.Size())
	}
	stride := k.stride(m.c.Size())
	for i := range r.calls {
		r.calls[i] = m.callAt(k, i*stride)
		r.calls[i].spread = r.spread
	}
	return r
}

// callAt returns a call whose buffers begin at this element. In place, both are in one buffer: the smaller one is this
// rank's part of the larger one.
func (m *meter[T]) callAt(k *Case, at int) call[T] {
	size, mine := m.c.Size(), m.c.Rank()*k.Count
	send, recv := k.lengths(k.Count, size)
	from, to, input := at, at, m.send
	if k.InPlace {
		input = m.recv
		switch {
		case send < recv:
			from += mine
		case recv < send:
			to += mine
		}
	}
	c := call[T]{c: m.c, send: input[from:][:send], recv: m.recv[to:][:recv], op: ops[k.Op], root: k.Root}
	if k.Sparse {
		c.c = m.sparse
	}
	if g := m.gpu; g != nil {
		source := g.send
		if k.InPlace {
			source = g.recv
		}
		c.stream, c.input, c.out = g.stream, source.Slice(from, from+send), g.recv.Slice(to, to+recv)
	}
	return c
}

// load writes this rank's input, and other values to the place of the result.
func (m *meter[T]) load(ctx context.Context, r *prepared[T], o *oracle[T]) error {
	data := o.input(m.c.Rank())
	r.restore = func() error { return nil }
	for i := range r.calls {
		k := &r.calls[i]
		for i := range k.recv {
			k.recv[i] = 99 // a right result may be the same here and there, not everywhere
		}
		if r.spread == nil {
			fill(k.send, data, 0)
			continue
		}
		clear(k.send)
		m.refillInput(k, data)
		if &k.send[0] == &k.recv[0] {
			r.restore = func() error {
				m.refillInput(k, data)
				return m.upload(ctx, r)
			}
		}
	}
	return m.upload(ctx, r)
}

// warmUp makes the calls that are not timed, as many as fit into the seconds of the budget, and returns the duration of
// an iteration: measured on one iteration, and then better on the others.
func (m *meter[T]) warmUp(ctx context.Context, r *prepared[T], budget float64) (float64, error) {
	one, err := m.backToBack(ctx, r, 1)
	if n := fitIterations(m.o.Warmup, 1, budget, one) - 1; err == nil && n > 0 {
		return m.backToBack(ctx, r, n)
	}
	return one, err
}

// backToBack returns the mean seconds of n consecutive iterations, on the slowest rank.
func (m *meter[T]) backToBack(ctx context.Context, r *prepared[T], n int) (float64, error) {
	if err := collective.Barrier(ctx, m.c); err != nil {
		return 0, err
	}
	begin := m.now()
	for range n {
		if err := r.restore(); err != nil {
			return 0, err
		}
		if err := r.issue(ctx); err != nil {
			return 0, err
		}
	}
	if err := r.sync(ctx); err != nil {
		return 0, err
	}
	return collective.AllReduceValue(ctx, m.c, (m.now()-begin)/float64(n), collective.Max)
}

// oneByOne times n iterations, each from this rank's own exit of a barrier on, and stores in m.times the time of each
// on its slowest rank.
func (m *meter[T]) oneByOne(ctx context.Context, r *prepared[T], n int) error {
	times := m.times[:n]
	for i := range times {
		if err := r.restore(); err != nil {
			return err
		}
		if err := collective.Barrier(ctx, m.c); err != nil {
			return err
		}
		begin := m.now()
		if err := r.once(ctx); err != nil {
			return err
		}
		times[i] = m.now() - begin
	}
	return collective.AllReduce(ctx, m.c, times, times, collective.Max)
}

// check makes one more call, or the number in flight, on fresh data and counts the wrong elements over all ranks.
func (m *meter[T]) check(ctx context.Context, k *Case, r *prepared[T], o *oracle[T], row *Row) error {
	if err := m.load(ctx, r, o); err != nil {
		return err
	}
	if err := r.once(ctx); err != nil {
		return err
	}
	if err := m.download(ctx, r); err != nil {
		return err
	}
	var wrong int64
	if r.spread != nil {
		wrong = m.wrongSparse(&r.calls[0], o)
	}
	for _, b := range k.result(m.c.Rank(), m.c.Size(), k.Root, k.Count) {
		data := o.reduced()
		if b.from != allRanks {
			data = o.input(b.from)
		}
		for i := range r.calls {
			wrong += differences(r.calls[i].recv[b.start:][:b.count], data, b.offset)
		}
	}
	wrong, err := collective.AllReduceValue(ctx, m.c, wrong, collective.Sum)
	row.Wrong = &wrong
	return err
}

func newRow(k *Case, np, iters int) *Row {
	return &Row{
		Collective: k.Name, NP: np, Bytes: k.Bytes, Count: k.Count, Type: k.Type.Name, Op: k.Op, Root: k.Root,
		InPlace: k.InPlace, InFlight: k.Calls,
		Mode: "barrier", Memory: "go", Iters: iters,
	}
}

// summarize sorts the seconds of the iterations.
func summarize(r *Row, seconds []float64) {
	slices.Sort(seconds)
	n := len(seconds)
	at := func(share float64) float64 { // the least that this share of them does not exceed
		return microseconds(seconds[max(0, int(math.Ceil(share*float64(n)))-1)])
	}
	r.TimeUs = microseconds((seconds[n/2] + seconds[(n-1)/2]) / 2)
	r.MeanUs = microseconds(numbers.Sum(seconds) / float64(n))
	r.MinUs, r.MaxUs = microseconds(seconds[0]), microseconds(seconds[n-1])
	r.P50Us, r.P90Us, r.P99Us = r.TimeUs, at(0.9), at(0.99)
}

// microseconds turns seconds into microseconds, to a tenth of a nanosecond.
func microseconds(seconds float64) float64 { return math.Round(seconds*1e10) / 1e4 }

// addRates adds the values that follow from the time.
func addRates(r *Row, k *Case, floorSeconds float64) {
	r.FloorUs = microseconds(floorSeconds)
	if r.TimeUs > 0 { // the clock may be too coarse to see one rank's work
		r.AlgbwGBs = math.Round(float64(r.Bytes)*float64(r.InFlight)/r.TimeUs*1e3) / 1e6
		r.BusbwGBs = r.AlgbwGBs * k.busFactor(r.NP)
		r.LimitShare = math.Round(r.FloorUs/r.TimeUs*1e4) / 1e4
	}
}

// addPlan adds the plan and its predicted time, on rank 0, which reports. A ring of messages has no plan, and the
// prediction is for a single call.
func (m *meter[T]) addPlan(r *Row, k *Case) {
	if k.Kind == 0 || m.c.Rank() != 0 {
		return
	}
	choose := m.c.Choice
	if m.gpu != nil {
		choose = m.c.DeviceChoice
	}
	choice, err := choose(k.Kind, k.Root, int(k.Bytes))
	if err != nil {
		return
	}
	r.Plan, r.Algorithm, r.Digest = choice.Plan, choice.Algorithm, choice.Digest
	if k.Calls == 1 {
		r.PredictedUs = priceOf(choice.PredictedUs)
	}
}

// fitIterations returns how many of want iterations of the given seconds fit into the budget: at least least, but never
// more than want.
func fitIterations(want, minimum int, budget, seconds float64) int {
	if budget <= 0 || seconds <= 0 || float64(want)*seconds <= budget {
		return want
	}
	return min(want, max(minimum, int(budget/seconds)))
}
