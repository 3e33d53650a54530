package probe

import (
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/topo/network"
)

// kept is a network of three hosts that differ.
func kept(at time.Time) *network.Network {
	n := network.Declared([]string{"a", "b", "c"}, 1, 10)
	for i := range n.Pairs {
		n.Pairs[i].Out, n.Pairs[i].GBytesPerSecond = float64(i+2), float64(i+1)
	}
	n.Ports = n.Ports[:1]
	n.Probe, n.At = "quick", at.Unix()
	return n
}

// What one job has measured another one finds, with its hosts in its own order.
func TestNetworkCache(t *testing.T) {
	cache := Cache{Dir: t.TempDir()}
	ids := []string{"3", "1", "2"} // of a, b, c
	now := time.Unix(1_700_000_000, 0)
	file := cache.NetworkPath(ids)
	if n, err := cache.LoadNetwork(file, ids, network.Quick, now); n != nil || err != nil {
		t.Fatalf("empty: %v, %v", n, err)
	}
	want := kept(now)
	if err := cache.StoreNetwork(file, ids, want); err != nil {
		t.Fatal(err)
	}
	if got, err := cache.LoadNetwork(file, ids, network.Quick, now); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("kept %+v\ngot %+v, %v", want, got, err)
	}
	other := []string{"1", "2", "3"} // b, c, a
	if cache.NetworkPath(other) != file {
		t.Error("the file depends on the order of the hosts")
	}
	got, err := cache.LoadNetwork(file, other, network.Quick, now)
	if err != nil || !reflect.DeepEqual(got, want.Renumber([]int{1, 2, 0})) {
		t.Errorf("in another order: %+v, %v", got, err)
	}
	if cache.NetworkPath([]string{"1", "2"}) == file || cache.NetworkPath([]string{"1", "1"}) != "" {
		t.Error("the file does not tell hosts apart")
	}
	if _, err := cache.LoadNetwork(file, []string{"1", "2"}, network.Quick, now); err == nil {
		t.Error("a network of other hosts")
	}
}

// A network that is old, or was measured in less depth than asked for, is
// measured again; who does not measure takes what there is.
func TestNetworkCacheAge(t *testing.T) {
	cache := Cache{Dir: t.TempDir()}
	ids := []string{"1", "2", "3"}
	file := cache.NetworkPath(ids)
	now := time.Now()
	for _, c := range []struct {
		age    time.Duration
		effort network.Effort
		found  bool
	}{
		{time.Hour, network.Quick, true}, {time.Hour, network.Full, false}, {time.Hour, network.Off, true},
		{8 * 24 * time.Hour, network.Quick, false}, {8 * 24 * time.Hour, network.Off, true}, {-2 * time.Hour, network.Quick, false},
	} {
		if err := cache.StoreNetwork(file, ids, kept(now.Add(-c.age))); err != nil {
			t.Fatal(err)
		}
		if n, err := cache.LoadNetwork(file, ids, c.effort, now); err != nil || (n != nil) != c.found {
			t.Errorf("%v old, for %v: %v, %v", c.age, c.effort, n, err)
		}
	}
	if err := os.WriteFile(file, []byte(`{"version":1,`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cache.LoadNetwork(file, ids, network.Quick, now); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a cut file: %v", err)
	}
}

func TestIdentity(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	if Identity([]netip.Addr{a, b}) != Identity([]netip.Addr{b, a}) {
		t.Error("the order of addresses matters")
	}
	if Identity([]netip.Addr{a}) == Identity([]netip.Addr{b}) {
		t.Error("addresses do not matter")
	}
}
