package launch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

// rankState is the supervisor's state of one rank.
type rankState struct {
	End     // its known part
	at      *hostState
	streams [wire.Streams]*output.Stream
	opened  [wire.Streams]bool // its output has begun to arrive, or none will

	wait    reported
	harmed  bool // a call of it has failed because another rank has ended
	running bool // it was started
	silent  bool // no more messages will come from it
	ended   bool
}

// unaware reports whether the failure of another rank may not have reached m yet.
func (m *rankState) unaware() bool {
	return m.running && !m.ended && m.Joined && !m.Closed && !m.harmed
}

// hostState is the supervisor's state of one host.
type hostState struct {
	Host
	index int
	ready *wire.Ready // empty until its agent is there
	phase phase
	lost  bool
}

// phase is the progress of a host. It may skip some phases.
type phase int

const (
	coming  phase = iota
	ready         // its agent is there
	started       // no more ranks will be started
	over          // all its ranks have ended, or it is lost
)

// all reports whether all hosts have reached a phase.
func (s *supervisor) all(ph phase) bool {
	return !slices.ContainsFunc(s.hosts, func(p *hostState) bool { return p.phase < ph })
}

// isOver notes that a host is over. Only ranks that run have streams, and a host that is lost opens no new ones.
func (s *supervisor) isOver(p *hostState) {
	p.phase = over
	for _, rank := range p.Ranks {
		m := s.ranks[rank]
		for i, stream := range m.streams {
			if !m.opened[i] && (p.lost || !m.running) {
				m.opened[i] = true
				go stream.Discard() // which may post an error
				s.printing--
			}
		}
	}
}

// receive handles a report of a host. src, unless it is nil, is a stream that begins with the report.
func (s *supervisor) receive(p *hostState, body wire.Body, src output.Source) {
	if src != nil {
		s.receiveStream(p, body, src)
		return
	}
	if l, ok := body.(*wire.Lost); ok {
		s.loseHosts(l)
		return
	}
	if p.lost {
		return
	}
	switch b := body.(type) {
	case *wire.Ready:
		s.isReady(p, b)
	case *wire.Result:
		s.fail(p, b.Code, b.Text)
	case *wire.Started:
		s.hasStarted(p, b)
	case *wire.RanksExited:
		if b.Stuck {
			s.job.Screen.Err.Printf("treerun: some processes%s could not be killed: they hang in the kernel", s.on(p))
		}
		s.isOver(p)
	case *wire.Signal:
		s.job.Trace("%s: treerun there got %s", p.Name, job.SignalName(b.Number))
		s.handle(b.Number)
	case *wire.Note:
		if b.Verbose {
			s.job.Trace("%s: %s", p.Name, b.Text)
			return
		}
		s.job.Screen.Err.Printf("treerun:%s %s", strings.TrimPrefix(s.on(p)+":", ":"), b.Text)
	case *wire.Ended:
		s.order++
		for _, e := range b.Ends {
			if m := s.rankOf(p, e.Rank); m != nil && !m.ended {
				s.hasEnded(m, e)
			}
		}
	case *wire.RankMessage:
		switch m := s.rankOf(p, b.Rank); {
		case m == nil:
		case b.Message == nil:
			s.isSilent(m)
		default:
			s.handleMessage(m, b.Message)
		}
	}
}

// receiveStream shows the output of a rank.
func (s *supervisor) receiveStream(p *hostState, body wire.Body, src output.Source) {
	b, ok := body.(*wire.Stream)
	if ok && b.Number < wire.Streams {
		if m := s.rankOf(p, b.Rank); m != nil && !m.opened[b.Number] {
			m.opened[b.Number] = true
			go func() {
				m.streams[b.Number].Run(src)
				s.post(func() { s.printing-- })
			}()
			return
		}
	}
	_ = src.Close()
}

// rankOf returns a rank of a host, nil for one that it does not have.
func (s *supervisor) rankOf(p *hostState, rank int) *rankState {
	if rank >= len(s.ranks) || s.ranks[rank].at != p {
		return nil
	}
	return s.ranks[rank]
}

// on names the host where there are several.
func (s *supervisor) on(p *hostState) string {
	if len(s.hosts) == 1 {
		return ""
	}
	return " on host " + p.Name
}

// fail abandons the job because treerun could not do its part on a host.
func (s *supervisor) fail(p *hostState, code int, text string) {
	if len(s.hosts) > 1 || !p.Local {
		text = fmt.Sprintf("host %s: %s", p.Name, text)
	}
	s.abandon(cmdline.Errorf(code, "%s", text))
}

func (s *supervisor) isReady(p *hostState, b *wire.Ready) {
	if p.phase < ready {
		p.phase, p.ready = ready, b
		s.job.Trace("host %s is ready: it calls itself %s, %s, agent %d", p.Name, b.Host, numbers.Count(b.Cores, "core"),
			b.PID)
	}
}

