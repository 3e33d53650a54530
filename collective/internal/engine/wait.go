package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/progress"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// Waiter is the way in which one rank waits for its links: it polls, then yields the processor between polls, then
// sleeps on its bell. Which of these is right depends on how many ranks share the cores.
type Waiter struct {
	// Spins is the number of polls in a row that may find nothing before the rank starts to yield. Right for ranks
	// with a core of their own: a wake-up between cores costs 10 to 30 us, a poll some nanoseconds.
	Spins int

	// Yields is the number of polls with a yield between them that follow before the rank sleeps. Right for ranks
	// that share cores: the other rank runs at once.
	Yields int

	// Backoff is the time for which a rank to which others send continuously does nothing at all, in place of
	// yields, when a poll has found nothing; 0: it yields. Right for ranks that share cores: a wake-up for every
	// piece that comes, and a poll between any two turns of other ranks, cost more than the work on the piece.
	Backoff time.Duration

	// Crowded reports whether another program has the core and yields take long: then the rank sleeps at once. Nil: it is
	// not known.
	Crowded func() bool

	// SpinsLong makes the rank poll for about the time of a message before it starts to yield, where the sender can
	// make progress without other ranks. Right for ranks of one host that share cores: one that gives its core away
	// while the message is being copied gets it back only after a turn of all the others.
	SpinsLong bool

	// Progress has one goroutine of this rank poll for all that wait, or Pollers of them where there are cores for
	// that many. Nil: each polls for itself.
	Progress *progress.Rank
	Pollers  int

	// Watch publishes, reports and ends a wait that has become long. Nil for none.
	Watch *waits.Wait
}

// sleepMax bounds one sleep. After each the rank looks around: whether the
// context has ended, whether the others are in the same call.
const sleepMax = 20 * time.Millisecond

// doublings is the number of times that a rank that has found nothing doubles its sleep before it looks around again.
// 128 ranks that wait on two cores for one took most of both, which that one may need.
const doublings = 3

// A rank that spinsLong polls spinPolls times, and once more for every spinBytes bytes of a chunk. A poll takes 15 to
// 25 ns, and copies of small messages 0.1 ns a byte. Broadcast of 8 KiB took 4.3 us without that and 1.7 with it on
// four ranks that share two cores, 12 and 1.9 on eight.
const (
	spinPolls = 20
	spinBytes = 64
)

// polls returns the number of polls in a row that may find nothing while the rank waits for c, before it starts to
// yield. A root makes progress alone if all that it sends fits the slots, of which some may not be released yet. If it
// has to wait until they are, ranks that spin keep it from its core: a Broadcast of 512 KiB then takes ten times as
// long.
func (w *Waiter) polls(e *Engine, c *Call) int {
	bytes := int(c.bytes())
	switch kind := c.ID.Kind; {
	case !w.SpinsLong, kind != call.Broadcast && kind != call.Scatter, int(c.ID.Root) == e.rank, c.wide,
		3*bytes > 2*e.linkBytes:
		return w.Spins
	}
	return spinPolls + min(bytes, e.slotBytes)/spinBytes
}

// wait polls until done is set or e cannot continue. It yields after spins polls that find nothing.
func (w *Waiter) wait(ctx context.Context, e *Engine, done *bool, spins int) error {
	p, idle, steps := w.Progress, 0, e.steps
	yields := w.Yields
	if w.Crowded != nil && w.Crowded() {
		yields = 0
	}
	held, alone := false, spins+min(yields, yieldsAlone)
	if w.Pollers <= 1 && p.Held() {
		alone = 0 // this goroutine has the processor that the poller needs
	}
	for idle < alone {
		if idle >= spins {
			if !held && !p.Hold() || held && p.Joined() {
				break
			}
			held = true
			e.ep.Bell().Yield()
		}
		idle++
		err := e.Poll()
		if err == nil && !*done && (e.steps != steps || idle > spins) {
			err = Aborted(e.ep)
		}
		if err != nil || *done {
			if held {
				p.Leave()
			}
			return err
		}
		if e.steps != steps {
			steps, idle = e.steps, 0
		}
	}
	t := &e.wait
	t.Waiter, t.ctx, t.e, t.done, t.spins, t.idle, t.steps = w, ctx, e, done, spins, idle, steps
	t.yields, t.asleep, t.kept = yields, Sleeper{}, false
	p.Wait(&t.seat, t, held, w.Pollers)
	err := t.err
	t.ctx, t.err, t.done = nil, nil, nil // what done is a part of may be large
	return err
}

// errAborted ends a wait whose Endpoint already carries the fault.
var errAborted = errors.New("engine: aborted")

