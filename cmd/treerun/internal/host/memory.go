//go:build linux

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/numbers"
)

// memoryGroups is the control group in which each rank gets one of its own, with a limit of memory.
type memoryGroups struct {
	parent string   // the folder of the group
	home   string   // that of this process, for processes that outlive the job
	tasks  string   // version 1: the file that moves a thread back to the group of this process; "": version 2
	names  string   // how the folders of the ranks begin
	limit  int64    // in bytes
	left   []string // folders of ranks that have ended, with processes that have not
}

// newMemoryGroups returns the groups for the ranks of a job, nil without a limit. root is the root of the file system.
func newMemoryGroups(root, jobID string, limit int64) (*memoryGroups, error) {
	if limit == 0 {
		return nil, nil
	}
	g := &memoryGroups{names: "treerun-" + jobID + "-", limit: limit}
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for _, found := range memoryGroup.FindAllStringSubmatch(string(text), -1) {
		for _, name := range []string{found[2], ""} { // a container may see its own group only, and as the root
			if version1 := found[1] != ""; version1 {
				g.parent = filepath.Join(root, "sys/fs/cgroup/memory", name)
				g.home = g.parent
				g.tasks = filepath.Join(g.parent, "tasks")
				if _, err = os.Stat(g.tasks); err == nil {
					return g, nil
				}
				g.tasks = ""
			} else if g.parent, err = parentGroup(filepath.Join(root, "sys/fs/cgroup"), name); err == nil {
				g.home = filepath.Join(root, "sys/fs/cgroup", name)
				return g, nil
			}
		}
	}
	if err == nil {
		err = errors.New("/proc/self/cgroup names no group that counts memory")
	}
	return nil, memoryError(err)
}

// parentGroup returns the group of version 2 in which groups with a limit can be made: that of this process or, as the
// system wants no processes in it then, the one around it.
func parentGroup(top, name string) (dir string, err error) {
	const controllers = "cgroup.subtree_control"
	for dir = filepath.Join(top, name); ; dir = filepath.Dir(dir) {
		text, readErr := os.ReadFile(filepath.Join(dir, controllers))
		if readErr != nil {
			return "", errors.Join(err, readErr)
		}
		if strings.Contains(" "+strings.TrimSpace(string(text))+" ", " memory ") {
			return dir, nil
		}
		if err != nil || dir == top {
			return "", fmt.Errorf("%s/%s does not have memory", dir, controllers)
		}
		if err = os.WriteFile(filepath.Join(dir, controllers), []byte("+memory"), 0); err == nil {
			return dir, nil
		}
	}
}

func memoryError(err error) error {
	return fmt.Errorf("--mem-per-rank needs a control group that this user can write: %w (hint: systemd-run --user "+
		"--scope treerun ... may give one; systemd-run --user --scope -p MemoryMax=8G treerun ... limits all ranks of this "+
		"host together; under Slurm, --mem-per-cpu)", err)
}

// add makes the group of a process of a rank.
func (g *memoryGroups) add(c *child) error {
	if g == nil {
		return nil
	}
	dir := filepath.Join(g.parent, fmt.Sprintf("%s%d-%d", g.names, c.rank, c.attempt))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return memoryError(err)
	}
	c.memory, c.groups = dir, g
	files := map[string]string{"memory.max": "memory.swap.max"}
	if g.tasks != "" {
		files = map[string]string{"memory.limit_in_bytes": "memory.memsw.limit_in_bytes"}
	}
	for file, swap := range files {
		limit := []byte(strconv.FormatInt(g.limit, 10))
		if err := os.WriteFile(filepath.Join(dir, file), limit, 0); err != nil {
			return memoryError(err)
		}
		if g.tasks == "" {
			limit = []byte("0") // it does not count the rest
		}
		if err := os.WriteFile(filepath.Join(dir, swap), limit, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return memoryError(err)
		}
	}
	return nil
}

// fork calls start, which forks from this thread with attr, such that the child is in the group of c.
func (g *memoryGroups) fork(c *child, attr *syscall.SysProcAttr, start func() error) (err error) {
	switch {
	case g == nil:
		return start()
	case g.tasks == "":
		attr.UseCgroupFD = true
		attr.CgroupFD, err = unix.Open(c.memory, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("open", err)
		}
		defer unix.Close(attr.CgroupFD)
		return start()
	}
	tasks, err := os.OpenFile(g.tasks, os.O_WRONLY, 0) // opened in the group, it may lack memory
	if err != nil {
		return err
	}
	defer tasks.Close()
	const thisThread = "0"
	if err := os.WriteFile(filepath.Join(c.memory, "tasks"), []byte(thisThread), 0); err != nil {
		return err
	}
	err = start()
	if _, back := tasks.WriteString(thisThread); back != nil {
		if err = errors.Join(err, back); c.pid > 0 { // the rank has started, and counts as one that has not
			_ = unix.Kill(-c.pid, unix.SIGKILL)
		}
	}
	return err
}

// drop removes the group of a rank that has ended, or notes that processes in it have not.
func (g *memoryGroups) drop(dir string) {
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.left = append(g.left, dir)
	}
}

// removeLeft removes the groups that drop has left. It waits shortly for processes that are about to end, such as the
// program of a debugger that was killed, and are in no group that can be removed.
func (g *memoryGroups) removeLeft() {
	if g == nil {
		return
	}
	for deadline := time.Now().Add(LeftoverGrace); ; time.Sleep(scanPause) {
		left := g.left
		g.left = nil
		for _, dir := range left {
			g.empty(dir)
			g.drop(dir)
		}
		if len(g.left) == 0 || time.Now().After(deadline) {
			return
		}
	}
}

// empty moves the processes of a group, which have left the process group of their rank, to that of this process. They
// outlive the job, without a limit.
func (g *memoryGroups) empty(dir string) {
	const processes = "cgroup.procs"
	text, _ := os.ReadFile(filepath.Join(dir, processes))
	for pid := range strings.Lines(string(text)) { // one that has ended, or is about to, cannot be moved
		_ = os.WriteFile(filepath.Join(g.home, processes), []byte(pid), 0)
	}
}

// remove removes the groups that are left, and reports whether there are none.
func (g *memoryGroups) remove() (done bool) {
	entries, err := os.ReadDir(g.parent)
	done = err == nil
	for _, e := range entries {
		if dir := filepath.Join(g.parent, e.Name()); strings.HasPrefix(e.Name(), g.names) {
			g.empty(dir)
			done = unix.Rmdir(dir) == nil && done
		}
	}
	return done
}

// memoryHint returns the limit of memory for which the system has killed a process of the rank, "" if it has not.
func (c *child) memoryHint() string {
	if c.memory == "" {
		return ""
	}
	for _, name := range []string{"memory.events", "memory.oom_control"} {
		if n, ok := countKills(filepath.Join(c.memory, name)); ok && n > 0 {
			return fmt.Sprintf("it used more than its %s (--mem-per-rank)", numbers.Bytes(c.groups.limit))
		}
	}
	return ""
}
