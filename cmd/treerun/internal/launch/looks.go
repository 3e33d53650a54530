//go:build linux

package launch

import (
	"slices"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/control"
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// listen opens the socket for the user's commands.
func (s *supervisor) listen() {
	var err error
	s.control, err = control.Listen(s.jobID, func(r control.Request) control.Answer {
		answer := make(chan control.Answer, 1)
		s.post(func() {
			if r.Size > 0 {
				answer <- s.resize(r.Size)
				return
			}
			s.look(&wire.Look{Stacks: r.Stacks}, func(j *inspect.Job) { answer <- control.Answer{Job: j} })
		})
		select {
		case a := <-answer:
			if a.Job != nil {
				v := inspect.Judge(a.Job)
				a.Text = a.Job.Text(&v)
			}
			return a
		case <-s.quit:
			return control.Answer{Error: "it has ended"}
		}
	})
	if err != nil {
		s.job.Trace("%v", err)
	}
}

// lookTimeout is the time that hosts have to answer to a look.
const lookTimeout = 500 * time.Millisecond

// unreadAfter is how long treerun's own output must not have been taken to count as not read.
const unreadAfter = 500 * time.Millisecond

// look is a look into the job that hosts have still to answer.
type look struct {
	job     inspect.Job
	waiting []*hostState
	done    func(*inspect.Job)
}

// look looks at all ranks that run, as b describes it, and then calls done.
func (s *supervisor) look(b *wire.Look, done func(*inspect.Job)) {
	k := &look{done: done, job: inspect.Job{ID: s.jobID, Program: s.job.Program, Began: s.start.UnixNano()}}
	for _, h := range s.hosts {
		if !h.lost && h.phase == started {
			k.waiting = append(k.waiting, h)
		}
	}
	s.looked++
	number := s.looked
	s.looks[number] = k
	b.Number = number
	for _, h := range k.waiting {
		s.orderTo(h, b)
	}
	s.after(lookTimeout, func() { s.endLook(number) })
	if len(k.waiting) == 0 {
		s.endLook(number)
	}
}

// onSeen adds what a host has seen to the look that has requested it, unless that is over.
func (s *supervisor) onSeen(h *hostState, b *wire.Seen) {
	k := s.looks[b.Number]
	if k == nil || !slices.Contains(k.waiting, h) {
		return
	}
	k.job.Took = max(k.job.Took, b.Took)
	ahead := int64(0) // of the host's clock
	if !h.Local {
		ahead = b.At - time.Now().UnixNano()
	}
	for _, r := range b.Ranks {
		for i := range r.Waits {
			r.Waits[i].Since -= ahead
		}
		if r.Rank < len(s.ranks) && s.ranks[r.Rank].host == h {
			r.Host = h.Name
			k.job.Ranks = append(k.job.Ranks, r)
		}
	}
	k.waiting = slices.DeleteFunc(k.waiting, func(other *hostState) bool { return other == h })
	if len(k.waiting) == 0 {
		s.endLook(b.Number)
	}
}

// endLook ends a look, if it is not over.
func (s *supervisor) endLook(number int) {
	k := s.looks[number]
	if k == nil {
		return
	}
	delete(s.looks, number)
	for _, h := range k.waiting {
		k.job.Silent = append(k.job.Silent, h.Name)
		for _, r := range s.ranks {
			if r.host == h && r.running && !r.ended {
				k.job.Ranks = append(k.job.Ranks, inspect.Rank{Rank: r.Rank, Host: h.Name, PID: r.PID,
					Blind: "is on a host that does not answer"})
			}
		}
	}
	if s.epochSize > 0 {
		k.job.Epoch, k.job.Roster = s.members.Epoch(), s.roster
	}
	slices.SortFunc(k.job.Ranks, func(a, b inspect.Rank) int { return a.Rank - b.Rank })
	k.job.Seen = time.Now().UnixNano()
	switch screen := s.job.Screen; {
	case screen.Out.Blocked() > unreadAfter:
		k.job.Unread = "standard output"
	case screen.Err.Blocked() > unreadAfter:
		k.job.Unread = "standard error"
	}
	k.done(&k.job)
}
