//go:build linux

package rank

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/rank/internal/environ"
)

// goodMeta is the largest metadata that is possible.
func goodMeta() meta {
	m := meta{
		Version: metaVersion, Rank: 65535, Size: 65536, Host: strings.Repeat("h", maxHostID),
		Name: strings.Repeat("n", maxHostName), PID: 1 << 22, Space: 1<<64 - 1,
	}
	m.More = job.MaxAddresses - metaAddrs
	for i := range metaAddrs {
		m.Addrs = append(m.Addrs, netip.AddrFrom16([16]byte{0xfd, 15: byte(i + 1)}))
	}
	return m
}

func TestMetadataThatCannotBeUsedIsRefused(t *testing.T) {
	for want, spoil := range map[string]func(m *meta){
		"version 7":         func(m *meta) { m.Version = 7 },
		"rank 4 of 4":       func(m *meta) { m.Rank, m.Size = 4, 4 },
		"rank -1 of 4":      func(m *meta) { m.Rank, m.Size = -1, 4 },
		"rank 0 of 0":       func(m *meta) { m.Rank, m.Size = 0, 0 },
		"rank 0 of 65537":   func(m *meta) { m.Rank, m.Size = 0, 65537 },
		"identity of 0 ":    func(m *meta) { m.Host = "" },
		"identity of 65 ":   func(m *meta) { m.Host += "h" },
		"host name of 0 ":   func(m *meta) { m.Name = "" },
		"host name of 65 ":  func(m *meta) { m.Name += "n" },
		"at most 512 are ":  func(m *meta) { m.Host = strings.Repeat("h", 600) },
		"process -1":        func(m *meta) { m.PID = -1 },
		"0 addresses":       func(m *meta) { m.Addrs = nil },
		"17 addresses":      func(m *meta) { m.Addrs = append(m.Addrs, m.Addrs[0]) },
		"49 more addresses": func(m *meta) { m.More = 49 },
		"-1 more addresses": func(m *meta) { m.More = -1 },
		"invalid":           func(m *meta) { m.Addrs[0] = netip.IPv4Unspecified() },
		"invalid addresses": func(m *meta) { m.Addrs[0] = netip.Addr{} },
		"invalid address":   func(m *meta) { m.Addrs[1] = netip.MustParseAddr("fe80::1%eth0") },
	} {
		m := goodMeta()
		spoil(&m)
		if _, err := decodeMeta(strict.Marshal(&m)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	m := goodMeta()
	if b := strict.Marshal(&m); len(b) > memberlist.MetaMaxSize {
		t.Fatalf("the largest metadata has %d bytes, more than memberlist takes", len(b))
	} else if _, err := decodeMeta(b); err != nil {
		t.Fatal(err)
	}
}

func FuzzDecodeMeta(f *testing.F) {
	m := goodMeta()
	b := strict.Marshal(&m)
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte("\x81\xa4Host\xdb\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := decodeMeta(in)
		if err == nil && (m.Rank < 0 || m.Rank >= m.Size || len(m.Host) > maxHostID) {
			t.Fatalf("%x was read as %+v", in, m)
		}
	})
}

// manyAddrs returns n addresses of IPv6, that of a host.
func manyAddrs(host, n int) (all []netip.Addr) {
	for i := range n {
		all = append(all, netip.AddrFrom16([16]byte{0xfd, 1: byte(host), 15: byte(i + 1)}))
	}
	return all
}

func FuzzDecodeMore(f *testing.F) {
	b := strict.Marshal(more{0: manyAddrs(1, 48), 3: manyAddrs(2, 1)})
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add(strict.Marshal(more{1: manyAddrs(1, 65)}))
	f.Add(strict.Marshal(more{-1: manyAddrs(1, 1)}))
	f.Add([]byte("\xdf\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		all, err := decodeMore(in, 4)
		for r, addrs := range all {
			if err != nil || r < 0 || r >= 4 || len(addrs) > job.MaxAddresses {
				t.Fatalf("%x was read as %+v, %v", in, all, err)
			}
		}
	})
}

// TestMoreAddresses: ranks exchange up to 64 addresses in random orders; a rank has joined once all of its addresses
// are known, and is looked for at each of them that this host does not have.
func TestMoreAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 5
		var all [size]*members
		counts := rapid.SliceOfN(rapid.SampledFrom([]int{1, 16, 17, 40, 64}), 3, 3).Draw(t, "addresses of hosts")
		nodes := make([]*memberlist.Node, size)
		for r := range all {
			host := r % 3
			m := newMembers(&config{Job: &environ.Job{File: job.File{Rank: r, Size: size, Host: "h"}},
				options: options{log: slog.Default()}, hostID: fmt.Sprint("host", host)}, nil)
			m.offer(manyAddrs(host, counts[host]))
			m.own = manyAddrs(host, counts[host])
			nodes[r] = &memberlist.Node{Name: fmt.Sprint(r), Meta: m.NodeMeta(0), Addr: net.IPv4(127, 0, 0, 1), Port: 7}
			if err := m.NotifyAlive(nodes[r]); err != nil || len(m.absent()) != size-1 {
				t.Fatalf("%v, absent %v", err, m.absent())
			}
			all[r] = m
		}
		swap := func(to, from int) {
			state := all[from].LocalState(true)
			for r := range size {
				if all[from].entry(r).port != 0 {
					if err := all[to].NotifyAlive(nodes[r]); err != nil {
						t.Fatal(err)
					}
				}
			}
			all[to].MergeRemoteState(state, true)
		}
		for range rapid.IntRange(0, 20).Draw(t, "exchanges") {
			swap(rapid.IntRange(0, size-1).Draw(t, "to"), rapid.IntRange(0, size-1).Draw(t, "from"))
		}
		for r := 1; r < size; r++ {
			swap(0, r)
		}
		for r := range size {
			swap(r, 0)
			if len(all[r].absent()) > 0 {
				t.Fatalf("rank %d: absent %v", r, all[r].absent())
			}
			<-all[r].complete
			for to := range size {
				var want []netip.AddrPort
				for _, a := range manyAddrs(to%3, counts[to%3]) {
					want = append(want, netip.AddrPortFrom(a, 7))
				}
				if got := all[r].addresses(to); !slices.Equal(got, want) {
					t.Fatalf("rank %d looks for rank %d at %v, want %v", r, to, got, want)
				}
			}
		}
	})
}

