//go:build linux

package rank

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/treerun/treerun/internal/job"
)

// lives is the part of a testJob's launcher that forms epochs. It does in a simple way what package membership of
// treerun does. Ranks have the numbers of the job's start, their origins.
type lives struct {
	j *testJob

	mu           sync.Mutex
	epoch        int
	over         bool     // the epoch has ended
	blobs        [][]byte // of the ranks that have renewed
	out          []bool   // the ranks that are not expected any more
	lost, joined []int
}

// newLives returns a job that continues after the loss of ranks.
func newLives(t testing.TB, size int) *lives {
	l := &lives{j: newTestJob(t, size), blobs: make([][]byte, size), out: make([]bool, size)}
	l.j.lives = l
	t.Cleanup(func() { renewing.Store(false) })
	return l
}

// receive handles a message of a rank.
func (l *lives) receive(origin int, m *job.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m.Kind {
	case job.Renew:
		l.blobs[origin] = m.Blob
		if !l.over {
			l.over = true
			text := fmt.Sprintf("has left epoch %d", l.epoch)
			l.j.tell(&job.Message{Kind: job.Revoked, Rank: origin, Epoch: l.epoch, Text: text})
		}
	case job.Closing:
		l.out[origin] = true
	}
	l.form()
}

// form begins the next epoch, once all ranks that are expected have renewed.
func (l *lives) form() {
	r := &job.Roster{Epoch: l.epoch + 1, Secret: job.NewSecret(), Lost: slices.Sorted(slices.Values(l.lost)),
		Joined: slices.Sorted(slices.Values(l.joined))}
	hosts := map[int]int{}
	for origin, blob := range l.blobs {
		switch host := l.j.file(origin).Hosts[origin]; {
		case l.out[origin]:
		case blob == nil:
			return
		default:
			if _, known := hosts[host]; !known {
				hosts[host] = len(hosts)
			}
			r.Members = append(r.Members, job.Member{Origin: origin, Host: hosts[host], Blob: blob})
		}
	}
	if !l.over || len(r.Members) == 0 {
		return
	}
	l.epoch, l.over, l.lost, l.joined, l.blobs = r.Epoch, false, nil, nil, make([][]byte, l.j.size)
	l.j.tell(&job.Message{Kind: job.Begins, Roster: r})
}

// lose has a rank end by SIGKILL. again means that a new process of it is expected.
func (l *lives) lose(origin int, again bool) {
	if w := l.j.worlds[origin]; w != nil {
		w.kill()
		l.j.worlds[origin] = nil
	}
	l.report(origin, again)
}

// report has the launcher report the end of a rank by SIGKILL.
func (l *lives) report(origin int, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over, l.blobs[origin], l.out[origin] = true, nil, !again
	l.lost = append(l.lost, origin)
	l.j.tell(&job.Message{Kind: job.Exited, Rank: origin, Signal: 9, Epoch: l.epoch})
	l.form()
}

// connect opens the control socket of a new process of a rank.
func (l *lives) connect(origin int) net.Conn {
	theirs, ours := socketPair(l.j.t)
	l.j.toRanksMu.Lock()
	old := l.j.toRanks[origin]
	l.j.toRanks[origin] = ours
	l.j.toRanksMu.Unlock()
	old.Close()
	l.mu.Lock()
	l.joined = append(l.joined, origin)
	l.mu.Unlock()
	l.j.wg.Go(func() { l.j.serve(origin, ours) })
	return theirs
}

// join makes the World of a new process of a rank.
func (l *lives) join(ctx context.Context, origin int) error {
	cfg := l.j.config(origin, l.connect(origin))
	cfg.Joining = true
	w, err := start(ctx, cfg)
	l.j.worlds[origin] = w
	return err
}

// renew has every rank that has a World renew it.
func (l *lives) renew(ctx context.Context) []error {
	return l.j.each(func(r int) (err error) {
		if w := l.j.worlds[r]; w != nil && !w.closed.Load() {
			l.j.worlds[r], err = w.Renew(ctx)
		}
		return err
	})
}

// check compares the Worlds of an epoch, and has them gather.
func (l *lives) check(epoch int, origins, lost, joined []int) {
	l.j.t.Helper()
	for origin, err := range l.j.each(func(r int) error {
		w := l.j.worlds[r]
		if !slices.Contains(origins, r) {
			return nil
		}
		rank := slices.Index(origins, r)
		if w == nil || w.Epoch() != epoch || w.Rank() != rank || w.Size() != len(origins) || w.Origin() != r {
			return fmt.Errorf("%+v", w)
		}
		if !slices.Equal(w.Lost(), lost) || !slices.Equal(w.Joined(), joined) {
			return fmt.Errorf("lost %v, joined %v, want %v and %v", w.Lost(), w.Joined(), lost, joined)
		}
		if f, err := w.Failure(); err != nil || w.Context().Err() != nil {
			return fmt.Errorf("rank %d has failed: %w, context %w", f, err, w.Context().Err())
		}
		all, err := w.AllGather(context.Background(), fmt.Append(nil, epoch, r))
		for i, o := range origins {
			if err == nil && string(all[i]) != fmt.Sprint(epoch, o) {
				return fmt.Errorf("rank %d gave %q", i, all[i])
			}
		}
		return err
	}) {
		if err != nil {
			l.j.t.Fatalf("origin %d: %v, want rank %d of %d of epoch %d", origin, err, slices.Index(origins, origin),
				len(origins), epoch)
		}
	}
}

// messages returns how many messages of a kind the ranks have sent.
func (l *lives) messages(kind job.MessageKind) int {
	l.j.mu.Lock()
	defer l.j.mu.Unlock()
	return l.j.messages[kind]
}

// noErrors fails the test if there is any.
func (j *testJob) noErrors(errs []error) {
	j.t.Helper()
	for r, err := range errs {
		if err != nil {
			j.t.Fatalf("rank %d of %d: %v", r, j.size, err)
		}
	}
}
