//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// A limit of the shell that ends a rank is named, with the command that raises it.
func TestLimitsThatEndRanks(t *testing.T) {
	const busy = "while :; do :; done"
	for name, c := range map[string]struct {
		limit    string
		code     int
		rank     []string
		wantText string
	}{
		"CPU time": {"ulimit -t 1", 137, []string{"sh", "-c", busy}, "the limit is 1 s for each process (ulimit -t"},
		"CPU time, soft": {"ulimit -S -t 1", 152, []string{"sh", "-c", busy},
			"the limit is 1 s for each process (ulimit -t"},
		"CPU time of a child": {"ulimit -t 1", 137, []string{"sh", "-c", "sh -c '" + busy + "'; exit $?"}, "(ulimit -t"},
		"a signal of a rank":  {"true", 137, []string{"sh", "-c", "kill -9 $$"}, "treerun did not send it; out of memory?"},
		"size of files": {"ulimit -f 1", 3, []string{"looper", "-calls", "1"},
			"file too large (hint: memory that ranks share counts as a file: ulimit -f unlimited)"},
		"descriptors": {"true", 3, []string{"sh", "-c", "exec 3>&- 4>&-; exec looper"},
			"close_fds=False or pass_fds=(3, 4)"},
		"a descriptor of two": {"true", 3, []string{"sh", "-c", "exec 4>&-; exec looper"},
			"control socket at descriptor 4: "},
		"descriptors replaced": {"true", 3, []string{"sh", "-c", "exec 3</dev/null 4</dev/null; exec looper"},
			"it is not a memory file: a wrapper"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startTreerun(t, afterCommand(c.limit), append([]string{"-np", "2"}, c.rank...)...)
			l.checkEnd(c.code)
			l.checkStderr(c.wantText)
		})
	}
}

// Ranks with few descriptors either end well, or their error wraps that of the system; so does that of a rank to which
// others cannot connect because it accepts nothing.
func TestFewDescriptors(t *testing.T) {
	var accepts atomic.Int32
	t.Run("limits", func(t *testing.T) {
		for n := testutil.Count(17, 10); n <= testutil.Count(20, 24); n++ {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				out, err := exec.Command("treerun", "--launch-agent", hostAgent, "-H", "a:1,b:2", "--probe", "off",
					"--start-timeout", "4", "sh", "-c", "ulimit -n "+strconv.Itoa(n)+"; exec looper -calls 1").CombinedOutput()
				text := string(out)
				if err != nil && !strings.Contains(text, syscall.EMFILE.Error()) {
					t.Errorf("%q is not in the error:\n%s", syscall.EMFILE.Error(), text)
				}
				if strings.Contains(text, "ranks cannot connect") && strings.Contains(text, "could not accept a connection") {
					accepts.Add(1)
				}
			})
		}
	})
	if accepts.Load() == 0 {
		t.Error("with no limit a rank could not accept connections of a communicator")
	}
}

// A rank that may open one file too few for the memory that ranks share ends the job at once.
func TestNoDescriptorForSharedMemory(t *testing.T) {
	begun, text := time.Now(), ""
	for n := 11; n <= 16 && !strings.Contains(text, "waiting for the shared memory"); n++ {
		out, _ := exec.Command("treerun", "-np", "2", "--probe", "off", "--timeout", "60", "sh", "-c",
			"[ $RANK = 0 ] || ulimit -n "+strconv.Itoa(n)+"; exec looper -calls 1").CombinedOutput()
		text = string(out)
	}
	const want = "rank 1: waiting for the shared memory of rank 0: too many open files (hint: ulimit -n)"
	if !strings.Contains(text, want) || time.Since(begun) > 18*time.Second {
		t.Errorf("after %v:\n%s", time.Since(begun), text)
	}
}

