// Package waits determines why ranks of a job wait for each other: in which call each rank waits, for which ranks, and
// which rank, or which circle of ranks, prevents progress. It is for treerun's own packages: rank, collective and its
// executors publish their waits here, and all reports, time limits and errors of waits come from here.
//
// A wait is published once it has become long, so that short calls cost nothing. No message is sent until a cause is
// requested: then the ranks that are waited for are queried, then the ranks that these wait for, up to the end of the
// chain.
package waits

import (
	"cmp"
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
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/internal/status"
)

// Job is a rank's view of the waits of a job. The fields are set before the Job is used. The methods may be called
// concurrently.
type Job struct {
	Rank, Size int
	Origins    []int             // by rank: the number that it has in all epochs; nil: no other epoch may follow
	Every      time.Duration     // interval between two reports of one wait; 0 disables reports
	Limit      time.Duration     // the stall timeout; 0 disables it
	Log        func(text string) // receives the reports; if nil, they go to Report or to standard error

	// Query requests the Status of a rank, including the state of the process of rank about if that process runs on the
	// queried rank's host. If Ask is nil, no rank can be queried.
	Query func(ctx context.Context, rank, about int) (Status, error)

	// State returns the process ID of a rank, and its state if it runs on this host. If State is nil, neither is known.
	State func(rank int) (pid int, s job.ProcState)

	// Report reports a long wait, and later its end, to the launcher. If Report is nil or returns false, this rank prints
	// the report itself.
	Report func(job.Wait) bool

	// PeerLost reports to the launcher that a call of this rank has failed because another rank has ended. If PeerLost is
	// nil, the failure is not reported.
	PeerLost func()

	// Failed reports a failure of a scope that no call but Close has returned. If Failed is nil, only Close reports it.
	Failed func(error)

	// News counts the news of lost ranks that the launcher has published in memory, and HandleNews handles those that are
	// new. If News is nil, the launcher publishes none there.
	News       *uint32
	HandleNews func()

	// HostOf returns the host of a rank. If HostOf is nil, all ranks are on one host.
	HostOf func(rank int) int

	// Page shows the waits, and the calls of communicators, to the process that has started this one. If Page is nil,
	// there is no such process.
	Page *status.Page

	// Record records the waits and the calls of communicators. If Record is nil, nothing is recorded.
	Record *record.Writer

	// Watched reports whether that process reports waits that it finds in Page: this rank reports none then, unless a Log
	// is set.
	Watched bool

	Progress progress.Rank // the goroutines of this rank that wait for links

	showing sync.Mutex // held while Page is changed

	mu     sync.Mutex
	waits  []*Wait
	scopes int // number of scopes so far
}

// NewScope returns the number of a new scope of all ranks, from 1. All ranks create scopes in the same order, so the
// number identifies the same scope on every rank.
func (j *Job) NewScope() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.scopes++
	return j.scopes
}

// Blocker describes a rank that a wait is for.
type Blocker struct {
	Rank int    // -1 if the rank is not known
	What string // the action that is missing, and known facts about it
	Any  bool   // any one of the blockers is enough; the same for all blockers of a wait
}

// String returns a description of l for messages.
func (l Blocker) String() string {
	if l.Rank < 0 {
		return l.What
	}
	return fmt.Sprintf("rank %d %s", l.Rank, l.What)
}

// List returns a list of blockers for messages.
func List(blockers []Blocker) string { return numbers.Join(blockers, "; ") }

// Wait is the place where the waits of a rank in one scope are published, one at a time. A nil *Wait publishes nothing.
type Wait struct {
	Scope Scope
	job   *Job
	busy  atomic.Pointer[func() bool]
	leave func() error // ends the use of the scope, nil if there is none; guarded by the job's mutex
	total atomic.Int64 // nanoseconds of completed waits

	// Every is the interval between two reports of a wait, Limit the time after which it is given up; 0 disables either.
	// Log receives the reports; if nil, they go to the job's Report or to standard error. All three come from the job
	// unless they are set while no wait is published.
	Every, Limit time.Duration
	Log          func(text string)

	LimitBy string // the setting that Limit is of; empty: --stall-timeout

	least     time.Duration // set by AtLeast
	mu        sync.Mutex
	now       publication
	recorded  []recorded           // of now
	foretell  func() time.Duration // see SetPredict
	predicted publication          // the call and the time that foretell has returned last
	stalled   *Stalled             // the latest
	number    uint64               // of publications, including those that are over
	gaveUp    time.Time            // time at which this rank gave up the published wait; zero if it has not
	reported  time.Duration
	known     bool // the launcher knows of this wait, and not of its end
	clock     clock
	ended     func(error) // set by Bound
}

