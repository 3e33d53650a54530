//go:build linux

package host

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDescribeCore: the place of a core dump, by the settings of core(5).
func TestDescribeCore(t *testing.T) {
	dir := t.TempDir()
	dumped := filepath.Join(dir, "core.train.77.1700000000")
	if err := os.WriteFile(dumped, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pattern string
		usesPID bool
		want    string
	}{
		{"core", false, dir + "/core"},
		{"core", true, dir + "/core.77"},
		{"core.%p", true, dir + "/core.77"},
		{"core.%e.%p.%t", false, dumped},
		{"/var/none/%e-%P-100%%", false, "/var/none/*-77-100%"},
		{"|/usr/lib/systemd/systemd-coredump %P %u", false, "coredumpctl debug 77"},
		{"|/usr/share/apport/apport -p%p", false, "handed to /usr/share/apport/apport"},
		{"core%", false, dir + "/core%"},
	} {
		if got := describeCore(c.pattern, c.usesPID, dir, 77); got != "core dump: "+c.want {
			t.Errorf("%s, core_uses_pid %v: %q, want %q", c.pattern, c.usesPID, got, c.want)
		}
	}
}
