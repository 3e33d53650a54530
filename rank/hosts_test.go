//go:build linux

package rank

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// The tests below run ranks as processes on hosts that are network namespaces,
// without a launcher.

// cluster is a job of such processes.
type cluster struct {
	t      *testing.T
	hosts  *nethosts.Hosts
	key    string
	nextID int
}

func newCluster(t *testing.T, n int, networks ...nethosts.Network) *cluster {
	t.Helper()
	h := nethosts.Up(t, n, nethosts.Options{Prefix: "netif", Networks: networks})
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	return &cluster{t: t, hosts: h, key: key}
}

// start starts rank r of n on a host.
func (c *cluster) start(role string, host, r, n int, seed string, vars ...string) *process {
	c.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	return runCommand(c.t, c.hosts.Command(host, exe), role, append([]string{
		fmt.Sprint("TREERUN_RANK=", r), fmt.Sprint("TREERUN_SIZE=", n), "TREERUN_SEED=" + seed, "TREERUN_KEY_FILE=" + c.key,
		fmt.Sprint("TREERUN_JOB_ID=", c.t.Name(), c.nextID), "TREERUN_PEER_TIMEOUT=1m", "TREERUN_START_TIMEOUT=1m",
	}, vars...))
}

// startAll starts perHost ranks on every host.
func (c *cluster) startAll(role string, perHost int, seed string, vars ...string) []*process {
	c.t.Helper()
	c.nextID++
	n := perHost * c.hosts.Len()
	var ranks []*process
	for r := range n {
		ranks = append(ranks, c.start(role, r/perHost, r, n, seed, vars...))
	}
	return ranks
}

// up checks that all ranks have joined.
func up(t *testing.T, ranks []*process, perHost int) {
	t.Helper()
	if err := allJoined(ranks, perHost); err != nil {
		t.Fatal(err)
	}
}

func allJoined(ranks []*process, perHost int) error {
	for r, p := range ranks {
		want := fmt.Sprintf("rank %d of %d, local rank %d of %d, host %d", r, len(ranks), r%perHost, perHost, r/perHost)
		if got := p.line(); got != want {
			return fmt.Errorf("rank %d: %q, want %q", r, got, want)
		}
	}
	return nil
}

// ended checks that processes end with a code.
func ended(t *testing.T, ranks []*process, code int) {
	t.Helper()
	for r, p := range ranks {
		if s := p.wait(); s.ExitStatus() != code {
			t.Errorf("rank %d: exit status %d, want %d", r, s.ExitStatus(), code)
		}
	}
}

// Ranks of several hosts find each other, by names and numbers of both
// families, at any port and at those of a range.
func TestHostsMeet(t *testing.T) {
	c := newCluster(t, 3)
	inTime(t, func() {
		for seed, vars := range map[string][]string{
			c.hosts.Addr(0).String() + ":7000":              nil,
			"[" + c.hosts.Addr6In(0, 0).String() + "]:7000": nil,
			c.hosts.Name(0) + ":7000":                       {"TREERUN_PORT_RANGE=7000-7001"},
		} {
			ranks := c.startAll("once", 2, seed, vars...)
			up(t, ranks, 2)
			ended(t, ranks, 0)
		}
	})
}

