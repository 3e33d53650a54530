//go:build linux

package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The groups of ranks are made where the system permits it: in version 1 below the group of this process; in version 2
// there, or below the next one that passes memory on.
func TestMemoryGroups(t *testing.T) {
	const have = "cpu memory pids\n"
	for name, c := range map[string]struct {
		groups string
		files  map[string]string
		closed string // a folder whose file cannot be written: the system permits no processes beside groups
		parent string
		err    string
	}{
		"version 1": {groups: "4:cpu:/c\n3:hugetlb,memory:/d\n0::/\n", files: map[string]string{"memory/d/tasks": ""},
			parent: "memory/d"},
		"version 1, in a container": {groups: "3:memory:/docker/x\n", files: map[string]string{"memory/tasks": ""},
			parent: "memory"},
		"version 2, delegated": {groups: "0::/a/b\n", files: map[string]string{"a/b/cgroup.subtree_control": have},
			parent: "a/b"},
		"version 2, empty": {groups: "0::/a/b\n", files: map[string]string{"a/b/cgroup.subtree_control": ""}, parent: "a/b"},
		"version 2, beside": {groups: "0::/a/b\n", files: map[string]string{"a/b/cgroup.subtree_control": "",
			"a/cgroup.subtree_control": have}, closed: "a/b", parent: "a"},
		"version 2, refused": {groups: "0::/a\n", files: map[string]string{"a/cgroup.subtree_control": "",
			"cgroup.subtree_control": "cpu\n"}, closed: "a",
			err: "cgroup.subtree_control does not have memory (hint: systemd-run"},
		"none": {err: "names no group that counts memory (hint: systemd-run"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			writeGroups(t, root, c.groups, c.files)
			if c.closed != "" {
				file := filepath.Join(root, "sys/fs/cgroup", c.closed, "cgroup.subtree_control")
				if err := errors.Join(os.Remove(file), os.Symlink("/proc/version", file)); err != nil {
					t.Fatal(err)
				}
			}
			g, err := newMemoryGroups(root, "j", 1<<20)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
				return
			}
			if err != nil || g.parent != filepath.Join(root, "sys/fs/cgroup", c.parent) {
				t.Errorf("%+v, %v, want %s", g, err, c.parent)
			}
		})
	}
}

// The group of a rank whose processes end after it is removed, and one with a process that lives is waited for shortly.
func TestMemoryGroupsLeft(t *testing.T) {
	g := new(memoryGroups)
	full := func() (dir, process string) { // the system removes no folder that has something in it
		dir = t.TempDir()
		process = filepath.Join(dir, "process")
		if err := os.Mkdir(process, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir, process
	}
	lives, _ := full()
	ends, process := full()
	g.drop(lives)
	g.drop(ends)
	if err := os.Remove(process); err != nil {
		t.Fatal(err)
	}
	g.removeLeft()
	if _, err := os.Stat(ends); err == nil || len(g.left) != 1 || g.left[0] != lives {
		t.Errorf("left are %v", g.left)
	}
}
