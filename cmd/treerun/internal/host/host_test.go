//go:build linux

package host

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// reaper returns the Reaper of the process: there is one.
var reaper = sync.OnceValue(NewReaper)

// testHost is a Host in a test, and its reports.
type testHost struct {
	*Host
	t       *testing.T
	reports chan wire.Body
	text    chan string // of rank 2's stdout, once it has ended
}

// newTestHost starts host 1 of two, which has ranks 1 and 2 of four; they run a script.
func newTestHost(t *testing.T, script string, start bool) *testHost {
	t.Helper()
	h := &testHost{t: t, reports: make(chan wire.Body, 100), text: make(chan string, 1)}
	h.Host = New(Config{
		Reaper: reaper(), Index: 1, Dir: "/", Env: []string{"PATH=/bin:/usr/bin", "RANK=stale", "KEPT=1"},
		Name: "here", Cores: 1, Report: func(b wire.Body) { h.reports <- b },
		Stream: func(s *wire.Stream, src *Pipe) { go h.read(s.Rank, s.Number, src) },
		Trace:  func(string, ...any) {},
	})
	if start {
		h.Start(&wire.Run{
			File: job.File{Version: job.FileVersion, JobID: "tried", Secret: make([]byte, job.SecretBytes), Size: 4,
				Hosts: []int{0, 1, 1, 0}},
			Args: []string{"sh", "-c", script}, Env: []string{"MORE=2"}, Master: "there", Port: 7,
		}, Program{Path: "/bin/sh"})
	}
	return h
}

func (h *testHost) read(rank, stream int, src *Pipe) {
	defer src.Close()
	var all []byte
	buf := make([]byte, 1000)
	for {
		n, err := src.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil {
			break
		}
	}
	if rank == 2 && stream == wire.Stdout {
		h.text <- string(all)
	}
}

// next returns the next report, except those of silence.
func (h *testHost) next() wire.Body {
	h.t.Helper()
	for {
		select {
		case b := <-h.reports:
			if s, ok := b.(*wire.RankMessage); !ok || s.Message != nil {
				return b
			}
		case <-time.After(2 * time.Minute):
			h.t.Fatal("no report")
		}
	}
}

// ends returns how the ranks have ended, up to the report of RanksExited.
func (h *testHost) ends() []wire.End {
	h.t.Helper()
	if s, ok := h.next().(*wire.Started); !ok || !slices.Equal(s.Ranks, []int{1, 2}) {
		h.t.Fatalf("first report %+v", s)
	}
	var all []wire.End
	for {
		switch b := h.next().(type) {
		case *wire.Ended:
			all = append(all, b.Ends...)
		case *wire.RanksExited:
			if b.Stuck {
				h.t.Error("a process hangs")
			}
			slices.SortFunc(all, func(a, b wire.End) int { return a.Rank - b.Rank })
			return all
		default:
			h.t.Fatalf("report %+v", b)
		}
	}
}

func TestRanksOfAHost(t *testing.T) {
	h := newTestHost(t, `echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $KEPT $MORE $MASTER_ADDR:$MASTER_PORT
		exit $RANK`, true)
	ends := h.ends()
	if len(ends) != 2 || ends[0].Code != 1 || ends[1].Code != 2 || ends[0].Stopped || ends[0].ReadJobFile {
		t.Errorf("%+v", ends)
	}
	if text := <-h.text; text != "2 1 4 2 1 2 there:7\n" {
		t.Errorf("%q", text)
	}
}

func TestStopAndKill(t *testing.T) {
	h := newTestHost(t, `trap 'exit 5' TERM; sleep 60 & wait`, true)
	time.Sleep(50 * time.Millisecond) // or the shell has no trap yet, and SIGTERM ends it
	h.Order(&wire.Signal{Number: syscall.SIGTERM})
	for _, e := range h.ends() {
		if !e.Stopped || e.Code != 5 && e.Signal != 15 {
			t.Errorf("%+v", e)
		}
	}
	h = newTestHost(t, `trap '' TERM; sleep 60 & wait; sleep 60`, true)
	h.Order(&wire.Signal{Number: syscall.SIGKILL})
	started := h.next().(*wire.Started)
	for len(started.Ranks) > 0 {
		switch b := h.next().(type) {
		case *wire.Ended:
			for _, e := range b.Ends {
				if !e.Stopped || e.Signal != 9 {
					t.Errorf("%+v", e)
				}
			}
		case *wire.RanksExited:
			return
		}
	}
}

// A host that is stopped before its job comes is done at once, and starts no rank.
func TestStopBeforeTheJob(t *testing.T) {
	h := newTestHost(t, "", false)
	h.Order(&wire.Signal{Number: syscall.SIGKILL})
	if _, ok := h.next().(*wire.RanksExited); !ok {
		t.Error("the host is not done")
	}
	h.Start(&wire.Run{}, Program{})
	h.reaper.Call(func() {})
	if len(h.reports) > 0 {
		t.Errorf("%+v", <-h.reports)
	}
}