// Aborted returns errAborted once ep has a fault. A wait looks after each step and each yield: on a busy host a few of
// them take as long as a rank may go on after a failure.
func Aborted(ep transport.Endpoint) error {
	if _, failed := ep.Aborted(); failed {
		return errAborted
	}
	return nil
}

// yieldsAlone is the number of yields that a goroutine makes in the quickest way, where no other one waits: most waits
// end before.
const yieldsAlone = 8

// wait is the wait of the goroutine that uses an Engine. It implements progress.Task.
type wait struct {
	*Waiter
	ctx    context.Context
	e      *Engine
	done   *bool
	err    error // the error that has ended the wait
	spins  int
	yields int
	idle   int    // polls in a row that found nothing, before it yields, yields or sleeps for the next one
	steps  uint64 // the steps of e when it last moved
	asleep Sleeper
	max    time.Duration // the longest sleep
	stop   func() bool   // stops the function that rings when ctx ends
	kept   bool          // whether the Send that it waits for is the engine's own
	seat   progress.Seat
}

// next counts a poll before it is made.
func (t *wait) next() progress.State {
	t.idle++
	switch {
	case t.idle <= t.spins:
		return progress.Moving
	case t.idle <= t.spins+t.yields:
		if t.asleep.Tired(t.idle-t.spins) || t.Crowded != nil && t.Crowded() {
			t.idle = t.spins + t.yields
		}
		return progress.Idle
	}
	if q := t.e.Messages; q.Waited != nil && q.Keep(q.Waited) {
		t.asleep.End(t.Watch)
		t.kept = true
		return progress.Over
	}
	if t.idle%lookEvery == 0 { // the poller does not sleep, as others wait for less long
		if t.err = t.asleep.begin(t.ctx, t.e.ep); t.err == nil {
			_, t.err = (*waiting)(t.e).Poll()
		}
		t.max = t.asleep.long()
		t.Woken()
		if t.err != nil {
			return progress.Over
		}
	}
	return progress.Tired
}

// lookEvery is the number of polls after which a goroutine that would sleep looks around.
const lookEvery = 16

// Poll polls once.
func (t *wait) Poll() progress.State {
	e := t.e
	if t.err != nil || t.kept {
		return progress.Over
	}
	if !*t.done {
		t.err = e.Poll()
	}
	moved := e.steps != t.steps || *t.done
	if t.err == nil && !*t.done && (moved || t.idle > t.spins) {
		t.err = Aborted(e.ep)
	}
	if moved && t.err == nil && t.idle > t.spins {
		t.asleep.End(t.Watch)
	}
	if t.err != nil || *t.done {
		return progress.Over
	}
	if moved {
		t.steps, t.idle = e.steps, 0
	}
	return t.next()
}

func (t *wait) Bell() transport.Bell { return t.e.ep.Bell() }

// Prepare is the beginning of Sleeper.Sleep.
func (t *wait) Prepare() (limit time.Duration) {
	limit, t.err = t.asleep.prepare(t.ctx, t.e.ep, t.Watch, (*waiting)(t.e))
	t.max = limit
	if limit > 0 && t.asleep.looks > 0 {
		t.stop = context.AfterFunc(t.ctx, t.Bell().Ring)
	}
	return limit
}

// Woken is its end.
func (t *wait) Woken() {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
	if t.err == nil && t.max > 0 {
		t.err = t.asleep.look(t.Watch, (*waiting)(t.e), t.max)
	}
}

// Sleeper is the slow end of a wait: a rank for which nothing has come for longer than it
// cares to poll. The zero value is that of a call that moves.
type Sleeper struct {
	since     time.Time // when the yielding or sleeping began; zero while the call moves
	looked    time.Time // when the rank last looked around
	looks     int       // in vain, up to doublings
	published bool
}

// Waiting is the call or message that a Sleeper waits for.
type Waiting interface {
	Poll() (moved bool, err error) // moves all that can move; the end of the wait counts as a move
	Compare() error                // compares, now and then, the calls of the ranks
	Doing() string                 // names the call
	WaitsFor() []waits.Blocker     // the missing chunks and slots, by rank
}

// Tired reports whether a rank that yields between polls should sleep, before it has yielded as often as it may: where
// others use its core one yield takes milliseconds, and the wait would not be published for seconds. Few yields read
// the clock: that takes 50 ns, and a small message few yields.
func (s *Sleeper) Tired(yields int) bool {
	const first, every = 32, 8
	if yields < first || yields%every != 0 {
		return false
	}
	now := time.Now()
	if s.since.IsZero() {
		s.since = now
	}
	return now.Sub(s.since) > sleepMax
}