func (s *supervisor) hasStarted(p *hostState, b *wire.Started) {
	if p.phase >= started {
		return
	}
	p.phase = started
	for i, rank := range b.Ranks {
		if m := s.rankOf(p, rank); m != nil && !m.running {
			m.PID, m.running = b.PIDs[i], true
			s.running++
		}
	}
	if s.early {
		s.late = s.stragglers() // now that the running ranks are known
	}
}

// handleMessage acts on a message of a rank.
func (s *supervisor) handleMessage(m *rankState, msg *job.Message) {
	switch {
	case msg.Kind == job.Seed && m.Rank == 0 && !s.seeded:
		s.seeded = true
		s.job.Trace("rank 0 listens on %v", msg.Addrs)
		s.broadcast(&wire.RankMessage{Message: &job.Message{Kind: job.SeedIs, Addrs: msg.Addrs}})
	case msg.Kind == job.Joined && !m.Joined:
		m.Joined = true
		if s.joined++; s.joined == s.job.Size {
			s.job.Trace("all ranks have joined")
		}
	case msg.Kind == job.Closing:
		m.Closed = true
	case msg.Kind == job.Exited:
		m.harmed, s.harmed = true, time.Now()
	case msg.Kind == job.Failed && m.Failure == "":
		m.Failure, m.Reported = msg.Text, s.order
	case msg.Kind == job.Dying:
		s.isDying(m)
	case msg.Kind == job.Waits:
		s.isWaiting(m, msg.Wait)
	}
}

func (s *supervisor) isSilent(m *rankState) {
	if !m.silent {
		m.silent = true
		if m.ended {
			s.announce(m)
		}
	}
}

// isDying notifies the other ranks of the loss of m, before it is known how it has ended. Their failures after that are
// its consequences.
func (s *supervisor) isDying(m *rankState) {
	if m.ended || m.Closed || s.stopped {
		return
	}
	const text = "has ended, and the system still takes its memory back"
	s.order++
	m.Order, m.After = s.order, time.Since(s.start)
	s.job.Trace("rank %d (pid %d) %s", m.Rank, m.PID, text)
	s.broadcast(&wire.RankMessage{Message: &job.Message{Kind: job.Exited, Rank: m.Rank, PID: m.PID, Lost: true,
		Text: text + s.on(m.at)}})
}

// hasEnded records the end of a rank.
func (s *supervisor) hasEnded(m *rankState, e wire.End) {
	m.ended, m.End.End = true, e
	if m.Order == 0 { // else it was dying
		m.Order, m.After = s.order, time.Since(s.start)
	}
	s.running--
	s.job.Trace("rank %d (pid %d) %s", m.Rank, m.PID, m.how())
	s.judge(m)
	if m.silent {
		s.announce(m)
	}
}

// judge begins to end the job where m, which has ended, has failed.
func (s *supervisor) judge(m *rankState) {
	if m.failed() && !m.Stopped {
		s.begin(cause{kind: byFailure, err: errors.New("another rank has failed")})
	}
}

// announce notifies all other ranks of the end of m. All reports of m have come before.
func (s *supervisor) announce(m *rankState) {
	s.judge(m)
	s.broadcast(&wire.RankMessage{Message: &job.Message{
		Kind: job.Exited, Rank: m.Rank, PID: m.PID, Code: m.Code, Signal: int(m.Signal), Closed: m.Closed,
		Lost: m.Lost, Text: m.how(),
	}})
}

// loseHosts notes that hosts cannot be reached any more: their ranks have ended,
// as far as this job is concerned.
func (s *supervisor) loseHosts(l *wire.Lost) {
	s.order++
	for _, i := range l.Hosts {
		if i < 0 || i >= len(s.hosts) || s.hosts[i].lost {
			continue
		}
		p := s.hosts[i]
		p.lost = true
		s.job.Trace("host %s is lost: %s", p.Name, l.Text)
		if p.phase < started || p.phase < over && s.running == 0 && s.cause.kind == none { // no rank runs yet
			text := l.Text
			if p.phase == ready {
				text = fmt.Sprintf("host %s was lost while it started its ranks: %s", p.Name, text)
			}
			s.abandon(cmdline.Errorf(cmdline.ExitInternal, "%s%s", text, s.job.Remote.Hint))
		}
		for _, rank := range p.Ranks {
			m := s.ranks[rank]
			if m.running && !m.ended {
				m.silent = true
				m.Lost, m.Why = true, l.Text
				s.hasEnded(m, wire.End{Rank: rank, PID: m.PID, Code: cmdline.ExitInternal, Stopped: s.stopped})
			}
		}
		s.isOver(p)
	}
}
