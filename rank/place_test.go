//go:build linux

package rank

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/strict"
)

// goodIntroduction returns the largest introduction that is possible, encoded after a change.
func goodIntroduction(spoil func(i *introduction, m *meta)) []byte {
	m := goodMeta()
	m.Rank, m.Size = 0, 1
	i := introduction{Port: 65535, More: manyAddrs(1, m.More)}
	spoil(&i, &m)
	if i.Meta == nil {
		i.Meta = strict.Marshal(&m)
	}
	return strict.Marshal(&i)
}

func TestIntroductionThatCannotBeUsedIsRefused(t *testing.T) {
	good := goodIntroduction(func(*introduction, *meta) {})
	if len(good) > job.MaxBlob {
		t.Fatalf("the largest introduction has %d bytes, more than a message takes", len(good))
	}
	m, err := decodeIntroduction(good, 2, 3)
	if err != nil || m.Rank != 2 || m.Size != 3 || !m.joined() || len(m.offered()) != job.MaxAddresses {
		t.Fatalf("member %+v, error %v", m, err)
	}
	for want, b := range map[string][]byte{
		"introduction of 4097 bytes": make([]byte, job.MaxBlob+1),
		"introduction: ":             good[:len(good)-1],
		"metadata: ":                 goodIntroduction(func(i *introduction, _ *meta) { i.Meta = []byte{1} }),
		"version 7":                  goodIntroduction(func(_ *introduction, m *meta) { m.Version = 7 }),
		"with port 0 ":               goodIntroduction(func(i *introduction, _ *meta) { i.Port = 0 }),
		"with port 65536 ":           goodIntroduction(func(i *introduction, _ *meta) { i.Port = 65536 }),
		"47 of 48 more addresses":    goodIntroduction(func(i *introduction, _ *meta) { i.More = i.More[1:] }),
		"49 of 48 more addresses":    goodIntroduction(func(i *introduction, _ *meta) { i.More = append(i.More, i.More[0]) }),
		"invalid addresses":          goodIntroduction(func(i *introduction, _ *meta) { i.More[3] = netip.Addr{} }),
	} {
		if _, err := decodeIntroduction(b, 0, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// An introduction that is read is of the rank that it is for, and has no more addresses than a host offers.
func FuzzDecodeIntroduction(f *testing.F) {
	f.Add(goodIntroduction(func(*introduction, *meta) {}))
	f.Add(goodIntroduction(func(i *introduction, m *meta) { m.More, i.More = 0, nil }))
	f.Add(goodIntroduction(func(i *introduction, _ *meta) { i.Port = -1 }))
	f.Add([]byte("\x83\xa4Meta\xc6\xff\xff\xff\xff\xa4Port\x01\xa4More\xc0"))
	f.Add([]byte("\x83\xa4Meta\xc4\x00\xa4Port\x01\xa4More\xdd\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := decodeIntroduction(in, 1, 3)
		if err == nil && (m.Rank != 1 || m.Size != 3 || m.port == 0 || !m.joined() || len(m.offered()) > job.MaxAddresses) {
			t.Fatalf("%x was read as %+v", in, m)
		}
	})
}
