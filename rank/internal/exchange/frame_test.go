package exchange

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func flat(f *frame) []byte { return bytes.Join(f.encode(), nil) }

func TestFramesComeBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 40).Draw(t, "size")
		f := &frame{
			kind:   rapid.ByteRange(1, 4).Draw(t, "kind"),
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
		"rank 8 of 8":                       {kind: leftFrame, rank: 8},
		"no frame of kind 0":                {},
		"no frame of kind 9":                {kind: 9},
		"step 3 with 1 blobs":               {kind: blobsFrame, step: 3, blobs: [][]byte{nil}},
		"step 1 with 1 blobs":               {kind: blobsFrame, step: 1, blobs: [][]byte{nil}},
		"no frame of kind 4 has 1038 bytes": {kind: brokenFrame, text: strings.Repeat("x", maxText+1)},
		"no frame of kind 5 has 14 bytes":   {kind: heartbeatFrame, text: "x"},
		"notice of kind 3 with step 1":      {kind: failedFrame, step: 1},
		"kind 5 with step 0 and number 1":   {kind: heartbeatFrame, number: 1},
	} {
		if _, err := readFrame(bytes.NewReader(flat(f)), 8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	huge := flat(&frame{kind: blobsFrame, blobs: [][]byte{nil}})
	binary.BigEndian.PutUint32(huge[len(huge)-4:], MaxBlob+2)
	if _, err := readFrame(bytes.NewReader(huge), 8); err == nil ||
		!strings.Contains(err.Error(), "blob of 67108866 bytes") {
		t.Errorf("error %v", err)
	}
}

// A length of 64 MiB that is followed by little data costs little memory.
func TestBlobGrowsWithWhatArrives(t *testing.T) {
	claim := flat(&frame{kind: blobsFrame, blobs: [][]byte{nil}})
	binary.BigEndian.PutUint32(claim[len(claim)-4:], MaxBlob)
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
	f.Add(flat(&frame{kind: pairsFrame, rank: 2, text: "\x82"}))
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
