// Package waits says why ranks of a job wait for each other: what each of them waits in,
// for whom, and which rank, or which circle of ranks, it is that nobody gets on. It is for
// treerun's own packages: rank, collective and its executors publish their waits here, and
// all reports, time limits and errors of waits come from here.
//
// A wait is published when it has become long, so that calls cost nothing for it. Nothing
// is sent until somebody wants to know: then the ranks that are waited for are asked, one
// after the other, as far as it goes.
package waits

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/progress"
)

// Job is a rank's view of the waits of a job. The fields are set before it is used, and
// the methods may be called concurrently.
type Job struct {
	Rank, Size int
	Every      time.Duration     // between two reports of one wait; 0: no reports
	Limit      time.Duration     // the stall timeout; 0: none
	Log        func(text string) // where reports go; nil: to Report, or standard error

	// Ask asks a rank for its Status, with the state of the process of rank about where
	// that is on its host. Nil: nobody can be asked.
	Ask func(ctx context.Context, rank, about int) (Status, error)

	// State returns the process of a rank, and its state where it is on this host. Nil:
	// nothing is known.
	State func(rank int) (pid int, s job.ProcState)

	// Report tells the launcher of a wait that goes on, and that it did. Nil, or false: this
	// rank prints that.
	Report func(job.Wait) bool

	// Harmed tells the launcher that a call of this rank has failed because another rank has ended.
	// Nil: nobody wants to know.
	Harmed func()

	// Failed reports a failure of a communicator that no call but Close has returned. Nil: Close alone returns it.
	Failed func(error)

	// HostOf returns the host of a rank. Nil: all are on one.
	HostOf func(rank int) int

	Progress progress.Rank // the goroutines of this rank that wait for links

	mu    sync.Mutex
	waits []*Wait
	comms int // so far
}

// Comms counts the communicators of this rank's World, this one included: it numbers them
// alike on all ranks, which make them in the same order.
func (j *Job) Comms() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.comms++
	return j.comms
}

// Lack is a rank that a wait is for.
type Lack struct {
	Rank int    // -1: nobody knows which
	What string // that it has to do, and what is known of it
	Any  bool   // another of the lacks will do as well: this holds for all of a wait, or for none
}

// String says it for people.
func (l Lack) String() string {
	if l.Rank < 0 {
		return l.What
	}
	return fmt.Sprintf("rank %d %s", l.Rank, l.What)
}

// Tell lists lacks for people.
func Tell(lacks []Lack) string { return numbers.Join(lacks, "; ") }

// Wait is where one communicator, or the World, publishes what its rank waits in: one wait
// at a time. A nil *Wait publishes nothing.
type Wait struct {
	job   *Job
	comm  string
	ranks []int // of the communicator, in the job's numbers; nil: the same
	busy  atomic.Pointer[func() bool]
	leave func() error // of the communicator; nil: of none. The job's mutex guards it
	total atomic.Int64 // nanoseconds, of waits that are over

	// Of the job, unless they are set while nothing is published: how often a wait is reported, after how long it is
	// given up, 0 being not at all, and where reports go, nil being to the job's Report, or standard error.
	Every, Limit time.Duration
	Log          func(text string)

	mu       sync.Mutex
	now      publication
	stalled  *Stalled  // the latest
	number   uint64    // of publications, those that are over included
	gaveUp   time.Time // when this rank gave up what is published; zero: it has not
	reported time.Duration
	told     bool          // the launcher has been told, and not that it is over
	asleep   time.Duration // in which this rank did nothing itself
	due      time.Time
	timer    *time.Timer
	ended    func(error) // of Bound
}

// publication is what a rank waits in.
type publication struct {
	in    string
	lacks []Lack // in the communicator's numbers; none: nobody knows for whom
	since time.Time
}

// NewWait returns a place for the waits of a communicator, "" for those of the World.
// ranks holds its ranks by the job's numbers, nil where these are the same.
func (j *Job) NewWait(comm string, ranks []int) *Wait {
	w := &Wait{job: j, comm: comm, ranks: ranks, Every: j.Every, Limit: j.Limit, Log: j.Log}
	j.mu.Lock()
	j.waits = append(j.waits, w)
	j.mu.Unlock()
	return w
}