// TestWhereBothHostsAre: an address that this host has, too, is tried last while the other's host is not known, and is
// not tried once it is known to be another.
func TestWhereBothHostsAre(t *testing.T) {
	ports := func(list ...string) (all []netip.AddrPort) {
		for _, a := range list {
			all = append(all, netip.AddrPortFrom(netip.MustParseAddr(a), 7))
		}
		return all
	}
	m := newMembers(&config{Job: &environ.Job{File: job.File{Rank: 1, Size: 2, Host: "b"}},
		options: options{log: slog.Default()}, hostID: "b"}, nil)
	m.own = []netip.Addr{netip.MustParseAddr("192.168.100.1"), netip.MustParseAddr("10.0.0.2")}
	m.seeds = ports("192.168.100.1", "10.0.0.1")
	if got := m.addresses(0); !slices.Equal(got, ports("10.0.0.1", "192.168.100.1")) {
		t.Errorf("before rank 0 has joined: %v", got)
	}
	for host, want := range map[string][]netip.AddrPort{
		"a": ports("10.0.0.1"), "b": ports("192.168.100.1", "10.0.0.1"),
	} {
		m.table[0] = member{port: 7, meta: meta{Host: host, Addrs: []netip.Addr{m.own[0], netip.MustParseAddr("10.0.0.1")}}}
		if got := m.addresses(0); !slices.Equal(got, want) {
			t.Errorf("rank 0 on host %s, this one is b: %v", host, got)
		}
	}
}

// TestMetadataOfEveryMember: a member without metadata is no rank, and the metadata of a member admits no rank under
// another name.
func TestMetadataOfEveryMember(t *testing.T) {
	mine := goodMeta()
	mine.Rank, mine.Size = 1, 3
	m := &members{self: meta{Size: 3}, log: slog.Default(), table: make([]member, 3)}
	encoded := strict.Marshal(&mine)
	for _, c := range []struct {
		name string
		meta []byte
		ok   bool
	}{{"1", nil, false}, {"1", []byte{}, false}, {"1", encoded, true}, {"1", encoded, true}, {"+1", encoded, false},
		{"01", encoded, false}, {"2", encoded, false}, {"2", nil, false}, {"3", encoded, false}, {"-1", encoded, false}} {
		err := m.NotifyAlive(&memberlist.Node{Name: c.name, Meta: c.meta, Addr: net.IPv4(127, 0, 0, 1), Port: 7})
		if (err == nil) != c.ok {
			t.Errorf("node %q with %d bytes of metadata: %v", c.name, len(c.meta), err)
		}
	}
}