// publication describes a published wait of a rank.
type publication struct {
	in       string
	blockers []Blocker // in the scope's numbers; empty if the ranks are not known
	since    time.Time
	usual    time.Duration // predicted time of the call, 0 if it is not known
}

// NewWait returns a Wait for a scope, by its name, "" for the World. ranks maps its ranks to those of the job, nil if
// the numbers are the same.
func (j *Job) NewWait(scope string, ranks []int) *Wait {
	w := &Wait{Scope: Scope{scope, ranks}, job: j, Every: j.Every, Limit: j.Limit, Log: j.Log}
	j.mu.Lock()
	j.waits = append(j.waits, w)
	j.mu.Unlock()
	return w
}

// Another returns a further Wait for the same scope.
func (w *Wait) Another() *Wait {
	o := w.job.NewWait(w.Scope.Name, w.Scope.ranks)
	o.Every, o.Limit, o.Log = w.Every, w.Limit, w.Log
	return o
}

// AtLeast raises the stall timeout, if there is one, to at least d until restore is called, for an operation that is
// slow by itself. It must be called while no wait is published.
func (w *Wait) AtLeast(d time.Duration) (restore func()) {
	before := w.Limit
	if w.least = d; before > 0 {
		w.Limit = max(before, d)
	}
	return func() { w.Limit, w.least = before, 0 }
}

// SetBusy sets the function that reports whether this rank is in a call in addition to the published waits. Any
// goroutine may call SetBusy.
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

// Publish publishes a wait of this rank: the call, the time at which the wait began, and the ranks it is for. It may be
// called again while the wait lasts, and retains blockers. It returns the Stalled of this wait if the wait has reached
// the stall timeout.
func (w *Wait) Publish(in string, since time.Time, blockers []Blocker) *Stalled {
	if w == nil {
		return nil
	}
	defer w.job.show()
	usual := predict(w, in)
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := w.now.since != since || !w.gaveUp.IsZero()
	if fresh && w.gaveUp.IsZero() {
		recordEnd(w, 0)
	}
	w.now, w.gaveUp = publication{in, blockers, since, usual}, time.Time{}
	if fresh {
		w.begin()
	}
	recordOpen(w)
	if w.stalled == nil || w.stalled.number != w.number {
		return nil
	}
	return w.stalled
}

// Renew calls Publish with the latest facts about a wait that is already published, or that has lasted for about the
// duration waited.
func (w *Wait) Renew(in string, waited time.Duration, blockers []Blocker) {
	w.mu.Lock()
	since := time.Now().Add(-waited)
	if w.now.in != "" && w.gaveUp.IsZero() {
		since = w.now.since
	}
	w.mu.Unlock()
	w.Publish(in, since, blockers)
}

// every returns the interval between two reports of a wait, 0 for none.
func every(w *Wait) time.Duration {
	if w.job.Watched && w.Log == nil {
		return 0
	}
	return w.Every
}

// begin starts the clock of a publication. The caller holds mu.
func (w *Wait) begin() {
	w.reportEnd()
	w.number++
	w.reported = 0
	number := w.number
	w.clock.start(every(w), w.Limit, func() { w.check(number) })
}

// reportEnd reports the end of a wait to the launcher if the launcher knows of the wait. The caller holds mu. The
// report is sent in the background, so that a rank that makes progress does not wait for the reader.
func (w *Wait) reportEnd() {
	if w.known {
		w.known = false
		go w.job.Report(job.Wait{})
	}
}

