//go:build linux

package launch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/membership"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

// rankState is the supervisor's state of one process of a rank.
type rankState struct {
	End       // its known part
	host      *hostState
	blob      []byte                       // of its latest Renew
	epoch     int                          // the latest that it is a member of
	renewable bool                         // it takes part in epochs
	joining   bool                         // it is a member of none yet
	added     bool                         // no epoch waits for it
	counted   bool                         // it has failed, and the membership knows that
	past      bool                         // it was lost in an epoch that other ranks have outlived
	streams   [wire.Streams]*output.Stream // the same one twice where stderr is stdout
	opened    [wire.Streams]bool           // its output has begun to arrive, or none will
	silent    bool                         // its stderr has ended

	unreported    unreported
	failedByPeer  bool // a call of it has failed because another rank has ended
	running       bool // it was started
	controlClosed bool // no more messages will come from it
	ended         bool
}

// merged reports whether the stderr of the rank is its stdout.
func (r *rankState) merged() bool { return r.streams[wire.Stdout] == r.streams[wire.Stderr] }

// unaware reports whether the failure of another rank may not have reached the rank yet.
func (r *rankState) unaware() bool {
	return r.running && !r.ended && r.Joined && !r.Closed && !r.failedByPeer
}

// hostState is the supervisor's state of one host.
type hostState struct {
	JobHost
	index int
	node  int         // index of the host as which it has begun
	ready *wire.Ready // empty until its agent is there
	port  int         // a free TCP port, for MASTER_PORT
	began int         // number of ranks at the start
	place int         // its number in the job file: that of the host whose place it has taken
	spare *hostState  // that has taken the place of this one, nil if there is none
	phase phase
	lost  bool

	of     *hostState // the lost host that this one is, once it has come back
	away   bool       // it has not yet
	trying bool       // an agent is being started there

	late    bool         // it had no rank until treerun resize has added some
	waiting []*rankState // that start when it is there
}

// phase is the progress of a host. It may skip some phases.
type phase int

const (
	coming  phase = iota
	ready         // its agent is there
	started       // no more ranks will be started
	done          // all its ranks have ended, or it is lost
)

// allReached reports whether all hosts have reached a phase.
func (s *supervisor) allReached(least phase) bool {
	return !slices.ContainsFunc(s.hosts, func(h *hostState) bool { return h.phase < least })
}

// onHostDone notes that a host is done. Only ranks that run have streams, and a host that is lost opens no new ones.
func (s *supervisor) onHostDone(h *hostState) {
	h.phase = done
	for _, r := range slices.Concat(s.ranks, s.before) {
		if r.host == h && (h.lost || !r.running) {
			s.discard(r)
		}
	}
}

// discard ends the streams of a process of which none has been opened, or none will be.
func (s *supervisor) discard(r *rankState) {
	for i, stream := range r.streams {
		if !r.opened[i] {
			r.opened[i] = true
			go stream.Discard() // which may post an error
			s.printing--
		}
	}
}

// receive handles a report of a host. src, unless it is nil, is a stream that begins with the report.
func (s *supervisor) receive(h *hostState, body wire.Body, src output.Source) {
	if src != nil {
		s.onStream(h, body, src)
		return
	}
	if h.away {
		s.receiveAway(h, body)
		return
	}
	if l, ok := body.(*wire.Lost); ok {
		s.loseHosts(l)
		return
	}
	if h.lost {
		return
	}
	switch b := body.(type) {
	case *wire.Ready:
		s.onReady(h, b)
	case *wire.Result:
		s.onResult(h, b.Code, b.Text)
	case *wire.Started:
		s.onStarted(h, b)
	case *wire.Unstarted:
		if r := s.rankOf(h, b.Rank, b.Attempt); r != nil && !r.running && !r.ended {
			s.onUnstarted(r, b)
		}
	case *wire.RanksExited:
		if b.Port > 0 {
			h.port = b.Port
		}
		if b.Stuck {
			s.job.Screen.Err.Printf("treerun: some processes%s could not be killed: they hang in the kernel",
				s.onHost(h))
		}
		s.onHostDone(h)
	case *wire.Signal:
		s.job.Trace("%s: treerun there got %s", h.Name, job.SignalName(b.Number))
		if s.cause.kind == noCause {
			s.signaled = s.onHost(h)
		}
		s.handle(b.Number)
	case *wire.Seen:
		s.onSeen(h, b)
	case *wire.Fetched:
		s.recordings.receive(h, b)
	case *wire.Suspect:
		s.onSuspect(h, b)
	case *wire.Note:
		if b.Verbose {
			s.job.Trace("%s: %s", h.Name, b.Text)
			return
		}
		s.job.Screen.Err.Printf("treerun:%s %s", strings.TrimPrefix(s.onHost(h)+":", ":"), b.Text)
	case *wire.Ended:
		s.order++
		for _, e := range b.Ends {
			if r := s.rankOf(h, e.Rank, e.Attempt); r != nil && !r.ended {
				s.onEnded(r, e)
			}
		}
	case *wire.RankMessage:
		switch r := s.rankOf(h, b.Rank, b.Attempt); {
		case r == nil:
		case b.Message == nil:
			s.onControlClosed(r)
		default:
			s.onMessage(r, b.Message)
		}
	}
}

