//go:build linux

package host

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/job"
)

// killedLauncher is the name of the environment variable that makes this test binary a launcher that is killed while it
// starts a rank; its value is the way.
const killedLauncher = "TREERUN_TEST_DOOMED"

// Ways in which a launcher dies.
const (
	afterRanks      = "with three ranks that it has started before"
	beforeGuard     = "before the guard begins"
	afterDelay      = "a while after its descriptors"
	betweenPrograms = "when a child of the rank is between two programs"
)

// killedRank is the rank that a launcher starts which is then killed.
const killedRank = 3

// runKilledLauncher starts a guard and a rank, prints the guard's number and that of the rank's child, and waits to be
// killed.
func runKilledLauncher(mode string) error {
	jobID := os.Getenv("ITS_JOB")
	g, err := newGuard(jobID, []int{0, 1, killedRank}, 0, nil)
	if err != nil {
		return err
	}
	switch mode {
	case afterRanks:
		g.watch(2, 0) // a rank that was added, and has ended
		fmt.Println(g.process.Pid)
		time.Sleep(time.Hour)
	case beforeGuard: // the guard has hardly been loaded
		if err := g.process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
	case afterDelay:
		_ = unix.Close(g.pipe)
		time.Sleep(50 * time.Millisecond) // the guard would scan now, and find nothing
	}
	rank := exec.Command("sh", "-c", os.Getenv("ITS_SCRIPT"))
	rank.Env = append(os.Environ(), job.EnvJobID+"="+jobID, fmt.Sprint(job.EnvRank, "=", killedRank))
	rank.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := rank.StdoutPipe()
	if err != nil {
		return err
	}
	if err := rank.Start(); err != nil {
		return err
	}
	child, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	fmt.Printf("%d %s", g.process.Pid, child)
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, errors.New("the launcher was not killed"))
}

// A launcher dies while it starts a rank: the processes that the rank has started by then end, at any delay of the
// guard, and at any delay until they are visible.
func TestLauncherDiesEarly(t *testing.T) {
	for i, mode := range []string{beforeGuard, afterDelay, betweenPrograms} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			jobID := fmt.Sprint(testJob, ".", i)
			fifo := filepath.Join(t.TempDir(), "go")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			script := plain
			if mode == betweenPrograms { // has no environment yet, as the kernel shows it
				script = fmt.Sprintf(`env -i sh -c 'read -r _ < %s; exec env %s=%s %s=%d sleep 300' & echo $!; wait`, fifo,
					job.EnvJobID, jobID, job.EnvRank, killedRank)
			}
			launcher := exec.Command("/proc/self/exe")
			launcher.Env = append(os.Environ(), killedLauncher+"="+mode, "ITS_JOB="+jobID, "ITS_SCRIPT="+script)
			launcher.Stderr = os.Stderr
			stdin, err := launcher.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			stdout, err := launcher.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := launcher.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			guard, child := 0, 0
			if _, err := fmt.Sscan(line, &guard, &child); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			t.Cleanup(func() {
				if alive(child) {
					syscall.Kill(child, syscall.SIGKILL)
				}
			})
			if mode == betweenPrograms {
				awaitEmptyEnvironment(t, child)
			}
			launcher.Process.Kill()
			launcher.Wait()
			switch mode {
			case beforeGuard:
				syscall.Kill(guard, syscall.SIGCONT)
			case betweenPrograms:
				time.Sleep(3 * LeftoverGrace) // one scan would be over by now
				f, err := os.OpenFile(fifo, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.WriteString("\n"); err != nil {
					t.Fatal(err)
				}
			}
			awaitExit(t, child)
			awaitExit(t, guard)
		})
	}
}

// awaitEmptyEnvironment waits until a process runs a shell without an environment.
func awaitEmptyEnvironment(t *testing.T, pid int) {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(pid)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		line, _ := os.ReadFile(dir + "/cmdline")
		if env, err := os.ReadFile(dir + "/environ"); err == nil && len(env) == 0 &&
			strings.HasPrefix(string(line), "sh\x00") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d has its environment after all", pid)
		}
	}
}

// A process without an environment may be between two programs; one that has ended, or has another's environment, does
// not belong to the ranks.
func TestJobProcesses(t *testing.T) {
	session, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	one, three := job.EnvRank+"=1", job.EnvRank+"=3"
	p := jobProcesses{Job: inJob, Session: session, Ranks: []string{one, three}}
	pid := startRank(t, plain, inJob, job.EnvRank+"=3").rank.Process.Pid
	if ok, unsure := p.matches(pid); !ok || unsure {
		t.Errorf("has %v, unsure %v; want that it has", ok, unsure)
	}
	for _, other := range []jobProcesses{
		{Job: inJob, Session: session, Ranks: []string{three + "3"}},
		{Job: inJob + "x", Session: session, Ranks: p.Ranks},
		{Job: inJob, Session: session + 1, Ranks: p.Ranks}, {Job: "A=" + inJob, Session: session, Ranks: p.Ranks},
	} {
		if ok, unsure := other.matches(pid); ok || unsure {
			t.Errorf("%v: has %v, unsure %v; want neither", other, ok, unsure)
		}
	}
	bare := exec.Command("sleep", "300")
	bare.Env = []string{}
	r := reaper() // it waits for every child, also where an earlier test has started it
	r.Call(func() {
		if err = bare.Start(); err == nil {
			r.Hold(bare.Process.Pid)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if ok, unsure := p.matches(bare.Process.Pid); ok || !unsure {
		t.Errorf("without an environment: has %v, unsure %v; want unsure", ok, unsure)
	}
	bare.Process.Kill()
	var status unix.Siginfo
	if err := unix.Waitid(unix.P_PID, bare.Process.Pid, &status, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Error(err)
	}
	if ok, unsure := p.matches(bare.Process.Pid); ok || unsure {
		t.Errorf("a zombie: has %v, unsure %v; want neither", ok, unsure)
	}
	r.Call(r.Release)
	if ok, unsure := p.matches(bare.Process.Pid); ok || unsure {
		t.Errorf("reaped: has %v, unsure %v; want neither", ok, unsure)
	}
}