// Add adds the duration of a completed wait to the Total, whether the wait was published or not.
func (w *Wait) Add(d time.Duration) {
	if w != nil {
		w.total.Add(int64(d))
	}
}

// Total returns the sum of the durations that were passed to Add.
func (w *Wait) Total() time.Duration {
	if w == nil {
		return 0
	}
	return time.Duration(w.total.Load())
}

// Clear marks the published wait as over.
func (w *Wait) Clear() {
	if w == nil {
		return
	}
	defer w.job.show()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gaveUp.IsZero() {
		recordEnd(w, 0)
	}
	w.now, w.gaveUp = publication{}, time.Time{}
	w.number++
	w.reportEnd()
	w.clock.stop()
}

// giveUpShown is the time for which a wait that was given up stays in Status: ranks whose time limit ends a little
// later must find the same circle.
const giveUpShown = 2 * time.Second

// GiveUp records that this rank no longer waits, although the wait was not satisfied.
func (w *Wait) GiveUp() {
	if w == nil {
		return
	}
	defer w.job.show()
	w.mu.Lock()
	defer w.mu.Unlock()
	recordEnd(w, record.Failed)
	w.gaveUp = time.Now()
	w.reportEnd()
	w.clock.stop()
}

// Pause withdraws the published wait until resume is called, while a wait within it is published elsewhere. The wait
// then starts again from zero.
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
			w.Publish(before.in, time.Now(), before.blockers)
		}
	}
}

// Enter publishes a wait within the published one. The outer wait resumes when leave is called.
func (w *Wait) Enter(in string, blockers ...Blocker) (leave func()) {
	resume := w.Pause()
	w.Publish(in, time.Now(), blockers)
	return func() {
		w.Clear()
		resume()
	}
}

// Progress returns the Progress of the job.
func (w *Wait) Progress() *progress.Rank { return &w.job.Progress }

// Page returns the Page of the job.
func (w *Wait) Page() *status.Page { return w.job.Page }

// Record returns the Record of the job.
func (w *Wait) Record() *record.Writer { return w.job.Record }

// Doing returns the call that is published, "" if there is none.
func (w *Wait) Doing() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.in
}

// check reports a wait, or ends it, when its time has come.
func (w *Wait) check(number uint64) {
	w.mu.Lock()
	if w.number != number || !w.gaveUp.IsZero() {
		w.mu.Unlock()
		return
	}
	waited := w.clock.since(w.now.since)
	over := w.Limit > 0 && waited >= w.Limit
	if every := every(w); !over && (every <= 0 || waited-w.reported < every) {
		w.clock.arm()
		w.mu.Unlock()
		return
	}
	now, least := w.now, w.least
	w.mu.Unlock()
	cause := w.Why(context.Background())

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.number != number {
		return // it has made progress in the meantime
	}
	in := w.Place(now.in)
	if over {
		w.stalled = &Stalled{cause, waited, in, w.job.Rank, number, cmp.Or(w.LimitBy, "--stall-timeout")}
		if w.ended != nil {
			w.ended(w.stalled)
		}
		return
	}
	w.reported = waited
	w.mu.Unlock() // a rank that makes progress does not wait for the reader
	text := fmt.Sprintf("treerun: rank %d has waited %v in %s: %s", w.job.Rank, waited.Round(10*time.Millisecond),
		in, cause.Text)
	known := false
	if w.Log != nil {
		w.Log(text)
	} else if known = w.job.Report != nil && w.job.Report(job.Wait{For: waited, In: in, Last: cause.Last, Is: cause.Is,
		Text: cause.Text, Least: least}); !known {
		fmt.Fprintln(os.Stderr, text)
	}
	w.mu.Lock()
	w.known = known
	if w.number == number && w.gaveUp.IsZero() {
		w.clock.arm()
	} else {
		w.reportEnd()
	}
}

// Place returns in, followed by the name of the scope if it has one.
func (w *Wait) Place(in string) string {
	if w == nil {
		return in
	}
	return place(in, w.Scope.Name)
}

// PeerLost reports that a call has failed because another rank has ended.
func (w *Wait) PeerLost() {
	if w != nil && w.job.PeerLost != nil {
		w.job.PeerLost()
	}
}
