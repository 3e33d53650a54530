package rank

import (
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"

	"github.com/treerun/treerun/internal/strict"
)

// goodMeta is the largest metadata that is possible.
func goodMeta() meta {
	m := meta{
		Version: metaVersion, Rank: 65535, Size: 65536, Host: strings.Repeat("h", maxHostID),
		Name: strings.Repeat("n", maxHostName), PID: 1 << 22, Space: 1<<64 - 1,
	}
	for i := range maxAddrs {
		m.Addrs = append(m.Addrs, netip.AddrFrom16([16]byte{0xfd, 15: byte(i + 1)}))
	}
	return m
}

func TestMetadataThatCannotBeUsedIsRefused(t *testing.T) {
	for want, spoil := range map[string]func(m *meta){
		"version 7":          func(m *meta) { m.Version = 7 },
		"rank 4 of 4":        func(m *meta) { m.Rank, m.Size = 4, 4 },
		"rank -1 of 4":       func(m *meta) { m.Rank, m.Size = -1, 4 },
		"rank 0 of 0":        func(m *meta) { m.Rank, m.Size = 0, 0 },
		"rank 0 of 65537":    func(m *meta) { m.Rank, m.Size = 0, 65537 },
		"identity of 0 ":     func(m *meta) { m.Host = "" },
		"identity of 65 ":    func(m *meta) { m.Host += "h" },
		"host name of 0 ":    func(m *meta) { m.Name = "" },
		"host name of 65 ":   func(m *meta) { m.Name += "n" },
		"at most 512 are ":   func(m *meta) { m.Host = strings.Repeat("h", 600) },
		"process -1":         func(m *meta) { m.PID = -1 },
		"0 addresses":        func(m *meta) { m.Addrs = nil },
		"17 addresses":       func(m *meta) { m.Addrs = append(m.Addrs, m.Addrs[0]) },
		"make no sense":      func(m *meta) { m.Addrs[0] = netip.IPv4Unspecified() },
		"that make no sense": func(m *meta) { m.Addrs[0] = netip.Addr{} },
		"addresses that":     func(m *meta) { m.Addrs[1] = netip.MustParseAddr("fe80::1%eth0") },
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

// TestMetadataOfEveryMember: a member that says nothing of itself is none, and what one has said lets nobody in under
// another name.
func TestMetadataOfEveryMember(t *testing.T) {
	mine := goodMeta()
	mine.Rank, mine.Size = 1, 3
	m := &members{self: meta{Size: 3}, log: slog.Default(), table: make([]member, 3)}
	said := strict.Marshal(&mine)
	for _, c := range []struct {
		name string
		meta []byte
		ok   bool
	}{{"1", nil, false}, {"1", []byte{}, false}, {"1", said, true}, {"1", said, true}, {"+1", said, false},
		{"01", said, false}, {"2", said, false}, {"2", nil, false}, {"3", said, false}, {"-1", said, false}} {
		err := m.NotifyAlive(&memberlist.Node{Name: c.name, Meta: c.meta, Addr: net.IPv4(127, 0, 0, 1), Port: 7})
		if (err == nil) != c.ok {
			t.Errorf("node %q with %d bytes of metadata: %v", c.name, len(c.meta), err)
		}
	}
}
