package strict_test

import (
	"math"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/strict"
)

// Unmarshal accepts all that the library writes, and no truncated or longer input.
func TestUnmarshalTakesWhatTheLibraryWrites(t *testing.T) {
	type record struct {
		A int64
		B uint64
		C float64
		D string
		E []byte
		F []int
		G map[string]string
		H bool
		I float32
		J *int
	}
	rapid.Check(t, func(t *rapid.T) {
		in := record{
			A: rapid.Int64().Draw(t, "a"), B: rapid.Uint64().Draw(t, "b"), C: rapid.Float64().Draw(t, "c"),
			D: rapid.StringN(0, 70_000, 70_000).Draw(t, "d"),
			E: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "e"),
			F: rapid.SliceOfN(rapid.IntRange(math.MinInt32, math.MaxInt), 0, 40).Draw(t, "f"),
			G: rapid.MapOfN(rapid.String(), rapid.String(), 0, 20).Draw(t, "g"),
			H: rapid.Bool().Draw(t, "h"), I: 1.5,
		}
		b, err := msgpack.Marshal(&in)
		if err != nil {
			t.Fatal(err)
		}
		var out record
		if err := strict.Unmarshal(b, &out); err != nil {
			t.Fatal(err)
		}
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if strict.Unmarshal(b[:cut], &out) == nil {
			t.Fatalf("%d of %d bytes were enough", cut, len(b))
		}
		if strict.Unmarshal(append(b, 0xc0), &out) == nil {
			t.Fatal("a byte too many was taken")
		}
	})
}

func TestUnmarshalRefusesClaimsBeyondTheInput(t *testing.T) {
	for name, in := range map[string]string{
		"array of 2^32-1":   "\xdd\xff\xff\xff\xff",
		"array of 65535":    "\xdc\xff\xff\x01",
		"map of 2^32-1":     "\xdf\xff\xff\xff\xff",
		"string of 2^32-1":  "\xdb\xff\xff\xff\xffabc",
		"bytes of 2^32-1":   "\xc6\xff\xff\xff\xff",
		"extension, likely": "\xc9\xff\xff\xff\xff\x01",
		"unused first byte": "\xc1",
		"nested":            strings.Repeat("\x91", 2000) + "\x01",
		"nothing":           "",
	} {
		var v any
		if err := strict.Unmarshal([]byte(in), &v); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Text of other ranks is shown in one line, and truncated.
func TestPrintable(t *testing.T) {
	if got := strict.Printable("no\nport \x1b[2J\xff", 1000); got != "no port ?[2J?" {
		t.Errorf("%q", got)
	}
	if got := strict.Printable(strings.Repeat("x", 5000), 1000); len(got) != 1000 {
		t.Errorf("%d bytes", len(got))
	}
}
