//go:build linux

package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestDescribeCore: the place of a core dump, by the settings of core(5).
func TestDescribeCore(t *testing.T) {
	dir := t.TempDir()
	dumped := filepath.Join(dir, "core.train.77.1700000000")
	old := filepath.Join(dir, "core.old.77")
	began := time.Now()
	for _, file := range []string{dumped, old} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, began, began.Add(-time.Minute)); err != nil { // that of an earlier process
		t.Fatal(err)
	}
	elsewhere := " in the folder to which the process had changed (it is not in " + dir + ")"
	for _, c := range []struct {
		pattern string
		usesPID bool
		want    string
	}{
		{"core", false, "core" + elsewhere},
		{"core", true, "core.77" + elsewhere},
		{"core.%p", true, "core.77" + elsewhere},
		{"core.%e.%p.%t", false, dumped},
		{dir + "/core.%e.%p.%t", false, dumped},
		{"core.old", true, "core.old.77" + elsewhere},
		{"/var/none/%e-%P-100%%", false, "/var/none/*-77-100%, which is not to be seen from here (the name is from " +
			corePattern + ")"},
		{"|/usr/lib/systemd/systemd-coredump %P %u", false, "coredumpctl debug 77"},
		{"|/usr/share/apport/apport -p%p", false, "handed to /usr/share/apport/apport"},
		{"core%", false, "core%" + elsewhere},
	} {
		if got := describeCore(c.pattern, c.usesPID, dir, 77, began); got != "core dump: "+c.want {
			t.Errorf("%s, core_uses_pid %v: %q, want %q", c.pattern, c.usesPID, got, c.want)
		}
	}
}
