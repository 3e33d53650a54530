//go:build linux

package rank

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/testutil"
)

// The tests below run real processes: this test binary, which plays a rank when RANK_TEST_ROLE is set.

// playRole is the program of such a process. It prints a line when it has reached the point of interest, and returns
// its exit code.
func playRole(role string) int {
	if role == "early" { // goes before it joins
		return 0
	}
	control, _ := os.Readlink("/proc/self/fd/3")
	file, _ := os.Readlink("/proc/self/fd/4")
	w, err := Init(context.Background(), WithStartTimeout(deadline),
		WithLogger(slog.New(slog.NewTextHandler(os.Stdout, nil))))
	if err != nil {
		fmt.Println("Init:", err)
		return 9
	}
	if err := gatherOnce(w, constant(1000)); err != nil {
		fmt.Println("gather:", err)
		return 8
	}
	fmt.Printf("rank %d of %d, local rank %d of %d, host %d\n", w.Rank(), w.Size(), w.LocalRank(), w.LocalSize(),
		w.HostOf(w.Rank()))
	switch role {
	case "gather": // until the job ends
		for err == nil {
			err = gatherOnce(w, constant(100))
		}
		var e *Error
		if !errors.As(err, &e) {
			fmt.Println("untyped:", err)
			return 7
		}
		if errors.Is(err, ErrStalled) {
			fmt.Print("stalled, ")
		}
		fmt.Println("at fault:", e.Rank, e)
		w.Close()
		return 3
	case "again": // a second Init, before and after Close
		_, err1 := Init(context.Background())
		w.Close()
		_, err2 := Init(context.Background())
		fmt.Println(errors.Is(err1, ErrInit), errors.Is(err2, ErrInit))
	case "child": // prints the job's descriptors and variables in a child of a rank
		fmt.Printf("%s=%q\n", job.EnvFD, os.Getenv(job.EnvFD))
		out, err := exec.Command("sh", "-c", "ls -l /proc/self/fd").Output()
		fmt.Println(len(out) > 0 && err == nil, strings.Contains(string(out), control), strings.Contains(string(out), file))
		w.Close()
	case "survive": // until a rank is lost
		fmt.Println(w.ListenAddrs())
		<-w.Failed()
		lost, err := w.Failure()
		fmt.Println("lost rank", lost, err)
		w.Close()
		return 3
	case "wait": // for the end
		<-w.Failed()
		time.Sleep(deadline)
	default:
		w.Close()
	}
	return 0
}

// process is a running rank.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
	state *os.ProcessState // nil until it has been waited for
}

// run starts this binary in a role, with descriptors 3, 4, ... and variables.
func run(t testing.TB, role string, vars []string, files ...*os.File) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return runCommand(t, exec.Command(exe), role, vars, files...)
}

// runCommand is run for a command that starts this binary.
func runCommand(t testing.TB, cmd *exec.Cmd, role string, vars []string, files ...*os.File) *process {
	t.Helper()
	p := &process{Cmd: cmd}
	p.Env = append(slices.Clone(vars), "RANK_TEST_ROLE="+role, "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"))
	p.ExtraFiles = files
	p.Stderr = os.Stderr
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Process.Kill()
		p.wait()
	})
	return p
}

// line returns the next line that the process prints, "" at its end.
func (p *process) line() string {
	p.lines.Scan()
	return p.lines.Text()
}

// wait returns how the process ended. It may be called once at a time.
func (p *process) wait() syscall.WaitStatus {
	if p.state == nil {
		for p.lines.Scan() {
		}
		p.Cmd.Wait()
		p.state = p.ProcessState
	}
	return p.state.Sys().(syscall.WaitStatus)
}

// launchProcesses starts the ranks of j as processes, each with a job file and
// a control socket.
func (j *testJob) launchProcesses(role func(rank int) string) []*process {
	j.t.Helper()
	ranks := make([]*process, j.size)
	for r := range ranks {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			j.t.Fatal(err)
		}
		if j.toRanks[r], err = connOf(fds[0]); err != nil {
			j.t.Fatal(err)
		}
		control := os.NewFile(uintptr(fds[1]), "control")
		file := jobFile(j.t, j.file(r))
		ranks[r] = run(j.t, role(r), []string{job.EnvFD + "=4"}, control, file)
		control.Close()
		file.Close()
	}
	j.serveAll()
	return ranks
}

// jobFile returns a file without a name that holds f.
func jobFile(t testing.TB, f *job.File) *os.File {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file.Name()), job.WriteFile(file, f)); err != nil {
		t.Fatal(err)
	}
	return file
}

// reap waits for a rank's end and notifies the others, as a launcher does.
func (j *testJob) reap(rank int, p *process) syscall.WaitStatus {
	s := p.wait()
	m := &job.Message{Kind: job.Exited, Rank: rank, PID: p.Process.Pid}
	if s.Signaled() {
		m.Signal = int(s.Signal())
	} else {
		m.Code = s.ExitStatus()
	}
	j.tell(m)
	return s
}

