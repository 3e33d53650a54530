//go:build linux

package agent

import (
	"errors"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/recording"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// totals are requests of this process for the totals of the ranks of its host. Their numbers are negative, those of the
// launcher are not.
type totals struct {
	requests chan chan *wire.Fetched
	answers  chan *wire.Fetched
}

// totalsTimeout is the time that the host has to answer to a request.
const totalsTimeout = 500 * time.Millisecond

// newTotals returns nil where a node requests none.
func newTotals(n *Node) *totals {
	if n == nil || n.Watch == nil {
		return nil
	}
	return &totals{make(chan chan *wire.Fetched), make(chan *wire.Fetched, 1)}
}

// watch has node.Watch called with a function that returns the state of this host's part of a job.
func (a *agent) watch(j *wire.Run) {
	t := a.totals
	if t == nil {
		return
	}
	go func() {
		number := 0
		for {
			select {
			case answer := <-t.requests:
				number--
				a.host.Order(&wire.Fetch{Number: number, What: wire.FetchTotals})
				answer <- t.await(number)
			case <-a.done:
				return
			}
		}
	}()
	a.node.Watch(func() (*recording.Live, error) {
		answer := make(chan *wire.Fetched, 1)
		select {
		case t.requests <- answer:
		case <-a.done:
			return nil, errors.New("the job is over")
		}
		l := &recording.Live{ID: j.File.JobID, Size: j.File.Size}
		b := <-answer
		if b == nil {
			l.Silent = append(l.Silent, a.join.Name)
			return l, nil
		}
		for _, p := range b.Parts {
			l.Alive = append(l.Alive, p.Rank)
			l.Restarts += p.Attempt
			if p.Head != nil {
				l.Ranks = append(l.Ranks, recording.LiveRank{Rank: p.Rank, Host: a.join.Name, Head: p.Head})
			}
		}
		return l, nil
	})
}

// await returns the answer to a request, nil if it is late.
func (t *totals) await(number int) *wire.Fetched {
	late := time.After(totalsTimeout)
	for {
		select {
		case b := <-t.answers:
			if b.Number == number {
				return b
			}
		case <-late:
			return nil
		}
	}
}

// takes reports whether a report is the answer to a request of this process, and takes it then.
func (t *totals) takes(b wire.Body) bool {
	f, is := b.(*wire.Fetched)
	if t == nil || !is || f.Number >= 0 {
		return false
	}
	select {
	case t.answers <- f:
	default: // late ones are in its place
	}
	return true
}