// An IPv6-only network, with only the addresses that the devices gave themselves.
func TestHostsMeetOverIPv6Only(t *testing.T) {
	c := newCluster(t, 3)
	for i := range 3 {
		if out, err := c.hosts.Command(i, "ip", "addr", "flush", "dev", "eth0", "scope",
			"global").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	linkLocal := func(i int) netip.Addr {
		out, err := c.hosts.Command(i, "ip", "-6", "-o", "addr", "show", "dev", "eth0", "scope", "link").CombinedOutput()
		f := strings.Fields(string(out))
		if err != nil || len(f) < 4 {
			t.Fatalf("%v: %s", err, out)
		}
		return netip.MustParsePrefix(f[3]).Addr()
	}
	inTime(t, func() {
		ranks := c.startAll("once", 2, "["+linkLocal(0).String()+"%eth0]:7000")
		up(t, ranks, 2)
		ended(t, ranks, 0)

		for i := range 3 {
			addr := c.hosts.Addr6In(0, i).String() + "/64"
			if out, err := c.hosts.Command(i, "ip", "addr", "add", addr, "dev", "eth0", "nodad").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		ranks = c.startAll("once", 2, "["+c.hosts.Addr6In(0, 0).String()+"]:7000")
		up(t, ranks, 2)
		ended(t, ranks, 0)
	})
}

// The first network is dead on one host, as if its cable were out somewhere
// behind the next switch; the second one carries all.
func TestHostsMeetOverTheNetworkThatWorks(t *testing.T) {
	c := newCluster(t, 3, nethosts.Network{}, nethosts.Network{})
	if err := c.hosts.Split(0, []int{0}, []int{1}, []int{2}); err != nil {
		t.Fatal(err)
	}
	seed := c.hosts.AddrIn(1, 0).String() + ":7000"
	inTime(t, func() {
		ranks := c.startAll("survive", 1, seed, "TREERUN_IFACE=eth")
		up(t, ranks, 1)
		for r, p := range ranks {
			want := []netip.Addr{c.hosts.AddrIn(0, r), c.hosts.AddrIn(1, r), c.hosts.Addr6In(0, r), c.hosts.Addr6In(1, r)}
			if got := p.line(); got != fmt.Sprint(want) {
				t.Errorf("rank %d offers %s, want %v", r, got, want)
			}
		}
		ranks[0].Process.Kill()
		for _, p := range ranks[1:] {
			if got := p.line(); got != "lost rank 0 ended without closing its world on host netif0" {
				t.Error(got)
			}
		}
		ended(t, ranks[1:], 3)
	})
}

// A host that is stopped, one that is cut off, and one that is killed: each
// survivor names a rank of that host, after the peer timeout.
func TestLostHostIsNoticedByAll(t *testing.T) {
	for name, lose := range map[string]func(c *cluster) error{
		"stopped":   func(c *cluster) error { return c.hosts.Signal(1, syscall.SIGSTOP) },
		"unplugged": func(c *cluster) error { return c.hosts.Unplug(0, 1) },
		"split off": func(c *cluster) error { return c.hosts.Split(0, []int{1}, []int{0, 2}) },
		"killed":    func(c *cluster) error { return c.hosts.Signal(1, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testutil.WithLonger(t, 2*time.Second, func(limit time.Duration) (wrong error) {
				c := newCluster(t, 3)
				ranks := c.startAll("survive", 2, c.hosts.Addr(0).String()+":7000", fmt.Sprint("TREERUN_PEER_TIMEOUT=", limit))
				inTime(t, func() { wrong = loses(c, ranks, lose) })
				return wrong
			})
		})
	}
}

// loses takes host 1 of three away, and compares the reports of the ranks on the other two.
func loses(c *cluster, ranks []*process, lose func(c *cluster) error) error {
	if err := allJoined(ranks, 2); err != nil {
		return err
	}
	for _, p := range ranks {
		p.line()
	}
	if err := lose(c); err != nil {
		return err
	}
	begin := time.Now()
	for _, r := range []int{0, 1, 4, 5} {
		got := ranks[r].line()
		if !strings.HasPrefix(got, "lost rank 2 ") && !strings.HasPrefix(got, "lost rank 3 ") ||
			!strings.Contains(got, " on host netif1") {
			return fmt.Errorf("rank %d: %s", r, got)
		}
	}
	c.t.Logf("all noticed within %v", time.Since(begin))
	ended(c.t, slices.Concat(ranks[:2], ranks[4:]), 3)
	return nil
}

// When the link between two hosts is cut, and both still reach the third, every rank learns that one of the two lost a
// rank of the other.
func TestCutLinkIsNoticedByAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	inTime(t, func() {
		ranks := c.startAll("survive", 2, c.hosts.Addr(0).String()+":7000", "TREERUN_PEER_TIMEOUT=6s")
		up(t, ranks, 2)
		for _, p := range ranks {
			p.line()
		}
		if err := c.hosts.Cut(0, 1, 2); err != nil {
			t.Fatal(err)
		}
		for r, p := range ranks {
			var lost int
			got := p.line()
			if _, err := fmt.Sscanf(got, "lost rank %d on host netif", &lost); err != nil || lost < 2 {
				t.Errorf("rank %d: %s", r, got)
			}
		}
		ended(t, ranks, 3)
	})
}

// A host that is stopped for less than the peer timeout is not lost.
func TestHostThatIsStoppedForAWhile(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	inTime(t, func() {
		ranks := c.startAll("survive", 2, c.hosts.Addr(0).String()+":7000", "TREERUN_PEER_TIMEOUT=15s")
		up(t, ranks, 2)
		for range 2 {
			if err := c.hosts.Signal(1, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if err := c.hosts.Signal(1, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second / 2)
		}
		for _, p := range ranks {
			p.line()
		}
		ranks[3].Process.Kill()
		for _, p := range ranks[:3] {
			if got := p.line(); got != "lost rank 3 ended without closing its world on host netif1" {
				t.Error(got)
			}
		}
	})
}

// Pairs that cannot connect are listed by rank 0, all of them, and by the
// others, their own.
func TestPairsThatCannotConnectAreListed(t *testing.T) {
	c := newCluster(t, 3)
	// All ranks reach host 0, but hosts 1 and 2 refuse each other.
	for i, other := range map[int]int{1: 2, 2: 1} {
		if out, err := c.hosts.Command(i, "ip", "route", "add", "prohibit",
			c.hosts.Addr(other).String()).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if out, err := c.hosts.Command(i, "ip", "-6", "addr", "flush", "dev", "eth0").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	testutil.WithLonger(t, 3*time.Second, func(limit time.Duration) (wrong error) {
		ranks := c.startAll("once", 1, c.hosts.Addr(0).String()+":7000", fmt.Sprint("TREERUN_START_TIMEOUT=", limit))
		logged := make([]string, 3)
		inTime(t, func() {
			for r, p := range ranks {
				for line := p.line(); line != ""; line = p.line() {
					logged[r] += line + "\n"
				}
			}
			ended(t, ranks, 9)
		})
		for r, want := range [][]string{
			{"rank 1 (on host netif1) -> rank 2 (10.77.0.3:", "rank 2 (on host netif2) -> rank 1 (10.77.0.2:",
				"2 pairs of ranks cannot connect:", "hint: does a firewall stand between?"},
			{"rank 1 (on host netif1) -> rank 2 (10.77.0.3:"},
			{"rank 2 (on host netif2) -> rank 1 (10.77.0.2:"},
		} {
			for _, w := range want {
				if !strings.Contains(logged[r], w) {
					wrong = errors.Join(wrong, fmt.Errorf("rank %d reports\n%s\nwithout %q", r, logged[r], w))
				}
			}
		}
		return wrong
	})
}