// End ends the wait when the call has moved. watch may be nil.
func (s *Sleeper) End(watch *waits.Wait) {
	if !s.since.IsZero() {
		watch.Add(time.Since(s.since))
	}
	if s.published {
		watch.Clear()
	}
	*s = Sleeper{}
}

// Sleep sleeps once, until the bell of ep rings or it is time to look around, which it then does. The error is that of
// ctx, that of w, errAborted, or a *waits.Stalled.
func (s *Sleeper) Sleep(ctx context.Context, ep transport.Endpoint, watch *waits.Wait, w Waiting) error {
	limit, err := s.prepare(ctx, ep, watch, w)
	if limit == 0 {
		return err
	}
	if s.looks > 0 {
		defer context.AfterFunc(ctx, ep.Bell().Ring)()
	}
	ep.Bell().Sleep(limit)
	return s.look(watch, w, limit)
}

// begin checks that the wait may continue.
func (s *Sleeper) begin(ctx context.Context, ep transport.Endpoint) error {
	if err := cmp.Or(Aborted(ep), ctx.Err()); err != nil {
		return err
	}
	if s.looked.IsZero() { // since may be set by Tired
		s.looked = time.Now()
	}
	if s.since.IsZero() {
		s.since = s.looked
	}
	return nil
}

// prepare prepares the bell of ep, and returns how long the sleep may be; 0: there is something to do, or an error.
func (s *Sleeper) prepare(ctx context.Context, ep transport.Endpoint, watch *waits.Wait,
	w Waiting) (time.Duration, error) {
	if err := s.begin(ctx, ep); err != nil {
		return 0, err
	}
	ep.Bell().Prepare()
	moved, err := w.Poll()
	err = cmp.Or(err, Aborted(ep))
	if err == nil && !moved {
		limit := s.long()
		if end, is := ctx.Deadline(); is {
			limit = min(limit, time.Until(end))
		}
		if limit > 0 {
			return limit, nil
		}
	}
	ep.Bell().Cancel()
	if moved {
		s.End(watch)
	}
	return 0, err
}

// long is the time between two looks around.
func (s *Sleeper) long() time.Duration { return sleepMax << s.looks }

// look looks around, when long has passed since it last did: it compares calls, and publishes the wait.
func (s *Sleeper) look(watch *waits.Wait, w Waiting, long time.Duration) error {
	if s.looked.IsZero() || time.Since(s.looked) < long {
		return nil
	}
	s.looked, s.looks = time.Now(), min(s.looks+1, doublings)
	if err := w.Compare(); err != nil {
		return err
	}
	s.published = true
	if stalled := watch.Publish(w.Doing(), s.since, w.WaitsFor()); stalled != nil {
		return stalled
	}
	return nil
}

// waiting is the Waiting of an Engine, for its calls and messages.
type waiting Engine

func (w *waiting) Poll() (moved bool, err error) {
	e := (*Engine)(w)
	steps := e.steps
	if err = e.Poll(); e.Idle() || e.steps != steps || err != nil {
		return true, err
	}
	took, err := e.Messages.TakeIn()
	if took {
		e.ep.Bell().Ring() // there may be more
	}
	return false, err
}

func (w *waiting) Compare() error {
	if w.first == nil {
		return nil
	}
	return w.Calls.Compare(w.first.ID)
}

func (w *waiting) Doing() string             { return (*Engine)(w).doing() }
func (w *waiting) WaitsFor() []waits.Blocker { return (*Engine)(w).blockers() }

// waitFault is the fault of a rank whose wait has ended with err, a context's error or a *waits.Stalled: the rank at
// fault is the one that all wait for in the end. blockers has the ranks that this rank waits for; nil: not known.
func (w *Waiter) waitFault(err error, self int, doing string, blockers []waits.Blocker) transport.Fault {
	var stalled *waits.Stalled
	if errors.As(err, &stalled) {
		return transport.Fault{Kind: transport.FaultStalled, Rank: w.Watch.Scope.Index(stalled.Rank), Text: stalled.Error()}
	}
	f := transport.Faultf(transport.FaultOf(err), self, "rank %d gave up in %s: %v", self, w.Watch.Place(doing), err)
	if !errors.Is(err, context.DeadlineExceeded) || w.Watch == nil {
		f.Text += "; it waited for " + waits.List(blockers)
		return f
	}
	w.Watch.Renew(doing, sleepMax, blockers)
	cause := w.Watch.Why(context.Background())
	f.Rank, f.Text = w.Watch.Scope.Index(cause.Rank), f.Text+"; it waited: "+cause.Text
	return f
}
