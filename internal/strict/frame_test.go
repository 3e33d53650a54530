package strict

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"
)

var someSizes = FrameSizes{1: {0, 0}, 2: {1, 4}, 0xff: {8, 1 << 40}}

// frameOf returns an encoded frame.
func frameOf(kind byte, body string) []byte { return append(AppendHead(nil, kind, len(body)), body...) }

func TestFramesComeBackAsWritten(t *testing.T) {
	bodies := []string{"", "abcd", "ABCDEFGH"}
	r := bytes.NewReader(slices.Concat(frameOf(1, bodies[0]), frameOf(2, bodies[1]), frameOf(0xff, bodies[2])))
	for i, want := range []byte{1, 2, 0xff} {
		if kind, body, err := ReadFrame(r, someSizes); err != nil || kind != want || string(body) != bodies[i] {
			t.Errorf("kind %d with %q, %v, want kind %d with %q", kind, body, err, want, bodies[i])
		}
	}
	if _, _, err := ReadFrame(r, someSizes); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// An invalid head is refused before the body is read, and a truncated frame is not reported as the end.
func TestFramesThatCannotBe(t *testing.T) {
	for name, head := range map[string][]byte{
		"no kind": AppendHead(nil, 0, 0), "unknown kind": AppendHead(nil, 3, 0), "too short": AppendHead(nil, 2, 0),
		"too long": AppendHead(nil, 2, 5), "none expected": AppendHead(nil, 1, 1), "longest": AppendHead(nil, 0xff, 1<<56-1),
	} {
		r := bytes.NewReader(append(head, "xxxxx"...))
		if _, _, err := ReadFrame(r, someSizes); err == nil || r.Len() != 5 {
			t.Errorf("%s: %v, %d bytes are left, want an error and 5", name, err, r.Len())
		}
	}
	whole := frameOf(2, "abcd")
	for n := 1; n < len(whole); n++ {
		if _, _, err := ReadFrame(bytes.NewReader(whole[:n]), someSizes); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
}

// A head that claims a large body which is followed by few bytes costs little memory.
func TestBodyGrowsWithWhatArrives(t *testing.T) {
	claim := append(AppendHead(nil, 0xff, 1<<40), 1, 2, 3)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := ReadFrame(bytes.NewReader(claim), someSizes); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
		t.Errorf("%d bytes allocated for 3", n)
	}
}

// FuzzReadFrame: an accepted frame has a valid size, and is encoded again to the same bytes.
func FuzzReadFrame(f *testing.F) {
	f.Add(append(frameOf(1, ""), frameOf(2, "abcd")...))
	f.Add(frameOf(0xff, "ABCDEFGH"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		for r := bytes.NewReader(in); ; {
			was := in[len(in)-r.Len():]
			kind, body, err := ReadFrame(r, someSizes)
			if err != nil {
				return
			}
			if size := someSizes[kind]; len(body) < size[0] || len(body) > size[1] {
				t.Fatalf("kind %d with %d bytes", kind, len(body))
			}
			if back := frameOf(kind, string(body)); !bytes.HasPrefix(was, back) {
				t.Fatalf("%x was read as %x", was, back)
			}
		}
	})
}