// A program that cannot be run is refused, with the code for it.
func TestRefused(t *testing.T) {
	h := newTestHost(t, "", false)
	h.Start(&wire.Run{
		File: job.File{Version: job.FileVersion, JobID: "tried", Secret: make([]byte, job.SecretBytes), Size: 2,
			Hosts: []int{0, 1}},
		Args: []string{"p"},
	}, Program{Path: "/etc/passwd"})
	if s, ok := h.next().(*wire.Started); !ok || len(s.Ranks) > 0 {
		t.Errorf("%+v", s)
	}
	if r, ok := h.next().(*wire.Result); !ok || r.Code != 126 ||
		!strings.Contains(r.Text, "start rank 1 of 2: run /etc/passwd") {
		t.Errorf("%+v", r)
	}
	if _, ok := h.next().(*wire.RanksExited); !ok {
		t.Error("the host is not done")
	}
}

// A rank that has ended stays a zombie as long as another one runs, so that its number
// means no other process; orphans of ranks do not.
func TestEndedRankKeepsItsNumber(t *testing.T) {
	h := newTestHost(t, `test $RANK = 2 || exit 3
		for i in 1 2 3 4 5; do (sleep 0.01 &); sleep 0.02; done
		read x </dev/null; sleep 300`, true)
	started, ok := h.next().(*wire.Started)
	if !ok {
		t.Fatalf("first report %+v", started)
	}
	first, ok := h.next().(*wire.Ended)
	if !ok || len(first.Ends) != 1 || first.Ends[0].Code != 3 {
		t.Fatalf("report %+v", first)
	}
	pid := first.Ends[0].PID
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s := job.StatProc(pid); s.Code != 'Z' {
			t.Fatalf("rank 1, process %d, is %v", pid, s)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var left []int
		for _, p := range mainThreadChildren() {
			if p != pid && job.StatProc(p).Ended() {
				left = append(left, p)
			}
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("orphans are not waited for: %v", left)
		}
	}
	h.Order(&wire.Signal{Number: syscall.SIGKILL})
	if e, ok := h.next().(*wire.Ended); !ok || e.Ends[0].Signal != syscall.SIGKILL {
		t.Fatalf("report %+v", e)
	}
	if o, ok := h.next().(*wire.RanksExited); !ok || o.Stuck {
		t.Fatalf("report %+v", o)
	}
	if s := job.StatProc(pid); s.Known() {
		t.Errorf("after the job process %d is still there: %v", pid, s)
	}
}

// A Host that is done has closed the job file and the control socket of each rank.
func TestDoneHostClosesDescriptors(t *testing.T) {
	before := openDescriptors(t)
	h := newTestHost(t, "exit 0", true)
	h.ends()
	<-h.text
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		after := openDescriptors(t)
		if after["/memfd:treerun-job (deleted)"] == before["/memfd:treerun-job (deleted)"] &&
			after["socket"] == before["socket"] {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("descriptors before the job: %v, after it: %v", before, after)
		}
	}
	runtime.KeepAlive(h) // or the garbage collector closes the files that the Host has left open
}

// openDescriptors returns the number of this process's descriptors by the name of their file, or by its kind.
func openDescriptors(t *testing.T) map[string]int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	count := make(map[string]int)
	for _, fd := range fds {
		name, _ := os.Readlink("/proc/self/fd/" + fd.Name()) // fails for the descriptor of the folder itself
		kind, _, _ := strings.Cut(name, ":[")
		count[kind]++
	}
	return count
}

// What a rank wrote before it began to end is reported before its dying: where this process had no time to read that
// the rank has closed its world, the rank is not lost.
func TestDyingFollowsMessages(t *testing.T) {
	reports := make(chan *wire.RankMessage, 4)
	h := New(Config{Reaper: reaper(), Report: func(b wire.Body) { reports <- b.(*wire.RankMessage) }})
	h.reaper.Call(func() {
		h.job, h.done = &wire.Run{File: job.File{Hosts: []int{0}}}, true // no checks but those below
	})
	var theirs []int
	c := &child{rank: 0, pid: os.Getpid()}
	if err := c.openControl(&theirs); err != nil {
		t.Fatal(err)
	}
	defer c.close()
	file, err := os.Create(filepath.Join(t.TempDir(), "job"))
	if err != nil {
		t.Fatal(err)
	}
	mark := binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, job.MarkDied), uint32(c.pid))
	if _, err := file.WriteAt(mark, job.MarkAt); err != nil {
		t.Fatal(err)
	}
	c.file = file
	rank := os.NewFile(uintptr(theirs[0]), "control")
	for _, kind := range []job.MessageKind{job.Joined, job.Closing} {
		if err := job.WriteMessage(rank, &job.Message{Kind: kind, PID: c.pid}); err != nil {
			t.Fatal(err)
		}
	}
	h.reaper.Call(func() {
		h.children = []*child{c}
		h.checkDying()
		h.checkDying()
	})
	go c.receive(h)
	for _, want := range []job.MessageKind{job.Joined, job.Closing, job.Dying} {
		if got := <-reports; got.Message == nil || got.Message.Kind != want {
			t.Fatalf("reported %+v, want kind %d", got.Message, want)
		}
	}
	rank.Close()
	if got := <-reports; got.Message != nil {
		t.Errorf("reported %+v, want the end of the messages", got.Message)
	}
}