// onStream shows the output of a rank.
func (s *supervisor) onStream(h *hostState, body wire.Body, src output.Source) {
	b, ok := body.(*wire.Stream)
	if ok && b.Number < wire.Streams {
		if r := s.rankOf(h, b.Rank, b.Attempt); r != nil && !r.opened[b.Number] {
			r.opened[b.Number] = true
			go func() {
				r.streams[b.Number].Run(src)
				s.post(func() {
					s.printing--
					if b.Number == wire.Stderr || r.merged() {
						r.silent = true
						s.printNotices(false)
					}
				})
			}()
			return
		}
	}
	_ = src.Close()
}

// rankOf returns a process of a rank of a host, nil for one that it does not have.
func (s *supervisor) rankOf(h *hostState, rank, attempt int) *rankState {
	if rank >= len(s.ranks) || s.ranks[rank].host != h {
		return nil
	}
	if r := s.ranks[rank]; r.Attempt == attempt {
		return r
	}
	i := slices.IndexFunc(s.before, func(r *rankState) bool { return r.Rank == rank && r.Attempt == attempt })
	if i < 0 {
		return nil
	}
	return s.before[i]
}

// onHost returns " on host NAME" where there are several hosts.
func (s *supervisor) onHost(h *hostState) string {
	if len(s.hosts) == 1 {
		return ""
	}
	return " on host " + h.Name
}

// onResult abandons the job because treerun could not do its part on a host.
func (s *supervisor) onResult(h *hostState, code int, text string) {
	if len(s.hosts) > 1 || !h.Local {
		text = fmt.Sprintf("host %s: %s", h.Name, text)
	}
	s.abandon(cmdline.Errorf(code, "%s", text))
}

func (s *supervisor) onReady(h *hostState, b *wire.Ready) {
	if h.phase < ready {
		h.phase, h.ready, h.port = ready, b, b.Port
		s.job.Trace("host %s is ready: hostname %s, %s, agent pid %d", h.Name, b.Host,
			numbers.Count(b.Cores, "core"), b.PID)
	}
}

func (s *supervisor) onStarted(h *hostState, b *wire.Started) {
	back := h.of != nil && h.phase < started
	if h.phase < started {
		s.recordings.compareClocks(h)
	}
	h.phase = max(h.phase, started)
	for i, rank := range b.Ranks {
		if rank < len(s.ranks) && s.ranks[rank].host == h && !s.ranks[rank].running {
			s.ranks[rank].PID = b.PIDs[i]
			s.noteStart(s.ranks[rank])
		}
	}
	if back {
		s.onBack(h)
	}
	s.startWaiting(h)
	if s.startingAtTimeout {
		s.runningAtTimeout = s.stragglers() // now that the running ranks are known
	}
}

// onMessage acts on a message of a rank.
func (s *supervisor) onMessage(r *rankState, msg *job.Message) {
	switch {
	case r != s.ranks[r.Rank]: // it has a successor, which the message is not about
	case msg.Kind == job.Seed && r.Rank == 0 && !s.seeded:
		s.seeded = true
		s.job.Trace("rank 0 listens on %v", msg.Addrs)
		s.broadcast(&wire.RankMessage{Message: &job.Message{Kind: job.SeedIs, Addrs: msg.Addrs}})
	case msg.Kind == job.Joined:
		s.members.Joined(r.Rank)
		s.onJoined(r)
	case msg.Kind == job.Closing:
		r.Closed = true
		s.act(s.members.Closed(r.Rank))
	case msg.Kind == job.Renewable:
		r.renewable = true
		s.members.Renewable(r.Rank)
		s.countExited()
	case msg.Kind == job.Renew:
		r.blob = msg.Blob
		s.act(s.members.Renewed(r.Rank))
	case msg.Kind == job.Exited:
		r.failedByPeer, s.lastPeerFailure = true, time.Now()
	case msg.Kind == job.Failed && r.Failure == "":
		r.Failure, r.Reported = msg.Text, s.order
	case msg.Kind == job.Dying:
		s.onDying(r)
	case msg.Kind == job.Waits:
		s.onWait(r, msg.Wait)
	}
}