func TestKilledProcessIsNoticedByAllOthers(t *testing.T) {
	for _, withLauncher := range []bool{true, false} {
		t.Run(fmt.Sprint("launcher ", withLauncher), func(t *testing.T) {
			t.Parallel()
			const victim = 2
			words := "rank 2 ended without closing its world"
			j := newTestJob(t, 5)
			var ranks []*process
			if withLauncher {
				words = "rank 2 killed by SIGKILL"
				ranks = j.launchProcesses(func(int) string { return "gather" })
			} else {
				ranks = j.processesAtSeed("gather")
			}
			inTime(t, func() {
				for r, p := range ranks {
					if got, want := p.line(), fmt.Sprintf("rank %d of 5, local rank %d of 5, host 0", r, r); got != want {
						t.Errorf("rank %d: %q, want %q", r, got, want)
					}
				}
				ranks[victim].Process.Signal(syscall.SIGKILL)
				if withLauncher {
					j.reap(victim, ranks[victim])
				}
				for r, p := range ranks {
					if r == victim {
						continue
					}
					got := p.line()
					if !strings.HasPrefix(got, "at fault: 2 ") || !strings.Contains(got, words) {
						t.Errorf("rank %d: %q, want %q", r, got, words)
					}
					if s := p.wait(); s.ExitStatus() != 3 {
						t.Errorf("rank %d: exit status %v", r, s)
					}
				}
			})
		})
	}
}

// processesAtSeed starts ranks with the environment of torchrun.
func (j *testJob) processesAtSeed(role string, vars ...string) []*process {
	seed := testutil.FreeAddress(j.t)
	host, port, _ := strings.Cut(seed, ":")
	config := "XDG_CONFIG_HOME=" + j.t.TempDir()
	var ranks []*process
	for r := range j.size {
		ranks = append(ranks, run(j.t, role, append([]string{
			fmt.Sprint("RANK=", r), fmt.Sprint("WORLD_SIZE=", j.size), "MASTER_ADDR=" + host, "MASTER_PORT=" + port, config,
		}, vars...)))
	}
	return ranks
}

func TestProcessThatExitsBeforeInit(t *testing.T) {
	j := newTestJob(t, 3)
	ranks := j.launchProcesses(func(r int) string {
		if r == 1 {
			return "early"
		}
		return "gather"
	})
	inTime(t, func() {
		j.reap(1, ranks[1])
		for _, r := range []int{0, 2} {
			want := fmt.Sprintf("Init: rank: Init on rank %d: rank 1 exited with code 0 before it joined", r)
			if got := ranks[r].line(); got != want {
				t.Errorf("rank %d: %q, want %q", r, got, want)
			}
		}
	})
}

// When the launcher dies, its sockets end, and every rank ends with its process
// group.
func TestRanksDieWithTheLauncher(t *testing.T) {
	j := newTestJob(t, 3)
	ranks := j.launchProcesses(func(int) string { return "wait" })
	inTime(t, func() {
		for _, p := range ranks {
			p.line()
		}
		for _, c := range j.toRanks {
			c.Close()
		}
		for r, p := range ranks {
			if s := p.wait(); !s.Signaled() || s.Signal() != syscall.SIGKILL {
				t.Errorf("rank %d ended with %v", r, s)
			}
		}
	})
}

func TestInitWorksOnceInAProcess(t *testing.T) {
	p := run(t, "again", nil)
	inTime(t, func() {
		p.line()
		if got := p.line(); got != "true true" {
			t.Errorf("second Init is ErrInit: %s", got)
		}
	})
}

// Children of a rank get neither its descriptors nor the variable that names
// them.
func TestChildrenDoNotInheritTheJob(t *testing.T) {
	j := newTestJob(t, 2)
	ranks := j.launchProcesses(func(int) string { return "child" })
	inTime(t, func() {
		for r, p := range ranks {
			p.line()
			if got := p.line() + " " + p.line(); got != `TREERUN_JOB_FD="" true false false` {
				t.Errorf("rank %d: %s", r, got)
			}
		}
	})
}

// Ranks that start at any time find each other, in many small jobs at once.
func TestManyJobsOfProcesses(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			j := newTestJob(t, 4)
			for r, p := range j.launchProcesses(func(int) string { return "once" }) {
				if got := p.line(); !strings.HasPrefix(got, fmt.Sprintf("rank %d of 4,", r)) {
					t.Errorf("rank %d: %q", r, got)
				}
				if s := p.wait(); s.ExitStatus() != 0 {
					t.Errorf("rank %d: %v", r, s)
				}
			}
		})
	}
	inTime(t, all.Wait)
}
