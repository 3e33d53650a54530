package host

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is the guard, too, as treerun is, and a launcher that dies.
func TestMain(m *testing.M) {
	if IsGuard(os.Args[1:]) {
		if err := RunGuard(os.Args[1:]); err != nil {
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

// started is a rank with a child of its own, both in one process group.
type started struct {
	rank  *exec.Cmd
	child int
}

// start runs a shell with this script as the rank; it prints the number of its
// child.
func start(t *testing.T, script string) *started {
	t.Helper()
	f := &started{rank: exec.Command("sh", "-c", script)}
	f.rank.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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

// orphan ends the rank and waits for it.
func (f *started) orphan() *started {
	f.rank.Process.Kill()
	f.rank.Wait()
	return f
}

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

// doomed is the name of the environment variable that makes this test binary a
// launcher that gets killed; its value says how.
const doomed = "TREERUN_TEST_DOOMED"

// Ways in which a launcher dies.
const (
	late   = "after its guard has begun"
	atOnce = "before its guard begins"
)

// doomedLauncher starts a guard, tells it of process groups, tells the guard's number, and
// waits to be killed.
func doomedLauncher(what string) error {
	g, err := newGuard(testJob, 0)
	if err != nil {
		return err
	}
	if what == atOnce { // the guard has hardly been loaded
		if err := g.process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
	}
	for _, text := range strings.Fields(os.Getenv("ITS_GROUPS")) {
		group, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		g.tell(group)
	}
	fmt.Println(g.process.Pid)
	time.Sleep(time.Hour)
	return nil
}

// The launcher dies, with a rank that has ended and without: the guard, however late it is,
// ends what is left of all ranks, also what does not heed SIGTERM or is stopped, and nothing
// else.
func TestGuardEndsRanks(t *testing.T) {
	for _, what := range []string{late, atOnce} {
		t.Run(what, func(t *testing.T) { endsRanks(t, what) })
	}
}

func endsRanks(t *testing.T, what string) {
	beside := start(t, plain)
	alone := start(t, `setsid sleep 300 & echo $!; wait`)
	its := []*started{alone, start(t, plain)}
	groups := []string{"0", strconv.Itoa(alone.rank.Process.Pid), strconv.Itoa(its[1].rank.Process.Pid)}
	for _, script := range []string{plain, stubborn, stopped} {
		its = append(its, start(t, script).orphan())
		groups = append(groups, strconv.Itoa(its[len(its)-1].rank.Process.Pid))
	}
	launcher := exec.Command("/proc/self/exe")
	launcher.Env = append(os.Environ(), doomed+"="+what, "ITS_GROUPS="+strings.Join(groups, " "))
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
	if what == atOnce {
		syscall.Kill(guard, syscall.SIGCONT)
	}
	for _, f := range its[1:] {
		gone(t, f.child)
	}
	its[1].rank.Wait() // its number is its group's until then
	alone.rank.Wait()
	gone(t, guard)
	if !alive(beside.child) || !alive(beside.rank.Process.Pid) {
		t.Error("the guard has ended a process that is not of the job")
	}
	if !alive(alone.child) {
		t.Error("the guard has ended a process with a group of its own")
	}
}

// A dismissed guard is gone, and has ended nothing; also one that has just been
// started, one that is stopped, and one that somebody has killed.
func TestDismiss(t *testing.T) {
	f := start(t, plain)
	for _, sig := range []syscall.Signal{0, syscall.SIGTERM, syscall.SIGSTOP, syscall.SIGKILL} {
		g, err := newGuard(testJob, 0)
		if err != nil {
			t.Fatal(err)
		}
		g.tell(f.rank.Process.Pid)
		if err := g.process.Signal(sig); err != nil {
			t.Error(err)
		}
		g.dismiss()
		if children, err := exec.Command("pgrep", "-f", guardCommand+" "+testJob+" ").Output(); err == nil {
			t.Errorf("after %v guards are left: %s", sig, children)
		}
	}
	var none *guard
	none.tell(0)
	none.dismiss()
	if !alive(f.child) {
		t.Error("a dismissed guard has ended what a rank has started")
	}
}

// Who says something within the time is not silent; who says nothing for long is, also
// after having said something, and who is gone is not. Numbers that no process has are
// no groups.
func TestListen(t *testing.T) {
	const silence = 400 * time.Millisecond
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g := &guard{life: int(w.Fd())}
	go func() {
		for _, group := range []int{0, 70, 1, 80, -1, -70, maxPID + 1, 0} {
			time.Sleep(silence / 4)
			g.tell(group)
		}
	}()
	begin := time.Now()
	groups, silent := listen(r, silence)
	if !silent || time.Since(begin) < 3*silence-silence/4 {
		t.Errorf("silent after %v", time.Since(begin))
	}
	if !slices.Equal(groups, []int{70, 80}) {
		t.Errorf("groups %v", groups)
	}
	w.Close()
	if _, silent := listen(r, silence); silent {
		t.Error("who is gone is silent")
	}
}

// A guard takes no other arguments than those of a launcher.
func TestStrangeArguments(t *testing.T) {
	for _, args := range [][]string{{"", ""}, {"1x", "0s"}, {"7", ""}, {"7", "-1s"}, {"-1", "0s"}, {"1", "0s"}} {
		args = append([]string{guardCommand, "job"}, args...)
		if err := RunGuard(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// Whatever comes, the groups are those that processes can have, and not those of all.
func FuzzListen(f *testing.F) {
	f.Add([]byte{70, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{255, 255, 255, 255, 1, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, said []byte) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		go func() {
			_, _ = w.Write(said)
			_ = w.Close()
		}()
		groups, silent := listen(r, 0)
		if silent || len(groups) > len(said)/4 {
			t.Fatalf("silent %v, groups %v", silent, groups)
		}
		for _, g := range groups {
			if g <= 1 || g > maxPID {
				t.Fatalf("group %d", g)
			}
		}
	})
}
