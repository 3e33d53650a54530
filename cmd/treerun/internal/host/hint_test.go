//go:build linux

package host

import (
	"os"
	"path/filepath"
	"testing"
)

// The counter of kills is that of the process's own control group, in either version, also where a container shows that
// as the root; a file without one counts nothing.
func TestOOMKills(t *testing.T) {
	for name, c := range map[string]struct {
		groups string
		files  map[string]string
		kills  int
		file   string
	}{
		"version 2": {"0::/a/b\n", map[string]string{"a/b/memory.events": "low 0\noom 9\noom_kill 7\noom_group_kill 3\n",
			"a/memory.events": "oom_kill 8\n"}, 7, "a/b/memory.events"},
		"version 1": {"3:cpu:/c\n2:hugetlb,memory:/d\n0::/\n", map[string]string{
			"memory/d/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"}, 2, "memory/d/memory.oom_control"},
		"a container":   {"0::/docker/x\n", map[string]string{"memory.events": "oom_kill 1\n"}, 1, "memory.events"},
		"an old kernel": {"2:memory:/d\n", map[string]string{"memory/d/memory.oom_control": "under_oom 0\n"}, 0, ""},
		"no number":     {"0::/\n", map[string]string{"memory.events": "oom_kill many\n"}, 0, ""},
		"no groups":     {"nonsense\n:\n::\n", nil, 0, ""},
	} {
		root := t.TempDir()
		writeGroups(t, root, c.groups, c.files)
		want := c.file
		if want != "" {
			want = filepath.Join(root, "sys/fs/cgroup", want)
		}
		if kills, file := oomKills(root); kills != c.kills || file != want {
			t.Errorf("%s: %d in %q, want %d in %q", name, kills, file, c.kills, want)
		}
	}
}

// writeGroups writes the kernel's files of control groups below root: that of this process, and those of the groups.
func writeGroups(t *testing.T, root, own string, files map[string]string) {
	t.Helper()
	put := func(file, text string) {
		file = filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("proc/self/cgroup", own)
	for file, text := range files {
		put("sys/fs/cgroup/"+file, text)
	}
}
