package guard

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

	"golang.org/x/sys/unix"
)

// The test binary is the guard, too, as treerun is, and a launcher that dies.
func TestMain(m *testing.M) {
	if Is(os.Args[1:]) {
		if err := Run(os.Args[1:]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if what := os.Getenv(doomed); what != "" {
		if err := doomedLauncher(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// testJob is of this process: other tests may have guards beside this one's.
var testJob = fmt.Sprint("guarded", os.Getpid())

// family is a rank with a child of its own, both in one process group.
type family struct {
	rank         *exec.Cmd
	pidfd, child int
}

// start runs a shell with this script as the rank; it prints the number of its
// child.
func start(t *testing.T, script string, env ...string) *family {
	t.Helper()
	f := &family{pidfd: -1, rank: exec.Command("sh", "-c", script)}
	f.rank.Env = append(os.Environ(), env...)
	f.rank.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, PidFD: &f.pidfd}
	out, err := f.rank.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.rank.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if f.rank.ProcessState == nil {
			f.rank.Process.Kill()
			f.rank.Wait()
		}
		if f.child > 0 && alive(f.child) {
			syscall.Kill(f.child, syscall.SIGKILL)
		}
		unix.Close(f.pidfd)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if f.child, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	return f
}

// orphan ends the rank and waits for it, so that its number lives on as that of
// the group only.
func (f *family) orphan() *family {
	f.rank.Process.Kill()
	f.rank.Wait()
	return f
}

func (f *family) group() group { return group{id: f.rank.Process.Pid, pidfd: f.pidfd} }

// alive tells whether a process runs: a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return !strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')'):]), ") Z")
}

func gone(t *testing.T, pid int) {
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

// The launcher closes its end, as its death does: the guard ends what is left
// of each group, also what does not heed SIGTERM or is stopped, and nothing else.
func TestGuardEndsGroups(t *testing.T) {
	bystander := start(t, plain, inJob) // no group of the guard's
	g, err := Start(testJob, 0)
	if err != nil {
		t.Fatal(err)
	}
	var orphans []*family
	for _, script := range []string{plain, stubborn, stopped} {
		f := start(t, script, inJob)
		if err := g.Watch(f.rank.Process.Pid, f.pidfd); err != nil {
			t.Fatal(err)
		}
		orphans = append(orphans, f.orphan())
	}
	unix.Close(g.socket)
	for _, f := range orphans {
		gone(t, f.child)
	}
	var status unix.Siginfo
	if err := unix.Waitid(unix.P_PIDFD, g.pidfd, &status, unix.WEXITED, nil); err != nil {
		t.Error(err)
	}
	unix.Close(g.pidfd)
	if !alive(bystander.child) || !alive(bystander.rank.Process.Pid) {
		t.Error("the guard has ended a stranger")
	}
}

// A dismissed guard is gone, and has ended nothing; also one that has just been
// started, one that is stopped, and one that somebody has killed.
func TestDismiss(t *testing.T) {
	f := start(t, plain, inJob)
	for _, sig := range []syscall.Signal{0, syscall.SIGTERM, syscall.SIGSTOP, syscall.SIGKILL} {
		g, err := Start(testJob, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Watch(f.rank.Process.Pid, f.pidfd); err != nil {
			t.Error(err)
		}
		if err := unix.PidfdSendSignal(g.pidfd, sig, nil, 0); err != nil {
			t.Error(err)
		}
		g.Dismiss()
		if children, err := exec.Command("pgrep", "-f", Command+" "+testJob+" ").Output(); err == nil {
			t.Errorf("after %v guards are left: %s", sig, children)
		}
	}
	var none *Guard
	if err := none.Watch(1, -1); err != nil {
		t.Error(err)
	}
	none.Dismiss()
	if !alive(f.child) {
		t.Error("a dismissed guard has ended a group")
	}
}

// A rank's pidfd stands for its group after its end, and for no group once that
// is empty.
func TestGroupOfEndedRank(t *testing.T) {
	f := start(t, plain).orphan()
	switch err := f.group().signal(0); err {
	case nil:
	case unix.EINVAL:
		t.Log("this kernel cannot signal a group by a pidfd")
		return
	default:
		t.Fatalf("a group with a member: %v", err)
	}
	if err := f.group().signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	gone(t, f.child)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // it is reaped by others
		if err := f.group().signal(0); err == unix.ESRCH {
			break
		} else if time.Now().After(end) {
			t.Fatalf("an empty group: %v, want ESRCH", err)
		}
	}
}

// By number, only processes with the job's id are found: a group whose number
// has gone to somebody else is left alone.
func TestSignalByNumber(t *testing.T) {
	ours, other, stranger := start(t, plain, inJob), start(t, plain, inJob+"x"), start(t, plain)
	groups := []group{ours.orphan().group(), other.group(), stranger.group()}
	if !signalByNumber(groups, testJob, 0) {
		t.Error("the job's process is not found")
	}
	if !signalByNumber(groups, testJob, unix.SIGTERM) {
		t.Error("the job's process is not found")
	}
	gone(t, ours.child)
	if signalByNumber(groups, testJob, unix.SIGKILL) {
		t.Error("a process is found after the only one has ended")
	}
	if !alive(other.child) || !alive(stranger.child) {
		t.Error("a stranger was signalled")
	}
}

// A guard believes nothing but the launcher's messages.
func TestStrangeMessages(t *testing.T) {
	for name, message := range map[string][]byte{
		"short": {1}, "no descriptor": {0, 0, 1, 1}, "group 1": {0, 0, 0, 1}, "negative": {0xFF, 0, 0, 0},
		"no rank": {0x80, 0, 0, 0},
	} {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		var rights []byte
		if name != "no descriptor" && name != "no rank" {
			rights = unix.UnixRights(fds[0])
		}
		if err := unix.Sendmsg(fds[0], message, rights, nil, 0); err != nil {
			t.Fatal(err)
		}
		unix.Close(fds[0])
		if h, err := receive(fds[1], 0); err == nil || len(h.groups) > 0 {
			t.Errorf("%s: %v, %v", name, h, err)
		}
		unix.Close(fds[1])
	}
}
