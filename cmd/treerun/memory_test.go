//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// groupsOf returns the folders of the control groups of n ranks, which print their lines of /proc/self/cgroup.
func (l *launched) groupsOf(n int) (dirs []string) {
	l.t.Helper()
	l.expect(n, "treerun-")
	for _, line := range l.output {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) < 3 || !strings.Contains(line, "treerun-") {
			continue
		}
		dirs = append(dirs, filepath.Join("/sys/fs/cgroup", fields[1], fields[2]))
	}
	return dirs
}

// A rank that uses more memory than it may is killed, and named with its limit; others are not. No control
// group is left.
func TestMemoryPerRank(t *testing.T) {
	memoryGroup(t) // skips the test where no group can be made
	const show = "grep treerun- /proc/self/cgroup; "
	l := startTreerun(t, nil, "-np", "2", "--mem-per-rank", "64M", "sh", "-c",
		show+"[ $RANK = 0 ] || { head -c 400M /dev/zero | tail -c 400M > /dev/null; }; exit $?")
	dirs := l.groupsOf(2)
	l.checkEnd(137)
	awaitNoGroups(t, dirs)
	if text := l.stderr.String(); !strings.Contains(text, "rank 1 failed first") ||
		!strings.Contains(text, "hint    it used more than its 64 MiB (--mem-per-rank)") {
		t.Errorf("the limit is not named:\n%s", text)
	}
	l = startTreerun(t, nil, "-np", "1", "--mem-per-rank", "64M", "--on-failure", "restart", "--max-restarts", "1", "sh",
		"-c", "[ $TREERUN_EPOCH = 1 ] || head -c 400M /dev/zero | tail -c 400M > /dev/null")
	l.checkEnd(0)
	l.checkStderr("it exited with code 137: it used more than its 64 MiB (--mem-per-rank); all ranks start again")
	l = startTreerun(t, nil, "-np", "2", "--mem-per-rank", "1G", "sh", "-c",
		show+"head -c 400M /dev/zero | tail -c 400M > /dev/null")
	l.checkEnd(0)
}

// A kill of the launcher, or of an agent, leaves no control group.
func TestMemoryPerRankKilled(t *testing.T) {
	memoryGroup(t)
	const rank = "grep treerun- /proc/self/cgroup; exec sleep 300"
	l := startTreerun(t, nil, "-np", "2", "--mem-per-rank", "64M", "sh", "-c", rank)
	dirs := l.groupsOf(2)
	for _, dir := range dirs {
		for _, name := range []string{"memory.limit_in_bytes", "memory.max"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil && strings.TrimSpace(string(text)) != "67108864" {
				t.Errorf("the limit in %s/%s is %s", dir, name, text)
			}
		}
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("a rank is in no group: %v", err)
		}
	}
	l.signal(syscall.SIGKILL)
	l.checkEnd(128 + int(syscall.SIGKILL))
	awaitNoGroups(t, dirs)
	l = launchHosts(t, "-H", "a:1,b:1", "--mem-per-rank", "64M", "sh", "-c", rank)
	dirs = l.groupsOf(2)
	syscall.Kill(l.agentOf("b"), syscall.SIGKILL)
	l.checkEnd(125)
	awaitNoGroups(t, dirs)
}

// A process that has left its rank's process group outlives the job; the group of the rank does not, and the launcher's
// has the process.
func TestMemoryPerRankOutlived(t *testing.T) {
	memoryGroup(t)
	const rank = "grep treerun- /proc/self/cgroup; " +
		"child=$(setsid sh -c 'echo $$; exec sleep 300 > /dev/null 2>&1' &); echo child: $child; "
	for name, c := range map[string]struct {
		rest string
		code int
	}{"ends": {"exit 0", 0}, "killed": {"exec sleep 300", 128 + int(syscall.SIGKILL)}} {
		t.Run(name, func(t *testing.T) {
			l := startTreerun(t, nil, "-np", "1", "--tag-output=false", "--mem-per-rank", "64M", "sh", "-c", rank+c.rest)
			dirs := l.groupsOf(1)
			l.expect(1, "child: ")
			_, text, _ := strings.Cut(l.output[len(l.output)-1], "child: ")
			child, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Kill(child, syscall.SIGKILL)
			if c.code != 0 {
				l.signal(syscall.SIGKILL)
			}
			l.checkExit(c.code)
			awaitNoGroups(t, dirs)
			if group, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", child)); strings.Contains(string(group), "treerun-") ||
				len(group) == 0 {
				t.Errorf("the groups of the process are %q", group)
			}
		})
	}
}

// awaitNoGroups waits until the guard has removed control groups.
func awaitNoGroups(t *testing.T, dirs []string) {
	t.Helper()
	for _, dir := range dirs {
		for deadline := time.Now().Add(maxWait); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(dir); err != nil {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%s is left", dir)
				break
			}
		}
	}
}
