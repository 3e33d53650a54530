//go:build linux

package netconn

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/testutil"
)

func placeOf(text string) place {
	addr, subnet, found := strings.Cut(text, "/")
	p := place{Addr: netip.MustParseAddr(addr), Port: 1}
	if found {
		p.subnet = netip.MustParsePrefix(addr + "/" + subnet).Masked()
	}
	return p
}

func places(text string) (list []place) {
	for i, f := range strings.Fields(text) {
		list = append(list, placeOf(f))
		list[i].Port = uint16(i) // its number
	}
	return list
}

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		own, theirs string
		sameHost    bool
		want        string
	}{
		{"10.0.0.1/24", "10.0.0.2", false, "0>0"},
		{"10.0.0.1/24 10.1.0.1/24", "10.0.0.2 10.1.0.2", false, "0>0 1>1 1>0 0>1"}, // each network by itself first
		{"10.0.0.1/24 10.1.0.1/24", "10.1.0.2 10.0.0.2", false, "1>0 0>1 0>0 1>1"}, // the peer's order counts
		{"10.0.0.1/24", "192.168.0.1 10.0.0.2", false, "0>1 0>0"},                  // near before far
		{"10.0.0.1 fd00::1", "fd00::2 10.0.0.2", false, "1>0 0>1"},                 // families do not mix
		{"127.0.0.1 10.0.0.1", "127.0.0.1 10.0.0.2", false, "1>1"},                 // loopback is not a network
		{"127.0.0.1", "127.0.0.2", true, "0>0"},                                    // except within a host
		{"fe80::1 fd00::1", "fe80::2 fd00::2", false, "0>0 1>1"},                   // nor do scopes mix
		{"10.0.0.1 172.17.0.1", "172.17.0.1 10.0.0.2", false, "0>1 1>1"},           // a bridge that every host has
		{"10.0.0.1", "10.0.0.1", true, "0>0"},
		{"127.0.0.1", "127.0.0.2", false, ""},
		{"", "10.0.0.1", false, ""},
		{"10.0.0.1", "", false, ""},
	} {
		var got []string
		for _, p := range paths(places(c.own), places(c.theirs), c.sameHost) {
			got = append(got, fmt.Sprintf("%d>%d", p.from.Port, p.at.Port))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s -> %s: %s, want %s", c.own, c.theirs, s, c.want)
		}
	}
}

// Every address that can be reached at all is tried from some own address, and no path is tried twice.
func TestPathsLeaveNothingOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) []place {
			texts := rapid.SliceOfN(rapid.SampledFrom([]string{
				"10.0.0.1/8", "10.9.9.9/24", "192.168.1.1/24", "172.16.0.1", "fd00::1/64", "fd01::1/64", "fe80::1/64",
				"127.0.0.1/8", "::1/128",
			}), 0, 6).Draw(t, name)
			return places(strings.Join(texts, " "))
		}
		own, theirs, same := draw("own"), draw("theirs"), rapid.Bool().Draw(t, "same host")
		got := paths(own, theirs, same)
		seen := map[[2]uint16]bool{}
		reached := map[int]bool{}
		for _, p := range got {
			if seen[[2]uint16{p.from.Port, p.at.Port}] || !suits(p.from, p.at, same) {
				t.Fatalf("path %+v", p)
			}
			seen[[2]uint16{p.from.Port, p.at.Port}] = true
			reached[int(p.at.Port)] = true
		}
		for j, at := range theirs {
			for _, from := range own {
				twice := !same && slices.ContainsFunc(own, func(p place) bool { return p.Addr == at.Addr })
				if suits(from, at, same) && !reached[j] && !twice {
					t.Fatalf("%v is not tried from %v", at.Addr, from.Addr)
				}
			}
		}
		if len(got) > maxPaths {
			t.Fatalf("%d paths", len(got))
		}
	})
}

