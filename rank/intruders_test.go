//go:build linux

package rank

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/testutil"
)

// Several jobs on one host at the same time, with the same secret and different ids, or with the same id and different
// secrets, start and gather independently.
func TestJobsDoNotSeeEachOther(t *testing.T) {
	var jobs []*testJob
	for range 4 {
		jobs = append(jobs, newTestJob(t, 3))
	}
	jobs[1].secret = jobs[0].secret
	jobs[3].id = jobs[2].id
	var all sync.WaitGroup
	for _, j := range jobs {
		all.Go(func() { j.start() })
	}
	all.Wait()
	for i, j := range jobs {
		j.mustGather(constant(100 + i))
		for _, w := range j.worlds {
			if n := w.members.list.NumMembers(); n != 3 {
				t.Fatalf("job %d sees %d members", i, n)
			}
		}
	}
}

// A rank of another job that is pointed at this one receives the reason for the refusal, and this one does not notice.
func TestRankOfAnotherJobIsRefused(t *testing.T) {
	for name, differ := range map[string]func(intruder, of *testJob){
		"other key": func(s, of *testJob) { s.id = of.id },
		"other id":  func(s, of *testJob) { s.secret = of.secret },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newTestJob(t, 3).start()
			s := newTestJob(t, 3)
			differ(s, j)
			inTime(t, func() {
				_, err := start(t.Context(), s.seedConfig(1, j.worlds[0].members.address(0)))
				if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "Init on rank 1: the process at 127.0.0.1:") {
					t.Errorf("error %v", err)
				}
			})
			j.mustGather(constant(1000))
		})
	}
}

// So is a second process that takes itself for a rank that has joined, and one with another size of the job. All ranks
// that are still gathering learn of the latter, as their job cannot become complete.
func TestRankThatCannotBeOneIsRefused(t *testing.T) {
	j := newTestJob(t, 3).start()
	seed := j.worlds[0].members.address(0)
	inTime(t, func() {
		_, err := start(t.Context(), j.seedConfig(2, seed))
		if err == nil || !strings.Contains(err.Error(), "is rank 2, too") {
			t.Errorf("second rank 2: error %v", err)
		}
		cfg := j.seedConfig(3, seed)
		cfg.Size = 5
		_, err = start(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "the job has 5 ranks for rank 3 and 3 for rank ") {
			t.Errorf("rank 3 of 5: error %v", err)
		}
		cfg = j.seedConfig(1, seed)
		cfg.Size = 2
		_, err = start(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "the job has 2 ranks for rank 1 and 3 for rank ") {
			t.Errorf("rank 1 of 2: error %v", err)
		}
	})
	j.mustGather(constant(1000))
}

// warnings counts log records.
type warnings struct {
	mu   sync.Mutex
	seen []string
}

func (w *warnings) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, string(b))
	return len(b), nil
}

// A thousand intruders at every port, while the ranks are still gathering, do not prevent the start. Some send nothing,
// and hold the connection as long as they can.
func TestIntrudersDuringTheStart(t *testing.T) {
	const size, intruders = 4, 1000
	j := newTestJob(t, size)
	var log warnings
	j.log = slog.New(slog.NewTextHandler(&log, nil))
	ends := j.launch()

	ports := listening(t)
	var starting sync.WaitGroup
	begin := func(r int) {
		starting.Go(func() {
			w, err := start(t.Context(), j.config(r, ends[r]))
			if err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
			j.worlds[r] = w
		})
	}
	defer j.close()
	for r := range size - 1 {
		begin(r)
	}
	var doors []string
	inTime(t, func() {
		for len(doors) < size-1 {
			doors = doors[:0]
			for addr := range listening(t) {
				if !ports[addr] {
					doors = append(doors, addr)
				}
			}
		}
	})

	var held []net.Conn
	for i := range intruders {
		for _, d := range doors {
			if c := visit(d, i); c != nil {
				held = append(held, c)
			}
		}
		if i == intruders/2 {
			begin(size - 1) // the last rank has to come through the crowd
		}
	}
	inTime(t, starting.Wait)
	if t.Failed() {
		t.FailNow()
	}
	j.mustGather(constant(10_000))
	for _, c := range held {
		c.Close()
	}
	for r, w := range j.worlds {
		if bad, err := w.Failure(); err != nil {
			t.Errorf("rank %d: rank %d failed: %v", r, bad, err)
		}
	}
	if n := len(log.seen); n < size-1 || n > size {
		t.Errorf("%d warnings of %d ranks that intruders came to:\n%s", n, size-1, strings.Join(log.seen, ""))
	}
}

// visit connects to a port as intruder number i, and sends that intruder's bytes. It returns the connection when the
// intruder stays.
func visit(acceptor string, i int) net.Conn {
	c, err := net.DialTimeout("tcp", acceptor, deadline)
	if err != nil {
		return nil
	}
	switch i % 4 {
	case 0: // silence
		return c
	case 1:
		fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	case 2:
		c.Write(pattern(i, 5000))
	case 3: // the beginning of a hello, then silence
		c.Write([]byte("trnc"))
		return c
	}
	c.Close()
	return nil
}

// listening returns the loopback addresses at which this process listens.
func listening(t *testing.T) map[string]bool {
	t.Helper()
	mine := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	testutil.Need(t, testutil.Proc, err)
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			mine[to] = true
		}
	}
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	addrs := map[string]bool{}
	for _, line := range strings.Split(string(table), "\n")[1:] {
		f := strings.Fields(line) // number, local address, remote address, state, ..., inode
		var port int
		if len(f) < 10 || f[3] != "0A" || !mine["socket:["+f[9]+"]"] {
			continue
		}
		if _, err := fmt.Sscanf(f[1], "0100007F:%X", &port); err == nil {
			addrs[fmt.Sprintf("127.0.0.1:%d", port)] = true
		}
	}
	return addrs
}

// Connections whose proof is not finished when the world closes do not delay it.
func TestCloseWithIntrudersAtTheDoor(t *testing.T) {
	j := newTestJob(t, 2)
	ends := j.launch()
	for r, err := range j.each(func(r int) (err error) {
		cfg := j.config(r, ends[r])
		cfg.helloTimeout = time.Hour
		j.worlds[r], err = start(t.Context(), cfg)
		return err
	}) {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	acceptor := j.worlds[0].members.address(0)
	for range 50 {
		c := visit(acceptor, 0)
		if c == nil {
			t.Fatal("no connection")
		}
		defer c.Close()
	}
	inTime(t, j.close) // which does not wait for intruders
	inTime(t, func() {
		for j.count(job.Closing) < 2 {
			time.Sleep(time.Millisecond)
		}
	})
}
