//go:build linux

package rank

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/rank/internal/environ"
)

// deadline is how long anything in a test may take before it counts as hung.
const deadline = 2 * time.Minute

func TestMain(m *testing.M) {
	if role := os.Getenv("RANK_TEST_ROLE"); role != "" {
		os.Exit(playRole(role))
	}
	testutil.Waiting()
	goleak.VerifyTestMain(m)
}

// testJob is a job whose ranks are Worlds of this process, with a launcher that behaves as treerun's does.
type testJob struct {
	t      testing.TB
	id     string
	secret []byte
	size   int
	hosts  []int         // of the ranks; nil: one
	stall  time.Duration // the stall timeout; 0: none
	log    *slog.Logger
	worlds []*World
	lives  *lives // forms epochs; nil: the job ends with its first failure
	wg     sync.WaitGroup

	toRanksMu sync.Mutex
	toRanks   []net.Conn

	mu       sync.Mutex
	messages map[job.MessageKind]int
	text     []string // of failures that ranks have reported
	gone     []int    // ranks that have reported the end of the launcher
}

func newTestJob(t testing.TB, size int) *testJob {
	return &testJob{
		t: t, id: job.NewID(), secret: job.NewSecret(), size: size, log: slog.New(slog.DiscardHandler),
		worlds: make([]*World, size), toRanks: make([]net.Conn, size), messages: map[job.MessageKind]int{},
	}
}

// file is the job file of a rank.
func (j *testJob) file(rank int) *job.File {
	f := &job.File{
		Version: job.FileVersion, JobID: j.id, Secret: j.secret, Rank: rank, Size: j.size, LocalRank: rank, LocalSize: j.size,
		Host: "here", Hosts: make([]int, j.size), ControlFD: 3, Settings: map[string]string{"color": "blue"},
	}
	f.Renews = j.lives != nil
	if j.stall > 0 {
		f.Settings["stall-timeout"] = j.stall.String()
	}
	if j.hosts != nil {
		f.Hosts, f.LocalRank, f.LocalSize = j.hosts, 0, 0
		for r, h := range j.hosts {
			if h == j.hosts[rank] {
				f.LocalSize++
				if r < rank {
					f.LocalRank++
				}
			}
		}
	}
	return f
}

// launch opens the control sockets of all ranks, and serves them.
func (j *testJob) launch() []net.Conn {
	j.t.Helper()
	ends := make([]net.Conn, j.size)
	for r := range ends {
		ends[r], j.toRanks[r] = socketPair(j.t)
	}
	j.serveAll()
	return ends
}

// serveAll runs the launcher's side of all control sockets, until the test ends.
func (j *testJob) serveAll() {
	for r, c := range j.toRanks {
		j.wg.Go(func() { j.serve(r, c) })
	}
	j.t.Cleanup(func() {
		for _, c := range j.toRanks {
			c.Close()
		}
		j.wg.Wait()
	})
}

func socketPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		if conns[i], err = connOf(fd); err != nil {
			t.Fatal(err)
		}
	}
	return conns[0], conns[1]
}

// connOf returns the connection of a descriptor.
func connOf(fd int) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	return net.FileConn(file)
}

func (j *testJob) serve(rank int, conn net.Conn) {
	for {
		m, err := job.ReadMessage(conn)
		if err != nil {
			return
		}
		j.mu.Lock()
		j.messages[m.Kind]++
		if m.Kind == job.Failed {
			j.text = append(j.text, m.Text)
		}
		j.mu.Unlock()
		if m.Kind == job.Seed {
			j.tell(&job.Message{Kind: job.SeedIs, Addrs: m.Addrs})
		}
		if j.lives != nil {
			j.lives.receive(rank, m)
		}
	}
}

// tell sends a message to all ranks.
func (j *testJob) tell(m *job.Message) {
	j.toRanksMu.Lock()
	defer j.toRanksMu.Unlock()
	for _, c := range j.toRanks {
		job.WriteMessage(c, m) // a rank may be gone
	}
}

// config returns the config of a rank.
func (j *testJob) config(rank int, control net.Conn) *config {
	cfg := &config{Job: &environ.Job{File: *j.file(rank), Control: control}, options: defaultOptions()}
	cfg.log, cfg.renews = j.log, j.lives != nil
	cfg.parsed.StartTimeout = deadline
	cfg.launcherGone = func(error) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.gone = append(j.gone, rank)
	}
	return cfg
}

// start makes the Worlds of all ranks at once, and closes them with the test.
func (j *testJob) start() *testJob {
	j.t.Helper()
	ends := j.launch()
	errs := j.each(func(r int) (err error) {
		j.worlds[r], err = start(j.t.Context(), j.config(r, ends[r]))
		return err
	})
	j.t.Cleanup(j.close)
	for r, err := range errs {
		if err != nil {
			j.t.Fatalf("rank %d of %d: %v", r, j.size, err)
		}
	}
	return j
}

func (j *testJob) close() {
	for _, w := range j.worlds {
		if w != nil {
			w.Close()
		}
	}
}

// each runs f for all ranks at once.
func (j *testJob) each(f func(rank int) error) []error {
	j.t.Helper()
	errs := make([]error, j.size)
	inTime(j.t, func() {
		var all sync.WaitGroup
		for r := range j.size {
			all.Go(func() { errs[r] = f(r) })
		}
		all.Wait()
	})
	return errs
}

// inTime fails the test when f does not return.
func inTime(t testing.TB, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done) // also when f ends the test
		f()
	}()
	select {
	case <-done:
	case <-time.After(deadline):
		panic(fmt.Sprintf("%s: hangs", t.Name()))
	}
}

// meetAtSeed makes the Worlds of a job that treerun's launcher did not start.
func (j *testJob) meetAtSeed() *testJob {
	j.t.Helper()
	seed := testutil.FreeAddress(j.t)
	errs := j.each(func(r int) (err error) {
		j.worlds[r], err = start(j.t.Context(), j.seedConfig(r, seed))
		return err
	})
	j.t.Cleanup(j.close)
	for r, err := range errs {
		if err != nil {
			j.t.Fatalf("rank %d of %d: %v", r, j.size, err)
		}
	}
	return j
}

// seedConfig returns the config of a rank of such a job.
func (j *testJob) seedConfig(rank int, seed string) *config {
	cfg := &config{options: defaultOptions(), Job: &environ.Job{File: job.File{
		JobID: j.id, Secret: j.secret, Rank: rank, Size: j.size, LocalRank: -1, Host: "here",
	}, Seed: seed}}
	cfg.log, cfg.parsed.StartTimeout = j.log, deadline
	return cfg
}

// kill ends w without a notice.
func (w *World) kill() {
	w.mesh.MarkClosing()
	if w.launcher != nil {
		w.launcher.close()
	}
	w.release()
}

// address returns the first address at which the rank that m belongs to would look for another.
func (m *members) address(rank int) string { return m.addresses(rank)[0].String() }
