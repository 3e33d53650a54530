//go:build linux

package main

import (
	"os"
	"path/filepath"
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
