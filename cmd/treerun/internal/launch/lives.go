//go:build linux

package launch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/membership"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

// renews reports whether the ranks that live renew after the loss of one.
func (s *supervisor) renews() bool {
	p := s.job.Lives.Policy
	return p == membership.Respawn || p == membership.Shrink
}

// onLost acts on the failure of a process of a rank. how describes it.
func (s *supervisor) onLost(r *rankState, how string) {
	if s.cause.kind != noCause || s.restarting || r.counted || r.past {
		return
	}
	r.counted = true
	r.past = r.joining && r.added // no epoch needs it
	if s.renews() && r.Closed {
		return // the others do not need it; lateFailure counts it
	}
	again := !r.host.lost || s.job.Lives.Policy != membership.Shrink && s.replacement(r.host) != nil
	orders := s.members.Lost(r.Rank, again)
	if s.job.Lives.Policy != membership.Stop {
		if !r.past || r.Unstarted == "" { // the job has not lost a rank that it never had
			s.losses.add(r, how, s.onHost(r.host))
		}
		next, ends := s.consequence(r, orders)
		s.printLoss(r, how, next, ends)
	}
	s.apply(orders)
	if s.renews() {
		s.afterInAttempt(initGrace, func() { s.act(s.members.Expired()) })
	}
}

// act carries out orders that no lost rank has caused, and prints why the job ends if one of them does that.
func (s *supervisor) act(orders []membership.Order) {
	for _, o := range orders {
		if end, is := o.(membership.End); is {
			s.notify("the job ends: "+end.Why, nil)
		}
	}
	s.apply(orders)
}

// apply carries out the orders of the membership.
func (s *supervisor) apply(orders []membership.Order) {
	for _, o := range orders {
		s.job.Trace("membership: %v", o)
		switch o := o.(type) {
		case membership.End:
			if s.job.Lives.Policy != membership.Stop {
				s.broadcast(&wire.RankMessage{Message: &job.Message{Kind: job.NoMore, Text: o.Why}})
			}
			s.begin(cause{kind: byFailure, err: errors.New("another rank has failed")})
		case membership.RestartAll:
			s.restarting = true
			s.terminate()
		case membership.Start:
			s.startProcess(o)
		case membership.Leave:
			r := s.ranks[o.Rank]
			r.past = true
			if s.cancelWaiting(r, "the job does not need it any more") {
				continue
			}
			s.orderTo(r.host, &wire.Kill{Rank: o.Rank, Attempt: r.Attempt, Grace: s.job.ShutdownTimeout,
				Why: "the job continues without it"})
		case membership.Revoke:
			s.broadcast(&wire.RankMessage{Message: &job.Message{Kind: job.Revoked, Rank: o.Rank, Epoch: o.Epoch,
				Text: fmt.Sprintf("has left epoch %d", o.Epoch)}})
		case membership.Notify:
			s.broadcast(&wire.RankMessage{Message: &job.Message{Kind: job.Waiting, Epoch: o.Epoch}})
		case membership.Begin:
			s.beginEpoch(o)
		}
	}
}

// startProcess starts another process of a rank, on its host, or the first one of a rank that is added.
func (s *supervisor) startProcess(o membership.Start) {
	var old *rankState
	h, rank, attempt := (*hostState)(nil), o.Rank, 0
	if rank < len(s.ranks) {
		old = s.ranks[rank]
		if h, attempt = old.host, old.Attempt+1; h.lost {
			h = s.replacement(h)
		}
		s.before = append(s.before, old)
	} else {
		h = s.hostForAdded()
		h.Ranks = append(slices.Clip(h.Ranks), rank)
		s.ranks = append(s.ranks, nil)
	}
	r, err := s.newRank(h, rank, attempt)
	if err != nil {
		s.ranks = slices.DeleteFunc(s.ranks, func(r *rankState) bool { return r == nil })
		s.abandon(err)
		return
	}
	r.joining, r.added = true, o.Added
	s.ranks[rank] = r
	s.starting++
	switch {
	case h.away:
		h.waiting = append(h.waiting, r)
	case old == nil || old.Unstarted == "":
		s.spawn(r)
	default:
		s.after(startPause, func() { s.spawn(r) })
	}
}

// spawn orders the process of a rank that its host starts in a job that runs.
func (s *supervisor) spawn(r *rankState) {
	s.orderTo(r.host, &wire.Spawn{Rank: r.Rank, Attempt: r.Attempt, Epoch: s.members.Epoch() + 1})
}

// startPause is the time from a process that could not be started to the next attempt.
const startPause = time.Second

// noteStart notes that the start of a process is over.
func (s *supervisor) noteStart(r *rankState) {
	if r.running {
		return
	}
	r.running = true
	s.running++
	if r.joining {
		s.starting--
	}
}

// onUnstarted acts on a process that could not be started: its rank is lost.
func (s *supervisor) onUnstarted(r *rankState, b *wire.Unstarted) {
	r.controlClosed, r.Unstarted = true, b.Text
	s.discard(r)
	s.noteStart(r)
	s.onEnded(r, wire.End{Rank: b.Rank, Attempt: b.Attempt, Code: b.Code})
}

// replacement returns the host that takes the place of one that is lost, nil if there is none.
func (s *supervisor) replacement(lost *hostState) *hostState {
	if lost.spare == nil {
		unused := func(h *hostState) bool { return len(h.Ranks) == 0 && !h.lost && h.phase >= started }
		i := slices.IndexFunc(s.hosts, unused)
		if i < 0 {
			return nil
		}
		lost.spare = s.hosts[i]
		lost.spare.Ranks, lost.spare.place, lost.spare.began = slices.Clone(lost.Ranks), lost.place, lost.began
		s.orderTo(lost.spare, &wire.Replace{Lost: lost.place})
	}
	if lost.spare.lost {
		return s.replacement(lost.spare)
	}
	return lost.spare
}

