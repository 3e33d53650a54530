//go:build linux

package iface

import (
	"maps"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// Every change to a device that may change its rate changes one fact, and undoing it restores the fact. A new namespace
// with the same devices differs, too.
func TestFactsChange(t *testing.T) {
	testutil.Need(t, testutil.NetNS, nethosts.Missing())
	// eth0 has an address; changes of the mesh's to1 are visible although it has none.
	devices := []string{
		"ip link add eth0 address 02:00:00:00:00:01 type veth peer name veth0",
		"ip link add to1 address 02:00:00:00:00:02 type veth peer name veth1",
		"ip addr add 10.1.2.3/24 dev eth0",
		"ip link set veth0 up", "ip link set veth1 up", "ip link set eth0 up", "ip link set to1 up",
		"tc qdisc add dev eth0 root tbf rate 100mbit burst 32k limit 256k",
		"tc qdisc add dev to1 root handle 1: htb default 1",
		"tc class add dev to1 parent 1: classid 1:1 htb rate 100mbit",
	}
	alone(t, func() {
		base := factsWith(t, devices...)
		for name, both := range map[string][2]string{
			"eth0 queueing": {"tc qdisc change dev eth0 root tbf rate 50mbit burst 32k limit 256k",
				"tc qdisc change dev eth0 root tbf rate 100mbit burst 32k limit 256k"},
			"to1 queueing": {"tc class change dev to1 parent 1: classid 1:1 htb rate 50mbit",
				"tc class change dev to1 parent 1: classid 1:1 htb rate 100mbit"},
			"eth0 MTU": {"ip link set eth0 mtu 9000", "ip link set eth0 mtu 1500"},
			"eth0 hardware address": {"ip link set eth0 address 02:00:00:00:00:03",
				"ip link set eth0 address 02:00:00:00:00:01"},
		} {
			if got := factsWith(t, both[0]); base[name] == "" || got[name] == base[name] {
				t.Errorf("%s: %s was %q, is %q", both[0], name, base[name], got[name])
			} else if got[name] = base[name]; !maps.Equal(got, base) {
				t.Errorf("%s: not only %s has changed: %v, was %v", both[0], name, got, base)
			}
			if got := factsWith(t, both[1]); !maps.Equal(got, base) {
				t.Errorf("%s: %v, was %v", both[1], got, base)
			}
		}
		if got := factsWith(t, "ip link set veth0 down",
			"ip link set veth0 up"); got["eth0 changes of carrier"] == base["eth0 changes of carrier"] {
			t.Errorf("the loss of the carrier is not detected: %v", got)
		}
		alone(t, func() {
			anew := factsWith(t, devices...)
			if anew["network namespace"] == base["network namespace"] {
				t.Errorf("a new namespace has %v, the first had %v", anew, base)
			}
			for name := range anew {
				if strings.HasPrefix(name, "veth") || strings.HasPrefix(name, "lo") {
					t.Errorf("%s stands for no device that carries something to other hosts", name)
				}
			}
		})
	})
}

// alone runs body in a new network namespace, on a thread that ends with it.
func alone(t *testing.T, body func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		if err == nil {
			body()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("making a network namespace: %v", err)
	}
}

// factsWith returns the facts after these commands.
func factsWith(t *testing.T, commands ...string) map[string]string {
	t.Helper()
	for _, c := range commands {
		f := strings.Fields(c)
		if out, err := exec.Command(f[0], f[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", c, err, out)
		}
	}
	return Facts([]netip.Addr{netip.MustParseAddr("10.1.2.3")})
}

// Truncated attributes, and attributes that claim to be longer than the data, end the list.
func TestAttributes(t *testing.T) {
	b := []byte{6, 0, 1, 0, 'a', 0, 0, 0, 5, 0, 2, 0, 'b'}
	got := attributes(b)
	if len(got) != 2 || string(got[1]) != "a\x00" || string(got[2]) != "b" {
		t.Errorf("%v", got)
	}
	for n := range b {
		for kind, v := range attributes(b[:n:n]) {
			if string(v) != string(got[kind]) {
				t.Errorf("of %d bytes: %d is %q", n, kind, v)
			}
		}
	}
	if got := attributes([]byte{3, 0, 1, 0, 9}); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