// Another returns a place for other waits of the same communicator.
func (w *Wait) Another() *Wait {
	o := w.job.NewWait(w.comm, w.ranks)
	o.Every, o.Limit, o.Log = w.Every, w.Limit, w.Log
	return o
}

// AtLeast makes the stall timeout, where there is one, no less than d until restore is called:
// what this rank does meanwhile takes longer by itself. It is called with nothing published.
func (w *Wait) AtLeast(d time.Duration) (restore func()) {
	before := w.Limit
	if before > 0 {
		w.Limit = max(before, d)
	}
	return func() { w.Limit = before }
}

// SetBusy has busy say whether a call is under way on this rank, besides those that are
// published. Any goroutine may call it.
func (w *Wait) SetBusy(busy func() bool) { w.busy.Store(&busy) }

// Close ends the use of w.
func (w *Wait) Close() {
	w.mu.Lock()
	gaveUp := w.gaveUp
	w.mu.Unlock()
	w.busy.Store(nil)
	if left := giveUpShown - time.Since(gaveUp); left > 0 && !gaveUp.IsZero() {
		time.AfterFunc(left, w.remove)
		return
	}
	w.Clear()
	w.remove()
}

func (w *Wait) remove() {
	w.job.mu.Lock()
	defer w.job.mu.Unlock()
	w.job.waits = slices.DeleteFunc(w.job.waits, func(o *Wait) bool { return o == w })
}

// Publish says that this rank waits, since when, in what and for whom. It may be called
// again while the wait lasts, and keeps lacks. It returns the end of this wait, if it has
// reached the stall timeout.
func (w *Wait) Publish(in string, since time.Time, lacks []Lack) *Stalled {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := w.now.since != since || !w.gaveUp.IsZero()
	w.now, w.gaveUp = publication{in, lacks, since}, time.Time{}
	if fresh {
		w.begin()
	}
	if w.stalled == nil || w.stalled.number != w.number {
		return nil
	}
	return w.stalled
}

// Renew is Publish of the latest that is known of a wait that is published already, or else
// has lasted for about so long.
func (w *Wait) Renew(in string, waited time.Duration, lacks []Lack) {
	w.mu.Lock()
	since := time.Now().Add(-waited)
	if w.now.in != "" && w.gaveUp.IsZero() {
		since = w.now.since
	}
	w.mu.Unlock()
	w.Publish(in, since, lacks)
}

// begin starts the clock of a publication. The caller holds mu.
func (w *Wait) begin() {
	w.number++
	w.reported, w.asleep = 0, 0
	w.stop()
	w.arm(w.number)
}

// tellEnd tells the launcher that a wait that it knows of is over. The caller holds mu; nobody who gets on waits for
// whoever reads this.
func (w *Wait) tellEnd() {
	if w.told {
		w.told = false
		go w.job.Report(job.Wait{})
	}
}

// stop ends the clock of a publication. The caller holds mu.
func (w *Wait) stop() {
	w.tellEnd()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// Add adds a wait that is over, whether it was published or not, to the Total.
func (w *Wait) Add(d time.Duration) {
	if w != nil {
		w.total.Add(int64(d))
	}
}

// Total returns what Add has added up.
func (w *Wait) Total() time.Duration {
	if w == nil {
		return 0
	}
	return time.Duration(w.total.Load())
}

// Clear says that the wait is over.
func (w *Wait) Clear() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now, w.gaveUp = publication{}, time.Time{}
	w.number++
	w.stop()
}

// giveUpShown is how long a wait that was given up is told of: others, whose time is up a
// little later, are to find the same circle.
const giveUpShown = 2 * time.Second

// GiveUp says that this rank waits no longer, though what it waited for has not come.
func (w *Wait) GiveUp() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gaveUp = time.Now()
	w.stop()
}

