//go:build linux

package launch

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

const (
	// returnInterval is the time from the loss of a host, or an attempt to reach it, to the next attempt.
	returnInterval = 10 * time.Second

	maxAttempts = 16 // number of lost hosts that are tried at the same time
)

// expect makes a host that is lost one that may come back. Back, it is like a spare host, of an index of its own.
func (s *supervisor) expect(lost *hostState) {
	if !s.renews() || len(s.hosts) == job.MaxRanks {
		return
	}
	h := &hostState{JobHost: lost.JobHost, index: len(s.hosts), ready: new(wire.Ready), node: lost.node, phase: done,
		lost: true, away: true, of: lost}
	h.Ranks = nil
	if lost.of != nil && len(lost.Ranks) == 0 { // it has come back, and was lost again before ranks started there
		h.of = lost.of
	}
	s.hosts = append(s.hosts, h)
	if s.job.Remote.Open == nil {
		s.after(returnInterval, func() { s.try(h) })
	}
}

// try tries to start an agent on a host that is away, once the job has fewer ranks than it should have.
func (s *supervisor) try(h *hostState) {
	tried := 0
	for _, other := range s.hosts {
		if other.trying {
			tried++
		}
	}
	switch {
	case s.over():
	case tried == maxAttempts || !s.members.Missing():
		s.after(returnInterval, func() { s.try(h) })
	default:
		s.tryNow(h)
	}
}

// tryNow begins to start an agent on a host that is away, and sends it the program if it has none.
func (s *supervisor) tryNow(h *hostState) {
	s.reach(h, nil)
	if s.job.Remote.PushProgram {
		if err := s.push(h.index); err != nil {
			s.job.Trace("%v", err)
		}
	}
}

// reach begins to start an agent on a host that is away. raw, unless it is nil, is the connection to one that runs.
func (s *supervisor) reach(h *hostState, raw io.ReadWriteCloser) {
	h.trying = true
	s.tree.Add(wire.Below{Index: h.index, Name: h.Name, Target: h.Target}, raw)
}

// takeBack takes nodes back whose treeruns were started again, once their hosts are known to be lost.
func (s *supervisor) takeBack() {
	for a := range s.job.Remote.Again {
		s.post(func() {
			i := slices.IndexFunc(s.hosts, func(h *hostState) bool { return h.node == a.Node && h.away && !h.trying })
			if i < 0 || s.over() {
				_ = a.Refuse()
				return
			}
			s.hosts[i].Name = a.Name
			s.reach(s.hosts[i], a.Accept())
		})
	}
}

// over reports whether the job ends, and no more ranks start.
func (s *supervisor) over() bool {
	return s.cause.kind != noCause || s.draining || s.running == 0 && s.starting == 0
}

// receiveAway handles a report of a host that is away.
func (s *supervisor) receiveAway(h *hostState, body wire.Body) {
	text := ""
	switch b := body.(type) {
	case *wire.Lost:
		text = b.Text
	case *wire.Result:
		text = b.Text
	case *wire.Ready:
		if !s.over() {
			h.away, h.trying, h.lost, h.phase = false, false, false, coming
			s.onReady(h, b)
			s.orderTo(h, s.run)
		}
		return
	default:
		return
	}
	if h.late {
		s.giveUpLate(h, text)
		return
	}
	s.job.Trace("host %s is not back: %s", h.Name, text)
	if h.trying = false; s.job.Remote.Open == nil {
		s.after(returnInterval, func() { s.try(h) })
	}
}

// onBack starts the ranks of a host that is back.
func (s *supervisor) onBack(h *hostState) {
	orders := s.members.HostBack(h.of.Ranks)
	s.notify(strings.TrimSuffix(fmt.Sprintf("host %s is back: %s", h.Name, describe(orders)), ": "), nil)
	s.apply(orders)
}