// orderTo gives an order to one host.
func (s *supervisor) orderTo(h *hostState, b wire.Body) {
	if h.Local {
		s.local.Order(b)
		return
	}
	s.sendTo(h.index, b)
}

// beginEpoch sends the ranks of an epoch its roster.
func (s *supervisor) beginEpoch(b membership.Begin) {
	roster := &job.Roster{Epoch: b.Epoch, Secret: job.NewSecret(), Lost: b.Lost, Joined: b.Joined}
	hosts := make(map[*hostState]int)
	for _, r := range slices.Concat(s.before, s.ranks) {
		r.past = r.past || r.counted
	}
	s.before = pending(s.before)
	s.losses.settle()
	for _, rank := range b.Ranks {
		r := s.ranks[rank]
		if _, known := hosts[r.host]; !known {
			hosts[r.host] = len(hosts)
		}
		r.epoch, r.joining, r.failedByPeer, r.Joined = b.Epoch, false, false, false
		roster.Members = append(roster.Members, job.Member{Origin: rank, Host: hosts[r.host], Blob: r.blob})
		r.blob = nil
	}
	s.joined, s.epochSize, s.roster = 0, len(b.Ranks), b.Ranks
	s.broadcast(&wire.RankMessage{Message: &job.Message{Kind: job.Begins, Roster: roster}})
}

// pending returns the processes of which more is expected.
func pending(all []*rankState) (some []*rankState) {
	for _, r := range all {
		if r.running && (!r.ended || !r.controlClosed || !r.opened[wire.Stdout] || !r.opened[wire.Stderr]) {
			some = append(some, r)
		}
	}
	return some
}

// onJoined notes that the world of a rank is complete.
func (s *supervisor) onJoined(r *rankState) {
	if r.Joined {
		return
	}
	r.Joined = true
	s.joined++
	switch {
	case s.epochSize == 0 && s.joined == s.job.Size:
		s.job.Trace("all ranks have joined")
		if s.losses.after > 0 {
			s.notify(fmt.Sprintf("all %s run again, %s after the latest loss", numbers.Count(s.joined, "rank"),
				inspect.Seconds(time.Since(s.losses.at))), nil)
			s.losses.after = 0
		}
	case s.epochSize > 0 && s.joined == s.epochSize:
		took := ""
		if s.losses.after > 0 {
			took = fmt.Sprintf(", %s after the latest loss", inspect.Seconds(time.Since(s.losses.at)))
		}
		s.losses.after = 0
		s.notify(fmt.Sprintf("epoch %d runs with %s%s", s.members.Epoch(), numbers.Count(s.joined, "rank"), took), nil)
	}
}

// endIfLast ends the hosts of a job whose ranks have all ended, and whose ranks could have started again.
func (s *supervisor) endIfLast() {
	if s.renews() && s.running == 0 && s.starting == 0 && s.cause.kind == noCause {
		s.broadcast(new(wire.Last))
	}
}

// lateFailure makes it the cause of a job that renews that a rank has failed after it had closed its world, or that
// ranks have failed whose program cannot continue.
func (s *supervisor) lateFailure() {
	if !s.renews() || s.cause.kind != noCause {
		return
	}
	if s.losses.count > 0 && !s.members.TakesPart() {
		const text = "the job ends: no rank has used rank.Worlds, so nothing continued after the loss of %s"
		s.notify(fmt.Sprintf(text, numbers.Count(s.losses.count, "rank")), nil)
		s.cause = cause{kind: byFailure, err: cmdline.Errorf(cmp.Or(s.losses.code, 1), "a rank has failed")}
		for _, r := range s.ranks {
			r.past = true // the code is that of the first loss
		}
		return
	}
	for _, r := range s.ranks {
		r.past = r.past || r.counted && !r.Closed // the others have ended well without it
	}
	failed := func(r *rankState) bool { return !r.past && r.failed() && !r.Stopped }
	if slices.ContainsFunc(s.ranks, failed) {
		s.cause = cause{kind: byFailure, err: errors.New("a rank has failed")}
	}
}

// restarts prepares another start of all ranks, once all have ended, where the membership has ordered one.
func (s *supervisor) restarts() bool {
	if slices.ContainsFunc(s.ranks, func(r *rankState) bool { return r.Unstarted != "" }) {
		over := false
		s.after(startPause, func() { over = true })
		s.wait(func() bool { return over || !s.restarting })
	}
	if !s.restarting || s.cause.kind != noCause {
		return false
	}
	for _, h := range s.hosts {
		if h.lost && len(h.Ranks) > 0 && s.replacement(h) == nil {
			s.notify(fmt.Sprintf("the job ends: host %s is lost", h.Name), nil)
			s.begin(cause{kind: byFailure, err: errors.New("another rank has failed")})
			return false
		}
	}
	s.attempt++
	s.members.Restarted()
	s.restarting, s.stopped, s.killed, s.seeded, s.joined = false, false, false, false, 0
	s.watch.since, s.watch.printed = nil, nil
	s.before = append(s.before, s.ranks...)
	for _, r := range s.before {
		r.past = true
	}
	s.before = pending(s.before)
	s.losses.settle()
	s.ranks = make([]*rankState, s.job.Size)
	for _, h := range s.hosts {
		if h.lost {
			continue
		}
		h.phase = ready
		for _, rank := range h.Ranks {
			r, err := s.newRank(h, rank, s.attempt)
			if err != nil {
				s.abandon(err)
				return false
			}
			r.epoch = s.attempt
			s.ranks[rank] = r
		}
	}
	return true
}