// Pause takes back what is published until resume is called: something within it is
// published elsewhere. Then it begins anew.
func (w *Wait) Pause() (resume func()) {
	if w == nil {
		return func() {}
	}
	w.mu.Lock()
	before := w.now
	w.mu.Unlock()
	w.Clear()
	return func() {
		if before.in != "" {
			w.Publish(before.in, time.Now(), before.lacks)
		}
	}
}

// Enter is Publish of a wait within the one that is published, which goes on when leave
// is called.
func (w *Wait) Enter(in string, lacks ...Lack) (leave func()) {
	resume := w.Pause()
	w.Publish(in, time.Now(), lacks)
	return func() {
		w.Clear()
		resume()
	}
}

// Progress returns that of the job.
func (w *Wait) Progress() *progress.Rank { return &w.job.Progress }

// Doing returns what is published, "" for nothing.
func (w *Wait) Doing() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.in
}

// maxTick bounds how long the clock of a wait sleeps.
const maxTick = time.Second

// arm sets the clock of a wait, if anything is to happen. It ticks more often than that:
// one that is late tells that this rank itself was stopped, or had no core. The caller
// holds mu.
func (w *Wait) arm(number uint64) {
	if w.Every <= 0 && w.Limit <= 0 {
		return
	}
	tick := w.tick()
	w.due = time.Now().Add(tick)
	w.timer = time.AfterFunc(tick, func() { w.check(number) })
}

func (w *Wait) tick() time.Duration {
	tick := maxTick
	for _, d := range []time.Duration{w.Every, w.Limit} {
		if d > 0 {
			tick = min(tick, d/8)
		}
	}
	return max(tick, time.Millisecond)
}

// check reports a wait, or ends it, when it is time.
func (w *Wait) check(number uint64) {
	w.mu.Lock()
	if w.number != number || !w.gaveUp.IsZero() {
		w.mu.Unlock()
		return
	}
	if late := time.Since(w.due); late > w.tick() {
		w.asleep += late // time in which this rank did nothing is not the others'
	}
	waited := time.Since(w.now.since) - w.asleep
	over := w.Limit > 0 && waited >= w.Limit
	if !over && (w.Every <= 0 || waited-w.reported < w.Every) {
		w.arm(number)
		w.mu.Unlock()
		return
	}
	now := w.now
	w.mu.Unlock()
	cause := w.Why(context.Background())

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.number != number {
		return // it has got on meanwhile
	}
	in := w.Place(now.in)
	if over {
		w.stalled = &Stalled{cause, waited, in, w.job.Rank, number}
		if w.ended != nil {
			w.ended(w.stalled)
		}
		return
	}
	w.reported = waited
	w.mu.Unlock() // nobody who gets on waits for whoever reads this
	text := fmt.Sprintf("treerun: rank %d has waited %v in %s: %s", w.job.Rank, waited.Round(10*time.Millisecond),
		in, cause.Text)
	told := false
	if w.Log != nil {
		w.Log(text)
	} else if told = w.job.Report != nil && w.job.Report(job.Wait{For: waited, In: in, Last: cause.Last, Is: cause.Is,
		Text: cause.Text}); !told {
		fmt.Fprintln(os.Stderr, text)
	}
	w.mu.Lock()
	w.told = told
	if w.number == number && w.gaveUp.IsZero() {
		w.arm(number)
	} else {
		w.tellEnd()
	}
}

// Place says what a wait is in, and of which communicator.
func (w *Wait) Place(in string) string {
	if w == nil {
		return in
	}
	return place(in, w.comm)
}

// Harmed notes that a call has failed because another rank has ended.
func (w *Wait) Harmed() {
	if w != nil && w.job.Harmed != nil {
		w.job.Harmed()
	}
}

// inJob returns the job's number of a rank of the communicator.
func (w *Wait) inJob(r int) int {
	if w.ranks == nil || r < 0 || r >= len(w.ranks) {
		return r
	}
	return w.ranks[r]
}

// InComm returns the communicator's number of a rank of the job, -1 where it is not in it.
func (w *Wait) InComm(r int) int {
	if w.ranks == nil {
		return r
	}
	return slices.Index(w.ranks, r)
}
