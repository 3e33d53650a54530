//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// TestWhichAddressJoins: two hosts can connect by one address each, which is the last of many, or that of a bridge or
// of the loopback; or they have an address in common as well. A job starts, without a warning.
func TestWhichAddressJoins(t *testing.T) {
	launcher := namedTreerun(t)
	// In commands N is the host's number, 1 or 2, M the other's, and ADDRESS the one by which they connect, on eth0.
	for name, c := range map[string]struct {
		commands string
		flags    string
	}{
		"the ninth": {commands: "flush; others 8; ip addr add $ADDRESS/24 dev eth0"},
		"the 64th":  {commands: "flush; others 63; ip addr add $ADDRESS/24 dev eth0"},
		// Of 101 addresses, one per network precedes the others.
		"of 101": {commands: "flush; others 20; for k in $(seq 80); do ip addr add 10.1.$N.$((k + 1))/24 dev eth0; done; " +
			"ip addr add $ADDRESS/24 dev eth0"},
		"on br-ex": {commands: "flush; ip link add br-ex type bridge; ip link set br-ex up; ip link set eth0 master br-ex; " +
			"ip addr add $ADDRESS/24 dev br-ex; pair; ip addr add 172.30.$N.1/24 dev aa0"},
		"on the loopback": {commands: "flush; ip addr add $ADDRESS/32 dev lo; ip addr add 192.168.$N.1/31 dev eth0; " +
			"ip route add $OTHER/32 dev eth0 src $ADDRESS"},
		"one in common": {commands: "flush; ip addr add 192.168.100.1/24 dev eth0; ip addr add $ADDRESS/24 dev eth0",
			flags: "--port-range 5000-5007"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := nethosts.Up(t, 2, nethosts.Options{Prefix: "j"})
			for i := range 2 {
				script := fmt.Sprintf(`set -e; N=%d ADDRESS=%v OTHER=%v
					flush() { ip addr flush dev eth0 scope global; }
					others() { for k in $(seq $1); do ip addr add 10.$k.$N.1/24 dev eth0; done; }
					pair() { ip link add aa0 type veth peer name aa1; ip link set aa1 up; ip link set aa0 up; }
					%s`, i+1, h.Addr(i), h.Addr(1-i), c.commands)
				if out, err := h.Command(i, "sh", "-c", script).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			args := append([]string{"bench", "-b", "8", "-e", "8", "-i", "1", "-w", "0", "-H", "j0:2,j1:2", "--launch-agent",
				h.Agent(), "--start-timeout", "30"}, strings.Fields(c.flags)...)
			cmd := h.Command(0, launcher, args...)
			cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
			var out, wrong bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &wrong
			if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "float") {
				t.Errorf("%v\n%s\n%s", err, &out, &wrong)
			}
			if strings.Contains(wrong.String(), "refused") {
				t.Errorf("a warning about ranks of the job:\n%s", &wrong)
			}
		})
	}
}
