//go:build linux

package rank

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/rank/internal/environ"
)

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

// The address on the way to rank 0 comes first, also when it was left out; the
// loopback never does.
func TestAddressTowardsTheSeedComesFirst(t *testing.T) {
	for towards, want := range map[string]string{
		"10.0.0.1": "10.0.0.1 10.1.0.1", "10.1.0.1": "10.1.0.1 10.0.0.1", "172.17.0.1": "172.17.0.1 10.0.0.1 10.1.0.1",
		"127.0.0.1": "10.0.0.1 10.1.0.1", "192.0.2.1": "10.0.0.1 10.1.0.1",
	} {
		n := &network{
			offered: []iface.Address{{IP: ip("10.0.0.1")}, {IP: ip("10.1.0.1")}},
			left:    []iface.Address{{IP: ip("172.17.0.1")}, {IP: ip("127.0.0.1")}},
		}
		n.putFirst(ip(towards), "on the way")
		got := ""
		for _, a := range n.ips() {
			got += " " + a.String()
		}
		if got[1:] != want {
			t.Errorf("towards %s: %s, want %s", towards, got[1:], want)
		}
	}
}

// A rank whose user has named a network accepts calls over that one only.
func TestCallsAreTakenOnOfferedAddressesOnly(t *testing.T) {
	n := &network{
		offered: []iface.Address{{IP: ip("10.0.0.1")}, {IP: ip("fe80::1%eth0")}},
		seeds:   []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:7000")},
	}
	if !n.accepts(ip("10.9.9.9")) {
		t.Error("without --iface a call is refused")
	}
	n.offeredOnly = true
	for at, want := range map[string]bool{
		"10.0.0.1": true, "::ffff:10.0.0.1": true, "fe80::1%eth0": true, "192.0.2.1": true, "127.0.0.1": true, "::1": true,
		"10.9.9.9": false, "fd00::1": false,
	} {
		if n.accepts(ip(at)) != want {
			t.Errorf("a call at %s: %v, want %v", at, !want, want)
		}
	}
}

// On several hosts, a choice that leaves only addresses of this host's own is an error; addresses that the user names
// are not.
func TestChoiceThatReachesNobody(t *testing.T) {
	lo := iface.Address{IP: ip("127.0.0.1"), Device: "lo", Kind: iface.Loopback}
	docker := iface.Address{IP: ip("172.17.0.1"), Device: "docker0", Kind: iface.Container}
	eth := iface.Address{IP: ip("10.0.0.1"), Device: "eth0", Kind: iface.Ethernet, Why: "is excluded"}
	for _, c := range []struct {
		spec    string
		hosts   []int
		offered []iface.Address
		refused bool
	}{
		{"^eth0", []int{0, 1}, []iface.Address{lo}, true},
		{"^eth0", []int{0, 1}, []iface.Address{docker}, true},
		{"^eth0", []int{0, 0}, []iface.Address{lo}, false},
		{"^eth0", nil, []iface.Address{lo}, false},
		{"^docker0", []int{0, 1}, []iface.Address{eth}, false},
		{"docker0", []int{0, 1}, []iface.Address{docker}, false},
		{"", []int{0, 1}, []iface.Address{lo}, false},
	} {
		spec, err := iface.Parse(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		cfg := &config{Job: &environ.Job{File: job.File{Host: "here", Size: 2, Hosts: c.hosts}}}
		cfg.parsed.Iface = spec
		n := &network{offered: c.offered, left: []iface.Address{eth}}
		err = n.reachesOthers(cfg)
		if (err != nil) != c.refused {
			t.Errorf("%s leaves %v on hosts %v: %v", c.spec, c.offered, c.hosts, err)
		}
		if err != nil && !strings.Contains(err.Error(), "left out are 10.0.0.1 (eth0: is excluded)") {
			t.Error(err)
		}
	}
}

// Only a rank on rank 0's host keeps off its port.
func TestSeedsPortIsKeptFree(t *testing.T) {
	for seed, want := range map[string]int{"10.0.0.1:7000": 7000, "127.0.0.1:7000": 7000, "10.0.0.2:7000": 0} {
		n := &network{offered: []iface.Address{{IP: ip("10.0.0.1"), Device: "eth0"}},
			seeds: []netip.AddrPort{netip.MustParseAddrPort(seed)}}
		if n.avoidSeedPort(); n.seedPort != want {
			t.Errorf("seed %s: port %d is kept free, want %d", seed, n.seedPort, want)
		}
	}
}