// A control group that has too little memory is named as the cause, and the ranks of another group are not.
func TestOutOfMemory(t *testing.T) {
	dir := memoryGroup(t)
	// The shell exits with the status of tail, which is killed.
	for code, rank := range map[int]string{137: "head -c 400M /dev/zero | tail -c 400M > /dev/null",
		3: "head -c 400M /dev/zero | tail -c 400M > /dev/null; exit 3"} {
		l := startTreerun(t, afterCommand("echo $$ > "+filepath.Join(dir, "cgroup.procs")), "-np", "2", "sh", "-c", rank)
		l.checkEnd(code)
		named := strings.Contains(l.stderr.String(), "out of memory: the system has killed a process of this control group "+
			"(oom_kill in "+dir+"/memory.")
		if named != (code == 137) {
			t.Errorf("%s: the group is named: %v\n%s", rank, named, &l.stderr)
		}
	}
}

// memoryGroup makes a control group with 200 MiB of memory.
func memoryGroup(t *testing.T) (dir string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if fields[1] == "memory" {
			dir = filepath.Join("/sys/fs/cgroup/memory", fields[2])
		} else if fields[1] == "" && dir == "" {
			dir = filepath.Join("/sys/fs/cgroup", fields[2])
		}
	}
	if err == nil {
		dir, err = os.MkdirTemp(dir, "treerun-test-")
		t.Cleanup(func() { os.Remove(dir) })
	}
	if err == nil {
		const limit = "209715200"
		err = os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte(limit), 0)
		if errors.Is(err, os.ErrNotExist) {
			err = os.WriteFile(filepath.Join(dir, "memory.max"), []byte(limit), 0)
		}
	}
	testutil.Need(t, testutil.Groups, err)
	return dir
}

// Where vm.memfd_noexec forbids memory that can be executed, --push uses an unlinked file of TMPDIR.
func TestPushWithoutExecutableMemory(t *testing.T) {
	testutil.NotUnderRace(t, "treerun is built without the detector")
	const forbid = "echo 2 > /proc/sys/vm/memfd_noexec"
	own := []string{"-pf", "--mount-proc", "--kill-child", "sh", "-c"} // the setting is one of the PID namespace
	out, err := exec.Command("unshare", append(own, forbid)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	testutil.Need(t, testutil.NoExec, err)
	treerun := buildTreerun(t)
	unshared := func(c *exec.Cmd) {
		treerun(c)
		c.Args = append(append([]string{"unshare"}, own...), append([]string{forbid + ` && exec "$0" "$@"`, c.Path},
			c.Args[1:]...)...)
		c.Path = "/usr/bin/unshare"
	}
	l := startTreerun(t, unshared, "--launch-agent", hostAgent, "--push", "-H", "n1:2,n2", "/bin/echo", "runs")
	l.expect(3, "runs")
	l.checkEnd(0)
}

// The core dump of a rank is named, where the kernel makes one; where it writes files, it is there.
func TestCoreDump(t *testing.T) {
	const all = "ulimit -S -c $(ulimit -H -c)"
	plain := exec.Command("sh", "-c", all+"; kill -ABRT $$")
	plain.Dir = t.TempDir()
	_ = plain.Run() // it is killed
	dumps := plain.ProcessState.Sys().(syscall.WaitStatus).CoreDump()
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	testutil.Need(t, testutil.Proc, err)
	l := startTreerun(t, afterCommand(all), "-np", "1", "--wdir", t.TempDir(), "sh", "-c", "kill -ABRT $$")
	l.checkEnd(128 + int(syscall.SIGABRT))
	_, file, named := strings.Cut(l.stderr.String(), "\n    hint    core dump: ")
	if named != dumps {
		t.Fatalf("the kernel dumps core: %v, and stderr is\n%s", dumps, &l.stderr)
	}
	file, _, _ = strings.Cut(file, "\n")
	if _, err := os.Stat(file); err != nil && dumps && pattern[0] != '|' {
		t.Errorf("with the pattern %s: %v", pattern, err)
	}
}
