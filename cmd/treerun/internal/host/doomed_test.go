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

// doomed is the name of the environment variable that makes this test binary a launcher that is killed while it starts
// a rank; its value is the way.
const doomed = "TREERUN_TEST_DOOMED"

// Ways in which a launcher dies.
const (
	idle      = "with three ranks that it has started before"
	atOnce    = "before the guard begins"
	slowly    = "a while after its descriptors"
	betweenIt = "when a child of the rank is between two programs"
)

// expected is the rank that a doomed launcher starts.
const expected = 3

// doomedLauncher starts a guard and a rank, prints the guard's number and that of the rank's child, and waits to be
// killed.
func doomedLauncher(what string) error {
	jobID := os.Getenv("ITS_JOB")
	g, err := newGuard(jobID, []int{0, 1, 2, expected}, 0)
	if err != nil {
		return err
	}
	switch what {
	case idle:
		fmt.Println(g.process.Pid)
		time.Sleep(time.Hour)
	case atOnce: // the guard has hardly been loaded
		if err := g.process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
	case slowly:
		_ = unix.Close(g.life)
		time.Sleep(50 * time.Millisecond) // the guard would scan now, and find nothing
	}
	rank := exec.Command("sh", "-c", os.Getenv("ITS_SCRIPT"))
	rank.Env = append(os.Environ(), job.EnvJobID+"="+jobID, fmt.Sprint(job.EnvRank, "=", expected))
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
	for i, what := range []string{atOnce, slowly, betweenIt} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			jobID := fmt.Sprint(testJob, ".", i)
			fifo := filepath.Join(t.TempDir(), "go")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			script := plain
			if what == betweenIt { // has no environment yet, as the kernel shows it
				script = fmt.Sprintf(`env -i sh -c 'read -r _ < %s; exec env %s=%s %s=%d sleep 300' & echo $!; wait`, fifo,
					job.EnvJobID, jobID, job.EnvRank, expected)
			}
			launcher := exec.Command("/proc/self/exe")
			launcher.Env = append(os.Environ(), doomed+"="+what, "ITS_JOB="+jobID, "ITS_SCRIPT="+script)
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
			if what == betweenIt {
				awaitCleared(t, child)
			}
			launcher.Process.Kill()
			launcher.Wait()
			switch what {
			case atOnce:
				syscall.Kill(guard, syscall.SIGCONT)
			case betweenIt:
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
			gone(t, child)
			gone(t, guard)
		})
	}
}

// awaitCleared waits until a process runs a shell without an environment.
func awaitCleared(t *testing.T, pid int) {
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
func TestFamily(t *testing.T) {
	session, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	one, three := job.EnvRank+"=1", job.EnvRank+"=3"
	f := family{Job: inJob, Session: session, Ranks: []string{one, three}}
	pid := start(t, plain, inJob, job.EnvRank+"=3").rank.Process.Pid
	if has, unsure := f.has(pid); !has || unsure {
		t.Errorf("has %v, unsure %v; want that it has", has, unsure)
	}
	for _, other := range []family{
		{Job: inJob, Session: session, Ranks: []string{three + "3"}}, {Job: inJob + "x", Session: session, Ranks: f.Ranks},
		{Job: inJob, Session: session + 1, Ranks: f.Ranks}, {Job: "A=" + inJob, Session: session, Ranks: f.Ranks},
	} {
		if got, unsure := other.has(pid); got || unsure {
			t.Errorf("%v: has %v, unsure %v; want neither", other, got, unsure)
		}
	}
	bare := exec.Command("sleep", "300")
	bare.Env = []string{}
	if err := bare.Start(); err != nil {
		t.Fatal(err)
	}
	if has, unsure := f.has(bare.Process.Pid); has || !unsure {
		t.Errorf("without an environment: has %v, unsure %v; want unsure", has, unsure)
	}
	bare.Process.Kill()
	var status unix.Siginfo
	if err := unix.Waitid(unix.P_PID, bare.Process.Pid, &status, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Error(err)
	}
	if got, unsure := f.has(bare.Process.Pid); got || unsure {
		t.Errorf("a zombie: has %v, unsure %v; want neither", got, unsure)
	}
	bare.Wait()
	if got, unsure := f.has(bare.Process.Pid); got || unsure {
		t.Errorf("reaped: has %v, unsure %v; want neither", got, unsure)
	}
}
