//go:build linux

package host

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/job"
)

// The test binary is also the guard, as treerun is, and a launcher that dies.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == GuardCommand {
		if err := RunGuard(os.Args[2:]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if mode := os.Getenv(killedLauncher); mode != "" {
		if err := runKilledLauncher(mode); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// testJob is unique to this process: other tests may have guards at the same time.
var testJob = fmt.Sprint("guarded", os.Getpid())

// rankWithChild is a rank with a child of its own, both in one process group.
type rankWithChild struct {
	rank  *exec.Cmd
	child int
}

// startRank runs a shell with this script as the rank; it prints the number of its
// child.
func startRank(t *testing.T, script string, env ...string) *rankWithChild {
	t.Helper()
	r := &rankWithChild{rank: exec.Command("sh", "-c", script)}
	r.rank.Env = append(os.Environ(), env...)
	r.rank.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := r.rank.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.rank.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.rank.ProcessState == nil {
			r.rank.Process.Kill()
			r.rank.Wait()
		}
		if r.child > 0 && alive(r.child) {
			syscall.Kill(r.child, syscall.SIGKILL)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if r.child, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	return r
}

// orphan ends the rank and waits for it.
func (r *rankWithChild) orphan() *rankWithChild {
	r.rank.Process.Kill()
	r.rank.Wait()
	return r
}

// alive reports whether a process runs: a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return !strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')'):]), ") Z")
}

func awaitExit(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

const (
	plain    = `sleep 300 & echo $!; wait`
	stubborn = `sh -c 'trap "" TERM; while :; do sleep 0.01; done' & echo $!; wait`
	stopped  = `sh -c 'kill -STOP $$; sleep 300' & echo $!; wait`
)

var inJob = "TREERUN_JOB_ID=" + testJob

// The launcher dies, with a rank that has ended and without: the guard ends all processes left of the ranks, also those
// that ignore SIGTERM or are stopped, and nothing else.
func TestGuardEndsRanks(t *testing.T) {
	others := []*rankWithChild{
		startRank(t, plain, inJob+"x", job.EnvRank+"=1"), startRank(t, plain, inJob, job.EnvRank+"=11"),
		startRank(t, plain),
	}
	alone := startRank(t, `setsid sleep 300 & echo $!; wait`, inJob, job.EnvRank+"=1")
	var orphans []*rankWithChild
	for i, script := range []string{stopped, stubborn, plain} {
		orphans = append(orphans, startRank(t, script, inJob, fmt.Sprint(job.EnvRank, "=", i)).orphan())
	}
	launcher := exec.Command("/proc/self/exe")
	launcher.Env = append(os.Environ(), killedLauncher+"="+afterRanks, "ITS_JOB="+testJob)
	stdout, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	var guard int
	if _, err := fmt.Fscan(stdout, &guard); err != nil {
		t.Fatal(err)
	}
	launcher.Process.Kill()
	launcher.Wait()
	for _, r := range orphans {
		awaitExit(t, r.child)
	}
	awaitExit(t, guard)
	for _, r := range others {
		if !alive(r.child) || !alive(r.rank.Process.Pid) {
			t.Errorf("the guard has ended a process with %q", r.rank.Env[len(r.rank.Env)-2:])
		}
	}
	if !alive(alone.child) {
		t.Error("the guard has ended a process with a session of its own")
	}
}

// A dismissed guard is gone, and has ended nothing; also one that has just been started, one that is stopped, and one
// that has been killed.
func TestDismiss(t *testing.T) {
	r := startRank(t, plain, inJob, job.EnvRank+"=0")
	for _, sig := range []syscall.Signal{0, syscall.SIGTERM, syscall.SIGSTOP, syscall.SIGKILL} {
		g, err := newGuard(testJob, []int{0}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.process.Signal(sig); err != nil {
			t.Error(err)
		}
		g.dismiss()
		if children, err := exec.Command("pgrep", "-f", GuardCommand+" "+testJob+" ").Output(); err == nil {
			t.Errorf("after %v guards are left: %s", sig, children)
		}
	}
	var none *guard
	none.alive()
	none.dismiss()
	if !alive(r.child) {
		t.Error("a dismissed guard has ended a process that a rank has started")
	}
}

// A launcher that sends within the time is not silent; one that sends nothing for longer is, also after earlier lines,
// and one that has ended is not.
func TestWaitForSilence(t *testing.T) {
	const silence = 400 * time.Millisecond
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		for range 8 {
			time.Sleep(silence / 4)
			w.Write([]byte("\n"))
		}
	}()
	begin := time.Now()
	if !(&jobProcesses{Silence: silence}).waitForSilence(r) || time.Since(begin) < 3*silence-silence/4 {
		t.Errorf("silent after %v", time.Since(begin))
	}
	w.Close()
	if (&jobProcesses{Silence: silence}).waitForSilence(r) {
		t.Error("a launcher that has ended counts as silent")
	}
}

// A guard takes no other arguments than those of a launcher.
func TestInvalidGuardArguments(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `{"Launcher":"1x"}`, `{"Launcher":1,"Silence":-1}`, `{"Launcher":-1}`, `{"Launcher":1,"Session":""}`,
		`{"Launcher":1,"Ranks":["1",}`,
	} {
		if err := RunGuard([]string{"job", text}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
