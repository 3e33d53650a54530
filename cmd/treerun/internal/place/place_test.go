//go:build linux

package place

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/launch"
)

// TestEnvironment: variables count like flags, which take precedence, and invalid ones are refused in the same way.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct{ name, value, flag, setting, want string }{
		{"TREERUN_START_TIMEOUT", "12", "", "start-timeout", "12s"},
		{"TREERUN_START_TIMEOUT", "12", "--start-timeout=3", "start-timeout", "3s"},
		{"TREERUN_START_TIMEOUT", "12x", "--start-timeout=3", "start-timeout", "3s"},
		{"TREERUN_PORT_RANGE", "4000-4100", "", "port-range", "4000-4100"},
		{"TREERUN_START_TIMEOUT", "12x", "", "", `TREERUN_START_TIMEOUT is "12x": want a time, as 30, 2.5s, 15m or 2h`},
		{"TREERUN_PEER_TIMEOUT", "1ms", "", "", `TREERUN_PEER_TIMEOUT is "1ms": want at least 200ms`},
		{"TREERUN_STALL_TIMEOUT", "-3", "", "", `TREERUN_STALL_TIMEOUT is "-3": want a time, as 30, 2.5s, 15m or 2h`},
	} {
		t.Setenv("TREERUN_START_TIMEOUT", "")
		t.Setenv(c.name, c.value)
		var o Options
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.Define(f)
		if err := f.Parse([]string{c.flag}); err != nil {
			t.Fatal(err)
		}
		j := &launch.Job{Settings: map[string]string{}}
		got := ""
		if err := o.Fill(j); err != nil {
			got = err.Error()
		} else {
			got = j.Settings[c.setting]
		}
		if got != c.want {
			t.Errorf("%s=%s %s: %q, want %q", c.name, c.value, c.flag, got, c.want)
		}
		t.Setenv(c.name, "")
	}
}