// Both address families are used at once; and connections use IPv6 if there is nothing else.
func TestSixth(t *testing.T) {
	ln, err := net.Listen("tcp", "[::1]:0")
	testutil.Need(t, testutil.IPv6, err)
	ln.Close()
	for _, own := range []string{"::1", "::1 127.0.0.1"} {
		meshes := mustConnect(t, 3, func(cfg *Config) { cfg.Listen = addrs(strings.Fields(own)...) })
		talk(t, meshes)
		if c := meshes[0].Conn(1); own == "::1" &&
			(!strings.HasPrefix(c.RemoteAddr().String(), "[::1]:") || c.Device() != "lo") {
			t.Errorf("%s over %q", c.RemoteAddr(), c.Device())
		}
	}
}

// Ports are within the given range, and ranks of one host share the range.
func TestPortRange(t *testing.T) {
	const size = 4
	lo := 0
	var found []netip.AddrPort
	for range 100 { // ports of other programs may lie there
		lo = testutil.FreePorts(2 * size)
		meshes, errs := connect(t, size, func(cfg *Config) {
			cfg.Listen = addrs("127.0.0.1", "127.0.0.2")
			cfg.Ports = PortRange{Lo: lo, Hi: lo + 2*size - 1}
			if cfg.Rank == 0 {
				onOffers(cfg, func(all []offer) { found = doors(all) })
			}
		})
		if errs[0] == nil {
			talk(t, meshes)
			break
		}
		if !strings.Contains(errs[0].Error(), "are taken (hint: --port-range") {
			t.Fatal(errs[0])
		}
	}
	if len(found) != 2*size {
		t.Errorf("ports %v", found)
	}
	for _, at := range found {
		if int(at.Port()) < lo || int(at.Port()) >= lo+2*size {
			t.Errorf("%v is not within %d-%d", at, lo, lo+2*size-1)
		}
	}
}

// If the range has no free port, the error names the range.
func TestPortRangeIsFull(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	_, errs := connect(t, 2, func(cfg *Config) {
		cfg.Listen = addrs("127.0.0.1")
		cfg.Ports = PortRange{Lo: port, Hi: port}
	})
	want := fmt.Sprintf("rank 1: listening at 127.0.0.1: all ports from %d to %d are taken", port, port)
	if errs[0] == nil || !strings.Contains(errs[0].Error(), want) {
		t.Errorf("error %v", errs[0])
	}
}

// A rank without peers neither listens nor dials, but takes part in the exchanges.
func TestPeers(t *testing.T) {
	linked := func(a, b int) bool { return a != 3 && b != 3 && (a+b)%2 == 1 }
	var offered []offer
	meshes := mustConnect(t, 5, func(cfg *Config) {
		self := cfg.Rank
		cfg.Peers = func(r int) bool { return linked(self, r) }
		if self == 3 {
			cfg.Listen = nil
			onOffers(cfg, func(all []offer) { offered = all })
		}
	})
	talk(t, meshes)
	for r, m := range meshes {
		for p := range meshes {
			if got := m.Conn(p) != nil; got != (p != r && linked(r, p)) {
				t.Errorf("ranks %d and %d: connected %t", r, p, got)
			}
		}
	}
	if len(offered[3].Places) != 0 || len(offered[2].Places) != 2 {
		t.Errorf("offers %+v", offered)
	}
}

func TestAlone(t *testing.T) {
	if m := mustConnect(t, 1, nil)[0]; len(m.Peers()) != 0 {
		t.Errorf("peers %v", m.Peers())
	}
}

// An address that this host does not have is left out if there is another.
func TestAddressThatWentAway(t *testing.T) {
	var log logs
	talk(t, mustConnect(t, 2, func(cfg *Config) {
		cfg.Log = log.logger()
		cfg.Listen = append(addrs("192.0.2.77"), cfg.Listen...)
	}))
	if n := len(log.lines("an address is left out")); n != 2 || len(log.lines("")) != 2 {
		t.Errorf("log:\n%s", &log.all)
	}
}
