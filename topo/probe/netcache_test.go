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
	for i := range n.Graph.Links {
		n.Graph.Links[i].GBytesPerSecond = float64(i + 1)
	}
	n.Graph.Ports = n.Graph.Ports[:1]
	n.Probe, n.At = "quick", at.Unix()
	return n
}

// membersOf returns hosts with these identities and no facts.
func membersOf(identities ...string) []Member {
	var all []Member
	for _, id := range identities {
		all = append(all, Member{Name: "host" + id, Identity: id})
	}
	return all
}

// A job finds the measurement of another one, with its hosts in its own order.
func TestNetworkCache(t *testing.T) {
	cache := Cache{Dir: t.TempDir()}
	ids := membersOf("3", "1", "2") // of a, b, c
	now := time.Unix(1_700_000_000, 0)
	file := cache.NetworkPath(ids)
	if n, why, err := cache.LoadNetwork(file, ids, network.Quick, now); n != nil || why != "" || err != nil {
		t.Fatalf("empty: %v, %q, %v", n, why, err)
	}
	want := kept(now)
	if err := cache.StoreNetwork(file, ids, want); err != nil {
		t.Fatal(err)
	}
	if got, _, err := cache.LoadNetwork(file, ids, network.Quick, now); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("kept %+v\ngot %+v, %v", want, got, err)
	}
	other := membersOf("1", "2", "3") // b, c, a
	if cache.NetworkPath(other) != file {
		t.Error("the file depends on the order of the hosts")
	}
	got, _, err := cache.LoadNetwork(file, other, network.Quick, now)
	if err != nil || !reflect.DeepEqual(got, want.Renumber([]int{1, 2, 0})) {
		t.Errorf("in another order: %+v, %v", got, err)
	}
	if cache.NetworkPath(membersOf("1", "2")) == file || cache.NetworkPath(membersOf("1", "1")) != "" {
		t.Error("the file does not distinguish hosts")
	}
	if _, _, err := cache.LoadNetwork(file, membersOf("1", "2"), network.Quick, now); err == nil {
		t.Error("a network of other hosts")
	}
}

// A network that is old, or was measured in less depth than wanted, is measured again; a job that does not measure
// takes any that there is.
func TestNetworkCacheAge(t *testing.T) {
	cache := Cache{Dir: t.TempDir()}
	ids := membersOf("1", "2", "3")
	file := cache.NetworkPath(ids)
	now := time.Now()
	for _, c := range []struct {
		age    time.Duration
		effort network.Effort
		why    string // it does not serve
	}{
		{time.Hour, network.Quick, ""},
		{time.Hour, network.Full, "the network measured (quick) 60 minutes ago is not as thorough as requested"},
		{time.Hour, network.Off, ""},
		{8 * 24 * time.Hour, network.Quick, "the network measured (quick) 8 days ago is too old"},
		{8 * 24 * time.Hour, network.Off, ""},
		{-2 * time.Hour, network.Quick, "is of a time yet to come"},
	} {
		if err := cache.StoreNetwork(file, ids, kept(now.Add(-c.age))); err != nil {
			t.Fatal(err)
		}
		n, why, err := cache.LoadNetwork(file, ids, c.effort, now)
		if err != nil || (n != nil) != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%v old, for %v: %v, %q, %v", c.age, c.effort, n, why, err)
		}
	}
	if err := os.WriteFile(file, []byte(`{"facts":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := cache.LoadNetwork(file, ids, network.Quick, now); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a cut file: %v", err)
	}
}

// A network serves as long as every host has the facts of the time when it was measured, in whatever order the hosts
// are given, and whether or not it may be measured again; the reason against it names the host and the fact.
func TestNetworkCacheFacts(t *testing.T) {
	cache := Cache{Dir: t.TempDir()}
	now := time.Now()
	facts := func(changes ...string) map[string]string {
		all := map[string]string{"boot": "first", "network namespace": "3", "eth0 speed": "1000 Mbit/s"}
		for i := 0; i < len(changes); i += 2 {
			if all[changes[i]] = changes[i+1]; changes[i+1] == "" {
				delete(all, changes[i])
			}
		}
		return all
	}
	was := membersOf("3", "1", "2")
	for i := range was {
		was[i].Facts = facts()
	}
	file := cache.NetworkPath(was)
	if err := cache.StoreNetwork(file, was, kept(now)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host2 map[string]string
		why   string
	}{
		{facts(), ""},
		{facts("eth0 speed", "100 Mbit/s"), "the network measured (quick) just now no longer holds: host host2: eth0 speed " +
			`was "1000 Mbit/s", is "100 Mbit/s"`},
		{facts("boot", "second", "network namespace", "4"), "host host2: it was restarted"},
		{facts("eth0 speed", ""), "host host2: eth0 speed was \"1000 Mbit/s\", is \"\""},
		{facts("eth1 MTU", "1500", "network namespace", "4"),
			`host host2: eth1 MTU was "", is "1500"; network namespace was "3", is "4"`},
		{facts("a", "1", "b", "1", "c", "1", "d", "1"), `a was "", is "1"; b was "", is "1"; c was "", is "1"`},
		{nil, "it was restarted"},
	} {
		is := membersOf("2", "3", "1")
		for i := range is {
			is[i].Facts = facts()
		}
		is[0].Facts = c.host2
		for _, e := range []network.Effort{network.Quick, network.Off} {
			n, why, err := cache.LoadNetwork(file, is, e, now)
			if err != nil || (n != nil) != (c.why == "") || !strings.HasSuffix(why, c.why) {
				t.Errorf("with %v: %v, %q, %v; want %q", c.host2, n, why, err, c.why)
			}
		}
	}
}

// The contents of the file, of any version, are a network or an error.
func FuzzKeptNetwork(f *testing.F) {
	dir := f.TempDir()
	cache := Cache{Dir: dir}
	ids := membersOf("1", "2", "3")
	file := cache.NetworkPath(ids)
	if err := cache.StoreNetwork(file, ids, kept(time.Unix(1e9, 0))); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"facts":[null,null,null]}`))
	f.Add([]byte(`{"version":1,"hosts":["a","b","c"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		n, why, err := cache.LoadNetwork(file, ids, network.Quick, time.Unix(1e9, 0))
		switch {
		case n != nil && (why != "" || err != nil || len(n.Hosts) != 3 || n.Validate() != nil):
			t.Errorf("%v, %q, %v", n, why, err)
		case n == nil && why == "" && err == nil:
			t.Error("neither a network nor why not")
		}
	})
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
