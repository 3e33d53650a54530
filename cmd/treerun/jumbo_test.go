//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// TestJumboFrames: a switch drops the packets above 1500 bytes of hosts with an MTU of 9000. Wherever a job stalls for
// that reason, its error names the same cause as check.
func TestJumboFrames(t *testing.T) {
	launcher := namedTreerun(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string]string{
		": measuring the links": "bench -H j0:1,j1:1 --peer-timeout 3",
		"AllReduce":             "bench -H j0:1,j1:1 --peer-timeout 3 --probe off -b 64K -e 64K",
		"Init on rank":          "bench -H j0:12,j1:12 --peer-timeout 5",
		"cannot connect":        "bench -H j0:1,j1:1 --start-timeout 8 --probe off --encrypt",
		"refused a connection": "--nnodes 2 --node-rank RANK --start-timeout 12 -np 1 --seed 10.77.0.1:7777 --key-file " +
			key + " true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := nethosts.Up(t, 2, nethosts.Options{Prefix: "j"})
			var jobs [2]*exec.Cmd
			for i := range jobs {
				// Packets of several segments would pass a switch of veth devices.
				large := h.Command(i, "ip", "link", "set", "eth0", "mtu", "9000", "gso_max_segs", "1")
				if out, err := large.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				args := strings.Fields(strings.Replace(flags, "RANK", strconv.Itoa(i), 1))
				if args[0] == "bench" {
					args = append(args, "--launch-agent", h.Agent())
				}
				jobs[i] = h.Command(i, launcher, args...)
				jobs[i].Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
			}
			if strings.HasPrefix(flags, "--nnodes") {
				if err := jobs[1].Start(); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = jobs[1].Wait() }()
			}
			out, err := jobs[0].CombinedOutput()
			if err == nil || !strings.Contains(string(out), name) || !strings.Contains(string(out), netconn.TooLarge) {
				t.Errorf("%v, want a failure of %q that names %q:\n%s", err, name, netconn.TooLarge, out)
			}
		})
	}
}
