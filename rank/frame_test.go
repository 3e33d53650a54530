package rank

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/memberlist"
	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/strict"
)

func flat(f *frame) []byte { return bytes.Join(f.encode(), nil) }

func TestFramesComeBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 40).Draw(t, "size")
		f := &frame{
			kind:   frameKind(rapid.IntRange(1, 4).Draw(t, "kind")),
			rank:   rapid.IntRange(0, size-1).Draw(t, "rank"),
			number: rapid.Uint64().Draw(t, "number"),
		}
		if f.kind == blobsFrame {
			f.step = rapid.IntRange(0, stepsOf(size)-1).Draw(t, "step")
			for range blobsIn(f.step, size) {
				f.blobs = append(f.blobs, rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "blob"))
			}
		} else {
			f.text = rapid.StringN(0, -1, maxText).Draw(t, "text")
		}
		r := iotest.HalfReader(bytes.NewReader(append(flat(f), flat(f)...)))
		for range 2 {
			got, err := readFrame(r, size)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(f, got, cmp.AllowUnexported(frame{})); d != "" {
				t.Fatal(d)
			}
		}
		if _, err := readFrame(r, size); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
		cut := rapid.IntRange(1, len(flat(f))-1).Draw(t, "cut")
		if _, err := readFrame(bytes.NewReader(flat(f)[:cut]), size); err != io.ErrUnexpectedEOF {
			t.Fatalf("cut after %d bytes: %v", cut, err)
		}
	})
}

func TestFramesThatDoNotFitAreRefused(t *testing.T) {
	for want, f := range map[string]*frame{
		"rank 8 of 8":            {kind: leftFrame, rank: 8},
		"unknown frame kind 0":   {},
		"unknown frame kind 9":   {kind: 9},
		"step 3 with 1 blobs":    {kind: blobsFrame, step: 3, blobs: [][]byte{nil}},
		"step 1 with 1 blobs":    {kind: blobsFrame, step: 1, blobs: [][]byte{nil}},
		"a text of 1025 bytes":   {kind: brokenFrame, text: strings.Repeat("x", maxText+1)},
		"a text of 0 bytes and ": {kind: failedFrame, step: 1},
	} {
		if _, err := readFrame(bytes.NewReader(flat(f)), 8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	huge := flat(&frame{kind: blobsFrame, blobs: [][]byte{nil}})
	binary.BigEndian.PutUint32(huge[frameHeader:], MaxBlob+2)
	if _, err := readFrame(bytes.NewReader(huge), 8); err == nil ||
		!strings.Contains(err.Error(), "blob of 67108866 bytes") {
		t.Errorf("error %v", err)
	}
}

// A claim of 64 MiB that is followed by little costs little.
func TestBlobGrowsWithWhatArrives(t *testing.T) {
	claim := flat(&frame{kind: blobsFrame, blobs: [][]byte{nil}})
	binary.BigEndian.PutUint32(claim[frameHeader:], MaxBlob)
	claim = append(claim, 1, 2, 3)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 20
	for range times {
		if _, err := readFrame(bytes.NewReader(claim), 8); err != io.ErrUnexpectedEOF {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / times; n > 2<<20 {
		t.Errorf("%d bytes allocated for 3", n)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(flat(&frame{kind: blobsFrame, rank: 1, number: 1, blobs: [][]byte{[]byte("abc")}}))
	f.Add(flat(&frame{kind: blobsFrame, step: 2, blobs: [][]byte{nil, {1}, {2, 3}, nil}}))
	f.Add(flat(&frame{kind: leftFrame, rank: 2, number: 9}))
	f.Add(flat(&frame{kind: failedFrame, rank: 2, text: "killed by SIGKILL"}))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		for {
			before := r.Len()
			fr, err := readFrame(r, 8)
			if err != nil {
				return
			}
			was := in[len(in)-before : len(in)-r.Len()]
			if !bytes.Equal(flat(fr), was) {
				t.Fatalf("%x was read as %x", was, flat(fr))
			}
		}
	})
}

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