func (s *supervisor) onControlClosed(r *rankState) {
	if !r.controlClosed {
		r.controlClosed = true
		if r.ended {
			s.broadcastExit(r)
		} else if s.renews() && !r.Closed {
			s.afterInAttempt(withdrawGrace, func() { s.onWithdrawn(r) })
		}
	}
}

// onDying notifies the other ranks of the loss of a rank, before it is known how it has ended. Their failures after
// that are its consequences.
func (s *supervisor) onDying(r *rankState) {
	if r.ended || r.Closed || s.stopped {
		return
	}
	const text = "has ended, and the kernel is still freeing its memory"
	s.order++
	r.Order, r.After = s.order, time.Since(s.start)
	s.job.Trace("rank %d (pid %d) %s", r.Rank, r.PID, text)
	s.broadcast(&wire.RankMessage{Message: &job.Message{Kind: job.Exited, Rank: r.Rank, PID: r.PID, Lost: true,
		Epoch: r.epoch, Text: text + s.onHost(r.host)}})
	if s.renews() {
		s.onLost(r, text)
	}
}

// onEnded records the end of a rank.
func (s *supervisor) onEnded(r *rankState, e wire.End) {
	r.ended, r.End.End = true, e
	if r.Order == 0 { // else it was dying
		r.Order, r.After = s.order, time.Since(s.start)
	}
	s.running--
	s.job.Trace("rank %d (pid %d) %s", r.Rank, r.PID, r.outcome())
	s.recordings.onEnded(r)
	if s.job.Lives.Policy == membership.Stop {
		s.endOnFailure(r)
	}
	if r.controlClosed {
		s.broadcastExit(r)
	}
}

// endOnFailure acts on the failure of a rank that has ended.
func (s *supervisor) endOnFailure(r *rankState) {
	if s.renews() && r.left() && (r.ReadJobFile || s.members.TakesPart()) {
		r.ExitedUnclosed = true // a rank that renews closes its world
	}
	if r.failed() && !r.Stopped {
		s.onLost(r, strings.TrimSuffix(r.outcome(), ","))
	}
}

// broadcastExit notifies all other ranks of the end of a rank. All its reports have come before.
func (s *supervisor) broadcastExit(r *rankState) {
	if !r.joining {
		s.broadcast(&wire.RankMessage{Message: &job.Message{
			Kind: job.Exited, Rank: r.Rank, PID: r.PID, Code: r.Code, Signal: int(r.Signal), Closed: r.Closed,
			Lost: r.Lost, Text: r.outcome(), Epoch: r.epoch,
		}})
	}
	s.endOnFailure(r)
	s.endIfLast()
}

// loseHosts notes that hosts cannot be reached any more: their ranks have ended,
// as far as this job is concerned.
func (s *supervisor) loseHosts(l *wire.Lost) {
	s.order++
	for _, i := range l.Hosts {
		if i < 0 || i >= len(s.hosts) || s.hosts[i].lost {
			continue
		}
		h := s.hosts[i]
		h.lost = true
		s.job.Trace("host %s is lost: %s", h.Name, l.Text)
		// No rank runs yet.
		early := h.phase < started || h.phase < done && s.running == 0 && s.cause.kind == noCause
		if early && h.of == nil && !h.late && s.attempt == 0 {
			text := l.Text
			if h.phase == ready {
				text = fmt.Sprintf("host %s was lost while it started its ranks: %s", h.Name, text)
			}
			s.abandon(cmdline.Errorf(cmdline.ExitInternal, "%s%s", text, s.job.Remote.Hint))
		}
		var ranks []int
		for _, r := range slices.Concat(s.before, s.ranks) {
			if r.host == h && (r.running || r.joining || s.attempt > 0) && !r.ended {
				if s.noteStart(r); s.ranks[r.Rank] == r {
					ranks = append(ranks, r.Rank)
				}
				r.controlClosed = true
				r.Lost, r.Why = true, l.Text
				e := wire.End{Rank: r.Rank, PID: r.PID, Attempt: r.Attempt, Code: cmdline.ExitInternal, Stopped: s.stopped}
				s.onEnded(r, e)
			}
		}
		s.printLostHost(h, l.Text, ranks)
		s.onHostDone(h)
		s.expect(h)
	}
}
